"""The M-step: parameters from statistics, whatever rows they came from."""

import numpy as np
from scipy.linalg.lapack import dposv

from egmm._checks import FloatArray
from egmm.em.celeux_govaert import fit_covariances
from egmm.em.covariance import SHARED
from egmm.em.natural import Expected, overlap_matrix, raise_q, scatters_about, warn_no_mass
from egmm.em.parameters import Parameters, TooFewRowsError, check_definite, is_single
from egmm.em.prior import Prior, prior_terms, set_weights
from egmm.em.statistics import Moments, Statistics

EMPTY = 1e-14
"""Share of all rows below which a cluster has none."""

EPSILON = float(np.finfo(float).eps)
ROUND_OFF = 64 * EPSILON


def m_step(
    statistics: Statistics,
    moments: Moments,
    shares: FloatArray,
    params: Parameters,
    covariance: str,
    ridge: FloatArray,
    prior: Prior | None = None,
    certainty: float = 0.0,
) -> Parameters:
    """Parameters that raise the expected complete log-likelihood, plus the log priors if there are any.

    Its maximum for a shared covariance, and for singletons where the model has a closed form; otherwise a step from
    `params`, which must belong to the model. `ridge` (D,) enters the scatter of every cluster as r_k diag(ridge); for a
    shared covariance that is exact EM for the log-likelihood minus N tr(P R) / 2.

    Raises
    ------
    TooFewRowsError
        Where a cluster has too few rows for its covariance; the message names it.
    """
    counts = statistics.set_counts
    weights = set_weights(counts, shares, certainty)
    if covariance in SHARED:
        means, covariances = _shared(statistics, moments, shares, params, covariance, ridge, prior)
        return Parameters(weights, means, covariances)
    expected = expected_terms(statistics, shares, covariance, ridge, prior)
    if is_single(shares).all():
        means, covariances = _singletons(expected, params, covariance)
    else:
        means, covariances = raise_q(expected, params.means, params.covariances, covariance)
    check_definite(covariances, np.diag(moments.scatter) / moments.weight, shares.T @ counts, covariance)
    return Parameters(weights, means, covariances)


def start_from_groups(
    groups: Statistics,
    moments: Moments,
    n_sets: int,
    covariance: str,
    ridge: FloatArray,
    prior: Prior | None = None,
    means: FloatArray | None = None,
) -> Parameters:
    """Label start: the model's own M-step on hard groups, every focal set with weight 1 / M.

    Parameters
    ----------
    groups : Statistics
        Per group its count, sum and second moments about the centre: `set_counts` is (C,), and `cluster_scatters` is
        there for the shared models too, (C, D) for diagonal and (C, D, D) for full ones.
    moments : Moments
        Of all rows.
    n_sets : int
        :math:`M`, the number of focal sets to start.
    covariance : str
        One of the 14 codes.
    ridge : ndarray of shape (D,)
        Added to every group's variances.
    prior : Prior, optional
        As in `m_step`.
    means : ndarray of shape (C, D), optional
        Means that stay, relative to the centre; the covariances are then about them.

    Returns
    -------
    params : Parameters

    Examples
    --------
    >>> groups = Statistics(np.array([2.0, 2.0]), np.array([[-4.0], [4.0]]), np.array([[10.0], [8.5]]), 0.0)
    >>> start_from_groups(groups, Moments(4.0, np.zeros(1), np.array([[18.5]])), 3, "VII", np.zeros(1)).covariances
    array([[[1.  ]],
           [[0.25]]])
    """
    expected = expected_terms(groups, np.eye(len(groups.set_counts)), covariance, ridge, prior)
    new_means, covariances = _singletons(expected, None, covariance, means)
    check_definite(covariances, np.diag(moments.scatter) / moments.weight, groups.set_counts, covariance)
    return Parameters(np.full(n_sets, 1 / n_sets), new_means, covariances[0] if covariance in SHARED else covariances)


# Own covariances ---------------------------------------------------------------------------------------------


def expected_terms(
    statistics: Statistics, shares: FloatArray, covariance: str, ridge: FloatArray, prior: Prior | None
) -> Expected:
    """Gather the terms of Q: statistics, with the ridge in the scatters and the prior as rows of its own."""
    counts, scatters = statistics.set_counts, statistics.cluster_scatters
    if scatters is None:
        raise ValueError(f"covariance={covariance!r} needs second moments per cluster; the statistics have none.")
    own_rows = (shares.T @ counts)[:, None] * ridge
    expected = Expected(shares, counts, counts, statistics.cluster_sums, scatters + _like(scatters, own_rows))
    if prior is not None:
        expected = _with_prior(expected, prior, covariance)
    rows = expected.shares.T @ expected.log_det_counts
    if not rows.min() > EMPTY * rows.sum():
        raise TooFewRowsError(
            f"cluster {int(np.argmin(rows)) + 1} has no rows left for its {covariance} covariance; use fewer clusters, "
            "another start or prior='default'."
        )
    return expected


def _with_prior(expected: Expected, prior: Prior, covariance: str) -> Expected:
    """Append the prior as one singleton per cluster: kappa rows at its mean, and its count and scatter."""
    n_clusters = expected.shares.shape[1]
    terms = prior_terms(prior, n_clusters, covariance)
    scatter = terms.scatter + prior.kappa * np.outer(prior.mean, prior.mean)
    if expected.cluster_scatters.ndim == 2:
        scatter = np.diag(scatter)
    return Expected(
        np.concatenate([expected.shares, np.eye(n_clusters)]),
        np.concatenate([expected.set_counts, np.full(n_clusters, prior.kappa)]),
        np.concatenate([expected.log_det_counts, np.full(n_clusters, terms.log_det_count)]),
        expected.cluster_sums + prior.kappa * prior.mean,
        expected.cluster_scatters + scatter,
    )


def _singletons(
    expected: Expected, params: Parameters | None, covariance: str, means: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Means and covariances without meta-clusters, from `params` where there is no closed form."""
    counts = expected.shares.T @ expected.set_counts
    log_det_counts = expected.shares.T @ expected.log_det_counts
    sums = expected.cluster_sums
    if means is None:
        means = sums / counts[:, None] if params is None else cluster_means(np.diag(counts), sums, params.means)
    scatters = scatters_about(expected.cluster_scatters, sums, counts, means)
    previous = None if params is None else _like(scatters, params.covariances)
    fitted = fit_covariances(covariance, log_det_counts, scatters, previous)
    return means, fitted if fitted.ndim == 3 else fitted[:, :, None] * np.eye(fitted.shape[1])


def _like(scatters: FloatArray, values: FloatArray) -> FloatArray:
    """Diagonals (C, D) or matrices (C, D, D), in the shape of `scatters`."""
    if scatters.ndim == values.ndim:
        return values
    if scatters.ndim == 2:
        return np.asarray(np.einsum("kdd->kd", values))
    return values[:, :, None] * np.eye(values.shape[1])


# One covariance for all clusters -----------------------------------------------------------------------------


def _shared(
    statistics: Statistics,
    moments: Moments,
    shares: FloatArray,
    params: Parameters,
    covariance: str,
    ridge: FloatArray,
    prior: Prior | None,
) -> tuple[FloatArray, FloatArray]:
    n_rows = moments.weight
    if prior is not None:
        scatters = np.repeat(moments.scatter[None] / len(params.means), len(params.means), axis=0)
        counts = statistics.set_counts
        rows = _with_prior(Expected(shares, counts, counts, statistics.cluster_sums, scatters), prior, covariance)
        shares = rows.shares
        statistics = Statistics(rows.set_counts, rows.cluster_sums, None, statistics.log_likelihood)
        moments = Moments(float(rows.log_det_counts.sum()), moments.centre, rows.cluster_scatters.sum(axis=0))
    overlap = overlap_matrix(statistics.set_counts, shares)
    means = cluster_means(overlap, statistics.cluster_sums, params.means)
    scatter = residual_scatter(overlap, statistics.cluster_sums, moments.scatter, means)
    # The ridge comes with the rows; what a prior counts for has none.
    return means, shared_covariance(scatter / moments.weight, covariance) + np.diag(n_rows / moments.weight * ridge)


def cluster_means(overlap: FloatArray, cluster_sums: FloatArray, previous: FloatArray) -> FloatArray:
    """Solve H mu = B [eq_EMV]; clusters that no row speaks of stay where they were."""
    diagonal = overlap.diagonal()
    if diagonal.min() > EPSILON * diagonal.sum():
        factor, means, failed = dposv(overlap, cluster_sums)
        # Of a singular matrix round-off may leave a small positive pivot.
        if not failed and (factor.diagonal() ** 2 > ROUND_OFF * diagonal).all():
            return means
    warn_no_mass(diagonal, overlap)
    change = np.linalg.pinv(overlap, hermitian=True) @ (cluster_sums - overlap @ previous)
    return np.asarray(previous + change)


def residual_scatter(
    overlap: FloatArray, cluster_sums: FloatArray, scatter: FloatArray, means: FloatArray
) -> FloatArray:
    """sum_ij m_ij (x_i - nu_j)(x_i - nu_j)' for given cluster means, (D, D) [eq_ECM]."""
    cross = means.T @ (0.5 * (overlap @ means) - cluster_sums)
    return np.asarray(scatter + cross + cross.T)


def shared_covariance(scatter: FloatArray, covariance: str) -> FloatArray:
    """Constrain one covariance to its model: spherical (EII), diagonal (EEI) or free (EEE)."""
    dim = len(scatter)
    if covariance == "EII":
        return np.diag(np.full(dim, np.trace(scatter) / dim))
    if covariance == "EEI":
        return np.diag(np.diag(scatter))
    return 0.5 * (scatter + scatter.T)
