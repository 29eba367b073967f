"""EGMM on rows that are in no cluster: noise on the empty set, and heavy tails."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_t
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from egmm import EGMM, select_model
from egmm.em.covariance import MODELS

CHEVRON = json.loads((Path(__file__).parent / "reference" / "mclust_noise.json").read_text())


def collapses(estimator):
    """Checks that heavy tails cannot pass."""
    why = "repeated rows of 30 features: t collapse onto them, and rounding decides where such a fit ends"
    return {"check_sample_weight_equivalence_on_dense_data": why} if estimator.tails == "t" else {}


@parametrize_with_checks([EGMM(noise=True), EGMM(tails="t")], expected_failed_checks=collapses)
def test_scikit_learn_s_contract(estimator, check) -> None:
    check(estimator)


def three_in_noise(seed, n_rows=300):
    """Three Gaussians with 5 % of uniform noise around them; labels, -1 for noise."""
    rng = np.random.default_rng(seed)
    rows = [rng.normal(mean, 1, (n_rows, 2)) for mean in ([0, 0], [8, 0], [4, 7])]
    n_noise = round(3 * n_rows * 0.05 / 0.95)
    labels = np.repeat([0, 1, 2, -1], [n_rows, n_rows, n_rows, n_noise])
    return np.concatenate([*rows, rng.uniform(-28, 36, (n_noise, 2))]), labels


@pytest.fixture(scope="module")
def noisy():
    return three_in_noise(0)


@pytest.fixture(scope="module")
def model(noisy):
    return EGMM(3, noise=True, random_state=0).fit(noisy[0])


# Noise -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("covariance", "init"), [("EII", "mixture"), ("EEE", "kmeans"), ("VVV", "mixture")])
@pytest.mark.parametrize("seed", range(4))
def test_three_gaussians_are_found_in_noise(seed, covariance, init):
    X, labels = three_in_noise(seed)
    model = EGMM(3, noise=True, covariance=covariance, init=init, random_state=0).fit(X)
    is_noise, is_row = model.partition(X).outliers(), labels >= 0
    assert adjusted_rand_score(labels[is_row], model.labels_[is_row]) >= 0.95
    assert is_noise[~is_row].mean() >= 0.8
    assert is_noise[is_row].mean() <= 0.02
    np.testing.assert_array_equal(model.outliers(X), is_noise)
    assert model.weights_[0] == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("covariance", MODELS)
def test_reaches_what_mclust_reaches_with_noise(data_directory, covariance):
    table = np.genfromtxt(data_directory / "field" / "chevron.csv", delimiter=",", dtype=str, skip_header=1)
    X, is_noise = table[:, 1:].astype(float), np.char.strip(table[:, 0], '"') == "noise"
    start = np.where(is_noise, -1, (X[:, 1] > X[~is_noise, 1].mean()).astype(int))
    peer = CHEVRON[covariance]
    options = {"focal_sets": "singletons", "init": start, "tol": 1e-13, "reg_covar": 0.0}
    found = EGMM(2, noise=True, covariance=covariance, **options).fit(X)
    # mclust stops inside the M-step of VVE.
    assert found.log_likelihood_ == pytest.approx(peer["log_likelihood"], abs=5e-4 if covariance == "VVE" else 5e-6)
    np.testing.assert_allclose(found.weights_, np.roll(peer["weights"], 1), atol=3e-5)
    np.testing.assert_allclose(found.means_, peer["means"], atol=0.01)
    assert (found.predict_sets(X) == 0).sum() == peer["n_noise"]
    assert found.n_parameters_ == peer["n_parameters"]


def test_the_empty_set_comes_first_and_the_box_is_the_rows(model, noisy):
    X, _ = noisy
    assert model.focal_sets_.labels[0] == "∅"
    np.testing.assert_array_equal(model.noise_box_, [X.min(axis=0), X.max(axis=0)])
    np.testing.assert_allclose(model.focal_means_[0], model.noise_box_.mean(axis=0))
    mass = model.predict_mass(X)
    np.testing.assert_allclose(mass.sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.predict_mass([[1e6, -1e6]])[0, 0] == pytest.approx(1)


def test_far_rows_are_noise_of_no_cluster(model):
    far = [[1e100, 1e100]]
    assert model.predict_mass(far)[0, 0] == 1
    np.testing.assert_allclose(model.predict_proba(far), 1 / 3)


def test_units_and_order_of_the_features_do_not_matter(noisy, model):
    X, _ = noisy
    scaled = X[:, ::-1] * [1e-6, 1e5] + [3, -7]
    other = EGMM(3, noise=True, random_state=0).fit(scaled)
    np.testing.assert_allclose(np.sort(other.weights_), np.sort(model.weights_), atol=1e-4)
    np.testing.assert_allclose(other.predict_mass(scaled)[:, 0], model.predict_mass(X)[:, 0], atol=1e-3)


@pytest.mark.parametrize("options", [{"noise": True}, {"tails": "t"}])
def test_weights_are_repeated_rows(noisy, options):
    X, labels = noisy
    weight = np.arange(len(X)) % 3
    init = np.maximum(labels, 0)
    one = EGMM(3, init=init, tol=1e-9, **options).fit(X, sample_weight=weight)
    two = EGMM(3, init=np.repeat(init, weight), tol=1e-9, **options).fit(np.repeat(X, weight, axis=0))
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-5)


@pytest.mark.parametrize("covariance", ["EEI", "EEE", "VVV"])
def test_engines_agree(noisy, covariance):
    X, _ = noisy
    one, two = (EGMM(3, noise=True, covariance=covariance, random_state=0, engine=e).fit(X) for e in ("numpy", "numba"))
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(one.predict_mass(X), two.predict_mass(X), atol=1e-5)


@pytest.mark.parametrize("options", [{"noise": True}, {"noise": True, "covariance": "VVV"}, {"tails": "t"}])
def test_kept_in_a_file_it_says_the_same_and_goes_on(noisy, tmp_path, options):
    X, _ = noisy
    model = EGMM(3, random_state=0, **options).fit(X)
    model.save(tmp_path / "model.json")
    again = EGMM.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_mass(X), model.predict_mass(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(again.outliers(X), model.outliers(X))
    assert again.get_params()["focal_sets"] == "pairs"
    again.partial_fit(X)
    model.partial_fit(X)
    for other in (again, model):
        np.testing.assert_allclose(other.weights_, EGMM.load(tmp_path / "model.json").weights_, atol=0.02)
    np.testing.assert_allclose(again.means_, model.means_, atol=0.1)


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
def test_draws_are_of_the_model(model, covariance, noisy):
    model = EGMM(3, noise=True, covariance=covariance, random_state=0).fit(noisy[0])
    X, sets = model.sample(20_000)
    assert np.mean(sets == 0) == pytest.approx(model.weights_[0], abs=0.005)
    lower, upper = model.noise_box_
    draws = X[sets == 0]
    assert (draws >= lower).all()
    assert (draws <= upper).all()
    np.testing.assert_allclose(draws.mean(axis=0), (lower + upper) / 2, atol=3)
    assert model.score(X) == pytest.approx(model.log_likelihood_ / len(noisy[0]), abs=0.1)


def test_noise_costs_two_parameters(noisy):
    X, _ = noisy
    assert EGMM(3, noise=True).fit(X).n_parameters_ == EGMM(3).fit(X).n_parameters_ + 2


def test_a_search_may_have_noise(noisy):
    found = select_model(noisy[0], [2, 3, 4], "EEE", noise=True, random_state=0)
    assert found.best.n_clusters == 3
    assert found.best.focal_sets_.has_empty


@pytest.mark.parametrize("focal_sets", ["neighbours", [set(), {0}, {1}, {2}], "singletons"])
def test_families_get_the_empty_set(noisy, focal_sets):
    found = EGMM(3, focal_sets=focal_sets, noise=True, random_state=0).fit(noisy[0])
    assert found.focal_sets_.has_empty
    assert found.outliers(noisy[0]).mean() == pytest.approx(0.05, abs=0.01)


def test_what_noise_cannot_have_is_said(noisy):
    X, labels = noisy
    with pytest.raises(ValueError, match="column 1 has the value 3 in all rows"):
        EGMM(noise=True).fit(np.c_[X[:, 0], np.full(len(X), 3.0)])
    with pytest.raises(TypeError, match="noise must be True or False, got 1"):
        EGMM(noise=1).fit(X)
    with pytest.raises(ValueError, match="noise=True gives it a uniform one"):
        EGMM(2, focal_sets=[set(), {0}, {1}]).fit(X)
    with pytest.raises(ValueError, match="from 0 to 2, got -1"):
        EGMM(3, init=labels).fit(X)
    with pytest.raises(ValueError, match="from -1 to 2, got -2"):
        EGMM(3, noise=True, init=np.where(labels < 0, -2, labels)).fit(X)


def test_a_damaged_file_is_refused(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    document = json.loads(path.read_text())
    for change, match in [
        ({"noise_box_": [[0, 0], [0, 1]]}, "no volume"),
        ({"noise_box_": [[0, 0], [1, 1]]}, "do not follow"),
        ({"degrees_of_freedom_": 3.0}, "contradicts"),
    ]:
        path.write_text(json.dumps(document | {"fitted": document["fitted"] | change}))
        with pytest.raises(ValueError, match=match):
            EGMM.load(path)
    without = document | {"parameters": document["parameters"] | {"noise": False}}
    path.write_text(json.dumps(without))
    with pytest.raises(ValueError, match="noise=False contradicts the focal sets"):
        EGMM.load(path)


# Heavy tails -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize(
    ("focal_sets", "degrees", "log_likelihood"), [("singletons", 6.36, -1734.652), ("pairs", 6.09, -1734.487)]
)
def test_degrees_of_freedom_of_fourclass(data_directory, focal_sets, degrees, log_likelihood, accelerate):
    X = np.loadtxt(data_directory / "belief" / "fourclass.csv", delimiter=",", skiprows=1)[:, :2]
    options = {"focal_sets": focal_sets, "accelerate": accelerate, "tol": 1e-10, "reg_covar": 0.0, "max_iter": 5000}
    model = EGMM(4, tails="t", random_state=0, **options).fit(X)
    assert model.degrees_of_freedom_ == pytest.approx(degrees, abs=5e-3)
    assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=5e-4)
    assert model.n_parameters_ == EGMM(4, focal_sets=focal_sets).fit(X).n_parameters_ + 1
    assert model.score(X) * len(X) == pytest.approx(model.log_likelihood_)


def test_densities_and_draws_are_those_of_t(noisy):
    X, _ = noisy
    model = EGMM(3, tails="t", focal_sets="singletons", random_state=0).fit(X)
    parts = [
        weight * multivariate_t(mean, model.covariances_, model.degrees_of_freedom_).pdf(X)
        for weight, mean in zip(model.weights_, model.means_, strict=True)
    ]
    np.testing.assert_allclose(model.score_samples(X), np.log(np.sum(parts, axis=0)), rtol=1e-9)
    np.testing.assert_allclose(model.predict_mass(X), np.transpose(parts / np.sum(parts, axis=0)), atol=1e-9)
    draws, _ = model.sample(50_000)
    assert model.outliers(draws, 0.99).mean() == pytest.approx(0.01, abs=0.004)


def test_what_tails_cannot_have_is_said(noisy):
    X, _ = noisy
    with pytest.raises(ValueError, match="EII, EEI, EEE, got covariance='VVV'"):
        EGMM(3, tails="t", covariance="VVV").fit(X)
    with pytest.raises(ValueError, match="choose one of them"):
        EGMM(3, tails="t", noise=True).fit(X)
    with pytest.raises(ValueError, match="tails must be one of 'gaussian', 't'"):
        EGMM(3, tails="heavy").fit(X)


@pytest.mark.parametrize("options", [{"noise": True}, {"tails": "t"}])
def test_a_warm_start_goes_on(noisy, options):
    X, _ = noisy
    model = EGMM(3, random_state=0, warm_start=True, tol=1e-9, **options).fit(X)
    before = model.log_likelihood_
    assert model.fit(X).n_iter_ < 12
    assert model.log_likelihood_ >= before - 1e-6
