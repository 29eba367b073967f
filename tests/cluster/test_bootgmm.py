"""bootGMM: mixtures calibrated by the bootstrap."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from checks import nearly_equal_rows, three_groups
from cluster.oracles_calibration import belief_and_plausibility_of_same, pair_quantiles
from egmm import EGMM, BootGMM
from egmm.cluster.bootstrap import bootstrap
from egmm.em.covariance import MODELS


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def on_iris(iris):
    return BootGMM(3, random_state=0).fit(iris[0])


def overlapping(seed, n_rows=100):
    rng = np.random.default_rng(seed)
    return np.vstack([rng.normal(size=(n_rows, 2)), rng.normal([2.5, 0.0], size=(n_rows, 2))])


def test_iris_as_in_r(iris, on_iris):
    # R's bootclus on Iris with three clusters: VEV, ARI .922.
    assert on_iris.covariance_ == "VEV"
    assert adjusted_rand_score(iris[1], on_iris.labels_) == pytest.approx(0.922, abs=0.02)
    assert on_iris.converged_
    assert len(on_iris.replicates_.weights) == 500


def test_intervals_cover_what_the_mixture_says(iris, on_iris):
    lower, upper = on_iris.intervals_.T
    assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all()
    proba = on_iris.mixture_.predict_proba(iris[0])
    point = (proba @ proba.T)[tuple(on_iris.pairs_.T)]
    assert np.mean((lower - 1e-6 <= point) & (point <= upper + 1e-6)) > 0.9
    belief, plausibility = on_iris.fitted_intervals_.T
    assert ((belief >= -1e-12) & (belief <= plausibility + 1e-12)).all()
    assert np.sqrt(np.mean((on_iris.fitted_intervals_ - on_iris.intervals_) ** 2)) < 0.03


def test_intervals_and_their_fit_are_those_of_the_formulas(iris, on_iris):
    weights, means, covariances = on_iris.replicates_
    sets = list(on_iris.focal_sets_)
    rng = np.random.default_rng(0)
    for at in rng.integers(len(on_iris.pairs_), size=4):
        rows = on_iris.pairs_[at]
        X = iris[0][rows] - on_iris.centre_
        joint = np.array(
            [
                [weights[b, k] * multivariate_normal(means[b, k], covariances[b, k]).pdf(X) for b in range(500)]
                for k in range(3)
            ]
        )
        first, second = np.moveaxis(joint / joint.sum(axis=0), 2, 0)
        np.testing.assert_allclose(on_iris.intervals_[at], pair_quantiles(first, second, [0.05, 0.95]), atol=1e-5)
        expected = belief_and_plausibility_of_same(*on_iris.reference_mass_[rows], sets)
        np.testing.assert_allclose(on_iris.fitted_intervals_[at], expected, atol=1e-12)


def test_all_pairs_of_few_rows(iris, on_iris):
    np.testing.assert_array_equal(on_iris.references_, np.arange(150))
    assert {tuple(sorted(pair)) for pair in on_iris.pairs_} == {(i, j) for j in range(150) for i in range(j)}
    np.testing.assert_allclose(on_iris.predict_mass(iris[0]), on_iris.reference_mass_, atol=5e-3)


def test_mixture_is_the_one_of_least_bic(iris, on_iris):
    tried = {record["covariance"]: record["bic"] for record in on_iris.bic_table_}
    assert list(tried) == list(MODELS)
    assert on_iris.bic_ == min(tried.values()) == tried["VEV"]
    assert on_iris.bic_ == pytest.approx(on_iris.mixture_.bic(iris[0]), rel=1e-9)
    np.testing.assert_array_equal(on_iris.means_, on_iris.mixture_.means_)


def test_of_models_that_are_one_the_first_is_chosen_whatever_the_order_of_rows():
    X, rng = three_groups(), np.random.default_rng(0)
    model = BootGMM(1, n_bootstrap=2, covariance=["EEE", "VEE", "EVE", "VVV"], random_state=0, n_jobs=1)
    assert {model.fit(rng.permutation(X)).covariance_ for _ in range(8)} == {"EEE"}


def test_rows_between_clusters_get_mass_on_their_pair():
    model = BootGMM(2, n_bootstrap=200, covariance="EEE", random_state=0).fit(overlapping(0))
    left, middle, right = model.partition([[-2.0, 0.0], [1.25, 0.0], [4.5, 0.0]]).mass
    pair = model.focal_sets_.index_of({0, 1})
    assert middle[pair] > 0.2 > max(left[pair], right[pair])
    assert left.max() > 0.9
    assert right.max() > 0.9


def test_wider_confidence_wider_intervals_more_imprecision():
    X = overlapping(1)
    models = [BootGMM(2, n_bootstrap=100, confidence=c, covariance="EEE", random_state=0).fit(X) for c in (0.5, 0.95)]
    narrow, wide = (np.diff(model.intervals_, axis=1) for model in models)
    assert (wide >= narrow - 1e-7).all()
    assert models[1].ans_ > models[0].ans_


def test_number_of_clusters_is_found():
    X = three_groups()[:-3]
    model = BootGMM(range(1, 6), n_bootstrap=20, covariance=["EII", "VVV"], random_state=0).fit(X)
    assert len(model.means_) == 3
    assert len(model.bic_table_) == 10
    assert len(BootGMM(None, n_bootstrap=20, covariance="EII", random_state=0).fit(X).means_) == 3


def test_numbers_of_clusters_that_the_rows_do_not_allow_are_left_out():
    X = nearly_equal_rows()
    model = BootGMM([2, 4, 9], n_bootstrap=20, covariance="EII", reg_covar=0.1, random_state=0).fit(X)
    assert [row["n_clusters"] for row in model.bic_table_] == [2]
    for n_clusters, message in (([4, 9], "k-means finds only 3 in X"), (9, "X has only 4 distinct rows")):
        with pytest.raises(ValueError, match=f"n_clusters=[49] but {message}.*; use fewer clusters"):
            model.set_params(n_clusters=n_clusters).fit(X)


def test_one_cluster_leaves_nothing_to_say():
    model = BootGMM(1, n_bootstrap=20, covariance="VVV", random_state=0).fit(three_groups())
    np.testing.assert_array_equal(model.partition(three_groups()).mass, 1.0)
    assert model.ans_ == 0.0


def test_one_feature():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=40), rng.normal(20, 3, size=40)])
    model = BootGMM(2, n_bootstrap=30, random_state=0).fit(X[:, None])
    assert model.covariance_ == "V"
    assert set(np.bincount(model.labels_)) == {40}


def test_four_clusters_have_pairs_and_no_frame():
    X = np.vstack([three_groups(), np.add(three_groups()[:40], [6.0, 8.0])])
    model = BootGMM(4, n_bootstrap=20, covariance="EII", random_state=0).fit(X)
    assert sorted(map(len, model.focal_sets_)) == [1] * 4 + [2] * 6


def test_threads_make_no_difference():
    X = overlapping(2)
    one, two = (BootGMM(2, n_bootstrap=300, n_references=60, random_state=0, n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.replicates_.means, two.replicates_.means)
    np.testing.assert_array_equal(one.predict_mass(X), two.predict_mass(X))


def test_reference_rows_have_every_cluster_in_its_share():
    X = np.vstack([three_groups()[:40]] * 3 + [three_groups()[40:80]])
    X = X[np.random.default_rng(0).permutation(len(X))]
    model = BootGMM(2, n_bootstrap=20, covariance="EEE", n_references=40, random_state=0).fit(X)
    assert len(set(model.references_)) == 40
    assert np.isin(np.bincount(model.mixture_.labels_[model.references_]), [10, 30]).all()
    assert model.pairs_.shape == (40 * 39 / 2, 2)
    assert np.isin(model.pairs_, model.references_).all()


def test_replicates_that_lose_a_cluster_are_left_out():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 2)), rng.normal(size=(6, 2)) / 100 + 9])
    model = BootGMM(2, n_bootstrap=200, covariance="VVV", random_state=0)
    # At least three of the six distinct rows must be drawn for a covariance: a chance of about 93 %.
    assert 150 < len(model.fit(X).replicates_.weights) < 200
    assert np.isfinite(model.predict_mass(X)).all()
    with pytest.warns(ConvergenceWarning, match=r"\d+ of 200 bootstrap replicates have an empty or singular cluster"):
        model.fit(X[:63])


def test_progress_is_written_to_the_error_stream(capsys):
    BootGMM(2, n_bootstrap=10, covariance="EII", random_state=0, verbose=1).fit(three_groups())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "BootGMM: mixtures" in captured.err
    assert "BootGMM: replicates" in captured.err
    assert "BootGMM: masses" in captured.err
    assert "10/10" in captured.err


def test_an_objective_of_nothing_does_not_rise():
    # Clusters so far apart that every replicate agrees: the posteriors already fit all intervals.
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, size=(20, 2)), rng.normal(1e6, 1, size=(20, 2))])
    boot = BootGMM(2, n_bootstrap=10, covariance="EII", random_state=0).fit(X)
    assert boot.objective_history_.tolist() == [0.0, 0.0]


def test_parameters_changed_after_fit_leave_the_fit_alone():
    X = overlapping(0)
    boot = BootGMM(2, n_bootstrap=20, covariance="EII", random_state=0).fit(X)
    mass = boot.predict_mass(X)
    np.testing.assert_array_equal(boot.set_params(confidence=0.2, n_clusters=5).predict_mass(X), mass)


@pytest.mark.parametrize("counts", [{2, 3}, range(2, 4), np.array([2, 3])])
def test_numbers_of_clusters_come_in_any_iterable(counts):
    table = BootGMM(counts, n_bootstrap=10, covariance={"EII"}, random_state=0).fit(three_groups()).bic_table_
    assert [(record["n_clusters"], record["covariance"]) for record in table] == [(2, "EII"), (3, "EII")]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_bootstrap": 1}, ValueError, "n_bootstrap must be an integer from 2 to 1000000, got 1"),
        ({"n_bootstrap": 10.0}, TypeError, "n_bootstrap must be an integer from 2 to 1000000, got 10.0"),
        ({"n_bootstrap": 10**400}, ValueError, "n_bootstrap must be an integer from 2 to 1000000, got an integer of"),
        ({"confidence": 1.5}, ValueError, r"confidence must be a finite number in \[0, 1\], got 1.5"),
        ({"confidence": "high"}, TypeError, r"confidence must be a finite number in \[0, 1\], got 'high'"),
        ({"n_references": 1}, ValueError, "n_references must be an integer >= 2, got 1"),
        ({"covariance": "EEX"}, ValueError, "covariance must be one of 'EII', .*; got 'EEX'"),
        ({"covariance": ["EEE", "all"]}, ValueError, "covariance must be one of 'EII', .*; got 'all'"),
        ({"covariance": 3}, ValueError, "covariance must be one of 'EII', .*; got 3"),
        ({"covariance": None}, ValueError, "covariance must be one of 'EII', .*; got None"),
        ({"covariance": []}, ValueError, "covariance must name at least one model"),
        ({"n_clusters": []}, ValueError, "n_clusters must hold at least one number"),
        ({"n_clusters": [2, 0]}, ValueError, "n_clusters must be an integer from 1 to 63, got 0"),
        ({"n_clusters": np.array(2)}, TypeError, r"n_clusters must be an integer from 1 to 63, got array\(2\)"),
        ({"n_clusters": "two"}, TypeError, "n_clusters must be an integer from 1 to 63, got 'two'"),
        ({"n_clusters": [2, 3], "init": [[0.0, 0.0], [6.0, 0.0]]}, ValueError, "init must be 'kmeans' or 'random'"),
        ({"n_init": 0}, ValueError, "n_init must be an integer from 1 to 10000, got 0"),
        ({"reg_covar": -1.0}, ValueError, r"reg_covar must be a finite number in \[0, inf\], got -1"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be an integer >= 1, or -1 for all cores, got 0"),
    ],
)
def test_bad_parameters_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        BootGMM(2, n_bootstrap=10).set_params(**parameters).fit(three_groups())


def test_no_mixture_no_bootstrap():
    X = np.repeat(np.arange(4.0)[:, None], 5, axis=0) * [1.0, 0.0]
    with pytest.raises(ValueError, match=r"No mixture could be fitted: .*not positive definite"):
        BootGMM(3, covariance="VVV", reg_covar=0.0, random_state=0).fit(X)


def test_mixtures_that_could_not_be_fitted_have_a_reason_and_no_bic():
    # Two clusters are of a point each: they have no covariance of their own.
    X = np.repeat([[0.0, 0.0], [1.0, 4.0], [5.0, 1.0], [6.0, 6.0]], 4, axis=0)
    options = {"covariance": ["EII", "VVV"], "n_bootstrap": 10, "reg_covar": 0.0, "random_state": 0}
    sound, failed = BootGMM(3, **options).fit(X).bic_table_
    assert np.isfinite(sound["bic"])
    assert sound["failure"] == ""
    assert failed["bic"] is None
    assert "the VVV covariance of clusters" in failed["failure"]


def test_where_all_replicates_are_narrow_none_is_left_out():
    X = overlapping(0)
    model = EGMM(2, focal_sets="singletons", covariance="VVV", random_state=0).fit(X)
    model.stored_covariances_ = 1e6 * model.stored_covariances_
    replicates, n_failed = bootstrap(X, model, "VVV", X.mean(axis=0), 0, 4, n_jobs=1, verbose=False)
    assert (len(replicates.weights), n_failed) == (4, 0)


def test_a_mixture_that_does_not_converge_is_reported(monkeypatch):
    monkeypatch.setattr("egmm.search.check_parameters", lambda model: setattr(model, "max_iter", 1))
    with pytest.warns(ConvergenceWarning, match=r"The chosen mixture \(n_clusters=2, VVV\) did not converge"):
        BootGMM(2, n_bootstrap=10, covariance="VVV", random_state=0).fit(overlapping(3))


@pytest.mark.slow
def test_all_pairs_and_some_pairs_agree(iris):
    fits = [
        [BootGMM(3, covariance="VEV", n_references=n, random_state=seed).fit(iris[0]) for seed in range(10)]
        for n in (150, 75)
    ]
    scores = np.array([[adjusted_rand_score(iris[1], model.labels_) for model in models] for models in fits])
    imprecision = np.array([[model.ans_ for model in models] for models in fits])
    for exact, some in (scores, imprecision):
        assert abs(exact.mean() - some.mean()) < 3 * np.hypot(exact.std(), some.std()) / np.sqrt(10) + 0.005
        assert np.abs(exact - some).max() < 0.03


@pytest.mark.slow
def test_intervals_cover_the_true_probabilities():
    # Rows from a known mixture: how often do 90 % intervals hold the true probability of "same cluster"?
    covered = []
    for seed in range(10):
        X = overlapping(seed + 100)
        densities = np.exp([-0.5 * ((X - mean) ** 2).sum(axis=1) for mean in ([0.0, 0.0], [2.5, 0.0])])
        truth = (densities / densities.sum(axis=0)).T
        together = truth @ truth.T
        model = BootGMM(2, n_bootstrap=300, covariance="EEE", random_state=seed).fit(X)
        at = together[tuple(model.pairs_.T)]
        lower, upper = model.intervals_.T
        covered.append(np.mean((lower <= at) & (at <= upper)))
    assert 0.75 < np.mean(covered) <= 1.0


def test_chunks_of_rows_make_no_difference(monkeypatch):
    X = three_groups()
    parameters = {"n_clusters": 3, "covariance": "EEE", "n_bootstrap": 10, "n_references": 20, "random_state": 0}
    whole = BootGMM(**parameters).fit(X)
    monkeypatch.setattr("egmm.cluster.bootgmm.CHUNK_ENTRIES", 3 * 10 * 7)  # seven rows at a time
    parts = BootGMM(**parameters).fit(X)
    assert parts.intervals_.shape == (20 * 19 // 2, 2)
    np.testing.assert_allclose(parts.intervals_, whole.intervals_, atol=1e-6)
    np.testing.assert_allclose(parts.predict_mass(X), whole.predict_mass(X), atol=1e-4)
