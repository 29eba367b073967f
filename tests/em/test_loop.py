"""The EM loop: never downhill, the authors' stopping rule, and far fewer passes with acceleration."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from egmm.em.accelerate import QuasiNewton
from egmm.em.loop import Ascent
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

import oracles
from egmm import EGMM
from egmm.datasets import make_blobs_with_overlap, make_diamond, make_four_class, make_two_class
from egmm.em.parameters import NotPositiveDefiniteError
from egmm.rows.array import ArrayRows
from em.problems import problem_of, start_of


@pytest.fixture
def blobs(rng):
    X = np.concatenate([rng.normal(m, 1, (60, 2)) for m in (0, 2, 4)])
    return X, np.repeat([0, 1, 2], 60)


def ascend(problem, labels, *, tol=1e-6, accelerate=True, max_iter=3000):
    """An ascent with the objective after each step: a list of (passes, objective)."""
    ascent = Ascent.from_start(problem, start_of(problem, labels), tol=tol, accelerate=accelerate)
    trace = [(1, ascent.point.objective)]
    ascent.run(max_iter, lambda now: trace.append((now.n_passes, now.point.objective)))
    return ascent, np.array(trace)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("covariance", ["EEE", "EEI", "EII"])
@pytest.mark.parametrize("family", ["full", "singletons"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_the_objective_never_falls(backend, blobs, accelerate, covariance, family, ridge) -> None:
    X, labels = blobs
    problem = problem_of(X, family, 3, covariance, ridge, backend)
    ascent, trace = ascend(problem, labels, accelerate=accelerate, tol=1e-5 if accelerate else -1.0, max_iter=300)
    objective = trace[:, 1]
    assert np.diff(objective).min() >= -1e-12 * np.abs(objective).max()
    if ridge == 0:
        np.testing.assert_array_equal(objective[: len(ascent.history)], ascent.history)


def test_with_a_ridge_the_likelihood_itself_may_fall(blobs) -> None:
    X, labels = blobs
    ascent, trace = ascend(problem_of(X, "full", 3, ridge=0.5), labels, accelerate=False, tol=-1.0, max_iter=100)
    assert np.diff(ascent.history).min() < 0
    assert np.diff(trace[:, 1]).min() >= 0


@pytest.mark.parametrize("ridge", [0.0, 0.01, 0.5])
@pytest.mark.parametrize("family", ["full", "pairs", "singletons"])
def test_plain_em_is_the_authors_iteration(backend, blobs, ridge, family) -> None:
    X, labels = blobs[0][::6], blobs[1][::6]
    want, history = oracles.plain_em(X, labels, oracles.family(family, 3), ridge, tol=0.02)
    problem = problem_of(X, family, 3, ridge=ridge, engine=backend)
    ascent, _ = ascend(problem, labels, accelerate=False, tol=0.02)
    assert ascent.converged
    assert ascent.n_iter == len(history) - 1
    np.testing.assert_allclose(ascent.history, history, rtol=1e-11)
    np.testing.assert_allclose(ascent.point.params.weights, want.weights, atol=1e-11)
    np.testing.assert_allclose(ascent.point.params.means + problem.moments.centre, want.means, atol=1e-9)
    np.testing.assert_allclose(ascent.point.params.covariances, want.covariances, atol=1e-10)


def test_plain_em_also_stops_when_the_likelihood_falls(blobs) -> None:
    X, labels = blobs
    ascent, trace = ascend(problem_of(X, "full", 3, ridge=0.5), labels, accelerate=False, tol=0.0)
    assert ascent.converged
    gains = np.diff(ascent.history)
    assert gains[-1] < 0
    assert gains[:-1].min() >= 0
    assert len(trace) == len(ascent.history) == ascent.n_iter + 1


@pytest.mark.parametrize("accelerate", [False, True])
def test_steps_and_passes_are_counted(monkeypatch, blobs, accelerate) -> None:
    X, labels = blobs
    problem = problem_of(X)
    calls = []
    evaluate = type(problem).evaluate
    monkeypatch.setattr(type(problem), "evaluate", lambda self, params: calls.append(1) or evaluate(self, params))
    ascent, trace = ascend(problem, labels, accelerate=accelerate, tol=1e-4)
    assert ascent.n_passes == len(calls)
    assert ascent.n_iter == len(ascent.history) - 1
    assert len(trace) in {ascent.n_iter + 1, ascent.n_iter + 2}
    if not accelerate:
        assert ascent.n_passes == ascent.n_iter + 1


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("max_iter", [1, 5, 20])
def test_no_more_steps_than_allowed(blobs, accelerate, max_iter) -> None:
    X, labels = blobs
    ascent, _ = ascend(problem_of(X), labels, accelerate=accelerate, tol=1e-12, max_iter=max_iter)
    assert ascent.n_iter == max_iter
    assert not ascent.converged


# Acceleration ---------------------------------------------------------------------------------------------------


def kmeans_labels(X, n_clusters):
    return KMeans(n_clusters, n_init=1, random_state=0).fit_predict(X)


def example(name, request):
    """Standardised rows, number of clusters and family of a named example."""
    if name in SIMULATED:
        make, n_clusters, family = SIMULATED[name]
        return scale(make(random_state=0)[0]), n_clusters, family
    if name in SHIPPED:
        return scale(SHIPPED[name](return_X_y=True)[0]), 3, "full"
    return scale(request.getfixturevalue("uci")(name).X), *REAL[name]


SIMULATED = {
    "two-class": (make_two_class, 2, "pairs"),
    "four-class": (make_four_class, 4, "pairs"),
    "four-class full": (make_four_class, 4, "full"),
    "blobs": (make_blobs_with_overlap, 3, "full"),
}
SHIPPED = {"iris": load_iris, "wine": load_wine}
REAL = {
    "seeds": (3, "full"),
    "newthyroid": (3, "full"),
    "knowledge": (4, "full"),
    "ecoli": (8, "pairs"),
    "vehicle": (4, "full"),
    "magic": (2, "full"),
}


def passes_to(trace, level) -> int:
    """Passes until the objective is first at `level`; more than all where it never is."""
    reached = trace[:, 1] >= level
    return int(trace[reached.argmax(), 0]) if reached.any() else int(trace[-1, 0]) + 1


# Least ratio of plain EM's passes to ours until the total log-likelihood is within 1e-4 of its end.
RATIOS = dict.fromkeys([*SIMULATED, *SHIPPED, *REAL], 1 / 1.2) | {
    "two-class": 10,
    "four-class": 10,
    "four-class full": 10,
}


@pytest.mark.parametrize("name", RATIOS)
def test_acceleration_saves_passes(request, name) -> None:
    X, n_clusters, family = example(name, request)
    problem = problem_of(X, family, n_clusters)
    labels = kmeans_labels(X, n_clusters)
    fast, trace = ascend(problem, labels, tol=1e-8)
    assert fast.converged
    level = trace[-1, 1] - 1e-4
    ours = passes_to(trace, level)
    # As far as plain EM may go without refuting the ratio.
    allowed = int(RATIOS[name] * ours) - 1
    _, plain = ascend(problem, labels, accelerate=False, tol=-np.inf, max_iter=allowed)
    assert passes_to(plain, level) >= RATIOS[name] * ours


@pytest.mark.parametrize("name", [*SIMULATED, *SHIPPED, "seeds", "newthyroid", "knowledge", "ecoli"])
@pytest.mark.parametrize("tol", [1e-2, 1e-3])
def test_what_is_left_when_it_stops_is_little(request, name, tol) -> None:
    X, n_clusters, family = example(name, request)
    problem = problem_of(X, family, n_clusters)
    labels = kmeans_labels(X, n_clusters)
    end = ascend(problem, labels, tol=1e-9)[0].point.objective
    left, left_by_em = (
        end - ascend(problem, labels, tol=tol, accelerate=accelerate)[0].point.objective for accelerate in (True, False)
    )
    # What is left is predicted, and where some weight falls slowly to zero there is more; but never more than where
    # plain EM stops, which asks its last gain alone and may be a hundred tolerances short.
    assert left <= max(3 * tol, left_by_em)


def test_plain_em_stops_short_where_it_crawls(crawling) -> None:
    end, fast, plain = (
        ascend(*crawling, tol=tol, accelerate=accelerate)[0].point.objective
        for tol, accelerate in [(1e-9, True), (1e-3, True), (1e-3, False)]
    )
    assert end - plain > 0.05
    assert end - fast < 0.005


@pytest.fixture
def crawling():
    X, labels = make_two_class(random_state=0)
    return problem_of(X, "pairs", 2), labels


def test_steps_that_fail_lead_back_to_em(monkeypatch, crawling) -> None:
    problem, labels = crawling
    end = ascend(problem, labels, tol=1e-9)[0].point.objective
    propose = QuasiNewton.propose
    calls = itertools.count()

    def sometimes_downhill(self):
        step, slope = propose(self)
        return (-50 * step, slope) if next(calls) % 3 == 1 else (step, slope)

    monkeypatch.setattr(QuasiNewton, "propose", sometimes_downhill)
    ascent, trace = ascend(problem, labels, tol=1e-7)
    assert np.diff(trace[:, 1]).min() >= 0
    assert ascent.n_passes > ascent.n_iter + 1
    assert ascent.point.objective == pytest.approx(end, abs=1e-4)


def test_a_direction_that_is_not_uphill_leads_back_to_em(monkeypatch, crawling) -> None:
    problem, labels = crawling
    propose = QuasiNewton.propose
    monkeypatch.setattr(QuasiNewton, "propose", lambda self: (propose(self)[0], float("nan")))
    ascent, _ = ascend(problem, labels, tol=1e-12, max_iter=60)
    plain, _ = ascend(problem, labels, tol=-np.inf, accelerate=False, max_iter=60)
    np.testing.assert_allclose(ascent.history, plain.history, rtol=1e-13)


def test_a_step_out_of_bounds_is_shortened(monkeypatch, crawling) -> None:
    problem, labels = crawling
    means = []
    attempt = Ascent._try

    def out_of_bounds_at_first(self, make):
        means.append(make().means - self.point.params.means)
        if len(means) == 1:
            monkeypatch.setattr(type(problem), "evaluate", refuse)
        result = attempt(self, make)
        monkeypatch.setattr(type(problem), "evaluate", evaluate)
        return result

    def refuse(self, params):
        raise NotPositiveDefiniteError("smallest eigenvalue -1")

    evaluate = type(problem).evaluate
    monkeypatch.setattr(Ascent, "_try", out_of_bounds_at_first)
    ascent, trace = ascend(problem, labels, tol=1e-9)
    np.testing.assert_allclose(means[1], 0.1 * means[0], rtol=1e-9)
    assert np.diff(trace[:, 1]).min() >= 0
    assert ascent.converged


def test_a_step_too_long_is_shortened_to_the_top_of_a_parabola(monkeypatch, crawling) -> None:
    problem, labels = crawling
    slopes, tried = [], []
    propose, attempt = QuasiNewton.propose, Ascent._try

    def too_far(self):
        step, slope = propose(self)
        slopes.append(4 * slope)
        return 4 * step, 4 * slope

    monkeypatch.setattr(QuasiNewton, "propose", too_far)
    monkeypatch.setattr(Ascent, "_try", lambda self, make: tried.append((self.point, make())) or attempt(self, make))
    ascend(problem, labels, tol=1e-9, max_iter=60)
    (before, first), (_, second) = tried[:2]
    gain = problem.evaluate(first).objective - before.objective
    shrink = 0.5 * slopes[0] / (slopes[0] - gain)
    assert 0.1 < shrink < 0.5
    start = before.params.means
    np.testing.assert_allclose(second.means - start, shrink * (first.means - start), rtol=1e-9)


def test_where_em_gains_no_one_who_promises_nothing_is_believed(monkeypatch, crawling) -> None:
    # EM gains at most twice what it surely does, which is what is asked.
    plain = ascend(*crawling, tol=2e-3, accelerate=False)[0].point.objective
    propose = QuasiNewton.propose
    monkeypatch.setattr(QuasiNewton, "propose", lambda self: (0 * propose(self)[0], 0.0))
    assert ascend(*crawling, tol=1e-3)[0].point.objective >= plain - 1e-9


@pytest.mark.parametrize("length", [1e2, 1e4, 1e6, 1e9])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_steps_far_out_of_bounds_warn_nobody(monkeypatch, backend, length, n_jobs) -> None:
    X, labels = make_two_class(random_state=0)
    monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", 200)
    problem = replace(problem_of(X, "full", 2, engine=backend), rows=ArrayRows(X, n_jobs=n_jobs))
    propose = QuasiNewton.propose
    calls = itertools.count()

    def now_and_then_too_far(self):
        step, slope = propose(self)
        return (length * step, slope) if next(calls) % 4 == 0 else (step, slope)

    monkeypatch.setattr(QuasiNewton, "propose", now_and_then_too_far)
    with problem.rows:
        ascent, trace = ascend(problem, labels, tol=1e-6)
    assert np.diff(trace[:, 1]).min() >= 0
    assert ascent.converged


def test_a_set_that_had_all_but_died_out_comes_back(rng) -> None:
    # Two clusters fitted without the set between them: with next to no weight on it the ascent is at a saddle.
    X = np.concatenate([rng.normal(centre, 1, (n, 2)) for centre, n in ((0, 100), (9, 100), (4.5, 40))])
    labels = (X[:, 0] > 4.5).astype(int)
    apart, _ = ascend(problem_of(X, "singletons", 2), labels, tol=1e-9)
    problem = problem_of(X, "full", 2)
    weights = np.append(apart.point.params.weights, 1e-12)
    start = apart.point.params._replace(weights=weights / weights.sum())
    ascent = Ascent.from_start(problem, start, tol=1e-4, accelerate=True).run(200)
    assert ascent.converged
    assert ascent.point.params.weights[2] > 0.1
    assert ascent.point.objective > apart.point.objective + 10
    assert np.diff(ascent.history).min() > -1e-9


@pytest.mark.parametrize("covariance", ["VII", "VEE", "VVV"])
def test_what_em_gains_is_never_negative_with_a_ridge(blobs, covariance) -> None:
    X, labels = blobs
    problem = problem_of(X, "full", 3, covariance, ridge=0.5)
    points = [problem.evaluate(start_of(problem, labels))]
    for _ in range(40):
        points.append(problem.evaluate(problem.m_step(points[-1])))
    gains = [problem.gain(before, after) for before, after in itertools.pairwise(points)]
    assert min(gains) >= -1e-9
    assert min(after.objective - before.objective for before, after in itertools.pairwise(points)) < -1e-6


@pytest.mark.parametrize("weight", [1e-9, 1e-30, 1e-200])
def test_a_set_that_has_all_but_died_out_is_revived_where_it_would_grow(rng, weight) -> None:
    # Two groups, and rows right between them.
    X = np.concatenate([rng.normal(mean, 1, (100, 2)) for mean in (-4, 0, 4)])
    labels = np.repeat([0, 1], 150)
    end = ascend(problem_of(X, "pairs", 2), labels, tol=1e-7)[0].point.objective
    singletons = ascend(problem_of(X, "singletons", 2), labels, tol=1e-7)[0].point
    assert end > singletons.objective + 1
    # The maximum without the meta-cluster is a saddle with it.
    problem = problem_of(X, "pairs", 2)
    params = singletons.params._replace(weights=np.array([*singletons.params.weights * (1 - weight), weight]))
    ascent = Ascent.from_start(problem, params, tol=1e-7, accelerate=True).run(1000)
    assert ascent.point.objective == pytest.approx(end, abs=1e-3)
    assert np.diff(ascent.history).min() >= -1e-9


@pytest.mark.filterwarnings("ignore:EGMM did not converge")
@pytest.mark.parametrize("seed", [10, 18, 21])
def test_a_light_set_that_grows_slowly_is_waited_for(seed) -> None:
    # More clusters than there are: weights of less than a row grow by some thousandths a pass, EM's gains with them.
    X, _ = make_four_class(random_state=seed)
    model = EGMM(6, random_state=seed).fit(X)
    assert model.converged_
    end = model.log_likelihood_
    model.set_params(warm_start=True, accelerate=False, tol=0, max_iter=1000).fit(X)
    assert model.log_likelihood_ - end < 3 * 1e-6 * len(X)


@pytest.mark.filterwarnings("ignore:some clusters have no mass", "ignore:clusters? .* no mass")
@pytest.mark.parametrize("covariance", ["VEE", "EEV"])
def test_a_fit_that_has_collapsed_to_rounding_stops(covariance) -> None:
    # Six clusters of eleven rows: variances are the ridge, 1e-12 of the rows', and what EM gains is rounding.
    X, _ = make_diamond()
    model = EGMM(6, covariance=covariance, init="mixture", certainty=0.3, random_state=0).fit(X)
    assert model.degenerate_
    assert model.converged_
    assert model.n_iter_ < 300


def test_where_neither_quasi_newton_nor_em_gains_it_is_the_end(monkeypatch) -> None:
    X, labels = make_two_class(random_state=0)
    problem = problem_of(X, "pairs", 2, "VVV")
    ascent = Ascent.from_start(problem, start_of(problem, labels), tol=1e-6, accelerate=True)
    while ascent.newton is None:
        ascent.run(ascent.n_iter + 1)
    assert not ascent.converged
    here = ascent.point
    monkeypatch.setattr(QuasiNewton, "propose", lambda newton: (0 * newton._gradient, 1.0))
    monkeypatch.setattr(type(problem), "m_step", lambda _, point: point.params)
    ascent.run(ascent.n_iter + 50)
    assert ascent.converged
    assert ascent.point.objective == here.objective


@pytest.mark.parametrize("seed", [0, 5, 7])
def test_a_slow_mode_behind_a_fast_one_is_seen(seed) -> None:
    # The classical mixture has been fitted: of EM's first gains little is left, but the pair of both clusters grows.
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(0, 1, (1000, 2)), rng.normal(2.5, 1, (1000, 2))])
    ends = [EGMM(2, init="mixture", tol=tol, random_state=0).fit(X).log_likelihood_ for tol in (1e-6, 1e-12)]
    assert ends[1] - ends[0] < 2 * 1e-6 * len(X)
