"""Choice of the engine by the time that passes would take in NumPy."""

from egmm._checks import FloatArray
from egmm.em.covariance import monomial_kind
from egmm.em.parameters import is_empty

SECONDS_PER_SET = 25e-9
SECONDS_PER_PRODUCT = 2e-9
LEAST_SECONDS = 10.0
"""Seconds of NumPy passes above which the kernel is worth compiling."""

EXPECTED_PASSES = 60
"""Passes of a fit, about."""


def choose_engine(engine: str, seconds: float) -> str:
    """Engine of a job with this many seconds of NumPy passes."""
    if engine != "auto":
        return engine
    return "numba" if seconds > LEAST_SECONDS else "numpy"


def seconds_in_numpy(size: tuple[float, int], shares: FloatArray, covariance: str) -> float:
    """About what one pass takes over rows of this size, (n_rows, n_features)."""
    (n_rows, n_features), (n_focal, n_clusters) = size, shares.shape
    kind = monomial_kind(covariance, is_absolute=bool(is_empty(shares).any()))
    n_products = {"linear": n_features, "diagonal": 2 * n_features, "full": n_features * n_features}[kind]
    return n_rows * (SECONDS_PER_SET * n_focal + SECONDS_PER_PRODUCT * n_clusters * n_products)
