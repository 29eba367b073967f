"""The evidential mixture: its parameters, and the form of them an E-step reads."""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri

from egmm._checks import FloatArray

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

    @property
    def is_shared(self) -> bool:
        """Whether all clusters have one covariance."""
        return self.factors.ndim == 2


class NotPositiveDefiniteError(ValueError):
    """A covariance estimate has no Cholesky factor."""


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
    named = ", ".join(f"{k + 1} ({counts[k]:.4g} rows)" for k in np.flatnonzero(~(smallest > floors)))
    raise NotPositiveDefiniteError(
        f"the {covariance} covariance of cluster {named} is not positive definite; use prior='default', a larger "
        "reg_covar, a simpler covariance model or fewer clusters."
    )


def components(params: Parameters, centre: FloatArray, shares: FloatArray) -> Components:
    """Factor the covariances and fold the focal sets' constants into their weights."""
    factors, log_roots = precision_factors(params.covariances)
    dim = params.means.shape[1]
    log_norms = np.full(len(params.means), log_roots - 0.5 * dim * LOG_2PI)
    if factors.ndim == 2:
        whitened = params.means @ factors
        kappa = 0.5 * _spread(whitened, shares)
    else:
        whitened = np.einsum("kd,kde->ke", params.means, factors)
        kappa = _geometric_mean_constants(params.means, factors, log_roots, shares)
    log_weights = np.log(params.weights, out=np.full(len(shares), -np.inf), where=params.weights > 0)
    return Components(centre, factors, whitened, log_norms, log_weights + kappa, shares)


def precision_factors(covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Upper triangular U with inverse covariance U U', and log det U, for one or many covariances."""
    # Factor at unit diagonal: features may differ by many orders of magnitude.
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    if not (np.isfinite(covariances).all() and (variances > 0).all()):
        raise NotPositiveDefiniteError(f"smallest variance {variances.min():.3g}")
    scales = np.sqrt(variances)
    try:
        lower = np.linalg.cholesky(covariances / (scales[..., :, None] * scales[..., None, :]))
    except np.linalg.LinAlgError:
        raise _not_positive_definite(covariances) from None
    inverse = triangular_inverse(lower) if lower.ndim == 2 else np.linalg.inv(lower)
    # Round-off lets about every third singular matrix through the factorisation.
    if np.square(inverse).sum(axis=-2).max() > LARGEST_INVERSE:
        raise _not_positive_definite(covariances)
    factors = np.swapaxes(inverse, -1, -2) / scales[..., :, None]
    return factors, np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(axis=-1)


def _not_positive_definite(covariances: FloatArray) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(f"smallest eigenvalue {np.linalg.eigvalsh(covariances).min():.3g}")


def triangular_inverse(lower: FloatArray) -> FloatArray:
    """Inverse of a lower triangular matrix; LAPACK's own call, because small fits make thousands of them."""
    return dtrtri(lower, lower=1)[0]


def focal_parameters(params: Parameters, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (M, D) and covariances ((D, D) or (M, D, D)) of the focal sets' Gaussians."""
    if params.covariances.ndim == 2:
        return shares @ params.means, params.covariances
    factors, _ = precision_factors(params.covariances)
    precisions = factors @ np.swapaxes(factors, -1, -2)
    natural = np.einsum("kde,ke->kd", precisions, params.means)
    mean_precisions = np.einsum("jk,kde->jde", shares, precisions)
    focal_factors, _ = precision_factors(mean_precisions)
    covariances = focal_factors @ np.swapaxes(focal_factors, -1, -2)
    return np.einsum("jde,je->jd", covariances, shares @ natural), covariances


def _spread(whitened: FloatArray, shares: FloatArray) -> FloatArray:
    """V_j = mean_{k in A_j} |mu_k - nu_j|^2 in whitened coordinates, (M,)."""
    centres = shares @ whitened
    squares = ((whitened[None, :, :] - centres[:, None, :]) ** 2).sum(axis=2)
    return np.asarray((shares * squares).sum(axis=1))


def _geometric_mean_constants(
    means: FloatArray, factors: FloatArray, log_roots: FloatArray, shares: FloatArray
) -> FloatArray:
    """kappa_j = (log|Pbar_j| - mean log|P_k| + mean_{k in A_j} |mu_k - nu_j|^2_{P_k}) / 2, safe from cancellation."""
    precisions = factors @ np.swapaxes(factors, -1, -2)
    mean_precisions = np.einsum("jk,kde->jde", shares, precisions)
    natural = np.einsum("kde,ke->kd", precisions, means)
    focal_factors, focal_log_roots = precision_factors(mean_precisions)
    # `precision_factors` returns a factor of the inverse: here that is the focal covariance.
    focal_means = np.einsum("jde,jfe,jf->jd", focal_factors, focal_factors, shares @ natural)
    offsets = np.einsum("jkd,kde->jke", means[None] - focal_means[:, None], factors)
    spread = (shares * (offsets**2).sum(axis=2)).sum(axis=1)
    return np.asarray(-focal_log_roots - shares @ log_roots + 0.5 * spread)
