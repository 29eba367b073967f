r"""A low-rank covariance that clusters share: :math:`\Sigma = \Lambda \Lambda^\top + \Psi`, :math:`\Psi` diagonal.

It is kept as one array (..., D, 1 + q), the noise variances :math:`\Psi` beside the loadings :math:`\Lambda`, and its
precision :math:`U U^\top` as one of the same shape, r beside G of :math:`U = \operatorname{diag}(r) (I - G G^\top)`.
Factors are fewer than D - 1, so that shapes tell it from matrices (..., D, D). Many features take D^2 operations.
"""

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import Bounds, minimize
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from egmm._checks import FloatArray

LANCZOS_FEATURES = 200
"""Features from which on Lanczos' method finds the largest eigenvalues faster than a decomposition of the matrix."""

LANCZOS_TOL = 1e-9
"""Relative error of its eigenvalues."""

RELATIVE_TOL, GRADIENT_TOL = 1e-11, 1e-7
"""Stopping rule of the search for the noise: relative gain, and largest derivative with respect to a log variance."""


def most_factors(n_features: int) -> int:
    """Largest q with (D - q)^2 > D + q: more factors leave nothing to tell from a full covariance.

    >>> [most_factors(n_features) for n_features in (3, 4, 10, 64)]
    [0, 1, 5, 53]
    """
    fitting = [q for q in range(n_features) if (n_features - q) ** 2 > n_features + q]
    return max(fitting, default=0)


def is_low_rank(matrices: FloatArray) -> bool:
    """Whether an array (..., D, .) of a model that is not diagonal holds noise variances beside loadings."""
    return matrices.shape[-1] != matrices.shape[-2]


def dense(covariances: FloatArray) -> FloatArray:
    """Matrices (..., D, D) of low-rank covariances; others as they are."""
    if not is_low_rank(covariances):
        return covariances
    noise, loadings = covariances[..., 0], covariances[..., 1:]
    return np.asarray(loadings @ np.swapaxes(loadings, -1, -2) + noise[..., None] * np.eye(noise.shape[-1]))


def variances(covariances: FloatArray) -> FloatArray:
    """Diagonals (..., D) of covariances, low-rank or full."""
    if is_low_rank(covariances):
        return np.asarray(covariances[..., 0] + (covariances[..., 1:] ** 2).sum(axis=-1))
    return np.einsum("...dd->...d", covariances)


# Fitting -----------------------------------------------------------------------------------------------------


def fit_factors(scatters: FloatArray, previous: FloatArray, floors: FloatArray) -> FloatArray:
    r"""Maximise :math:`-\log|\Sigma| - \operatorname{tr}(\Sigma^{-1} S)`, beginning at the covariances before.

    Given the noise, the best loadings are known from the largest eigenvalues of :math:`\Psi^{-1/2} S \Psi^{-1/2}`
    (Lawley 1940). What is left is a smooth function of the logarithms of the noise variances, which a quasi-Newton
    method descends (Jöreskog 1967), so that no step loses.

    Parameters
    ----------
    scatters : ndarray of shape (B, D, D)
        Positive semi-definite S of each fit.
    previous : ndarray of shape (B, D, 1 + q)
        Covariances before.
    floors : ndarray of shape (B, D)
        Least noise, above zero.

    Returns
    -------
    covariances : ndarray of shape (B, D, 1 + q)
        NaN where S is not finite.

    Examples
    --------
    >>> truth = np.array([[[0.5, 1.0], [0.25, -1.0], [0.5, 0.5], [1.0, 2.0]]])
    >>> fit_factors(dense(truth), np.ones((1, 4, 2)), np.full((1, 4), 1e-6))[0, :, 0].round(3)
    array([0.5 , 0.25, 0.5 , 1.  ])
    """
    return np.stack([_fit_one(*part) for part in zip(scatters, previous, floors, strict=True)])


def _fit_one(scatter: FloatArray, previous: FloatArray, floor: FloatArray) -> FloatArray:
    start = np.maximum(previous[:, 0], floor)
    if not (np.isfinite(scatter).all() and np.isfinite(start).all() and (floor > 0).all()):
        return np.full(previous.shape, np.nan)
    n_factors, least = previous.shape[1] - 1, np.log(floor)

    def lost(log_noise: FloatArray) -> tuple[float, FloatArray]:
        noise = np.exp(log_noise)
        value, loadings = _profile(scatter, noise, n_factors)
        return value, (noise + (loadings**2).sum(axis=1) - scatter.diagonal()) / noise

    options = {"ftol": RELATIVE_TOL, "gtol": GRADIENT_TOL}
    found = minimize(lost, np.log(start), jac=True, method="L-BFGS-B", bounds=Bounds(least), options=options)
    noise = np.exp(np.maximum(found.x, least))
    return np.column_stack([noise, _profile(scatter, noise, n_factors)[1]])


def _profile(scatter: FloatArray, noise: FloatArray, n_factors: int) -> tuple[float, FloatArray]:
    """log|Sigma| + tr(Sigma^-1 S) at the best loadings for the noise, and these loadings (D, q)."""
    roots = np.sqrt(noise)
    values, axes = _largest(scatter / roots / roots[:, None], n_factors)
    above = np.maximum(values, 1.0)
    value = np.log(noise).sum() + (scatter.diagonal() / noise).sum() + (np.log(above) + 1.0 - above).sum()
    return float(value), roots[:, None] * axes * np.sqrt(above - 1.0)


def _largest(matrix: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Largest eigenvalues of a symmetric matrix, falling, and their vectors as columns."""
    dim = len(matrix)
    if dim >= LANCZOS_FEATURES and count < dim // 10:
        try:
            values, axes = eigsh(matrix, count, which="LA", v0=np.ones(dim), tol=LANCZOS_TOL)
            return values[::-1], axes[:, ::-1]
        except ArpackNoConvergence:  # Of all but equal eigenvalues.
            pass
    values, axes = eigh(matrix, subset_by_index=[dim - count, dim - 1], check_finite=False)
    return values[::-1], axes[:, ::-1]


# Precisions --------------------------------------------------------------------------------------------------


def low_rank_factors(covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Factors U, (..., D, 1 + q), of the precisions of low-rank covariances, and log det U, (...).

    With :math:`\Psi^{-1/2} \Lambda = Q S R^\top`, :math:`U = \Psi^{-1/2} (I - Q (I - (I + S^2)^{-1/2}) Q^\top)`.
    """
    roots = 1 / np.sqrt(covariances[..., 0])
    axes, spreads, _ = np.linalg.svd(roots[..., None] * covariances[..., 1:], full_matrices=False)
    log_lengths = 0.5 * np.log1p(spreads**2)
    shrunk = axes * np.sqrt(-np.expm1(-log_lengths))[..., None, :]
    factors = np.concatenate([roots[..., None], shrunk], axis=-1)
    return factors, np.asarray(np.log(roots).sum(axis=-1) - log_lengths.sum(axis=-1))


def times_low_rank(rows: FloatArray, factors: FloatArray) -> FloatArray:
    """Rows (..., n, D) times U."""
    scaled, shrunk = rows * factors[..., None, :, 0], factors[..., 1:]
    return np.asarray(scaled - (scaled @ shrunk) @ np.swapaxes(shrunk, -1, -2))


def times_transposed(rows: FloatArray, factors: FloatArray) -> FloatArray:
    """Rows (..., n, D) times U'."""
    shrunk = factors[..., 1:]
    return np.asarray((rows - (rows @ shrunk) @ np.swapaxes(shrunk, -1, -2)) * factors[..., None, :, 0])


def precision_diagonals(factors: FloatArray) -> FloatArray:
    """Diagonals (..., D) of U U'."""
    shrunk = factors[..., 1:]
    return np.asarray(factors[..., 0] ** 2 * (1 - ((shrunk @ _middle(shrunk)) * shrunk).sum(axis=-1)))


def low_rank_traces(scatters: FloatArray, factors: FloatArray) -> FloatArray:
    """tr(U' S U) of scatters (..., D, D)."""
    roots, shrunk = factors[..., 0], factors[..., 1:]
    scaled = roots[..., None] * shrunk
    lost = (((scatters @ scaled) @ _middle(shrunk)) * scaled).sum(axis=(-1, -2))
    return np.asarray((np.einsum("...dd->...d", scatters) * roots**2).sum(axis=-1) - lost)


def _middle(shrunk: FloatArray) -> FloatArray:
    """K of (I - G G')^2 = I - G K G'."""
    gram = np.swapaxes(shrunk, -1, -2) @ shrunk
    return np.asarray(2 * np.eye(shrunk.shape[-1]) - gram)
