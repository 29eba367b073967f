"""Anderson's method: extrapolations against a dense least-squares problem, and what is learnt and forgotten."""

import numpy as np
import pytest

from egmm.em import anderson
from egmm.em.anderson import FARTHER, FIRST_REACH, LEAST_COUNT, MEMORY, Memory, extrapolate, metric_of
from em.problems import after_em, problem_of


def taught(rng, n_fits, size, n_steps):
    """A memory of random steps, and those steps."""
    memory, metric = Memory.empty(n_fits, size), rng.uniform(0.5, 2, size=(n_fits, size))
    changes, moves = rng.normal(size=(2, n_fits, n_steps, size))
    for step in range(n_steps):
        memory.learn(np.ones(n_fits, dtype=bool), changes[:, step], moves[:, step], metric.__getitem__)
    return memory, changes[:, -MEMORY:], moves[:, -MEMORY:], metric


@pytest.mark.parametrize("n_steps", [1, 4, MEMORY, MEMORY + 3])
def test_the_step_is_that_of_least_squares(rng, n_steps, monkeypatch) -> None:
    monkeypatch.setattr(anderson, "GRAM_RIDGE", 0.0)
    memory, changes, moves, metric = taught(rng, 3, 40, n_steps)
    memory.reach[:] = 1e9
    vector, left = 100 + rng.normal(size=(3, 40)), rng.normal(size=(3, 40))
    got = extrapolate(memory, vector, left, 0)
    for b in range(3):
        roots = np.sqrt(metric[b])[:, None]
        shares = np.linalg.lstsq(roots * changes[b].T, roots[:, 0] * left[b], rcond=None)[0]
        step = -shares @ moves[b]
        if (metric[b] * (left[b] + step)) @ left[b] > 0:
            np.testing.assert_allclose(got.target[b], vector[b] + step, rtol=1e-8)
            length = np.sqrt((metric[b] @ step**2) / (metric[b] @ left[b] ** 2))
            assert got.lengths[b] == pytest.approx(length, rel=1e-7)


def test_on_a_linear_map_it_finds_the_fixed_point(rng) -> None:
    # x -> A x + b in four dimensions: after as many changes of the residual as there are dimensions it is known.
    A, b = 0.9 * np.diag([1.0, 0.9, -0.5, 0.3]), rng.normal(size=4)
    fixed = np.linalg.solve(np.eye(4) - A, b)
    points = [rng.normal(size=4)]
    for _ in range(5):
        points.append(A @ points[-1] + b)
    memory = Memory.empty(1, 4)
    for one, two, three in zip(points[:-2], points[1:-1], points[2:], strict=True):
        change, move = three - 2 * two + one, three - two
        memory.learn(np.ones(1, dtype=bool), change[None], move[None], np.ones((1, 4)).__getitem__)
    memory.reach[:] = 1e9
    got = extrapolate(memory, points[-1][None], (points[-1] - points[-2])[None], 0).target[0]
    np.testing.assert_allclose(got, fixed, rtol=1e-4, atol=1e-4)


def test_without_memory_it_is_em_s_step_and_fits_do_not_mix(rng) -> None:
    memory, *_ = taught(rng, 2, 6, 3)
    memory.forget(np.array([True, False]))
    vector, left = rng.normal(size=(2, 2, 6))
    together = extrapolate(memory, vector, left, 0)
    np.testing.assert_array_equal(together.target[0], vector[0])
    assert together.lengths[0] == 0
    alone = extrapolate(Memory(*(part[1:] for part in memory)), vector[1:], left[1:], 0)
    np.testing.assert_allclose(together.target[1], alone.target[0], rtol=1e-12)
    np.testing.assert_array_equal(extrapolate(Memory.empty(2, 6), vector, left, 0).target, vector)


def test_no_step_leads_farther_than_its_reach_and_growing_steps_lead_on(rng) -> None:
    left, metric = np.ones((1, 3)), np.ones((1, 3))
    for factor, expected in ((-1e-3, FIRST_REACH), (+0.5, FIRST_REACH)):
        # The residual changes by a part of itself in each step: it shrinks slowly, or grows.
        memory = Memory.empty(1, 3)
        memory.learn(np.ones(1, dtype=bool), factor * left, left, metric.__getitem__)
        got = extrapolate(memory, np.zeros((1, 3)), left, 0)
        np.testing.assert_allclose(got.target, expected * left, rtol=1e-9)
        assert got.lengths[0] == pytest.approx(expected)


def test_counts_stay_positive(rng) -> None:
    memory = Memory.empty(1, 3)
    change, move = np.array([[0.1, 0.0, 0.0]]), np.array([[-50.0, -50.0, -50.0]])
    memory.learn(np.ones(1, dtype=bool), change, move, np.ones((1, 3)).__getitem__)
    memory.reach[:] = 1e9
    vector, left = np.array([[10.0, 0.0, 10.0]]), np.array([[-1.0, 0.0, 0.0]])
    target = extrapolate(memory, vector, left, 2).target[0]
    assert target[0] == LEAST_COUNT * 10
    assert target[1] == 0
    assert target[2] < 0


def test_reach_grows_where_it_held_a_step_back_and_shrinks_where_it_misled() -> None:
    memory = Memory.empty(3, 2)
    memory.adapt_reach(np.array([FIRST_REACH, 2.0, 8.0]), np.array([False, False, True]))
    np.testing.assert_allclose(memory.reach, [FARTHER * FIRST_REACH, FIRST_REACH, 8.0 / FARTHER])
    memory.adapt_reach(np.zeros(3), np.ones(3, dtype=bool))
    np.testing.assert_array_equal(memory.reach, np.ones(3))


def test_the_oldest_step_makes_room(rng) -> None:
    memory, changes, moves, _ = taught(rng, 2, 5, MEMORY + 4)
    assert memory.n_kept.tolist() == [MEMORY, MEMORY]
    np.testing.assert_array_equal(memory.changes, changes)
    np.testing.assert_array_equal(memory.moves, moves)


def test_some_fits_learn_and_the_metric_is_that_of_the_first_step(rng) -> None:
    memory, metrics = Memory.empty(2, 3), rng.random((2, 2, 3))
    for metric in metrics:
        memory.learn(np.array([True, False]), *rng.random((2, 2, 3)), metric.__getitem__)
    assert memory.n_kept.tolist() == [2, 0]
    np.testing.assert_array_equal(memory.metric[0], metrics[0, 0])
    np.testing.assert_array_equal(memory.metric[1], np.ones(3))


def test_sets_left_out_are_forgotten(rng) -> None:
    memory, *_ = taught(rng, 2, 5, 3)
    before = memory.changes.copy()
    memory.leave_out(np.array([[False, True], [False, False]]))
    assert not memory.changes[0, :, 1].any()
    assert not memory.moves[0, :, 1].any()
    np.testing.assert_array_equal(memory.changes[1], before[1])
    np.testing.assert_array_equal(memory.changes[0, :, 0], before[0, :, 0])


def test_what_a_sample_taught_serves_more_of_the_same_rows(rng) -> None:
    memory, *_ = taught(rng, 2, 6, 4)
    vector, left = 100 + rng.normal(size=(2, 6)), rng.normal(size=(2, 6))
    few, many = extrapolate(memory, vector, left, 0), extrapolate(memory.times(7.0), 7 * vector, 7 * left, 0)
    np.testing.assert_allclose(many.target, 7 * few.target, rtol=1e-9)
    np.testing.assert_allclose(many.lengths, few.lengths, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["EII", "EEE", "VVI", "VVV"])
@pytest.mark.parametrize("family", ["pairs", "singletons"])
def test_the_metric_does_not_depend_on_units_or_the_number_of_rows(rng, covariance, family) -> None:
    X = np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in (0, 2, 4)])
    labels, found = np.repeat([0, 1, 2], 60), []
    for rows, weight in ((X, None), (1000 * X, None), (X, np.full(180, 4.0))):
        problem = problem_of(rows, family, covariance=covariance, weight=weight)
        point = after_em(problem, labels, 1)[-1]
        length = (metric_of(point.vector, point.params, problem.layout) * point.vector**2).sum()
        found.append(length / problem.settings.weight[0])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    # The start of EEE divides by n - 1.
    np.testing.assert_allclose(found[2], found[0], rtol=0.01 if covariance == "EEE" else 1e-6)
