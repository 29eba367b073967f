"""The evidential mixture: its parameters, and the form of them an E-step reads."""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from egmm._checks import BoolArray, FloatArray

LOG_2PI = float(np.log(2 * np.pi))

LARGEST_INVERSE = 1e14
"""Of a feature's variance over what of it the other features leave unexplained: beyond, that is round-off."""


class Parameters(NamedTuple):
    """Mixing weights, cluster means and covariances; means are relative to the rows' centre."""

    weights: FloatArray
    """(M,) mixing probability of each focal set."""
    means: FloatArray
    """(C, D) cluster means minus the centre."""
    covariances: FloatArray
    """(D, D) shared by all clusters, or (C, D, D)."""


class Focal(NamedTuple):
    """Gaussians of the focal sets."""

    means: FloatArray
    """(M, D)."""
    covariances: FloatArray
    """(M, D, D), or (M, D) of a diagonal model."""
    log_roots: FloatArray
    """(M,) half of the covariances' log-determinants."""


class Components(NamedTuple):
    r"""What an E-step needs of `Parameters`, made once per pass.

    Cluster k has precision :math:`P_k = U_k U_k^\top`. The density of focal set j is the normalised geometric mean of
    its members', :math:`\log N_j(x) = \kappa_j + \sum_k W_{jk} \log N_k(x)`; with one shared covariance that is the
    paper's Gaussian at the average of the members' means [eq_ConsMean, eq_ConsCov].
    """

    centre: FloatArray
    """(D,) subtracted from every row."""
    factors: FloatArray
    """(D, D) shared, or (C, D, D): upper triangular U with P = U U'."""
    whitened: FloatArray
    """(C, D) mu_k' U_k."""
    log_norms: FloatArray
    """(C,) log-density of each cluster at its mean."""
    log_weights: FloatArray
    """(M,) log pi_j + kappa_j."""
    shares: FloatArray
    """(M, C) W."""
    focal: "Focal | None"
    """The focal sets' own Gaussians; None when the covariance is shared."""

    @property
    def is_shared(self) -> bool:
        """Whether all clusters have one covariance."""
        return self.factors.ndim == 2


def is_single(shares: FloatArray) -> BoolArray:
    """Which focal sets are one cluster, (M,)."""
    return np.asarray(shares.max(axis=1) == 1.0)


class NotPositiveDefiniteError(ValueError):
    """A covariance estimate has no Cholesky factor."""


class TooFewRowsError(NotPositiveDefiniteError):
    """Clusters that have too few rows for their covariance; says which, and the way out."""


ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Share of a feature's whole variance, or of a cluster's largest, below which a variance is rounding."""


def check_definite(covariances: FloatArray, whole: FloatArray, counts: FloatArray, covariance: str) -> None:
    """Raise where a cluster has no covariance: (C, D, D) estimates, (D,) whole variances and (C,) rows."""
    scales = np.sqrt(np.where(whole > 0, whole, 1.0))
    scaled = covariances / (scales[:, None] * scales)
    floors = ROUNDING * np.maximum(np.trace(scaled, axis1=1, axis2=2), 1.0)
    if np.isfinite(scaled).all():
        try:
            np.linalg.cholesky(scaled - floors[:, None, None] * np.eye(len(scales)))
        except np.linalg.LinAlgError:
            pass
        else:
            return
    smallest = [np.linalg.eigvalsh(one)[0] if np.isfinite(one).all() else 0.0 for one in scaled]
    named = [f"{k + 1} ({counts[k]:.4g} rows)" for k in np.flatnonzero(~(smallest > floors))]
    raise TooFewRowsError(
        f"the {covariance} covariance of cluster{'s' * (len(named) > 1)} {', '.join(named)} is not positive definite; "
        "use prior='default', a larger reg_covar, a simpler covariance model or fewer clusters."
    )


def components(params: Parameters, centre: FloatArray, shares: FloatArray, *, diagonal: bool = False) -> Components:
    """Factor the covariances and fold the focal sets' constants into their weights.

    `diagonal` spares matrix algebra where the clusters' own covariances are known to be diagonal.
    """
    means, dim = params.means, params.means.shape[1]
    focal = None
    if params.covariances.ndim == 2:
        factors, log_roots = precision_factors(params.covariances)
        whitened = means @ factors
        kappa = 0.5 * _spread(whitened, shares)
    elif diagonal:
        roots, log_roots = diagonal_factors(np.einsum("kdd->kd", params.covariances))
        factors, whitened = roots[:, :, None] * np.eye(dim), roots * means
        focal = _diagonal_focal(means, roots**2, shares)
        offsets = (focal.means - means[:, None]) * roots[:, None]
    else:
        factors, log_roots = precision_factors(params.covariances)
        whitened = (means[:, None] @ factors)[:, 0]
        is_own = len(shares) == len(means) and (shares.diagonal() == 1).all()
        focal = Focal(means, params.covariances, -log_roots) if is_own else _full_focal(means, factors, shares)
        offsets = (focal.means - means[:, None]) @ factors
    if focal is not None:
        # (log|Pbar_j| - mean log|P_k| + mean_{k in A_j} |mu_k - nu_j|^2_{P_k}) / 2, safe from cancellation
        spread = (shares.T * (offsets**2).sum(axis=2)).sum(axis=0)
        kappa = 0.5 * spread - focal.log_roots - shares @ log_roots
    log_norms = np.full(len(means), log_roots - 0.5 * dim * LOG_2PI)
    log_weights = np.log(params.weights, out=np.full(len(shares), -np.inf), where=params.weights > 0)
    return Components(centre, factors, whitened, log_norms, log_weights + kappa, shares, focal)


def precision_factors(covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Upper triangular U with inverse covariance U U', and log det U, for one or many covariances."""
    # Factor at unit diagonal: features may differ by many orders of magnitude.
    variances = np.einsum("...dd->...d", covariances)
    if not (np.isfinite(covariances).all() and variances.min() > 0):
        raise NotPositiveDefiniteError(f"smallest variance {variances.min():.3g}")
    scales = np.sqrt(variances)
    scaled = covariances / (scales[..., :, None] * scales[..., None, :])
    try:
        inverse = (
            triangular_inverse(_cholesky(scaled)) if scaled.ndim == 2 else np.linalg.inv(np.linalg.cholesky(scaled))
        )
    except np.linalg.LinAlgError:
        raise _not_positive_definite(covariances) from None
    # Round-off lets about every third singular matrix through the factorisation.
    if np.square(inverse).sum(axis=-2).max() > LARGEST_INVERSE:
        raise _not_positive_definite(covariances)
    factors = np.swapaxes(inverse, -1, -2) / scales[..., :, None]
    return factors, np.log(np.einsum("...dd->...d", factors)).sum(axis=-1)


def _cholesky(matrix: FloatArray) -> FloatArray:
    """Lower triangular factor of one matrix; LAPACK's own call, as below."""
    lower, failed = dpotrf(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError
    return np.asarray(lower)


def _not_positive_definite(covariances: FloatArray) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(f"smallest eigenvalue {np.linalg.eigvalsh(covariances).min():.3g}")


def triangular_inverse(lower: FloatArray) -> FloatArray:
    """Inverse of a lower triangular matrix; LAPACK's own call, because small fits make thousands of them."""
    return dtrtri(lower, lower=1)[0]


def diagonal_factors(variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roots of the precisions, (m, D), and their logarithms' sums, for diagonal covariances."""
    if not (variances.min() > 0 and variances.max() < np.inf):
        raise NotPositiveDefiniteError(f"smallest variance {variances.min():.3g}")
    roots = 1 / np.sqrt(variances)
    return roots, np.log(roots).sum(axis=1)


def focal_parameters(params: Parameters, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (M, D) and covariances ((D, D) or (M, D, D)) of the focal sets' Gaussians."""
    if params.covariances.ndim == 2:
        return shares @ params.means, params.covariances
    focal = _full_focal(params.means, precision_factors(params.covariances)[0], shares)
    return focal.means, focal.covariances


def _full_focal(means: FloatArray, factors: FloatArray, shares: FloatArray) -> Focal:
    precisions = factors @ np.swapaxes(factors, 1, 2)
    natural = (precisions @ means[:, :, None])[:, :, 0]
    mean_precisions = (shares @ precisions.reshape(len(means), -1)).reshape(-1, *factors.shape[1:])
    # `precision_factors` returns a factor of the inverse: here that is the focal covariance.
    focal_factors, log_roots = precision_factors(mean_precisions)
    covariances = focal_factors @ np.swapaxes(focal_factors, 1, 2)
    return Focal((covariances @ (shares @ natural)[:, :, None])[:, :, 0], covariances, log_roots)


def _diagonal_focal(means: FloatArray, precisions: FloatArray, shares: FloatArray) -> Focal:
    mean_precisions = shares @ precisions
    return Focal(
        (shares @ (precisions * means)) / mean_precisions,
        1 / mean_precisions,
        -0.5 * np.log(mean_precisions).sum(axis=1),
    )


def _spread(whitened: FloatArray, shares: FloatArray) -> FloatArray:
    """V_j = mean_{k in A_j} |mu_k - nu_j|^2 in whitened coordinates, (M,)."""
    centres = shares @ whitened
    squares = ((whitened[None, :, :] - centres[:, None, :]) ** 2).sum(axis=2)
    return np.asarray((shares * squares).sum(axis=1))
