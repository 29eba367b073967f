"""What a fitted mixture says of each row of a block: functions for `rows.map`.

They raise `UnusableRowsError` where a row has no density; which one it is, the rows' owner can tell.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import entr

from egmm._arrays import Place, namespace, to_host
from egmm._checks import FloatArray, IntArray, are_usable
from egmm.belief.decisions import first_best
from egmm.em import device, estep, kernel
from egmm.em.covariance import is_diagonal, monomial_kind
from egmm.em.parameters import Components, NotPositiveDefiniteError, Parameters, components, precision_factors
from egmm.em.statistics import Units, monomials
from egmm.rows.source import UnusableRowsError


class Mixture(NamedTuple):
    """A fitted mixture as passes read it, a batch of one."""

    model: Components
    shares: FloatArray
    units: Units
    kind: str

    @classmethod
    def of(
        cls, weights: FloatArray, means: FloatArray, covariances: FloatArray, shares: FloatArray, covariance: str
    ) -> "Mixture":
        """Read parameters in the units of the data: covariances are shared or not, variances alone if diagonal."""
        params, units = in_units(weights, means, covariances, covariance)
        kind = monomial_kind(covariance)
        evaluated = components(params, shares, kind)
        if not evaluated.is_definite[0]:
            raise NotPositiveDefiniteError("the covariances of the mixture are not positive definite")
        return cls(evaluated.components, shares, units, kind)


class Reader(NamedTuple):
    """One of the functions below with the mixture that it reads rows by."""

    function: Callable[..., Any]
    model: Mixture
    engine: str

    def read(self, X: FloatArray, sample_weight: FloatArray | None) -> Any:
        """What the function says of a block of rows."""
        return self.function(X, sample_weight, model=self.model, engine=self.engine)

    def on(self, where: Place, dtype: Any) -> "Reader":  # noqa: ARG002
        """The same for blocks on a device, in its greatest precision: as NumPy's, results are double."""
        model, shares, units, kind = self.model
        there = device.carried(model, shares, units, where, where.widest)
        return Reader(self.function, Mixture(*there, kind), "numpy")


def in_units(
    weights: FloatArray, means: FloatArray, covariances: FloatArray, covariance: str, units: Units | None = None
) -> tuple[Parameters, Units]:
    """Parameters in the units of the data as a batch of one, and its units: those given, or such as suit them."""
    diagonal = is_diagonal(covariance)
    stacked = covariances[None] if monomial_kind(covariance) == "linear" else covariances
    if units is None:
        variances = stacked if diagonal else np.einsum("kdd->kd", stacked)
        centre = means.mean(axis=0)
        units = Units.near(centre, (variances + (means - centre) ** 2).mean(axis=0))
    within = units.covariances_in(stacked, diagonal=diagonal)
    return Parameters(weights[None], ((means - units.centre) / units.scale)[None], within[None]), units


def masses(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> FloatArray:  # noqa: ARG001
    """Masses on the focal sets, (n, M)."""
    return _masses(X, model, engine)[0]


def log_densities(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> FloatArray:  # noqa: ARG001
    """Log-density of the mixture, (n,)."""
    return _absolute(X, _masses(X, model, engine)[1], model)


def heaviest(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> IntArray:
    """Column of the heaviest focal set, (n,)."""
    return first_best(masses(X, sample_weight, model, engine))


def pignistics(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> FloatArray:
    """Pignistic probabilities, (n, C)."""
    return masses(X, sample_weight, model, engine) @ model.shares


def labels(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> IntArray:
    """Cluster of largest pignistic probability, (n,)."""
    return first_best(pignistics(X, sample_weight, model, engine))


def squared_distances(
    X: FloatArray,
    sample_weight: FloatArray | None,  # noqa: ARG001
    means: FloatArray,
    factors: FloatArray,
) -> FloatArray:
    """Squared Mahalanobis distance to the nearest of components with these means and precision factors, (n,)."""
    nearest = np.full(len(X), np.inf)
    for mean, factor in zip(means, factors, strict=True):
        with np.errstate(all="ignore"):
            offsets = np.subtract(X, mean, dtype=np.float64)
            offsets = offsets * factor if factor.ndim == 1 else offsets @ factor
        np.minimum(nearest, np.einsum("nd,nd->n", offsets, offsets), out=nearest)
    _check_usable(X, nearest)
    return nearest


def whitening(covariances: FloatArray, n_focal: int, covariance: str) -> FloatArray:
    """Factors (M, D, D), or roots of precisions (M, D), that make the Gaussians of the focal sets spheres."""
    stacked = covariances[None, None] if monomial_kind(covariance) == "linear" else covariances[None]
    factors = precision_factors(stacked, diagonal=is_diagonal(covariance)).factors[0]
    return np.broadcast_to(factors, (n_focal, *factors.shape[1:]))


class ClusterProducts(NamedTuple):
    """Sums over rows of products of the clusters' plausibilities: how often two clusters are plausible together."""

    values: FloatArray
    """(C, C) Pl' Pl."""

    def plus(self, other: Self) -> "ClusterProducts":
        """Return the products of both sets of rows together."""
        return ClusterProducts(self.values + other.values)


class Totals(NamedTuple):
    """Sums over rows that the criteria read."""

    log_likelihood: float
    entropy: float
    """Of the masses."""
    weight: float

    def plus(self, other: Self) -> "Totals":
        """Return the totals of both sets of rows together."""
        return Totals(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def totals(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> Totals:
    """Log-likelihood, entropy of the masses and weight of a block of rows."""
    mass, log_density = _masses(X, model, engine)
    mass, log_density, sample_weight = map(to_host, (mass, _absolute(X, log_density, model), sample_weight))
    entropy = entr(mass).sum(axis=1)
    if sample_weight is None:
        return Totals(float(log_density.sum()), float(entropy.sum()), float(len(mass)))
    return Totals(float(sample_weight @ log_density), float(sample_weight @ entropy), float(sample_weight.sum()))


def plausibility_products(
    X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str
) -> ClusterProducts:
    """Similarity of clusters on a block of rows."""
    plausibility = to_host(masses(X, None, model, engine)) @ (to_host(model.shares) > 0)
    weighted = plausibility if sample_weight is None else plausibility * to_host(sample_weight)[:, None]
    return ClusterProducts(plausibility.T @ weighted)


def _masses(X: FloatArray, model: Mixture, engine: str) -> tuple[FloatArray, FloatArray]:
    with np.errstate(all="ignore"):
        if engine == "numba":
            mass, log_density = kernel.masses(X, model.model, model.shares, model.units)
        else:
            found = estep.masses(monomials(model.units.rows(X), model.kind), model.model, model.shares)
            mass, log_density = found[0][0, ...], found[1][0, ...]
    _check_usable(X, log_density)
    return mass, log_density


def _absolute(X: FloatArray, log_density: FloatArray, model: Mixture) -> FloatArray:
    """Log-densities (n,) in the units of the data, of those that a pass has found."""
    found = log_density - model.units.log_volume
    if model.kind == "linear":
        with np.errstate(all="ignore"):
            found = found + estep.log_reference(monomials(model.units.rows(X), "linear"), model.model)[0, ...]
        # Masses of rows too far for any density may be known all the same: all clusters have one covariance.
        _check_usable(X, found)
    return found


def _check_usable(X: FloatArray, values: FloatArray) -> None:
    xp = namespace(values)
    if not (are_usable(X) and xp.all(xp.isfinite(values))):
        raise UnusableRowsError(
            "X holds a row whose density cannot be computed: it is not finite, or too far from every cluster."
        )
