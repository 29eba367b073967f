"""EVCLUS: published numbers, exact row steps, sampled pairs, links."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances

from checks import three_groups
from cluster.oracles_field import conflict, evclus_loss, least_on_simplex, link_penalty
from egmm import CredalPartition, FocalSets
from egmm.cluster import EVCLUS, near_pairs
from egmm.cluster.compiled.simplex import minimise_on_simplex
from egmm.cluster.relational.pairs import conflict_targets, draw_others, sampled_pairs
from egmm.links import check_links, listed_links
from egmm.metrics import ari, credal_rand_index, pairwise_nonspecificity


@pytest.fixture(scope="module")
def fourclass(data_directory):
    table = np.loadtxt(data_directory / "belief" / "fourclass.csv", delimiter=",", skiprows=1)
    return table[:, :2], table[:, 2].astype(int)


@pytest.fixture(scope="module")
def protein(data_directory):
    found = np.load(data_directory / "field" / "protein.npz")
    return found["D"], found["y"]


def test_rows_far_beyond_d0_are_in_full_conflict() -> None:
    targets = conflict_targets(np.array([0.0, 1.0, 1e149, 1e300]), 1e-9)
    np.testing.assert_array_equal(targets, [0.0, 1.0, 1.0, 1.0])


@pytest.mark.paper
@pytest.mark.parametrize("seed", range(4))
def test_fourclass_from_every_start(fourclass, seed):
    X, y = fourclass
    evclus = EVCLUS(4, random_state=seed).fit(X)
    partition = evclus.partition(X)
    assert credal_rand_index(partition, CredalPartition.from_labels(y)) == pytest.approx(0.8015894, abs=1e-5)
    assert pairwise_nonspecificity(partition) == pytest.approx(0.2690493, abs=1e-5)
    assert evclus.objective_ == pytest.approx(0.0239976602, abs=1e-8)


@pytest.mark.paper
@pytest.mark.parametrize("seed", range(4))
def test_protein_has_one_error(protein, seed):
    D, y = protein
    evclus = EVCLUS(4, metric="precomputed", d0=D.max(), random_state=seed).fit(D)
    assert ari(y, evclus.labels_) == pytest.approx(0.9888, abs=5e-5)
    assert evclus.objective_ == pytest.approx(0.00236, abs=5e-6)
    table = np.array([[np.sum((y == c) & (evclus.labels_ == k)) for k in range(4)] for c in np.unique(y)])
    assert table.max(axis=1).sum() == len(y) - 1


def sets_of(focal):
    return [frozenset(members) for members in focal]


@pytest.mark.parametrize("family", ["simple", "full", [{0}, {1}, {2}, {0, 1}]])
def test_loss_is_the_formula(family, rng):
    X = rng.normal(size=(12, 2))
    with pytest.warns(ConvergenceWarning, match="EVCLUS did not converge in max_iter=2"):
        evclus = EVCLUS(3, focal_sets=family, d0=1.7, max_iter=2, tol=0.0, random_state=0).fit(X)
    D = pairwise_distances(X)
    pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
    expected = evclus_loss(evclus.masses_, D, 1.7, sets_of(evclus.focal_sets_), pairs)
    assert evclus.objective_ == pytest.approx(expected, rel=1e-10)
    assert evclus.d0_ == 1.7


def test_a_row_has_the_masses_of_least_loss_given_the_others(rng):
    X = rng.normal(size=(10, 2))
    evclus = EVCLUS(2, focal_sets="full", tol=0.0, max_iter=3000, random_state=0).fit(X)
    D, sets = pairwise_distances(X), sets_of(evclus.focal_sets_)
    target = 1 - np.exp(np.log(0.05) * (D / evclus.d0_) ** 2)
    for i in range(10):

        def loss(m, i=i):
            return sum((conflict(m, evclus.masses_[j], sets) - target[i, j]) ** 2 for j in range(10) if j != i)

        assert loss(evclus.masses_[i]) == pytest.approx(least_on_simplex(loss, len(sets))[1], abs=1e-7)


def test_sampled_pairs_have_the_loss_of_the_formula_and_rows_their_least(rng):
    X = rng.normal(size=(14, 2))
    D, sets = pairwise_distances(X), sets_of(FocalSets.of("full", 2, empty=True))
    pairs, d0 = sampled_pairs(X, 4, "euclidean", None, np.random.RandomState(3))
    drawn = [(i, int(j)) for i, row in enumerate(draw_others(14, 4, np.random.RandomState(3))) for j in row]
    disjoint = np.array([[float(not (a & b)) for b in sets] for a in sets])
    mass = rng.dirichlet(np.ones(len(sets)), size=14)
    apart = mass @ disjoint
    expected = mass.copy()
    assert pairs.loss(mass, apart) / pairs.size == pytest.approx(evclus_loss(mass, D, d0, sets, drawn))
    pairs.sweep(disjoint, mass, apart, listed_links(check_links(None, None, 14), np.zeros((2, 4, 4)), 14), 0.0)
    np.testing.assert_allclose(apart, mass @ disjoint, atol=1e-12)
    for i in range(14):

        def loss(m, i=i):
            changed = expected.copy()
            changed[i] = m
            return evclus_loss(changed, D, d0, sets, drawn)

        assert loss(mass[i]) == pytest.approx(least_on_simplex(loss, len(sets))[1], abs=1e-8)
        expected[i] = mass[i]


@given(st.integers(0, 10**6), st.integers(2, 7))
@settings(max_examples=50)
def test_the_small_quadratic_program_is_solved(seed, n):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(rng.integers(1, n + 1), n))
    Q, b = root.T @ root, rng.normal(size=n)
    m = rng.dirichlet(np.ones(n))
    minimise_on_simplex(Q, b, m, np.empty(n))
    assert m.min() >= 0
    assert m.sum() == pytest.approx(1)
    slope = Q @ m - b
    # No mass can move to a set with a lower slope: the conditions of optimality of a convex problem.
    assert slope[m > 0].max() - slope.min() <= 1e-9 * (1 + np.abs(slope).max())


@given(st.integers(0, 10**6), st.sampled_from([None, 5]), st.booleans())
@settings(max_examples=25)
def test_objective_never_rises(seed, n_pairs, has_links):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2))
    links = {"must_link": [[0, 1], [2, 3]], "cannot_link": [[0, 5]]} if has_links else {}
    evclus = EVCLUS(3, focal_sets="pairs", n_pairs=n_pairs, xi=0.8, random_state=seed, tol=1e-7).fit(X, **links)
    assert np.diff(evclus.objective_history_).max() <= 1e-13


def test_sampled_pairs_are_others_and_all_different():
    for n_rows, n_pairs in ((50, 5), (50, 40), (50, 49), (9, 4)):
        drawn = draw_others(n_rows, n_pairs, np.random.RandomState(0))
        assert drawn.shape == (n_rows, n_pairs)
        for i, row in enumerate(drawn):
            assert len(set(row.tolist()) - {i}) == n_pairs
            assert 0 <= row.min() <= row.max() < n_rows


def test_all_pairs_sampled_are_all_pairs():
    X = three_groups()
    every, sampled = EVCLUS(3, random_state=0), EVCLUS(3, n_pairs=len(X) - 1, random_state=0)
    np.testing.assert_array_equal(every.fit(X).masses_, sampled.fit(X).masses_)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", lambda x, y: float(np.abs(x - y).max())])
def test_sampled_pairs_give_nearly_the_same(metric):
    X = three_groups()
    every, sampled = (EVCLUS(3, metric=metric, n_pairs=n, random_state=0).fit(X) for n in (None, 60))
    assert ari(every.labels_, sampled.labels_) == 1
    precomputed = EVCLUS(3, metric="precomputed", n_pairs=60, random_state=0)
    D = pairwise_distances(X, metric=metric)
    np.testing.assert_allclose(precomputed.fit(D).masses_, sampled.masses_, atol=1e-8)


def test_links_enter_the_loss_by_their_formula(rng):
    X, must, cannot = rng.normal(size=(12, 2)), [(0, 1), (5, 2)], [(3, 4)]
    for n_pairs in (None, 6):
        plain = EVCLUS(3, focal_sets="full", n_pairs=n_pairs, xi=0.0, random_state=0)
        linked = EVCLUS(3, focal_sets="full", n_pairs=n_pairs, xi=0.7, init=plain.fit(X).masses_, random_state=0)
        before = linked.fit(X, must_link=must, cannot_link=cannot).objective_history_[0]
        if n_pairs is None:
            expected = link_penalty(plain.masses_, sets_of(plain.focal_sets_), must, cannot, 0.7)
            assert before - plain.objective_ == pytest.approx(expected, rel=1e-9)
        assert np.diff(linked.objective_history_).max() <= 1e-13


def test_links_without_weight_change_nothing():
    X = three_groups()
    plain, linked = EVCLUS(3, random_state=0).fit(X), EVCLUS(3, xi=0.0, random_state=0)
    np.testing.assert_array_equal(linked.fit(X, must_link=[[0, 50]], cannot_link=[[0, 1]]).masses_, plain.masses_)


def test_links_are_heard():
    X = three_groups()
    evclus = EVCLUS(3, xi=0.9, random_state=0).fit(X, must_link=[[120, 0]], cannot_link=[[120, 45]])
    mass = evclus.partition()
    pl = mass.plausibility()
    assert pl[120] @ pl[0] > pl[120] @ pl[45]
    assert evclus.labels_[120] == evclus.labels_[0]


def test_a_partition_is_a_start_and_gives_pairs():
    X = three_groups()
    first = EVCLUS(3, random_state=0).fit(X)
    family = near_pairs(first.partition(), 1)
    second = EVCLUS(3, focal_sets=family, init=first.partition()).fit(X)
    assert second.objective_ <= first.objective_ + 1e-12
    assert set(second.focal_sets_) == set(family.with_empty())


def test_masses_are_of_the_fitted_rows_alone():
    X = three_groups()
    evclus = EVCLUS(3, random_state=0).fit(X)
    assert evclus.partition() == evclus.partition(X)
    with pytest.raises(ValueError, match="EVCLUS has masses only for the rows it was fitted to; omit X"):
        evclus.partition(X + 1)
    assert not hasattr(evclus, "predict")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_pairs": 200}, "n_pairs must be less than the number of rows, got n_pairs=200 with 123 rows"),
        ({"d0": 0.0}, r"d0 must be a finite number in \(0, inf\], got 0"),
        ({"xi": 2.0}, r"xi must be a finite number in \[0, 1\], got 2"),
        ({"init": "kmeans"}, "init must be one of 'random'; got 'kmeans'"),
        ({"init": np.ones((3, 5))}, r"init must have shape \(123, 5\), got \(3, 5\)"),
        ({"metric": "nearest"}, "metric='nearest' cannot be used: .*use 'precomputed'"),
        ({"n_clusters": 0}, "n_clusters must be an integer .*got 0"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        EVCLUS(3).set_params(**parameters).fit(three_groups())


def test_rows_that_are_all_equal_are_refused():
    with pytest.raises(ValueError, match="n_clusters=2 but X has only 1 distinct rows"):
        EVCLUS(2).fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="All dissimilarities are zero: X has only 1 distinct row"):
        EVCLUS(2, n_pairs=2).fit(np.ones((5, 2)))


def test_near_pairs_are_mutual_neighbours():
    rows = [[0.9, 0, 0, 0.1], [0.5, 0.5, 0, 0], [0, 0.9, 0.1, 0], [0, 0.4, 0.6, 0]]
    found = near_pairs(CredalPartition(rows, FocalSets.simple(3)), 2)
    assert set(found) == set(FocalSets.full(3))
