"""k-means, many runs at once, against all partitions of few rows and against scikit-learn."""

from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans

from egmm.em.kmeans import _means, kmeans


def inertia_of(X, weights, labels) -> float:
    total = 0.0
    for k in np.unique(labels):
        rows, own = X[labels == k], weights[labels == k]
        total += float((own * ((rows - np.average(rows, axis=0, weights=own)) ** 2).sum(axis=1)).sum())
    return total


@pytest.mark.parametrize("n_clusters", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_of_all_partitions_it_finds_the_best(n_clusters, seed) -> None:
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(7, 2)), rng.uniform(0.5, 3, 7)
    best = min(inertia_of(X, weights, np.array(labels)) for labels in product(range(n_clusters), repeat=7))
    # Of the triples of rows to start from there may be but one that leads there: so many runs try them all.
    labels = kmeans(X, weights, n_clusters, 2000, np.random.RandomState(0))
    assert inertia_of(X, weights, labels) == pytest.approx(best, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n_clusters", [1, 2, 4, 7])
def test_it_is_as_good_as_scikit_learns(rng, n_clusters) -> None:
    X, weights = rng.normal(size=(90, 3)) + 4 * rng.integers(0, 3, 90)[:, None], rng.uniform(0.5, 3, 90)
    labels = kmeans(X, weights, n_clusters, 30, np.random.RandomState(0))
    peer = KMeans(n_clusters, n_init=30, random_state=0).fit(X, sample_weight=weights)
    assert set(labels) == set(range(n_clusters))
    assert inertia_of(X, weights, labels) <= peer.inertia_ * (1 + 1e-3)
    means = np.array([np.average(X[labels == k], axis=0, weights=weights[labels == k]) for k in range(n_clusters)])
    np.testing.assert_array_equal(((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1), labels)


def test_weights_are_repeats(rng) -> None:
    X, counts = rng.normal(size=(40, 2)), rng.integers(1, 4, 40)
    weighted = kmeans(X, counts.astype(float), 3, 30, np.random.RandomState(0))
    repeated = kmeans(np.repeat(X, counts, axis=0), np.ones(counts.sum()), 3, 30, np.random.RandomState(0))
    one = inertia_of(X, counts.astype(float), weighted)
    assert one == pytest.approx(inertia_of(np.repeat(X, counts, axis=0), np.ones(counts.sum()), repeated), rel=1e-9)


def test_a_group_without_rows_moves_to_the_farthest_row() -> None:
    rows, weights = np.array([[0.0], [1.0], [7.0], [9.0]]), np.ones(4)
    found = _means(rows, weights, np.zeros((1, 4), dtype=int), np.array([[4.0, 3.0, 5.0, 25.0]]), 3)
    np.testing.assert_allclose(found[0, :, 0], [17 / 4, 9.0, 7.0])


def test_it_has_the_seed_of_its_draws_and_no_more_groups_than_rows() -> None:
    X = np.repeat([[0.0], [1.0], [5.0]], 4, axis=0)
    first, again = (kmeans(X, np.ones(12), 3, 5, np.random.RandomState(7)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert [len(set(first[k : k + 4])) for k in (0, 4, 8)] == [1, 1, 1]
    assert len(set(kmeans(X, np.ones(12), 4, 5, np.random.RandomState(7)))) == 3


@pytest.mark.parametrize("offset", [1e6, -1e8])
def test_far_from_the_origin_groups_are_the_same(rng, offset) -> None:
    X = rng.normal(size=(60, 2)) + 6 * np.repeat([0, 1, 2], 20)[:, None]
    near, far = (kmeans(rows, np.ones(60), 3, 10, np.random.RandomState(0)) for rows in (X, X + offset))
    # Runs that end alike may number the groups in another way.
    assert len(set(zip(near, far, strict=True))) == 3
