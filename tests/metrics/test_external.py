"""Agreement with classes: hand-counted partitions, and the formulas of the paper."""

from itertools import combinations, permutations
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egmm.metrics import ari, matched_accuracy, nmi, purity
from egmm.metrics.external import rand_matrix

# Manning, Raghavan & Schuetze 2008, figure 16.1: 17 points, three clusters; the book prints purity 0.71 and NMI 0.36.
BOOK_CLASSES = list("xxxxxo" + "xooood" + "xxddd")
BOOK_CLUSTERS = [1] * 6 + [2] * 6 + [3] * 5

LABELLINGS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12)


def test_the_textbook_example_has_its_printed_purity_and_nmi() -> None:
    assert purity(BOOK_CLASSES, BOOK_CLUSTERS) == pytest.approx(12 / 17)
    assert nmi(BOOK_CLASSES, BOOK_CLUSTERS) == pytest.approx(0.36, abs=0.005)


def test_the_textbook_example_has_its_pair_counts() -> None:
    # The book counts TP = 20, FP = 20, FN = 24, TN = 72.
    assert ari(BOOK_CLASSES, BOOK_CLUSTERS) == pytest.approx(2 * (20 * 72 - 20 * 24) / (92 * 40 + 96 * 44))


@given(LABELLINGS)
def test_the_adjusted_rand_index_is_the_formula_of_the_paper(pairs: list[tuple[int, int]]) -> None:
    tp = tn = fp = fn = 0
    for (class_a, cluster_a), (class_b, cluster_b) in combinations(pairs, 2):
        same_class, same_cluster = class_a == class_b, cluster_a == cluster_b
        tp += same_class and same_cluster
        tn += not same_class and not same_cluster
        fp += same_cluster and not same_class
        fn += same_class and not same_cluster
    below = (tn + fp) * (fp + tp) + (tn + fn) * (fn + tp)
    expected = 2 * (tp * tn - fp * fn) / below if below else 1.0
    assert ari(*zip(*pairs, strict=True)) == pytest.approx(expected, abs=1e-12)


@given(LABELLINGS)
def test_nmi_divides_by_the_arithmetic_mean_of_the_entropies(pairs: list[tuple[int, int]]) -> None:
    classes, clusters = zip(*pairs, strict=True)
    both = _entropy(classes) + _entropy(clusters)
    expected = 2 * (both - _entropy(pairs)) / both if both else 1.0
    assert nmi(classes, clusters) == pytest.approx(expected, abs=1e-9)


@given(LABELLINGS)
def test_matched_accuracy_is_the_best_of_all_matchings(pairs: list[tuple[int, int]]) -> None:
    best = max(sum(order[cluster] == klass for klass, cluster in pairs) for order in permutations(range(4)))
    classes, clusters = zip(*pairs, strict=True)
    assert matched_accuracy(classes, clusters) == pytest.approx(best / len(pairs))
    assert matched_accuracy(classes, clusters) <= purity(classes, clusters) + 1e-12


def test_clusters_left_over_are_wrong() -> None:
    assert matched_accuracy(["a"] * 4, [0, 0, 0, 1]) == 0.75
    assert purity(["a"] * 4, [0, 0, 0, 1]) == 1.0


@pytest.mark.parametrize("measure", [purity, nmi, ari, matched_accuracy])
def test_names_of_labels_do_not_matter(measure) -> None:
    classes, clusters = [0, 0, 1, 1, 2], [2, 2, 0, 1, 1]
    named = measure(np.array(["c", "c", "a", "a", "b"]), [10.5, 10.5, -1.0, 3.0, 3.0])
    assert named == pytest.approx(measure(classes, clusters), abs=1e-12)


@pytest.mark.parametrize("measure", [purity, nmi, ari, matched_accuracy])
def test_bad_labels_are_named(measure) -> None:
    with pytest.raises(ValueError, match=r"y_true and labels must have the same number of rows, got 3 and 2\."):
        measure([0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match=r"y_true must be a non-empty vector, one label per row; got shape \(0,\)\."):
        measure([], [])
    with pytest.raises(ValueError, match=r"labels must be a non-empty vector, one label per row; got shape \(1, 2\)\."):
        measure([0, 1], [[0, 1]])
    with pytest.raises(ValueError, match=r"y_true must be finite, but row 2 is nan\."):
        purity(np.array([2.0, 1.0, np.nan, 1.0], dtype=object), [0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"labels must be finite, but row 1 is nan\."):
        measure([0, 1], [0.0, float("nan")])
    with pytest.raises(TypeError, match=r"y_true must hold labels of one kind, numbers or text, got NoneType, str\."):
        measure(["a", None], [0, 1])


def _entropy(values) -> float:
    counts = [list(values).count(value) for value in set(values)]
    return -sum(count / len(values) * log(count / len(values)) for count in counts)


def test_every_two_labellings_are_compared_on_all_ordered_pairs_of_weighted_rows(rng) -> None:
    labels, weights = rng.integers(0, 3, (4, 15)), rng.random(15)
    for a, b in permutations(range(4), 2):
        pairs = [(i, j, weights[i] * weights[j]) for i in range(15) for j in range(15)]
        total = sum(weight for *_, weight in pairs)
        in_a = sum(weight for i, j, weight in pairs if labels[a, i] == labels[a, j]) / total
        in_b = sum(weight for i, j, weight in pairs if labels[b, i] == labels[b, j]) / total
        both = sum(w for i, j, w in pairs if labels[a, i] == labels[a, j] and labels[b, i] == labels[b, j]) / total
        expected = (both - in_a * in_b) / ((in_a + in_b) / 2 - in_a * in_b)
        assert rand_matrix(labels, weights)[a, b] == pytest.approx(expected, rel=1e-12)


def test_of_many_rows_it_is_the_adjusted_rand_index(rng) -> None:
    labels = rng.integers(0, 3, (2, 4000))
    labels[1, :2500] = labels[0, :2500]
    assert rand_matrix(labels, np.ones(4000))[0, 1] == pytest.approx(ari(*labels), abs=1e-3)


@pytest.mark.parametrize(("n_labellings", "n_rows"), [(5, 133), (14, 1000)])
def test_labellings_of_one_cluster_agree_but_for_rounding(rng, n_labellings, n_rows) -> None:
    same = np.zeros((n_labellings, n_rows), dtype=int)
    for weights in (np.ones(n_rows), rng.random(n_rows)):
        np.testing.assert_array_equal(rand_matrix(same, weights), 1.0)


def test_labellings_of_one_cluster_agree(rng) -> None:
    one, two = np.zeros(6, dtype=int), np.array([0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(
        rand_matrix(np.array([one, one, two]), rng.random(6)), [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    )
