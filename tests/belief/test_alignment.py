import re

import numpy as np
import pytest

from egmm import FocalSets
from egmm.belief import match_clusters, relabel


def test_matching_maximises_the_common_membership():
    np.testing.assert_array_equal(match_clusters(np.eye(3), np.eye(3)[:, [2, 0, 1]]), [1, 2, 0])


def test_clusters_without_a_class_keep_their_order():
    np.testing.assert_array_equal(match_clusters(np.eye(4), np.eye(4)[:, [2]]), [1, 2, 0, 3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: match_clusters([[1.0]], [[1.0, 0]]), "The number of classes, 2, exceeds the number of clusters, 1."),
        (lambda: match_clusters([[1.0]], [[1.0], [1.0]]), "targets must have shape (1, n), got (2, 1)."),
        (lambda: match_clusters([[np.nan]], [[1.0]]), "probabilities must be finite, but entry (0, 0) is nan."),
        (
            lambda: relabel([[1.0, 0]], FocalSets.singletons(2), [1, 2]),
            "permutation must hold each number from 0 to 1 once, got [1, 2].",
        ),
        (
            lambda: relabel([[1.0, 0]], FocalSets.singletons(2), 1),
            "permutation must hold each number from 0 to 1 once, got 1.",
        ),
        (lambda: relabel([[0.5, 0]], FocalSets.singletons(2), [0, 1]), "row 0 sums to 0.5."),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
