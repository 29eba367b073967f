"""Refits of one mixture to bootstrap replicates: a batch whose fits weigh the rows each in its own way."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em.ascent import FAILED, Ascent
from egmm.em.covariance import SHARED, is_diagonal, monomial_kind
from egmm.em.estep import joint_masses
from egmm.em.layout import Layout, RowTotals, Settings
from egmm.em.parameters import Components, Parameters, components, take
from egmm.em.prior import prior_terms
from egmm.em.problem import Problem
from egmm.em.start import make_ridge
from egmm.em.statistics import Moments, Units, monomials, products
from egmm.rows.array import ArrayRows


class Mixtures(NamedTuple):
    """One mixture of singletons per replicate, in the units of the data; means are relative to the rows' centre."""

    weights: FloatArray
    """(B, C)."""
    means: FloatArray
    """(B, C, D)."""
    covariances: FloatArray
    """(B, C, D, D)."""

    def take(self, which: IntArray | BoolArray) -> "Mixtures":
        """Return some of them."""
        return Mixtures(self.weights[which], self.means[which], self.covariances[which])

    @classmethod
    def concatenate(cls, parts: list["Mixtures"]) -> "Mixtures":
        """All replicates of several batches."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Start(NamedTuple):
    """The mixture that refits begin with, in the units of the data."""

    weights: FloatArray
    """(C,)."""
    means: FloatArray
    """(C, D)."""
    covariances: FloatArray
    """Compact, as a fit keeps them."""
    covariance: str
    """One of the 14 codes."""
    reg_covar: float | str


def refit(
    X: FloatArray, counts: FloatArray, total: Moments, start: Start, tol: float, max_iter: int
) -> tuple[Mixtures, BoolArray]:
    """Refit a mixture to every replicate by EM from one start.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Rows.
    counts : ndarray of shape (B, N)
        How often each replicate holds each row.
    total : Moments
        Of the rows.
    start : Start
        Mixture of singletons to start from.
    tol : float
        Of the total log-likelihood, as for any ascent.
    max_iter : int
        Most M-steps.

    Returns
    -------
    mixtures : Mixtures
        B mixtures; where the fit failed, not to be used.
    is_fitted : ndarray of shape (B,), bool
        False where a cluster lost its rows or its covariance.

    Examples
    --------
    >>> from egmm.em.statistics import moments
    >>> X = np.array([[-5.0], [-4.0], [-3.0], [3.0], [4.0], [5.0]])
    >>> start = Start(np.array([0.5, 0.5]), np.array([[-4.0], [4.0]]), np.array([1.0]), "EII", 0.0)
    >>> counts = np.array([[1.0, 1, 1, 1, 1, 1], [2, 1, 0, 0, 2, 1]])
    >>> refit(X, counts, moments(X, None), start, 1e-6, 100)[0].means[:, :, 0].round(3)
    array([[-4.   ,  4.   ], [-4.667,  4.333]])
    """
    units, diagonal = Units.of(total), is_diagonal(start.covariance)
    stacked = start.covariances[None] if start.covariance in SHARED else start.covariances
    within = units.covariances_in(stacked, diagonal=diagonal)
    one = Parameters(start.weights[None], ((start.means - units.centre) / units.scale)[None], within[None])
    params = take(one, np.zeros(len(counts), dtype=np.int64))
    problem = _problem(X, counts, total, start, units, one)
    ascent = Ascent.start(problem, params, np.full(len(counts), tol), accelerate=True).run(max_iter)
    found = ascent.state.evaluation.params
    covariances = units.covariances_out(found.covariances, diagonal=diagonal)
    if diagonal:
        covariances = covariances[..., None] * np.eye(X.shape[1])
    n_clusters = len(start.means)
    covariances = np.broadcast_to(covariances, (len(counts), n_clusters, *covariances.shape[2:]))
    is_fitted = (ascent.status != FAILED) & (found.weights > 0).all(axis=1)
    return Mixtures(found.weights, found.means * units.scale, np.array(covariances)), is_fitted


def _problem(X: FloatArray, counts: FloatArray, total: Moments, start: Start, units: Units, one: Parameters) -> Problem:
    """The problem of all replicates, each with its own weights of the rows."""
    n_fits, (n_clusters, dim) = len(counts), start.means.shape
    diagonal, kind = is_diagonal(start.covariance), monomial_kind(start.covariance)
    rows = units.rows(X)
    first, second = products(dim, "diagonal" if diagonal else "full")
    seconds = counts @ (rows[:, first] * rows[:, second])
    scatter = seconds
    if not diagonal:
        scatter = np.empty((n_fits, dim, dim))
        scatter[:, first, second] = scatter[:, second, first] = seconds
    variances = units.squares(total.variances)
    ridge = make_ridge(start.reg_covar, one.variances.mean(axis=1), variances, units)
    terms = prior_terms(None, n_clusters, start.covariance, units)
    settings = Settings(
        np.full(n_fits, start.covariance),
        np.repeat(ridge, n_fits, axis=0),
        type(terms)(*(np.repeat(part, n_fits, axis=0) for part in terms)),
        counts.sum(axis=1),
        scatter,
        RowTotals(counts.sum(axis=1), scatter),
    )
    layout = Layout.of(start.covariance, np.eye(n_clusters), units.scale)
    kept = monomials(rows, kind)
    return Problem(ArrayRows(X), units, layout, settings, "numpy", kept, counts)


class Posteriors(NamedTuple):
    """What the posterior probabilities of rows in every mixture are computed from."""

    model: Components
    units: Units
    kind: str

    @classmethod
    def of(cls, mixtures: Mixtures, centre: FloatArray, covariance: str) -> "Posteriors":
        """Prepare mixtures, whose means are relative to the centre."""
        diagonal = is_diagonal(covariance)
        variances = np.einsum("bkdd->bkd", mixtures.covariances)
        units = Units.near(centre, (variances + mixtures.means**2).mean(axis=(0, 1)))
        within = units.covariances_in(variances if diagonal else mixtures.covariances, diagonal=diagonal)
        params = Parameters(mixtures.weights, mixtures.means / units.scale, within)
        kind = "diagonal" if diagonal else "full"
        return cls(components(params, np.eye(mixtures.weights.shape[1]), kind).components, units, kind)

    def __call__(self, X: FloatArray) -> NDArray[np.float32]:
        """Posterior probabilities of rows, (n, C, B), in single precision."""
        z = monomials(self.units.rows(X), self.kind)
        joint = joint_masses(z, self.model, np.eye(self.model.theta.shape[1]))
        return np.transpose(joint.mass / joint.total, (2, 0, 1)).astype(np.float32)
