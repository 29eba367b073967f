"""What a mixture is told and what it has learnt: parameters and fitted attributes of an estimator."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from egmm._arrays import beside
from egmm._checks import FloatArray, IntArray
from egmm._documented import Documented
from egmm.belief.focal import FocalSets
from egmm.em.covariance import LOW_RANK, is_diagonal
from egmm.em.factors import dense
from egmm.em.noise import Box

MODEL_PARAMETERS = (
    "n_clusters",
    "focal_sets",
    "covariance",
    "n_factors",
    "reg_covar",
    "prior",
    "certainty",
    "noise",
    "tails",
)
"""Parameters that a stream cannot change."""


class MixtureState(Documented, TransformerMixin, BaseEstimator):
    """Parameters and fitted attributes of `EGMM`."""

    # Parameters, for type checkers.
    n_clusters: int
    focal_sets: Any
    covariance: str
    n_factors: Any
    init: Any
    n_init: int
    tol: float
    max_iter: int
    reg_covar: Any
    prior: Any
    certainty: float
    noise: bool
    tails: str
    accelerate: bool
    random_state: Any
    engine: str
    n_jobs: int | None
    warm_start: bool
    checkpoint: Any
    verbose: int

    # Fitted attributes, for type checkers.
    weights_: FloatArray
    means_: FloatArray
    focal_means_: FloatArray
    stored_covariances_: FloatArray
    """Covariances as the fit keeps them: diagonal models have variances alone, low-rank ones noise variances beside
    loadings, (D, 1 + q)."""
    stored_focal_covariances_: FloatArray
    focal_sets_: FocalSets
    labels_: IntArray
    log_likelihood_: float
    log_likelihood_history_: FloatArray
    entropy_: float
    ebic_: float
    n_parameters_: int
    n_iter_: int
    converged_: bool
    degenerate_: bool
    noise_box_: FloatArray
    """Where the model has noise."""
    degrees_of_freedom_: float
    """Where tails are heavy."""
    n_features_in_: int
    feature_names_in_: Any
    covariance_: str
    """Covariance model of the fit, one of the 14 codes; the parameter may have changed since."""
    _fitted_parameters: dict[str, str]
    """`model_parameters` at the fit."""

    @property
    def covariances_(self) -> FloatArray:
        """Covariances of the clusters: (n_features, n_features) if shared, else one for each cluster."""
        return self._expanded("stored_covariances_")

    @property
    def focal_covariances_(self) -> FloatArray:
        """Covariances of the focal sets' Gaussians, shaped as the clusters'."""
        return self._expanded("stored_focal_covariances_")

    @property
    def loadings_(self) -> FloatArray:
        """Loadings of the factors of a low-rank covariance, one column per factor."""
        return self._low_rank("loadings_")[:, 1:]

    @property
    def noise_variances_(self) -> FloatArray:
        """Noise variances of a low-rank covariance, the variances that factors do not explain, (n_features,)."""
        return self._low_rank("noise_variances_")[:, 0]

    @property
    def n_factors_(self) -> int:
        """Number of factors of a low-rank covariance."""
        return self._low_rank("n_factors_").shape[1] - 1

    def _low_rank(self, asked: str) -> FloatArray:
        if self.__dict__.get("covariance_") != LOW_RANK:
            raise AttributeError(f"{asked} is known only once a model with covariance='low-rank' is fitted")
        return self.stored_covariances_

    def _expanded(self, name: str) -> FloatArray:
        if name not in self.__dict__:
            public = name.removeprefix("stored_")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {public!r}: it is not fitted")
        within: FloatArray = self.__dict__[name]
        if not is_diagonal(self.covariance_):
            return dense(within)
        return within[..., None] * beside(within, np.eye(within.shape[-1]))


def model_parameters(model: MixtureState) -> dict[str, str]:
    """Parameters that define the model, as text that does not change if a list is modified."""
    return {name: repr(getattr(model, name)) for name in MODEL_PARAMETERS}


def degrees_of(model: MixtureState) -> float | None:
    """Degrees of freedom of a fitted model, where its tails are heavy."""
    return getattr(model, "degrees_of_freedom_", None)


def noise_of(model: MixtureState) -> Box | None:
    """Where noise may lie under a fitted model, if it has any."""
    return Box(*model.noise_box_) if model.focal_sets_.has_empty else None
