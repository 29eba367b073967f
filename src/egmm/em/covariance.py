"""The fourteen covariance models: their names, what they share, how many parameters they have."""

import warnings
from collections.abc import Iterable
from typing import Any

from egmm._checks import check_choice, check_integer, listed

MODELS = ("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV")
"""Volume, shape and orientation of the clusters: E equal, V varying, I the identity (Banfield and Raftery 1993)."""

LOW_RANK = "low-rank"
"""The covariance of factor analysis, which clusters share: loadings of a few factors, and noise."""

SHARED = ("EII", "EEI", "EEE", LOW_RANK)
"""Models with one covariance for all clusters."""

COMMON_UNITS = {"EII": 1e150, "VII": 1e150, "EVE": 1e10, "VVE": 1e10, "EEV": 1e10, "VEV": 1e10}
"""Models that change when features are scaled apart: spheres, and shapes or axes that clusters share or not; with the
ratio of features' deviations beyond which squares overflow, or rounding hides the axes of small features."""

MANY_FEATURES = 1000
"""Features whose full covariances take long."""

ALIASES = {"tied": "EEE", "full": "VVV", "diag": "VVI", "spherical": "VII"}
"""scikit-learn's names."""

ONE_FEATURE = {"E": "EII", "V": "VII"}
"""Names for a single feature, where a covariance is a variance."""


def resolve_covariance(name: str, n_features: int) -> str:
    """Return the three-letter code of a covariance model.

    Parameters
    ----------
    name : str
        One of the 14 codes, 'low-rank', one of scikit-learn's 'tied', 'full', 'diag', 'spherical', or for a single
        feature 'E' or 'V'.
    n_features : int
        Number of features :math:`D`.

    Returns
    -------
    code : str

    Examples
    --------
    >>> resolve_covariance("tied", 4), resolve_covariance("V", 1)
    ('EEE', 'VII')
    """
    names = {model: model for model in (*MODELS, LOW_RANK)} | ALIASES | (ONE_FEATURE if n_features == 1 else {})
    return names[check_choice("covariance", name, names)]


def all_models(n_features: int) -> list[str]:
    """Models to choose among; a single feature has only two."""
    return ["E", "V"] if n_features == 1 else list(MODELS)


def chosen_models(covariance: Any, n_features: int) -> list[str]:
    """Validate a name, several names or 'all' as covariance models.

    >>> chosen_models("tied", 4), chosen_models("all", 1)
    (['tied'], ['E', 'V'])
    """
    if isinstance(covariance, str) and covariance == "all":
        return all_models(n_features)
    models = listed(covariance)
    if not models:
        raise ValueError("covariance must name at least one model, got an empty list.")
    for model in models:
        resolve_covariance(model, n_features)
    return models


def is_diagonal(covariance: str) -> bool:
    """Whether the model's covariances are diagonal, the spherical ones included."""
    return covariance.endswith("I")


def warn_of_many_features(models: Iterable[str], n_features: int) -> None:
    """Say that full covariances of a thousand features take long, before they do."""
    is_light = [is_diagonal(model) or model == LOW_RANK for model in models]
    if n_features >= MANY_FEATURES and not all(is_light):
        warnings.warn(
            f"X has {n_features} features: a full covariance has {n_features * (n_features + 1) // 2} numbers, and "
            "every step may take minutes; a diagonal model such as covariance='VVI' takes seconds, and verbose=1 "
            "shows how far a fit is.",
            UserWarning,
            stacklevel=3,
        )


def monomial_kind(covariance: str, *, is_absolute: bool = False) -> str:
    """Which monomials of the rows a pass sums up for the model: "linear", "diagonal" or "full".

    Linear ones serve where all components have one covariance, unless densities must be absolute.
    """
    if covariance in SHARED and not is_absolute:
        return "linear"
    return "diagonal" if is_diagonal(covariance) else "full"


def n_covariance_parameters(covariance: str, n_clusters: int, n_features: int, n_factors: int = 0) -> int:
    r"""Count the free parameters of :math:`\Sigma_k = \lambda_k D_k A_k D_k^\top`, k = 1..C.

    A volume :math:`\lambda` has 1, a shape :math:`A` of determinant one D - 1, an orientation :math:`D` has
    D (D - 1) / 2; equal ones count once, varying ones C times, identities not at all. A low-rank covariance has D
    noise variances and, up to rotation, q D - q (q - 1) / 2 loadings.

    Parameters
    ----------
    covariance : str
        One of the 14 codes, or 'low-rank'.
    n_clusters, n_features : int
        :math:`C` and :math:`D`.
    n_factors : int, default=0
        :math:`q` of a low-rank covariance.

    Returns
    -------
    count : int

    Examples
    --------
    >>> n_covariance_parameters("VVV", 3, 4), n_covariance_parameters("EVE", 3, 4)
    (30, 16)
    """
    check_choice("covariance", covariance, (*MODELS, LOW_RANK))
    check_integer("n_clusters", n_clusters, 1)
    check_integer("n_features", n_features, 1)
    if covariance == LOW_RANK:
        return n_features * (n_factors + 1) - n_factors * (n_factors - 1) // 2
    copies = {"E": 1, "V": n_clusters, "I": 0}
    sizes = (1, n_features - 1, n_features * (n_features - 1) // 2)
    return sum(copies[letter] * size for letter, size in zip(covariance, sizes, strict=True))
