"""What a fit must not end as: clusters without rows, covariances without extent, clusters that have run away."""

import numpy as np
from scipy.linalg import eigh, eigvalsh

from egmm._checks import BoolArray, FloatArray
from egmm.em.parameters import Parameters
from egmm.em.statistics import Moments

SMALLEST_EIGENVALUE = 1e-6
"""Of the start's covariance, along any direction: below it a fit has collapsed onto few rows."""

FLATTEST, MOST_RIDGE = 1e-8, 10.0
"""A start was flat along some direction, as on a feature constant in a group, where a covariance has less than this of
the rows' and is little but ridge. Of clusters far apart it has little of the rows' too, but more than the ridge."""

FARTHEST = 5.0
"""A cluster without a row of its own is known from meta-clusters alone: as the third of three means at distance d from
the centre it may be at 5d. Further out, nothing holds it."""


def has_degenerated(
    moments: Moments, ridge: FloatArray, shares: FloatArray, params: Parameters, counts: FloatArray, first: Parameters
) -> bool:
    """Whether a cluster weighs less than D + 1 rows or has run away, or a covariance has collapsed."""
    n_features = params.means.shape[1]
    if (shares.T @ counts).min() < n_features + 1 or have_run_away(moments, ridge, shares, params, counts).any():
        return True
    return has_collapsed(moments, ridge, params, first)


def has_collapsed(moments: Moments, ridge: FloatArray, params: Parameters, first: Parameters) -> bool:
    """Whether a covariance has hardly any extent left along some direction."""
    ends, beginnings = np.atleast_3d(params.covariances.T).T, np.atleast_3d(first.covariances.T).T
    whole, floor = moments.scatter / moments.weight, _floor(moments, ridge)
    # One factorisation of all tells the sound ones, which most are.
    if _is_above(ends, SMALLEST_EIGENVALUE * beginnings) and _is_above(ends, FLATTEST * (whole + np.diag(floor))):
        return False
    return any(
        eigvalsh(end, beginning, check_finite=False)[0] < SMALLEST_EIGENVALUE or _is_flat(end, whole, floor)
        for end, beginning in zip(ends, beginnings, strict=True)
    )


def have_run_away(
    moments: Moments, ridge: FloatArray, shares: FloatArray, params: Parameters, counts: FloatArray
) -> BoolArray:
    """Which clusters lie, or spread, far beyond all rows, while no row is of them alone.

    The precision of such a cluster goes to zero, for the meta-clusters it is in are likelier without it. About the
    centre, the second moments of n rows are at most N / n times those of all N, feature by feature.
    """
    _, means, covariances = params
    if covariances.ndim == 2:
        return np.zeros(len(means), dtype=bool)
    variances = np.diag(moments.scatter) / moments.weight + _floor(moments, ridge)
    ratios = ((np.einsum("kdd->kd", covariances) + means**2) / variances).max(axis=1)
    own_rows, rows = (shares == 1).T @ counts, shares.T @ counts
    return np.asarray((own_rows < 1) & (ratios * rows > FARTHEST**2 * moments.weight))


def _is_above(covariances: FloatArray, others: FloatArray) -> bool:
    """Whether covariances (m, D, D) are above others along all directions."""
    try:
        np.linalg.cholesky(covariances - others)
    except np.linalg.LinAlgError:
        return False
    return True


def _floor(moments: Moments, ridge: FloatArray) -> FloatArray:
    """Variances (D,) of the ridge, or of what counts as zero."""
    variances = np.diag(moments.scatter) / moments.weight
    return np.maximum(ridge, 1e-12 * np.where(variances > 0, variances, 1.0))


def _is_flat(covariance: FloatArray, whole: FloatArray, floor: FloatArray) -> bool:
    """Whether along some direction a covariance is hardly more than the floor, though the rows' is."""
    ratios, directions = eigh(covariance, whole + np.diag(floor), check_finite=False)
    return bool((ratios < np.minimum(FLATTEST, MOST_RIDGE * (floor @ directions**2))).any())
