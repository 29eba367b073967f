"""Quasi-Newton coordinates: gradients against finite differences, preconditioning against EM's own step."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from egmm.datasets import make_two_class
from egmm.em.accelerate import Coordinates, QuasiNewton
from em.problems import after_em, problem_of


@pytest.fixture
def data(rng):
    X = np.concatenate([rng.normal(m, 1, (70, 3)) @ np.diag([1, 3, 0.2]) for m in (0, 2, 4)])
    return X, np.repeat([0, 1, 2], 70)


CASES = [(covariance, ridge) for covariance in ("EEE", "EEI") for ridge in (0.0, 0.3)]


def coordinates_at(data, covariance, ridge, n_steps=4, weight=None):
    """Coordinates about one point of an EM run, and a later point."""
    X, labels = data
    problem = problem_of(X, covariance=covariance, ridge=ridge, weight=weight)
    points = after_em(problem, labels, n_steps + 2)
    return problem, Coordinates(problem, points[n_steps].params), points[n_steps], points[n_steps + 2]


@pytest.mark.parametrize(("covariance", "ridge"), CASES)
def test_coordinates_and_parameters_are_each_other_s_inverse(data, covariance, ridge) -> None:
    _, coordinates, _, point = coordinates_at(data, covariance, ridge)
    back = coordinates.params(coordinates.vector(point))
    for got, want in zip(back, point.params, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("covariance", "ridge"), CASES)
def test_the_reference_point_has_a_unit_covariance(data, covariance, ridge) -> None:
    _, coordinates, reference, _ = coordinates_at(data, covariance, ridge)
    n = coordinates.vector(reference)
    n_entries = 6 if covariance == "EEE" else 3
    np.testing.assert_allclose(n[-n_entries:], 0, atol=1e-12)


@pytest.mark.parametrize(("covariance", "ridge"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_that_of_the_objective(rng, data, covariance, ridge, weighted) -> None:
    weight = rng.random(210) + 0.5 if weighted else None
    problem, coordinates, _, point = coordinates_at(data, covariance, ridge, weight=weight)
    vector = coordinates.vector(point)
    got = coordinates.gradient(vector, point)
    slopes = central_differences(lambda v: problem.evaluate(coordinates.params(v)).objective, vector)
    np.testing.assert_allclose(got, slopes, rtol=1e-5, atol=1e-5 * np.abs(slopes).max())


def central_differences(function, vector, step=1e-5) -> np.ndarray:
    ahead = approx_fprime(vector, function, step)
    behind = -approx_fprime(-vector, lambda v: function(-v), step)
    return (ahead + behind) / 2


def test_the_gradient_of_the_penalty_is_there(data) -> None:
    # At the maximum of the likelihood alone the ridge's penalty still slopes.
    _, coordinates, _, point = coordinates_at(data, "EEE", 0.3)
    free = problem_of(data[0], ridge=0.0)
    vector = coordinates.vector(point)
    difference = coordinates.gradient(vector, point) - Coordinates(free, point.params).gradient(
        Coordinates(free, point.params).vector(point), point
    )
    assert np.abs(difference[-6:]).max() > 1


@pytest.mark.parametrize(("covariance", "ridge"), CASES)
def test_preconditioning_is_em_s_step_to_first_order(data, covariance, ridge) -> None:
    # Towards the fixed point EM's steps shrink, and what is not of first order in them faster.
    for n_steps in (10, 30, 60):
        problem, coordinates, _, point = coordinates_at(data, covariance, ridge, n_steps)
        vector = coordinates.vector(point)
        step = coordinates.precondition(vector, point, coordinates.gradient(vector, point))
        em = coordinates.vector(problem.evaluate(problem.m_step(point))) - vector
        assert np.abs(step - em).max() < 20 * np.abs(em).max() ** 2


def test_a_set_without_weight_has_no_slope(data) -> None:
    problem, coordinates, _, point = coordinates_at(data, "EEE", 0.0)
    weights = np.where(np.arange(7) == 3, 0.0, point.params.weights)
    point = problem.evaluate(point.params._replace(weights=weights / weights.sum()))
    gradient = coordinates.gradient(coordinates.vector(point), point)
    assert gradient[3] == 0
    assert np.isfinite(gradient).all()


@pytest.fixture
def crawling():
    """A problem on which EM crawls, and its last points."""
    X, labels = make_two_class(random_state=0)
    problem = problem_of(X, "pairs", 2)
    return problem, after_em(problem, labels, 60)[-9:]


def test_one_step_is_worth_many_of_em(crawling) -> None:
    problem, trail = crawling
    newton = QuasiNewton.from_trail(problem, trail)
    assert len(newton.pairs) == 8
    step, slope = newton.propose()
    gain = problem.evaluate(newton.params_at(step)).objective - trail[-1].objective
    em_gain = problem.evaluate(problem.m_step(trail[-1])).objective - trail[-1].objective
    assert gain > 5 * em_gain > 0
    # Half the slope is the gain the model predicts.
    assert 0.3 < gain / (0.5 * slope) < 3


def test_accepting_a_step_moves_the_model(crawling) -> None:
    problem, trail = crawling
    newton = QuasiNewton.from_trail(problem, trail[-4:])
    step, slope = newton.propose()
    point = problem.evaluate(newton.params_at(step))
    newton.accept(point, step)
    assert len(newton.pairs) == 4
    for got, want in zip(newton.params_at(np.zeros_like(step)), point.params, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert 0 < newton.propose()[1] < slope


def test_without_memory_a_step_is_em_s(crawling) -> None:
    problem, trail = crawling
    newton = QuasiNewton.from_trail(problem, trail[-1:])
    step, _ = newton.propose()
    em = problem.m_step(trail[-1])
    for got, want, old in zip(newton.params_at(step), em, trail[-1].params, strict=True):
        np.testing.assert_allclose(got - old, want - old, atol=0.05 * np.abs(want - old).max())


def test_pairs_without_curvature_are_left_out(crawling) -> None:
    problem, trail = crawling
    newton = QuasiNewton.from_trail(problem, [trail[-1], trail[-1]])
    assert len(newton.pairs) == 0
