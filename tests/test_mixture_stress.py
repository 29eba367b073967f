"""EGMM on data that break careless arithmetic, each case by every engine."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import oracles
from checks import nearly_equal_rows
from egmm import EGMM
from egmm.em.covariance import COMMON_UNITS, MODELS

ROTATED = ("EVE", "VVE", "EEV", "VEV")
"""Models whose axes depend on the units of features."""


@pytest.fixture
def blobs(rng):
    """Three groups of 60 rows in two features, and their labels."""
    X = np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in ([0, 0], [4, 1], [1, 5])])
    return X, np.repeat([0, 1, 2], 60)


def assert_sound(model: EGMM, X) -> None:
    """Nothing is infinite or NaN, and all that should sum to one does."""
    for name in ("weights_", "means_", "covariances_", "log_likelihood_history_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert (model.weights_ >= 0).all()
    assert model.weights_.sum() == pytest.approx(1, abs=1e-12)
    deviations = np.sqrt(np.diag(model.covariances_))
    assert np.linalg.eigvalsh(model.covariances_ / np.outer(deviations, deviations)).min() > 0
    mass = model.predict_mass(X)
    assert (mass >= 0).all()
    np.testing.assert_allclose(mass.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.score_samples(X)).all()


# Distances, offsets and units ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["full", "pairs", "singletons"])
def test_clusters_a_thousand_deviations_apart(rng, backend, family) -> None:
    centres = 1000.0 * np.array([[0, 0], [1, 0], [0, 1], [1.2, 1.7]])
    X = np.concatenate([rng.normal(centre, 1, (50, 2)) for centre in centres])
    labels = np.repeat(np.arange(4), 50)
    model = EGMM(4, focal_sets=family, init=labels, engine=backend).fit(X)
    assert_sound(model, X)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.means_, [X[labels == k].mean(axis=0) for k in range(4)], rtol=1e-9, atol=1e-6)
    singles = [model.focal_sets_.index_of({k}) for k in range(4)]
    np.testing.assert_allclose(model.weights_[singles], 0.25, atol=1e-9)
    truth = oracles.Mixture(list(model.focal_sets_), model.weights_, model.means_, model.covariances_)
    assert model.log_likelihood_ == pytest.approx(truth.log_likelihood(X), rel=1e-8)


def test_clusters_a_million_deviations_apart(rng, backend) -> None:
    X = np.concatenate([rng.normal(centre, 1, (50, 2)) for centre in ([0, 0], [1e6, 0], [0, 1e6])])
    labels = np.repeat(np.arange(3), 50)
    model = EGMM(3, init=labels, engine=backend).fit(X)
    assert_sound(model, X)
    np.testing.assert_array_equal(model.labels_, labels)


@pytest.mark.parametrize("offset", [1e8, -1e8])
def test_far_from_the_origin(blobs, backend, offset) -> None:
    X, labels = blobs
    far = X + offset
    near = far - offset  # What of X is left at the offset.
    one, other = (EGMM(3, init=labels, engine=backend).fit(rows) for rows in (far, near))
    assert_sound(one, far)
    assert one.log_likelihood_ == pytest.approx(other.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-9)
    np.testing.assert_allclose(one.covariances_, other.covariances_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(one.predict_mass(far), other.predict_mass(near), atol=1e-6)


def test_many_sorted_rows_far_from_the_origin(rng) -> None:
    X = np.concatenate([rng.normal(mean, 1, (30_000, 2)) for mean in (0, 6)])
    labels = np.repeat([0, 1], 30_000)
    far = X + 1e8
    one, other = (EGMM(2, init=labels, n_jobs=1, tol=1e-5).fit(rows) for rows in (far, far - 1e8))
    assert one.log_likelihood_ == pytest.approx(other.log_likelihood_, rel=1e-11)


@pytest.mark.parametrize("init", ["labels", "kmeans", "random"])
def test_features_of_any_scale(blobs, backend, init) -> None:
    X, labels = blobs
    X = np.column_stack([X, X[:, 0] - X[:, 1] + np.random.default_rng(0).normal(size=180)])
    units = np.array([1e-8, 1.0, 1e8])
    model = EGMM(3, init=labels if init == "labels" else init, random_state=0, engine=backend).fit(X * units)
    assert_sound(model, X * units)
    if init == "labels":
        plain = EGMM(3, init=labels, engine=backend).fit(X)
        np.testing.assert_allclose(model.weights_, plain.weights_, atol=1e-5)
        change = 180 * np.log(units).sum()
        assert model.log_likelihood_ + change == pytest.approx(plain.log_likelihood_, rel=1e-8)


@pytest.mark.parametrize("covariance", MODELS)
def test_plain_em_never_falls_whatever_the_units(blobs, covariance) -> None:
    X, labels = blobs
    units = np.array([1e-6, 1e3, 1e11]) if covariance not in ROTATED else np.array([1e-5, 1.0, 4e4])
    X = np.column_stack([X, X.sum(axis=1) + np.random.default_rng(0).normal(size=180)])
    options = {"covariance": covariance, "init": labels, "reg_covar": 0.0, "accelerate": False, "max_iter": 300}
    model = EGMM(3, focal_sets="singletons", **options).fit(X * units)
    history = model.log_likelihood_history_
    assert model.converged_
    assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()
    if covariance not in COMMON_UNITS:
        plain = EGMM(3, focal_sets="singletons", **options).fit(X)
        change = 180 * np.log(units).sum()
        np.testing.assert_allclose(history + change, plain.log_likelihood_history_, rtol=1e-9)


@pytest.mark.parametrize("prior", [None, "default"])
@pytest.mark.parametrize("covariance", COMMON_UNITS)
def test_units_too_far_apart_for_a_model_are_told(blobs, covariance, prior) -> None:
    X, labels = blobs
    units = [1e-6, 1e11] if covariance in ROTATED else [1e-120, 1e120]
    expected = rf"deviations of features differ by a factor of .*, too much for the {covariance} covariance"
    for accelerate in (True, False):
        model = EGMM(3, covariance=covariance, init=labels, prior=prior, accelerate=accelerate)
        with pytest.raises(ValueError, match=expected):
            model.fit(X * units)


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_rows_at_the_ends_of_the_number_range(blobs, backend, scale) -> None:
    X, labels = blobs
    model = EGMM(3, init=labels, engine=backend).fit(X * scale)
    assert_sound(model, X * scale)
    np.testing.assert_array_equal(model.labels_, EGMM(3, init=labels, engine=backend).fit(X).labels_)


def test_rows_whose_squares_overflow_are_refused(blobs) -> None:
    X, labels = blobs
    with pytest.raises(ValueError, match=r"Input X contains the value .*, too large to square, at row 0, column 0"):
        EGMM(3, init=labels).fit(X * 1e160)


# Ties, few rows and singular covariances -------------------------------------------------------------------------


def test_duplicates(blobs, backend) -> None:
    X = np.repeat(blobs[0][[0, 70, 130, 20]], 40, axis=0)
    model = EGMM(3, random_state=0, engine=backend).fit(X)
    assert_sound(model, X)
    for block in np.split(model.labels_, 4):
        assert (block == block[0]).all()


@pytest.mark.parametrize("accelerate", [True, False])
def test_single_rows_do_not_keep_clusters_from_sharing_a_variance(rng, accelerate) -> None:
    # A group of one row has no scatter of its own; the start must be of the model all the same.
    X = rng.normal(size=(9, 5))
    labels = np.array([0, 1, 1, 1, 2, 2, 2, 3, 3])
    options = {"covariance": "EII", "focal_sets": "singletons", "reg_covar": 0.0, "max_iter": 50}
    model = EGMM(4, init=labels, accelerate=accelerate, **options).fit(X)
    np.testing.assert_allclose(np.diag(model.covariances_), model.covariances_[0, 0], rtol=1e-12)
    history = model.log_likelihood_history_
    assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()
    first = oracles.Mixture([{0}, {1}, {2}, {3}], np.full(4, 0.25), *_groups(X, labels))
    assert history[0] == pytest.approx(first.log_likelihood(X), rel=1e-9)


def _groups(X, labels):
    """Means of groups, and the one variance that all columns and groups share, as a covariance."""
    means = np.array([X[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
    return means, np.mean((X - means[labels]) ** 2) * np.eye(X.shape[1])


def test_as_many_clusters_as_distinct_rows(blobs, backend) -> None:
    X = np.repeat(blobs[0][[0, 70, 130]], 40, axis=0)
    model = EGMM(3, random_state=0, engine=backend).fit(X)
    assert_sound(model, X)
    assert adjusted_rand_score(np.repeat([0, 1, 2], 40), model.labels_) == 1


def test_more_clusters_than_distinct_rows_are_refused(blobs) -> None:
    X = np.repeat(blobs[0][[0, 70]], 40, axis=0)
    for init in ("kmeans", "random"):
        with pytest.raises(ValueError, match="n_clusters=3 but X has only 2 distinct rows; use fewer clusters"):
            EGMM(3, init=init).fit(X)


def test_more_clusters_than_kmeans_can_tell_apart_are_refused() -> None:
    X = nearly_equal_rows()
    for init in ("kmeans", "mixture"):
        with pytest.raises(ValueError, match="n_clusters=4 but k-means finds only 3 in X: other rows are"):
            EGMM(4, init=init, n_init=2, random_state=0).fit(X)
    assert_sound(EGMM(4, init="random", random_state=0).fit(X), X)


@pytest.mark.parametrize("n_rows", [6, 7, 12])
def test_few_more_rows_than_features(rng, backend, n_rows) -> None:
    X = rng.normal(size=(n_rows, 5))
    assert_sound(EGMM(2, random_state=0, engine=backend).fit(X), X)


def test_fewer_rows_than_features(rng, backend) -> None:
    X = rng.normal(size=(6, 20))
    assert_sound(EGMM(2, random_state=0, engine=backend).fit(X), X)
    message = r"covariance is not positive definite at iteration 0 \(smallest eigenvalue .*\); raise reg_covar"
    with pytest.raises(ValueError, match=message):
        EGMM(2, random_state=0, reg_covar=0.0, engine=backend).fit(X)
    assert_sound(EGMM(2, random_state=0, reg_covar=0.1, engine=backend).fit(X), X)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, -1e8, 1e-20])
def test_a_constant_column_changes_nothing(blobs, backend, value) -> None:
    X, labels = blobs
    wide = np.column_stack([X, np.full(180, value)])
    model, plain = (EGMM(3, init=labels, engine=backend).fit(rows) for rows in (wide, X))
    assert_sound(model, wide)
    np.testing.assert_allclose(model.weights_, plain.weights_, atol=1e-8)
    np.testing.assert_allclose(model.means_[:, :2], plain.means_, atol=1e-6)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    with pytest.raises(ValueError, match=r"at iteration 0 \(smallest variance 0\); raise reg_covar"):
        EGMM(3, init=labels, reg_covar=0.0, engine=backend).fit(wide)


@pytest.mark.parametrize("model", ["EEE", "VVI", "VVV"])
def test_a_constant_column_changes_nothing_where_a_fit_starts_from_another(blobs, backend, model) -> None:
    X, _ = blobs
    wide = np.column_stack([X, np.full(180, 0.1)])
    plain, after_mixture = (
        EGMM(3, covariance=model, init="mixture", random_state=0, engine=backend).fit(rows) for rows in (X, wide)
    )
    again = EGMM(3, covariance=model, init="mixture", random_state=0, engine=backend, warm_start=True)
    for fitted in (after_mixture, again.fit(wide).fit(wide)):
        assert not fitted.degenerate_
        np.testing.assert_allclose(fitted.weights_, plain.weights_, atol=1e-2)
        # The column has the automatic ridge as its variance, 1e-9.
        own = -0.5 * 180 * np.log(2 * np.pi * 1e-9)
        assert fitted.log_likelihood_ == pytest.approx(plain.log_likelihood_ + own, abs=0.05)


@pytest.mark.parametrize("combine", [lambda X: X[:, 0], lambda X: X @ [2.0, -0.3], lambda X: 5 - X[:, 1]])
def test_collinear_columns(blobs, backend, combine) -> None:
    X, labels = blobs
    wide = np.column_stack([X, combine(X)])
    model, plain = (EGMM(3, init=labels, engine=backend).fit(rows) for rows in (wide, X))
    assert_sound(model, wide)
    # A column that repeats the others tells nothing new.
    np.testing.assert_allclose(model.weights_, plain.weights_, atol=1e-3)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    with pytest.raises(ValueError, match="covariance is not positive definite at iteration"):
        EGMM(3, init=labels, reg_covar=0.0, engine=backend).fit(wide)


def test_one_point_clusters(rng, backend) -> None:
    X = np.concatenate([rng.normal(size=(60, 2)), [[50.0, 50.0]], [[-40.0, 60.0]]])
    model = EGMM(3, focal_sets="singletons", init=np.repeat([0, 1, 2], [60, 1, 1]), engine=backend).fit(X)
    assert_sound(model, X)
    assert np.bincount(model.labels_).tolist() == [60, 1, 1]
    np.testing.assert_allclose(model.means_[1:], X[60:], atol=1e-6)
    assert model.degenerate_


def test_every_row_a_cluster(rng, backend) -> None:
    X = rng.normal(size=(5, 2)) * 10
    model = EGMM(5, focal_sets="singletons", random_state=0, engine=backend).fit(X)
    assert_sound(model, X)
    assert sorted(model.labels_) == [0, 1, 2, 3, 4]


# Shapes and kinds of input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("weighted", [False, True])
def test_infinite_entries_are_named(blobs, value, weighted) -> None:
    X, _ = blobs
    X[7, 1] = X[100, 0] = value
    X[99, 1] = -value
    weight = np.ones(180) if weighted else None
    X[3, 0] = np.nan  # a missing cell
    message = "Input X contains infinity at row 7, column 1; drop, impute or rescale it"
    with pytest.raises(ValueError, match=re.escape(message)):
        EGMM(3).fit(X, sample_weight=weight)
    with pytest.raises(ValueError, match=re.escape("Input X contains infinity at row 7, column 1 ('width')")):
        EGMM(3).fit(pd.DataFrame(X, columns=["length", "width"]), sample_weight=weight)


def test_infinite_entries_in_two_blocks_are_named(blobs, monkeypatch) -> None:
    monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", 40)
    X, _ = blobs
    X[50, 1], X[130, 1] = np.inf, -np.inf
    for n_jobs in (1, 2):
        with pytest.raises(ValueError, match="Input X contains infinity at row 50, column 1"):
            EGMM(3, n_jobs=n_jobs).fit(X)


def test_infinite_entries_are_refused_by_methods_too(blobs) -> None:
    X, labels = blobs
    model = EGMM(3, init=labels).fit(X)
    X[7, 1], X[9, 0] = np.inf, np.nan
    for method in (model.predict, model.predict_mass, model.score, model.outliers, model.impute, model.sample_missing):
        with pytest.raises(ValueError, match="Input X contains infinity at row 7, column 1"):
            method(X)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.empty((0, 2)), r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 2 is required"),
        (np.ones((1, 2)), r"1 sample\(s\) \(shape=\(1, 2\)\) while a minimum of 2 is required"),
        (np.empty((5, 0)), r"0 feature\(s\) \(shape=\(5, 0\)\) while a minimum of 1 is required"),
        (np.arange(5.0), "Expected 2D array, got 1D array"),
        (np.ones((2, 2, 2)), "got 3D array"),
        (np.array([["a", "b"], ["c", "d"]]), "could not convert string to float"),
        (np.array([[1j, 2], [3, 4]]), "Complex data not supported"),
    ],
)
def test_rows_that_are_none_are_refused(rows, message) -> None:
    with pytest.raises(ValueError, match=message):
        EGMM(1).fit(rows)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.float16, bool])
def test_whole_numbers_are_numbers(blobs, dtype) -> None:
    X = blobs[0] > 2 if dtype is bool else np.abs(10 * blobs[0]).astype(dtype)
    one, other = (EGMM(3, random_state=0).fit(rows) for rows in (X, X.astype(np.float64)))
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert_sound(one, X)


def test_one_feature(blobs, backend) -> None:
    X = blobs[0][:, :1]
    model = EGMM(2, random_state=0, engine=backend).fit(X)
    assert_sound(model, X)
    assert model.covariances_.shape == (1, 1)


def test_two_rows(backend) -> None:
    X = np.array([[0.0, 1.0], [2.0, 5.0]])
    model = EGMM(2, random_state=0, engine=backend).fit(X)
    assert_sound(model, X)
    assert set(model.labels_) == {0, 1}


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_weights_of_any_size(blobs, backend, weight) -> None:
    X, labels = blobs
    model, plain = (
        EGMM(3, init=labels, reg_covar=0.0, accelerate=False, tol=1e-4, engine=backend, max_iter=8) for _ in range(2)
    )
    with pytest.warns(match="did not converge"):
        plain.fit(X, sample_weight=np.full(180, 3.0))
    with pytest.warns(match="did not converge"):
        model.fit(X, sample_weight=np.full(180, 3.0 * weight))
    assert np.isfinite(model.log_likelihood_)
    assert model.log_likelihood_ / weight == pytest.approx(plain.log_likelihood_, rel=0.1)


def test_thirty_clusters_with_pairs(rng, backend) -> None:
    centres = rng.uniform(0, 300, (30, 2))
    X = np.concatenate([rng.normal(centre, 1, (40, 2)) for centre in centres])
    labels = np.repeat(np.arange(30), 40)
    model = EGMM(30, init=labels, engine=backend, tol=1e-5).fit(X)
    assert_sound(model, X)
    assert len(model.weights_) == 30 + 435 + 1
    assert adjusted_rand_score(labels, model.labels_) > 0.9


def test_nothing_but_rounding_left_along_the_tangent_of_a_model() -> None:
    # Each cluster's residual is off what the EVI model can follow, so that conjugate gradients have nowhere to go.
    X = np.array([[0.3, 0.8], [0.3, -1.3], [0.9, 0.4]])
    model = EGMM(2, covariance="EVI", init=[0, 1, 1]).fit(X)
    assert model.degenerate_
    assert np.isfinite(model.log_likelihood_history_).all()
