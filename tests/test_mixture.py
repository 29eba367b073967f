"""EGMM: the authors' numbers, the classical mixture as a special case, and what must not change a result."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import oracles
from egmm import EGMM, FocalSets
from egmm.belief import CredalPartition
from egmm.datasets import make_four_class
from egmm.em.covariance import MODELS
from egmm.mixture_rows import open_rows

REFERENCE = json.loads((Path(__file__).parent / "reference" / "egmm_authors_code.json").read_text(encoding="utf-8"))


@pytest.fixture
def blobs(rng):
    """Three overlapping groups of 80 rows with their labels."""
    X = np.concatenate([rng.normal(mean, [1.0, 2.0], (80, 2)) for mean in ([0, 0], [3, 1], [1, 7])])
    return X, np.repeat([0, 1, 2], 80)


def truth_of(model: EGMM) -> oracles.Mixture:
    """The fitted mixture as the oracles have it."""
    return oracles.Mixture(list(model.focal_sets_), model.weights_, model.means_, model.covariances_)


def assert_same_fit(one: EGMM, other: EGMM, rtol: float) -> None:
    for name in ("weights_", "means_", "covariances_", "log_likelihood_", "ebic_"):
        got, want = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * np.abs(want).max(), err_msg=name)


def assert_same_bits(one: EGMM, other: EGMM) -> None:
    for name in ("weights_", "means_", "covariances_", "log_likelihood_history_", "labels_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# The authors' code -----------------------------------------------------------------------------------------------


def authors(entry, X, engine, **options) -> EGMM:
    return EGMM(
        entry["n_clusters"],
        focal_sets=entry["focal_sets"],
        init=entry["labels0"],
        reg_covar=entry["reg_covar"],
        tol=entry["tol_total"] / len(X),
        accelerate=False,
        engine=engine,
        **options,
    )


@pytest.mark.parametrize("name", REFERENCE)
def test_it_is_the_authors_iteration(uci, backend, name) -> None:
    entry = REFERENCE[name]
    X = uci(entry["dataset"]).X
    model = authors(entry, X, backend).fit(X)
    assert model.n_iter_ == entry["iterations"]
    assert model.converged_
    assert model.log_likelihood_ == pytest.approx(entry["log_likelihood"], rel=1e-9)
    assert model.ebic_ == pytest.approx(entry["ebic"], rel=1e-9)
    np.testing.assert_array_equal(model.focal_sets_.membership, entry["focal"])
    np.testing.assert_allclose(model.weights_, entry["weights"], atol=1e-10)
    np.testing.assert_allclose(model.focal_means_, entry["focal_means"], rtol=1e-9)
    ridge = entry["reg_covar"] * np.eye(X.shape[1])
    np.testing.assert_allclose(model.covariances_ - ridge, entry["covariance_without_ridge"], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(model.labels_, entry["labels"])
    # Their masses are from before the last M-step.
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        before = authors(entry, X, backend, max_iter=entry["iterations"] - 1).fit(X)
    np.testing.assert_allclose(before.predict_mass(X[:3]), entry["mass_first3"], atol=1e-10)
    np.testing.assert_allclose(before.predict_proba(X[:3]), entry["betp_first3"], atol=1e-10)


# The model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["pairs", "full", "singletons", "simple", [{0}, {1}, {2}, {0, 2}]], ids=str)
def test_what_is_reported_is_that_of_the_fitted_mixture(backend, blobs, family) -> None:
    X, _ = blobs
    model = EGMM(3, focal_sets=family, random_state=0, engine=backend).fit(X)
    truth = truth_of(model)
    total = truth.log_likelihood(X)
    assert model.log_likelihood_ == pytest.approx(total, rel=1e-11)
    assert model.ebic_ == pytest.approx(truth.ebic(X), rel=1e-11)
    assert model.log_likelihood_history_[-1] == model.log_likelihood_
    assert len(model.log_likelihood_history_) == model.n_iter_ + 1
    assert model.n_parameters_ == len(truth.sets) - 1 + 3 * 2 + 3
    np.testing.assert_allclose(model.weights_.sum(), 1, rtol=1e-14)
    np.testing.assert_allclose(model.predict_mass(X), truth.masses(X), atol=1e-11)
    np.testing.assert_allclose(model.predict_proba(X), truth.pignistic(X), atol=1e-11)
    np.testing.assert_allclose(model.score_samples(X), truth.log_densities(X), rtol=1e-11)
    np.testing.assert_array_equal(model.labels_, truth.pignistic(X).argmax(axis=1))
    np.testing.assert_array_equal(model.predict_sets(X), truth.masses(X).argmax(axis=1))
    np.testing.assert_allclose(model.focal_means_, [truth.component(j)[0] for j in range(len(truth.sets))])
    assert model.focal_covariances_.shape == (2, 2)
    assert model.score(X) == pytest.approx(total / len(X), rel=1e-11)
    assert model.ebic(X) == pytest.approx(model.ebic_, rel=1e-11)
    assert model.bic(X) == pytest.approx(-2 * model.ebic_, rel=1e-11)
    assert model.aic(X) == pytest.approx(-2 * total + 2 * model.n_parameters_, rel=1e-11)
    mass = truth.masses(X)
    entropy = -sum(m * np.log(m) for row in mass for m in row if m > 0)
    assert model.icl(X) == pytest.approx(-2 * model.ebic_ + 2 * entropy, rel=1e-10)


def test_a_partition_holds_the_masses(blobs) -> None:
    X, _ = blobs
    model = EGMM(3, random_state=0).fit(X)
    partition = model.partition(X)
    assert isinstance(partition, CredalPartition)
    assert partition.focal_sets == model.focal_sets_
    np.testing.assert_array_equal(partition.mass, model.predict_mass(X))
    np.testing.assert_allclose(partition.mass.sum(axis=1), 1, atol=1e-14)


def test_singletons_are_the_classical_tied_mixture(blobs, backend) -> None:
    X, _ = blobs
    means = np.array([[0.0, 1.0], [3.0, 0.0], [2.0, 6.0]])
    nearest = np.argmin([((X - mean) ** 2).sum(axis=1) for mean in means], axis=0)
    offsets = [X[nearest == k] - means[k] for k in range(3)]
    start = sum(o.T @ o / (len(o) - 1) for o in offsets) / 3
    classical = GaussianMixture(
        3,
        covariance_type="tied",
        weights_init=np.full(3, 1 / 3),
        means_init=means,
        precisions_init=np.linalg.inv(start),
        reg_covar=0,
        tol=0,
        max_iter=12,
    )
    ours = EGMM(
        3, focal_sets="singletons", init=means, reg_covar=0.0, accelerate=False, tol=0, max_iter=12, engine=backend
    )
    with pytest.warns(ConvergenceWarning):
        classical.fit(X)
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=12 steps"):
        ours.fit(X)
    np.testing.assert_allclose(ours.weights_, classical.weights_, rtol=1e-10)
    np.testing.assert_allclose(ours.means_, classical.means_, rtol=1e-9)
    np.testing.assert_allclose(ours.covariances_, classical.covariances_, rtol=1e-9)
    np.testing.assert_allclose(ours.score_samples(X), classical.score_samples(X), rtol=1e-9)
    assert ours.bic(X) == pytest.approx(classical.bic(X), rel=1e-10)
    assert ours.aic(X) == pytest.approx(classical.aic(X), rel=1e-10)
    np.testing.assert_array_equal(ours.predict(X), classical.predict(X))


@pytest.mark.parametrize("family", ["pairs", "full", "singletons", "simple", "neighbours"])
def test_one_cluster_is_one_gaussian(blobs, backend, family) -> None:
    X, _ = blobs
    model = EGMM(1, focal_sets=family, reg_covar=0.0, engine=backend).fit(X)
    np.testing.assert_allclose(model.means_[0], X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.covariances_, np.cov(X.T, bias=True), rtol=1e-11)
    total = multivariate_normal(X.mean(axis=0), np.cov(X.T, bias=True)).logpdf(X).sum()
    assert model.log_likelihood_ == pytest.approx(total, rel=1e-12)
    assert model.weights_ == pytest.approx([1])
    assert not model.labels_.any()


# What must not change a result -----------------------------------------------------------------------------------

AFFINE = np.array([[2.0, -1.0], [0.5, 30.0]]), np.array([1000.0, -7.0])


def test_affine_maps_of_the_rows_leave_masses_unchanged(blobs, backend) -> None:
    X, labels = blobs
    matrix, shift = AFFINE
    plain = {"init": labels, "reg_covar": 0.0, "accelerate": False, "tol": 1e-5, "engine": backend}
    one, other = EGMM(3, **plain).fit(X), EGMM(3, **plain).fit(X @ matrix + shift)
    assert one.n_iter_ == other.n_iter_
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-9)
    np.testing.assert_allclose(one.means_ @ matrix + shift, other.means_, rtol=1e-9)
    np.testing.assert_allclose(one.predict_mass(X), other.predict_mass(X @ matrix + shift), atol=1e-8)
    # Accelerated, the way there differs but not its end.
    fast = {"init": labels, "reg_covar": 0.0, "tol": 1e-11, "engine": backend}
    one, other = EGMM(3, **fast).fit(X), EGMM(3, **fast).fit(X @ matrix + shift)
    np.testing.assert_allclose(one.predict_mass(X), other.predict_mass(X @ matrix + shift), atol=1e-4)


def test_the_automatic_ridge_does_not_depend_on_units(blobs) -> None:
    X, labels = blobs
    units = np.array([1e-8, 1e8])
    one, other = (EGMM(3, init=labels, accelerate=False, tol=1e-5).fit(Y) for Y in (X, X * units))
    np.testing.assert_allclose(one.predict_mass(X), other.predict_mass(X * units), atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_number_of_threads_changes_no_bit(rng, blobs, backend, monkeypatch, weighted) -> None:
    monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", 50)
    X, _ = blobs
    weight = rng.random(len(X)) if weighted else None
    one, two, five = (
        EGMM(3, random_state=0, engine=backend, n_jobs=n_jobs).fit(X, sample_weight=weight) for n_jobs in (1, 2, 5)
    )
    assert_same_bits(one, two)
    assert_same_bits(one, five)
    np.testing.assert_array_equal(one.predict_mass(X), five.predict_mass(X))


@pytest.mark.parametrize("accelerate", [False, True])
def test_blocks_and_engines_agree(blobs, monkeypatch, accelerate) -> None:
    X, labels = blobs
    fits = []
    for block_rows in (37, 64, 10_000):
        monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", block_rows)
        for engine in ("numpy", "numba"):
            model = EGMM(3, init=labels, tol=1e-6, accelerate=accelerate, engine=engine)
            fits.append(model.fit(X))
    for other in fits[1:]:
        assert other.n_iter_ == fits[0].n_iter_
        assert_same_fit(fits[0], other, rtol=1e-10)
        np.testing.assert_allclose(fits[0].predict_mass(X), other.predict_mass(X), atol=1e-9)


def test_relabelled_starts_relabel_the_fit(blobs) -> None:
    X, labels = blobs
    order = np.array([2, 0, 1])
    one = EGMM(3, focal_sets="full", init=labels).fit(X)
    other = EGMM(3, focal_sets="full", init=order[labels]).fit(X)
    np.testing.assert_allclose(other.means_[order], one.means_, rtol=1e-6)
    np.testing.assert_array_equal(other.labels_, order[one.labels_])


@pytest.mark.parametrize("init", ["kmeans", "random", "labels", "means"])
@pytest.mark.parametrize("n_init", [1, 3])
def test_whole_weights_are_repeated_rows(rng, blobs, backend, init, n_init) -> None:
    X, labels = blobs
    weight = rng.integers(0, 4, len(X))
    given = {"labels": labels, "means": X[[0, 100, 200]]}.get(init, init)
    again = np.repeat(labels, weight) if init == "labels" else given
    options = {"focal_sets": "full", "n_init": n_init, "random_state": 3, "engine": backend}
    weighted = EGMM(3, init=given, **options).fit(X, sample_weight=weight)
    Y = np.repeat(X, weight, axis=0)
    repeated = EGMM(3, init=again, **options).fit(Y)
    assert_same_fit(weighted, repeated, rtol=1e-8)
    np.testing.assert_array_equal(np.repeat(weighted.labels_, weight), repeated.labels_)
    for name in ("score", "ebic", "bic", "aic", "icl"):
        got, want = getattr(weighted, name)(X, sample_weight=weight), getattr(weighted, name)(Y)
        assert got == pytest.approx(want, rel=1e-11), name


def test_the_order_of_rows_does_not_matter(rng, blobs) -> None:
    X, _ = blobs
    order = rng.permutation(len(X))
    one, other = EGMM(3, random_state=0).fit(X), EGMM(3, random_state=0).fit(X[order])
    assert_same_fit(one, other, rtol=1e-8)
    np.testing.assert_array_equal(one.labels_[order], other.labels_)


@pytest.mark.parametrize("covariance", MODELS)
def test_to_every_model_rows_features_and_clusters_are_sets(rng, covariance) -> None:
    labels = np.arange(90) % 3
    X = np.array([[0, 0, 0], [4, 1, 0], [1, 5, 2]])[labels] + rng.normal(size=(90, 3)) * [1, 2, 0.5]
    weight, features, clusters = rng.integers(1, 4, 90), [2, 0, 1], np.array([1, 2, 0])
    rows = rng.permutation(np.repeat(np.arange(90), weight))
    plain = {"focal_sets": "full", "covariance": covariance, "certainty": 0.1, "prior": "default", "tol": 1e-4}
    one = EGMM(3, init=labels, accelerate=False, **plain).fit(X, sample_weight=weight)
    other = EGMM(3, init=clusters[labels[rows]], accelerate=False, **plain).fit(X[rows][:, features])
    assert one.n_iter_ == other.n_iter_ > 3
    assert one.ebic_ == pytest.approx(other.ebic_, rel=1e-9)
    want, got = one.partition(X).relabel(clusters), other.partition(X[:, features])
    np.testing.assert_allclose(want.mass, got.mass, atol=1e-6)


def test_single_precision_rows_are_read_as_they_are(blobs, backend) -> None:
    X, labels = blobs
    single = X.astype(np.float32)
    one = EGMM(3, init=labels, engine=backend).fit(single)
    other = EGMM(3, init=labels, engine=backend).fit(single.astype(np.float64))
    assert_same_fit(one, other, rtol=1e-10)
    assert one.means_.dtype == one.predict_mass(single).dtype == np.float64
    np.testing.assert_allclose(one.predict_mass(single), other.predict_mass(single.astype(np.float64)), atol=1e-9)


@pytest.mark.parametrize(
    "convert",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    ],
)
def test_rows_in_memory_are_never_copied_whole(blobs, convert) -> None:
    X = convert(blobs[0])
    with open_rows(EGMM(), X, reset=True) as rows:
        assert np.shares_memory(rows.X, X)


def test_memory_maps_are_read_where_they_are(tmp_path, blobs, backend) -> None:
    X, _ = blobs
    on_disk = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    on_disk[:] = X
    on_disk.flush()
    mapped = np.memmap(tmp_path / "rows", dtype=np.float64, mode="r", shape=X.shape)
    with open_rows(EGMM(), mapped, reset=True) as rows:
        assert np.shares_memory(rows.X, mapped)
    one, other = (EGMM(3, random_state=0, engine=backend).fit(rows) for rows in (mapped, X))
    assert_same_bits(one, other)
    np.testing.assert_array_equal(one.predict_mass(mapped), other.predict_mass(X))


def test_columns_keep_their_names(blobs) -> None:
    frame = pd.DataFrame(blobs[0], columns=["length", "width"])
    model = EGMM(3, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["length", "width"]
    assert_same_bits(model, EGMM(3, random_state=0).fit(blobs[0]))
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["width", "length"]])


# Starts and options ----------------------------------------------------------------------------------------------


def test_given_means_are_where_it_starts(blobs) -> None:
    X, _ = blobs
    means = np.array([[0.0, 1.0], [3.0, 0.0], [2.0, 6.0]])
    nearest = np.argmin([((X - mean) ** 2).sum(axis=1) for mean in means], axis=0)
    offsets = [X[nearest == k] - means[k] for k in range(3)]
    covariance = sum(o.T @ o / (len(o) - 1) for o in offsets) / 3
    sets = oracles.family("pairs", 3)
    start = oracles.Mixture(sets, np.full(7, 1 / 7), means, covariance)
    model = EGMM(3, init=means, reg_covar=0.0, n_init=5).fit(X)
    assert model.log_likelihood_history_[0] == pytest.approx(start.log_likelihood(X), rel=1e-11)


def test_going_on_is_the_same_as_never_having_stopped(blobs) -> None:
    X, labels = blobs
    plain = {"init": labels, "accelerate": False, "tol": 0.0, "reg_covar": 0.0}
    with pytest.warns(ConvergenceWarning):
        whole = EGMM(3, max_iter=12, **plain).fit(X)
    model = EGMM(3, max_iter=5, warm_start=True, **plain)
    with pytest.warns(ConvergenceWarning):
        first = model.fit(X).log_likelihood_history_
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=7).fit(X)
    history = [*first, *model.log_likelihood_history_[1:]]
    np.testing.assert_allclose(history, whole.log_likelihood_history_, rtol=1e-12)
    assert_same_fit(model, whole, rtol=1e-9)


def test_without_warm_start_a_second_fit_starts_anew(blobs) -> None:
    X, _ = blobs
    model = EGMM(3, random_state=0).fit(X)
    first = model.log_likelihood_history_
    np.testing.assert_array_equal(model.fit(X).log_likelihood_history_, first)
    assert len(model.set_params(warm_start=True).fit(X).log_likelihood_history_) < len(first)


@pytest.mark.parametrize(
    "change",
    [{"focal_sets": "singletons"}, {"n_clusters": 2}, {"covariance": "VVV"}, {"focal_sets": "neighbours"}],
    ids=str,
)
def test_a_warm_start_of_another_model_starts_anew(blobs, change) -> None:
    X, _ = blobs
    model = EGMM(3, warm_start=True, random_state=0).fit(X).set_params(**change).fit(X)
    fresh = EGMM(**(model.get_params() | {"warm_start": False})).fit(X)
    assert_same_bits(model, fresh)


def test_neighbours_are_those_of_a_simple_fit(rng) -> None:
    centres = np.array([[0, 0], [2.5, 0], [5, 0], [20, 20], [22.5, 20]])
    X = np.concatenate([rng.normal(centre, 1, (60, 2)) for centre in centres])
    labels = np.repeat(np.arange(5), 60)
    simple = EGMM(5, focal_sets="simple", init=labels).fit(X)
    plausibility = simple.partition(X).plausibility()
    model = EGMM(5, focal_sets="neighbours", init=labels).fit(X)
    assert model.focal_sets_ == FocalSets.neighbours(plausibility.T @ plausibility)
    pairs = {tuple(sorted(s)) for s in model.focal_sets_ if len(s) == 2}
    assert {(0, 1), (1, 2), (3, 4)} <= pairs
    assert len(model.focal_sets_) < len(FocalSets.pairs(5))
    given = EGMM(5, focal_sets=model.focal_sets_, init=labels).fit(X)
    assert_same_bits(model, given)


def test_a_seed_fixes_the_result_and_a_stream_moves_on(blobs) -> None:
    X, _ = blobs
    one, again = (EGMM(3, init="random", random_state=1).fit(X) for _ in range(2))
    assert_same_bits(one, again)
    stream = np.random.RandomState(1)
    first, second = (EGMM(3, init="random", random_state=stream).fit(X) for _ in range(2))
    assert first.log_likelihood_history_[0] != second.log_likelihood_history_[0]


# Outliers and samples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
def test_outliers_are_far_from_every_component(rng, blobs, covariance) -> None:
    X, _ = blobs
    model = EGMM(3, covariance=covariance, random_state=0).fit(X)
    rows = np.concatenate([X, rng.normal(3, 12, (100, 2))])
    nearest = np.full(len(rows), np.inf)
    for j, mean in enumerate(model.focal_means_):
        spread = model.focal_covariances_ if covariance == "EEE" else model.focal_covariances_[j]
        for i, row in enumerate(rows):
            nearest[i] = min(nearest[i], (row - mean) @ np.linalg.solve(spread, row - mean))
    for quantile in (0.999, 0.9):
        expected = nearest > chi2(2).ppf(quantile)
        np.testing.assert_array_equal(model.outliers(rows, quantile), expected)
        assert 0 < expected.sum() < len(rows)
    np.testing.assert_array_equal(model.outliers(rows), model.outliers(rows, 0.999))


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
def test_samples_come_from_the_mixture(blobs, covariance) -> None:
    X = blobs[0] @ [[1.0, 0.0], [2.0, 1.0]]
    model = EGMM(3, covariance=covariance, random_state=0).fit(X)
    covariances = np.broadcast_to(model.focal_covariances_, (7, 2, 2))
    assert np.abs(covariances[:, 0, 1]).min() > 1
    rows, sets = model.sample(60_000)
    assert rows.shape == (60_000, 2)
    np.testing.assert_allclose(np.bincount(sets, minlength=7) / 60_000, model.weights_, atol=0.01)
    for j in np.flatnonzero(model.weights_ > 0.05):
        drawn = rows[sets == j]
        # Five standard errors.
        error = 5 * np.sqrt(np.diag(covariances[j]).max() / len(drawn))
        np.testing.assert_allclose(drawn.mean(axis=0), model.focal_means_[j], atol=error)
        np.testing.assert_allclose(np.cov(drawn.T), covariances[j], atol=3 * error)
    np.testing.assert_array_equal(model.sample(5)[0], model.sample(5)[0])


@pytest.mark.parametrize("reg_covar", [0.0, "auto"])
def test_curvature_that_misleads_is_noticed(uci, reg_covar) -> None:
    X = uci("newthyroid").X
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = EGMM(3, covariance="EVE", random_state=0, reg_covar=reg_covar, warm_start=True).fit(X)
    assert model.converged_
    options = model.get_params() | {"warm_start": False, "tol": 1e-9, "max_iter": 20_000}
    end = EGMM(**options).fit(X).log_likelihood_
    assert end - model.log_likelihood_ < 25 * model.tol * len(X)


def test_light_sets_that_still_grow_are_waited_for() -> None:
    # From the classical mixture the sets between clusters start light and grow slowly: small gains are not the end.
    X, _ = make_four_class(random_state=5)
    soon, late = (EGMM(4, init="mixture", tol=tol, random_state=0).fit(X) for tol in (1e-6, 1e-9))
    assert soon.log_likelihood_ == pytest.approx(late.log_likelihood_, abs=0.1)
