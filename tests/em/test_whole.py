"""Whole fits in compiled code: each part against its NumPy twin, and the ends against R's mclust and single steps."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from egmm.em.loop import Ascent
from egmm.em.whole import Wanted, can_fit_whole, fit_whole
from sklearn.base import clone
from sklearn.datasets import load_wine

from egmm import EGMM, FocalSets, select_model
from egmm.candidate import Deferred
from egmm.em import celeux_govaert, degenerate, estep, fit, whole
from egmm.em.covariance import MODELS, SHARED, is_diagonal
from egmm.em.parameters import Parameters
from egmm.em.problem import Problem
from egmm.em.start import Sample
from em.problems import problem_of, start_of

PEERS = json.loads((Path(__file__).parents[1] / "reference" / "r_peers.json").read_text())
FAMILIES = ["singletons", "pairs"]


@pytest.fixture
def blobs(rng):
    shapes = [np.diag([1.0, 0.5, 2.0]), rng.normal(size=(3, 3)), np.diag([0.3, 1.5, 1.0])]
    X = np.concatenate([m + rng.normal(size=(60, 3)) @ a for m, a in zip((0, 2, 4), shapes, strict=True)])
    return X, np.repeat([0, 1, 2], 60)


class Compiled:
    """The compiled parts of one problem, called one by one."""

    def __init__(self, problem: Problem, params: Parameters) -> None:
        from egmm.em.compiled import step  # noqa: PLC0415  Numba is loaded only when it is used.

        X = problem.rows.X
        weight = np.ones(len(X)) if problem.rows.sample_weight is None else problem.rows.sample_weight
        self._step, self._room = (
            step,
            whole._Room(Sample(X, weight), problem.moments, problem.shares, problem.covariance),
        )
        addresses = whole._compiled()[1]
        self._problem = whole._problem(
            addresses, problem.covariance, problem.moments, problem.ridge, problem.certainty, fit.WHOLE
        )
        self.call, self.params, _, self._focal, self._vectors, _, _, self._in_logs = self._room.every
        self._numbers = self._room.others[2]
        for mine, theirs in zip(self.params, params, strict=False):
            mine[...] = theirs
        self.params[3][...] = celeux_govaert.common_axes(self.params[2])

    def evaluate(self) -> bool:
        values, rows, traces = self._numbers[:3]
        arguments = (self._problem, self.call, self._in_logs, self.params, self._focal, self._room.others[1])
        return self._step.evaluate(*arguments, rows, traces, values, self._vectors[0]) == 1.0

    def maximise(self) -> bool:
        return self._step.maximise(self._problem, self.call, self.params, self._room.others[1], self._vectors[0]) == 1.0

    @property
    def values(self) -> np.ndarray:
        return self._numbers[0, :2]

    @property
    def parameters(self) -> Parameters:
        weights, means, covariances = (part.copy() for part in self.params[:3])
        return Parameters(weights, means, covariances)


def fit_labels(X, labels, covariance, family="pairs", **changes):
    """A compiled fit to rows from labels, and its problem."""
    options = {"reg_covar": 0.0, "certainty": 0.0, "start_tol": 1e-4, "tol": 1e-8, "max_iter": 2000, "gives_up": False}
    options |= changes
    weight = options.pop("weight", None)
    n_clusters = int(labels.max()) + 1
    engine = {"engine": "numba", "weight": weight, "certainty": options["certainty"]}
    problem = problem_of(X, family, n_clusters, covariance, options["reg_covar"], **engine)
    sample = Sample(X, np.ones(len(X)) if weight is None else weight)
    found = fit_whole(sample, problem.moments, problem.shares, Wanted([labels], covariance, **options), fit.WHOLE)
    return found, problem


# Parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("family", [*FAMILIES, "full"])
def test_a_pass_is_numpys(blobs, covariance, family) -> None:
    X, labels = blobs
    problem = problem_of(X, family, 3, covariance, 0.1, certainty=0.7)
    point = problem.evaluate(start_of(problem, labels))
    compiled = Compiled(problem, point.params)
    assert compiled.evaluate()
    np.testing.assert_allclose(compiled.values, [point.log_likelihood, point.objective], rtol=1e-12)
    counts, sums, _ = compiled.call[6]
    np.testing.assert_allclose(counts[0], point.statistics.set_counts, rtol=1e-9)
    np.testing.assert_allclose(sums, point.statistics.cluster_sums, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("covariance", MODELS)
def test_without_meta_clusters_a_step_is_the_m_step(blobs, covariance) -> None:
    X, labels = blobs
    problem = problem_of(X, "singletons", 3, covariance, 0.01)
    point = problem.evaluate(start_of(problem, labels))
    compiled = Compiled(problem, point.params)
    compiled.evaluate()
    wanted = problem.m_step(point)
    for _ in range(60):  # What both iterate inside the M-step they may end at different places of: go on to the end.
        assert compiled.maximise()
        wanted = problem.m_step(point._replace(params=wanted))
    weights, means, covariances = compiled.parameters
    np.testing.assert_allclose(weights, wanted.weights, rtol=1e-12)
    np.testing.assert_allclose(means, wanted.means, atol=1e-12)
    if covariance in ("EVE", "VVE"):  # Common axes have several optima.
        assert loss(problem, point, covariances) <= loss(problem, point, wanted.covariances) + 1e-6
    else:
        wanted_covariances = wanted.covariances[None] if covariance in SHARED else wanted.covariances
        np.testing.assert_allclose(covariances, wanted_covariances, atol=1e-8)


def loss(problem, point, covariances) -> float:
    """What Celeux and Govaert's M-steps minimise."""
    counts, sums, scatters, _ = point.statistics
    means = sums / counts[:, None]
    own = (
        scatters
        - counts[:, None, None] * means[:, :, None] * means[:, None]
        + counts[:, None, None] * np.diag(problem.ridge)
    )
    inverse = np.linalg.inv(covariances)
    return float((counts * np.linalg.slogdet(covariances)[1]).sum() + (inverse * own).sum())


@pytest.mark.parametrize("covariance", [model for model in MODELS if model not in SHARED])
def test_scatters_of_every_kind_have_the_covariances_of_the_twin(rng, covariance) -> None:
    # Through a problem of hard groups, where statistics are those of the groups.
    for dim, n_clusters in ((1, 2), (2, 3), (6, 2), (9, 4)):
        if dim == 1 and not is_diagonal(covariance):
            continue
        labels = np.repeat(np.arange(n_clusters), 40)
        stretch = np.exp(rng.normal(size=(n_clusters, dim)))
        X = 50.0 * labels[:, None] + rng.normal(size=(len(labels), dim)) * stretch[labels]
        problem = problem_of(X, "singletons", n_clusters, covariance)
        point = problem.evaluate(start_of(problem, labels))
        compiled = Compiled(problem, point.params)
        compiled.evaluate()
        for _ in range(60):
            assert compiled.maximise()
        scatters = point.statistics.cluster_scatters
        counts, means = point.statistics.set_counts, point.statistics.cluster_sums / 40
        about = scatters - 40 * (means**2 if scatters.ndim == 2 else means[:, :, None] * means[:, None])
        wanted = celeux_govaert.fit_covariances(covariance, counts, about)
        for _ in range(60):
            wanted = celeux_govaert.fit_covariances(covariance, counts, about, wanted)
        got = compiled.parameters.covariances
        if wanted.ndim == 2:
            wanted = wanted[:, :, None] * np.eye(dim)
        if covariance in ("EVE", "VVE"):
            assert loss(problem, point, got) <= loss(problem, point, wanted) + 1e-5
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("certainty", [0.0, 0.3])
def test_where_moments_match_a_step_stays(blobs, covariance, certainty) -> None:
    X, labels = blobs
    problem = problem_of(X, "pairs", 3, covariance, 1e-6, certainty=certainty)
    ascent = Ascent.from_start(problem, start_of(problem, labels), tol=1e-9, accelerate=True).run(3000)
    compiled = Compiled(problem, ascent.point.params)
    compiled.evaluate()
    compiled.maximise()
    _, means, covariances = compiled.parameters
    np.testing.assert_allclose(means, ascent.point.params.means, atol=2e-3)
    np.testing.assert_allclose(
        covariances, np.broadcast_to(ascent.point.params.covariances, covariances.shape), atol=5e-3
    )


# Whole fits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("name", ["iris", "seeds", "newthyroid", "ecoli"])
def test_reaches_the_likelihood_of_mclust(uci, name, covariance) -> None:
    peer = PEERS[name]
    labels = np.array(peer["labels0"]) - min(peer["labels0"])
    found, problem = fit_labels(uci(name).X, labels, covariance, "singletons", start_tol=1e-9, tol=1e-9)
    if found is None:  # Out of the ordinary, as the machine's rounding has it: then single steps are made.
        ascent = Ascent.from_start(problem, start_of(problem, labels), tol=1e-9 * len(labels), accelerate=True)
    else:
        ascent = found.ascent(problem)
    ascent.run(3000)
    assert ascent.point.log_likelihood > peer["mclust_me"][covariance]["loglik"] - 1e-3


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("certainty", [0.0, 1.0])
def test_it_rises_to_a_maximum(blobs, covariance, family, certainty) -> None:
    tol = 1e-6
    found, problem = fit_labels(*blobs, covariance, family, certainty=certainty, tol=tol)
    ascent = found.ascent(problem)
    assert ascent.history == pytest.approx(found.history)
    if certainty == 0 or family == "singletons":
        assert (np.diff(found.history) > -1e-9).all()
    assert ascent.point.log_likelihood == pytest.approx(problem.evaluate(found.params).log_likelihood, rel=1e-12)
    assert not found.is_given_up
    if found.is_converged:
        more = Ascent.from_start(problem, found.params, tol=1e-3 * tol * len(blobs[0]), accelerate=True).run(2000)
        assert more.point.objective - ascent.point.objective < 20 * tol * len(blobs[0])


def test_repeated_rows_are_weights(blobs, rng) -> None:
    X, labels = blobs
    times = rng.integers(1, 4, len(X))
    weighted, _ = fit_labels(X, labels, "VVV", weight=times.astype(float))
    repeated, _ = fit_labels(np.repeat(X, times, axis=0), np.repeat(labels, times), "VVV")
    for mine, other in zip(weighted.params, repeated.params, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-6)


def test_the_best_of_several_labels_is_kept(blobs, rng) -> None:
    X, labels = blobs
    alone, problem = fit_labels(X, labels, "VVV", "singletons")
    wanted = Wanted([rng.permutation(labels), labels], "VVV", 0.0, 0.0, 1e-4, 1e-8, 2000, False)
    both = fit_whole(Sample(X, np.ones(len(X))), problem.moments, problem.shares, wanted, fit.WHOLE)
    assert both.history[-1] >= alone.history[-1] - 1e-6


def test_light_sets_that_grow_are_revived(rng, monkeypatch) -> None:
    # Rows half-way between two clusters are the pair's, however little weight it begins with.
    X = np.concatenate([rng.normal(m, 0.5, size=(60, 2)) for m in (0, 4, 2)])
    labels = np.repeat([0, 1], 90)
    usual, _ = fit_labels(X, labels, "EII")
    monkeypatch.setattr(whole, "META_WEIGHT", 1e-15)
    light, _ = fit_labels(X, labels, "EII")
    monkeypatch.setattr(fit, "WHOLE", fit.WHOLE._replace(growing=(0.0, np.inf, 0.0, 1.0, 1.0)))
    alone, _ = fit_labels(X, labels, "EII")
    assert light.history[-1] == pytest.approx(usual.history[-1], abs=1e-3)
    assert alone.history[-1] < usual.history[-1] - 10


def test_sets_that_are_left_out_are_asked_whether_they_would_grow(rng, monkeypatch) -> None:
    X = np.concatenate([rng.normal(m, 0.5, size=(60, 2)) for m in (0, 4, 2)])
    labels = np.repeat([0, 1], 90)
    usual, _ = fit_labels(X, labels, "VII")
    monkeypatch.setattr(whole, "META_WEIGHT", 0.0)
    without, _ = fit_labels(X, labels, "VII")
    assert without.params.weights[2] == pytest.approx(usual.params.weights[2], abs=1e-3)
    assert without.history[-1] == pytest.approx(usual.history[-1], abs=1e-3)


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
def test_sets_that_dwindle_are_left_out_and_cost_nothing(blobs, covariance) -> None:
    X, labels = blobs
    found, problem = fit_labels(X, labels, covariance, certainty=1.0)
    weights = found.params.weights
    assert (weights[problem.shares.max(axis=1) < 1] < 1e-12).any()
    assert weights.min() > 0  # On other rows they may grow.
    np.testing.assert_allclose(weights.sum(), 1)
    # Single steps from there, which leave no set out, gain no more than the tolerance.
    ascent = Ascent.from_start(problem, found.params, tol=1e-8, accelerate=True)
    ascent.run(50)
    assert 0 <= ascent.point.objective - found.ascent(problem).point.objective < 1e-4


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
@pytest.mark.parametrize("gap", [2, 500])
def test_masses_are_the_estimators(rng, covariance, gap) -> None:
    labels = np.repeat([0, 1, 2], 40)
    X = gap * labels[:, None] + rng.normal(size=(120, 2))
    weight = rng.integers(1, 4, size=120).astype(float)
    found, problem = fit_labels(X, labels, covariance, weight=weight)
    model = problem.components(found.params)
    np.testing.assert_allclose(found.masses(), estep.masses(X, model)[0], atol=1e-9)
    np.testing.assert_allclose(weight @ found.masses(), found.set_counts, atol=1e-7)


def test_no_degenerate_fit_goes_without_doubt(rng) -> None:
    n_lost = 0
    for covariance in ("EII", "VVI", "EVE", "VEV", "VVV"):
        for n_far in (2, 4, 8):
            X = rng.normal(size=(64, 3)) + 30 * (np.arange(64) >= 64 - n_far)[:, None]
            labels = np.where(X[:, 0] > 15, 1, np.where(X[:, 1] > 0, 2, 0))
            found, problem = fit_labels(X, labels, covariance, reg_covar=1e-8)
            if found is None:
                continue
            args = (problem.shares, found.params, found.set_counts, found.first)
            is_lost = degenerate.has_degenerated(problem.moments, found.ridge, *args)
            assert found.is_doubtful or not is_lost
            n_lost += is_lost
    assert n_lost >= 5


def test_clusters_far_apart_are_fitted_in_logarithms(rng) -> None:
    labels = np.repeat([0, 1, 2], 40)
    X = 1e3 * labels[:, None] + rng.normal(size=(120, 2))
    for covariance in ("VII", "VVV"):
        found, problem = fit_labels(X, labels, covariance)
        assert found.history[-1] == pytest.approx(problem.evaluate(found.params).log_likelihood, rel=1e-10)
        np.testing.assert_allclose(np.sort(found.params.weights)[-3:], 1 / 3, atol=1e-6)


def test_fits_that_collapse_are_given_up_in_a_search() -> None:
    found = select_model(
        load_wine().data, [2, 8], ["EVE", "VEV", "EVV", "VVV"], random_state=0, engine="numba", certainty=1
    )
    assert any(candidate.is_given_up for candidate in found.candidates)
    for candidate in found.candidates:
        if candidate.is_sound:
            assert candidate.model.converged_
            assert candidate.model.score(load_wine().data) * 178 == pytest.approx(candidate.model.log_likelihood_)


def test_an_empty_group_is_left_to_single_steps(blobs) -> None:
    X, labels = blobs
    wanted = Wanted([np.where(labels == 1, 0, labels)], "VVV", 0.0, 0.0, 1e-4, 1e-8, 2000, False)
    problem = problem_of(X, "pairs", 3, "VVV")
    assert fit_whole(Sample(X, np.ones(len(X))), problem.moments, problem.shares, wanted, fit.WHOLE) is None


@pytest.mark.parametrize(
    ("n_rows", "family", "n_features", "can"),
    [
        (100, "pairs", 4, True),
        (100, [{0, 1}, {2}, {0, 1, 2}], 4, False),
        (100, "pairs", 33, False),
        (20_000, "pairs", 4, False),
    ],
)
def test_for_which_fits_there_is_code(n_rows, family, n_features, can) -> None:
    assert can_fit_whole(n_rows, n_features, FocalSets.of(family, 3).shares) is can


# In an estimator and in a search ----------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VEV", "VVV"])
def test_the_estimator_ends_where_single_steps_do(blobs, covariance) -> None:
    X, _ = blobs
    ours, theirs = (
        EGMM(3, covariance=covariance, init="mixture", certainty=1.0, random_state=0, engine=engine).fit(X)
        for engine in ("numba", "numpy")
    )
    assert ours.converged_
    assert ours.log_likelihood_ == pytest.approx(theirs.log_likelihood_, abs=1e-2)
    np.testing.assert_allclose(np.sort(ours.weights_), np.sort(theirs.weights_), atol=1e-2)
    assert len(ours.log_likelihood_history_) == ours.n_iter_ + 1
    assert ours.log_likelihood_history_[-1] == ours.log_likelihood_
    assert ours.score(X) * len(X) == pytest.approx(ours.log_likelihood_)


def test_what_crawls_is_left_to_quasi_newton(blobs, monkeypatch) -> None:
    X, _ = blobs
    monkeypatch.setattr(whole, "MOST_STEPS", 3)
    model = EGMM(3, covariance="VVV", init="mixture", random_state=0, engine="numba").fit(X)
    assert model.n_iter_ > 3
    assert model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert EGMM(3, covariance="VVV", init="mixture", random_state=0, engine="numba", max_iter=2).fit(X).n_iter_ == 2


def test_a_fit_given_up_by_mistake_goes_on(rng) -> None:
    # Flat along one direction and little but ridge along another: in compiled code that looks like a collapse.
    X = np.column_stack([rng.normal(size=(450, 2)), np.full(450, 2.0)])
    X[150:300, 1] += 3
    X[300:, 0] += 3e5
    models = ("VVI", "VVV", "EVI", "VEV")
    ours, theirs = (select_model(X, [3], models, random_state=0, engine=engine) for engine in ("numba", "numpy"))
    for mine, other in zip(ours.candidates, theirs.candidates, strict=True):
        assert mine.is_degenerate or mine.model.converged_
        if mine.is_sound and other.is_sound:
            assert mine.model.log_likelihood_ == pytest.approx(other.model.log_likelihood_, abs=0.1)


def test_interrupted_after_the_compiled_steps_the_model_holds_the_best(blobs, monkeypatch) -> None:
    X, _ = blobs

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(whole, "MOST_STEPS", 3)
    monkeypatch.setattr(Ascent, "run", interrupt)
    model = EGMM(3, covariance="VVV", init="mixture", random_state=0, engine="numba")
    with pytest.raises(KeyboardInterrupt, match="fit stopped at step 3; the model holds the best parameters so far"):
        model.fit(X)
    assert not model.converged_
    assert model.means_.shape == (3, 3)


@pytest.mark.slow
def test_no_array_is_read_beyond_its_end(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    code = """
import numpy as np
from egmm import EGMM
from egmm.em.covariance import MODELS
X = np.random.default_rng(0).normal(size=(90, 3)) + np.repeat([0, 2, 4], 30)[:, None]
for n_clusters in (1, 3, 4):
    for covariance in MODELS:
        EGMM(n_clusters, covariance=covariance, init="mixture", engine="numba", random_state=0).fit(X)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True)


def test_what_cannot_be_fitted_is_told_as_ever() -> None:
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 5.0], [5.0, 5.0]])
    messages = []
    for engine in ("numba", "numpy"):
        with pytest.raises(ValueError, match="cluster") as caught:
            EGMM(2, covariance="VVV", init="mixture", random_state=0, engine=engine, reg_covar=0.0).fit(X)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_search_does_not_depend_on_its_threads(blobs) -> None:
    X, _ = blobs
    options = {"covariance": ("EEE", "VVI", "VVV"), "random_state": 0, "engine": "numba"}
    one, two = (select_model(X, range(2, 5), n_jobs=n_jobs, **options) for n_jobs in (1, 2))
    assert [c.criteria for c in one.candidates] == [c.criteria for c in two.candidates]
    assert {c.model.n_jobs for c in two.candidates} == {None}
    for mine, other in zip(one.candidates, two.candidates, strict=True):
        np.testing.assert_array_equal(mine.model.means_, other.model.means_)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_model_is_made_when_it_is_asked_for_and_is_the_one_that_was_compared(blobs, rng, weighted) -> None:
    X, _ = blobs
    weight = rng.integers(1, 4, size=len(X)).astype(float) if weighted else None
    options = {"covariance": ("EEE", "VVI", "VEV", "VVV"), "random_state": 0, "engine": "numba"}
    found = select_model(X, [2, 3, 6], sample_weight=weight, **options)
    assert any(isinstance(c.made, Deferred) and not c.made._is_made for c in found.candidates)
    again = pickle.loads(pickle.dumps(found))
    for candidate, other in zip(found.candidates, again.candidates, strict=True):
        outcome, labels = candidate.outcome, candidate.labels(sample := Sample(X, np.ones(len(X))), slice(None))
        model = candidate.model
        assert candidate.model is model
        assert (outcome.is_converged, outcome.is_degenerate) == (model.converged_, model.degenerate_)
        assert outcome.is_given_up == (model.degenerate_ and not model.converged_)
        assert outcome.single_weight == pytest.approx(model.weights_[model.focal_sets_.cardinalities == 1].sum())
        assert candidate.value("ebic") == model.ebic_
        assert candidate.value("icl") == pytest.approx(model.criteria(X, weight)["icl"])
        # Compared are the sample's rows, which are sorted.
        assert len(labels) == len(sample.rows)
        np.testing.assert_array_equal(np.bincount(labels), np.bincount(model.labels_))
        alone = clone(model).fit(X, sample_weight=weight)
        assert alone.log_likelihood_ == pytest.approx(model.log_likelihood_, rel=1e-9)
        np.testing.assert_array_equal(other.model.means_, model.means_)
        assert candidate.model.n_jobs is None


def test_every_fit_has_a_model_that_says_nothing() -> None:
    # Many of these fits collapse, some so far that no model can be made of them.
    found = select_model(load_wine().data, [6, 7, 8, 9], "all", random_state=0, engine="numba")
    assert {candidate.is_sound for candidate in found.candidates} == {False, True}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for candidate in found.candidates:
            assert candidate.is_fitted == (candidate.failure == "")
            assert isinstance(candidate.made, Deferred) <= candidate.is_sound
            if candidate.is_fitted:
                assert candidate.model.degenerate_ == candidate.is_degenerate
                assert np.isfinite(candidate.model.ebic_)


def test_large_searches_are_compiled_and_small_ones_are_not(blobs) -> None:
    X, _ = blobs
    small = select_model(X, [2], covariance="all", random_state=0)
    assert {c.model.engine for c in small.candidates} == {"numpy"}
    large = select_model(X, range(1, 7), covariance="all", random_state=0)
    assert {c.model.engine for c in large.candidates if c.model is not None} == {"numba"}
    assert (large.n_clusters, large.covariance) == (3, large.best.covariance)


def test_searches_that_cannot_be_compiled_as_a_whole_do_without(blobs) -> None:
    X = blobs[0][::4]
    for other in ({"prior": "default"}, {"init": "kmeans"}, {"accelerate": False, "max_iter": 5}):
        found = select_model(X, range(1, 21), ("EII", "EEI", "EEE"), random_state=0, n_jobs=1, **other)
        assert {c.model.engine for c in found.candidates if c.model is not None} == {"numpy"}
