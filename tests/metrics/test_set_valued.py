"""Chosen sets against classes: small partitions counted by hand, and matchings tried one by one."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egmm import CredalPartition, FocalSets
from egmm.metrics import (
    cluster_classes,
    coverage,
    discounted_utility,
    matched_accuracy,
    precise_accuracy,
    set_scores,
)

# Six rows over three clusters; with a: 2, b: 0, c: 1 the sets hold the truth in rows 0, 1, 2, 3 and not in 4, 5.
TRUTH = ["a", "a", "b", "c", "b", "c"]
SETS = np.array(
    [[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 0]],
    dtype=bool,
)

SOME_SETS = st.lists(
    st.tuples(st.integers(0, 2), st.tuples(st.booleans(), st.booleans(), st.booleans())), min_size=1, max_size=9
)


def test_the_hand_counted_example() -> None:
    scores = set_scores(TRUTH, SETS)
    assert cluster_classes(TRUTH, SETS).tolist() == [1, 2, 0]
    assert scores.coverage == pytest.approx(4 / 6)
    assert scores.precise_accuracy == pytest.approx(2 / 3)  # rows 0, 2 and 4
    assert scores.ambiguous == pytest.approx(2 / 6)
    assert scores.mean_set_size == pytest.approx(8 / 6)
    # a = 1, 1/2, 1, 1/3, 0, 0 with -0.6 a^2 + 1.6 a and -1.2 a^2 + 2.2 a.
    assert scores.u65 == pytest.approx((1 + 0.65 + 1 + (-0.6 / 9 + 1.6 / 3)) / 6)
    assert scores.u80 == pytest.approx((1 + 0.80 + 1 + (-1.2 / 9 + 2.2 / 3)) / 6)


def test_the_single_measures_are_those_of_all_together() -> None:
    scores = set_scores(TRUTH, SETS)
    assert coverage(TRUTH, SETS) == scores.coverage
    assert precise_accuracy(TRUTH, SETS) == scores.precise_accuracy
    assert discounted_utility(TRUTH, SETS) == scores.u65
    assert discounted_utility(TRUTH, SETS, reward=0.8) == scores.u80


@given(SOME_SETS)
def test_the_matching_is_the_best_of_all(rows) -> None:
    truth, sets = [row[0] for row in rows], np.array([row[1] for row in rows])

    def agreement(order) -> float:
        return sum(
            sum(order[k] == y for k in range(3) if chosen[k]) / max(sum(chosen), 1)
            for y, chosen in zip(truth, sets, strict=True)
        )

    names = sorted(set(truth))
    matched = [names[m] if m >= 0 else None for m in cluster_classes(truth, sets)]
    assert agreement(matched) == pytest.approx(max(agreement(order) for order in permutations(range(3))))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_precise_sets_have_coverage_accuracy_and_utility_alike(pairs) -> None:
    truth, labels = zip(*pairs, strict=True)
    accuracy = matched_accuracy(truth, labels)
    scores = set_scores(truth, np.eye(4, dtype=bool)[list(labels)])
    assert scores == pytest.approx((accuracy, accuracy, 0, 1, accuracy, accuracy), abs=1e-12)


def test_a_credal_partition_is_taken_by_its_heaviest_sets() -> None:
    focal = FocalSets.full(2, empty=True)
    mass = [[0, 0.6, 0.1, 0.3], [0, 0, 0.9, 0.1], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]]
    truth, chosen = [0, 1, 1, 0], np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=bool)
    partition = CredalPartition(mass, focal)
    assert set_scores(truth, partition) == set_scores(truth, chosen)
    assert coverage(truth, partition) == 0.75


def test_everything_said_or_nothing_said() -> None:
    whole = set_scores([0, 1, 0, 1], np.ones((4, 2), dtype=bool))
    assert whole.coverage == 1
    assert np.isnan(whole.precise_accuracy)
    assert (whole.u65, whole.u80) == pytest.approx((0.65, 0.8))
    nothing = set_scores([0, 1, 0, 1], np.zeros((4, 2), dtype=bool))
    assert (nothing.coverage, nothing.mean_set_size, nothing.u65, nothing.ambiguous) == (0, 0, 0, 0)


def test_clusters_or_classes_left_over_match_nothing() -> None:
    more_clusters = np.eye(3, dtype=bool)[[0, 0, 1, 1, 2]]
    assert cluster_classes([0, 0, 1, 1, 1], more_clusters).tolist() == [0, 1, -1]
    assert coverage([0, 0, 1, 1, 1], more_clusters) == 0.8
    assert cluster_classes([0, 0, 1, 1, 2], np.eye(2, dtype=bool)[[0, 0, 1, 1, 1]]).tolist() == [0, 1]
    assert coverage([0, 0, 1, 1, 2], np.eye(2, dtype=bool)[[0, 0, 1, 1, 1]]) == 0.8
    # No cluster is left for class 2, though both clusters share the rows of class 0.
    assert cluster_classes([0, 0, 0, 0, 1, 2], np.array([[1, 1]] * 4 + [[0, 1], [1, 0]], dtype=bool)).tolist() == [0, 1]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"sets must be a CredalPartition or a boolean matrix .* got shape \(2, 2\) of"
    ):
        coverage([0, 1], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"sets must be .*, got shape \(2, 0\) of dtype bool\."):
        coverage([0, 1], np.empty((2, 0), dtype=bool))
    with pytest.raises(ValueError, match=r"sets must be .*, got shape \(2,\) of dtype bool\."):
        coverage([0, 1], [True, False])
    with pytest.raises(ValueError, match=r"y_true and sets must have the same number of rows, got 3 and 2\."):
        set_scores([0, 1, 1], np.eye(2, dtype=bool))
    with pytest.raises(ValueError, match=r"reward must be a finite number in \[0\.5, 1\], got 0\.4\."):
        discounted_utility([0, 1], np.eye(2, dtype=bool), reward=0.4)


def test_what_is_below_a_mask_is_no_value() -> None:
    with pytest.raises(ValueError, match=r"^sets has 1 entry of 2 masked;  "):
        set_scores([0], np.ma.masked_array([[True, False]], mask=[[False, True]]))
