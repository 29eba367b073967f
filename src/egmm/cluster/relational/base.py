"""Base of relational clusterers: rows given by features and a metric, or by dissimilarities."""

from typing import Any

from sklearn.base import BaseEstimator

from egmm._checks import FloatArray
from egmm.cluster.relational.dissimilarities import dissimilarities, is_precomputed


class Relational(BaseEstimator):
    """A clusterer with a parameter `metric`, 'precomputed' meaning that X holds dissimilarities."""

    def __sklearn_tags__(self) -> Any:
        """Declare pairwise non-negative input for precomputed dissimilarities."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = is_precomputed(self.metric)
        return tags

    def _dissimilarities(self, X: FloatArray) -> FloatArray:
        return dissimilarities(X, self.metric)
