"""Mixtures of a batch: their parameters, and the form of them that a pass reads."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import gammaln

from egmm._arrays import NUMPY, namespace
from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em import factors as low_rank
from egmm.em.noise import Box
from egmm.em.statistics import Units, products

LOG_2PI = float(np.log(2 * np.pi))

LARGEST_INVERSE = 1e14
"""Largest ratio of a feature's variance to its variance given the other features; beyond it, rounding dominates."""

FAR = 1e6
"""Squared distance of a mean from the centre, in its cluster's deviations, above which a density is computed from
factors: sums of monomials would lose more than its tenth digit."""

Record = TypeVar("Record", bound=tuple[Any, ...])


def take(record: Record, which: IntArray | BoolArray) -> Record:
    """Entries of some fits, from a NamedTuple whose arrays have the fits on their first axis."""
    return _each(record, lambda part: part[which])


def _each(record: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to the arrays of a record; missing entries stay None."""
    if isinstance(record, tuple):
        return type(record)(*(_each(part, function) for part in record))
    return None if record is None else function(record)


def put(record: Any, which: IntArray, values: Any) -> None:
    """Replace the entries of some fits in the arrays of a NamedTuple."""
    for part, value in zip(record, values, strict=True):
        if isinstance(part, tuple):
            put(part, which, value)
        elif part is not None:
            part[which] = value


def concatenated(records: list[Record]) -> Record:
    """The fits of several batches in one."""
    return type(records[0])(*(_joined(list(part)) for part in zip(*records, strict=True)))


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], tuple):
        return concatenated(parts)
    return None if parts[0] is None else np.concatenate(parts)


def copied(record: Record) -> Record:
    """A copy of the record and its arrays."""
    return _each(record, np.copy)


class Parameters(NamedTuple):
    """Mixing weights, cluster means and covariances of B fits, in the units of `Units`.

    Covariances have K = 1 entry per fit where clusters share one, else K = C; diagonal models keep variances, low-rank
    ones noise variances beside loadings.
    """

    weights: FloatArray
    """(B, M) mixing probability of each focal set."""
    means: FloatArray
    """(B, C, D) cluster means."""
    covariances: FloatArray
    """(B, K, D, D), or (B, K, D) of diagonal models, or (B, 1, D, 1 + q) of low rank."""
    degrees: FloatArray | None = None
    """(B,) degrees of freedom, where components have heavy tails."""

    @property
    def is_diagonal(self) -> bool:
        """Whether covariances are variances alone."""
        return self.covariances.ndim == 3

    @property
    def is_shared(self) -> bool:
        """Whether clusters share one covariance, as a single cluster does with itself."""
        return self.covariances.shape[1] == 1

    @property
    def variances(self) -> FloatArray:
        """(B, K, D)."""
        return self.covariances if self.is_diagonal else low_rank.variances(self.covariances)


class Factors(NamedTuple):
    """Precisions P = U U' of covariances, and which fits have proper ones."""

    factors: FloatArray
    """(B, K, D, D) upper triangular U, or (B, K, D) roots of precisions, or of low rank, see `factors`."""
    log_roots: FloatArray
    """(B, K) log det U."""
    is_definite: BoolArray
    """(B,); factors of other fits are those of identities."""


class Focal(NamedTuple):
    """Gaussians of the focal sets if covariances are not shared."""

    means: FloatArray
    """(B, M, D)."""
    covariances: FloatArray
    """(B, M, D, D), or (B, M, D)."""
    log_roots: FloatArray
    """(B, M) half of the covariances' log-determinants."""


class Components(NamedTuple):
    r"""What a pass needs of `Parameters`, made once per pass.

    Cluster k has precision :math:`P_k = U_k U_k^\top`. The density of focal set j is the normalised geometric mean of
    its members', :math:`\log N_j(x) = \kappa_j + \sum_k W_{jk} \log N_k(x)`; with one shared covariance that is the
    paper's Gaussian at the average of the members' means [eq_ConsMean, eq_ConsCov].
    """

    theta: FloatArray
    """(B, C, F) log-density of each cluster as coefficients of the monomials; with one shared covariance relative to
    the reference N(x; centre, Sigma)."""
    log_weights: FloatArray
    """(B, M) log pi_j + kappa_j."""
    factors: FloatArray
    """(B, K, D, D), (B, K, D) or (B, 1, D, 1 + q): U."""
    whitened: FloatArray
    """(B, C, D) mu_k' U_k."""
    log_norms: FloatArray
    """(B, C) log-density of each cluster at its mean."""
    is_far: BoolArray
    """(B,) whether monomials would lose digits."""
    degrees: FloatArray | None = None
    """(B,) degrees of freedom, where tails are heavy; then `log_weights` have log pi_j and the constants of t."""
    kappa: FloatArray | None = None
    """(B, M) where tails are heavy."""


class Evaluated(NamedTuple):
    """Components of a batch with the focal sets' Gaussians."""

    components: Components
    focal: Focal | None
    """None where the covariance is shared."""
    is_definite: BoolArray
    """(B,)."""


class NotPositiveDefiniteError(ValueError):
    """A covariance estimate has no Cholesky factor."""


def is_single(shares: FloatArray) -> BoolArray:
    """Which focal sets are one cluster, (M,)."""
    return np.asarray(shares.max(axis=1) == 1.0)


def is_meta(shares: FloatArray) -> BoolArray:
    """Which focal sets are several clusters, (M,)."""
    largest = shares.max(axis=1)
    return np.asarray((largest > 0) & (largest < 1))


def is_empty(shares: FloatArray) -> BoolArray:
    """Which focal set is the empty one, (M,): noise, whose density is uniform."""
    return np.asarray(shares.max(axis=1) == 0)


def is_identity(shares: FloatArray) -> bool:
    """Whether the focal sets are the clusters, in their order."""
    n_focal, n_clusters = shares.shape
    if n_focal != n_clusters:
        return False
    xp = namespace(shares)
    return bool(xp.all((shares.diagonal() if xp is NUMPY else xp.linalg.diagonal(shares)) == 1))


def components(params: Parameters, shares: FloatArray, kind: str, log_noise: float = 0.0) -> Evaluated:
    """Factor the covariances and fold the focal sets' constants into their weights.

    `log_noise` is the log-density of the empty set, where there is one; then densities must be absolute, that is of no
    "linear" kind.
    """
    means = params.means
    dim = means.shape[2]
    factors, log_roots, is_definite = precision_factors(params.covariances, diagonal=params.is_diagonal)
    with np.errstate(all="ignore"):
        whitened = whiten(means[..., None, :], factors)[..., 0, :]
        focal = None
        if params.is_shared:
            kappa = 0.5 * _spread(whitened, shares)
        else:
            focal, is_proper = focal_gaussians(params, factors, log_roots, shares)
            is_definite = is_definite & is_proper
            kappa = _kappa(params, factors, log_roots, focal, shares)
        kappa = np.where(is_empty(shares), log_noise, kappa)
        log_norms = for_every_cluster(log_roots - 0.5 * dim * LOG_2PI, means.shape[1])
        squares = (whitened**2).sum(axis=-1)
        constants = -0.5 * squares if kind == "linear" else log_norms - 0.5 * squares
        linear = unwhiten(whitened[..., None, :], factors)[..., 0, :]
        quadratic = [for_every_cluster(part, means.shape[1]) for part in _quadratic(factors, dim, kind)]
        theta = np.concatenate([constants[..., None], linear, *quadratic], axis=-1)
        log_weights = np.log(params.weights)
        is_far = squares.max(axis=1) > FAR
        if params.degrees is None:
            parts = Components(theta, log_weights + kappa, factors, whitened, log_norms, is_far)
        else:
            log_weights = log_weights + (log_constants(params.degrees, dim) + log_roots[:, 0])[:, None]
            parts = Components(theta, log_weights, factors, whitened, log_norms, is_far, params.degrees, kappa)
    return Evaluated(parts, focal, is_definite)


def for_every_cluster(parts: FloatArray, n_clusters: int) -> FloatArray:
    """What clusters have or share, (B, K, ...), for each of them, (B, C, ...)."""
    return parts if parts.shape[1] == n_clusters else np.repeat(parts, n_clusters, axis=1)


def log_constants(degrees: FloatArray, dim: int) -> FloatArray:
    """Log-densities (B,) of t of unit scale at their centres."""
    half = 0.5 * degrees
    return np.asarray(gammaln(half + 0.5 * dim) - gammaln(half) - 0.5 * dim * np.log(np.pi * degrees))


def _quadratic(factors: FloatArray, dim: int, kind: str) -> list[FloatArray]:
    """Coefficients of the products x_d x_e in -x' P x / 2."""
    if kind == "linear":
        return []
    if kind == "diagonal":
        return [-0.5 * factors**2]
    first, second = products(dim, kind)
    precisions = factors @ np.swapaxes(factors, -1, -2)
    return [precisions[..., first, second] * np.where(first == second, -0.5, -1.0)]


def whiten(rows: FloatArray, factors: FloatArray) -> FloatArray:
    """Rows (..., n, D) times U, for factors (..., D, D), roots of precisions (..., D) or factors of low rank."""
    if factors.ndim < rows.ndim:
        return rows * factors[..., None, :]
    return low_rank.times_low_rank(rows, factors) if low_rank.is_low_rank(factors) else rows @ factors


def unwhiten(rows: FloatArray, factors: FloatArray) -> FloatArray:
    """Rows (..., n, D) times U'."""
    if factors.ndim < rows.ndim:
        return np.asarray(rows * factors[..., None, :])
    if low_rank.is_low_rank(factors):
        return low_rank.times_transposed(rows, factors)
    return np.swapaxes(factors @ np.swapaxes(rows, -1, -2), -1, -2)


def precision_factors(covariances: FloatArray, *, diagonal: bool) -> Factors:
    """U with inverse covariance U U', and log det U, of (B, K, D, D), of low rank or, diagonal, (B, K, D)."""
    with np.errstate(all="ignore"):
        variances = covariances if diagonal else low_rank.variances(covariances)
        is_finite = np.isfinite(covariances).reshape(len(covariances), -1).all(axis=1)
        is_definite = np.asarray(is_finite & (variances > 0).all(axis=(1, 2)))
        roots = 1 / np.sqrt(np.where(is_definite[:, None, None], variances, 1.0))
        if diagonal:
            return Factors(roots, np.log(roots).sum(axis=-1), is_definite)
        if low_rank.is_low_rank(covariances):
            is_definite &= (covariances[..., 0] > 0).all(axis=(1, 2))
            safe = np.where(is_definite[:, None, None, None], covariances, 1.0)
            return Factors(*low_rank.low_rank_factors(safe), is_definite)
        # Factor at unit diagonal: features may differ by many orders of magnitude.
        scaled = covariances * (roots[..., :, None] * roots[..., None, :])
        lower, is_definite = safe_cholesky(scaled, is_definite)
        inverse = np.linalg.inv(lower)
        # Because of round-off, about every third singular matrix passes the factorisation.
        is_definite &= np.square(inverse).sum(axis=-2).max(axis=(1, 2)) <= LARGEST_INVERSE
        factors = np.swapaxes(inverse, -1, -2) * roots[..., :, None]
        return Factors(factors, np.log(np.einsum("bkdd->bkd", factors)).sum(axis=-1), is_definite)


def safe_cholesky(matrices: FloatArray, is_usable: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Lower factors of (B, K, D, D), and which fits have all of theirs; the others get identities."""
    if not is_usable.all():
        matrices = np.where(is_usable[:, None, None, None], matrices, np.eye(matrices.shape[-1]))
    try:
        return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64), is_usable.copy()
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape).copy(), np.zeros(1, dtype=bool)
        # One failure fails them all: the halves without it are factored as a whole.
        halves = slice(None, len(matrices) // 2), slice(len(matrices) // 2, None)
        found = [safe_cholesky(matrices[half], is_usable[half]) for half in halves]
        lower, is_definite = (np.concatenate(column) for column in zip(*found, strict=True))
        return lower, is_definite


def focal_gaussians(
    params: Parameters, factors: FloatArray, log_roots: FloatArray, shares: FloatArray
) -> tuple[Focal, BoolArray]:
    """Gaussians of the focal sets, whose natural parameters are averages of the members', and which fits have them.

    The empty set has none; that of all clusters stands in its place.
    """
    shares = np.where(is_empty(shares)[:, None], 1 / shares.shape[1], shares)
    n_fits, (n_clusters, dim) = len(params.means), params.means.shape[1:]
    if is_identity(shares):
        covariances = np.broadcast_to(params.covariances, (n_fits, n_clusters, *params.covariances.shape[2:]))
        return Focal(params.means, covariances, -log_roots), np.ones(n_fits, dtype=bool)
    if params.is_diagonal:
        precisions = factors**2
        mean_precisions = shares @ precisions
        means = (shares @ (precisions * params.means)) / mean_precisions
        focal = Focal(means, 1 / mean_precisions, -0.5 * np.log(mean_precisions).sum(axis=-1))
        return focal, np.asarray(np.isfinite(means).all(axis=(1, 2)))
    precisions = factors @ np.swapaxes(factors, -1, -2)
    natural = (precisions @ params.means[..., None])[..., 0]
    mean_precisions = (shares @ precisions.reshape(n_fits, n_clusters, -1)).reshape(n_fits, -1, dim, dim)
    # A factor of the inverse of the mean precision is one of the focal covariance.
    roots, focal_log_roots, is_definite = precision_factors(mean_precisions, diagonal=False)
    covariances = roots @ np.swapaxes(roots, -1, -2)
    means = (covariances @ (shares @ natural)[..., None])[..., 0]
    return Focal(means, covariances, focal_log_roots), is_definite


def focal_parameters(
    params: Parameters, shares: FloatArray, units: Units, *, is_shared: bool, noise: Box | None = None
) -> tuple[FloatArray, FloatArray]:
    """Means (M, D) and covariances of the focal sets' Gaussians of one fit, in the units of the data.

    Covariances are (D, D) or (D,) where clusters share one, (M, D, D) or (M, D) else. The empty set has mean and
    covariance of its uniform density.
    """
    if is_shared:
        means, covariances = shares @ params.means[0], params.covariances[0]
    else:
        factors, log_roots, _ = precision_factors(params.covariances, diagonal=params.is_diagonal)
        focal, _ = focal_gaussians(params, factors, log_roots, shares)
        means, covariances = focal.means[0], focal.covariances[0]
    covariances = units.covariances_out(covariances, diagonal=params.is_diagonal)
    means = means * units.scale + units.centre
    if noise is not None:
        empty = is_empty(shares)
        means[empty] = noise.centre
        if not is_shared:
            covariances[empty] = noise.covariance(diagonal=params.is_diagonal)
    return means, covariances[0] if is_shared else covariances


def _kappa(
    params: Parameters, factors: FloatArray, log_roots: FloatArray, focal: Focal, shares: FloatArray
) -> FloatArray:
    """(log|Pbar_j| - mean log|P_k| + mean_{k in A_j} |mu_k - nu_j|^2_{P_k}) / 2, safe from cancellation, (B, M)."""
    if is_identity(shares):
        return np.zeros(params.weights.shape)
    offsets = focal.means[:, None] - params.means[:, :, None]
    offsets = offsets * factors[:, :, None] if params.is_diagonal else offsets @ factors
    spread = np.einsum("jk,bkj->bj", shares, (offsets**2).sum(axis=-1))
    return np.asarray(0.5 * spread - focal.log_roots - log_roots @ shares.T)


def _spread(whitened: FloatArray, shares: FloatArray) -> FloatArray:
    """V_j = mean_{k in A_j} |mu_k - nu_j|^2 in whitened coordinates, (B, M)."""
    offsets = whitened[:, None] - (shares @ whitened)[:, :, None]
    return np.einsum("jk,bjk->bj", shares, (offsets**2).sum(axis=-1))
