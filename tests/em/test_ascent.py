"""The EM loop of a batch: it climbs, stops in time, gives up what degenerates, and fits do not disturb each other."""

from dataclasses import replace

import numpy as np
import pytest

from egmm.datasets import make_four_class, make_two_class
from egmm.em import ascent as loop
from egmm.em.ascent import CONVERGED, LOST, STOPPED, Ascent
from egmm.em.covariance import MODELS, is_diagonal, monomial_kind
from egmm.em.parameters import concatenated
from egmm.em.problem import Problem
from em.problems import ascend, problem_of, start_of


@pytest.fixture
def blobs(rng):
    rows = [rng.normal(mean, 1, (50, 2)) for mean in ([0, 0], [3, 1], [1, 4])]
    return np.concatenate(rows), np.repeat(np.arange(3), 50)


@pytest.mark.parametrize("prior", [None, "default"])
@pytest.mark.parametrize("family", ["pairs", "singletons", "simple"])
@pytest.mark.parametrize("covariance", MODELS)
def test_the_objective_never_falls(blobs, covariance, family, prior) -> None:
    X, labels = blobs
    problem = problem_of(X, family, 3, covariance, prior=prior)
    traced = ascend(problem, labels, tol=1e-6 * len(X), max_iter=300)
    assert np.diff(traced.objectives).min() > -1e-10 * abs(traced.objectives[0])


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VEV", "VVV"])
def test_no_more_than_ten_tolerances_are_left(covariance) -> None:
    X, truth = make_four_class(random_state=0)
    problem = problem_of(X, "pairs", 4, covariance)
    tol = 1e-6 * len(X)
    soon, late = (ascend(problem, truth, tol=one, max_iter=5000).objectives[-1] for one in (tol, 1e-4 * tol))
    assert late - soon < 10 * tol


@pytest.mark.parametrize(("make", "n_clusters"), [(make_two_class, 2), (make_four_class, 4)])
def test_extrapolation_saves_passes_of_em_that_crawls(make, n_clusters) -> None:
    X, truth = make(random_state=0)
    problem = problem_of(X, "pairs", n_clusters)
    tol = 1e-6 * len(X)
    fast = ascend(problem, truth, tol=tol)
    plain = ascend(problem, truth, tol=1e-12, accelerate=False, max_iter=int(4 * fast.passes[-1]))
    assert fast.ascent.status[0] == CONVERGED
    assert fast.objectives[-1] > plain.objectives[-1]


def test_plain_em_stops_when_the_last_gain_is_below_the_tolerance(blobs) -> None:
    X, labels = blobs
    traced = ascend(problem_of(X, "pairs"), labels, tol=0.05, accelerate=False)
    gains = np.diff(traced.ascent.log_likelihoods(0))
    assert gains[-1] < 0.05
    assert (gains[:-1] >= 0.05).all()
    assert traced.passes[-1] == len(gains) + 1


def together(problems: list[Problem]) -> Problem:
    """One problem of several fits of one form."""
    return replace(problems[0], settings=merged([problem.settings for problem in problems]))


def merged(records):
    """Records of single fits as one of a batch."""
    columns = zip(*records, strict=True)
    parts = (merged(column) if isinstance(column[0], tuple) else np.concatenate(column) for column in columns)
    return type(records[0])(*parts)


FORMS = {(monomial_kind(model), is_diagonal(model)) for model in MODELS}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_batch_ends_where_single_fits_do(blobs, form) -> None:
    X, labels = blobs
    models = [model for model in MODELS if (monomial_kind(model), is_diagonal(model)) == form]
    problems = [problem_of(X, "pairs", 3, model, 1e-9) for model in models]
    starts = [start_of(problem, labels) for problem in problems]
    start = concatenated(starts)
    tol = 1e-6 * len(X)
    batch = Ascent.start(together(problems), start, np.full(len(models), tol), accelerate=True).run(1000)
    lengths = set()
    for at, (problem, labels_start) in enumerate(zip(problems, starts, strict=True)):
        alone = ascend(problem, labels_start, tol=tol, max_iter=1000)
        assert batch.status[at] == CONVERGED
        assert batch.state.evaluation.log_likelihood[at] == pytest.approx(
            alone.ascent.state.evaluation.log_likelihood[0], abs=10 * tol
        )
        history = batch.log_likelihoods(at)
        assert history[-1] == batch.state.evaluation.log_likelihood[at]
        lengths.add(len(history))
    assert max(lengths) == len(batch.history)


def test_a_fit_ends_at_the_last_step_allowed(blobs) -> None:
    X, labels = blobs
    traced = ascend(problem_of(X, "pairs"), labels, tol=1e-12, max_iter=3)
    assert traced.ascent.status[0] == STOPPED
    assert len(traced.ascent.log_likelihoods(0)) == 4


@pytest.fixture
def collapsing(rng):
    """Two rows far from all others in a cluster of their own: its covariance shrinks to the ridge."""
    X = np.concatenate([rng.normal(0, 1, (60, 2)), [[30.0, 30.0], [30.0, 30.001], [30.001, 30.0], [30.0, 30.0005]]])
    return X, np.repeat([0, 1, 2], [30, 30, 4])


def test_a_collapse_is_looked_for_after_ten_steps_twenty_and_so_on(monkeypatch) -> None:
    X, labels = make_four_class(random_state=0)
    looked = []
    monkeypatch.setattr(loop, "have_collapsed", lambda *args: looked.append(1) or np.array([False]))
    problem = problem_of(X, "pairs", 4, "VVV", 1e-9)
    ascend(problem, labels, tol=0.0, max_iter=45, gives_up=True)
    assert len(looked) == 3
    looked.clear()
    ascend(problem, labels, tol=0.0, max_iter=45)
    assert not looked


def test_what_collapses_is_given_up_if_asked_for(collapsing, monkeypatch) -> None:
    X, labels = collapsing
    monkeypatch.setattr(loop, "have_collapsed", lambda *args: np.array([True]))
    problem = problem_of(X, "singletons", 3, "VVV", 1e-9)
    traced = ascend(problem, labels, tol=0.0, max_iter=45, gives_up=True)
    assert traced.ascent.status[0] == LOST
    assert len(traced.ascent.log_likelihoods(0)) == 11


def test_interrupted_it_holds_where_it_is(blobs, monkeypatch) -> None:
    X, labels = blobs
    problem = problem_of(X, "pairs")
    ascent = Ascent.start(problem, start_of(problem, labels), np.array([1e-9]), accelerate=True)
    step, calls = Ascent._step, []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(Ascent, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ascent.run(100)
    assert ascent.n_steps == 5
    assert ascent.state.evaluation.log_likelihood[0] == ascent.history[-1][0]
    again = problem.evaluate(ascent.state.evaluation.params)
    assert again.log_likelihood[0] == pytest.approx(ascent.history[-1][0], rel=1e-12)


def test_light_sets_are_left_out_and_keep_a_trace(rng) -> None:
    # Clusters far apart: no row is between them, and the sets of several dwindle.
    X = np.concatenate([rng.normal(mean, 1, (80, 2)) for mean in ([0, 0], [8, 0], [0, 8])])
    problem = problem_of(X, "pairs", 3, "VVV")
    traced = ascend(problem, np.repeat(np.arange(3), 80), tol=1e-6 * len(X))
    weights = traced.ascent.state.evaluation.params.weights[0]
    assert traced.ascent.status[0] == CONVERGED
    assert (weights > 0).all()
    assert np.sort(weights)[:4].max() < 1e-12
