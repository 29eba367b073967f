"""Masses that fit intervals of pairwise probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.oracles_calibration import (
    belief_and_plausibility_of_same,
    calibration_loss,
    pair_quantiles,
    simplex_minimum,
)
from egmm import FocalSets
from egmm.cluster.calibration import (
    Relation,
    Targets,
    _best_step,
    calibrate,
    minimise_on_simplex,
    misfit,
    optimal_masses,
    pair_intervals,
)


def family(n_clusters):
    return FocalSets.from_sets([{k, other} for k in range(n_clusters) for other in range(k + 1)], n_clusters)


def random_problem(seed, n_rows=9, n_clusters=3):
    rng = np.random.default_rng(seed)
    focal = family(n_clusters)
    bounds = np.sort(rng.uniform(size=(2, n_rows, n_rows)), axis=0)
    intervals = np.triu(bounds, 1)
    intervals = intervals + np.swapaxes(intervals, 1, 2)
    return intervals, rng.dirichlet(np.ones(len(focal)), size=n_rows), focal


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 4])
def test_degrees_of_same_cluster(n_clusters, rng):
    focal = family(n_clusters)
    first, second = rng.dirichlet(np.ones(len(focal)), size=(2, 5))
    expected = [belief_and_plausibility_of_same(a, b, list(focal)) for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(Relation.of(focal).intervals(first, second), expected, atol=1e-12)


def test_intervals_are_quantiles_of_products(rng):
    posteriors = rng.dirichlet(np.ones(3), size=(4, 20)).transpose(0, 2, 1).astype(np.float32)
    references = rng.dirichlet(np.ones(3), size=(5, 20)).transpose(0, 2, 1).astype(np.float32)
    found = pair_intervals(posteriors, np.ascontiguousarray(references.swapaxes(0, 1)), (0.05, 0.95))
    for i, own in enumerate(posteriors):
        for j, other in enumerate(references):
            np.testing.assert_allclose(found[:, i, j], pair_quantiles(own, other, [0.05, 0.95]), atol=1e-6)


def test_one_replicate_is_an_interval_of_a_point():
    posterior = np.float32([[[0.25], [0.75]]])
    found = pair_intervals(posterior, np.ascontiguousarray(posterior.swapaxes(0, 1)), (0.05, 0.95))
    np.testing.assert_allclose(found[:, 0, 0], [0.625, 0.625])


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5), st.sampled_from([1e-8, 1.0, 1e8]))
def test_programs_on_the_simplex_are_solved(seed, n_sets, rank, unit):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(6, n_sets, rank))
    curvature, pull = roots @ np.swapaxes(roots, 1, 2), 2 * rng.normal(size=(6, n_sets))
    start = rng.dirichlet(np.full(n_sets, 0.3), size=6)
    start[0] = np.eye(n_sets)[0]
    solution = minimise_on_simplex(unit * curvature, unit * pull, start)
    assert (solution >= 0).all()
    np.testing.assert_allclose(solution.sum(axis=1), 1.0, rtol=1e-12)
    values = np.einsum("ni,nij,nj->n", solution, curvature, solution) / 2 - (pull * solution).sum(axis=1)
    expected = [simplex_minimum(q, d) for q, d in zip(curvature, pull, strict=True)]
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


def test_what_cannot_be_told_apart_is_shared_equally():
    pull = np.array([[0.0, 1.0, 1.0, 0.0]])
    found = minimise_on_simplex(np.zeros((1, 4, 4)), pull, np.array([[1.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(found, [[0.0, 0.5, 0.5, 0.0]], atol=1e-8)


def test_objective_is_the_formula():
    intervals, masses, focal = random_problem(0)
    targets = Targets.between(intervals, np.arange(9))
    expected = calibration_loss(masses, *intervals, list(focal))
    assert misfit(masses, targets, Relation.of(focal)).objective == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_step_of_a_group_is_the_best(seed):
    intervals, masses, focal = random_problem(seed)
    relation, targets = Relation.of(focal), Targets.between(intervals, np.arange(9))
    group = slice(1, None, 3)
    direction = optimal_masses(targets.take(group), masses, relation, masses[group]) - masses[group]
    step = _best_step(group, direction, masses, targets, relation)

    def value(at):
        moved = masses.copy()
        moved[group] += at * direction
        return calibration_loss(moved, *intervals, list(focal))

    assert value(step) <= min(value(at) for at in np.linspace(0, 1, 101)) + 1e-12


@pytest.mark.parametrize("n_clusters", [2, 3, 4])
def test_descent_never_rises_and_ends_where_no_row_can_gain(n_clusters):
    intervals, start, focal = random_problem(1, n_rows=12, n_clusters=n_clusters)
    relation = Relation.of(focal)
    descent = calibrate(intervals, start, relation, tol=1e-13, max_iter=3000)
    assert descent.converged
    assert np.diff(descent.history).max() <= 1e-13
    assert descent.history[-1] == pytest.approx(calibration_loss(descent.state, *intervals, list(focal)), rel=1e-9)
    assert (descent.state >= 0).all()
    np.testing.assert_allclose(descent.state.sum(axis=1), 1.0, rtol=1e-9)
    rng = np.random.default_rng(0)
    for row in range(12):
        for other in rng.dirichlet(np.full(len(focal), 0.3), size=5):
            moved = descent.state.copy()
            moved[row] += 1e-3 * (other - moved[row])
            assert calibration_loss(moved, *intervals, list(focal)) > descent.history[-1] - 1e-9


def test_masses_are_recovered_from_the_intervals_they_make():
    _, masses, focal = random_problem(2, n_rows=40)
    relation = Relation.of(focal)
    masses[:15] = np.eye(len(focal))[np.arange(15) % len(focal)]
    first, second = (grid.ravel() for grid in np.indices((40, 40)))
    intervals = relation.intervals(masses[first], masses[second]).T.reshape(2, 40, 40)
    start = 0.8 * masses + 0.2 / len(focal)
    descent = calibrate(intervals, start, relation, tol=1e-14, max_iter=5000)
    assert descent.history[-1] < 1e-6
    np.testing.assert_allclose(descent.state, masses, atol=0.02)


def test_a_row_is_no_partner_of_itself():
    intervals, masses, focal = random_problem(3)
    relation, everyone = Relation.of(focal), np.arange(9)
    found = optimal_masses(Targets.between(intervals, everyone), masses, relation, masses)
    for row in everyone:
        others = np.delete(everyone, row)
        targets = Targets.between(intervals[:, [row]][:, :, others], np.array([-1]))
        alone = optimal_masses(targets, masses[others], relation, masses[[row]])
        np.testing.assert_allclose(found[[row]], alone, atol=1e-7)
