"""Definition of degenerate fits: clusters without rows, collapsed covariances, diverged clusters."""

import numpy as np
from scipy.linalg import eigh, eigvalsh

from egmm._checks import BoolArray, FloatArray
from egmm.em.layout import Layout, Settings
from egmm.em.parameters import Parameters, safe_cholesky
from egmm.em.problem import Evaluation, Problem

SMALLEST_EIGENVALUE = 1e-6
"""Smallest variance along any direction, relative to the start's: below it a fit has collapsed onto few rows."""

FLATTEST, MOST_RIDGE = 1e-8, 10.0
"""A start was flat along some direction, as on a feature constant in a group, where a covariance has less than this of
the rows' and is little but ridge. Of clusters far apart it has little of the rows' too, but more than the ridge."""

FARTHEST = 5.0
"""The mean of a cluster without rows is determined by meta-clusters only. If two other means are at distance d from the
centre, it may be at 5d; farther away it is not constrained."""


def are_degenerate(problem: Problem, evaluation: Evaluation, first: FloatArray) -> BoolArray:
    """Which fits have a cluster that weighs too few rows or diverged, or a covariance that collapsed, (B,).

    `first` are the covariances that the fits began with.
    """
    settings, layout, params = problem.settings, problem.layout, evaluation.params
    too_few = evaluation.statistics.cluster_counts.min(axis=1) < _fewest_rows(settings, layout, params.means.shape[2])
    away = have_diverged(params, evaluation.statistics.set_counts, settings, layout).any(axis=1)
    return np.asarray(too_few | away | have_collapsed(params, first, settings, layout))


def _fewest_rows(settings: Settings, layout: Layout, n_features: int) -> FloatArray:
    """Rows (B,) that a cluster needs: D + 1, by which rows span its covariance.

    Variances alone, and a covariance of low rank that clusters share, do not need to be spanned. Where rows are too few
    for D + 1 in every cluster, half of an equal share will do for them.
    """
    spanning = np.full(len(settings.weight), n_features + 1.0)
    if not (layout.diagonal or layout.n_factors):
        return spanning
    return np.minimum(spanning, np.maximum(2.0, 0.5 * settings.weight / layout.shares.shape[1]))


def have_collapsed(params: Parameters, first: FloatArray, settings: Settings, layout: Layout) -> BoolArray:
    """Which fits have a covariance with hardly any extent left along some direction, (B,)."""
    ends, floors = params.covariances, _floors(settings)
    with np.errstate(all="ignore"):
        if layout.diagonal or layout.n_factors:
            # A covariance of factors and noise has the extent of the noise at least.
            ends, first = (part if layout.diagonal else part[..., 0] for part in (ends, first))
            base = (_variances(settings) + floors)[:, None]
            limit = np.minimum(FLATTEST, MOST_RIDGE * floors[:, None] / base)
            return np.asarray(((ends < SMALLEST_EIGENVALUE * first) | (ends < limit * base)).any(axis=(1, 2)))
        whole = settings.scatter / settings.weight[:, None, None]
        base = (whole + floors[:, None] * np.eye(whole.shape[-1]))[:, None]
        # Factorisations tell the sound ones, which most are.
        is_sound = _are_above(ends, SMALLEST_EIGENVALUE * first) & _are_above(ends, FLATTEST * base)
    for at in np.flatnonzero(~is_sound):
        is_sound[at] = not any(
            _has_collapsed(end, beginning, whole[at], floors[at])
            for end, beginning in zip(ends[at], first[at], strict=True)
        )
    return ~is_sound


def _has_collapsed(end: FloatArray, beginning: FloatArray, whole: FloatArray, floor: FloatArray) -> bool:
    try:
        if eigvalsh(end, beginning, check_finite=False)[0] < SMALLEST_EIGENVALUE:
            return True
        ratios, directions = eigh(end, whole + np.diag(floor), check_finite=False)
    except np.linalg.LinAlgError:
        return True
    # Flat along a direction: hardly more than the floor, though the rows' extent is.
    return bool((ratios < np.minimum(FLATTEST, MOST_RIDGE * (floor @ directions**2))).any())


def have_diverged(params: Parameters, set_counts: FloatArray, settings: Settings, layout: Layout) -> BoolArray:
    """Which clusters diverged: without rows that belong to them alone, far beyond all rows in mean or spread, (B, C).

    The precision of such a cluster goes to zero, for the meta-clusters it is in are likelier without it. About the
    centre, the second moments of n rows are at most N / n times those of all N, feature by feature.
    """
    shares = layout.shares
    if layout.is_shared:
        return np.zeros(params.means.shape[:2], dtype=bool)
    variances = (_variances(settings) + _floors(settings))[:, None]
    with np.errstate(all="ignore"):
        ratios = ((params.variances + params.means**2) / variances).max(axis=-1)
    own_rows, rows = set_counts[:, layout.single] @ shares[layout.single], set_counts @ shares
    return np.asarray((own_rows < 1) & (ratios * rows > FARTHEST**2 * settings.weight[:, None]))


def _are_above(covariances: FloatArray, others: FloatArray) -> BoolArray:
    """Which fits have covariances (B, K, D, D) above others along all directions, (B,)."""
    differences = covariances - others
    is_usable = np.asarray(np.isfinite(differences).all(axis=(1, 2, 3)))
    return safe_cholesky(differences, is_usable)[1]


def _variances(settings: Settings) -> FloatArray:
    """(B, D) of all rows."""
    scatter = settings.scatter
    diagonal = scatter if scatter.ndim == 2 else np.einsum("bdd->bd", scatter)
    return np.asarray(diagonal / settings.weight[:, None])


def _floors(settings: Settings) -> FloatArray:
    """Variances (B, D) of the ridge, or of what counts as zero."""
    variances = _variances(settings)
    return np.maximum(settings.ridge, 1e-12 * np.where(variances > 0, variances, 1.0))
