"""RECM: ECM by dissimilarities, and data that are not metric."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise_distances

from checks import three_groups
from cluster.oracles_cluster import ecm_masses, ecm_objective
from egmm import ECM
from egmm.cluster import RECM
from egmm.cluster.relational.recm import least_shift
from egmm.metrics import ari, pairwise_nonspecificity


@pytest.mark.parametrize(
    "parameters", [{}, {"focal_sets": "full", "alpha": 0.2, "beta": 1.1}, {"beta": 1.6, "delta": 2.0}]
)
def test_euclidean_distances_give_ecm(parameters):
    X = three_groups()
    ecm, recm = (kind(3, random_state=0, **parameters).fit(X) for kind in (ECM, RECM))
    assert recm.n_iter_ == ecm.n_iter_
    np.testing.assert_allclose(recm.objective_history_, ecm.objective_history_, rtol=1e-11)
    np.testing.assert_allclose(recm.predict_mass(X), ecm.predict_mass(X), atol=1e-10)
    np.testing.assert_allclose(recm.coefficients_ @ X, ecm.means_, atol=1e-9)
    D = pairwise_distances(X)
    given = RECM(3, metric="precomputed", init=np.eye(len(X))[[0, 45, 90]], **parameters).fit(D)
    same = ECM(3, init=X[[0, 45, 90]], **parameters).fit(X)
    assert given.objective_ == pytest.approx(same.objective_, rel=1e-10)
    np.testing.assert_allclose(given.predict_mass(D), same.predict_mass(X), atol=1e-10)
    assert given.shift_ == 0


def test_prototypes_of_features_are_a_start():
    X = three_groups()
    start = np.array([[0.1, 0.2], [5.0, 1.0], [2.0, 6.0]])
    ecm, recm = ECM(3, init=start).fit(X), RECM(3, init=start).fit(X)
    np.testing.assert_allclose(recm.predict_mass(X), ecm.predict_mass(X), atol=1e-10)


@pytest.mark.paper
@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_protein_has_the_published_objective(data_directory, init):
    found = np.load(data_directory / "field" / "protein.npz")
    # R's example takes the dissimilarities for squared ones.
    D, y = np.sqrt(found["D"]), found["y"]
    parameters = {"focal_sets": "full", "alpha": 0.2, "beta": 1.1, "delta": np.sqrt(20), "init": init}
    for seed in range(3):
        recm = RECM(4, metric="precomputed", random_state=seed, **parameters).fit(D)
        partition = recm.partition(D)
        assert 766.565 <= recm.objective_ <= 766.9
        assert 0.898 <= ari(y, partition.labels("plausibility")) <= 0.9325
        assert pairwise_nonspecificity(partition) == pytest.approx(0.1845, abs=1e-3)


def far_from_metric(seed=0, n=30):
    """Two groups with dissimilarities that no points have."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    D = np.where(np.equal.outer(y, y), 1.0, 4.0) * rng.uniform(0.02, 2, size=(n, n))
    D = np.triu(D, 1)
    return D + D.T, y


@pytest.mark.parametrize("seed", range(5))
def test_dissimilarities_that_are_not_metric_are_shifted(seed):
    D, _ = far_from_metric(seed)
    recm = RECM(2, metric="precomputed", focal_sets="full", beta=1.3, delta=None, random_state=0).fit(D)
    assert np.isfinite(recm.predict_mass(D)).all()
    assert np.diff(recm.objective_history_).max() <= 1e-10 * recm.objective_
    np.testing.assert_array_equal(recm.predict(D), recm.labels_)


def test_the_shift_is_the_least_that_makes_points_of_rows():
    squared = far_from_metric()[0] ** 2
    shift = least_shift(squared)
    assert shift > 0
    n = len(squared)
    centring = np.eye(n) - 1 / n
    roots = [
        np.linalg.eigvalsh(-centring @ (squared + b * (1 - np.eye(n))) @ centring / 2)[0] for b in (shift, 0.99 * shift)
    ]
    assert roots[0] > -1e-9
    assert roots[1] < -1e-9


def test_distances_between_points_need_no_shift(rng):
    assert least_shift(pairwise_distances(rng.normal(size=(30, 4))) ** 2) < 1e-12


def test_the_shift_is_no_larger_than_needed():
    X = three_groups()[:120]
    recm = RECM(3, metric="manhattan", delta=5.0, random_state=0).fit(X)
    assert 0 < recm.shift_ < least_shift(pairwise_distances(X, metric="manhattan") ** 2) / 10
    assert ari(np.repeat([0, 1, 2], 40), recm.labels_) == 1
    # Rows are not all outliers for being moved apart.
    assert (recm.predict_sets(X) == 0).mean() < 0.1


@given(st.integers(0, 10**6), st.floats(0, 2), st.floats(1.2, 3))
@settings(max_examples=20)
def test_objective_never_rises_and_is_that_of_the_prototypes(seed, alpha, beta):
    X = np.random.default_rng(seed).normal(size=(25, 2))
    recm = RECM(3, focal_sets="full", alpha=alpha, beta=beta, metric="precomputed", tol=1e-4, random_state=seed)
    recm.fit(pairwise_distances(X))
    history = recm.objective_history_
    assert np.diff(history).max() <= 1e-9 * history[0]
    sets = [sorted(members) for members in recm.focal_sets_ if members]
    means = recm.coefficients_ @ X
    masses = [ecm_masses(x, means, sets, alpha, beta, 10.0) for x in X]
    assert recm.objective_ == pytest.approx(ecm_objective(X, masses, means, sets, alpha, beta, 10.0), rel=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"init": np.zeros(5, dtype=int)}, r"init must be a name or hold 123 labels from 0 to 2, got int64"),
        ({"init": np.zeros(123, dtype=int)}, "init must hold the labels 0 to 2, each at least once"),
        ({"init": np.ones((3, 4))}, r"init must have shape \(3, 2\), got \(3, 4\)"),
        ({"init": "nearest"}, "init must be one of .*got 'nearest'"),
        ({"delta": -1.0}, r"delta must be a finite number in"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        RECM(3).set_params(**parameters).fit(three_groups())


def test_coefficients_that_do_not_sum_to_one_are_refused():
    D = pairwise_distances(three_groups())
    with pytest.raises(ValueError, match="coefficients that sum to one, but those of prototype 1 give 2"):
        RECM(3, metric="precomputed", init=np.eye(123)[:3] * np.array([[1], [2], [1]])).fit(D)
