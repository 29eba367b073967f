"""Belief-peaks evidential clustering."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from checks import three_groups
from cluster.oracles_cluster import bpec_metrics, ecm_masses, ecm_objective
from egmm import BPEC
from egmm.cluster.bpec import adapted_metrics


def elongated(seed=0):
    """Two long parallel groups that Euclidean distances cut across."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(300, 2)) * [6.0, 0.4] + np.outer(np.arange(300) >= 150, [0.0, 3.0])


@pytest.mark.parametrize(("alpha", "beta", "delta"), [(1.0, 2.0, 10.0), (0.5, 1.6, 3.0)])
@pytest.mark.parametrize("block_rows", [10, 1000])
def test_updates_follow_the_formulas(alpha, beta, delta, block_rows, rng, monkeypatch):
    monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", block_rows)
    X, means = rng.normal(size=(25, 2)), rng.normal(size=(3, 2))
    with pytest.warns(ConvergenceWarning, match="BPEC did not converge in max_iter=2 iterations"):
        bpec = BPEC(init=means, alpha=alpha, beta=beta, delta=delta, max_iter=2, tol=0.0).fit(X)
    sets = [sorted(members) for members in bpec.focal_sets_ if members]
    metrics, history = None, []
    for _ in range(3):
        masses = [ecm_masses(x, means, sets, alpha, beta, delta, metrics) for x in X]
        history.append(ecm_objective(X, masses, means, sets, alpha, beta, delta, metrics))
        last, metrics = metrics, bpec_metrics(X, masses, means, sets, alpha, beta)
    np.testing.assert_allclose(bpec.objective_history_, history, rtol=1e-9)
    np.testing.assert_allclose(bpec.metrics_, last, rtol=1e-8)
    np.testing.assert_allclose(bpec.predict_mass(X)[:, 1:], [m[:-1] for m in masses], rtol=1e-8)


def test_metrics_have_determinant_one_and_stay_symmetric():
    bpec = BPEC(n_neighbors=30).fit(elongated())
    np.testing.assert_allclose(np.linalg.det(bpec.metrics_), 1.0, rtol=1e-9)
    np.testing.assert_allclose(bpec.metrics_, np.swapaxes(bpec.metrics_, 1, 2), rtol=1e-12)


def test_units_do_not_decide_what_is_singular(rng):
    root, units = rng.normal(size=(2, 3, 3)), np.array([1e-8, 1.0, 1e8])
    scatters = root @ np.swapaxes(root, 1, 2)
    metrics = adapted_metrics(scatters * np.outer(units, units))
    # det(T)^(1/D) T^-1, and the product of these units is one.
    expected = np.linalg.det(scatters)[:, None, None] ** (1 / 3) * np.linalg.inv(scatters)
    np.testing.assert_allclose(metrics * np.outer(units, units), expected, rtol=1e-9)


def test_adaptive_metrics_follow_long_groups():
    X, truth = elongated(), np.arange(300) >= 150
    prototypes = [[0.0, 0.0], [0.0, 3.0]]
    errors = {
        distance: np.sum(BPEC(init=prototypes, distance=distance).fit_predict(X) != truth)
        for distance in ("mahalanobis", "euclidean")
    }
    assert errors["mahalanobis"] <= errors["euclidean"]
    bpec = BPEC(init=prototypes).fit(X)
    assert (bpec.metrics_[:, 1, 1] > 20 * bpec.metrics_[:, 0, 0]).all()


@pytest.mark.parametrize("reg_covar", [0.0, 1e-3, 0.1])
def test_objective_never_rises(reg_covar):
    history = BPEC(n_neighbors=20, reg_covar=reg_covar, tol=1e-9).fit(three_groups()).objective_history_
    assert len(history) > 3
    assert np.max(np.diff(history)) <= 1e-12 * history[0]


def test_a_ridge_is_part_of_the_objective():
    X = three_groups()
    bpec = BPEC(3, n_neighbors=20, reg_covar=0.1).fit(X)
    sets = [sorted(members) for members in bpec.focal_sets_ if members]
    # A prototype is a row that costs nothing.
    rows = [x for x in X if x.tolist() not in bpec.means_.tolist()]
    masses = [ecm_masses(x, bpec.means_, sets, 1, 2, 10, bpec.metrics_) for x in rows]
    ridge = 0.1 * len(X) * X.var(axis=0).mean()
    penalty = ridge * sum(np.trace(metric) for metric in bpec.metrics_)
    expected = ecm_objective(rows, masses, bpec.means_, sets, 1, 2, 10, bpec.metrics_) + penalty
    assert bpec.objective_ == pytest.approx(expected, rel=1e-9)


def test_prototypes_are_rows_and_the_graph_says_which():
    X = three_groups()
    bpec = BPEC(n_neighbors=20).fit(X)
    graph = bpec.decision_graph_
    assert graph.belief.shape == graph.delta.shape == (len(X),)
    np.testing.assert_array_equal(bpec.means_, X[graph.peaks])
    assert sorted(graph.peaks // 40) == [0, 1, 2]


@pytest.mark.parametrize("n_features", [2, 5])
@pytest.mark.parametrize("n_clusters", [2, 4, 7])
def test_number_of_clusters_is_found_on_separated_groups(n_clusters, n_features):
    X, y = make_blobs([150] * n_clusters, n_features, random_state=n_clusters, center_box=(-25, 25))
    bpec = BPEC(distance="euclidean").fit(X)
    assert len(bpec.means_) == n_clusters
    assert len(set(y[bpec.decision_graph_.peaks])) == n_clusters


def test_number_of_clusters_is_mostly_found_on_touching_groups():
    # Centres 4 to 5 standard deviations apart, groups of 80 to 400 rows.
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n_clusters = rng.integers(2, 6)
        angles = 2 * np.pi * np.arange(n_clusters) / n_clusters
        radius = rng.uniform(4, 5) / (2 * np.sin(np.pi / n_clusters))
        centres = radius * np.c_[np.cos(angles), np.sin(angles)]
        X = np.vstack([c + rng.normal(size=(rng.integers(80, 400), 2)) for c in centres])
        found += len(BPEC(distance="euclidean").fit(X).means_) == n_clusters
    assert found >= 16


def test_thresholds_and_a_number_choose_differently():
    X = three_groups()
    assert len(BPEC(5, n_neighbors=20).fit(X).means_) == 5
    assert len(BPEC(n_neighbors=20, min_delta=2.0, min_belief=0.3).fit(X).means_) == 3
    with pytest.raises(ValueError, match="n_clusters cannot be combined with min_belief and min_delta"):
        BPEC(3, n_neighbors=20, min_delta=2.0).fit(X)


def test_given_prototypes_set_the_number_and_need_no_neighbours():
    bpec = BPEC(init=[[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]], n_neighbors=10_000).fit(three_groups())
    assert bpec.means_.shape == (3, 2)
    assert bpec.decision_graph_ is None
    with pytest.raises(ValueError, match=r"init must have shape \(2, 2\), got \(3, 2\)"):
        bpec.set_params(n_clusters=2).fit(three_groups())


def test_constant_and_collinear_features_need_a_ridge():
    X = three_groups()
    for extra in (np.ones(len(X)), X[:, 0] + X[:, 1]):
        flat = np.c_[X, extra]
        with pytest.raises(ValueError, match=r"The scatter of cluster 1 is singular.*reg_covar"):
            BPEC(3, n_neighbors=20).fit(flat)
        assert np.isfinite(BPEC(3, n_neighbors=20, reg_covar=1e-6).fit(flat).predict_mass(flat)).all()
        assert BPEC(3, n_neighbors=20, distance="euclidean").fit(flat).converged_


def test_a_delta_that_leaves_a_cluster_without_rows_is_named():
    with pytest.raises(ValueError, match=r"The scatter of cluster \d is singular.*within delta.*raise delta"):
        BPEC(3, n_neighbors=20, beta=1.02, delta=1e-3).fit(three_groups())
    assert BPEC(3, n_neighbors=20, beta=1.02, delta=10.0).fit(three_groups()).converged_


def test_one_cluster_of_equal_rows():
    X = np.ones((20, 2))
    bpec = BPEC(1, n_neighbors=5, distance="euclidean").fit(X)
    assert bpec.means_.tolist() == [[1.0, 1.0]]
    assert set(bpec.labels_) == {0}
    with pytest.raises(ValueError, match="features are constant or collinear"):
        BPEC(1, n_neighbors=5).fit(X)


def test_units_of_one_feature_do_not_make_a_scatter_singular():
    T = np.array([[[4.0, 1.0], [1.0, 9.0]]])
    tiny = T * np.outer([1.0, 1e-9], [1.0, 1e-9])
    np.testing.assert_allclose(adapted_metrics(T)[0], np.sqrt(35) * np.linalg.inv(T[0]), rtol=1e-12)
    np.testing.assert_allclose(np.linalg.det(adapted_metrics(tiny)[0]), 1.0, rtol=1e-6)


def test_many_rows_need_no_matrix_of_pairs():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(10_000, 2)), rng.normal(size=(10_000, 2)) + 8])
    bpec = BPEC(distance="euclidean").fit(X)
    assert len(bpec.means_) == 2


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_neighbors": 123}, ValueError, "n_neighbors must be less than the number of rows.*123 rows"),
        ({"quantile": -0.1}, ValueError, r"quantile must be a finite number in \[0, 1\], got -0.1"),
        ({"distance": "cosine"}, ValueError, "distance must be one of 'mahalanobis', 'euclidean'; got 'cosine'"),
        ({"reg_covar": -1.0}, ValueError, r"reg_covar must be a finite number in \[0, inf\], got -1"),
        ({"alpha": -1.0}, ValueError, "alpha must be"),
        ({"beta": 1.0}, ValueError, "beta must be"),
        ({"delta": 0.0}, ValueError, "delta must be"),
        ({"init": "kmeans"}, ValueError, "init must be one of 'peaks'; got 'kmeans'"),
        ({"init": np.eye(2), "n_clusters": 2.0}, TypeError, "n_clusters must be an integer from 1 to 63, got 2.0"),
        ({"init": 5.0}, ValueError, r"init must have shape \(n, 2\), got \(\)"),
        ({"min_belief": 0.0}, ValueError, "123 rows reach min_belief=0 and min_delta=0, more than the 63 clusters"),
        ({"init": np.eye(64, 2) + np.arange(64)[:, None]}, ValueError, "prototypes in init .* from 1 to 63, got 64"),
        ({"n_clusters": "two"}, TypeError, "n_clusters must be an integer from 1 to 63, got 'two'"),
    ],
)
def test_bad_parameters_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        BPEC(n_neighbors=20).set_params(**parameters).fit(three_groups())


def test_given_prototypes_stay_the_callers():
    X, init = three_groups(), np.array([[0.0, 0.0], [6.0, 0.0]])
    bpec = BPEC(init=init).fit(X)
    mass = bpec.predict_mass(X)
    init += 1
    np.testing.assert_array_equal(bpec.predict_mass(X), mass)
    np.testing.assert_array_equal(bpec.means_, init - 1)
