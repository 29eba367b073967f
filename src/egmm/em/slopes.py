r"""The objective's gradient from the statistics of one pass (Fisher's identity), and the information EM's steps follow.

With focal means :math:`a_j`, focal covariances :math:`\bar\Sigma_j` and memberships :math:`n_j W_{jk}`,

.. math:: \frac{\partial L}{\partial \mu_k} = P_k \Big(s_k - \sum_j n_j W_{jk} a_j\Big), \qquad
          \frac{\partial L}{\partial P_k} = \tfrac12 \sum_j n_j W_{jk}
              \left(\bar\Sigma_j + (a_j - \mu_k)(a_j - \mu_k)^\top\right) - \tfrac12 T_k

at fixed means, :math:`T_k` the scatter of cluster k about its mean. A conjugate prior adds its rows. The ridge R enters
:math:`T_k` as :math:`r_k R`, as in the M-step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from egmm._checks import FloatArray
from egmm.em.covariance import is_diagonal
from egmm.em.natural import overlap_matrix, scatters_about
from egmm.em.parameters import Focal
from egmm.em.prior import prior_terms
from egmm.em.problem import Point, Problem


class Slopes(NamedTuple):
    """Gradient of the objective with respect to means and precisions, each while the other stays."""

    means: FloatArray
    """(C, D)."""
    precisions: FloatArray
    """(C, D, D), (C, D) of a diagonal model; their sum, (1, D, D) or (1, D), when the covariance is shared."""


def slopes(problem: Problem, point: Point) -> Slopes:
    """Gradient at a point."""
    focal = point.model.focal
    means, precisions = _shared(problem, point) if focal is None else _own(problem, point, focal)
    if problem.prior is None:
        return Slopes(means, precisions)
    more = _of_prior(problem, point)
    return Slopes(means + more.means, precisions + more.precisions)


def _shared(problem: Problem, point: Point) -> Slopes:
    statistics, params, weight = point.statistics, point.params, problem.moments.weight
    factor = point.model.factors
    moved = overlap_matrix(statistics.set_counts, problem.shares) @ params.means
    residual = statistics.cluster_sums - moved
    cross = params.means.T @ (residual + 0.5 * moved)
    # sum_ij m_ij (x_i - nu_j)(x_i - nu_j)' is the scatter minus both crosses.
    change = 0.5 * (weight * params.covariances - problem.moments.scatter + cross + cross.T)
    np.einsum("dd->d", change)[:] -= 0.5 * weight * problem.ridge
    return Slopes(residual @ factor @ factor.T, _diagonal_if(problem, change[None]))


def _own(problem: Problem, point: Point, focal: Focal) -> Slopes:
    statistics, means = point.statistics, point.params.means
    memberships = statistics.set_counts[:, None] * problem.shares
    counts = memberships.sum(axis=0)
    scatters = statistics.cluster_scatters
    assert scatters is not None
    residual = statistics.cluster_sums - memberships.T @ focal.means
    observed = scatters_about(scatters, statistics.cluster_sums, counts, means)
    offsets = focal.means - means[:, None]
    weighted = memberships.T[:, :, None] * offsets
    own_rows = counts[:, None] * problem.ridge
    if scatters.ndim == 2:
        precisions = np.einsum("kdd->kd", point.model.factors) ** 2
        expected = memberships.T @ focal.covariances + (weighted * offsets).sum(axis=1)
        return Slopes(precisions * residual, 0.5 * (expected - observed - own_rows))
    factors = point.model.factors
    pulls = factors @ (np.swapaxes(factors, 1, 2) @ residual[:, :, None])
    expected = (memberships.T @ focal.covariances.reshape(len(focal.means), -1)).reshape(observed.shape)
    expected += np.swapaxes(weighted, 1, 2) @ offsets
    np.einsum("kdd->kd", expected)[:] -= own_rows
    return Slopes(pulls[:, :, 0], 0.5 * (expected - observed))


def _of_prior(problem: Problem, point: Point) -> Slopes:
    prior, params = problem.prior, point.params
    assert prior is not None
    terms = prior_terms(prior, len(params.means), problem.covariance)
    factors = np.broadcast_to(point.model.factors, (len(params.means), *point.model.factors.shape[-2:]))
    offsets = params.means - prior.mean
    pulls = factors @ (np.swapaxes(factors, 1, 2) @ offsets[:, :, None])
    squares = offsets[:, :, None] * offsets[:, None, :]
    change = 0.5 * (terms.log_det_count * params.covariances - terms.scatter - prior.kappa * squares)
    if params.covariances.ndim == 2:
        change = change.sum(axis=0, keepdims=True)
    return Slopes(-prior.kappa * pulls[:, :, 0], _diagonal_if(problem, change))


# Information -------------------------------------------------------------------------------------------------


def covariance_counts(problem: Problem, point: Point) -> FloatArray:
    """Rows that speak for each precision matrix, (C,) or (1,); a meta-cluster's are shared out by precision."""
    own = 0.0
    if problem.prior is not None:
        own = prior_terms(problem.prior, problem.shares.shape[1], problem.covariance).log_det_count
    focal = point.model.focal
    if focal is None:
        return np.array([problem.moments.weight + own * problem.shares.shape[1]])
    factors = point.model.factors
    if focal.covariances.ndim == 2:
        precisions = np.einsum("kdd->kd", factors) ** 2
    else:
        precisions = (factors @ np.swapaxes(factors, 1, 2)).reshape(len(factors), -1)
    influence = focal.covariances.reshape(len(focal.means), -1) @ precisions.T
    memberships = point.statistics.set_counts[:, None] * problem.shares
    return np.asarray((memberships * influence).sum(axis=0) / len(problem.ridge) + own)


class MeansInformation:
    r"""Information of the means, (C D) x (C D) with blocks :math:`\sum_j n_j W_{jk} W_{jl} P_k \bar\Sigma_j P_l`.

    A prior adds its :math:`\kappa P_k`. As :math:`\operatorname{diag}(P)` stands on both sides, the system to solve is
    that of the focal covariances alone; with one covariance or diagonal ones it falls apart into C x C systems.
    """

    def __init__(self, problem: Problem, point: Point) -> None:
        focal, self._covariances = point.model.focal, point.params.covariances
        self._is_shared = focal is None
        self.shape = n_clusters, dim = point.params.means.shape
        counts, own = point.statistics.set_counts, np.eye(n_clusters)
        own *= 0.0 if problem.prior is None else problem.prior.kappa
        if focal is None:
            self._factors = [_factor(overlap_matrix(counts, problem.shares) + own)]
            return
        overlaps = (_pairs(problem.shares) * counts) @ focal.covariances.reshape(len(counts), -1)
        overlaps = overlaps.reshape(n_clusters, n_clusters, *focal.covariances.shape[1:])
        if focal.covariances.ndim == 2:
            self._covariances = np.einsum("kdd->kd", self._covariances)
            systems = overlaps + self._covariances * own[:, :, None]
            self._factors = [_factor(systems[:, :, d]) for d in range(dim)]
        else:
            systems = overlaps + self._covariances * own[:, :, None, None]
            self._factors = [_factor(systems.transpose(0, 2, 1, 3).reshape(n_clusters * dim, -1))]

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Inverse information times (C, D)."""
        if self._covariances.ndim == 3:
            pulls = (self._covariances @ gradient[:, :, None]).ravel()
            moved = self._factors[0](pulls).reshape(*self.shape, 1)
            return np.asarray((self._covariances @ moved)[:, :, 0])
        if self._is_shared:
            return self._factors[0](gradient) @ self._covariances
        pulls = self._covariances * gradient
        moved = np.stack([factor(pulls[:, d]) for d, factor in enumerate(self._factors)], axis=1)
        return np.asarray(self._covariances * moved)


def _pairs(shares: FloatArray) -> FloatArray:
    """W_jk W_jl as (C C, M)."""
    return (shares.T[:, None] * shares.T).reshape(-1, len(shares))


def _factor(system: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the solver of a positive definite system; of a singular one (an emptied cluster), by least squares."""
    factor, failed = dpotrf(system)
    if failed:
        inverse = np.linalg.pinv(system, hermitian=True)
        return lambda right: np.asarray(inverse @ right)
    return lambda right: dpotrs(factor, right)[0]


def _diagonal_if(problem: Problem, matrices: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("kdd->kd", matrices)) if is_diagonal(problem.covariance) else matrices
