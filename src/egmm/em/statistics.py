"""Results of passes over the rows: small arrays that add."""

from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._arrays import NUMPY, beside, namespace
from egmm._checks import FloatArray, IntArray, are_usable

TINY = float(np.finfo(np.float64).tiny)

LINEAR, DIAGONAL, FULL = "linear", "diagonal", "full"
"""Kinds of monomials: (1, x_d) where one covariance serves all clusters, with x_d^2, with all products x_d x_e."""


@cache
def products(dim: int, kind: str) -> tuple[IntArray, IntArray]:
    """Pairs (d, e) of features whose products are monomials of this kind."""
    if kind == LINEAR:
        return np.empty(0, dtype=int), np.empty(0, dtype=int)
    if kind == DIAGONAL:
        return np.arange(dim), np.arange(dim)
    first, second = np.triu_indices(dim)
    return first, second


def monomials(rows: FloatArray, kind: str) -> FloatArray:
    """z(x) = (1, x_d, x_d x_e) of each row, (n, F).

    >>> monomials(np.array([[2.0, 3.0]]), "full")
    array([[1., 2., 3., 4., 6., 9.]])
    """
    dim = rows.shape[1]
    first, second = products(dim, kind)
    xp = namespace(rows)
    if xp is not NUMPY:
        pairs = [xp.take(rows, beside(rows, at), axis=1) for at in (first, second)]
        return xp.concat([xp.ones_like(rows[:, :1]), rows, pairs[0] * pairs[1]], axis=1)
    result = np.empty((len(rows), 1 + dim + len(first)))
    result[:, 0] = 1.0
    result[:, 1 : 1 + dim] = rows
    np.multiply(rows[:, first], rows[:, second], out=result[:, 1 + dim :])
    return result


class Statistics(NamedTuple):
    """All that one EM pass learns from the rows, as sums over rows, for every fit of a batch.

    Rows enter in the units of `Units`. With r the pignistic probabilities times the rows' weights:
    """

    set_counts: FloatArray
    """(B, M) sum_i m_ij."""
    sums: FloatArray
    """(B, C, F) sum_i r_ik z(x_i) of the monomials z; the part of x is the paper's B [eq_B]. Where tails are heavy r
    is made of m u."""
    pooled: FloatArray
    """(B, P) products of features summed over incomplete rows, whatever their clusters, where complete rows are not
    summed up by products; else P is zero."""
    log_likelihood: FloatArray
    """(B,) of the rows; that of complete rows is relative to the reference density where the covariance is shared."""

    tails: FloatArray | None = None
    """(B, M + 2) where tails are heavy: what `tails.tail_sums` adds up."""

    def plus(self, other: Self) -> "Statistics":
        """Return the statistics of both sets of rows together."""
        pairs: Any = zip(self, other, strict=True)
        parts: list[Any] = [None if mine is None else mine + theirs for mine, theirs in pairs]
        return Statistics(*parts)

    def times(self, factor: float) -> "Statistics":
        """Return the statistics of the same rows with weights times `factor`."""
        parts: list[Any] = [None if mine is None else factor * mine for mine in self]
        return Statistics(*parts)

    @property
    def cluster_counts(self) -> FloatArray:
        """(B, C) sum_i r_ik."""
        return self.sums[..., 0]


class Moments(NamedTuple):
    """Total weight, mean and scatter of the rows."""

    weight: float
    """N, the sum of the rows' weights."""
    centre: FloatArray
    """(D,) weighted mean, rounded: every block is shifted by it, so that sums of squares do not cancel far from the
    origin."""
    scatter: FloatArray
    """(D, D) sum_i (x_i - centre)(x_i - centre)', or its diagonal (D,)."""
    rest: FloatArray | float = 0.0
    """(D,) sum_i (x_i - centre), what rounding left: far from the origin a mean is known better than it can be
    written."""

    def plus(self, other: Self) -> "Moments":
        """Return the moments of both sets of rows together."""
        weight = self.weight + other.weight
        if weight == 0:
            # No centre to tell, but entries that cannot be used must still show.
            return self._replace(scatter=self.scatter + other.scatter)
        centre = self.centre + (other.centre - self.centre) * (other.weight / weight)
        mine, theirs = self.about(centre), other.about(centre)
        return Moments(weight, centre, mine.scatter + theirs.scatter, mine.rest + theirs.rest)

    def about(self, centre: FloatArray) -> "Moments":
        """Return the same rows' moments about another centre."""
        shift = self.centre - centre
        half = self.rest + 0.5 * self.weight * shift
        if self.scatter.ndim == 1:
            cross = 2 * half * shift
        else:
            cross = np.outer(half, shift)
            cross = cross + cross.T
        return Moments(self.weight, centre, self.scatter + cross, self.rest + self.weight * shift)

    @property
    def variances(self) -> FloatArray:
        """(D,) of the features."""
        return (self.scatter if self.scatter.ndim == 1 else np.diagonal(self.scatter)) / self.weight


def moments(X: FloatArray, sample_weight: FloatArray | None, *, diagonal: bool = False) -> Moments:
    """Moments of one block of rows; the scatter is NaN where an entry is not finite or too large."""
    weight = float(len(X)) if sample_weight is None else float(sample_weight.sum())
    # One memory order, so that sums round alike wherever the block came from.
    X = np.ascontiguousarray(X)
    with np.errstate(all="ignore"):
        first = _mean(X, sample_weight, weight)
        rows = np.subtract(X, first, dtype=np.float64)
        # A second look takes the summation's round-off out of the mean; a constant column becomes exactly zero.
        centre = first + _mean(rows, sample_weight, weight)
        rows -= centre - first
        weighted = rows if sample_weight is None else rows * sample_weight[:, None]
        # An entry that cannot be used shows, whatever its row's weight: the caller looks.
        if not are_usable(X):
            scatter = np.full(X.shape[1:] if diagonal else 2 * X.shape[1:], np.nan)
        else:
            scatter = np.einsum("nd,nd->d", rows, weighted) if diagonal else rows.T @ weighted
        return Moments(weight, centre, scatter, weighted.sum(axis=0))


def _mean(X: FloatArray, sample_weight: FloatArray | None, weight: float) -> FloatArray:
    """Weighted column means; not by BLAS, whose sums round by how its operands happen to lie in memory."""
    if sample_weight is None:
        return X.mean(axis=0, dtype=np.float64)
    return np.asarray((X * sample_weight[:, None]).sum(axis=0, dtype=np.float64) / max(weight, TINY))


class Units(NamedTuple):
    """Centre and scale of the rows that a fit computes with.

    Scales are powers of two near the features' deviations: dividing by them rounds nothing, and neither sums of squares
    overflow nor do features of other magnitudes hide each other.
    """

    centre: FloatArray
    """(D,)."""
    scale: FloatArray
    """(D,)."""

    @classmethod
    def of(cls, total: Moments) -> "Units":
        """Units of rows with these moments."""
        return cls.near(total.centre, total.variances)

    @classmethod
    def near(cls, centre: FloatArray, variances: FloatArray) -> "Units":
        """Units of rows with about these means and variances."""
        with np.errstate(all="ignore"):
            powers = np.round(0.5 * np.log2(variances))
        return cls(centre, np.exp2(np.where(np.isfinite(powers), powers, 0.0)))

    def rows(self, X: FloatArray) -> FloatArray:
        """Rows in these units, in double precision and one memory order, so that sums round alike everywhere."""
        rows = np.subtract(X, self.centre, dtype=np.float64, order="C")
        rows /= self.scale
        return rows

    def squares(self, values: FloatArray) -> FloatArray:
        """Variances (..., D) of the data's units in these units."""
        return values / self.scale / self.scale

    def covariances_in(self, covariances: FloatArray, *, diagonal: bool) -> FloatArray:
        """Covariances (..., D, D), or variances (..., D), of the data's units in these units; also low-rank ones."""
        if diagonal:
            return self.squares(covariances)
        if covariances.shape[-1] != covariances.shape[-2]:
            return covariances / self.scale[:, None] / self._noise_scale(covariances)
        return covariances / self.scale / self.scale[:, None]

    def covariances_out(self, covariances: FloatArray, *, diagonal: bool) -> FloatArray:
        """Covariances (..., D, D), or variances (..., D), of these units in the data's units; also low-rank ones."""
        if diagonal:
            return covariances * self.scale * self.scale
        if covariances.shape[-1] != covariances.shape[-2]:
            return covariances * self.scale[:, None] * self._noise_scale(covariances)
        return covariances * self.scale * self.scale[:, None]

    def _noise_scale(self, covariances: FloatArray) -> FloatArray:
        """What noise variances, the first column of a low-rank covariance, are scaled by once more, (D, 1 + q)."""
        is_noise = np.arange(covariances.shape[-1]) == 0
        return np.where(is_noise, self.scale[:, None], 1.0)

    @property
    def log_volume(self) -> float:
        """What a row's log-density in these units is above that in the data's units."""
        return float(np.log(self.scale).sum())
