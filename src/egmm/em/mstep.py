"""The M-step of every fit of a batch: parameters from moments of clusters, whatever rows they came from.

With one shared covariance the M-step is the paper's. Otherwise it is the step of the covariance model
(Celeux and Govaert 1995).
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from egmm._checks import BoolArray, FloatArray
from egmm.em.celeux_govaert import MAX_INNER, fit_covariances
from egmm.em.cluster_moments import ClusterMoments, as_matrices
from egmm.em.covariance import COMMON_UNITS, SHARED
from egmm.em.factors import fit_factors
from egmm.em.layout import Layout, Settings
from egmm.em.parameters import Parameters, safe_cholesky
from egmm.em.prior import set_weights
from egmm.em.statistics import products
from egmm.em.tails import next_degrees

EMPTY = 1e-14
"""Share of all rows below which a cluster counts as empty."""

EPSILON = float(np.finfo(float).eps)
ROUND_OFF = 64 * EPSILON
"""Relative variance, or weight of a cluster, that counts as rounding."""

OWN_SHAPES = ("EVI", "VVI", "EVV", "VVV")
"""Models that give every cluster the shape of its own scatter."""

LEAST_NOISE = 1e-6
"""Smallest share of a feature's variance that is noise in a low-rank covariance."""

FEW_INNER = 3
"""Iterations inside an M-step; the next one continues."""


def maximise(
    moments: ClusterMoments, previous: Parameters, settings: Settings, layout: Layout
) -> tuple[Parameters, BoolArray]:
    """Parameters that raise the expected complete log-likelihood plus the log priors, and which fits have proper ones.

    `previous` are the parameters before, where iterations inside the M-step begin.
    """
    weights = set_weights(moments.set_counts, layout.shares, layout.certainty)
    with np.errstate(all="ignore"):
        if layout.is_shared:
            means, covariances = shared_covariances(moments, previous, settings, layout)
            is_finite = np.isfinite(covariances).reshape(len(weights), -1).all(axis=1)
            degrees = None if moments.tails is None else next_degrees(moments.tails[:, -1], settings.weight)
            return Parameters(weights, means, covariances, degrees), np.asarray(is_finite)
        means, covariances, is_proper = _own(moments, previous.covariances, settings, layout, FEW_INNER)
    return Parameters(weights, means, covariances), is_proper


# Covariances that are not shared ------------------------------------------------------------------------------------


def start_covariances(
    moments: ClusterMoments, means: FloatArray | None, settings: Settings, layout: Layout
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Means and covariances of hard groups, and which fits have proper ones; given means stay."""
    with np.errstate(all="ignore"):
        return _own(moments, None, settings, layout, MAX_INNER, means)


def _own(
    moments: ClusterMoments,
    previous: FloatArray | None,
    settings: Settings,
    layout: Layout,
    max_inner: int,
    means: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, BoolArray]:
    prior = settings.prior
    counts = moments.counts + prior.kappa[:, None]
    firsts = moments.firsts + (prior.kappa[:, None] * prior.mean)[:, None]
    has_rows = moments.counts + prior.log_det_count[:, None] > EMPTY * settings.weight[:, None]
    is_proper = np.asarray(has_rows.all(axis=1))
    if means is None:
        is_proper &= (counts > 0).all(axis=1)
        means = firsts / np.where(counts > 0, counts, 1.0)[..., None]
    scatters = as_matrices(moments.seconds, means.shape[2], layout)
    pulled = prior.kappa[:, None] * prior.mean
    if layout.diagonal:
        scatters = scatters + (prior.scatter + pulled * prior.mean)[:, None]
        scatters = scatters + (counts[..., None] * means - 2 * firsts) * means
    else:
        scatters = scatters + (prior.scatter + pulled[:, :, None] * prior.mean[:, None, :])[:, None]
        half = (0.5 * counts[..., None] * means - firsts)[..., None] * means[..., None, :]
        scatters = scatters + half + np.swapaxes(half, -1, -2)
    is_proper &= _have_scatters(scatters, moments.seconds, settings, layout)
    log_det_counts = moments.scatter_counts + prior.log_det_count[:, None]
    covariances, is_proper = _fit_models(log_det_counts, scatters, previous, settings, layout, max_inner, is_proper)
    return means, covariances, is_proper & are_definite(covariances, layout.diagonal)


def _are_among(models: np.ndarray, known: tuple[str, ...]) -> BoolArray:
    """Which codes are among these, (B,); `np.isin` takes ten times as long for so few."""
    return np.array([model in known for model in models.tolist()], dtype=bool)


def _have_scatters(scatters: FloatArray, seconds: FloatArray, settings: Settings, layout: Layout) -> BoolArray:
    """Which fits have scatters above the rounding of moments about the centre, where clusters need their own."""
    is_free = ~_are_among(settings.model, OWN_SHAPES)
    if is_free.all():
        return is_free
    first, second = products(scatters.shape[-1], layout.kind)
    floors = ROUND_OFF * np.abs(seconds[..., first == second])
    if layout.diagonal:
        are_more = np.asarray((scatters > floors).all(axis=(1, 2)))
    else:
        is_usable = np.asarray(np.isfinite(scatters).reshape(len(scatters), -1).all(axis=1))
        are_more = safe_cholesky(scatters - floors[..., None] * np.eye(scatters.shape[-1]), is_usable)[1]
    return are_more | is_free


def _fit_models(
    counts: FloatArray,
    scatters: FloatArray,
    previous: FloatArray | None,
    settings: Settings,
    layout: Layout,
    max_inner: int,
    is_proper: BoolArray,
) -> tuple[FloatArray, BoolArray]:
    """The step of each fit's covariance model."""
    variances = scatters if layout.diagonal else np.einsum("bkdd->bkd", scatters)
    # What clusters share is made of all scatters together: some may be zero, as those of single rows.
    is_proper = is_proper & ((variances > 0).all(axis=(1, 2)) | _are_among(settings.model, SHARED))
    is_proper &= np.isfinite(scatters).reshape(len(scatters), -1).all(axis=1)
    if not is_proper.all():
        keep = is_proper.reshape(-1, *[1] * (scatters.ndim - 1))
        identity = np.ones(scatters.shape[-1]) if layout.diagonal else np.eye(scatters.shape[-1])
        scatters = np.where(keep, scatters, identity)
        counts = np.where(is_proper[:, None], counts, 1.0)
    covariances = np.empty_like(scatters)
    for model in dict.fromkeys(settings.model.tolist()):
        at = np.flatnonzero(settings.model == model)
        before = None if previous is None else previous[at]
        covariances[at] = _fit_model(model, counts[at], scatters[at], before, layout, max_inner)
    return covariances, is_proper


def _fit_model(
    model: str,
    counts: FloatArray,
    scatters: FloatArray,
    previous: FloatArray | None,
    layout: Layout,
    max_inner: int,
) -> FloatArray:
    if model not in COMMON_UNITS:
        return fit_covariances(model, counts, scatters, previous, max_inner)
    scale = layout.scale / layout.scale.max()
    if scale.min() < 1 / COMMON_UNITS[model]:
        return np.full_like(scatters, np.nan)
    units = scale * scale if layout.diagonal else scale * scale[:, None]
    before = None if previous is None else previous * units
    return fit_covariances(model, counts, scatters * units, before, max_inner) / units


def are_definite(covariances: FloatArray, diagonal: bool) -> BoolArray:
    """Which fits have covariances (B, C, D, D), or variances (B, C, D), above what rounding leaves, (B,)."""
    variances = covariances if diagonal else np.einsum("bkdd->bkd", covariances)
    floors = ROUND_OFF * np.maximum(variances, 1.0)
    is_usable = np.asarray(np.isfinite(covariances).reshape(len(covariances), -1).all(axis=1))
    is_usable &= (variances > floors).all(axis=(1, 2))
    if diagonal:
        return is_usable
    return safe_cholesky(covariances - floors[..., None] * np.eye(covariances.shape[-1]), is_usable)[1]


def unsound_clusters(covariances: FloatArray, diagonal: bool) -> list[int]:
    """Clusters of one fit whose covariance, (K, D, D) or (K, D), consists of rounding errors along some direction."""
    found = []
    for k, one in enumerate(covariances):
        matrix = np.diag(one) if diagonal else one
        floors = ROUND_OFF * np.maximum(matrix.diagonal(), 1.0)
        if not np.isfinite(matrix).all() or np.linalg.eigvalsh(matrix - np.diag(floors))[0] <= 0:
            found.append(k)
    return found


# One covariance for all clusters -----------------------------------------------------------------------------


def shared_covariances(
    moments: ClusterMoments, previous: Parameters, settings: Settings, layout: Layout
) -> tuple[FloatArray, FloatArray]:
    """Means and the covariance that all clusters share, sum_ij m_ij (x_i - nu_j)(x_i - nu_j)' / N [eq_ECM]."""
    prior, shares = settings.prior, layout.shares
    n_clusters, dim = previous.means.shape[1:]
    set_counts = moments.set_counts if moments.tails is None else moments.tails[:, :-1]
    overlap = overlap_matrices(set_counts, shares) + prior.kappa[:, None, None] * np.eye(n_clusters)
    pulled = prior.kappa[:, None] * prior.mean
    firsts = moments.firsts + pulled[:, None]
    means = cluster_means(overlap, firsts, previous.means)
    rows = moments.counts.sum(axis=1) if layout.pools and not layout.tails else settings.weight
    weight = rows + n_clusters * prior.log_det_count
    whole = as_matrices(moments.seconds, dim, layout)[:, 0] if layout.pools else settings.reference.scatter
    half = 0.5 * (overlap @ means) - firsts
    # The ridge comes with the rows; what a prior counts for has none.
    ridge = (rows / weight)[:, None] * settings.ridge
    if layout.diagonal:
        prior_scatter = prior.scatter + pulled * prior.mean
        scatter = whole + n_clusters * prior_scatter + 2 * np.einsum("bkd,bkd->bd", means, half)
        variances = scatter / weight[:, None]
        return means, (_constrained(variances, settings.model, layout.scale) + ridge)[:, None]
    prior_scatter = prior.scatter + pulled[:, :, None] * prior.mean[:, None, :]
    cross = np.swapaxes(means, 1, 2) @ half
    scatter = whole + n_clusters * prior_scatter + cross + np.swapaxes(cross, 1, 2)
    covariances = 0.5 * (scatter + np.swapaxes(scatter, 1, 2)) / weight[:, None, None]
    covariances = covariances + ridge[:, None] * np.eye(dim)
    if layout.n_factors:
        covariances = fit_factors(covariances, previous.covariances[:, 0], noise_floors(settings))
    return means, covariances[:, None]


def noise_floors(settings: Settings) -> FloatArray:
    """Least noise variances (B, D) of low-rank covariances."""
    variances = np.einsum("bdd->bd", settings.scatter) / settings.weight[:, None]
    return np.maximum(settings.ridge, LEAST_NOISE * variances)


def _constrained(variances: FloatArray, models: np.ndarray, scale: FloatArray) -> FloatArray:
    """Variances (B, D) of diagonal models; those of EII are equal in common units."""
    squares = (scale / scale.max()) ** 2
    equal = (variances * squares).mean(axis=1, keepdims=True) / squares
    return np.where((models == "EII")[:, None], equal, variances)


def overlap_matrices(set_counts: FloatArray, shares: FloatArray) -> FloatArray:
    """H = W' diag(n) W, (B, C, C) [eq_H]."""
    return (shares.T * set_counts[:, None, :]) @ shares


def cluster_means(overlap: FloatArray, firsts: FloatArray, previous: FloatArray) -> FloatArray:
    """Solve H mu = B [eq_EMV]; clusters without rows keep their means."""
    diagonal, is_regular = np.einsum("bkk->bk", overlap), are_determined(overlap)
    safe = np.where(is_regular[:, None, None], overlap, np.eye(overlap.shape[1]))
    means = np.linalg.solve(safe, firsts)
    for at in np.flatnonzero(~is_regular & np.isfinite(diagonal).all(axis=1)):
        warn_no_mass(diagonal[at], overlap[at])
        change = np.linalg.pinv(overlap[at], hermitian=True) @ (firsts[at] - overlap[at] @ previous[at])
        means[at] = previous[at] + change
    return np.asarray(means)


def are_determined(overlap: FloatArray) -> BoolArray:
    """Which fits have identifiable means, (B,): a regular H (B, C, C)."""
    diagonal = np.einsum("bkk->bk", overlap)
    is_regular = np.asarray(diagonal.min(axis=1) > EPSILON * diagonal.sum(axis=1))
    lower, is_regular = safe_cholesky(overlap[:, None], is_regular)
    # Round-off may leave a small positive pivot in a singular matrix.
    pivots = np.einsum("bkk->bk", lower[:, 0]) ** 2
    return np.asarray(is_regular & (pivots > ROUND_OFF * diagonal).all(axis=1))


def warn_no_mass(diagonal: FloatArray, overlap: FloatArray) -> None:
    """Warn about clusters with undetermined means; `diagonal` (C,) is their evidence, `overlap` (C, C) is H."""
    empty = [str(k + 1) for k in np.flatnonzero(diagonal <= 1e-8 * diagonal.sum())]
    if len(empty) == 1:
        found = f"cluster {empty[0]} has no mass of its own left and keeps its mean"
    elif empty:
        found = f"clusters {', '.join(empty)} have no mass of their own left and keep their means"
    else:
        together = [str(k + 1) for k in np.flatnonzero(_seen_together(overlap))]
        which = f"clusters {', '.join(together)}" if together else "some clusters"
        found = f"{which} have no mass of their own left and keep their differences"
    warnings.warn(f"{found}; use fewer clusters or another start.", ConvergenceWarning, stacklevel=2)


def _seen_together(overlap: FloatArray) -> BoolArray:
    """Clusters whose means can move against each other while those of all focal sets stay: H's null space."""
    deviations = np.sqrt(overlap.diagonal())
    values, vectors = np.linalg.eigh(overlap / deviations / deviations[:, None])
    return np.asarray((vectors[:, values < 1e-8] ** 2).sum(axis=1) > 1e-8)
