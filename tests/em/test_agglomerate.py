"""Merging: the cheapest union first, whatever rows weigh."""

import itertools

import numpy as np
import pytest

from egmm.em.agglomerate import merged_labels


def slow_labels(X, weights, n_clusters) -> list[set[int]]:
    """Try every union at every step."""
    mean = weights @ X / weights.sum()
    smallest = (weights @ ((X - mean) ** 2)).sum() / (weights.sum() * X.shape[1])

    def cost(group) -> float:
        rows, counts = X[sorted(group)], weights[sorted(group)]
        scatter = (counts @ ((rows - counts @ rows / counts.sum()) ** 2)).sum()
        return counts.sum() * np.log((scatter + smallest) / counts.sum())

    groups = [{i} for i in range(len(X))]
    while len(groups) > n_clusters:
        pairs = itertools.combinations(groups, 2)
        one, other = min(pairs, key=lambda pair: cost(pair[0] | pair[1]) - cost(pair[0]) - cost(pair[1]))
        groups = [group for group in groups if group not in (one, other)] + [one | other]
    return sorted(groups, key=min)


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 30])
@pytest.mark.parametrize("dim", [1, 3])
def test_every_union_is_the_cheapest(rng, n_clusters, dim) -> None:
    X, weights = rng.normal(size=(30, dim)) ** 3, rng.integers(1, 4, 30) + 0.5
    labels = merged_labels(X, weights, n_clusters)
    assert [set(np.flatnonzero(labels == k)) for k in range(n_clusters)] == slow_labels(X, weights, n_clusters)


def test_small_dense_groups_stay_beside_wide_ones(rng) -> None:
    # Equal spheres would cut the wide group.
    X = np.concatenate([rng.normal(0, 3, (80, 2)), rng.normal(9, 0.1, (20, 2))])
    labels = merged_labels(X, np.ones(100), 2)
    np.testing.assert_array_equal(labels[80:], labels[80])
    assert (labels[:80] != labels[80]).mean() > 0.95


def test_equal_rows_cost_nothing_special() -> None:
    np.testing.assert_array_equal(merged_labels(np.zeros((4, 2)), np.ones(4), 4), [0, 1, 2, 3])
