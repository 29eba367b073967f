"""EGMM with a low-rank covariance, and with more features than rows."""

import json
import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from egmm import EGMM, select_model
from egmm.em.factors import most_factors


def rows_of_groups(rng, n_rows=150, dim=12, n_factors=2, apart=5.0):
    """Three groups whose features share factors."""
    labels = np.arange(n_rows) % 3
    loadings = 1.5 * rng.normal(size=(dim, n_factors))
    noise = rng.normal(size=(n_rows, n_factors)) @ loadings.T + rng.uniform(0.5, 1.5, dim) * rng.normal(
        size=(n_rows, dim)
    )
    return apart * rng.normal(size=(3, dim))[labels] + noise, labels


def low_rank(**options):
    return EGMM(3, **{"covariance": "low-rank", "random_state": 0, **options})


def test_ebic_finds_the_number_of_factors(rng):
    X, labels = rows_of_groups(rng, 400, n_factors=3)
    model = low_rank().fit(X)
    assert model.n_factors_ == 3
    assert adjusted_rand_score(labels, model.labels_) == 1
    fixed = low_rank(n_factors=3).fit(X)
    assert model.log_likelihood_ == pytest.approx(fixed.log_likelihood_, rel=1e-4)


def test_attributes_describe_the_covariance(rng):
    X, _ = rows_of_groups(rng)
    model = low_rank(n_factors=2).fit(X)
    assert (model.loadings_.shape, model.noise_variances_.shape) == ((12, 2), (12,))
    expected = model.loadings_ @ model.loadings_.T + np.diag(model.noise_variances_)
    assert model.covariances_ == pytest.approx(expected)
    assert model.focal_covariances_ == pytest.approx(expected)
    # 6 weights, 36 means, 12 variances and 12 * 2 loadings, one of them for the rotation.
    assert model.n_parameters_ == 6 + 36 + 12 + 24 - 1
    assert model.ebic_ == pytest.approx(model.log_likelihood_ - 0.5 * model.n_parameters_ * np.log(150))
    assert not hasattr(EGMM(3).fit(X), "loadings_")


def test_the_likelihood_is_that_of_the_matrix(rng, backend):
    X, _ = rows_of_groups(rng)
    model = low_rank(n_factors=2, engine=backend).fit(X)
    offsets = X[:, None] - model.focal_means_
    squares = np.einsum("njd,njd->nj", offsets @ np.linalg.inv(model.covariances_), offsets)
    log_norm = -0.5 * (np.linalg.slogdet(model.covariances_)[1] + 12 * np.log(2 * np.pi))
    joint = model.weights_ * np.exp(log_norm - 0.5 * squares)
    assert model.score_samples(X) == pytest.approx(np.log(joint.sum(axis=1)))
    assert model.predict_mass(X) == pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=1e-9)
    assert model.log_likelihood_ == pytest.approx(np.log(joint.sum(axis=1)).sum())


def test_many_factors_are_nearly_a_full_covariance(rng):
    X, labels = rows_of_groups(rng, 300, dim=10)
    options = {"reg_covar": 0.0, "focal_sets": "singletons", "init": labels}
    full = EGMM(3, **options).fit(X)
    model = low_rank(n_factors=most_factors(10), **options).fit(X)
    # Twice the difference is about chi-square with the 5 parameters that the full covariance has more.
    assert 0 < full.log_likelihood_ - model.log_likelihood_ < 10
    assert full.n_parameters_ - model.n_parameters_ == 5


def test_units_do_not_matter(rng):
    X, labels = rows_of_groups(rng)
    scale = 10.0 ** np.linspace(-3, 3, 12)
    model, other = (low_rank(n_factors=2, init=labels).fit(rows) for rows in (X, X * scale))
    assert other.predict_mass(X * scale) == pytest.approx(model.predict_mass(X), abs=1e-4)
    assert other.log_likelihood_ + 150 * np.log(scale).sum() == pytest.approx(model.log_likelihood_, abs=1e-3)


def test_there_may_be_more_features_than_rows(rng):
    X, labels = rows_of_groups(rng, 60, dim=240, apart=1.0)
    model = low_rank(init="mixture").fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1
    assert model.converged_
    assert not model.degenerate_
    assert not model.outliers(X, 0.999999).any()


@pytest.mark.parametrize("covariance", ["EII", "EEI", "VII", "VVI"])
def test_diagonal_models_form_no_matrices(rng, covariance):
    labels = np.repeat([0, 1, 2], 24)
    X = 2.0 * (rng.random((3, 2000)) < 0.05)[labels] + rng.normal(size=(72, 2000))
    tracemalloc.start()
    model = EGMM(3, covariance=covariance, init="mixture", random_state=0).fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert adjusted_rand_score(labels, model.labels_) == 1
    assert not model.degenerate_
    assert peak < 2000**2 * 8  # Bytes of one matrix of the features.


def test_a_file_holds_factors_and_not_the_matrix(rng, tmp_path):
    X, _ = rows_of_groups(rng)
    model = low_rank(n_factors=2).fit(X)
    model.save(tmp_path / "model.json")
    loaded = EGMM.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict_mass(X), model.predict_mass(X))
    assert np.array_equal(loaded.loadings_, model.loadings_)
    assert loaded.n_factors_ == 2
    document = json.loads((tmp_path / "model.json").read_text())
    assert np.shape(document["fitted"]["covariances_"]) == (12, 3)
    document["fitted"]["covariances_"][0][0] = -1.0
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="variances above 0, got -1"):
        EGMM.load(tmp_path / "model.json")


def test_rows_are_drawn_from_the_model(rng):
    X, _ = rows_of_groups(rng)
    model = low_rank(n_factors=2).fit(X)
    drawn, sets = model.sample(20_000)
    within = drawn - model.focal_means_[sets]
    unit = np.sqrt(np.diag(model.covariances_))
    assert within.T @ within / 20_000 / np.outer(unit, unit) == pytest.approx(
        model.covariances_ / np.outer(unit, unit), abs=0.05
    )


def test_fits_go_on(rng):
    X, _ = rows_of_groups(rng)
    model = low_rank(n_factors=2, warm_start=True).fit(X)
    before = model.log_likelihood_
    model.fit(X)
    assert model.log_likelihood_history_[0] == pytest.approx(before)
    assert model.log_likelihood_ == pytest.approx(before, abs=0.1)  # The ridge is that of another start.
    model.partial_fit(X)
    assert model.loadings_.shape == (12, 2)
    assert model.score(X) == pytest.approx(before / 150, abs=1e-3)


def test_a_search_compares_it(rng):
    X, _ = rows_of_groups(rng, 300)
    selection = select_model(X, [2, 3], ["EEI", "EEE", "low-rank"], covariance_by="criterion", random_state=0)
    assert (selection.n_clusters, selection.covariance) == (3, "low-rank")
    assert selection.best.n_factors_ == 2
    few = select_model(X[:40], [3], ["low-rank", "EEI"], random_state=0)
    assert all(candidate.is_sound for candidate in few.candidates)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_factors": 0}, "n_factors must be an integer >= 1, got 0"),
        ({"n_factors": "some"}, r"n_factors \(a whole number >= 1 or a name\) must be"),
        ({"n_factors": 8}, "n_factors must be an integer from 1 to 7, got 8"),
        ({"checkpoint": "state.npz"}, "checkpoint must be None with n_factors='auto'"),
    ],
)
def test_bad_parameters_are_named(rng, options, message):
    X, _ = rows_of_groups(rng)
    with pytest.raises(ValueError, match=message):
        low_rank(**options).fit(X)


def test_few_features_have_no_factors(rng):
    with pytest.raises(ValueError, match=r"needs at least 4 features.*got 3 features.*Use 'EEE'"):
        low_rank().fit(rng.normal(size=(50, 3)))


def test_groups_lost_with_few_factors_are_found_again(rng):
    """With one factor, groups follow the other; more factors must not begin there alone."""
    X, labels = rows_of_groups(rng, 60, dim=120, apart=1.0)
    model = low_rank(init="mixture").fit(X)
    given = low_rank(n_factors=2, init=labels).fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1
    assert model.ebic_ >= given.ebic_ - 0.005 * abs(given.ebic_)


def test_labels_and_links_are_evidence(rng):
    X, labels = rows_of_groups(rng, 90, apart=2.0)
    known = np.where(np.arange(90) < 15, labels, -1)
    model = low_rank(n_factors=2).fit(X, labels=known, must_link=[[30, 33]], cannot_link=[[30, 31]])
    assert (model.labels_ == labels).mean() > 0.9
    assert model.label_conflict_.shape == (90,)
