"""EGMM among other estimators and in people's hands: scikit-learn's contract, messages, progress and Ctrl-C."""

import itertools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from egmm import BPEC, ECM, EGMM, FCM, BootGMM, FocalSets, select_model
from egmm.em.problem import Problem


@pytest.fixture
def X(rng):
    return np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in ([0, 0], [4, 1], [1, 5])])


# Other people's tools --------------------------------------------------------------------------------------------


@parametrize_with_checks(
    [
        EGMM(),
        EGMM(engine="numba"),
        EGMM(3, focal_sets="full", covariance="EEI", init="random", n_init=2),
        EGMM(covariance="VVI", accelerate=False, tol=1e-4),
    ]
)
def test_scikit_learn_s_contract(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_it_ends_a_pipeline(X, output) -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    pipeline = make_pipeline(StandardScaler(), EGMM(3, random_state=0)).set_output(transform=output)
    labels = pipeline.fit_predict(frame)
    scaled = StandardScaler().fit_transform(X)
    direct = EGMM(3, random_state=0).fit(scaled)
    np.testing.assert_array_equal(labels, direct.labels_)
    np.testing.assert_allclose(pipeline.predict_proba(frame), direct.predict_proba(scaled), atol=1e-6)
    assert pipeline.score(frame) == pytest.approx(direct.log_likelihood_ / len(X), rel=1e-9)
    assert hasattr(pipeline[-1], "feature_names_in_") == (output == "pandas")


@pytest.mark.parametrize("name", ["covariances_", "focal_covariances_", "loadings_", "n_factors_"])
def test_what_only_a_fit_has_is_named_as_it_is_asked_for(name) -> None:
    with pytest.raises(AttributeError, match=rf"\b{name}(\b|')"):
        getattr(EGMM(), name)


def test_clones_have_its_parameters_and_no_fit(X) -> None:
    model = EGMM(3, focal_sets=[{0}, {1}, {2}, {0, 1}], init=X[:3], tol=1e-4).fit(X)
    copy = clone(model)
    assert copy.get_params().keys() == model.get_params().keys()
    np.testing.assert_array_equal(copy.init, X[:3])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        copy.predict(X)
    np.testing.assert_array_equal(copy.fit(X).weights_, model.weights_)


def test_a_grid_search_finds_the_number_of_clusters(X) -> None:
    search = GridSearchCV(EGMM(random_state=0, n_init=3, focal_sets="singletons"), {"n_clusters": [1, 2, 3]}, cv=3)
    search.fit(X[np.random.default_rng(0).permutation(len(X))])
    assert search.best_params_ == {"n_clusters": 3}


def test_pickles_predict_the_same(X) -> None:
    model = EGMM(3, random_state=0, engine="numba").fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_mass(X), model.predict_mass(X))
    assert again.focal_sets_ == model.focal_sets_


def test_parameters_are_never_rewritten(X) -> None:
    model = EGMM(3, init=X[:3], random_state=0, n_jobs=None, reg_covar="auto", focal_sets="neighbours")
    before = dict(model.get_params())
    model.fit(X)
    assert all(model.get_params()[name] is value for name, value in before.items())


@pytest.mark.parametrize("rows", [list, np.ndarray.tolist, pd.DataFrame], ids=["rows", "lists", "frame"])
def test_anything_array_like_is_taken(X, rows) -> None:
    np.testing.assert_array_equal(EGMM(3, random_state=0).fit(rows(X)).labels_, EGMM(3, random_state=0).fit(X).labels_)


def test_predicting_once_is_not_worth_compiling(X, monkeypatch) -> None:
    model = EGMM(3, random_state=0).fit(X)
    many = np.repeat(X, 6000, axis=0)

    def compile_now(dtype):
        raise AssertionError("compiled")

    monkeypatch.setattr("egmm.em.kernel.kernel", compile_now)
    monkeypatch.setattr("egmm.mixture_rows.is_compiled", lambda: False)
    assert len(model.predict(many)) == len(many)
    assert np.isfinite(model.score(many))
    # With a kernel at hand it is used, as it is where it was asked for.
    monkeypatch.setattr("egmm.mixture_rows.is_compiled", lambda: True)
    with pytest.raises(AssertionError, match="compiled"):
        model.predict(many)
    monkeypatch.setattr("egmm.mixture_rows.is_compiled", lambda: False)
    with pytest.raises(AssertionError, match="compiled"):
        model.set_params(engine="numba").predict(X)


# Messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters must be an integer >= 1, got 0."),
        ({"n_clusters": 2.0}, TypeError, "n_clusters must be an integer >= 1, got 2.0."),
        ({"n_clusters": True}, TypeError, "n_clusters must be an integer >= 1, got True."),
        ({"focal_sets": "triples"}, ValueError, "focal_sets must be one of 'full', 'pairs', 'singletons'"),
        ({"focal_sets": 3}, TypeError, "focal_sets must be a family name, a FocalSets or a list of sets, got 3."),
        ({"focal_sets": [{0}, {1}, {5}]}, ValueError, "focal_sets: a cluster number (counted from zero) must"),
        ({"focal_sets": [{0}, {1}, {0, 1}]}, ValueError, "cluster 3 (number 2 counted from zero) is in none."),
        ({"focal_sets": [{0}, {1}, {2}, set()]}, ValueError, "focal_sets must not hold the empty set"),
        ({"focal_sets": FocalSets.full(2)}, ValueError, "a family over 2 clusters, but n_clusters=3"),
        (
            {"focal_sets": "full", "n_clusters": 14},
            ValueError,
            "focal_sets='full' with n_clusters=14 gives 16383 focal sets; use 'pairs' (106) or pass a list.",
        ),
        ({"covariance": "XXX"}, ValueError, "covariance must be"),
        ({"init": "best"}, ValueError, "init must be one of 'kmeans', 'random', 'mixture'; got 'best'."),
        ({"init": np.zeros((2, 2))}, ValueError, "init must have shape (3, 2), got (2, 2)."),
        ({"init": [[0, 0], [1, np.nan], [2, 2]]}, ValueError, "init must be finite, but entry (1, 1) is nan."),
        ({"init": [0, 1, 2]}, ValueError, "init (labels) must have shape (180,), got (3,)."),
        (
            {"init": [[0.0, 0.0], [1.0], [2.0, 2.0]]},
            ValueError,
            "init must be one of 'kmeans', 'random', 'mixture', a label per row or a mean per cluster, got lists of un",
        ),
        ({"init": None}, ValueError, "a label per row or a mean per cluster, got None."),
        ({"init": 5}, ValueError, "a label per row or a mean per cluster, got 5."),
        ({"init": np.repeat([0, 1, 3], 60)}, ValueError, "init labels must be whole numbers from 0 to 2, got 3."),
        ({"init": np.repeat([0, 1, 0.5], 60)}, ValueError, "init labels must be whole numbers from 0 to 2, got 0.5."),
        ({"init": np.repeat([0, 0, 2], 60)}, ValueError, "init leaves cluster 2 (label 1) without rows"),
        ({"init": np.repeat(["a", "b", "c"], 60)}, TypeError, "init (labels) must be numeric"),
        ({"n_init": 0}, ValueError, "n_init must be an integer from 1 to 10000, got 0."),
        ({"tol": -1e-3}, ValueError, "tol must be a finite number in [0, inf], got -0.001."),
        ({"tol": "small"}, TypeError, "tol must be a finite number in [0, inf], got 'small'."),
        ({"tol": np.nan}, ValueError, "tol must be a finite number in [0, inf], got nan."),
        ({"max_iter": 0}, ValueError, "max_iter must be an integer >= 1, got 0."),
        ({"reg_covar": -1.0}, ValueError, "reg_covar must be a finite number in [0, inf], got -1."),
        ({"reg_covar": "some"}, ValueError, "reg_covar (a number >= 0 or a name) must be one of 'auto'; got 'some'."),
        ({"engine": "gpu"}, ValueError, "engine must be one of 'auto', 'numpy', 'numba'; got 'gpu'."),
        ({"n_jobs": 0}, ValueError, "n_jobs must be an integer >= 1, or -1 for all cores, got 0."),
        ({"accelerate": "no"}, TypeError, "accelerate must be True or False, got 'no'."),
        ({"checkpoint": 5}, TypeError, "checkpoint must be a path or None, got 5."),
        ({"warm_start": "no"}, TypeError, "warm_start must be True or False, got 'no'."),
        ({"random_state": "seed"}, ValueError, "random_state='seed': 'seed' cannot be used to seed"),
        ({"random_state": -1}, ValueError, "use None, an integer from 0 to 4294967295 or a RandomState."),
    ],
    ids=str,
)
def test_a_bad_parameter_is_named_with_what_it_should_be(X, parameters, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        EGMM(**({"n_clusters": 3} | parameters)).fit(X)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), "sample_weight must have shape (180,), got (3,)."),
        (np.where(np.arange(180) == 7, -0.5, 1.0), "sample_weight must not be negative, but row 7 has -0.5."),
        (np.where(np.arange(180) == 7, np.nan, 1.0), "sample_weight must be finite, but entry (7,) is nan."),
        (np.zeros(180), "sample_weight must not be all zero."),
        (
            np.full(180, 1e305),
            "sample_weight must have a sum from 1e-290 to 1e+150, got 1.8e+307; multiply all weights",
        ),
        (np.full(180, 1e308), "sample_weight must have a sum from 1e-290 to 1e+150, got inf; multiply all weights"),
        (np.full(180, 1e-320), "sample_weight must have a sum from 1e-290 to 1e+150, got 1.79998e-318"),
        (np.ma.masked_array(np.ones(180), np.arange(180) == 7), "sample_weight has 1 entry of 180 masked;"),
    ],
)
def test_bad_weights_are_named(X, weight, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        EGMM(3, random_state=0).fit(X, sample_weight=weight)
    with pytest.raises(ValueError, match=re.escape(message)):
        EGMM(3, random_state=0).fit(X).score(X, sample_weight=weight)


@pytest.mark.parametrize("path", ["rows.csv", Path("rows.csv")], ids=["str", "Path"])
def test_a_path_is_no_rows(X, path) -> None:
    for take in (EGMM(3).fit, EGMM(3, random_state=0).fit(X).predict, ECM(3).fit, select_model):
        with pytest.raises(
            TypeError, match=re.escape("X must be rows, got 'rows.csv'; read the file first, or pass egmm")
        ):
            take(path)


def test_methods_name_bad_arguments(X) -> None:
    model = EGMM(3, random_state=0)
    for method in ("predict", "predict_proba", "predict_mass", "score", "ebic", "icl", "outliers", "partition"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(model, method)(X)
    model.fit(X)
    with pytest.raises(ValueError, match=re.escape("quantile must be a finite number in [0, 1], got 2.")):
        model.outliers(X, quantile=2)
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1, got 0"):
        model.sample(0)
    with pytest.raises(ValueError, match="X has 1 features, but EGMM is expecting 2 features"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="out= is only for scans of files"):
        model.predict(X, out="labels.parquet")


def test_stopping_early_says_what_to_do(X) -> None:
    model = EGMM(3, random_state=0, max_iter=2)
    message = (
        "EGMM did not converge in max_iter=2 steps (tol=1e-06); raise max_iter or tol, or try fewer clusters or "
        "another start."
    )
    with pytest.warns(ConvergenceWarning, match=re.escape(message)) as caught:
        model.fit(X)
    # The warning points at the caller's line.
    assert caught[0].filename == __file__
    assert not model.converged_
    assert model.n_iter_ == 2


# Progress --------------------------------------------------------------------------------------------------------


def test_quiet_by_default(X, capfd) -> None:
    EGMM(3, random_state=0).fit(X)
    assert capfd.readouterr() == ("", "")


def test_progress_goes_to_the_error_stream(X, capsys) -> None:
    model = EGMM(3, random_state=0, verbose=1).fit(X)
    out, err = capsys.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    mean = model.log_likelihood_ / len(X)
    assert re.fullmatch(rf"EGMM [█░]{{20}} {model.n_iter_}/1000 mean log-likelihood {mean:.6f}", last)


def test_progress_counts_the_starts(X, capsys) -> None:
    EGMM(3, random_state=0, verbose=1, n_init=3).fit(X)
    assert "3 of 3 starts under way, mean log-likelihood" in capsys.readouterr().err


# Fits that fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [EGMM, ECM, FCM, BPEC, BootGMM])
def test_a_fit_that_fails_leaves_the_last_one(X, make) -> None:
    model = make(3).fit(X)
    labels, attributes = model.predict(X), set(vars(model))
    bad = [(4, X[[0, 0, 1, 1]]), (3, np.full((9, 3), np.nan)), (0, X)]
    for n_clusters, rows in bad:
        with pytest.raises(ValueError, match=r"n_clusters|n_neighbors|NaN"):
            model.set_params(n_clusters=n_clusters).fit(rows)
        assert set(vars(model)) == attributes
        np.testing.assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize("make", [EGMM, ECM, FCM, BPEC, BootGMM])
def test_a_first_fit_that_fails_is_none(X, make) -> None:
    model = make(5)
    with pytest.raises(ValueError, match=r"n_clusters|n_neighbors|rows"):
        model.fit(X[[0, 0, 1, 1]])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_interrupted_before_the_first_pass_it_is_the_last_fit(X, monkeypatch) -> None:
    model = EGMM(3, random_state=0).fit(X)
    labels = model.predict(X)
    model.set_params(n_clusters=4)
    interrupt_at(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    np.testing.assert_array_equal(model.predict(X), labels)


def test_interrupted_while_labels_are_assigned_it_is_fitted(X, monkeypatch) -> None:
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    whole, model = EGMM(3, random_state=0).fit(X), EGMM(3, random_state=0)
    monkeypatch.setattr("egmm.em.assign.labels", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    np.testing.assert_array_equal(model.means_, whole.means_)


def test_a_stream_goes_on_from_an_interrupted_fit(X, monkeypatch) -> None:
    model = EGMM(3, random_state=0).partial_fit(X)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        with pytest.raises(KeyboardInterrupt, match="best parameters so far"):
            model.fit(X + 100)
    before = model.means_
    assert np.abs(model.partial_fit(X[:1] + 100).means_ - before).max() < 1.0  # and not near the rows before


# Keeping a model -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"n_clusters": 2}, {"n_clusters": 4}, {"covariance": "EEE"}, {"covariance": "?"}])
def test_what_is_saved_is_the_fit_whatever_was_set_since(X, tmp_path, change) -> None:
    model = EGMM(3, covariance="full", random_state=0).fit(X)
    mass = model.predict_mass(X)
    model.set_params(**change).save(tmp_path / "model.json")
    loaded = EGMM.load(tmp_path / "model.json")
    assert (loaded.n_clusters, loaded.covariance) == (3, "VVV")
    np.testing.assert_array_equal(loaded.predict_mass(X), mass)
    assert model.predict_proba(X).shape == loaded.predict_proba(X).shape == (len(X), 3)


@pytest.mark.parametrize("family", ["pairs", "full", "singletons", "simple", "neighbours"])
def test_a_loaded_model_keeps_its_family_and_may_have_more_clusters(X, tmp_path, family) -> None:
    model = EGMM(3, focal_sets=family, random_state=np.int64(4)).fit(X)
    model.save(tmp_path / "model.json")
    loaded = EGMM.load(tmp_path / "model.json")
    assert loaded.focal_sets_ == model.focal_sets_
    assert loaded.get_params() == model.get_params()
    refitted = loaded.set_params(n_clusters=4).fit(X)
    np.testing.assert_array_equal(refitted.means_, model.set_params(n_clusters=4).fit(X).means_)


@pytest.mark.parametrize("since", ["simple", "full", "?", [[0], [1, 2]]])
def test_a_family_set_since_the_fit_is_not_saved(X, tmp_path, since) -> None:
    model = EGMM(20, focal_sets="singletons", max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    model.set_params(focal_sets=since).save(tmp_path / "model.json")
    assert EGMM.load(tmp_path / "model.json").focal_sets == FocalSets.singletons(20)


@pytest.mark.parametrize(("before", "after"), [("EEE", "VVV"), ("VVV", "EVE"), ("VVI", "EII")])
def test_a_loaded_model_of_another_covariance_is_no_warm_start(X, tmp_path, before, after) -> None:
    EGMM(3, covariance=before, random_state=0, warm_start=True).fit(X).save(tmp_path / "model.json")
    model = EGMM.load(tmp_path / "model.json").set_params(covariance=after).fit(X)
    np.testing.assert_array_equal(model.means_, EGMM(3, covariance=after, random_state=0).fit(X).means_)


def test_names_come_back_as_they_were(X, tmp_path) -> None:
    frame = pd.DataFrame(X, columns=[f"größe {at}" for at in range(X.shape[1])])
    model = EGMM(3, random_state=0).fit(frame)
    model.save(tmp_path / "model.json")
    names = EGMM.load(tmp_path / "model.json").feature_names_in_
    assert names.dtype == model.feature_names_in_.dtype == object
    assert names.tolist() == frame.columns.tolist()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("means_", None, "means_ must be numeric"),
        ("means_", [[0.0, 0.0]], r"means_ must have shape \(3, 2\), got \(1, 2\)"),
        ("weights_", [float("nan")] * 7, "it contains NaN, which is not a valid number"),
        ("weights_", [2.0] * 7, "weights_ must be at least 0 and sum to 1, got a sum of 14"),
        ("weights_", [-1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0], "weights_ must be at least 0 and sum to 1, got a sum of 1"),
        ("covariances_", [[1.0, 0.5], [0.2, 1.0]], "covariances_ must be symmetric"),
        ("covariances_", [[1.0, 0.0], [0.0, 0.0]], "covariances_ must have variances above 0, got 0"),
        (
            "covariances_",
            [[1.0, 2.0], [2.0, 1.0]],
            r"covariances_ must be positive definite \(smallest eigenvalue -1\)",
        ),
        ("covariances_", [[10**400, 0], [0, 1]], "covariances_ must be numeric"),
        ("focal_means_", [[0.0, 0.0]] * 7, "focal_means_ and focal_covariances_ do not follow from means_ and cov"),
        ("focal_covariances_", [[9.0, 0.0], [0.0, 9.0]], "focal_means_ and focal_covariances_ do not follow"),
        ("ebic_", float("inf"), "it contains Infinity"),
        ("ebic_", 10**400, "ebic_ must be a finite number"),
        (
            "ebic_",
            -1e300,
            "log_likelihood_, ebic_ and n_parameters_ are inconsistent",
        ),
        ("log_likelihood_", "many", "log_likelihood_ must be a finite number"),
        ("log_likelihood_history_", [1.0], r"log_likelihood_history_ must have \d+ values, got 1"),
        ("n_parameters_", 0, "n_parameters_ must be an integer >= 1, got 0"),
        ("n_iter_", -1, "n_iter_ must be an integer >= 0, got -1"),
        ("converged_", 1, "converged_ must be true or false, got 1"),
        ("n_features_in_", 2.5, "n_features_in_ must be an integer >= 1"),
        ("feature_names_in_", ["a"], "feature_names_in_ must be 2 names"),
        ("covariances_", [1.0, 2.0], r"covariances_ must have shape \(2, 2\), got \(2,\)"),
        ("focal_means_", "gone", "it has no entry 'focal_means_'"),
        ("entropy_", "gone", "'entropy_'"),
    ],
)
def test_a_file_that_is_no_whole_model_is_refused(X, tmp_path, name, value, message) -> None:
    path = tmp_path / "model.json"
    EGMM(3, random_state=0).fit(X).save(path)
    document = json.loads(path.read_text())
    document["fitted"][name] = value
    if value == "gone":
        del document["fitted"][name]
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=rf"model\.json holds no EGMM model: .*{message}"):
        EGMM.load(path)


BAD_FILES = {
    "deep": ("[" * 100_000, "it is nested too deeply"),
    "giant": ('{"format": 1' + "0" * 5000 + "}", "Exceeds the limit"),
    "list": ("[]", "it must be a JSON object, got a list"),
    "parameters": ('{"format": "egmm.EGMM/1", "parameters": [], "fitted": {}}', "'parameters' must be an object"),
    "bytes": ("\udcff", "can't decode byte"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_is_no_model_says_why(tmp_path, text, message) -> None:
    (tmp_path / "model.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=f"model.json holds no EGMM model: .*{message}"):
        EGMM.load(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "checkpoint",
            "/etc/passwd",
            "checkpoint must be null",
        ),
        ("speed", 3, "unexpected keyword argument 'speed'"),
        ("tol", -1, "tol must be a finite number"),
        ("covariance", "XXX", "covariance must be one of"),
    ],
)
def test_a_file_with_other_parameters_is_refused(X, tmp_path, name, value, message) -> None:
    path = tmp_path / "model.json"
    EGMM(3, random_state=0).fit(X).save(path)
    document = json.loads(path.read_text())
    document["parameters"][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=f"model.json holds no EGMM model: .*{message}"):
        EGMM.load(path)


def test_a_place_that_cannot_be_written_to_is_named(X, tmp_path) -> None:
    model = EGMM(3, random_state=0).fit(X)
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*/nowhere/model\.json'$"):
        model.save(tmp_path / "nowhere" / "model.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match=r"Is a directory: '.*/folder'$"):
        model.save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


# Ctrl-C ----------------------------------------------------------------------------------------------------------


def interrupt_at(monkeypatch, n_passes: int) -> None:
    """Raise KeyboardInterrupt inside the n-th pass over the rows."""
    calls = itertools.count(1)
    evaluate = Problem.evaluate

    def interrupted(self, params):
        if next(calls) == n_passes:
            raise KeyboardInterrupt
        return evaluate(self, params)

    monkeypatch.setattr(Problem, "evaluate", interrupted)


@pytest.mark.parametrize("options", [{}, {"focal_sets": "neighbours"}, {"n_init": 4}, {"accelerate": False}], ids=str)
@pytest.mark.parametrize("n_passes", [3, 7])
def test_interrupted_the_best_so_far_is_usable(X, monkeypatch, options, n_passes) -> None:
    model = EGMM(3, random_state=0, **options)
    interrupt_at(monkeypatch, n_passes)
    with pytest.raises(KeyboardInterrupt, match=r"fit stopped at step \d+; the model holds the best parameters so far"):
        model.fit(X)
    assert not model.converged_
    assert model.log_likelihood_ == model.log_likelihood_history_[-1]
    assert len(model.log_likelihood_history_) == model.n_iter_ + 1
    assert np.diff(model.log_likelihood_history_).min() > -1e-6
    np.testing.assert_allclose(model.predict_mass(X).sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.score(X) * len(X) == pytest.approx(model.log_likelihood_, rel=1e-9)


def test_interrupted_with_some_starts_at_their_end_it_has_not_converged(X, monkeypatch) -> None:
    first = EGMM(3, random_state=0).fit(X)
    assert first.converged_
    calls, evaluate = itertools.count(1), Problem.evaluate
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "evaluate", lambda self, params: next(calls) and evaluate(self, params))
        EGMM(3, random_state=0, n_init=50).fit(X)
    interrupt_at(monkeypatch, next(calls) - 1)
    model = EGMM(3, random_state=0, n_init=50)
    with pytest.raises(KeyboardInterrupt, match="the model holds the best parameters so far"):
        model.fit(X)
    assert model.log_likelihood_ >= first.log_likelihood_ - 1e-6
    assert not model.converged_


def test_interrupted_before_the_first_pass_it_is_not_fitted(X, monkeypatch) -> None:
    model = EGMM(3, random_state=0)
    interrupt_at(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert not hasattr(model, "means_")


INTERRUPTED = """
import sys
import numpy as np
from egmm import EGMM
rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(m, 1, (40_000, 3)) for m in (0, 0.5, 1)])
model = EGMM(3, focal_sets="full", random_state=0, tol=0.0, accelerate=False, max_iter=10**6, engine="numpy", verbose=1)
try:
    model.fit(X)
except KeyboardInterrupt as error:
    off = model.score(X) * len(X) - model.log_likelihood_
    print(error, model.converged_, model.n_iter_, len(model.labels_), f"{abs(off):.1f}")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of other systems")
def test_a_real_interrupt_stops_threads_and_leaves_a_model() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    # The first line of progress says that the passes are under way.
    assert "mean log-likelihood" in process.stderr.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    message = r"fit stopped at step (\d+); the model holds the best parameters so far False (\d+) 120000 0.0\n"
    found = re.fullmatch(message, out)
    assert found, out + err
    assert found[1] == found[2]
    assert int(found[1]) >= 1
