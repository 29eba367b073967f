"""Medoids: ECMdd, MECM and MultiViewECMdd against their formulas, row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise_distances

from checks import three_groups
from cluster.oracles_field import ecmdd_distances, masses_of_costs, mecm_distances
from egmm.cluster import MECM, ECMdd, MultiViewECMdd
from egmm.cluster.masses import evidential_pricing
from egmm.cluster.medoids import masses_at
from egmm.cluster.relational.mecm import MedianProblem
from egmm.metrics import ari


def members_of(focal):
    return [sorted(s) for s in focal if s]


@pytest.mark.parametrize(("kind", "distances"), [(ECMdd, ecmdd_distances), (MECM, mecm_distances)])
@pytest.mark.parametrize(("alpha", "beta", "gamma", "eta"), [(1.0, 2.0, 0.5, 1.0), (0.5, 1.4, 2.0, 0.3)])
def test_masses_and_objective_follow_the_formulas(kind, distances, alpha, beta, gamma, eta, rng):
    D = pairwise_distances(rng.normal(size=(15, 2)))
    fitted = kind(3, focal_sets="full", alpha=alpha, beta=beta, delta=1.3, gamma=gamma, eta=eta, metric="precomputed")
    fitted.set_params(init=[0, 5, 10]).fit(D)
    sets = members_of(fitted.focal_sets_)
    to_sets = np.array([distances(D, fitted.medoids_, s, gamma, eta) for s in sets])
    objective = 0.0
    for i, mass in enumerate(fitted.predict_mass(D)):
        costs = [1.3**2, *(len(s) ** alpha * to_sets[j, i] for j, s in enumerate(sets))]
        if min(costs) == 0:
            continue  # On a medoid all mass is there.
        np.testing.assert_allclose(mass, masses_of_costs(costs, beta), rtol=1e-9)
        objective += sum(m**beta * cost for m, cost in zip(mass, costs, strict=True))
    assert fitted.objective_ == pytest.approx(objective, rel=1e-9)


@pytest.mark.parametrize("kind", [ECMdd, MECM])
def test_groups_are_found_by_the_best_of_random_starts(kind):
    X, y = three_groups()[:120], np.repeat([0, 1, 2], 40)
    fitted = kind(3, init="random", n_init=10, random_state=0).fit(X)
    assert ari(y, fitted.labels_) == 1
    moved = kind(3, init=[0, 41, 82]).fit(X)
    assert moved.objective_ < moved.objective_history_[0]
    assert ari(y, moved.labels_) == 1
    assert len(set(fitted.medoids_.tolist())) == 3


@pytest.mark.parametrize("seed", range(10))
def test_an_update_of_mecm_tries_every_row(seed):
    D = pairwise_distances(np.random.default_rng(seed).normal(size=(12, 2)))
    pricing = evidential_pricing("full", 3, 1.0, 2.0, 2.0)
    problem, state = MedianProblem(D, pricing, 0.1, 0.2), np.array([0, 4, 8])
    sums = masses_at(problem, state)
    powers = pricing.sizes * sums.masses[1:] ** 2
    for cluster in range(3):
        costs = {}
        for row in set(range(12)) - set(np.delete(state, cluster).tolist()):
            tried = state.copy()
            tried[cluster] = row
            own = pricing.shares[:, cluster] > 0
            costs[row] = float((powers * problem.set_distances(tried))[own].sum())
        found = problem.medoid_costs(sums, state, cluster)
        np.testing.assert_allclose([found[row] for row in costs], list(costs.values()), rtol=1e-12)
        assert problem.proposal(sums, state, cluster)[cluster] == min(costs, key=costs.get)


@given(st.integers(0, 10**6), st.sampled_from([ECMdd, MECM]))
@settings(max_examples=30)
def test_objective_never_rises(seed, kind):
    D = pairwise_distances(np.random.default_rng(seed).normal(size=(25, 2)))
    fitted = kind(3, metric="precomputed", init="random", delta=None, random_state=seed).fit(D)
    assert np.diff(fitted.objective_history_).max() <= 0
    assert fitted.converged_


def test_equal_rows_never_share_a_medoid():
    X = np.repeat(three_groups()[[0, 1, 45, 100]], 5, axis=0)
    for kind in (ECMdd, MECM):
        fitted = kind(3, init=[0, 1, 2]).fit(X)
        assert len(set(fitted.medoids_.tolist())) == 3
        assert np.isfinite(fitted.objective_)


@pytest.mark.parametrize("kind", [ECMdd, MECM, MultiViewECMdd])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"init": [0, 1]}, r"init must be a name or hold 3 row numbers, got int64 of shape \(2,\)"),
        ({"init": [0, 1, 1]}, r"init must hold distinct row numbers from 0 to 122, got \[0, 1, 1\]"),
        ({"gamma": -1.0}, r"gamma must be a finite number in \[0, inf\], got -1"),
        ({"eta": -1.0}, "eta must be a finite number"),
        ({"n_clusters": 200}, "n_clusters=200 but X has only 123 distinct rows"),
    ],
)
def test_bad_parameters_are_refused(kind, parameters, message):
    with pytest.raises(ValueError, match=message):
        kind(3).set_params(**parameters).fit(three_groups())


# Several views -------------------------------------------------------------------------------------------------


def two_views(seed=0):
    rng = np.random.default_rng(seed)
    X = three_groups()
    return X, rng.normal(size=(len(X), 2)) * 0.5


@pytest.mark.parametrize("weights", ["global", "local"])
@pytest.mark.parametrize("constraint", ["prod", "sum"])
def test_weights_are_of_least_cost_and_the_objective_is_the_formula(weights, constraint):
    views = [pairwise_distances(view) for view in two_views()]
    model = MultiViewECMdd(3, weights=weights, constraint=constraint, metric="precomputed", random_state=0)
    model.set_params(tol=0.0, exponent=1.7).fit(views)
    sets = members_of(model.focal_sets_)
    total = views[0] + views[1]
    power = 1.7 if constraint == "sum" else 1.0
    found = np.broadcast_to(model.view_weights_, (len(sets), 2))
    to_sets = np.zeros((2, len(sets), len(total)))
    for j, s in enumerate(sets):
        prices = np.var([total[model.medoids_[k]] for k in s], axis=0) + np.mean(
            [total[model.medoids_[k]] for k in s], axis=0
        )
        middle = model.medoids_[s[0]] if len(s) == 1 else np.argmin(prices)
        for at, view in enumerate(views):
            to_sets[at, j] = (view[middle] + 0.5 * np.mean([view[model.medoids_[k]] for k in s], axis=0)) / 1.5
    costs = np.array([[len(s) ** 1.0 for s in sets]]).T * np.einsum("jl,ljn->jn", found**power, to_sets)
    mass = model.masses_.T
    assert model.objective_ == pytest.approx(float((mass[1:] ** 2 * costs).sum() + 100 * (mass[0] ** 2).sum()))
    sizes = np.array([len(s) for s in sets])
    by_view = np.einsum("j,jn,ljn->jl", sizes, mass[1:] ** 2, to_sets)
    by_view = by_view if weights == "local" else by_view.sum(axis=0)[None]
    for j, row in enumerate(by_view):
        own = found[j]
        if constraint == "prod":
            assert np.prod(own) == pytest.approx(1)
            np.testing.assert_allclose(own * row, own[0] * row[0], rtol=1e-4)
        else:
            assert own.sum() == pytest.approx(1)
            np.testing.assert_allclose(own**0.7 * row, own[0] ** 0.7 * row[0], rtol=1e-4)


def test_one_view_is_ecmdd():
    X = three_groups()
    one, ecmdd = MultiViewECMdd(3, random_state=0).fit(X), ECMdd(3, random_state=0).fit(X)
    np.testing.assert_array_equal(one.medoids_, ecmdd.medoids_)
    np.testing.assert_allclose(one.masses_, ecmdd.predict_mass(X), rtol=1e-12)
    np.testing.assert_allclose(one.view_weights_, [1.0])


@given(st.integers(0, 10**6), st.sampled_from(["global", "local"]), st.sampled_from(["prod", "sum"]))
@settings(max_examples=20)
def test_objective_of_views_never_rises(seed, weights, constraint):
    views = [np.random.default_rng(seed + at).normal(size=(25, 2)) for at in range(3)]
    model = MultiViewECMdd(3, weights=weights, constraint=constraint, init="random", random_state=seed).fit(views)
    assert np.diff(model.objective_history_).max() <= 1e-12 * model.objective_history_[0]
    assert len(set(model.medoids_.tolist())) == 3


def test_views_of_different_lengths_are_refused():
    X, other = two_views()
    with pytest.raises(ValueError, match="All views in X must have the same number of rows, got 123, 100"):
        MultiViewECMdd(3).fit([X, other[:100]])
    with pytest.raises(ValueError, match=r"views=\[1, 2\] must add up to the 2 columns of X, but give 3"):
        MultiViewECMdd(3, views=[1, 2]).fit(X)


def test_a_table_may_be_cut_into_views():
    X, other = two_views()
    listed = MultiViewECMdd(3, random_state=0).fit([X, other])
    table = np.hstack([X, other])
    cut = MultiViewECMdd(3, views=[2, 2], random_state=0).fit(table)
    np.testing.assert_array_equal(listed.masses_, cut.masses_)
    assert listed.partition([X, other]) == cut.partition(table)
