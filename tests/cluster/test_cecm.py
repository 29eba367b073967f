"""CECM: exact masses of linked rows, the published example, and ECM where links have no weight."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import three_groups
from cluster.oracles_cluster import bpec_metrics, ecm_masses, ecm_objective
from cluster.oracles_field import least_on_simplex, pair_plausibilities
from egmm import ECM, FocalSets
from egmm.cluster import CECM
from egmm.cluster.cecm import LinkPrices, update_with_metrics
from egmm.cluster.compiled.cecm import least_on_simplex as compiled_least
from egmm.cluster.masses import evidential_pricing
from egmm.datasets import draw_links, make_bananas
from egmm.links import check_links
from egmm.metrics import ari


def test_without_weight_of_links_it_is_ecm():
    X = three_groups()
    ecm = ECM(3, random_state=0).fit(X)
    cecm = CECM(3, xi=0.0, random_state=0, tol=1e-6 / (len(X) * 8)).fit(X, must_link=[[0, 50]], cannot_link=[[0, 1]])
    assert cecm.n_iter_ == ecm.n_iter_
    assert cecm.objective_ * len(X) * 8 == pytest.approx(ecm.objective_, rel=1e-10)
    np.testing.assert_allclose(cecm.means_, ecm.means_, rtol=1e-10)
    np.testing.assert_allclose(cecm.masses_, ecm.predict_mass(X), atol=1e-10)


@pytest.mark.paper
@pytest.mark.slow
def test_bananas_are_found_with_links():
    scores = []
    for seed in range(8):
        X, y = make_bananas(300, random_state=seed)
        must, cannot = draw_links(y, 400, random_state=100 + seed)
        cecm = CECM(2, xi=0.9, distance="mahalanobis", init="random", n_init=5, random_state=seed)
        scores.append(ari(y, cecm.fit(X, must_link=must, cannot_link=cannot).labels_))
    # The vignette of R's evclust prints .947 for one draw; the median of many draws is below.
    assert np.median(scores) >= 0.92


@given(st.integers(0, 10**6), st.integers(2, 8))
@settings(max_examples=50)
def test_separable_programs_are_solved(seed, n):
    rng = np.random.default_rng(seed)
    a, b, m = rng.uniform(0.1, 5, n), rng.normal(size=n) * rng.choice([0.1, 5]), np.empty(n)
    compiled_least(a, b, m)
    value = lambda m: a @ m**2 + b @ m  # noqa: E731
    assert m.sum() == pytest.approx(1)
    assert m.min() >= 0
    assert value(m) <= least_on_simplex(value, n)[1] + 1e-9


def objective_of(cecm, X, must, cannot, xi, kind, sets, metrics=None):
    """The printed objective, or that of the reference implementations, from masses and prototypes."""
    focal = cecm.focal_sets_
    masses = cecm.masses_
    ordered = [[*row[1:], row[0]] for row in masses]
    members = [sorted(s) for s in sets if s]
    total = ecm_objective(X, ordered, cecm.means_, members, 1.0, 2.0, 10.0, metrics)
    value = (1 - xi) * total / (len(X) * len(focal))
    singles = [j for j, s in enumerate(sets) if len(s) == 1]
    for i, j in must:
        _, different = pair_plausibilities(masses[i], masses[j], sets)
        if kind == "paper":
            value += xi * different / len(must)
        else:
            value += xi * (1 - sum(masses[i][k] * masses[j][k] for k in singles)) / len(must)
            value += 2 * (masses[i][0] + masses[j][0])
    for i, j in cannot:
        value += xi * pair_plausibilities(masses[i], masses[j], sets)[0] / len(cannot)
    return value


@pytest.mark.parametrize("kind", ["paper", "reference"])
@pytest.mark.parametrize("distance", ["euclidean", "mahalanobis"])
def test_objective_is_the_formula_and_masses_are_its_least(kind, distance, rng):
    X = np.concatenate([rng.normal(0, 1, (12, 2)), rng.normal(3, 1, (12, 2))])
    must, cannot = [(0, 1), (2, 15), (13, 14)], [(3, 4), (5, 20)]
    cecm = CECM(2, xi=0.6, distance=distance, objective=kind, tol=0.0, max_iter=3000, random_state=0)
    cecm.fit(X, must_link=must, cannot_link=cannot)
    sets = [frozenset(s) for s in cecm.focal_sets_]
    arguments = (X, must, cannot, 0.6, kind, sets, cecm.metrics_)
    assert cecm.objective_ == pytest.approx(objective_of(cecm, *arguments), rel=1e-9)
    masses = cecm.masses_.copy()
    for i in (0, 2, 5, 15):

        def value(m, i=i):
            cecm.masses_ = masses.copy()
            cecm.masses_[i] = m
            return objective_of(cecm, *arguments)

        here = value(masses[i])
        assert here <= least_on_simplex(value, len(sets))[1] + 1e-8
        cecm.masses_ = masses
    if distance == "mahalanobis":
        ordered = [[*row[1:], row[0]] for row in masses]
        members = [sorted(s) for s in sets if s]
        np.testing.assert_allclose(cecm.metrics_, bpec_metrics(X, ordered, cecm.means_, members, 1.0, 2.0), atol=1e-5)


@pytest.mark.parametrize("kind", ["paper", "reference"])
def test_links_cost_what_the_formula_says_at_any_masses(kind, rng):
    focal = FocalSets.of("full", 3, empty=True)
    mass, sets = rng.dirichlet(np.ones(8), size=6), [frozenset(s) for s in focal]
    links = check_links([[0, 1], [2, 1]], [[3, 4]], 6)
    expected = 0.0
    for i, j in links.must:
        different = pair_plausibilities(mass[i], mass[j], sets)[1]
        same = sum(mass[i][k] * mass[j][k] for k, s in enumerate(sets) if len(s) == 1)
        expected += 0.7 * (different if kind == "paper" else 1 - same) / 2
        expected += 0 if kind == "paper" else 2 * (mass[i][0] + mass[j][0])
    expected += 0.7 * pair_plausibilities(mass[3], mass[4], sets)[0]
    assert LinkPrices.of(links, focal, 0.7, kind, 6).total(mass) == pytest.approx(expected)


def test_rows_without_links_have_the_masses_of_ecm():
    X = three_groups()
    cecm = CECM(3, xi=0.9, random_state=0).fit(X, must_link=[[0, 120]], cannot_link=[[50, 121]])
    members = [sorted(s) for s in cecm.focal_sets_ if s]
    for i in (7, 60, 100):
        mass = ecm_masses(X[i], cecm.means_, members, 1.0, 2.0, 10.0)
        np.testing.assert_allclose(cecm.masses_[i, 1:], mass[:-1], rtol=1e-8)


def test_linked_rows_keep_their_masses_and_others_have_those_of_ecm():
    X = three_groups()
    cecm = CECM(3, xi=0.9, random_state=0).fit(X, must_link=[[120, 0]])
    np.testing.assert_array_equal(cecm.predict_mass(X), cecm.masses_)
    np.testing.assert_array_equal(cecm.predict(X), cecm.labels_)
    assert np.abs(cecm.predict_mass(X[120:121]) - cecm.masses_[120]).max() > 0.1


def test_prototypes_with_metrics_are_of_least_cost(rng):
    pricing = evidential_pricing("full", 2, 1.5, 2.0, 3.0)
    X, powers = rng.normal(size=(15, 2)), rng.uniform(size=(3, 15))
    roots = rng.normal(size=(2, 2, 2))
    metrics = roots @ np.swapaxes(roots, 1, 2) + np.eye(2)
    counts = pricing.sizes[:, 0] * powers.sum(axis=1)

    def cost(means):
        total = 0.0
        for j, members in enumerate(([0], [1], [0, 1])):
            middle, metric = means[members].mean(axis=0), metrics[members].mean(axis=0)
            gaps = X - middle
            total += len(members) ** 1.5 * powers[j] @ np.einsum("nd,de,ne->n", gaps, metric, gaps)
        return total

    found = update_with_metrics(counts, powers @ X, metrics, pricing)
    least = cost(found)
    for _ in range(20):
        assert cost(found + 1e-3 * rng.normal(size=(2, 2))) > least


@given(st.integers(0, 10**6), st.sampled_from(["paper", "reference"]), st.floats(0, 0.95))
@settings(max_examples=20)
def test_objective_never_rises(seed, kind, xi):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    pairs = rng.permutation(40)[:24].reshape(-1, 2)
    cecm = CECM(2, xi=xi, objective=kind, distance="mahalanobis", delta=3.0, random_state=seed, tol=1e-7)
    history = cecm.fit(X, must_link=pairs[:6], cannot_link=pairs[6:]).objective_history_
    assert np.diff(history).max() <= 1e-12


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"xi": 1.0}, r"xi must be a finite number in \[0, 1\], got 1"),
        ({"distance": "cosine"}, "distance must be one of 'euclidean', 'mahalanobis'; got 'cosine'"),
        ({"objective": "mine"}, "objective must be one of 'reference', 'paper'; got 'mine'"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CECM(3).set_params(**parameters).fit(three_groups())
