"""Profiles of clusters: weighted moments from first principles, traits in order of their size, words."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from egmm import CredalPartition
from egmm.explanation import profiles
from egmm.explanation.profiles import in_words


def test_means_and_deviations_are_those_of_the_groups() -> None:
    iris = load_iris()
    found = profiles(CredalPartition.from_labels(iris.target), iris.data)
    for k, profile in enumerate(found):
        group = iris.data[iris.target == k]
        np.testing.assert_allclose(profile.means, group.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(profile.deviations, group.std(axis=0), rtol=1e-10)
        assert (profile.cluster, profile.n_rows, profile.n_sure) == (k, 50, 50)


def test_differences_are_in_deviations_within_clusters() -> None:
    X = np.array([[0.0, 7.0], [2.0, 7.0], [10.0, 7.0], [12.0, 7.0]])
    first, second = profiles(CredalPartition.from_labels([0, 0, 1, 1]), X)
    np.testing.assert_allclose(first.differences, [-10.0, 0.0])  # deviation 1 in both groups; a constant tells nothing
    np.testing.assert_allclose(second.differences, [10.0, 0.0])
    assert [trait.feature for trait in first.traits] == [0]


def test_a_shared_row_counts_in_both_clusters_by_its_share() -> None:
    partition = CredalPartition.from_probabilities([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    first, second = profiles(partition, [[0.0], [3.0], [9.0]])
    assert first.means == pytest.approx([1.0])
    assert second.means == pytest.approx([7.0])


def test_missing_cells_are_left_out() -> None:
    X = [[0.0, np.nan], [2.0, 4.0], [10.0, 6.0], [12.0, np.nan]]
    first, second = profiles(CredalPartition.from_labels([0, 0, 1, 1]), X)
    np.testing.assert_allclose(first.means, [1.0, 4.0])
    np.testing.assert_allclose(second.means, [11.0, 6.0])


def test_names_of_a_data_frame_are_used() -> None:
    frame = pd.DataFrame({"petal length (cm)": [1.0, 1.1, 5.0, 5.1], "ash": [1.0, 2.0, 1.0, 2.0]})
    assert profiles(CredalPartition.from_labels([0, 0, 1, 1]), frame)[1].words == "very long petal"


def test_a_cluster_like_the_rest_is_said_to_be_average(rng) -> None:
    found = profiles(CredalPartition.from_labels([0, 1] * 200), rng.normal(size=(400, 2)))
    assert found[0].words == "close to the average in every feature"


@pytest.mark.parametrize(
    ("name", "difference", "words"),
    [
        ("petal_length", 3.0, "very long petal"),
        ("sepal width (cm)", -1.0, "narrow sepal"),
        ("bill_depth_mm", 1.0, "deep bill"),
        ("length", 1.0, "high length"),
        ("proline", -3.0, "very low proline"),
        ("x1", 1.0, "high x1"),
    ],
)
def test_words(name: str, difference: float, words: str) -> None:
    assert in_words(name, difference) == words


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match="feature_names must have 1 entries, got 2"):
        profiles(CredalPartition.from_labels([0, 1]), [[0.0], [1.0]], ["a", "b"])
