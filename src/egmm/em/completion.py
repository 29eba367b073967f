"""First estimates from rows with missing cells: moments of observed cells, and completed rows for starts."""

from functools import partial
from typing import NamedTuple, Self

import numpy as np

from egmm._checks import LARGEST, FloatArray
from egmm.em.patterns import groups_of
from egmm.em.statistics import Moments, moments
from egmm.rows.source import RowSource, UnusableRowsError

LEAST_CORRELATION = 1e-3
"""Lower bound of the eigenvalues of a correlation matrix estimated from pairs of cells, which may be indefinite."""


class DataMoments(NamedTuple):
    """Moments of rows, some of which may have missing cells."""

    whole: Moments
    """Moments of all rows, with estimated missing cells. The weight is that of rows with at least one cell."""
    complete: Moments
    """Moments of rows without missing cells, about the same centre; equal to `whole` if no cell is missing."""

    @property
    def has_missing(self) -> bool:
        """Whether any cell is missing."""
        return self.complete is not self.whole

    def about(self, centre: FloatArray) -> "DataMoments":
        """Return the moments about another centre."""
        whole = self.whole.about(centre)
        return DataMoments(whole, self.complete.about(centre) if self.has_missing else whole)


def data_moments(rows: RowSource, *, diagonal: bool, needs_all: bool = True) -> DataMoments:
    """Moments of rows; two more passes where cells are missing.

    Unless it `needs_all`, a column may be without any value: its mean and variance are then zero.

    Raises
    ------
    UnusableRowsError
        Where an entry is infinite or too large.
    ValueError
        Where a column has no value at all.
    """
    with np.errstate(all="ignore"):
        found = rows.reduce(partial(moments, diagonal=diagonal))
        if np.isfinite(found.scatter).all():
            return DataMoments(found, found)
        known = rows.reduce(partial(known_moments, diagonal=diagonal))
    if not np.isfinite(known.squares).all():
        raise UnusableRowsError("X contains values that are too large to square; rescale it.")
    if not (known.counts > 0).any():
        raise ValueError("X has no value in any row with positive weight: all cells are missing (NaN).")
    if needs_all and not (known.counts > 0).all():
        raise EmptyColumnError(int(known.counts.argmin()))
    variances = known.squares / np.where(known.counts > 0, known.counts, 1.0)
    scatter = known.weight * variances
    if not diagonal:
        pairs = rows.reduce(partial(pair_products, centre=known.centre))
        scatter = known.weight * _covariance_of(pairs, variances)
    whole = Moments(known.weight, known.centre, scatter)
    return DataMoments(whole, known.complete.about(known.centre))


class EmptyColumnError(ValueError):
    """A column has no value."""

    def __init__(self, column: int, name: str = "") -> None:
        super().__init__(
            f"Column {column}{f' ({name!r})' if name else ''} of X has no value in rows with positive weight; drop it."
        )
        self.column = column

    def named(self, name: str) -> "EmptyColumnError":
        """The error with the column's name."""
        return EmptyColumnError(self.column, name)


class KnownMoments(NamedTuple):
    """Moments of the observed cells of each column, and of the complete rows."""

    weight: float
    """Weight of the rows with at least one cell."""
    counts: FloatArray
    """(D,) weight of the rows that have the cell."""
    centre: FloatArray
    """(D,) means of the observed cells."""
    squares: FloatArray
    """(D,) sums of squares about them."""
    complete: Moments

    def plus(self, other: Self) -> "KnownMoments":
        """Return the moments of both sets of rows together."""
        counts = self.counts + other.counts
        share = np.divide(other.counts, counts, out=np.zeros_like(counts), where=counts > 0)
        step = other.centre - self.centre
        squares = self.squares + other.squares + step**2 * share * self.counts
        complete = self.complete.plus(other.complete)
        return KnownMoments(self.weight + other.weight, counts, self.centre + share * step, squares, complete)


def known_moments(X: FloatArray, sample_weight: FloatArray | None, *, diagonal: bool) -> KnownMoments:
    """Moments of the observed cells of a block; squares are NaN where an entry cannot be used."""
    is_observed = ~np.isnan(X)
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    complete = is_observed.all(axis=1)
    if complete.any():
        whole = moments(X[complete], None if sample_weight is None else weight[complete], diagonal=diagonal)
    else:
        dim = X.shape[1]
        whole = Moments(0.0, np.zeros(dim), np.zeros(dim if diagonal else (dim, dim)))
    counts = weight @ is_observed
    if not (np.abs(X) < LARGEST)[is_observed].all():
        unknown = np.full(X.shape[1], np.nan)
        return KnownMoments(float(weight.sum()), counts, np.zeros(X.shape[1]), unknown, whole)
    divisors = np.where(counts > 0, counts, 1.0)
    rows = np.where(is_observed, X, 0.0)
    centre = (weight @ rows) / divisors
    offsets = np.where(is_observed, rows - centre, 0.0)
    # A second pass removes the round-off of the mean.
    shift = (weight @ offsets) / divisors
    offsets = np.where(is_observed, offsets - shift, 0.0)
    with_cells = float(weight[is_observed.any(axis=1)].sum())
    return KnownMoments(with_cells, counts, centre + shift, weight @ offsets**2, whole)


class PairProducts(NamedTuple):
    """Sums over rows that have both cells."""

    counts: FloatArray
    """(D, D)."""
    sums: FloatArray
    """(D, D) products about the centre."""

    def plus(self, other: Self) -> "PairProducts":
        """Return the products of both sets of rows together."""
        return PairProducts(self.counts + other.counts, self.sums + other.sums)


def pair_products(X: FloatArray, sample_weight: FloatArray | None, *, centre: FloatArray) -> PairProducts:
    """Products of observed cells of a block."""
    is_observed = ~np.isnan(X)
    offsets = np.where(is_observed, X - centre, 0.0)
    known = is_observed.astype(np.float64)
    weight = 1.0 if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[:, None]
    return PairProducts(known.T @ (known * weight), offsets.T @ (offsets * weight))


def _covariance_of(pairs: PairProducts, variances: FloatArray) -> FloatArray:
    """Covariance (D, D) from pairs of cells, made positive definite."""
    deviations = np.sqrt(np.where(variances > 0, variances, 1.0))
    correlation = pairs.sums / np.maximum(pairs.counts, 1e-300) / deviations / deviations[:, None]
    correlation = np.where(pairs.counts > 0, np.clip(correlation, -1.0, 1.0), 0.0)
    np.fill_diagonal(correlation, 1.0)
    values, axes = np.linalg.eigh(correlation)
    if values[0] < LEAST_CORRELATION:
        correlation = (axes * np.maximum(values, LEAST_CORRELATION)) @ axes.T
        unit = np.sqrt(np.diagonal(correlation))
        correlation = correlation / unit / unit[:, None]
    return np.asarray(correlation * np.sqrt(variances) * np.sqrt(variances)[:, None])


class Completion(NamedTuple):
    """A single Gaussian that completes rows for starts, where an approximation is enough."""

    means: FloatArray
    """(D,)."""
    covariance: FloatArray
    """(D, D), or (D,) if features are treated as independent."""

    @classmethod
    def of(cls, total: Moments) -> "Completion":
        """The Gaussian of the rows' moments."""
        return cls(total.centre, total.scatter / total.weight)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Replace missing cells by their conditional expectation under the Gaussian.

        >>> one = Completion(np.array([1.0, 2.0]), np.array([[1.0, 0.5], [0.5, 1.0]]))
        >>> one(np.array([[np.nan, 4.0], [3.0, 3.0]]))
        array([[2., 4.], [3., 3.]])
        """
        is_missing = np.isnan(X)
        if not is_missing.any():
            return X
        rows = np.where(is_missing, self.means, X)
        if self.covariance.ndim == 1:
            return rows
        for group in groups_of(is_missing):
            missing, observed = np.flatnonzero(group.is_missing), np.flatnonzero(~group.is_missing)
            if not len(missing) or not len(observed):
                continue
            # Features that others determine, or that are constant, have no unique regression: the shortest will do.
            within = np.linalg.pinv(self.covariance[observed[:, None], observed], rcond=1e-10, hermitian=True)
            slopes = self.covariance[missing[:, None], observed] @ within
            offsets = rows[group.rows[:, None], observed] - self.means[observed]
            rows[group.rows[:, None], missing] += offsets @ slopes.T
        return rows
