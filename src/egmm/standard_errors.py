"""How well rows determine the parameters of a fitted mixture."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.em.assign import in_units
from egmm.em.covariance import SHARED, is_diagonal
from egmm.em.information import LINEAR_TIES, Coordinates, NotAtMaximumError, sandwich
from egmm.rows.source import RowSource

LEAST_ROWS = 1.0
"""Weight, in rows, below which that of a focal set is held fixed: it is at its bound."""


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of a fitted mixture's parameters.

    Attributes
    ----------
    weights : ndarray of shape (n_focal,)
        Of `weights_`; 0 where a set has less than the weight of a row, which is held fixed.
    means : ndarray of shape (n_clusters, n_features)
        Of `means_`.
    covariances : ndarray, shaped as `covariances_`
        Of the covariances; 0 where the model fixes an entry at zero.
    matrix : ndarray of shape (n_parameters, n_parameters)
        Covariance matrix of all of them, in the order of `names`.
    names : tuple of str
        Names such as ``weight {1}``, ``mean 1 x`` and ``covariance x y``, or ``covariance 1 x y`` of a cluster.
    method : str
        'sandwich'.
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    matrix: FloatArray
    names: tuple[str, ...]
    method: str = "sandwich"

    @property
    def mean_covariances(self) -> FloatArray:
        """Covariance matrix of the estimate of each mean, (n_clusters, n_features, n_features)."""
        n_clusters, dim = self.means.shape
        first = len(self.weights)
        places = first + np.arange(n_clusters * dim).reshape(n_clusters, dim)
        return self.matrix[places[:, :, None], places[:, None, :]]


def standard_errors_of(model: Any, rows: RowSource, n_rows: float) -> StandardErrors:
    """Standard errors of a fitted `EGMM`, from rows of this weight."""
    code, focal_sets = model.covariance_, model.focal_sets_
    _check(model)
    params, units = in_units(model.weights_, model.means_, model.stored_covariances_, code)
    weights = params.weights[0]
    is_free = weights * n_rows >= LEAST_ROWS
    is_free[weights.argmax()] = False
    with np.errstate(divide="ignore"):
        coordinates = Coordinates(np.log(weights), is_free, focal_sets.shares, code, len(units.centre))
    try:
        matrix = sandwich(rows, params, coordinates, units)
    except NotAtMaximumError as error:
        raise ValueError(
            f"standard errors need a model at a maximum of the likelihood of X, but {error}; pass the rows it was "
            "fitted to, lower tol, or use fewer clusters or focal sets."
        ) from error
    return _described(model, matrix)


def _check(model: Any) -> None:
    """Refuse models whose likelihood has no maximum at their parameters, or whose covariances are tied otherwise."""
    if model.covariance_ not in LINEAR_TIES:
        raise ValueError(
            f"standard errors are known for covariance {', '.join(LINEAR_TIES)}, got {model.covariance_!r}; "
            "for others, refit resampled rows."
        )
    if model.noise or model.tails != "gaussian":
        raise ValueError(
            f"standard errors are known for Gaussians alone, got noise={model.noise} and tails={model.tails!r}; refit "
            "resampled rows."
        )
    if model.prior is not None or model.certainty > 0:
        raise ValueError(
            f"standard errors are those of maximum likelihood, got prior={model.prior!r} and "
            f"certainty={model.certainty:g}; fit with prior=None and certainty=0."
        )


def _described(model: Any, matrix: FloatArray) -> StandardErrors:
    n_clusters, dim = model.means_.shape
    features = [str(name) for name in getattr(model, "feature_names_in_", [f"x{d + 1}" for d in range(dim)])]
    pairs = [(name, name) for name in features]
    if not is_diagonal(model.covariance_):
        pairs = [(one, other) for one in features for other in features]
    whose = [""] if model.covariance_ in SHARED else [f" {k + 1}" for k in range(n_clusters)]
    names = [f"weight {label}" for label in model.focal_sets_.labels]
    names += [f"mean {k + 1} {name}" for k in range(n_clusters) for name in features]
    names += [f"covariance{one} {first} {second}" for one in whose for first, second in pairs]
    errors = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    at = len(model.weights_)
    weights, means, rest = np.split(errors, [at, at + n_clusters * dim])
    covariances = rest.reshape(model.stored_covariances_.shape)
    if is_diagonal(model.covariance_):
        covariances = covariances[..., None] * np.eye(dim)
    return StandardErrors(weights, means.reshape(n_clusters, dim), covariances, matrix, tuple(names))
