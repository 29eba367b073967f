"""Rows that come in batches and are seen once."""

import re

import numpy as np
import pytest
from scipy.special import entr

from egmm import EGMM, scan
from egmm.em.covariance import MODELS
from egmm.em.stream import EXPONENT, Stream, _maximised
from em.problems import ascend, problem_of


def overlapping(n_rows: int, seed: int) -> np.ndarray:
    """Three groups of unequal size, not far apart, some correlation."""
    rng = np.random.default_rng(seed)
    means = np.array([[0, 0, 0, 0], [3, 0, 1, 0], [1, 3, 0, 2]], dtype=float)
    mixing = rng.normal(size=(4, 4)) * 0.2 + np.eye(4)
    return means[rng.choice(3, n_rows, p=[0.5, 0.3, 0.2])] + rng.normal(size=(n_rows, 4)) @ mixing


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1000, 10_000])
def test_one_pass_over_a_million_rows_is_near_the_batch_fit(batch: int) -> None:
    X = overlapping(1_000_000, seed=0)
    stream = EGMM(3, random_state=0)
    for first in range(0, len(X), batch):
        stream.partial_fit(X[first : first + batch])
    whole = EGMM(3, random_state=0, tol=1e-5).fit(X)
    assert stream.score(X) == pytest.approx(whole.score(X), abs=0.01)
    assert stream.score(X) <= whole.score(X) + 1e-4
    assert stream.log_likelihood_ / len(X) == pytest.approx(whole.score(X), abs=0.02)
    # A running mean, of masses that batch after batch had.
    assert stream.entropy_ / len(X) == pytest.approx(entr(stream.predict_mass(X)).sum(axis=1).mean(), abs=0.02)


def test_the_first_batch_is_fitted_like_any_data() -> None:
    X = overlapping(500, seed=1)
    stream, whole = EGMM(3, random_state=0).partial_fit(X), EGMM(3, random_state=0, n_init=5).fit(X)
    np.testing.assert_array_equal(stream.means_, whole.means_)
    np.testing.assert_array_equal(stream.labels_, whole.labels_)


def test_one_cluster_forgets_by_the_documented_step() -> None:
    """With one cluster the running mean is a recursion that can be written down."""
    rng = np.random.default_rng(2)
    batches = [rng.normal(at, 1, (50 + 10 * at, 2)) for at in range(4)]
    model = EGMM(1, focal_sets="singletons", reg_covar=0.0)
    mean, scatter, seen = np.zeros(2), np.zeros((2, 2)), 0
    for batch in batches:
        model.partial_fit(batch)
        seen += len(batch)
        step = (len(batch) / seen) ** EXPONENT
        mean = (1 - step) * mean + step * batch.mean(axis=0)
        scatter = (1 - step) * scatter + step * batch.T @ batch / len(batch)
        np.testing.assert_allclose(model.means_[0], mean, rtol=1e-10)
        np.testing.assert_allclose(model.covariances_, scatter - np.outer(mean, mean), rtol=1e-8)
    assert 0.5 < EXPONENT <= 1


@pytest.mark.parametrize("covariance", ["EEE", "VVI"])
def test_weights_count_rows(covariance: str) -> None:
    X = overlapping(1200, seed=3)
    weights = np.random.default_rng(4).integers(1, 4, len(X))
    weighted = EGMM(2, random_state=0, covariance=covariance)
    repeated = EGMM(2, random_state=0, covariance=covariance)
    for first in range(0, len(X), 400):
        part = slice(first, first + 400)
        weighted.partial_fit(X[part], sample_weight=weights[part])
        repeated.partial_fit(np.repeat(X[part], weights[part], axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-6)
    assert weighted.ebic_ == pytest.approx(repeated.ebic_, rel=1e-8)


def test_far_from_the_origin() -> None:
    X = overlapping(2000, seed=5)
    near, far = EGMM(2, random_state=0), EGMM(2, random_state=0)
    for first in range(0, len(X), 500):
        near.partial_fit(X[first : first + 500])
        far.partial_fit(X[first : first + 500] + 1e8)
    np.testing.assert_allclose(np.sort(far.means_ - 1e8, axis=0), np.sort(near.means_, axis=0), atol=1e-4)


def test_batches_that_do_not_fit() -> None:
    X = overlapping(300, seed=6)
    model = EGMM(3, random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but EGMM is expecting 4 features"):
        model.partial_fit(X[:, :2])
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        model.partial_fit(X, sample_weight=-np.ones(len(X)))
    with pytest.raises(
        ValueError, match=r"X has no value in any row with positive weight: all cells are missing \(NaN\)\."
    ):
        model.partial_fit(np.full((5, 4), np.nan))
    with pytest.raises(ValueError, match="n_clusters=3 but X has only 2 distinct rows; use fewer clusters"):
        EGMM(3).partial_fit(X[:2])
    before = model.n_iter_
    assert model.partial_fit(X[:1]).n_iter_ == before + 1


@pytest.mark.parametrize("bad", [1e160, np.inf])
def test_a_bad_batch_leaves_a_stream_as_it_was(tmp_path, bad) -> None:
    X = overlapping(600, seed=8)
    model, other = (EGMM(2, random_state=0).partial_fit(X[:300]) for _ in range(2))
    np.save(tmp_path / "batch.npy", np.full((20, 4), bad))
    for batch in (np.full((20, 4), bad), scan(tmp_path / "batch.npy")):
        with pytest.raises(ValueError, match=r"Input X contains .* at row (0|1 \(counted from 1\) of .*),"):
            model.partial_fit(batch)
    np.testing.assert_array_equal(model.partial_fit(X[300:]).means_, other.partial_fit(X[300:]).means_)


def test_a_fit_that_fails_leaves_a_stream_as_it_was() -> None:
    X = overlapping(600, seed=9)
    model, other = (EGMM(2, random_state=0).partial_fit(X[:300]) for _ in range(2))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((5, 4), np.inf))
    np.testing.assert_array_equal(model.partial_fit(X[300:]).means_, other.partial_fit(X[300:]).means_)


CHANGES = {"n_clusters": 3, "covariance": "VVV", "focal_sets": "full", "reg_covar": 0.1, "prior": {}, "certainty": 1.0}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("begin", ["fit", "partial_fit", "load"])
def test_parameters_that_a_stream_cannot_follow_are_refused(tmp_path, name, begin) -> None:
    X = overlapping(600, seed=10)
    model = getattr(EGMM(2, random_state=0), "fit" if begin == "load" else begin)(X[:300])
    if begin == "load":
        model.save(tmp_path / "model.json")
        model = EGMM.load(tmp_path / "model.json")
    old, before = getattr(model, name), model.means_
    model.set_params(**{name: CHANGES[name]})
    expected = (
        f"partial_fit continues a model with {name}={old!r}, but {name}={CHANGES[name]!r} was set since; reset it"
    )
    with pytest.raises(ValueError, match=re.escape(expected)):
        model.partial_fit(X[300:])
    np.testing.assert_array_equal(model.means_, before)
    model.set_params(**{name: old}).partial_fit(X[300:])
    assert len(model.log_likelihood_history_) == model.n_iter_ + 1


def test_a_fit_begins_a_stream_anew() -> None:
    X = overlapping(400, seed=7)
    model = EGMM(2, random_state=0).partial_fit(X[:200]).partial_fit(X[200:])
    fresh = EGMM(2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.fit(X).means_, fresh.means_)
    np.testing.assert_array_equal(model.partial_fit(X).means_, fresh.partial_fit(X).means_)


@pytest.mark.parametrize("way", ["fit", "load"])
def test_a_few_more_rows_do_not_throw_a_model_away(tmp_path, way) -> None:
    X = overlapping(10_000, seed=11)
    model = EGMM(3, random_state=0).fit(X)
    if way == "load":
        model.save(tmp_path / "model.json")
        model = EGMM.load(tmp_path / "model.json")
    before = model.means_, model.covariances_
    model.partial_fit(X[:3])
    # A batch of 3 after 10 000 rows counts (3 / 10 003)^0.6, less than one percent.
    for old, new in zip(before, (model.means_, model.covariances_), strict=True):
        assert 0 < np.abs(new - old).max() < 0.05


@pytest.mark.parametrize("certainty", [0.0, 1.0])
@pytest.mark.parametrize("covariance", MODELS)
def test_a_model_expects_what_gives_it_back(covariance, certainty) -> None:
    X = overlapping(2_000, seed=12)
    problem = problem_of(X, "pairs", 2, covariance, ridge=0.01, certainty=certainty)
    params = ascend(problem, (X[:, 0] > 1.5).astype(int), tol=1e-4).ascent.state.evaluation.params
    stream = Stream.from_model(problem, params, 0.0, 0.0)
    assert stream.weight == pytest.approx(len(X), rel=1e-12)
    back, is_proper = _maximised(stream.problem, params, stream.statistics)
    assert is_proper
    for got, want in zip(back[:3], params[:3], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
@pytest.mark.parametrize("shift", [1e9, 1e60, 1e140])
def test_a_far_batch_says_what_is_wrong(covariance, shift) -> None:
    X = overlapping(600, seed=8)
    model = EGMM(2, covariance=covariance, random_state=0).fit(X)
    before = model.means_
    expected = r"X lies .* deviations from the nearest cluster in column \d, too far for one model of all rows"
    with pytest.raises(ValueError, match=expected):
        model.partial_fit(X[:50] + shift)
    np.testing.assert_array_equal(model.means_, before)


def test_a_batch_that_leaves_no_covariance_says_what_is_wrong() -> None:
    rng = np.random.default_rng(27)
    X = rng.normal(size=(12, 2))[rng.integers(0, 4, 12)] + 1e-9 * rng.normal(size=(12, 2))
    model = EGMM(2, covariance="VII", random_state=0, reg_covar=0.0, tol=1e-10).fit(X)
    expected = "X leaves a covariance that is not positive definite; use larger batches, a larger reg_covar"
    with pytest.raises(ValueError, match=expected):
        model.partial_fit(X[:3])
