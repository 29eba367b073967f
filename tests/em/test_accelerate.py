"""Quasi-Newton coordinates of all models: gradients against finite differences, information against EM's own step."""

import numpy as np
import pytest
from egmm.em.accelerate import MEMORY, Coordinates, Memory, QuasiNewton
from egmm.em.loop import Ascent
from egmm.em.precisions import precision_coordinates
from sklearn.datasets import load_iris

from egmm import EGMM
from egmm.datasets import make_four_class, make_two_class
from egmm.em.covariance import MODELS, SHARED, n_covariance_parameters
from em.problems import after_em, problem_of, start_of

FAMILIES = ("full", "pairs", "singletons")
NONE_SINGLE = [{0, 1}, {1, 2}, {0, 2}]
PRIOR = {"kappa": 2.0, "mean": [1.0, 0.0, 0.5]}
EXACT = ("EII", "EEI", "VVI", "EEE", "VVV")
"""Models whose coordinates are independent in the complete-data information of singletons; VII has redundant ones."""


@pytest.fixture
def data(rng):
    turns = np.diag([1, 3, 0.2]) + 0.2 * rng.normal(size=(3, 3, 3))
    X = np.concatenate([rng.normal(m, 1, (70, 3)) @ turn for m, turn in zip((0, 2, 4), turns, strict=True)])
    return X, np.repeat([0, 1, 2], 70)


def coordinates_at(data, covariance, n_steps=4, **options):
    """Coordinates about one point of an EM run, that point and a later one."""
    X, labels = data
    problem = problem_of(X, covariance=covariance, **options)
    points = after_em(problem, labels, n_steps + 2)
    return problem, Coordinates(problem, points[n_steps].params), points[n_steps], points[n_steps + 2]


def central_differences(function, vector, step=1e-5) -> np.ndarray:
    nudges = step * np.eye(len(vector))
    return np.array([(function(vector + nudge) - function(vector - nudge)) / (2 * step) for nudge in nudges])


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_coordinates_and_parameters_are_each_other_s_inverse(data, covariance, family) -> None:
    _, coordinates, *points = coordinates_at(data, covariance, family=family)
    for point in points:
        back = coordinates.params(coordinates.vector(point))
        for got, want in zip(back, point.params, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("covariance", ["EVE", "VVE", "EEV", "VEV"])
def test_axes_far_from_the_reference_have_coordinates_too(rng, covariance) -> None:
    def drawn():
        axes = np.linalg.qr(rng.normal(size=(1 if covariance[2] == "E" else 3, 3, 3)))[0]
        logs = rng.normal(size=(1 if covariance[1] == "E" else 3, 3))
        volumes = rng.normal(size=(1 if covariance[0] == "E" else 3, 1))
        variances = np.exp(logs - logs.mean(axis=1, keepdims=True) + volumes)[:, None, :]
        return np.broadcast_to((axes * variances) @ np.swapaxes(axes, 1, 2), (3, 3, 3))

    coordinates = precision_coordinates(covariance, drawn())
    for want in (drawn() for _ in range(50)):
        entries = coordinates.entries(want)
        np.testing.assert_allclose(coordinates.covariances(entries), want, rtol=1e-6, atol=1e-8)
        # Axes have no sign: no turn is farther than 120 degrees, of which Cayley's map makes 2 tan 60.
        turns = entries[-3 * (1 if covariance[2] == "E" else 3) :].reshape(-1, 3)
        assert np.linalg.norm(turns, axis=1).max() < 2 * np.sqrt(3) + 1e-9


@pytest.mark.parametrize("covariance", MODELS)
def test_every_vector_is_of_the_model(rng, data, covariance) -> None:
    # As many directions change the parameters as the model has parameters, whatever is redundant.
    _, coordinates, point, _ = coordinates_at(data, covariance)
    vector = coordinates.vector(point) + 0.1 * rng.normal(size=coordinates.vector(point).shape)
    n_entries = len(vector) - point.params.weights.size - point.params.means.size

    def nudged(by):
        return np.concatenate([part.ravel() for part in coordinates.params(vector + by)])

    slopes = np.array([(nudged(nudge) - nudged(-nudge)) / 2e-6 for nudge in 1e-6 * np.eye(len(vector))[-n_entries:]])
    assert np.linalg.matrix_rank(slopes, tol=1e-6 * np.abs(slopes).max()) == n_covariance_parameters(covariance, 3, 3)


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [None, PRIOR])
def test_the_gradient_is_that_of_the_objective(rng, data, covariance, family, prior) -> None:
    problem, coordinates, point, _ = coordinates_at(data, covariance, family=family, prior=prior)
    vector = coordinates.vector(point)
    vector = vector + 0.05 * rng.normal(size=vector.shape)
    got = coordinates.gradient(vector, problem.evaluate(coordinates.params(vector)))
    slopes = central_differences(lambda v: problem.evaluate(coordinates.params(v)).objective, vector)
    np.testing.assert_allclose(got, slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())


@pytest.mark.parametrize("family", [*FAMILIES, NONE_SINGLE], ids=str)
def test_the_gradient_knows_the_prior_of_the_weights(rng, data, family) -> None:
    weight = rng.random(210) + 0.5
    problem, coordinates, point, _ = coordinates_at(data, "VVI", family=family, weight=weight, certainty=0.7)
    vector = coordinates.vector(point) * 1.3  # Roots of weights need not have length one.
    vector = vector + 0.05 * rng.normal(size=vector.shape)
    got = coordinates.gradient(vector, problem.evaluate(coordinates.params(vector)))
    slopes = central_differences(lambda v: problem.evaluate(coordinates.params(v)).objective, vector)
    np.testing.assert_allclose(got, slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())


@pytest.mark.parametrize("covariance", MODELS)
def test_the_gradient_knows_weights_and_a_ridge(rng, data, covariance) -> None:
    weight = rng.random(210) + 0.5
    problem, coordinates, point, _ = coordinates_at(data, covariance, weight=weight, ridge=0.3, n_steps=1)
    vector = coordinates.vector(point)
    slopes = central_differences(
        lambda v: problem.gain(point, problem.evaluate(coordinates.params(v))), vector, step=1e-6
    )
    np.testing.assert_allclose(coordinates.gradient(vector, point), slopes, rtol=1e-4, atol=1e-5 * np.abs(slopes).max())


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("prior", [None, PRIOR])
def test_the_information_makes_a_gradient_em_s_step(data, covariance, prior) -> None:
    # To first order, where the information is exact: towards the end what is not of first order vanishes faster.
    family, n_steps = ("full", 40) if covariance in SHARED else ("singletons", 6)
    problem, coordinates, point, _ = coordinates_at(data, covariance, n_steps, family=family, prior=prior)
    vector = coordinates.vector(point)
    step = coordinates.information(vector, point).solve(coordinates.gradient(vector, point))
    em = coordinates.vector(problem.evaluate(problem.m_step(point))) - vector
    n_first = len(vector) if covariance in EXACT else point.params.weights.size + point.params.means.size
    # The root of a weight near zero is curved by more than a step of it.
    large = np.append(point.params.weights > 1e-2, np.ones(n_first - point.params.weights.size, dtype=bool))
    assert np.abs(em).max() > 1e-5  # There is a step left to tell right from wrong by.
    assert np.abs(step - em)[:n_first][large].max() < 5 * np.abs(em).max() ** 2


@pytest.mark.parametrize("covariance", MODELS)
def test_the_information_of_precisions_is_their_curvature_in_q(data, covariance) -> None:
    _, coordinates, point, _ = coordinates_at(data, covariance, family="singletons")
    vector, counts = coordinates.vector(point), point.statistics.set_counts
    information = coordinates.information(vector, point).precisions

    def q(vector):
        precisions = np.linalg.inv(coordinates.params(vector).covariances)
        traces = np.trace(precisions @ point.params.covariances, axis1=-2, axis2=-1)
        return 0.5 * (counts * (np.linalg.slogdet(precisions)[1] - traces)).sum()

    nudges = 1e-3 * np.eye(len(vector))[-len(information) :]
    curvature = np.array([2 * q(vector) - q(vector + nudge) - q(vector - nudge) for nudge in nudges]) / 1e-6
    # Of three features' logarithms that make a shape, the third that changes the volume does nothing.
    ratio = curvature / information
    assert np.minimum(np.abs(ratio - 1), np.abs(ratio - 2 / 3)).max() < 1e-4


@pytest.mark.parametrize("covariance", MODELS)
def test_a_single_feature_or_cluster_is_no_exception(data, covariance) -> None:
    X, labels = data
    for columns, n_clusters in (([0], 3), ([0, 1], 1)):
        problem = problem_of(X[:, columns], "full", n_clusters, covariance)
        trail = after_em(problem, np.minimum(labels, n_clusters - 1), 3)
        newton = QuasiNewton.from_trail(problem, trail)
        step, slope = newton.propose()
        assert np.isfinite(step).all()
        assert slope >= -1e-9
        vector = newton.coordinates.vector(trail[-1])
        got = newton.coordinates.gradient(vector, trail[-1])
        slopes = central_differences(lambda v: problem.evaluate(newton.coordinates.params(v)).objective, vector)  # noqa: B023
        np.testing.assert_allclose(got, slopes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("covariance", MODELS)
def test_a_step_along_the_information_is_uphill_with_meta_clusters(data, covariance) -> None:
    problem, coordinates, point, _ = coordinates_at(data, covariance)
    vector = coordinates.vector(point)
    gradient = coordinates.gradient(vector, point)
    step = coordinates.information(vector, point).solve(gradient)
    assert step @ gradient > 0
    assert problem.evaluate(coordinates.params(vector + 0.3 * step)).objective > point.objective


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
def test_a_set_without_weight_has_no_slope(data, covariance) -> None:
    problem, coordinates, point, _ = coordinates_at(data, covariance)
    weights = np.where(np.arange(7) == 3, 0.0, point.params.weights)
    point = problem.evaluate(point.params._replace(weights=weights / weights.sum()))
    gradient = coordinates.gradient(coordinates.vector(point), point)
    assert gradient[3] == 0
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
def test_a_cluster_without_rows_gets_no_step(data, covariance) -> None:
    problem, coordinates, point, _ = coordinates_at(data, covariance, family="singletons")
    weights = np.array([0.5, 0.5, 0.0])
    point = problem.evaluate(point.params._replace(weights=weights))
    vector = coordinates.vector(point)
    step = coordinates.information(vector, point).means.solve(np.eye(3))
    assert np.isfinite(step).all()
    np.testing.assert_allclose(step[2], 0, atol=1e-12)


@pytest.mark.parametrize("covariance", ["EVE", "VVE", "EEV", "VEV"])
def test_axes_are_followed_through_a_change_of_order(data, covariance) -> None:
    # Two axes change places in the order of their variances: the coordinates turn nothing.
    _, coordinates, point, _ = coordinates_at(data, covariance)
    vector = coordinates.vector(point)
    turns = {"EVE": 3, "VVE": 3, "EEV": 9, "VEV": 9}[covariance]
    np.testing.assert_allclose(vector[-turns:], 0, atol=1e-10)
    if covariance.endswith("E"):
        swapped = vector.copy()
        first = len(vector) - turns - 9
        swapped[first:-turns] = -vector[first:-turns]
        params = coordinates.params(swapped)
        back = coordinates.params(coordinates.vector(point._replace(params=params)))
        np.testing.assert_allclose(back.covariances, params.covariances, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(coordinates.vector(point._replace(params=params))[-turns:], 0, atol=1e-8)


# The memory ------------------------------------------------------------------------------------------------------


def two_loops(pairs, gradient, precondition):
    """Nocedal's recursion, with the initial matrix scaled to the last pair."""
    direction, coefficients = gradient.copy(), []
    for step, change in reversed(pairs):
        a = step @ direction / (step @ change)
        direction = direction - a * change
        coefficients.append(a)
    step, change = pairs[-1]
    direction = precondition(direction) * (step @ change) / (change @ precondition(change))
    for (step, change), a in zip(pairs, reversed(coefficients), strict=True):
        direction = direction + (a - change @ direction / (step @ change)) * step
    return direction


@pytest.mark.parametrize("n_pairs", [1, 5, MEMORY + 3])
def test_the_memory_is_the_two_loop_recursion(rng, n_pairs) -> None:
    root = rng.normal(size=(60, 60))
    curvature = root @ root.T + 60 * np.eye(60)
    memory, pairs = Memory(60), []
    for _ in range(n_pairs):
        step = rng.normal(size=60)
        pairs.append((step, curvature @ step))
        memory.append(*pairs[-1])
    gradient, scales = rng.normal(size=60), rng.uniform(0.01, 0.02, size=60)
    want = two_loops(pairs[-MEMORY:], gradient, lambda v: scales * v)
    np.testing.assert_allclose(memory.direction(gradient, lambda v: scales * v), want, rtol=1e-9)
    assert len(memory) == min(n_pairs, MEMORY)


def test_an_empty_memory_leaves_the_preconditioned_gradient(rng) -> None:
    gradient = rng.normal(size=4)
    np.testing.assert_array_equal(Memory(4).direction(gradient, lambda v: 2 * v), 2 * gradient)


# Steps -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def crawling():
    """A problem on which EM crawls, and its last points."""
    X, labels = make_two_class(random_state=0)
    problem = problem_of(X, "pairs", 2)
    return problem, after_em(problem, labels, 60)[-9:]


def test_one_step_is_worth_many_of_em(crawling) -> None:
    problem, trail = crawling
    newton = QuasiNewton.from_trail(problem, trail)
    assert len(newton.memory) == 8
    step, slope = newton.propose()
    gain = problem.evaluate(newton.params_at(step)).objective - trail[-1].objective
    em_gain = problem.evaluate(problem.m_step(trail[-1])).objective - trail[-1].objective
    assert gain > 5 * em_gain > 0
    # The rows' curvature is between none and that of complete data.
    assert 0.49 * em_gain < newton.em_gain() < 1.01 * em_gain
    # Half the slope is the gain the model predicts.
    assert 0.3 < gain / (0.5 * slope) < 3


def test_accepting_a_step_moves_the_model(crawling) -> None:
    problem, trail = crawling
    newton = QuasiNewton.from_trail(problem, trail[-4:])
    step, _ = newton.propose()
    point = problem.evaluate(newton.params_at(step))
    newton.accept(point, step)
    assert len(newton.memory) == 4
    for got, want in zip(newton.params_at(np.zeros_like(step)), point.params, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert newton.propose()[1] > 0


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
    assert len(newton.memory) == 0


@pytest.mark.parametrize("covariance", ["EEI", "VVI", "VEE", "VEV"])
def test_what_is_packed_goes_on_alike(data, covariance) -> None:
    X, labels = data
    problem = problem_of(X, covariance=covariance)
    trail = after_em(problem, labels, 8)
    newton = QuasiNewton.from_trail(problem, trail)
    again = QuasiNewton.unpack(newton.pack(), problem, trail[-1])
    for got, want in zip(again.propose(), newton.propose(), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("covariance", ["EEI", "VVI", "VEE", "VEV"])
def test_curvature_of_a_sample_serves_more_of_the_same_rows(data, covariance) -> None:
    X, labels = data
    problem = problem_of(X, covariance=covariance)
    sample = QuasiNewton.from_trail(problem, after_em(problem, labels, 8))
    more = problem_of(X, covariance=covariance, weight=np.full(len(X), 7.0))
    whole = sample.on_more_rows(more, more.evaluate(sample.params_at(np.zeros(1))))
    (few_step, few_slope), (step, slope) = sample.propose(), whole.propose()
    np.testing.assert_allclose(step, few_step, atol=1e-9 * np.abs(few_step).max())
    assert slope == pytest.approx(7 * few_slope, rel=1e-9)


# All models, to the end -----------------------------------------------------------------------------------------


def ascend(problem, labels, *, accelerate, tol):
    objectives = []
    ascent = Ascent.from_start(problem, start_of(problem, labels), tol=tol, accelerate=accelerate)
    ascent.run(3000, lambda now: objectives.append(now.point.objective))
    return ascent, np.array(objectives)


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [None, "default"])
def test_the_objective_never_falls(covariance, family, prior) -> None:
    X, labels = load_iris(return_X_y=True)
    ascent, objectives = ascend(
        problem_of(X, family, covariance=covariance, prior=prior), labels, accelerate=True, tol=1e-4
    )
    assert ascent.converged
    assert np.diff(objectives).min() >= -1e-12 * np.abs(objectives).max()


@pytest.mark.parametrize(
    ("covariance", "seed"), [("EEE", 1), ("EEE", 3), ("VVI", 0), ("VVI", 2), ("EVE", 0), ("VVV", 0), ("VVV", 2)]
)
def test_no_more_than_the_tolerance_is_left(covariance, seed) -> None:
    X, _ = make_four_class(400, random_state=seed)
    model = EGMM(4, covariance=covariance, random_state=0, warm_start=True).fit(X)
    reached = model.log_likelihood_
    model.set_params(tol=1e-11, max_iter=5000).fit(X)
    assert model.log_likelihood_ - reached < 1e-6 * len(X)


ELSEWHERE = {("EVV", "pairs"), ("VVV", "pairs"), ("VEE", "pairs")}
"""Where quasi-Newton and EM end in different maxima."""


@pytest.mark.slow
@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("family", ["pairs", "singletons"])
def test_the_end_is_em_s_and_not_later(covariance, family) -> None:
    X, labels = load_iris(return_X_y=True)
    problem = problem_of(X, family, covariance=covariance)
    fast, _ = ascend(problem, labels, accelerate=True, tol=1e-6 * len(X))
    plain, _ = ascend(problem, labels, accelerate=False, tol=1e-6 * len(X))
    # Plain EM stops at a small gain, accelerated EM where little is left: that takes a few passes more.
    assert fast.n_passes <= 1.2 * plain.n_passes + 4
    assert fast.point.objective >= plain.point.objective - 1e-6 * len(X)
    if (covariance, family) not in ELSEWHERE:
        assert fast.point.objective < plain.point.objective + 0.05
