"""The fourteen covariance models: their names, what they share, how many parameters they have."""

from typing import Any

from egmm._checks import check_choice, check_integer, listed

MODELS = ("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV")
"""Volume, shape and orientation of the clusters: E equal, V varying, I the identity (Banfield and Raftery 1993)."""

SHARED = ("EII", "EEI", "EEE")
"""Models with one covariance for all clusters."""

COMMON_UNITS = ("EII", "VII", "EVE", "VVE", "EEV", "VEV")
"""Models that change when features are scaled apart: spheres, and shapes or axes that clusters share or not."""

ALIASES = {"tied": "EEE", "full": "VVV", "diag": "VVI", "spherical": "VII"}
"""scikit-learn's names."""

ONE_FEATURE = {"E": "EII", "V": "VII"}
"""Names for a single feature, where a covariance is a variance."""


def resolve_covariance(name: str, n_features: int) -> str:
    """Return the three-letter code of a covariance model.

    Parameters
    ----------
    name : str
        One of the 14 codes, one of scikit-learn's 'tied', 'full', 'diag', 'spherical', or for a single feature
        'E' or 'V'.
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
    names = {model: model for model in MODELS} | ALIASES | (ONE_FEATURE if n_features == 1 else {})
    return names[check_choice("covariance", name, names)]


def all_models(n_features: int) -> list[str]:
    """Models to choose among; a single feature has but two."""
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


def monomial_kind(covariance: str) -> str:
    """Which monomials of the rows a pass sums up for the model: "linear", "diagonal" or "full"."""
    if covariance in SHARED:
        return "linear"
    return "diagonal" if is_diagonal(covariance) else "full"


def n_covariance_parameters(covariance: str, n_clusters: int, n_features: int) -> int:
    r"""Count the free parameters of :math:`\Sigma_k = \lambda_k D_k A_k D_k^\top`, k = 1..C.

    A volume :math:`\lambda` has 1, a shape :math:`A` of determinant one D - 1, an orientation :math:`D` has
    D (D - 1) / 2; equal ones count once, varying ones C times, identities not at all.

    Parameters
    ----------
    covariance : str
        One of the 14 codes.
    n_clusters, n_features : int
        :math:`C` and :math:`D`.

    Returns
    -------
    count : int

    Examples
    --------
    >>> n_covariance_parameters("VVV", 3, 4), n_covariance_parameters("EVE", 3, 4)
    (30, 16)
    """
    check_choice("covariance", covariance, MODELS)
    check_integer("n_clusters", n_clusters, 1)
    check_integer("n_features", n_features, 1)
    copies = {"E": 1, "V": n_clusters, "I": 0}
    sizes = (1, n_features - 1, n_features * (n_features - 1) // 2)
    return sum(copies[letter] * size for letter, size in zip(covariance, sizes, strict=True))
