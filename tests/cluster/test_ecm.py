"""Evidential c-means."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from checks import three_groups
from cluster.oracles_cluster import ecm_masses, ecm_means, ecm_objective, nonspecificity
from egmm import ECM, FocalSets


def sets_of(family):
    return [sorted(members) for members in family if members]


@pytest.mark.parametrize(("alpha", "beta", "delta"), [(1.0, 2.0, 10.0), (0.0, 1.5, 2.0), (2.0, 3.0, 1.0)])
@pytest.mark.parametrize("family", ["full", "simple", [{0}, {1}, {2}, {0, 1}]])
def test_one_update_follows_the_formulas(alpha, beta, delta, family, rng, monkeypatch):
    monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", 10)
    X, start = rng.normal(size=(25, 2)), rng.normal(size=(3, 2))
    with pytest.warns(ConvergenceWarning, match="ECM did not converge in max_iter=1 iterations") as caught:
        ecm = ECM(3, focal_sets=family, alpha=alpha, beta=beta, delta=delta, init=start, max_iter=1).fit(X)
    assert ecm.n_iter_ == 1
    before, after = ecm.objective_history_
    assert f"the objective still changed by {before - after:.3g} (tol=1e-06)" in str(caught[0].message)
    sets = sets_of(ecm.focal_sets_)
    masses = [ecm_masses(x, start, sets, alpha, beta, delta) for x in X]
    assert ecm.objective_history_[0] == pytest.approx(ecm_objective(X, masses, start, sets, alpha, beta, delta))
    means = ecm_means(X, masses, 3, sets, alpha, beta)
    np.testing.assert_allclose(ecm.means_, means, rtol=1e-9)
    masses = [ecm_masses(x, means, sets, alpha, beta, delta) for x in X]
    np.testing.assert_allclose(ecm.predict_mass(X)[:, 1:], [m[:-1] for m in masses], rtol=1e-8)
    assert ecm.objective_ == pytest.approx(ecm_objective(X, masses, means, sets, alpha, beta, delta))
    bits = [nonspecificity(m, sets, 3) for m in masses]
    assert ecm.ans_ == pytest.approx(np.mean(bits) / np.log2(3))


@pytest.mark.parametrize("seed", range(5))
def test_objective_never_rises(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) * rng.uniform(0.1, 5, size=3)
    ecm = ECM(4, focal_sets="full", alpha=rng.uniform(0, 2), beta=rng.uniform(1.2, 3), tol=1e-9, random_state=seed)
    history = ecm.fit(X).objective_history_
    assert len(history) > 5
    assert np.max(np.diff(history)) <= 1e-12 * history[0]
    assert ecm.n_iter_ == len(history) - 1


def test_rows_between_and_far_away_are_told_apart():
    X = np.vstack([three_groups(), [[60.0, 60.0]]])
    ecm = ECM(3, init=X[[0, 45, 90]]).fit(X)
    labels = [ecm.focal_sets_.labels[j] for j in ecm.predict_sets(X)]
    assert labels[-1] == "∅"
    assert len(labels[120]) == len("{1,2}")
    assert {label for label in labels[:120] if len(label) == 3} == {"{1}", "{2}", "{3}"}


def test_a_long_way_off_all_mass_is_on_the_empty_set():
    ecm = ECM(3, random_state=0).fit(three_groups())
    far = [[1e9, 0.0], [1e140, 0.0]]
    np.testing.assert_allclose(ecm.predict_mass(far)[:, 0], 1.0, atol=1e-12)
    np.testing.assert_allclose(ecm.predict_proba(far).sum(axis=1), 1.0)


def test_rows_all_beyond_the_empty_set_leave_the_prototypes():
    # Masses of 1e-290 vanish when squared: nothing pulls.
    start = np.array([[0.0], [1e145]])
    ecm = ECM(2, init=start, delta=1e-5).fit([[3e144], [6e144], [7e144]])
    np.testing.assert_array_equal(ecm.means_, start)
    np.testing.assert_allclose(ecm.predict_mass([[3e144]])[:, 0], 1.0)


def test_row_on_a_prototype_has_mass_one_there():
    X = three_groups()
    ecm = ECM(3, random_state=0).fit(X)
    pair = ecm.means_[:2].mean(axis=0)
    mass = ecm.predict_mass(np.vstack([ecm.means_, pair]))
    assert [ecm.focal_sets_.labels[j] for j in mass.argmax(axis=1)] == ["{1}", "{2}", "{3}", "{1,2}"]
    np.testing.assert_allclose(mass.max(axis=1), 1.0, rtol=1e-12)


def test_relabelling_the_start_permutes_the_result():
    X = three_groups()
    start = X[[0, 45, 90]]
    one = ECM(3, focal_sets="full", init=start).fit(X)
    other = ECM(3, focal_sets="full", init=start[[2, 0, 1]]).fit(X)
    np.testing.assert_allclose(other.means_, one.means_[[2, 0, 1]], rtol=1e-9)
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X)[:, [2, 0, 1]], rtol=1e-6, atol=1e-9)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-9)


def test_the_empty_set_is_always_there():
    X = three_groups()
    assert ECM(3, random_state=0).fit(X).focal_sets_ == FocalSets.pairs(3, empty=True)
    given = FocalSets.simple(3)
    assert ECM(3, focal_sets=given, random_state=0).fit(X).focal_sets_ == given.with_empty()


def test_weights_are_counts():
    X = three_groups()
    weight = np.arange(len(X)) % 3
    weighted = ECM(3, random_state=0).fit(X, sample_weight=weight)
    repeated = ECM(3, random_state=0).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_array_equal(weighted.means_, repeated.means_)
    assert weighted.ans_ == pytest.approx(repeated.ans_, rel=1e-12)
    assert weighted.labels_.shape == (len(X),)


def test_index_is_zero_for_one_cluster_and_finds_three_groups():
    X = three_groups()
    assert ECM(1).fit(X).ans_ == 0.0
    two = ECM(2, random_state=0).fit(X)
    # Of two clusters, a bit is open on the empty set and on the frame.
    assert two.ans_ == pytest.approx(two.predict_mass(X)[:, [0, 3]].sum(axis=1).mean(), rel=1e-12)
    indices = {c: ECM(c, n_init=5, random_state=0).fit(X).ans_ for c in range(2, 6)}
    assert min(indices, key=indices.get) == 3


def test_a_tolerance_of_zero_is_met_at_rounding():
    ecm = ECM(3, tol=0.0, max_iter=20_000, random_state=0).fit(three_groups())
    assert ecm.converged_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, r"alpha must be a finite number in \[0, 100\], got -1"),
        ({"beta": 0.5}, r"beta must be a finite number in \(1, 100\], got 0.5"),
        ({"delta": -3.0}, r"delta must be a finite number in \[1e-140, 1e\+150\], got -3"),
        ({"focal_sets": "neighbours"}, "needs a similarity of clusters"),
        ({"focal_sets": [{0}, {1}]}, r"cluster 3 \(number 2 counted from zero\) is in no set"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        ECM(3).set_params(**parameters).fit(three_groups())


@pytest.mark.parametrize(
    ("extreme", "least", "most"),
    [({"alpha": 100.0}, 0, 1), ({"beta": 100.0}, 0.1, 0.15), ({"delta": 1e-140}, 1, 1), ({"delta": 1e150}, 0, 1e-290)],
)
def test_the_ends_of_the_ranges_are_fitted(extreme, least, most):
    X = three_groups()
    ecm = ECM(3, focal_sets="full", random_state=0, **extreme).fit(X)
    assert np.isfinite(ecm.means_).all()
    assert 0 < ecm.objective_ <= ecm.objective_history_[0]
    # The empty set takes all, nothing, or with the exponent of the masses the same as each of the eight sets.
    mass = ecm.predict_mass(X)
    assert least <= mass[:, 0].min() <= mass[:, 0].max() <= most
    if "alpha" in extreme:
        assert mass[:, ecm.focal_sets_.is_meta].max() < 2.0**-80


def test_parameters_changed_after_fit_leave_the_fit_alone():
    X = three_groups()
    ecm = ECM(3, random_state=0).fit(X)
    mass = ecm.predict_mass(X)
    np.testing.assert_array_equal(ecm.set_params(beta=1.2, delta=1.0, focal_sets="simple").predict_mass(X), mass)
