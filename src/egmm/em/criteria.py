"""Criteria for comparing fits."""

from collections.abc import Sequence
from math import inf, isclose, isnan

import numpy as np

from egmm._checks import FloatArray
from egmm.em.covariance import n_covariance_parameters
from egmm.em.parameters import is_empty
from egmm.em.prior import n_weighted

CRITERIA = {"ebic": True, "bic": False, "icl": False, "aic": False}
"""Criteria of mixtures, and whether higher is better."""

SAME = 1e-9
"""Relative difference of log-likelihoods of two ascents to one maximum."""


def n_free_parameters(
    weights: FloatArray,
    n_features: int,
    shares: FloatArray,
    covariance: str,
    certainty: float,
    n_rows: float,
    n_factors: int = 0,
    *,
    tails: bool = False,
) -> int:
    """Number of parameters in EBIC."""
    n_clusters = shares.shape[1]
    n_own = n_covariance_parameters(covariance, n_clusters, n_features, n_factors)
    # The density of noise is one more, read off the rows' box.
    n_noise = int(is_empty(shares).any())
    n_weights = n_weighted(weights, shares, certainty, n_rows) - 1
    return n_weights + n_clusters * n_features + n_own + n_noise + tails


def ebic_of(log_likelihood: float, n_parameters: int, n_rows: float) -> float:
    """EBIC of rows with this weight; higher is better."""
    return log_likelihood - 0.5 * n_parameters * float(np.log(n_rows))


def criteria_of(log_likelihood: float, ebic: float, entropy: float, n_parameters: int) -> dict[str, float]:
    """All four criteria by name."""
    aic = -2.0 * log_likelihood + 2.0 * n_parameters
    return {"ebic": ebic, "bic": -2.0 * ebic, "icl": -2.0 * ebic + 2.0 * entropy, "aic": aic}


def first_best(scores: Sequence[float], is_sound: Sequence[bool]) -> int:
    """Position of the highest score among sound fits, or among all if none is sound.

    Among scores that differ only by rounding, it is the first. So the choice does not depend on the order of the
    rows where models are one and the same: of a single cluster, those that differ in what clusters share.

    >>> first_best([float("nan"), 3.0 - 1e-12, 3.0, 5.0], [True, True, True, False])
    1
    """
    counts = is_sound if any(is_sound) else [True] * len(scores)
    known = [score if counted and not isnan(score) else -inf for score, counted in zip(scores, counts, strict=True)]
    highest = max(known)
    return next(at for at, score in enumerate(known) if isclose(score, highest, rel_tol=SAME))
