"""A single elliptical cluster, not necessarily Gaussian, as the baseline for several clusters."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp

from egmm._checks import FloatArray

POWERS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 40.0)
"""Exponents of the power exponential: heavy tails below 1, Gaussian at 1, flat top above 1."""

DEGREES = (30.0, 10.0, 5.0, 3.0)
"""Degrees of freedom of Student's t, nearly Gaussian first: each starts where the one before has ended."""

STUDENT_STEPS = 30
"""Maximum number of passes of EM for each."""

STUDENT_GAIN = 0.1
"""Gain of the log-likelihood below which EM for Student's t stops; differences of EBIC below 3 do not matter."""


class Ellipse(NamedTuple):
    """Squared Mahalanobis radii of rows, and the log-determinant of their matrix."""

    radii: FloatArray
    log_determinant: float


class Structure(NamedTuple):
    """A form of covariance matrix."""

    restrict: Callable[[FloatArray], FloatArray]
    n_parameters: Callable[[int], int]


STRUCTURES = (
    Structure(lambda matrix: matrix, lambda d: d * (d + 1) // 2),
    Structure(lambda matrix: np.diag(np.diag(matrix)), lambda d: d),
    Structure(lambda matrix: np.eye(len(matrix)) * np.trace(matrix) / len(matrix), lambda _: 1),
)
"""Full, diagonal and spherical matrices."""


def elliptical_criterion(X: FloatArray, weight: FloatArray | None = None) -> float:
    r"""EBIC of the best single elliptical cluster; higher is better, :math:`-\infty` if none can be fitted.

    A Gaussian mixture fits a cluster with heavy tails by two concentric components, and one with a sharp edge by a
    tiling, although both are single clusters. Here a single cluster is fitted by the power exponential,

    .. math:: p(x) \propto |\Sigma|^{-1/2} \exp\left(-\tfrac12 r^{2 \beta}\right), \quad
        r^2 = (x - \mu)^\top \Sigma^{-1} (x - \mu),

    with the mean and, up to scale, the covariance of the rows, or by Student's t, fitted by EM. The matrix is full,
    diagonal or spherical.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    weight : ndarray of shape (n_samples,), default=None
        Row weights.

    Returns
    -------
    criterion : float
        Log-likelihood minus half the number of parameters times the logarithm of the number of rows.

    References
    ----------
    E. Gómez, M. A. Gómez-Villegas, J. M. Marín, A multivariate generalization of the power exponential family of
    distributions, Communications in Statistics 27 (1998) 589-600.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_t(5, (300, 2))
    >>> gaussian = -0.5 * 300 * (2 * np.log(2 * np.pi) + np.linalg.slogdet(np.cov(rows.T, bias=True))[1] + 2)
    >>> bool(elliptical_criterion(rows) > gaussian - 2.5 * np.log(300))
    True
    """
    rows = np.asarray(X, dtype=np.float64)
    counts = np.ones(len(rows)) if weight is None else weight
    n, n_features = float(counts.sum()), rows.shape[1]
    criteria = [-np.inf]
    for restrict, n_parameters in STRUCTURES:
        # Mean, matrix and tail parameter.
        penalty = 0.5 * (n_features + n_parameters(n_features) + 1) * np.log(n)
        try:
            best = max(*_power_exponentials(rows, counts, restrict), *_students(rows, counts, restrict))
        except np.linalg.LinAlgError:  # Rows on a line or plane: the likelihood is unbounded.
            continue
        criteria.append(best - penalty)
    return float(max(criteria))


def _power_exponentials(X: FloatArray, weight: FloatArray, restrict: Callable[..., FloatArray]) -> Iterator[float]:
    """Log-likelihood for each exponent, at the maximum-likelihood scale."""
    n, d = weight.sum(), X.shape[1]
    mean = weight @ X / n
    radii, log_determinant = _measure(X - mean, restrict(_scatter(X - mean, weight) / n))
    log_radii = np.log(np.maximum(radii, np.finfo(float).tiny))
    for power in POWERS:
        # The matrix is scaled by s with s^power = power / (n d) * sum_i w_i radii_i^power, in logarithms.
        log_scale = (np.log(power / (n * d)) + logsumexp(power * log_radii, b=weight)) / power
        constant = np.log(power) + gammaln(d / 2) - d / 2 * np.log(np.pi) - gammaln(d / (2 * power))
        constant -= d / (2 * power) * np.log(2)
        yield float(n * (constant - 0.5 * log_determinant - 0.5 * d * log_scale - 0.5 * d / power))


def _students(X: FloatArray, weight: FloatArray, restrict: Callable[..., FloatArray]) -> Iterator[float]:
    """Log-likelihood for each number of degrees of freedom."""
    n, d = weight.sum(), X.shape[1]
    mean = weight @ X / n
    matrix = restrict(_scatter(X - mean, weight) / n)
    for degrees in DEGREES:
        constant = gammaln((degrees + d) / 2) - gammaln(degrees / 2) - d / 2 * np.log(degrees * np.pi)
        value = -np.inf
        for _ in range(STUDENT_STEPS):
            radii, log_determinant = _measure(X - mean, matrix)
            found = n * (constant - 0.5 * log_determinant) - 0.5 * (degrees + d) * (weight @ np.log1p(radii / degrees))
            gained, value = found - value, found
            if gained < STUDENT_GAIN:
                break
            pull = weight * (degrees + d) / (degrees + radii)
            mean = pull @ X / pull.sum()
            matrix = restrict(_scatter(X - mean, pull) / n)
        yield float(value)


def _scatter(offsets: FloatArray, weight: FloatArray) -> FloatArray:
    return np.asarray((offsets * weight[:, None]).T @ offsets)


def _measure(offsets: FloatArray, matrix: FloatArray) -> Ellipse:
    root = np.linalg.cholesky(matrix)
    standard = solve_triangular(root, offsets.T, lower=True, check_finite=False)
    return Ellipse(np.einsum("dn,dn->n", standard, standard), 2.0 * float(np.log(np.diag(root)).sum()))
