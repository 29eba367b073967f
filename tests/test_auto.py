import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import egmm
from checks import CHECKS
from egmm import EGMM, AutoEGMM, CredalPartition, select_model
from egmm.belief import consensus
from egmm.datasets import make_four_class, make_two_class

SOME = ["EII", "EEE", "VVV", "VII"]


def groups(seed=0, n=60, means=((0, 0), (4, 1), (1, 5))):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(mean, 1, (n, 2)) for mean in means])


@pytest.fixture(scope="module")
def X():
    return groups()


@pytest.fixture(scope="module")
def model(X):
    return AutoEGMM(range(1, 6), covariance=SOME, random_state=0).fit(X)


@pytest.mark.filterwarnings("ignore:The best number of clusters, 6, is the largest tried")  # a cluster of repeated rows
@parametrize_with_checks([AutoEGMM(range(1, 7), covariance=["EII", "EEE"])])
def test_scikit_learn_s_contract(estimator, check):
    check(estimator)


STARTS = {
    "report_of_the_fit_is_complete",
    "too_few_iterations_are_reported",
    "bad_parameters_are_refused",
    "given_prototypes_are_the_start",
}
"""Checks of starts and tolerances, which a search has not."""


@pytest.mark.parametrize("check", [c for c in CHECKS if c.__name__ not in STARTS], ids=lambda check: check.__name__)
def test_it_keeps_the_contract_of_all_clusterers(check):
    check(AutoEGMM([2, 3, 4, 5], covariance=["EII", "EEE"], random_state=0))


def test_it_is_the_consensus_of_the_sound_models(X, model):
    selection = select_model(X, [3], SOME, random_state=0)
    ranked = sorted((c for c in selection.candidates if c.is_sound), key=lambda c: -c.value("ebic"))
    weights = [0.85**rank * c.agreement for rank, c in enumerate(ranked)]
    reference = model.best_.partition(X)
    sources = [c.model.partition(X).align(reference) for c in ranked]
    expected = consensus(sources, weights)
    assert model.n_clusters_ == 3
    np.testing.assert_allclose(model.predict_mass(X), expected.mass, atol=1e-4)
    assert model.focal_sets_ == expected.focal_sets
    shares = dict(zip([c.covariance for c in ranked], np.array(weights) / sum(weights), strict=True))
    assert model.model_weights_ == pytest.approx(shares, abs=1e-4)


def test_what_it_says_of_rows_agrees(X, model):
    partition = model.partition(X)
    assert isinstance(partition, CredalPartition)
    np.testing.assert_array_equal(partition.labels(), model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_allclose(partition.pignistic(), model.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(model.predict_sets(X), partition.sets())
    np.testing.assert_array_equal(model.predict_sets(X, rule="utility"), partition.sets("utility"))
    assert model.open_share_ == pytest.approx(partition.is_open("utility").mean())
    assert model.outliers(X).shape == (len(X),)
    np.testing.assert_array_equal(clone(model).fit_predict(X), model.labels_)


def test_the_density_is_that_of_the_mixture_of_models(X, model):
    selection = select_model(X, [3], SOME, random_state=0)
    density = sum(model.model_weights_[c.covariance] * np.exp(c.model.score_samples(X)) for c in selection.candidates)
    np.testing.assert_allclose(model.score_samples(X), np.log(density), atol=1e-3)
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())


def test_without_consensus_it_is_the_selected_model(X):
    alone = AutoEGMM(range(1, 6), covariance=SOME, consensus=False, random_state=0).fit(X)
    np.testing.assert_array_equal(alone.predict_mass(X), alone.best_.predict_mass(X))
    assert alone.focal_sets_ == alone.best_.focal_sets_
    assert alone.model_weights_ == {alone.best_.covariance: 1.0}


@pytest.mark.parametrize("kind", ["normal", "t5", "ball"])
def test_noise_has_no_cluster_structure(kind):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 2))
    if kind == "t5":
        X /= np.sqrt(rng.chisquare(5, (300, 1)) / 5)
    if kind == "ball":
        X *= np.sqrt(rng.random((300, 1))) / np.linalg.norm(X, axis=1, keepdims=True)
    model = AutoEGMM(range(1, 5), covariance=SOME, random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert model.open_share_ == 0
    assert "No cluster structure found" in model.summary()


@pytest.mark.slow
@pytest.mark.parametrize(("make", "count"), [(make_two_class, 2), (make_four_class, 4)])
def test_the_papers_examples_keep_their_clusters(make, count):
    assert AutoEGMM(range(1, 7), random_state=0).fit(make(random_state=0)[0]).n_clusters_ == count


def test_a_single_number_of_clusters_is_given_not_found(X):
    model = AutoEGMM(1, covariance="EII", random_state=0).fit(X)
    assert model.notes_ == ()
    assert model.summary().startswith("AutoEGMM found 1 cluster (")


def test_rows_that_are_noise_in_every_model_have_no_mass_elsewhere():
    # Weights of the models sum to one up to rounding; what is left for the clusters must not be negative.
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(at, 1, (60, 2)) for at in (0, 9)] + [rng.uniform(-30, 40, (6, 2))])
    model = AutoEGMM(2, noise=True, random_state=0).fit(X)
    mass = model.predict_mass([[39.0, -29.0]])
    np.testing.assert_allclose(mass, [[1, 0, 0, 0]], atol=1e-9)
    assert mass.min() >= 0


def test_the_end_of_the_range_is_told(X):
    with pytest.warns(UserWarning, match="The best number of clusters, 3, is the largest tried"):
        model = AutoEGMM([1, 2, 3], covariance="EEE", random_state=0).fit(X)
    assert "largest tried" in model.summary()


def test_close_numbers_of_clusters_are_both_named():
    # Two groups that nearly touch: one cluster and two are within an EBIC of 3 of each other for some distance.
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(80, 1))
    told = []
    for distance in np.linspace(1.5, 3.5, 9):
        X = noise + distance * (np.arange(80) % 2)[:, None]
        model = AutoEGMM([1, 2, 3], covariance="E", random_state=0).fit(X)
        values = {c.n_clusters: c.value("ebic") for c in model.selection_.candidates if c.is_sound}
        own = values.pop(model.n_clusters_)
        close = [count for count, value in values.items() if abs(value - own) < 3]
        if close:
            told.append(model.n_clusters_)
            assert all(f"{count} (EBIC" in model.notes_[-1] for count in close)
    assert told


def test_a_range_without_a_sound_model_says_why_each_failed():
    with pytest.raises(ValueError, match=r"No candidate gave a sound fit \(3 VVV, 4 VVV: degenerate"):
        AutoEGMM([3, 4], covariance="VVV").fit(groups()[::30])
    with pytest.raises(ValueError, match=r"3 EEE: .*needs more rows than features.*; 3 EII, 3 VII: degenerate"):
        AutoEGMM([3], covariance=["EII", "VII", "EEE"]).fit(np.random.default_rng(0).normal(size=(5, 6)))


def test_a_weight_counts_as_repeating_a_row(X):
    weight = np.tile([1.0, 2.0, 1.0], 60)
    options = {"covariance": ["EII", "EEE"], "random_state": 0}
    weighted = AutoEGMM([2, 3, 4, 5], **options).fit(X, sample_weight=weight)
    repeated = AutoEGMM([2, 3, 4, 5], **options).fit(np.repeat(X, weight.astype(int), axis=0))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3)


def test_data_frames_keep_their_names(X, tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {i}" for i in range(len(X))])
    model = AutoEGMM(range(1, 6), covariance=["EII", "EEE"], random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert list(model.partition(frame).table().index) == list(frame.index)
    model.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "c"}))
    model.save(tmp_path / "auto.json")
    assert list(AutoEGMM.load(tmp_path / "auto.json").feature_names_in_) == ["a", "b"]


def test_files_bring_everything_back(X, model, tmp_path):
    model.save(tmp_path / "auto.json")
    loaded = AutoEGMM.load(tmp_path / "auto.json")
    np.testing.assert_array_equal(loaded.predict_mass(X), model.predict_mass(X))
    assert loaded.summary() == model.summary()
    assert loaded.model_weights_ == model.model_weights_
    assert loaded.get_params() == {**model.get_params(), "n_clusters": [1, 2, 3, 4, 5]}
    assert loaded.n_clusters_ == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("models"), "it has no entry 'models'"),
        (lambda d: d.update(models=[]), "its list of models is empty"),
        (lambda d: d.update(models=None), "its list of models is empty"),
        (lambda d: d.update(weights=[1.0]), r"weights must have shape \(\d,\), got \(1,\)"),
        (lambda d: d.update(weights=[2.0, -1.0, *[0.0] * (len(d["weights"]) - 2)]), "weights must be at least 0 and"),
        (lambda d: d.update(weights=[10**400] * len(d["weights"])), "weights must be numeric"),
        (lambda d: d.update(weights=["1"] * len(d["weights"])), "weights must be numeric"),
        (lambda d: d["clusters"].__setitem__(0, [0.5, 1, 2]), "clusters must hold each of the numbers 0 to 2 once"),
        (lambda d: d["clusters"].__setitem__(0, [0, 1, 10**30]), "clusters must be numeric"),
        (lambda d: d.update(united="no"), "united must be true or false, got 'no'"),
        (lambda d: d.update(n_clusters=17), "n_clusters is 17, but its models have 3"),
        (lambda d: d.update(open_share=7.0), r"open_share must be a finite number in \[0, 1\], got 7"),
        (lambda d: d.update(open_share=math.nan), "it contains NaN, which is not a valid number"),
        (lambda d: d.update(notes="no"), "notes must be a list of text"),
        (lambda d: d.update(feature_names=["a"]), "feature_names must be 2 names"),
        (lambda d: d.update(feature_names=[1, 2]), "feature_names must be 2 names"),
        (lambda d: d.update(parameters=[]), "its entry 'parameters' must be an object, got a list"),
        (lambda d: d["parameters"].update(speed=3), "unexpected keyword argument 'speed'"),
        (lambda d: d["parameters"].update(n_jobs="all"), "n_jobs must be an integer >= 1, or -1"),
        (lambda d: d["parameters"].update(random_state="r"), "random_state='r'"),
        (lambda d: d["models"][0]["fitted"]["weights_"].__setitem__(0, 3.0), "model 1 is damaged: weights_ must be at"),
        (lambda d: d["models"][1]["parameters"].update(checkpoint="/etc/x"), "model 2 is damaged: checkpoint must be"),
        (lambda d: d["models"].__setitem__(1, {}), "model 2 is damaged: it has no entry 'format'"),
        (lambda d: d["models"].__setitem__(1, d["models"][0]), "its models must differ in their covariance alone"),
        (lambda d: d.update(format="egmm.EGMM/1"), "its format is 'egmm.EGMM/1'"),
    ],
)
def test_a_file_that_is_no_whole_model_is_refused(model, tmp_path, change, message):
    path = tmp_path / "auto.json"
    model.save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=f"auto.json holds no AutoEGMM model: .*{message}"):
        AutoEGMM.load(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": "egmm.AutoEGMM/1", "models": ' + "[" * 100_000])
def test_a_file_nested_too_deeply_is_refused(tmp_path, text):
    (tmp_path / "auto.json").write_text(text)
    with pytest.raises(ValueError, match=r"auto\.json holds no AutoEGMM model: it is nested too deeply"):
        AutoEGMM.load(tmp_path / "auto.json")


@pytest.mark.parametrize("other", ["noise", "features", "clusters"])
def test_models_of_different_kinds_are_no_consensus(X, model, tmp_path, other):
    rows = np.column_stack([X, X[:, 0] - X[:, 1] ** 2]) if other == "features" else X
    strange = EGMM(2 if other == "clusters" else 3, covariance="EEI", noise=other == "noise", random_state=0).fit(rows)
    strange.save(tmp_path / "other.json")
    model.save(tmp_path / "auto.json")
    document = json.loads((tmp_path / "auto.json").read_text())
    document["models"][1] = json.loads((tmp_path / "other.json").read_text())
    (tmp_path / "auto.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="its models must differ in their covariance alone"):
        AutoEGMM.load(tmp_path / "auto.json")


def test_numbers_of_numpy_as_parameters_are_saved(X, tmp_path):
    options = {"max_iter": np.int64(200), "reg_covar": np.float32(0.5), "random_state": np.int64(3)}
    model = AutoEGMM(np.arange(2, 5), covariance=np.array(["EII", "EEE"]), consensus=np.True_, **options).fit(X)
    model.save(tmp_path / "auto.json")
    loaded = AutoEGMM.load(tmp_path / "auto.json")
    assert loaded.get_params()["max_iter"] == 200
    assert loaded.get_params()["reg_covar"] == 0.5
    assert loaded.get_params()["random_state"] == 3
    np.testing.assert_array_equal(loaded.predict_mass(X), model.predict_mass(X))


def test_scans_are_read_where_they_are(X, model, tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = egmm.scan(tmp_path / "rows.parquet")
    scanned = AutoEGMM(range(1, 6), covariance=SOME, random_state=0).fit(rows)
    assert scanned.n_clusters_ == 3
    assert list(scanned.feature_names_in_) == ["a", "b"]
    masses = CredalPartition.load(scanned.partition(rows, tmp_path / "masses.parquet"))
    np.testing.assert_allclose(masses.align(model.partition(X)).mass, model.partition(X).mass, atol=1e-2)
    np.testing.assert_array_equal(scanned.predict(rows), masses.labels())
    with pytest.raises(TypeError, match="X must be rows in memory for stability"):
        scanned.stability(rows)


def test_dask_collections_stay_lazy(X, model):
    dask = pytest.importorskip("dask.array")
    rows = dask.from_array(X, chunks=(60, 2))
    found = model.predict_mass(rows)
    assert hasattr(found, "compute")
    np.testing.assert_allclose(found.compute(), model.predict_mass(X), atol=1e-12)
    assert model.predict_sets(rows, rule="utility").compute().dtype == np.bool_
    fitted = AutoEGMM([2, 3, 4], covariance=["EII", "EEE"], random_state=0).fit(rows)
    assert fitted.n_clusters_ == 3
    assert not hasattr(fitted, "labels_")


def test_stability_tells_what_subsamples_have_in_common(X, model):
    found = model.stability(X, n_subsamples=4)
    assert found.n_clusters.tolist() == [3, 3, 3, 3]
    assert found.ari > 0.9
    assert found.open_share.shape == (4,)
    assert str(found).startswith("Fits to 4 subsamples: ARI ")
    again = model.stability(X, n_subsamples=3)
    assert [note for note in model.notes_ if note.startswith("Fits to")] == [str(again)]
    with pytest.raises(ValueError, match="n_subsamples must be an integer >= 2, got 1"):
        model.stability(X, n_subsamples=1)


def test_bad_arguments_are_named(X):
    with pytest.raises(NotFittedError):
        AutoEGMM().predict(X)
    with pytest.raises(ValueError, match="consensus must be"):
        AutoEGMM([2], consensus="maybe").fit(X)
    with pytest.raises(ValueError, match="n_clusters must be an integer >= 1, got 0"):
        AutoEGMM([0, 1]).fit(X)
    bad = X.copy()
    bad[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity at row 3"):
        AutoEGMM([2]).fit(bad)


@pytest.mark.parametrize("consensus", [True, False])
def test_noise_is_found_where_ebic_says_so(rng, tmp_path, consensus) -> None:
    clean = np.concatenate([rng.normal(mean, 1, (80, 2)) for mean in ([0, 0], [8, 0], [4, 7])])
    X = np.concatenate([clean, rng.uniform(-28, 36, (13, 2))])
    options = {"covariance": ["EII", "EEE"], "consensus": consensus, "random_state": 0}
    model = AutoEGMM(range(1, 5), noise="auto", **options).fit(X)
    assert model.n_clusters_ == 3
    assert model.focal_sets_.has_empty
    partition = model.partition(X)
    np.testing.assert_allclose(partition.mass.sum(axis=1), 1)
    assert partition.outliers()[240:].mean() >= 0.8
    assert partition.outliers()[:240].mean() <= 0.02
    model.save(tmp_path / "model.json")
    np.testing.assert_array_equal(AutoEGMM.load(tmp_path / "model.json").predict_mass(X), partition.mass)
    assert not AutoEGMM(range(1, 5), noise="auto", **options).fit(clean).focal_sets_.has_empty
    assert AutoEGMM(3, noise=True, **options).fit(clean).focal_sets_.has_empty


def test_what_noise_may_be_is_said(rng) -> None:
    with pytest.raises(ValueError, match="noise must be one of 'True', 'False', 'auto'; got 'some'"):
        AutoEGMM(noise="some").fit(rng.normal(size=(20, 2)))
