"""Functions of a fitted mixture on blocks of rows, for `rows.map`.

They raise `UnusableRowsError` if a row has no density; the row source then locates it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import entr, log_softmax
from scipy.stats import chi2

from egmm._arrays import Place, namespace, to_host
from egmm._checks import LARGEST, FloatArray, IntArray, are_usable
from egmm.belief.decisions import first_best
from egmm.belief.transforms import normalised
from egmm.em import device, estep, kernel
from egmm.em.covariance import SHARED, is_diagonal
from egmm.em.evidence import LINKED, Evidence, group_masses
from egmm.em.factors import dense
from egmm.em.factors import variances as diagonals
from egmm.em.incomplete import Incomplete
from egmm.em.layout import Layout
from egmm.em.noise import Box
from egmm.em.parameters import (
    Components,
    NotPositiveDefiniteError,
    Parameters,
    components,
    is_empty,
    precision_factors,
    whiten,
)
from egmm.em.patterns import Group, groups_of
from egmm.em.problem import Pass
from egmm.em.statistics import Units, monomials
from egmm.rows.source import UnusableRowsError


class Mixture(NamedTuple):
    """A fitted mixture for passes over rows, a batch of one."""

    model: Components
    shares: FloatArray
    units: Units
    kind: str
    incomplete: Incomplete
    """The passes over rows with missing cells."""

    @classmethod
    def of(
        cls,
        weights: FloatArray,
        means: FloatArray,
        covariances: FloatArray,
        shares: FloatArray,
        covariance: str,
        noise: Box | None = None,
        degrees: float | None = None,
    ) -> "Mixture":
        """Read parameters in the units of the data: covariances are shared or not, variances alone if diagonal."""
        params, units = in_units(weights, means, covariances, covariance)
        if degrees is not None:
            params = params._replace(degrees=np.array([degrees]))
        layout = Layout.of(covariance, shares, units.scale, noise=noise, tails=degrees is not None)
        evaluated = components(params, shares, layout.kind, layout.log_noise)
        if not evaluated.is_definite[0]:
            raise NotPositiveDefiniteError("the covariances of the mixture are not positive definite")
        incomplete = Incomplete.of(params, evaluated, layout, units)
        return cls(evaluated.components, shares, units, layout.kind, incomplete)


class Reader(NamedTuple):
    """One of the functions below with the mixture that it reads rows by."""

    function: Callable[..., Any]
    model: Mixture
    engine: str

    def read(self, X: FloatArray, sample_weight: FloatArray | None) -> Any:
        """Result of the function for a block of rows."""
        return self.function(X, sample_weight, model=self.model, engine=self.engine)

    def on(self, where: Place, dtype: Any) -> "Reader":  # noqa: ARG002
        """Result for a block on a device, computed in its highest precision and returned in double precision."""
        there = device.carried(self.model.model, self.model.shares, self.model.units, where, where.widest)
        return Reader(self.function, self.model._replace(**there._asdict()), "numpy")


def in_units(
    weights: FloatArray, means: FloatArray, covariances: FloatArray, covariance: str, units: Units | None = None
) -> tuple[Parameters, Units]:
    """Parameters in the units of the data as a batch of one, and its units: given, or derived from the parameters."""
    diagonal = is_diagonal(covariance)
    stacked = covariances[None] if covariance in SHARED else covariances
    if units is None:
        variances = stacked if diagonal else diagonals(stacked)
        centre = means.mean(axis=0)
        units = Units.near(centre, (variances + (means - centre) ** 2).mean(axis=0))
    within = units.covariances_in(stacked, diagonal=diagonal)
    return Parameters(weights[None], ((means - units.centre) / units.scale)[None], within[None]), units


def masses(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> FloatArray:  # noqa: ARG001
    """Masses on the focal sets, (n, M)."""
    return _evaluated(X, model, engine, with_density=False)[0]


def log_densities(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> FloatArray:  # noqa: ARG001
    """Log-density of the mixture, (n,); that of an incomplete row is the marginal one of its observed cells."""
    return _evaluated(X, model, engine)[1]


def heaviest(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> IntArray:
    """Column of the heaviest focal set, (n,)."""
    return first_best(masses(X, sample_weight, model, engine))


def pignistics(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> FloatArray:
    """Pignistic probabilities, (n, C)."""
    shared_out = masses(X, sample_weight, model, engine) @ model.shares
    return normalised(shared_out) if is_empty(model.incomplete.layout.shares).any() else shared_out


def labels(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> IntArray:
    """Cluster with the largest pignistic probability, (n,)."""
    return first_best(pignistics(X, sample_weight, model, engine))


def squared_distances(
    X: FloatArray,
    sample_weight: FloatArray | None,  # noqa: ARG001
    means: FloatArray,
    covariances: FloatArray,
    covariance: str,
) -> FloatArray:
    """Squared Mahalanobis distance to the nearest of the focal sets' Gaussians, (n,).

    The distance of an incomplete row is over its observed cells, and turned into one over all features that is exceeded
    with the same probability.
    """
    found = np.empty(len(X))
    dim = X.shape[1]
    for group in groups_of(np.isnan(X)):
        observed = np.flatnonzero(~group.is_missing)
        if not len(observed):
            found[group.rows] = 0.0
            continue
        rows = X[group.rows] if group.is_complete else X[group.rows[:, None], observed]
        nearest = _nearest(rows, means[:, observed], _whitening(covariances, observed, len(means), covariance))
        found[group.rows] = nearest if group.is_complete else chi2.isf(chi2.sf(nearest, len(observed)), dim)
    return found


def _nearest(X: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
    """Squared distances from the nearest of the means, in the metric of their factors."""
    nearest = np.full(len(X), np.inf)
    for mean, factor in zip(means, factors, strict=True):
        with np.errstate(all="ignore"):
            offsets = np.subtract(X, mean, dtype=np.float64)
            offsets = whiten(offsets, factor)
        np.minimum(nearest, np.einsum("nd,nd->n", offsets, offsets), out=nearest)
    if not (are_usable(X) and np.isfinite(nearest).all()):
        raise UnusableRowsError("X contains a row that is infinite, or too far from every cluster.")
    return nearest


def _whitening(covariances: FloatArray, observed: IntArray, n_focal: int, covariance: str) -> FloatArray:
    """Factors (M, D, D), of low rank, or roots of precisions (M, D), that make Gaussians on some features spheres."""
    diagonal = is_diagonal(covariance)
    within = covariances
    if diagonal:
        within = covariances[..., observed]
    elif len(observed) < covariances.shape[-2]:
        within = dense(covariances)[..., observed[:, None], observed]
    stacked = within[None, None] if covariance in SHARED else within[None]
    factors = precision_factors(stacked, diagonal=diagonal).factors[0]
    return np.broadcast_to(factors, (n_focal, *factors.shape[1:]))


class ClusterProducts(NamedTuple):
    """Sums over rows of products of the clusters' plausibilities, a similarity of clusters."""

    values: FloatArray
    """(C, C) Pl' Pl."""

    def plus(self, other: Self) -> "ClusterProducts":
        """Return the products of both sets of rows together."""
        return ClusterProducts(self.values + other.values)


class Totals(NamedTuple):
    """Sums over rows for the criteria."""

    log_likelihood: float
    entropy: float
    """Entropy of the masses."""
    weight: float

    def plus(self, other: Self) -> "Totals":
        """Return the totals of both sets of rows together."""
        return Totals(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def totals(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> Totals:
    """Log-likelihood, entropy of the masses and weight of a block of rows."""
    mass, log_density, sample_weight = map(to_host, (*_evaluated(X, model, engine), sample_weight))
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


def masses_with(X: FloatArray, model: Mixture, evidence: Evidence) -> FloatArray:
    """Masses (n, M) of rows in memory about which more is known, as a step of EM has them."""
    passes = Pass(model.model, model.incomplete.layout, model.units, "numpy", model.incomplete)
    scores = passes.log_scores(X)[0]
    found = np.exp(log_softmax(scores + evidence.of_rows(evidence.codes), axis=1))
    if evidence.links is not None:
        links = evidence.links
        scores = passes.log_scores(links.rows)[0] + evidence.of_rows(links.codes)
        found[evidence.codes == LINKED] = group_masses(links, scores).mass[links.group]
    return found


def _evaluated(
    X: FloatArray, model: Mixture, engine: str, *, with_density: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Masses (n, M) and, where they are wanted, log-densities (n,) in the units of the data."""
    mass, log_density = _of_complete(X, model, engine)
    with np.errstate(all="ignore"):
        log_density = _absolute(X, log_density, model) if with_density else log_density
    # Masses of rows too far for any density may be known all the same, where all clusters have one covariance.
    xp = namespace(X)
    if are_usable(X) and xp.all(xp.isfinite(log_density)):
        return mass, log_density
    is_missing = xp.isnan(X)
    if xp.any(is_missing) and model.model.degrees is not None:
        raise ValueError("tails='t' takes complete rows, but X has missing cells (NaN); impute them first.")
    if not xp.any(is_missing):
        raise UnusableRowsError(
            "X contains a row whose density cannot be computed: it is not finite, or too far from every cluster."
        )
    for group in groups_of(is_missing):
        if group.is_complete:
            found = _evaluated(X[group.rows], model, engine, with_density=with_density)
        else:
            found = _of_incomplete(X[group.rows], group, model)
        mass[group.rows], log_density[group.rows] = found
    return mass, log_density


def _of_incomplete(X: FloatArray, group: Group, model: Mixture) -> tuple[FloatArray, FloatArray]:
    """Masses and log-densities of rows with the same missing cells."""
    mass, log_density = model.incomplete.masses(X, group.is_missing)
    log_density = log_density - np.log(model.units.scale[~group.is_missing]).sum()
    if (np.abs(X) >= LARGEST).any() or not np.isfinite(log_density).all():
        raise UnusableRowsError("X contains a row whose density cannot be computed: it is infinite, or too far away.")
    return mass, log_density


def _of_complete(X: FloatArray, model: Mixture, engine: str) -> tuple[FloatArray, FloatArray]:
    """Masses and log-densities, relative where the covariance is shared; not finite where cells are missing."""
    with np.errstate(all="ignore"):
        if engine == "numba":
            mass, log_density = kernel.masses(X, model.model, model.shares, model.units)
        else:
            found = estep.masses(monomials(model.units.rows(X), model.kind), model.model, model.shares)
            mass, log_density = found[0][0, ...], found[1][0, ...]
    return mass, log_density


def _absolute(X: FloatArray, log_density: FloatArray, model: Mixture) -> FloatArray:
    """Log-densities (n,) of a pass, converted to the units of the data."""
    found = log_density - model.units.log_volume
    if model.kind == "linear":
        found = found + estep.log_reference(monomials(model.units.rows(X), "linear"), model.model)[0, ...]
    return found


def imputed(X: FloatArray, sample_weight: FloatArray | None, model: Mixture, engine: str) -> FloatArray:  # noqa: ARG001
    """Rows with missing cells replaced by their conditional expectation under the mixture."""
    rows, units = np.array(X, dtype=np.float64), model.units
    for group in groups_of(np.isnan(X)):
        if not group.is_complete:
            missing = np.flatnonzero(group.is_missing)
            _of_incomplete(rows[group.rows], group, model)  # Rows that have no density are refused.
            found = model.incomplete.expected(rows[group.rows], group.is_missing)
            rows[group.rows[:, None], missing] = found * units.scale[missing] + units.centre[missing]
    if not are_usable(rows):
        raise UnusableRowsError("X contains a value that is infinite or too large.")
    return rows


def drawn(X: FloatArray, model: Mixture, n_copies: int, random: np.random.RandomState) -> FloatArray:
    """Copies (n_copies, n, D) of rows whose missing cells are drawn from the mixture, given the others."""
    if (np.abs(X) >= LARGEST).any():
        raise UnusableRowsError("X holds a value that is infinite or too large.")
    copies, units = np.repeat(np.asarray(X, dtype=np.float64)[None], n_copies, axis=0), model.units
    for group in groups_of(np.isnan(X)):
        if not group.is_complete:
            missing = np.flatnonzero(group.is_missing)
            _of_incomplete(X[group.rows], group, model)
            found = model.incomplete.draw(X[group.rows], group.is_missing, n_copies, random)
            copies[:, group.rows[:, None], missing] = found * units.scale[missing] + units.centre[missing]
    return copies
