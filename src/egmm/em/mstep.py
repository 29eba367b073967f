r"""The M-step of every fit of a batch: parameters from statistics, whatever rows they came from.

With one shared covariance the M-step is the paper's. With covariances of their own, clusters in meta-clusters have no
closed form: there the moments that a meta-cluster adds are substituted. Cluster k's statistics plus, for each set j of
several clusters that it is in,

.. math:: \frac{n_j}{c_j} \big( w_{jk} E_k[z] - E_j[z] \big), \qquad w_{jk} = \operatorname{tr}(\Sigma_j P_k) / D,

are those of a cluster on its own, E being moments that the parameters expect. For covariances the weight is
:math:`w_{jk} (1 + |\mu_k - \nu_j|^2_{P_k})`: a precision also moves the means of the sets, by as much as they are away,
and with less weight steps would overshoot. Then the model's own step follows
(Celeux and Govaert 1995). Where the M-step's condition holds the correction vanishes; with singletons there is none.
"""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from egmm._checks import BoolArray, FloatArray
from egmm.em.celeux_govaert import MAX_INNER, fit_covariances
from egmm.em.covariance import COMMON_UNITS, SHARED, is_diagonal, monomial_kind
from egmm.em.factors import fit_factors
from egmm.em.noise import Box
from egmm.em.parameters import Evaluated, Parameters, is_meta, safe_cholesky
from egmm.em.prior import PriorTerms, set_weights
from egmm.em.statistics import Statistics, products
from egmm.em.tails import next_degrees

EMPTY = 1e-14
"""Share of all rows below which a cluster counts as empty."""

EPSILON = float(np.finfo(float).eps)
ROUND_OFF = 64 * EPSILON
"""Relative variance, or weight of a cluster, that counts as rounding."""

OWN_SHAPES = ("EVI", "VVI", "EVV", "VVV")
"""Models that give every cluster the shape of its own scatter."""

LEAST_NOISE = 1e-6
"""Share of a feature's variance that is noise at least, where factors tell the rest."""

FEW_INNER = 3
"""Iterations inside an M-step; the next one continues."""


class RowTotals(NamedTuple):
    """Weight and scatter of rows."""

    weight: FloatArray
    """(B,)."""
    scatter: FloatArray
    """(B, D, D) about the centre, or (B, D)."""


class Settings(NamedTuple):
    """What differs between the fits of a batch."""

    model: np.ndarray
    """(B,) codes of the covariance models."""
    ridge: FloatArray
    """(B, D) variances added to every cluster's."""
    prior: PriorTerms
    weight: FloatArray
    """(B,) of all rows."""
    scatter: FloatArray
    """(B, D, D) of all rows about the centre, or (B, D); missing cells are estimated."""
    reference: RowTotals
    """Of the complete rows, whose log-densities are relative to a reference where the covariance is shared."""


class Layout(NamedTuple):
    """What all fits of a batch share."""

    shares: FloatArray
    """(M, C) W."""
    kind: str
    """Of the monomials that complete rows are summed up by; "linear" densities are relative to a reference."""
    diagonal: bool
    """Whether covariances are variances alone."""
    is_shared: bool
    """Whether clusters share one covariance."""
    scale: FloatArray
    """(D,) of the units, which models that need common units undo."""
    certainty: float = 0.0
    pools: bool = False
    """Whether the scatter that makes a shared covariance is a statistic. Without missing cells and noise it is the
    scatter of the rows, the same in every pass."""
    noise: Box | None = None
    """Where noise may lie, if the empty set is a focal set."""
    tails: bool = False
    """Whether tails are heavy."""
    n_factors: int = 0
    """Of a low-rank covariance; other models have none."""

    @classmethod
    def of(
        cls,
        covariance: str,
        shares: FloatArray,
        scale: FloatArray,
        certainty: float = 0.0,
        *,
        pools: bool = False,
        noise: Box | None = None,
        tails: bool = False,
        n_factors: int = 0,
    ) -> "Layout":
        """The layout of a covariance model; only shared covariances can be pooled.

        With noise or heavy tails they are, since rows then count for more or less.
        """
        is_shared, is_absolute = covariance in SHARED, noise is not None or tails
        kind, diagonal = monomial_kind(covariance, is_absolute=is_absolute), is_diagonal(covariance)
        pools = is_shared and (pools or is_absolute)
        return cls(shares, kind, diagonal, is_shared, scale, certainty, pools, noise, tails, n_factors)

    @property
    def log_noise(self) -> float:
        """Log-density of the noise in the units of rows."""
        return 0.0 if self.noise is None else self.noise.log_density(self.scale)

    @property
    def second_kind(self) -> str:
        """Kind of the second moments that the M-step reads."""
        return ("diagonal" if self.diagonal else "full") if self.pools else self.kind

    @property
    def start_kind(self) -> str:
        """Kind of the second moments of groups that a start reads: a low-rank covariance starts as noise alone."""
        return "diagonal" if self.diagonal or self.n_factors else "full"

    @property
    def n_counts(self) -> int:
        """Entries of a vector of statistics that are counts."""
        (n_focal, n_clusters), is_twice = self.shares.shape, self.tails
        return (1 + is_twice) * n_focal + (0 if self.is_exact else 2 * n_clusters)

    @property
    def is_exact(self) -> bool:
        """Whether the M-step finds the maximum of Q; else it takes a step towards it."""
        return self.is_shared or not is_meta(self.shares).any()


class ClusterMoments(NamedTuple):
    """Input of an M-step: moments of clusters as if each were on its own."""

    set_counts: FloatArray
    """(B, M)."""
    counts: FloatArray
    """(B, C) counts for each mean."""
    scatter_counts: FloatArray
    """(B, C) counts for each covariance; different only if the M-step has no closed form."""
    firsts: FloatArray
    """(B, C, D)."""
    seconds: FloatArray
    """(B, C, P) products of features; with one shared covariance (B, 1, P) where they are pooled, else P is zero."""
    tails: FloatArray | None = None
    """(B, M + 1) where tails are heavy: sums of m u for every set, and those that tell the degrees of freedom."""

    def vector(self, layout: Layout) -> FloatArray:
        """All of them as one vector per fit, but for counts that those of the sets tell."""
        parts = [self.set_counts, self.firsts, self.seconds] if layout.is_exact else list(self[:5])
        if self.tails is not None:
            parts = [self.set_counts, self.tails[:, :-1], self.firsts, self.seconds, self.tails[:, -1:]]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    @classmethod
    def of(cls, vector: FloatArray, layout: Layout, dim: int) -> "ClusterMoments":
        """Read a vector."""
        (n_focal, n_clusters), n_fits, at = layout.shares.shape, len(vector), layout.n_counts
        set_counts, tails = vector[:, :n_focal], None
        if layout.tails:
            vector, logs = vector[:, :-1], vector[:, -1:]
            tails = np.concatenate([vector[:, n_focal:at], logs], axis=1)
            counts = scatter_counts = tails[:, :-1] @ layout.shares
        elif layout.is_exact:
            counts = scatter_counts = set_counts @ layout.shares
        else:
            counts, scatter_counts = np.split(vector[:, n_focal:at], 2, axis=1)
        firsts = vector[:, at : at + n_clusters * dim].reshape(n_fits, n_clusters, dim)
        seconds = vector[:, at + n_clusters * dim :].reshape(n_fits, 1 if layout.pools else n_clusters, -1)
        return cls(set_counts, counts, scatter_counts, firsts, seconds, tails)


def cluster_moments(
    statistics: Statistics, params: Parameters, evaluated: Evaluated, settings: Settings, layout: Layout
) -> ClusterMoments:
    """Moments of the clusters as if each were on its own, the ridge among them."""
    shares, dim = layout.shares, params.means.shape[2]
    set_counts, counts = statistics.set_counts, statistics.cluster_counts
    firsts, seconds = statistics.sums[..., 1 : 1 + dim], statistics.sums[..., 1 + dim :]
    if layout.pools:
        seconds = pooled_seconds(statistics, settings, layout)
        tails = None if statistics.tails is None else statistics.tails[:, :-1]
        return ClusterMoments(set_counts, counts, counts, firsts, seconds, tails)
    first, second = products(dim, layout.kind)
    ridge = counts[..., None] * settings.ridge[:, None, :]
    seconds = seconds + np.where(first == second, ridge[..., first], 0.0)
    if layout.is_exact:
        return ClusterMoments(set_counts, counts, counts, firsts, seconds)
    assert evaluated.focal is not None
    meta = is_meta(shares)
    per_member = set_counts[:, meta, None] * shares[meta]  # (B, J, C) n_j / c_j
    focal_means, focal_covariances = evaluated.focal.means[:, meta], evaluated.focal.covariances[:, meta]
    factors = evaluated.components.factors
    widths = per_member * _widths(focal_covariances, factors, layout.diagonal)
    gained, spread = widths.sum(axis=1), (widths * (1 + _distances(params, focal_means, factors))).sum(axis=1)
    alone = set_counts[:, ~meta] @ shares[~meta]
    own = spread[..., None] * _covariance_entries(params.covariances, layout)
    own = own + gained[..., None] * params.means[..., first] * params.means[..., second]
    expected = second_moments(focal_means, focal_covariances, layout)
    return ClusterMoments(
        set_counts,
        alone + gained,
        alone + spread,
        firsts + gained[..., None] * params.means - np.einsum("bjk,bjd->bkd", per_member, focal_means),
        seconds + own - np.einsum("bjk,bjp->bkp", per_member, expected),
    )


def pooled_seconds(statistics: Statistics, settings: Settings, layout: Layout) -> FloatArray:
    """Second moments (B, 1, P) of all rows together: a shared covariance does not tell clusters apart."""
    dim = settings.ridge.shape[1]
    if layout.kind == "linear":
        fixed = settings.reference.scatter
        complete = fixed if layout.diagonal else fixed[(slice(None), *products(dim, layout.second_kind))]
    else:
        complete = statistics.sums[..., 1 + dim :].sum(axis=1)
    # Without missing cells there is nothing to add.
    return (complete + statistics.pooled if statistics.pooled.shape[1] else complete)[:, None]


def _widths(covariances: FloatArray, factors: FloatArray, diagonal: bool) -> FloatArray:
    """w_jk = tr(Sigma_j P_k) / D, (B, J, C)."""
    dim = factors.shape[-1]
    if diagonal:
        return np.einsum("bjd,bkd->bjk", covariances, factors**2) / dim
    precisions = factors @ np.swapaxes(factors, -1, -2)
    n_fits = len(factors)
    flat = precisions.reshape(n_fits, -1, dim * dim)
    return np.asarray(covariances.reshape(n_fits, -1, dim * dim) @ np.swapaxes(flat, 1, 2) / dim)


def _distances(params: Parameters, focal_means: FloatArray, factors: FloatArray) -> FloatArray:
    """|mu_k - nu_j|^2 in the metric of P_k, (B, J, C)."""
    offsets = focal_means[:, None] - params.means[:, :, None]
    offsets = offsets * factors[:, :, None] if params.is_diagonal else offsets @ factors
    return np.swapaxes((offsets**2).sum(axis=-1), 1, 2)


def _covariance_entries(covariances: FloatArray, layout: Layout) -> FloatArray:
    """Entries of covariances as statistics have the products of features, (B, ., P)."""
    first, second = products(covariances.shape[-1], layout.second_kind)
    return covariances if layout.diagonal else covariances[..., first, second]


def second_moments(means: FloatArray, covariances: FloatArray, layout: Layout) -> FloatArray:
    """Expected products of features, (B, ., P)."""
    first, second = products(means.shape[-1], layout.second_kind)
    return np.asarray(_covariance_entries(covariances, layout) + means[..., first] * means[..., second])


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


# Covariances of their own ------------------------------------------------------------------------------------


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
    scatters = _scatters(moments.seconds, means.shape[2], layout)
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


def _have_scatters(scatters: FloatArray, seconds: FloatArray, settings: Settings, layout: Layout) -> BoolArray:
    """Which fits have scatters above the rounding of moments about the centre, where clusters need their own."""
    is_free = ~np.isin(settings.model, OWN_SHAPES)
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


def _scatters(seconds: FloatArray, dim: int, layout: Layout) -> FloatArray:
    """Second moments as matrices (B, ., D, D), or diagonals (B, ., D)."""
    if layout.diagonal:
        return seconds
    first, second = products(dim, layout.second_kind)
    matrices = np.empty((*seconds.shape[:2], dim, dim))
    matrices[..., first, second] = matrices[..., second, first] = seconds
    return matrices


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
    is_proper = is_proper & ((variances > 0).all(axis=(1, 2)) | np.isin(settings.model, SHARED))
    is_proper &= np.isfinite(scatters).reshape(len(scatters), -1).all(axis=1)
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
    whole = _scatters(moments.seconds, dim, layout)[:, 0] if layout.pools else settings.reference.scatter
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
