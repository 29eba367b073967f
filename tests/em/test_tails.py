"""Heavy tails: one step as the definitions say by loops, monotone, and the degrees of freedom known elsewhere."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import digamma
from scipy.stats import multivariate_t

from egmm.belief.focal import FocalSets
from egmm.em.estep import entropy
from egmm.em.tails import FIRST_DEGREES, farthest, implied_logs, next_degrees
from em.problems import ascend, found_of, problem_of, start_of

SHARED = ("EII", "EEI", "EEE")
LABELS = np.repeat([0, 1, 2], 40)


@pytest.fixture
def X(rng):
    at = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 5.0]], 40, axis=0)
    return at + rng.standard_t(4, size=(120, 2)) @ np.array([[1.0, 0.0], [0.6, 0.5]])


def heavy(X, family, model, **options):
    problem = problem_of(X, family, 3, model, tails=True, **options)
    return problem, start_of(problem, LABELS)._replace(degrees=np.array([FIRST_DEGREES]))


def step(X, weight, sets, found, degrees, model):
    """One step of EM by loops over rows and sets: masses, parameters after, log-likelihood and entropy before."""
    (n, dim), scale = X.shape, found.covariances[0]
    centres = [np.mean([found.means[k] for k in members], axis=0) for members in sets]
    density = np.array([multivariate_t(c, scale, degrees).pdf(X) for c in centres]).T * found.weights
    mass = density / density.sum(axis=1, keepdims=True)
    overlap, right = np.zeros((len(found.means),) * 2), np.zeros_like(found.means)
    pull, logs = np.empty_like(mass), 0.0
    for i in range(n):
        for j, members in enumerate(sets):
            offset = X[i] - centres[j]
            pull[i, j] = (degrees + dim) / (degrees + offset @ np.linalg.solve(scale, offset))
            logs += weight[i] * mass[i, j] * (np.log(pull[i, j]) - pull[i, j])
            for k in members:
                right[k] += weight[i] * mass[i, j] * pull[i, j] / len(members) * X[i]
                for other in members:
                    overlap[k, other] += weight[i] * mass[i, j] * pull[i, j] / len(members) ** 2
    means = np.linalg.solve(overlap, right)
    scatter = np.zeros((dim, dim))
    for i in range(n):
        for j, members in enumerate(sets):
            offset = X[i] - np.mean([means[k] for k in members], axis=0)
            scatter += weight[i] * mass[i, j] * pull[i, j] * np.outer(offset, offset)
    after = scatter / weight.sum()
    if model != "EEE":
        after = np.diag(np.diag(after))
    if model == "EII":
        after = np.trace(after) / dim * np.eye(dim)
    rest = 1 + logs / weight.sum() + digamma((degrees + dim) / 2) - np.log((degrees + dim) / 2)
    dof = brentq(lambda t: -digamma(t / 2) + np.log(t / 2) + rest, 1e-2, 1e4, xtol=1e-13)
    weights = weight @ mass / weight.sum()
    value, own = float(weight @ np.log(density.sum(axis=1))), -float(weight @ (mass * np.log(mass)).sum(axis=1))
    return (weights, means, after, dof), value, own


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("family", ["full", "singletons"])
@pytest.mark.parametrize("model", SHARED)
def test_a_step_is_that_of_the_definition(rng, X, model, family, engine):
    weight = rng.integers(1, 4, len(X)).astype(float)
    problem, params = heavy(X, family, model, engine=engine, weight=weight)
    evaluation = problem.evaluate(params)
    sets = list(FocalSets.of(family, 3))
    wanted, value, own = step(X, weight, sets, found_of(problem, params), FIRST_DEGREES, model)
    assert evaluation.log_likelihood[0] == pytest.approx(value, rel=1e-12)
    assert entropy(evaluation.statistics, evaluation.model)[0] == pytest.approx(own, rel=1e-9)
    after, is_proper = problem.maximise(evaluation.vector, params)
    assert is_proper.all()
    found = found_of(problem, after)
    np.testing.assert_allclose(found.weights, wanted[0], rtol=1e-10)
    np.testing.assert_allclose(found.means, wanted[1], atol=1e-10)
    np.testing.assert_allclose(found.covariances[0], wanted[2], atol=1e-10)
    assert after.degrees[0] == pytest.approx(wanted[3], rel=1e-9)


@pytest.mark.parametrize("prior", [None, "default"])
@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("model", SHARED)
def test_em_never_lowers_the_objective(X, model, accelerate, prior):
    problem, params = heavy(X, "pairs", model, ridge=0.01, prior=prior)
    trace = ascend(problem, params, accelerate=accelerate, max_iter=200)
    assert np.diff(trace.objectives).min() > -1e-9
    assert trace.objectives[-1] > trace.objectives[0] + 5


def test_the_tails_of_gaussian_rows_become_gaussian(rng):
    X = np.concatenate([rng.normal(at, 1, (400, 2)) for at in (0, 7, 14)])
    problem = problem_of(X, "singletons", 3, "EEE", tails=True)
    labels = np.repeat([0, 1, 2], 400)
    params = start_of(problem, labels)._replace(degrees=np.array([FIRST_DEGREES]))
    heavy_fit = ascend(problem, params, tol=1e-4, max_iter=500)
    plain = ascend(problem_of(X, "singletons", 3, "EEE"), labels, tol=1e-4, max_iter=500)
    assert heavy_fit.ascent.state.evaluation.params.degrees[0] > 25
    assert heavy_fit.objectives[-1] == pytest.approx(plain.objectives[-1], abs=1.5)


@pytest.mark.parametrize("degrees", [0.5, 3.0, 40.0])
def test_degrees_of_freedom_stay_where_they_are_implied(degrees):
    at, weight = np.array([degrees]), np.array([200.0])
    assert next_degrees(implied_logs(at, weight), weight)[0] == pytest.approx(degrees, rel=1e-10)


def test_distances_of_t_rows_are_f_distributed(rng):
    rows = multivariate_t(np.zeros(3), np.eye(3), 5, seed=1).rvs(200_000)
    assert np.mean((rows**2).sum(axis=1) < farthest(0.99, 3, 5.0)) == pytest.approx(0.99, abs=1e-3)
    normal = rng.normal(size=(200_000, 3))
    assert np.mean((normal**2).sum(axis=1) < farthest(0.99, 3, None)) == pytest.approx(0.99, abs=1e-3)
