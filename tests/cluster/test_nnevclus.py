"""NN-EVCLUS: gradients, the published example, batches, novelty, new rows."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances

from checks import three_groups
from cluster.oracles_field import evclus_loss
from egmm import CredalPartition, FocalSets
from egmm.cluster import NNEVCLUS
from egmm.cluster.network import Network
from egmm.cluster.nnevclus import Batches, LinkPrice, PairLoss, Prices, Rows
from egmm.cluster.relational.pairs import sampled_pairs
from egmm.links import Links, PairForms
from egmm.metrics import ari, credal_rand_index, pairwise_nonspecificity


def problem(rng, hidden, has_novelty):
    X = rng.normal(size=(15, 2))
    rows = Rows(X, rng.normal(size=15) if has_novelty else None)
    focal = FocalSets.of("full", 2, empty=True)
    network = Network.drawn([2, *hidden, 4], np.random.RandomState(0), has_novelty=has_novelty)
    return X, rows, PairForms.of(focal).disjoint, network


def prices(rows, penalty, must=(), cannot=(), xi=0.7):
    links = Links(*(np.array(pairs, dtype=int).reshape(-1, 2) for pairs in (must, cannot)))
    return Prices(penalty, LinkPrice(rows, links, PairForms.of(FocalSets.of("full", 2, empty=True)), xi))


@pytest.mark.parametrize("hidden", [[5], [4, 3]])
@pytest.mark.parametrize("has_novelty", [False, True])
def test_gradients_are_those_of_finite_differences(hidden, has_novelty, rng):
    X, rows, disjoint, network = problem(rng, hidden, has_novelty)
    pairs, d0 = sampled_pairs(X, 6, "euclidean", None, np.random.RandomState(0))
    beside = prices(rows, 0.3, must=[[0, 3], [3, 5]], cannot=[[1, 3], [2, 14]])
    every = PairLoss(rows, pairs, disjoint, beside)
    batches = Batches(X, rows, "euclidean", d0, disjoint, beside, 10)
    places = np.arange(3, 13)
    for value in (every.value_and_gradient, lambda net: batches.value_and_gradient(net, places)):
        expected = approx_fprime(network.flat(), lambda flat, f=value: f(network.with_parameters(flat))[0], 1e-7)
        np.testing.assert_allclose(value(network)[1], expected, atol=2e-6)


def test_loss_is_that_of_evclus_as_a_mean(rng):
    X, rows, disjoint, network = problem(rng, [5], False)
    sets = [frozenset(s) for s in FocalSets.of("full", 2, empty=True)]
    D, mass = pairwise_distances(X), network.forward(*rows).mass
    pairs, d0 = sampled_pairs(X, 14, "euclidean", None, np.random.RandomState(0))
    listed = [(i, j) for i in range(15) for j in range(15) if i != j]
    target = 1 - np.exp(np.log(0.05) * (D / d0) ** 2)
    expected = evclus_loss(mass, D, d0, sets, listed) * np.sum(target**2) / len(listed)
    assert PairLoss(rows, pairs, disjoint, prices(rows, 0.0)).value_and_gradient(network)[0] == pytest.approx(expected)
    batch = Batches(X, rows, "euclidean", d0, disjoint, prices(rows, 0.0), 15)
    assert batch.value_and_gradient(network, np.arange(15))[0] == pytest.approx(expected)


@pytest.mark.paper
@pytest.mark.parametrize("seed", range(3))
def test_fourclass(data_directory, seed):
    table = np.loadtxt(data_directory / "belief" / "fourclass.csv", delimiter=",", skiprows=1)
    X = (table[:, :2] - table[:, :2].mean(axis=0)) / table[:, :2].std(axis=0, ddof=1)
    network = NNEVCLUS(4, focal_sets="pairs", hidden=20, n_pairs=100, novelty=True, random_state=seed).fit(X)
    partition = network.partition(X)
    truth = CredalPartition.from_labels(table[:, 2].astype(int))
    assert credal_rand_index(partition, truth) == pytest.approx(0.8233, abs=0.02)
    assert pairwise_nonspecificity(partition) == pytest.approx(0.4241, abs=0.02)


@pytest.mark.parametrize("batch_size", [None, 40])
def test_groups_are_found_and_new_rows_follow(batch_size):
    X, new = three_groups()[:120], three_groups(seed=1)[:120]
    network = NNEVCLUS(3, batch_size=batch_size, random_state=0).fit(X)
    truth = np.repeat([0, 1, 2], 40)
    assert ari(truth, network.labels_) == 1
    assert ari(truth, network.predict(new)) == 1
    np.testing.assert_array_equal(network.predict(X), network.labels_)
    mass = network.predict_mass(new)
    np.testing.assert_allclose(mass.sum(axis=1), 1)
    np.testing.assert_allclose(np.vstack([network.predict_mass(x[None]) for x in new]), mass, atol=1e-12)


def test_objective_never_rises_for_all_rows_at_once():
    history = NNEVCLUS(3, random_state=0).fit(three_groups()).objective_history_
    assert len(history) > 10
    assert np.diff(history).max() <= 1e-12


def test_a_seed_fixes_the_result():
    X = three_groups()
    for parameters in ({}, {"batch_size": 30, "novelty": True, "tol": 1e-2}):
        one, other = (NNEVCLUS(3, random_state=0, **parameters).fit(X).predict_mass(X) for _ in range(2))
        np.testing.assert_array_equal(one, other)


def test_novelty_gives_far_rows_to_the_empty_set():
    X, far = three_groups(), [[100.0, -50.0], [-60.0, 80.0]]
    usual = NNEVCLUS(3, novelty=True, random_state=0).fit(X)
    blind = NNEVCLUS(3, random_state=0).fit(X)
    empty = usual.focal_sets_.index_of(set())
    inside = usual.predict_mass(X)[:, empty].mean()
    assert (usual.predict_mass(far)[:, empty] > inside + 0.2).all()
    assert (usual.predict_mass(far)[:, empty] > blind.predict_mass(far)[:, empty]).all()


def test_too_few_iterations_are_reported():
    for parameters in ({}, {"batch_size": 30}):
        with pytest.warns(ConvergenceWarning, match="NNEVCLUS did not converge in max_iter=2 iterations"):
            NNEVCLUS(3, max_iter=2, random_state=0, **parameters).fit(three_groups())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden": []}, "hidden must hold at least one layer"),
        ({"hidden": 0}, "hidden must be an integer from 1 to 10000, got 0"),
        ({"hidden": 10**400}, "hidden must be an integer from 1 to 10000, got an integer of 1329 bits"),
        ({"metric": "precomputed"}, "metric must not be 'precomputed': the network needs features; use EVCLUS"),
        ({"n_pairs": 123}, "n_pairs must be less than the number of rows, got n_pairs=123 with 123 rows"),
        ({"batch_size": 1}, "batch_size must be an integer >= 2, got 1"),
        ({"penalty": -1.0}, r"penalty must be a finite number in \[0, inf\], got -1"),
        ({"novelty": True, "novelty_nu": 0.0}, r"novelty_nu must be a finite number in \(0, 1\], got 0"),
        ({"init": "kmeans"}, "init must be one of 'random'; got 'kmeans'"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        NNEVCLUS(3).set_params(**parameters).fit(three_groups())


def test_more_clusters_than_rows_are_refused():
    with pytest.raises(ValueError, match="n_clusters=3 but X has only 2 distinct rows"):
        NNEVCLUS(3).fit(np.repeat([[0.0], [1.0]], 5, axis=0))


def test_links_cost_what_the_masses_speak_against(rng):
    _, rows, _, network = problem(rng, [5], False)
    sets = [frozenset(s) for s in FocalSets.of("full", 2, empty=True)]
    mass = network.forward(*rows).mass

    def plausible(i, j, fits):
        return sum(mass[i, a] * mass[j, b] for a, A in enumerate(sets) for b, B in enumerate(sets) if fits(A, B))

    def price(i, j):
        together = plausible(i, j, lambda A, B: A & B)
        apart = plausible(i, j, lambda A, B: A and B and not (A == B and len(A) == 1))
        return 1 - together + apart, 1 - apart + together

    must, cannot = [[0, 3], [3, 5]], [[1, 3]]
    expected = sum(price(*pair)[0] for pair in must) + sum(price(*pair)[1] for pair in cannot)
    found = prices(rows, 0.0, must, cannot, xi=0.7).value_and_gradient(network)[0]
    assert found == pytest.approx(0.7 / (2 * 3) * expected)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_links_move_rows(rng, batch_size):
    # Groups at the corners of a square: links say which two of them are one cluster.
    corner, number = np.arange(40) % 4, np.arange(0, 40, 4)[:, None]
    X = np.array([[0.0, 0.0], [0.0, 5.0], [5.0, 0.0], [5.0, 5.0]])[corner] + 0.3 * rng.normal(size=(40, 2))
    for first, second, cluster in (([0, 1], [2, 3], [0, 0, 1, 1]), ([0, 2], [1, 3], [0, 1, 0, 1])):
        links = {
            "must_link": np.concatenate([number + first, number + second]),
            "cannot_link": number + np.array([0, 3]),
        }
        model = NNEVCLUS(2, batch_size=batch_size, xi=1.0, tol=1e-3, random_state=0).fit(X, **links)
        assert ari(np.array(cluster)[corner], model.labels_) == 1.0


def test_links_that_weigh_nothing_change_nothing():
    X = three_groups()
    model = NNEVCLUS(3, random_state=0, xi=0.0, tol=1e-3)
    plain = model.fit(X).partition(X).mass
    np.testing.assert_array_equal(model.fit(X, cannot_link=[[0, 1]]).partition(X).mass, plain)


def test_links_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match=r"cannot_link holds the pair \(0, 1\), but must_link joins these rows"):
        NNEVCLUS(3).fit(three_groups(), must_link=[[0, 1]], cannot_link=[[1, 0]])
