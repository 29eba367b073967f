r"""Scores of rows and the information they hold, for standard errors of a fitted mixture.

A cluster's Gaussian has natural parameters :math:`P_k \mu_k` and :math:`P_k`, a focal set the averages of its members'.
So by Fisher's identity the score of a row with masses m and pignistic probabilities r is

.. math:: \frac{\partial \log p(x)}{\partial \theta_k} = r_k z(x) - \sum_j m_j W_{jk} E_j[z], \qquad
          \frac{\partial \log p(x)}{\partial \log \pi_j} = m_j - \pi_j,

with the monomials z and what set j expects of them; the sum over rows follows from the statistics of a pass. Models
that tie precisions linearly add up these scores. Hessian and Jacobian are difference quotients, of a batch of mixtures
that differ from the fitted one in one parameter each.
"""

from functools import partial
from typing import NamedTuple, Self

import numpy as np

from egmm._checks import BoolArray, FloatArray, are_usable
from egmm.em import estep
from egmm.em.covariance import SHARED, is_diagonal
from egmm.em.parameters import Components, Parameters, components, focal_gaussians, precision_factors
from egmm.em.statistics import Statistics, Units, monomials, products
from egmm.rows.source import RowSource, UnusableRowsError

LINEAR_TIES = ("EII", "VII", "EEI", "VVI", "EEE", "VVV")
"""Models whose precisions are tied linearly, or not at all."""

STEP = 1e-3
"""Step of a difference quotient, in standard errors."""

BATCH = 64
"""Parameters whose difference quotients are computed together."""

SINGULAR = 1e-10
"""Share of the largest eigenvalue of the information, in standard errors, below which the smallest is none."""

CHUNK_SCORES = 2**20
"""Entries of rows' scores held at a time."""


class NotAtMaximumError(ValueError):
    """The log-likelihood has no maximum at the parameters."""


class Coordinates(NamedTuple):
    """Free parameters phi of mixtures: logarithms of weights, natural means, precisions."""

    log_weights: FloatArray
    """(M,) of the fitted mixture."""
    is_free: BoolArray
    """(M,) which weights are free: neither the heaviest nor fixed ones."""
    shares: FloatArray
    covariance: str
    n_features: int

    @property
    def kind(self) -> str:
        """Kind of the monomials."""
        return "diagonal" if is_diagonal(self.covariance) else "full"

    @property
    def ties(self) -> FloatArray:
        """(C P, n) which free precision each entry of the clusters' precisions is, as 0 and 1."""
        n_entries, n_clusters = len(products(self.n_features, self.kind)[0]), self.shares.shape[1]
        own = np.ones((n_entries, 1)) if self.covariance.endswith("II") else np.eye(n_entries)
        copies = np.ones((n_clusters, 1)) if self.covariance in SHARED else np.eye(n_clusters)
        return np.asarray(np.kron(copies, own), dtype=np.float64)

    def pack(self, params: Parameters) -> FloatArray:
        """Phi (n,) of a mixture, a batch of one."""
        factors = precision_factors(params.covariances, diagonal=params.is_diagonal).factors[0]
        precisions = factors**2 if params.is_diagonal else factors @ np.swapaxes(factors, -1, -2)
        precisions = np.broadcast_to(precisions, (self.shares.shape[1], *precisions.shape[1:]))
        if params.is_diagonal:
            natural, entries = precisions * params.means[0], precisions
        else:
            first, second = products(self.n_features, "full")
            natural, entries = np.einsum("kde,ke->kd", precisions, params.means[0]), precisions[:, first, second]
        ties = self.ties
        tied = ties.T @ entries.ravel() / ties.sum(axis=0)
        return np.concatenate([self.log_weights[self.is_free], natural.ravel(), tied])

    def unpack(self, phi: FloatArray) -> Parameters:
        """Mixtures of a batch of phi (B, n); every cluster has its own covariance, tied or not."""
        n_fits, n_clusters, dim = len(phi), self.shares.shape[1], self.n_features
        at = int(self.is_free.sum())
        log_weights = np.repeat(self.log_weights[None], n_fits, axis=0)
        log_weights[:, self.is_free] = phi[:, :at]
        weights = np.exp(log_weights)
        natural = phi[:, at : at + n_clusters * dim].reshape(n_fits, n_clusters, dim)
        entries = (phi[:, at + n_clusters * dim :] @ self.ties.T).reshape(n_fits, n_clusters, -1)
        if self.kind == "diagonal":
            means, covariances = natural / entries, 1 / entries
        else:
            first, second = products(dim, "full")
            precisions = np.empty((n_fits, n_clusters, dim, dim))
            precisions[..., first, second] = precisions[..., second, first] = entries
            covariances = np.asarray(np.linalg.inv(precisions), dtype=np.float64)
            means = (covariances @ natural[..., None])[..., 0]
        return Parameters(weights / weights.sum(axis=1, keepdims=True), means, covariances)

    def scores(self, counts: FloatArray, sums: FloatArray, mixtures: "Mixtures") -> FloatArray:
        """Scores (B, n) from masses (B, M) and sums of monomials (B, C, F), of rows or of a batch of mixtures."""
        first, second = products(self.n_features, self.kind)
        differences = sums[..., 1:] - (self.shares.T * counts[:, None]) @ mixtures.expected
        by_entry = differences[..., self.n_features :] * np.where(first == second, -0.5, -1.0)
        by_weight = counts - counts.sum(axis=1, keepdims=True) * mixtures.weights
        natural = differences[..., : self.n_features].reshape(len(counts), -1)
        return np.concatenate(
            [by_weight[:, self.is_free], natural, by_entry.reshape(len(counts), -1) @ self.ties], axis=1
        )

    def described(self, params: Parameters, units: Units) -> FloatArray:
        """Weights, means and covariances of mixtures in the units of the data, as vectors (B, .)."""
        means = params.means * units.scale
        covariances = units.covariances_out(params.covariances, diagonal=self.kind == "diagonal")
        if self.covariance in SHARED:
            covariances = covariances[:, :1]
        return np.concatenate([part.reshape(len(means), -1) for part in (params.weights, means, covariances)], axis=1)


class Mixtures(NamedTuple):
    """A batch of mixtures as passes and scores read them."""

    model: Components
    weights: FloatArray
    """(B, M)."""
    expected: FloatArray
    """(B, M, F - 1) monomials that each focal set expects, without the constant."""

    @classmethod
    def of(cls, params: Parameters, coordinates: Coordinates) -> "Mixtures":
        """Prepare mixtures."""
        shares, dim = coordinates.shares, coordinates.n_features
        factors, log_roots, _ = precision_factors(params.covariances, diagonal=params.is_diagonal)
        focal, _ = focal_gaussians(params, factors, log_roots, shares)
        first, second = products(dim, coordinates.kind)
        within = focal.covariances if params.is_diagonal else focal.covariances[..., first, second]
        seconds = within + focal.means[..., first] * focal.means[..., second]
        expected = np.concatenate([focal.means, seconds], axis=-1)
        return cls(components(params, shares, coordinates.kind).components, params.weights, expected)


class Information(NamedTuple):
    """Sums over rows of products of their scores."""

    products: FloatArray
    """(n, n)."""

    def plus(self, other: Self) -> "Information":
        """Return the sums of both sets of rows together."""
        return Information(self.products + other.products)


def score_products(
    X: FloatArray, sample_weight: FloatArray | None, mixtures: Mixtures, coordinates: Coordinates, units: Units
) -> Information:
    """Information of a block of rows."""
    if not are_usable(X):
        raise UnusableRowsError(
            "standard_errors takes complete rows, but X has a missing cell (NaN) or a row too far from every cluster."
        )
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    size = max(1, CHUNK_SCORES // mixtures.model.theta[0].size)
    found = np.zeros((1, 1))
    for first in range(0, len(X), size):
        part = slice(first, first + size)
        scores = row_scores(X[part], mixtures, coordinates, units)
        found = found + (scores * weight[part, None]).T @ scores
    return Information(found)


def row_scores(X: FloatArray, mixtures: Mixtures, coordinates: Coordinates, units: Units) -> FloatArray:
    """Scores (n, .) of rows under a mixture, a batch of one."""
    z = monomials(units.rows(X), coordinates.kind)
    mass = estep.masses(z, mixtures.model, coordinates.shares)[0][0]
    sums = (mass @ coordinates.shares)[:, :, None] * z[:, None]
    return coordinates.scores(mass, sums, mixtures)


def sandwich(rows: RowSource, params: Parameters, coordinates: Coordinates, units: Units) -> FloatArray:
    r"""Covariance matrix :math:`H^{-1} I H^{-1}` of weights, means and covariances, in the units of the data.

    I is the sum of the outer products of the rows' scores, H minus the Hessian of the log-likelihood.

    Raises
    ------
    NotAtMaximumError
        Where the log-likelihood has no maximum at the parameters.
    """
    phi = coordinates.pack(params)
    here = Mixtures.of(coordinates.unpack(phi[None]), coordinates)
    look = partial(score_products, mixtures=here, coordinates=coordinates, units=units)
    information: Information = rows.reduce(look)
    own = information.products.diagonal()
    if not (own > 0).all():
        raise NotAtMaximumError("the rows tell nothing about some parameter")
    steps = STEP / np.sqrt(own)
    hessian, jacobian = _differences(rows, phi, steps, coordinates, units)
    # In standard errors, so that neither units nor counts decide what is singular.
    values, axes = np.linalg.eigh(-0.5 * (hessian + hessian.T) * np.outer(steps, steps))
    if values[0] <= SINGULAR * values[-1]:
        raise NotAtMaximumError("the log-likelihood has no strict maximum at the fitted parameters")
    half = ((jacobian * steps) @ axes / values) @ axes.T * steps
    return np.asarray(half @ information.products @ half.T)


def _differences(
    rows: RowSource, phi: FloatArray, steps: FloatArray, coordinates: Coordinates, units: Units
) -> tuple[FloatArray, FloatArray]:
    """Derivatives by phi of the total score, (n, n), and of what describes the mixture, (., n)."""
    hessian: list[FloatArray] = []
    jacobian: list[FloatArray] = []
    for first in range(0, len(phi), BATCH):
        part = slice(first, first + BATCH)
        moves = np.diag(steps)[part]
        params = coordinates.unpack(np.concatenate([phi + moves, phi - moves]))
        mixtures = Mixtures.of(params, coordinates)
        found: Statistics = rows.reduce(partial(_pass, mixtures=mixtures, coordinates=coordinates, units=units))
        for values, columns in (
            (coordinates.scores(found.set_counts, found.sums, mixtures), hessian),
            (coordinates.described(params, units), jacobian),
        ):
            above, below = np.split(values, 2)
            columns.append((above - below) / (2 * steps[part, None]))
    return np.concatenate(hessian).T, np.concatenate(jacobian).T


def _pass(
    X: FloatArray, sample_weight: FloatArray | None, mixtures: Mixtures, coordinates: Coordinates, units: Units
) -> Statistics:
    z = monomials(units.rows(X), coordinates.kind)
    return estep.e_step(z, sample_weight, mixtures.model, coordinates.shares)
