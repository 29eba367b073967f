"""The M-step: parameters from statistics, whatever rows they came from."""

import warnings

import numpy as np
from scipy.linalg.lapack import dposv
from sklearn.exceptions import ConvergenceWarning

from egmm._checks import FloatArray
from egmm.em.parameters import Parameters
from egmm.em.statistics import Moments, Statistics

SHARED = ("EII", "EEI", "EEE")
"""Covariance models with one covariance for all clusters."""

ROUND_OFF = 64 * float(np.finfo(float).eps)


def m_step(
    statistics: Statistics,
    moments: Moments,
    shares: FloatArray,
    params: Parameters,
    covariance: str,
    ridge: FloatArray,
) -> Parameters:
    """Parameters that raise the expected complete log-likelihood; for a shared covariance, its maximum.

    `ridge` (D,) is added to the diagonal of the covariance, which is exact EM for the log-likelihood minus
    N tr(P R) / 2.
    """
    counts = np.maximum(statistics.set_counts, 0.0)
    weights = counts / counts.sum()
    means = cluster_means(statistics, shares, params.means)
    scatter = residual_scatter(statistics, moments, shares, means)
    return Parameters(weights, means, shared_covariance(scatter / moments.weight, covariance) + np.diag(ridge))


def overlap_matrix(set_counts: FloatArray, shares: FloatArray) -> FloatArray:
    """H = W' diag(n) W, (C, C) [eq_H]."""
    return (shares * set_counts[:, None]).T @ shares


def cluster_means(statistics: Statistics, shares: FloatArray, previous: FloatArray) -> FloatArray:
    """Solve H mu = B [eq_EMV]; clusters that no row speaks of stay where they were."""
    overlap = overlap_matrix(statistics.set_counts, shares)
    diagonal = np.diag(overlap)
    if diagonal.min() > np.finfo(float).eps * diagonal.sum():
        factor, means, failed = dposv(overlap, statistics.cluster_sums)
        # Of a singular matrix round-off may leave a small positive pivot.
        if not failed and (np.diag(factor) ** 2 > ROUND_OFF * diagonal).all():
            return means
    empty = [str(k + 1) for k in np.flatnonzero(diagonal <= 1e-8 * diagonal.sum())]
    named = f"cluster {', '.join(empty)} has" if empty else "some clusters have"
    warnings.warn(
        f"{named} no mass of its own left and keeps its mean; use fewer clusters or another start.",
        ConvergenceWarning,
        stacklevel=2,
    )
    change = np.linalg.pinv(overlap, hermitian=True) @ (statistics.cluster_sums - overlap @ previous)
    return np.asarray(previous + change)


def residual_scatter(statistics: Statistics, moments: Moments, shares: FloatArray, means: FloatArray) -> FloatArray:
    """sum_ij m_ij (x_i - nu_j)(x_i - nu_j)' for given cluster means, (D, D) [eq_ECM]."""
    overlap = overlap_matrix(statistics.set_counts, shares)
    cross = means.T @ statistics.cluster_sums
    return np.asarray(moments.scatter - cross - cross.T + means.T @ overlap @ means)


def shared_covariance(scatter: FloatArray, covariance: str) -> FloatArray:
    """Constrain one covariance to its model: spherical (EII), diagonal (EEI) or free (EEE)."""
    dim = len(scatter)
    if covariance == "EII":
        return np.diag(np.full(dim, np.trace(scatter) / dim))
    if covariance == "EEI":
        return np.diag(np.diag(scatter))
    return 0.5 * (scatter + scatter.T)


def n_covariance_parameters(covariance: str, dim: int) -> int:
    """Number of free parameters of a shared covariance."""
    return {"EII": 1, "EEI": dim, "EEE": dim * (dim + 1) // 2}[covariance]
