"""Fuzzy c-means and the modified partition coefficient."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from checks import three_groups
from cluster.oracles_cluster import ecm_masses, ecm_means, ecm_objective
from egmm import ECM, FCM, FocalSets
from egmm.cluster import modified_partition_coefficient

SINGLES = [[0], [1], [2]]


@pytest.mark.parametrize("beta", [1.3, 2.0, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_update_follows_the_formulas(beta, weighted, rng):
    X, start = rng.normal(size=(30, 2)), rng.normal(size=(3, 2))
    weight = rng.integers(0, 4, size=30).astype(float) if weighted else np.ones(30)
    with pytest.warns(ConvergenceWarning, match="FCM did not converge in max_iter=1 iterations"):
        fcm = FCM(3, beta=beta, init=start, max_iter=1).fit(X, sample_weight=weight if weighted else None)
    u = [ecm_masses(x, start, SINGLES, 0, beta, None) for x in X]
    means = ecm_means(X, u, 3, SINGLES, 0, beta, weight)
    np.testing.assert_allclose(fcm.means_, means, rtol=1e-10)
    np.testing.assert_allclose(fcm.predict_proba(X), [ecm_masses(x, means, SINGLES, 0, beta, None) for x in X])
    repeated = np.repeat(np.arange(30), weight.astype(int))
    assert fcm.objective_history_[0] == pytest.approx(
        ecm_objective(X[repeated], [u[i] for i in repeated], start, SINGLES, 0, beta, None)
    )


def test_two_points_and_two_clusters():
    fcm = FCM(2, init=[[0.1], [0.8]]).fit([[0.0], [1.0]])
    np.testing.assert_allclose(fcm.means_, [[0.0], [1.0]], atol=1e-3)
    assert fcm.objective_ == pytest.approx(0.0, abs=1e-5)
    assert fcm.mpc_ == pytest.approx(1.0, abs=1e-4)


def test_one_cluster_is_the_weighted_mean():
    X, weight = np.array([[0.0], [1.0], [5.0]]), [1.0, 3.0, 0.0]
    fcm = FCM(1).fit(X, sample_weight=weight)
    assert fcm.means_ == pytest.approx(0.75)
    assert fcm.mpc_ == 0.0
    assert fcm.labels_.tolist() == [0, 0, 0]


def test_fcm_is_ecm_on_single_clusters_with_outliers_priced_out():
    X = three_groups()
    start = X[[0, 45, 90]]
    fcm = FCM(3, init=start, tol=1e-10).fit(X)
    ecm = ECM(3, focal_sets="singletons", delta=1e8, init=start, tol=1e-10).fit(X)
    np.testing.assert_allclose(ecm.means_, fcm.means_, atol=1e-5)
    assert fcm.focal_sets_ == FocalSets.singletons(3)


def test_rows_that_are_prototypes_belong_there_alone():
    X = three_groups()
    fcm = FCM(3, init=X[[0, 45, 90]], tol=0.1).fit(X)
    np.testing.assert_allclose(fcm.predict_proba(fcm.means_), np.eye(3), rtol=0, atol=1e-200)


def test_start_on_rows_of_the_data_converges():
    X = np.array([[0.0], [0.0], [1.0], [9.0], [10.0], [10.0]])
    fcm = FCM(2, init=[[0.0], [10.0]]).fit(X)
    assert fcm.converged_
    assert fcm.labels_.tolist() == [0, 0, 0, 1, 1, 1]


def test_prototype_without_weight_stays():
    # Every row sits on one of the first two prototypes, so that nothing pulls the third.
    X = np.array([[0.0], [0.0], [1.0], [1.0], [2.0]])
    fcm = FCM(3, init=[[0.0], [1.0], [7.0]]).fit(X, sample_weight=[1, 1, 1, 1, 1e-300])
    assert fcm.means_[2, 0] == pytest.approx(7.0, abs=6)
    assert np.isfinite(fcm.means_).all()
    assert np.isfinite(fcm.predict_proba(X)).all()


def test_more_starts_never_end_higher():
    X = np.random.default_rng(3).uniform(size=(80, 2))
    objectives = [FCM(6, init="random", n_init=n, random_state=1).fit(X).objective_ for n in (1, 2, 8)]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] < objectives[0]


def test_order_of_rows_and_split_weights_do_not_change_a_digit(rng):
    X = three_groups()
    weight = rng.integers(0, 4, size=len(X))
    repeated = rng.permutation(np.repeat(X, weight, axis=0))
    weighted = FCM(3, random_state=0).fit(X, sample_weight=weight)
    plain = FCM(3, random_state=0).fit(repeated)
    np.testing.assert_array_equal(weighted.means_, plain.means_)
    assert weighted.objective_ == plain.objective_
    assert weighted.mpc_ == pytest.approx(plain.mpc_, rel=1e-12)


def test_many_rows_in_several_blocks_and_a_sampled_start(rng):
    # More than one block of rows and more rows than the start looks at; four equal copies count four times.
    X = np.vstack([rng.normal(size=(12_000, 2)), rng.normal(size=(12_000, 2)) + 12])
    fcm = FCM(2, random_state=0, tol=1e-3).fit(X)
    np.testing.assert_allclose(np.sort(fcm.means_, axis=0), [[0, 0], [12, 12]], atol=0.1)
    weighted = FCM(2, init=fcm.means_, max_iter=2000, tol=1e-9).fit(X[::40], sample_weight=np.full(600, 4.0))
    repeated = FCM(2, init=fcm.means_, max_iter=2000, tol=1e-9).fit(np.tile(X[::40], (4, 1)))
    np.testing.assert_array_equal(weighted.means_, repeated.means_)


def test_partition_coefficient_by_hand():
    # PC = ((.5 + .5) / 2 + 1) / 2 over two rows: .5 and 1.
    assert modified_partition_coefficient([[0.5, 0.5], [1.0, 0.0]]) == pytest.approx(0.5)
    assert modified_partition_coefficient([[0.5, 0.5], [1.0, 0.0]], sample_weight=[3, 1]) == pytest.approx(0.25)
    assert modified_partition_coefficient(np.full((4, 3), 1 / 3)) == pytest.approx(0.0, abs=1e-15)
    assert modified_partition_coefficient(np.ones((4, 1))) == 0.0
    with pytest.raises(ValueError, match=r"membership must have at least one row and one cluster, got shape \(0, 2\)"):
        modified_partition_coefficient(np.zeros((0, 2)))


def test_index_is_that_of_the_memberships():
    X = three_groups()
    fcm = FCM(3, random_state=0).fit(X)
    pc = np.mean(np.sum(fcm.predict_proba(X) ** 2, axis=1))
    assert fcm.mpc_ == pytest.approx(1 - 3 / 2 * (1 - pc), rel=1e-12)


def test_index_finds_three_groups():
    X = three_groups()
    indices = {c: FCM(c, n_init=5, random_state=0).fit(X).mpc_ for c in range(2, 7)}
    assert max(indices, key=indices.get) == 3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": 1.0}, r"beta must be a finite number in \(1, 100\], got 1"),
        ({"beta": 1000.0}, r"beta must be a finite number in \(1, 100\], got 1000"),
        ({"n_init": 0}, "n_init must be an integer from 1 to 10000, got 0"),
        ({"init": "farthest"}, "init must be one of 'kmeans', 'random'; got 'farthest'"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        FCM(3).set_params(**parameters).fit(three_groups())


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), r"sample_weight must have shape \(123,\), got \(3,\)"),
        (np.r_[-1.0, np.ones(122)], "sample_weight must not be negative, but row 0 has -1"),
        (np.zeros(123), "sample_weight must not be all zero"),
        (np.full(123, 1e307), r"sample_weight must have a sum from 1e-290 to 1e\+150, got inf; multiply all weights"),
        (np.r_[np.ones(2), np.zeros(121)], "but X has only 2 distinct rows with positive weight; use fewer"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        FCM(3).fit(three_groups(), sample_weight=weight)


def test_values_too_large_to_square_are_refused():
    with pytest.raises(ValueError, match=r"the value 1e\+200, too large to square, at row 1, column 0"):
        FCM(2).fit([[0.0], [1e200], [1.0]])
