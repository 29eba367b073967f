"""What EM raises, and what a step has gained of it."""

import numpy as np
import pytest

from egmm.em import estep, kernel
from egmm.em.parameters import concatenated, take
from em.problems import after_em, found_of, problem_of, start_of


@pytest.fixture
def blobs(rng):
    X = np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in ([0, 0], [4, 0], [1, 4])])
    return X, np.repeat([0, 1, 2], 60)


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
def test_the_ridge_is_a_penalty_on_precisions(blobs, covariance) -> None:
    problem = problem_of(blobs[0], "pairs", covariance=covariance, ridge=0.3)
    before, after = after_em(problem, blobs[1], 1)
    # N tr(P R) / 2 with one covariance; with own ones r_k for each, which is the rows' at the step's beginning.
    counts = problem.layout.shares.T @ before.statistics.set_counts[0]
    penalties = []
    for point in (before, after):
        precisions = np.linalg.inv(found_of(problem, point.params).covariances)
        penalties.append(0.15 * (counts * np.trace(precisions, axis1=1, axis2=2)).sum())
    penalty = penalties[0] if covariance == "EEE" else 0.0
    assert before.objective[0] == pytest.approx(before.log_likelihood[0] - penalty)
    rise = after.log_likelihood[0] - before.log_likelihood[0]
    assert problem.gains(before, after)[0] == pytest.approx(rise - penalties[1] + penalties[0], rel=1e-9)
    assert problem.gains(before, before)[0] == 0


@pytest.mark.parametrize("family", ["pairs", [{0, 1}, {1, 2}, {0, 2}]])
def test_without_certainty_no_single_cluster_need_have_weight(blobs, family) -> None:
    problem = problem_of(blobs[0], family)
    params = after_em(problem, blobs[1], 0)[0].params
    weights = np.where((problem.layout.shares > 0).sum(axis=1) == 1, 0.0, 1.0)
    point = problem.evaluate(params._replace(weights=(weights / weights.sum())[None]))
    assert np.isfinite(point.objective[0])
    assert point.objective[0] == point.log_likelihood[0]


@pytest.mark.parametrize(
    ("family", "covariance", "is_exact"),
    [("pairs", "EEE", True), ("singletons", "VVV", True), ("pairs", "VVV", False), ("singletons", "EII", True)],
)
def test_an_exact_m_step_needs_no_more_than_the_sums(blobs, family, covariance, is_exact) -> None:
    problem = problem_of(blobs[0], family, covariance=covariance)
    point = after_em(problem, blobs[1], 2)[-1]
    assert problem.layout.is_exact is is_exact
    # The vector of an exact step has the sums alone, whatever parameters they were made with.
    n_counts = len(problem.layout.shares)
    own = point.vector[0, n_counts : n_counts + 6].reshape(3, 2)
    assert np.allclose(own, point.statistics.sums[0, :, 1:3]) is is_exact


@pytest.mark.parametrize("family", ["full", "pairs", "singletons"])
@pytest.mark.parametrize("covariance", ["EII", "EEE", "VEI", "VVV"])
def test_a_batch_of_problems_is_its_problems(blobs, rng, family, covariance) -> None:
    problem = problem_of(blobs[0], family, covariance=covariance, ridge=0.1, prior="default", certainty=0.3)
    starts = [start_of(problem, rng.permutation(blobs[1])) for _ in range(3)]
    batch = problem.take(np.zeros(3, dtype=int))
    together = batch.evaluate(concatenated(starts))
    following, _ = batch.maximise(together.vector, together.params)
    for at, start in enumerate(starts):
        alone = problem.evaluate(start)
        np.testing.assert_allclose(together.vector[at], alone.vector[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(together.objective[at], alone.objective[0], rtol=1e-12)
        for mine, own in zip(following[:3], problem.maximise(alone.vector, start)[0][:3], strict=True):
            np.testing.assert_allclose(mine[at], own[0], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
def test_kept_monomials_change_nothing(blobs, rng, covariance) -> None:
    weight = rng.random(180)
    problem = problem_of(blobs[0], "pairs", covariance=covariance, weight=weight)
    kept = problem.keeping_monomials(blobs[0], weight)
    assert kept.kept is not None
    one, other = (each.evaluate(start_of(problem, blobs[1])) for each in (problem, kept))
    np.testing.assert_allclose(one.vector, other.vector, rtol=1e-12)
    np.testing.assert_allclose(one.objective, other.objective, rtol=1e-13)


def test_what_has_no_covariance_has_no_objective(blobs) -> None:
    problem = problem_of(blobs[0], "pairs", covariance="VVV").take(np.zeros(2, dtype=int))
    start = start_of(problem_of(blobs[0], "pairs", covariance="VVV"), blobs[1])
    params = take(start, np.zeros(2, dtype=int))
    params.covariances[1, 0] = np.ones((2, 2))
    found = problem.evaluate(params)
    assert np.isfinite(found.objective).tolist() == [True, False]
    assert found.objective[1] == -np.inf


def test_the_engine_asked_for_makes_the_pass(blobs, backend, monkeypatch) -> None:
    made = []
    for name, engine in (("numpy", estep), ("numba", kernel)):
        run = engine.e_step
        monkeypatch.setattr(engine, "e_step", lambda *args, n=name, r=run: made.append(n) or r(*args))
    after_em(problem_of(blobs[0], engine=backend), blobs[1], 1)
    assert made == [backend, backend]
