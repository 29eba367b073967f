"""What relational clusterers do alike: rows by features and a metric, or by their dissimilarities."""

from typing import Any

from sklearn.base import BaseEstimator

from egmm._checks import FloatArray
from egmm.cluster.relational.dissimilarities import dissimilarities, is_precomputed


class Relational(BaseEstimator):
    """A clusterer with a parameter `metric`, 'precomputed' meaning that X holds dissimilarities."""

    def __sklearn_tags__(self) -> Any:
        """Say that X is pairwise, and not negative, where it is."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = is_precomputed(self.metric)
        return tags

    def _dissimilarities(self, X: FloatArray) -> FloatArray:
        return dissimilarities(X, self.metric)
