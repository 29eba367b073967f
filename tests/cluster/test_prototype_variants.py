"""CCM, TECM and MultiViewECM: their own terms of the objective, and ECM where those vanish."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from checks import three_groups
from cluster.oracles_cluster import ecm_objective
from cluster.oracles_field import ccm_distance, masses_of_costs
from egmm import ECM
from egmm.cluster import CCM, TECM, MultiViewECM
from egmm.metrics import ari


def members_of(focal):
    return [sorted(s) for s in focal if s]


# CCM -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gamma", "beta"), [(1.0, 2.0), (0.2, 1.5), (30.0, 3.0)])
def test_ccm_has_its_distances_masses_and_objective(gamma, beta, rng):
    X = rng.normal(size=(20, 2))
    ccm = CCM(3, focal_sets="full", gamma=gamma, beta=beta, delta=1.5, random_state=0).fit(X)
    sets, objective = members_of(ccm.focal_sets_), 0.0
    for x, mass in zip(X, ccm.predict_mass(X), strict=True):
        costs = [1.5**2, *(ccm_distance(x, ccm.means_, s, gamma) for s in sets)]
        # The identity: the distance to the mean of the prototypes, plus a constant of the set.
        for s, cost in zip(sets, costs[1:], strict=True):
            middle = ccm.means_[s].mean(axis=0)
            spread = np.sum((ccm.means_[s] - middle) ** 2)
            assert cost == pytest.approx(np.sum((x - middle) ** 2) + spread / (len(s) + gamma))
        np.testing.assert_allclose(mass, masses_of_costs(costs, beta), rtol=1e-8)
        objective += sum(m**beta * cost for m, cost in zip(mass, costs, strict=True))
    assert ccm.objective_ == pytest.approx(objective, rel=1e-9)


def test_prototypes_of_ccm_solve_their_system(rng):
    X, start = rng.normal(size=(20, 2)), rng.normal(size=(3, 2))
    with pytest.warns(ConvergenceWarning, match="CCM did not converge in max_iter=1 iterations"):
        ccm = CCM(3, focal_sets="full", gamma=0.7, delta=2.0, init=start, max_iter=1).fit(X)
    sets = members_of(ccm.focal_sets_)
    H, B = np.zeros((3, 3)), np.zeros((3, 2))
    for x in X:
        costs = [2.0**2, *(ccm_distance(x, start, s, 0.7) for s in sets)]
        for s, m in zip(sets, masses_of_costs(costs, 2.0)[1:], strict=True):
            c, w = len(s), m**2
            for k in s:
                B[k] += w * (1 + 0.7 / c) / (c + 0.7) * x
                H[k, k] += w / (c + 0.7)
                for q in s:
                    H[k, q] += w * 0.7 / (c**2 * (c + 0.7))
    np.testing.assert_allclose(ccm.means_, np.linalg.solve(H, B), rtol=1e-9)


def test_ccm_with_a_large_gamma_is_ecm():
    X = three_groups()
    ccm, ecm = CCM(3, gamma=1e13, random_state=0).fit(X), ECM(3, alpha=0.0, random_state=0).fit(X)
    np.testing.assert_allclose(ccm.predict_mass(X), ecm.predict_mass(X), atol=1e-8)


def test_the_empty_set_takes_outliers_not_the_first_cluster():
    X = np.vstack([three_groups(), [[80.0, 80.0]]])
    for delta in (1.0, 10.0):
        ccm = CCM(3, delta=delta, init=X[[0, 45, 90]]).fit(X)
        assert ccm.focal_sets_.labels[ccm.predict_sets(X)[-1]] == "∅"
        assert ccm.predict_mass(X)[:40, 1].mean() > 0.2


@given(st.integers(0, 10**6), st.floats(0, 20), st.floats(1.2, 3))
@settings(max_examples=20)
def test_objective_of_ccm_never_rises(seed, gamma, beta):
    X = np.random.default_rng(seed).normal(size=(30, 2))
    history = CCM(3, focal_sets="full", gamma=gamma, beta=beta, random_state=seed, tol=1e-5).fit(X).objective_history_
    assert np.diff(history).max() <= 1e-12 * history[0]


# TECM ----------------------------------------------------------------------------------------------------------

SOURCE = np.array([[0.5, -0.5], [5.0, 1.0], [3.0, 6.0]])


@pytest.mark.parametrize("source", [None, SOURCE, SOURCE[:2]])
def test_without_weight_tecm_is_ecm(source):
    X = three_groups()
    tecm = TECM(3, source_means=source, b1=0.0, b2=0.0, b3=0.0, init=X[[0, 45, 90]]).fit(X)
    ecm = ECM(3, init=X[[0, 45, 90]]).fit(X)
    assert tecm.objective_ == pytest.approx(ecm.objective_, rel=1e-12)
    np.testing.assert_allclose(tecm.predict_mass(X), ecm.predict_mass(X), atol=1e-12)


def test_objective_of_tecm_is_the_formula():
    X = three_groups()
    tecm = TECM(3, source_means=SOURCE, b1=0.7, b2=3.0, delta=2.0, delta_source=4.0, random_state=0).fit(X)
    sets = members_of(tecm.focal_sets_)
    masses = [[*row[1:], row[0]] for row in tecm.predict_mass(X)]
    expected = ecm_objective(X, masses, tecm.means_, sets, 1.0, 2.0, 2.0)
    expected += 0.7 * ecm_objective(X, masses, SOURCE, sets, 1.0, 2.0, 4.0)
    expected += 3.0 * np.sum((tecm.means_ - SOURCE) ** 2)
    assert tecm.objective_ == pytest.approx(expected, rel=1e-9)
    for x, mass in zip(X, tecm.predict_mass(X), strict=True):
        costs = [2.0**2 + 0.7 * 4.0**2]
        for s in sets:
            near, far = (np.sum((x - means[s].mean(axis=0)) ** 2) for means in (tecm.means_, SOURCE))
            costs.append(len(s) * (near + 0.7 * far))
        np.testing.assert_allclose(mass, masses_of_costs(costs, 2.0), rtol=1e-8)


def test_objective_of_tecm_with_another_number_of_prototypes_is_the_formula():
    X, source = three_groups(), np.array([[0.0, 1.0], [5.0, 5.0], [7.0, 1.0], [1.0, 7.0]])
    tecm = TECM(3, source_means=source, b3=2.0, eta=1.6, random_state=0).fit(X)
    masses = [[*row[1:], row[0]] for row in tecm.predict_mass(X)]
    expected = ecm_objective(X, masses, tecm.means_, members_of(tecm.focal_sets_), 1.0, 2.0, 10.0)
    for s in source:
        costs = np.sum((s - tecm.means_) ** 2, axis=1)
        expected += 2.0 * sum(m**1.6 * c for m, c in zip(masses_of_costs(costs, 1.6), costs, strict=True))
    assert tecm.objective_ == pytest.approx(expected, rel=1e-9)


def test_clusters_follow_the_order_of_the_source():
    X = three_groups()
    for order in ([0, 1, 2], [2, 0, 1]):
        for init in ("kmeans", "source"):
            tecm = TECM(3, source_means=SOURCE[order], init=init, random_state=0).fit(X)
            np.testing.assert_array_equal(np.argmin(((tecm.means_[:, None] - SOURCE) ** 2).sum(axis=2), axis=1), order)


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings(max_examples=20)
def test_objective_of_tecm_never_rises(seed, n_source):
    rng = np.random.default_rng(seed)
    X, source = rng.normal(size=(30, 2)), rng.normal(size=(n_source, 2))
    weights = {"b1": rng.uniform(0, 3), "b2": rng.uniform(0, 30), "b3": rng.uniform(0, 30), "eta": rng.uniform(1.2, 3)}
    history = TECM(3, source_means=source, random_state=seed, tol=1e-5, **weights).fit(X).objective_history_
    assert np.diff(history).max() <= 1e-12 * history[0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"b1": -1.0}, r"b1 must be a finite number in \[0, inf\], got -1"),
        ({"source_means": [[0.0]]}, r"source_means must have shape \(n, 2\), got \(1, 1\)"),
        ({"source_means": np.empty((0, 2))}, "source_means must hold at least one prototype"),
        ({"init": "source"}, "init='source' needs n_clusters=3 prototypes in source_means"),
        ({"eta": 1.0}, r"eta must be a finite number in \(1, 100\], got 1"),
    ],
)
def test_bad_parameters_of_tecm_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        TECM(3).set_params(**parameters).fit(three_groups())


# MultiViewECM --------------------------------------------------------------------------------------------------


def two_views(seed=0):
    rng = np.random.default_rng(seed)
    X = three_groups()
    return X, rng.normal(size=(len(X), 3)) * 2


def test_one_view_is_ecm():
    X = three_groups()
    one, ecm = MultiViewECM(3, random_state=0).fit(X), ECM(3, random_state=0).fit(X)
    assert one.objective_ == pytest.approx(ecm.objective_, rel=1e-12)
    np.testing.assert_allclose(one.predict_mass(X), ecm.predict_mass(X), atol=1e-12)
    assert one.view_weights_.tolist() == [1.0]


@pytest.mark.parametrize("feature_entropy", [None, 40.0])
def test_objective_and_weights_of_views_are_the_formula(feature_entropy):
    views = two_views()
    model = MultiViewECM(3, view_entropy=300.0, feature_entropy=feature_entropy, tol=0.0, random_state=0).fit(views)
    X, sets = np.hstack(views), members_of(model.focal_sets_)
    mass = model.predict_mass(views)
    costs = np.zeros(X.shape[1])
    for j, s in enumerate(sets):
        middle = model.means_[s].mean(axis=0)
        costs += len(s) * (mass[:, j + 1] ** 2) @ (X - middle) ** 2
    W, R = model.feature_weights_, model.view_weights_
    totals = np.array([costs[:2] @ W[0], costs[2:] @ W[1]])
    objective = R @ totals + 100 * np.sum(mass[:, 0] ** 2) + 300 * np.sum(R * np.log(R))
    if feature_entropy is not None:
        objective += 40 * sum(np.sum(w * np.log(w)) for w in W)
        for at, (r, own) in enumerate(zip(R, (costs[:2], costs[2:]), strict=True)):
            expected = np.exp(-r * own / 40) / np.exp(-r * own / 40).sum()
            np.testing.assert_allclose(W[at], expected, rtol=1e-4)
    assert model.objective_ == pytest.approx(objective, rel=1e-9)
    np.testing.assert_allclose(R, np.exp(-totals / 300) / np.exp(-totals / 300).sum(), rtol=1e-4)


def test_the_view_that_shows_the_clusters_counts():
    views = two_views()
    model = MultiViewECM(3, view_entropy=100.0, random_state=0).fit(views)
    assert model.view_weights_[0] > 0.9
    assert ari(np.repeat([0, 1, 2], 40), model.labels_[:120]) == 1
    cut = MultiViewECM(3, views=[2, 3], view_entropy=100.0, random_state=0).fit(np.hstack(views))
    np.testing.assert_array_equal(cut.predict_mass(np.hstack(views)), model.predict_mass(views))


@given(st.integers(0, 10**6), st.sampled_from([None, 5.0]))
@settings(max_examples=20)
def test_objective_of_views_never_rises(seed, feature_entropy):
    rng = np.random.default_rng(seed)
    views = [rng.normal(size=(30, 2)), rng.normal(size=(30, 1))]
    model = MultiViewECM(3, view_entropy=20.0, feature_entropy=feature_entropy, random_state=seed, tol=1e-5)
    history = model.fit(views).objective_history_
    assert np.diff(history).max() <= 1e-11 * (1 + np.abs(history).max())


def test_bad_views_are_refused():
    X, other = two_views()
    with pytest.raises(ValueError, match="All views in X must have the same number of rows, got 123, 50"):
        MultiViewECM(3).fit([X, other[:50]])
    with pytest.raises(ValueError, match=r"views=\[2, 2\] must add up to the 5 columns of X, but give 4"):
        MultiViewECM(3, views=[2, 2]).fit(np.hstack([X, other]))
    with pytest.raises(ValueError, match=r"view_entropy must be a finite number in \(0, inf\], got 0"):
        MultiViewECM(3, view_entropy=0.0).fit([X, other])
    with pytest.raises(ValueError, match="X has 2 features, but MultiViewECM is expecting 5 features"):
        MultiViewECM(3, random_state=0).fit([X, other]).predict([X])
    other[5, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN at row 5, column 3"):
        MultiViewECM(3).fit([X, other])
