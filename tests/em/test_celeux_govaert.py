"""Closed and iterative forms of the classical M-steps against their objective and the models' definitions."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize

from egmm.em.celeux_govaert import common_axes, fit_covariances
from egmm.em.covariance import MODELS, is_diagonal, n_covariance_parameters
from em.covariance_cases import ITERATIVE, random_scatters, solve
from em.oracles_covariance import belongs, celeux_govaert_objective


def parametrised(model, values, n_clusters, dim):
    """Covariances of a model from free parameters: log volumes, log shapes and skew matrices."""
    values = iter(values)

    def take(letter, size):
        if letter == "I" or size == 0:
            return np.zeros((n_clusters, size))
        rows = 1 if letter == "E" else n_clusters
        block = np.array([[next(values) for _ in range(size)] for _ in range(rows)])
        return np.broadcast_to(block, (n_clusters, size))

    volumes = take(model[0], 1)[:, 0]
    shapes = take(model[1], dim - 1)
    turns = take(model[2], dim * (dim - 1) // 2)
    covariances = []
    for volume, shape, turn in zip(volumes, shapes, turns, strict=True):
        skew = np.zeros((dim, dim))
        skew[np.triu_indices(dim, 1)] = turn
        axes = expm(skew - skew.T)
        covariances.append(axes @ np.diag(np.exp(volume + np.append(shape, -shape.sum()))) @ axes.T)
    return np.array(covariances)


@pytest.mark.parametrize("model", MODELS)
def test_solution_belongs_to_its_model(rng, model):
    counts = np.array([30.0, 12.0, 55.0])
    assert belongs(model, solve(model, counts, random_scatters(rng, 3, 4)))


@pytest.mark.parametrize("model", MODELS)
def test_no_general_optimiser_finds_better(rng, model):
    counts, scatters = np.array([30.0, 12.0, 55.0]), random_scatters(rng, 3, 2)
    ours = celeux_govaert_objective(counts, scatters, solve(model, counts, scatters))

    def objective(values):
        return celeux_govaert_objective(counts, scatters, parametrised(model, values, 3, 2))

    best = np.inf
    for _ in range(4):
        start = rng.normal(size=n_covariance_parameters(model, 3, 2)) + 1.0
        found = minimize(objective, start, method="BFGS", options={"gtol": 1e-6})
        best = min(best, found.fun)
    assert ours == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("model", ITERATIVE)
def test_every_call_descends_from_where_it_starts(rng, model):
    counts, scatters = np.array([30.0, 12.0, 55.0, 9.0]), random_scatters(rng, 4, 5)
    at = solve(model, counts, random_scatters(rng, 4, 5))
    values = [celeux_govaert_objective(counts, scatters, at)]
    for _ in range(60):
        if is_diagonal(model):
            diagonals = fit_covariances(model, counts, np.einsum("kdd->kd", scatters), np.einsum("kdd->kd", at))
            at = diagonals[:, :, None] * np.eye(5)
        else:
            at = fit_covariances(model, counts, scatters, at)
        values.append(celeux_govaert_objective(counts, scatters, at))
    assert np.diff(values).max() < 1e-8
    assert values[-2] - values[-1] < 1e-5


@pytest.mark.parametrize("model", ["VEI", "VEE", "VEV"])
def test_volumes_and_a_common_shape_are_settled_by_one_call(rng, model):
    counts, scatters = np.array([30.0, 12.0, 55.0]), random_scatters(rng, 3, 4)
    if is_diagonal(model):
        scatters = np.einsum("kdd->kd", scatters)
    once = fit_covariances(model, counts, scatters)
    np.testing.assert_allclose(fit_covariances(model, counts, scatters, once), once, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_one_cluster_has_its_own_sample_covariance(rng, model):
    scatter = random_scatters(rng, 1, 3)
    expected = scatter[0] / 20
    if is_diagonal(model):
        expected = np.diag(np.diag(expected))
    if model.endswith("II"):
        expected = np.eye(3) * np.trace(expected) / 3
    np.testing.assert_allclose(solve(model, np.array([20.0]), scatter)[0], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_one_feature_leaves_volumes_only(model):
    counts, scatters = np.array([2.0, 8.0]), np.array([[[6.0]], [[4.0]]])
    expected = [1.0, 1.0] if model.startswith("E") else [3.0, 0.5]
    np.testing.assert_allclose(solve(model, counts, scatters)[:, 0, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_many_problems_together_are_solved_as_one_by_one(rng, model):
    counts = rng.uniform(5, 50, size=(6, 3))
    scatters = np.stack([random_scatters(rng, 3, 4) for _ in range(6)])
    if is_diagonal(model):
        scatters = np.einsum("bkdd->bkd", scatters)
    previous = np.stack([fit_covariances(model, n, w) for n, w in zip(counts, scatters[::-1], strict=True)])
    for starts in ([None] * 6, previous):
        together = fit_covariances(model, counts, scatters, None if starts[0] is None else previous)
        alone = [fit_covariances(model, *problem) for problem in zip(counts, scatters, starts, strict=True)]
        np.testing.assert_allclose(together, alone, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("model", ITERATIVE)
def test_fewer_inner_iterations_still_descend(rng, model):
    counts, scatters = np.array([30.0, 12.0, 55.0]), random_scatters(rng, 3, 4)
    at = solve(model, counts, random_scatters(rng, 3, 4))
    read, last = (scatters, at)
    if is_diagonal(model):
        read, last = (np.einsum("kdd->kd", one) for one in (scatters, at))
    new = fit_covariances(model, counts, read, last, max_inner=1)
    new = new[:, :, None] * np.eye(4) if is_diagonal(model) else new
    before, after = (celeux_govaert_objective(counts, scatters, one) for one in (at, new))
    assert after < before


def test_a_singular_problem_leaves_the_others_alone(rng):
    counts, good = np.array([[20.0, 30.0]] * 3), random_scatters(rng, 2, 3)
    together = fit_covariances("VEE", counts, np.stack([good, np.zeros((2, 3, 3)), good]))
    np.testing.assert_array_equal(together[0], together[2])
    np.testing.assert_allclose(together[0], fit_covariances("VEE", counts[0], good), rtol=1e-7)
    assert not (np.isfinite(together[1]).all() and (np.linalg.eigvalsh(together[1]) > 0).all())


def test_scatters_that_only_round_off_tells_from_singular_are_no_error(rng):
    # One row per cluster: of some, the inverse fails; alone or beside a good problem, whose answer stays.
    good = np.eye(2)[None]
    for row in rng.normal(size=(100, 2)):
        scatter = np.outer(row, row)[None]
        fit_covariances("VEE", np.array([5.0]), scatter)
        together = fit_covariances("VEE", np.full((2, 1), 5.0), np.stack([scatter, good]))
        np.testing.assert_allclose(together[1], good / 5, rtol=1e-12)


def test_common_axes_are_found_where_the_average_has_none():
    turn = expm(np.array([[0.0, 0.7], [-0.7, 0.0]]))
    covariances = np.stack([turn @ np.diag(variances) @ turn.T for variances in ([1.0, 4.0], [4.0, 1.0])])
    axes = common_axes(covariances)
    np.testing.assert_allclose((axes.T @ covariances @ axes)[:, 0, 1], 0.0, atol=1e-12)
