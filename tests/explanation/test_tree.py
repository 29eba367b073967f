"""Rule trees: costs against loops, leaves that stand for sets, utilities from the definition, words, errors."""

from math import inf

import numpy as np
import pytest
from sklearn.datasets import load_iris

from egmm import EGMM, CredalPartition, FocalSets, explain
from egmm.explanation.tree import set_utilities
from explanation.oracles_tree import best_cost, centroid, split_cost, utility

CAUTIONS = [-inf, -1.0, -0.5, 0.0, 0.5, 1.0, inf]


def random_partition(rng: np.random.Generator, n_rows: int = 30, n_clusters: int = 3) -> CredalPartition:
    focal = FocalSets.full(n_clusters)
    return CredalPartition(rng.dirichlet(np.full(len(focal), 0.3), n_rows), focal)


def as_dicts(partition: CredalPartition) -> list[dict[frozenset[int], float]]:
    return [dict(zip(partition.focal_sets, mass, strict=True)) for mass in partition.mass.tolist()]


@pytest.mark.parametrize("caution", CAUTIONS)
def test_utilities_are_those_of_the_definition(caution: float) -> None:
    focal = FocalSets.full(3)
    expected = [[utility(a, b, caution) for b in focal] for a in focal]
    np.testing.assert_allclose(set_utilities(focal.membership, focal.membership, caution), expected, rtol=1e-15)


@pytest.mark.parametrize("caution", CAUTIONS)
def test_the_first_split_is_the_cheapest_of_all(rng, caution: float) -> None:
    partition, X = random_partition(rng), rng.normal(size=(30, 3)).round(1)  # rounded: values repeat
    tree = explain(partition, X, caution=caution, max_leaves=2)
    root = tree._root
    masses, rows = as_dicts(partition), X.tolist()
    sets = [list(partition.focal_sets)[j] for j in np.unique(partition.sets())]
    centroids = {s: centroid(rows, masses, s) for s in sets}
    cost = split_cost(rows, masses, sets, centroids, root.feature, root.threshold, caution)
    assert cost == pytest.approx(best_cost(rows, masses, sets, caution), rel=1e-12)


def test_a_certain_partition_of_separate_groups_is_explained_exactly() -> None:
    X = np.array([[0, 0], [1, 0], [10, 0], [11, 1], [0, 9], [1, 8.0]])
    partition = CredalPartition.from_labels([0, 0, 1, 1, 2, 2])
    tree = explain(partition, X, feature_names=["a", "b"])
    assert [(rule.label, rule.rows, rule.agreement) for rule in tree.rules] == [
        ("{1}", 2, 1.0),
        ("{3}", 2, 1.0),
        ("{2}", 2, 1.0),
    ]
    assert tree.score(partition, X) == 1.0
    np.testing.assert_array_equal(tree.sets(X), partition.upper())
    assert tree.rules[2].conditions == ("a > 5.5",)
    assert "a <= 5.5" in str(tree)
    assert "a &gt; 5.5" in tree._repr_html_()


def test_a_tree_with_one_leaf_names_every_cluster(rng) -> None:
    tree = explain(random_partition(rng), rng.normal(size=(30, 2)), max_leaves=1)
    assert [rule.members for rule in tree.rules] == [frozenset({0, 1, 2})]
    assert tree.rules[0].conditions == ()


def test_each_tree_is_the_best_by_its_own_measure() -> None:
    # A property reported of this method on the iris data: the diagonal of the table of scores holds each column's best.
    X = load_iris().data
    partition = EGMM(3, random_state=0).fit(X).partition(X)
    measures = [-inf, -1.0, 0.0, 1.0, inf]
    trees = [explain(partition, X, caution=caution) for caution in measures]
    table = np.array([[tree.score(partition, X, caution) for caution in measures] for tree in trees])
    np.testing.assert_array_equal(table.argmax(axis=0), np.arange(5))


def test_rows_equal_to_a_threshold_go_below_everywhere() -> None:
    X = np.array([[1.0], [np.nextafter(1.0, 2)]])
    tree = explain(CredalPartition.from_labels([0, 1]), X)
    assert tree.sets(X).tolist() == [[True, False], [False, True]]


def test_the_empty_set_is_not_explained() -> None:
    partition = CredalPartition.from_labels([0, 0, 1, -1])
    tree = explain(partition, [[0.0], [1.0], [5.0], [100.0]])
    assert [rule.label for rule in tree.rules] == ["{1}", "{2}"]
    with pytest.raises(ValueError, match="must have a row with mass on a cluster"):
        explain(CredalPartition.from_labels([-1, -1]), [[0.0], [1.0]])


def test_identical_rows_cannot_be_split() -> None:
    tree = explain(CredalPartition.from_labels([0, 1]), [[1.0, 2.0]] * 2)
    assert [rule.label for rule in tree.rules] == ["{1,2}"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caution": float("nan")}, "caution must be a number from -inf to inf, got nan"),
        ({"max_leaves": 0}, "max_leaves must be an integer >= 1, got 0"),
        ({"feature_names": ["a", "b"]}, "feature_names must have 1 entries, got 2"),
        ({"X": [[0.0]]}, "X and partition must have the same number of rows, got 1 and 2"),
    ],
)
def test_bad_arguments_are_refused(change: dict, message: str) -> None:
    arguments = {"X": [[0.0], [1.0]], **change}
    with pytest.raises(ValueError, match=message):
        explain(CredalPartition.from_labels([0, 1]), **arguments)
