"""Masses of least cost, and the distances they are made of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.oracles_cluster import ecm_masses, ecm_objective, set_mean, squared_distance
from egmm.belief import FocalSets
from egmm.cluster.masses import (
    EuclideanCosts,
    Pricing,
    euclidean,
    evidential_pricing,
    mahalanobis,
    optimal_masses,
    relative_masses,
)


def rows_and_means(seed, n=12, dim=3, n_clusters=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)), rng.normal(size=(n_clusters, dim))


def nonempty(pricing):
    return [sorted(members) for members in pricing.focal if members]


def plain(family, n_clusters=3):
    """Prices that are the squared distances."""
    return Pricing(FocalSets.of(family, n_clusters), alpha=0.0, beta=2.0, delta=1.0)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    alpha=st.sampled_from([0.0, 1.0, 2.5]),
    beta=st.sampled_from([1.2, 2.0, 3.0]),
    delta=st.sampled_from([0.5, 10.0]),
    family=st.sampled_from(["full", "pairs", "singletons", "simple"]),
)
def test_masses_and_objective_follow_the_formula(seed, alpha, beta, delta, family):
    X, means = rows_and_means(seed)
    pricing = evidential_pricing(family, 3, alpha, beta, delta)
    relative, total, objective = relative_masses(euclidean(means, pricing)(X), beta)
    mass = relative / total
    expected = [ecm_masses(x, means, nonempty(pricing), alpha, beta, delta) for x in X]
    np.testing.assert_allclose(mass[1:].T, [row[:-1] for row in expected], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(mass[0], [row[-1] for row in expected], rtol=1e-7, atol=1e-12)
    assert objective.sum() == pytest.approx(
        ecm_objective(X, expected, means, nonempty(pricing), alpha, beta, delta), rel=1e-9
    )
    np.testing.assert_allclose(optimal_masses(euclidean(means, pricing)(X), beta), mass, rtol=1e-12)


def test_no_masses_cost_less():
    X, means = rows_and_means(3)
    pricing = evidential_pricing("full", 3, 1.0, 1.7, 2.0)
    prices = euclidean(means, pricing)(X)
    relative, total, objective = relative_masses(prices.copy(), 1.7)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = np.abs(relative / total + rng.normal(scale=0.01, size=relative.shape))
        other /= other.sum(axis=0)
        assert (np.sum(prices * other**1.7, axis=0) >= objective * (1 - 1e-12)).all()


def test_distances_to_sets_equal_differences():
    X, means = rows_and_means(1)
    pricing = evidential_pricing("full", 3, 1.5, 2.0, 7.0)
    costs = euclidean(means, pricing)(X)
    expected = [[len(s) ** 1.5 * squared_distance(x, set_mean(means, s)) for x in X] for s in nonempty(pricing)]
    np.testing.assert_allclose(costs[1:], expected, rtol=1e-12)
    np.testing.assert_array_equal(costs[0], 49.0)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_distances_keep_their_digits_near_a_prototype_and_far_from_the_origin(offset):
    means = np.array([[0.0, 0.0], [3.0, 1.0], [1e4, 1e4]]) + offset
    X = means[[0, 1, 2, 0]] + np.array([[1e-5, 0], [0, 1e-4], [1e-3, 0], [1e-2, 1e-2]])
    expected = [[squared_distance(x, m) for x in X] for m in means]
    costs = euclidean(means, plain("singletons"))(X)
    # Coordinates are rounded to 1e-16 of the spread; squared lengths alone would leave 1e-8 of it.
    np.testing.assert_allclose(np.sqrt(costs), np.sqrt(expected), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 12.0])
@pytest.mark.parametrize("beta", [1.05, 2.0, 5.0])
def test_row_on_a_prototype_has_mass_one_there(alpha, beta):
    means = np.array([[0.3, 0.1], [2.7, 0.7], [9.1, 5.3]])
    pricing = evidential_pricing("full", 3, alpha, beta, 10.0)
    on = [[0], [2], [0, 2], [0, 1, 2]]
    X = np.array([set_mean(means, members) for members in on])
    relative, total, objective = relative_masses(euclidean(means, pricing)(X), beta)
    mass = relative / total
    for i, members in enumerate(on):
        assert mass[pricing.focal.index_of(members), i] == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(objective, 0.0, atol=1e-200)
    np.testing.assert_allclose(mass.sum(axis=0), 1.0, rtol=1e-12)


def test_rounding_is_told_from_distance_whatever_the_price_of_large_sets():
    pricing = evidential_pricing("full", 4, 12.0, 2.0, 10.0)
    for seed in range(30):
        means = np.random.default_rng(seed).normal(size=(4, 3))
        mass = optimal_masses(euclidean(means, pricing)(means.mean(axis=0, keepdims=True)), 2.0)
        assert mass[-1, 0] == pytest.approx(1.0, abs=1e-12)


def test_row_on_one_cluster_alone_costs_nothing():
    costs = euclidean(np.array([[1.0, 2.0]]), plain("singletons", 1))(np.array([[1.0, 2.0]]))
    relative, _, objective = relative_masses(costs, 2.0)
    assert relative.tolist() == [[1.0]]
    assert objective[0] < 1e-200


def test_sets_with_one_prototype_share_a_row_on_it_as_any_row_nearby():
    # The diagonals of a square and the whole frame have one centre; with alpha = 1 shares go as 1/2 : 1/2 : 1/4.
    means = np.array([[0.1, 0.1], [1.1, 0.1], [1.1, 1.1], [0.1, 1.1]])
    pricing = evidential_pricing([{0}, {1}, {2}, {3}, {0, 2}, {1, 3}, {0, 1, 2, 3}], 4, 1.0, 2.0, 10.0)
    mass = optimal_masses(euclidean(means, pricing)(np.array([[0.6, 0.6], [0.6, 0.6 + 1e-5]])), 2.0)
    for members, share in (({0, 2}, 0.4), ({1, 3}, 0.4), ({0, 1, 2, 3}, 0.2)):
        np.testing.assert_allclose(mass[pricing.focal.index_of(members)], share, atol=1e-5)


def test_mahalanobis_distances_use_the_mean_metric_of_the_members():
    X, means = rows_and_means(2, dim=2)
    rng = np.random.default_rng(5)
    metrics = np.array([a @ a.T + np.eye(2) for a in rng.normal(size=(3, 2, 2))])
    pricing = evidential_pricing("full", 3, 2.0, 2.0, 3.0)
    expected = [
        [len(s) ** 2 * squared_distance(x, set_mean(means, s), sum(metrics[k] for k in s) / len(s)) for x in X]
        for s in nonempty(pricing)
    ]
    costs = mahalanobis(means, metrics, pricing)(X)
    np.testing.assert_allclose(costs[1:], expected, rtol=1e-12)
    np.testing.assert_array_equal(costs[0], 9.0)


def test_mahalanobis_distance_is_never_zero_and_identity_is_euclidean():
    X, means = rows_and_means(4)
    pricing = evidential_pricing("full", 3, 1.0, 2.0, 10.0)
    identity = np.tile(np.eye(3), (3, 1, 1))
    np.testing.assert_allclose(mahalanobis(means, identity, pricing)(X), euclidean(means, pricing)(X), rtol=1e-10)
    assert (mahalanobis(means, identity, pricing)(means) > 0).all()


def test_rows_may_come_as_columns_with_their_lengths():
    X, means = rows_and_means(6)
    pricing = plain("pairs")
    direct = EuclideanCosts(means, pricing)(X.T, np.sum(X**2, axis=1))
    np.testing.assert_allclose(direct, euclidean(means, pricing)(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -0.1}, r"alpha must be a finite number in \[0, 100\], got -0.1"),
        ({"alpha": 1000.0}, r"alpha must be a finite number in \[0, 100\], got 1000"),
        ({"beta": 1.0}, r"beta must be a finite number in \(1, 100\], got 1"),
        ({"beta": 1000.0}, r"beta must be a finite number in \(1, 100\], got 1000"),
        ({"delta": 0.0}, r"delta must be a finite number in \[1e-140, 1e\+150\], got 0"),
        ({"delta": 1e-200}, r"delta must be a finite number in \[1e-140, 1e\+150\], got 1e-200"),
        ({"delta": 1e200}, r"delta must be a finite number in \[1e-140, 1e\+150\], got 1e\+200"),
        ({"delta": np.inf}, r"delta must be a finite number in \[1e-140, 1e\+150\], got inf"),
        ({"focal_sets": [{0}, {1}]}, r"every cluster, but cluster 3 \(number 2 counted from zero\) is in no set"),
        ({"focal_sets": "some"}, r"focal_sets must be one of 'full', 'pairs'.*got 'some'"),
        ({"focal_sets": FocalSets.full(2)}, r"focal_sets is a family over 2 clusters, but n_clusters=3"),
    ],
)
def test_bad_costs_are_refused(arguments, message):
    good = {"focal_sets": "pairs", "n_clusters": 3, "alpha": 1.0, "beta": 2.0, "delta": 10.0}
    with pytest.raises(ValueError, match=message):
        evidential_pricing(**good | arguments)
