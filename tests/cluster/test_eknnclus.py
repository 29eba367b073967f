"""EK-NNclus: the published example, the combination of neighbours' evidence, labels without collisions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances

from checks import three_groups
from cluster.oracles_field import dempster_of_neighbours, eknn_weights
from egmm.cluster import EKNNClus
from egmm.cluster.compiled.eknn import connected_groups, sweep_labels
from egmm.metrics import ari


@pytest.fixture(scope="module")
def s2(data_directory):
    return np.loadtxt(data_directory / "field" / "s2.csv", delimiter=",", skiprows=1)


@pytest.mark.paper
@pytest.mark.parametrize("seed", range(4))
def test_s2_has_fifteen_clusters_from_every_start(s2, seed):
    eknn = EKNNClus(200, quantile=0.9, power=1, random_state=seed).fit(s2)
    assert eknn.n_clusters_ == 15
    partition = eknn.partition()
    frame = partition.focal_sets.index_of(range(15))
    assert partition.mass[:, frame].mean() == pytest.approx(5.810961e-13, rel=1e-6)
    # Orders of visits differ by a row or two: 537925.5936 is the original implementation's answer.
    assert eknn.objective_ == pytest.approx(537925.5936, rel=1e-5)


@pytest.mark.paper
def test_fourclass_has_four_clusters(data_directory):
    table = np.loadtxt(data_directory / "belief" / "fourclass.csv", delimiter=",", skiprows=1)
    eknn = EKNNClus(60, quantile=0.9, power=2, n_init=5, random_state=0).fit(table[:, :2])
    assert eknn.n_clusters_ == 4
    assert eknn.objective_ == pytest.approx(15747.9076, abs=1e-3)
    assert ari(table[:, 2], eknn.labels_) == pytest.approx(0.7232, abs=1e-4)


@pytest.mark.parametrize(("quantile", "power"), [(0.9, 1), (0.5, 2)])
def test_masses_are_dempsters_combination(quantile, power, rng):
    X = np.concatenate([rng.normal(0, 1, (12, 2)), rng.normal(4, 1, (12, 2))])
    eknn = EKNNClus(6, quantile=quantile, power=power, random_state=0).fit(X)
    nearest, weights = eknn_weights(pairwise_distances(X), 6, quantile, power)
    focal, n_clusters = eknn.focal_sets_, eknn.n_clusters_
    assert n_clusters > 1
    objective = 0.0
    for i in range(24):
        labels = [eknn.labels_[j] for j in nearest[i]]
        singles, frame = dempster_of_neighbours(weights[i], labels, n_clusters)
        np.testing.assert_allclose([eknn.masses_[i, focal.index_of({k})] for k in range(n_clusters)], singles)
        assert eknn.masses_[i, focal.index_of(range(n_clusters))] == pytest.approx(frame)
        objective += sum(w for w, label in zip(weights[i], labels, strict=True) if label == eknn.labels_[i]) / 2
        # Settled: no other label has more evidence.
        votes = [sum(w for w, b in zip(weights[i], labels, strict=True) if b == k) for k in range(n_clusters)]
        assert votes[eknn.labels_[i]] == pytest.approx(max(votes))
    assert eknn.objective_ == pytest.approx(objective)


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_sweeps_and_groups_are_those_of_loops(seed):
    rng = np.random.default_rng(seed)
    neighbours = [rng.choice(np.delete(np.arange(20), i), 4, replace=False) for i in range(20)]
    weights, labels, order = rng.uniform(size=(20, 4)), rng.integers(5, size=20), rng.permutation(20)
    starts, listed = np.arange(0, 81, 4), np.concatenate(neighbours)
    found, expected = labels.copy(), labels.copy()
    n_changed = sweep_labels(starts, listed, weights.ravel(), found, order, np.zeros(5))
    for i in order:
        votes = [sum(w for w, j in zip(weights[i], neighbours[i], strict=True) if expected[j] == k) for k in range(5)]
        if max(votes) > votes[expected[i]]:
            expected[i] = int(np.argmax(votes))
    np.testing.assert_array_equal(found, expected)
    assert n_changed == (expected != labels).sum()
    together = [[float(j in neighbours[i] and found[i] == found[j]) for j in range(20)] for i in range(20)]
    groups = connected_components(np.array(together), directed=False)[1]
    np.testing.assert_array_equal(connected_groups(starts, listed, found), groups)


def test_far_groups_of_one_label_are_different_clusters():
    X = three_groups()[:120]
    eknn = EKNNClus(10, init=np.zeros(120), random_state=0).fit(X)
    assert eknn.n_clusters_ == 3
    np.testing.assert_array_equal(eknn.labels_, np.repeat([0, 1, 2], 40))


def test_symmetric_evidence_is_the_mean_of_both():
    X = three_groups()[:120]
    one, both = (EKNNClus(38, symmetric=flag, random_state=0).fit(X) for flag in (False, True))
    assert one.n_clusters_ == 3
    assert ari(one.labels_, both.labels_) == 1
    # The sum over all pairs of one cluster does not change by taking means.
    assert both.objective_ == pytest.approx(one.objective_, rel=1e-9)


def test_equal_rows_are_one_cluster_and_sure():
    eknn = EKNNClus(3, random_state=0).fit(np.ones((8, 2)))
    assert eknn.n_clusters_ == 1
    np.testing.assert_array_equal(eknn.masses_, np.ones((8, 1)))


def test_too_few_sweeps_are_reported():
    with pytest.warns(ConvergenceWarning, match="EKNNClus labels still changed after max_iter=1 sweeps"):
        EKNNClus(10, max_iter=1, random_state=0).fit(three_groups())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 123}, "n_neighbors must be less than the number of rows, got n_neighbors=123 with 123 rows"),
        ({"quantile": 1.5}, r"quantile must be a finite number in \[0, 1\], got 1.5"),
        ({"power": -1.0}, r"power must be a finite number in \[0, inf\], got -1"),
        ({"init": "kmeans"}, "init must be one of 'rows', 'random'; got 'kmeans'"),
        ({"init": [0, 1]}, r"init must be a name or hold 123 labels, got shape \(2,\)"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        EKNNClus(10, random_state=0).set_params(**parameters).fit(three_groups())


def test_more_clusters_than_a_frame_holds_have_labels_alone():
    X = np.repeat(np.arange(200.0), 2)[:, None] * 10 + np.tile([0.0, 1.0], 200)[:, None]
    eknn = EKNNClus(1, random_state=0).fit(X)
    assert eknn.n_clusters_ == 200
    np.testing.assert_array_equal(eknn.labels_, np.repeat(np.arange(200), 2))
    with pytest.raises(ValueError, match="200 clusters, but mass functions are limited to 63 clusters; use labels_"):
        eknn.partition()
