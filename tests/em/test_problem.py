"""What EM raises, and what a step has gained of it."""

import numpy as np
import pytest

from egmm.em import estep, estep_numba
from em.problems import after_em, problem_of


@pytest.fixture
def blobs(rng):
    X = np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in ([0, 0], [4, 0], [1, 4])])
    return X, np.repeat([0, 1, 2], 60)


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
def test_the_ridge_is_a_penalty_on_precisions(blobs, covariance) -> None:
    problem = problem_of(blobs[0], "pairs", covariance=covariance, ridge=0.3)
    before, after = after_em(problem, blobs[1], 1)
    # N tr(P R) / 2 with one covariance; with own ones r_k for each, which is the rows' at the step's beginning.
    counts = problem.shares.T @ before.statistics.set_counts
    penalties = []
    for point in (before, after):
        precisions = np.linalg.inv(np.broadcast_to(point.params.covariances, (3, 2, 2)))
        penalties.append(0.15 * (counts * np.trace(precisions, axis1=1, axis2=2)).sum())
    assert before.objective == pytest.approx(before.log_likelihood - (penalties[0] if covariance == "EEE" else 0.0))
    rise = after.log_likelihood - before.log_likelihood
    assert problem.gain(before, after) == pytest.approx(rise - penalties[1] + penalties[0], rel=1e-9)
    assert problem.gain(before, before) == 0


@pytest.mark.parametrize("family", ["pairs", [{0, 1}, {1, 2}, {0, 2}]])
def test_without_certainty_no_single_cluster_need_have_weight(blobs, family) -> None:
    problem = problem_of(blobs[0], family)
    params = after_em(problem, blobs[1], 0)[0].params
    weights = np.where((problem.shares > 0).sum(axis=1) == 1, 0.0, 1.0)
    point = problem.evaluate(params._replace(weights=weights / weights.sum()))
    assert point.objective == point.log_likelihood


@pytest.mark.parametrize(
    ("family", "covariance", "is_exact"),
    [("pairs", "EEE", True), ("singletons", "VVV", True), ("pairs", "VVV", False), ("singletons", "EII", True)],
)
def test_an_exact_m_step_finds_nothing_more_to_do(blobs, family, covariance, is_exact) -> None:
    problem = problem_of(blobs[0], family, covariance=covariance)
    point = after_em(problem, blobs[1], 2)[-1]
    once = problem.m_step(point)
    twice = problem.m_step(point._replace(params=once))
    assert problem.has_exact_m_step is is_exact
    assert np.allclose(once.covariances, twice.covariances, rtol=1e-9) is is_exact


def test_the_engine_asked_for_makes_the_pass(blobs, backend, monkeypatch) -> None:
    made = []
    for name, engine in (("numpy", estep), ("numba", estep_numba)):
        prepare = engine.prepare
        monkeypatch.setattr(engine, "prepare", lambda *args, n=name, p=prepare: made.append(n) or p(*args))
    after_em(problem_of(blobs[0], engine=backend), blobs[1], 1)
    assert made == [backend, backend]
