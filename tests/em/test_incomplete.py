"""Passes over rows with missing cells, against loops over rows, sets and cells."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, norm

import oracles
from egmm.em import assign
from egmm.em.cluster_moments import cluster_moments
from egmm.em.covariance import MODELS, SHARED
from egmm.em.parameters import components
from egmm.em.statistics import products
from em.problems import ascend, found_of, problem_of, start_of


@pytest.fixture
def holes(rng):
    """Three overlapping clusters; a third of the rows lack cells, one lacks all."""
    labels = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) @ rng.normal(size=(3, 3)) + 2 * labels[:, None] + 50
    holes = rng.random(X.shape) < 0.2
    holes[7] = True
    return np.where(holes, np.nan, X), X, labels


def given_observed(mean, covariance, x):
    """Log-density of the observed cells, expected row and covariance of its missing cells."""
    o, u = np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
    within, error = covariance[np.ix_(o, o)], x[o] - mean[o]
    precision = np.linalg.inv(within)
    value = -(len(o) * np.log(2 * np.pi) + np.linalg.slogdet(within)[1] + error @ precision @ error) / 2
    row, rest = x.copy(), np.zeros_like(covariance)
    slopes = covariance[np.ix_(u, o)] @ precision
    row[u] = mean[u] + slopes @ error
    rest[np.ix_(u, u)] = covariance[np.ix_(u, u)] - slopes @ covariance[np.ix_(o, u)]
    return value, row, rest


def expectations(truth: oracles.Mixture, X, weight):
    """Counts of sets, sums and second moments of every set, and the log-likelihood, one row at a time."""
    n_focal, dim = len(truth.sets), X.shape[1]
    counts, firsts, seconds, total = np.zeros(n_focal), np.zeros((n_focal, dim)), np.zeros((n_focal, dim, dim)), 0.0
    gaussians = [truth.component(j) for j in range(n_focal)]
    for x, w in zip(X, weight, strict=True):
        if np.isnan(x).all():
            continue
        found = [given_observed(*gaussian, x) for gaussian in gaussians]
        joint = np.log(truth.weights) + [value for value, _, _ in found]
        density = np.logaddexp.reduce(joint)
        total += w * density
        for j, m in enumerate(w * np.exp(joint - density)):
            _, row, rest = found[j]
            counts[j] += m
            firsts[j] += m * row
            seconds[j] += m * (np.outer(row, row) + rest)
    return counts, firsts, seconds, total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance", MODELS)
def test_statistics_are_sums_over_rows_sets_and_cells(rng, holes, backend, covariance, weighted) -> None:
    X, whole, labels = holes
    weight = rng.random(len(X)) if weighted else None
    problem = problem_of(X, "pairs", 3, covariance, engine=backend, weight=weight)
    params = start_of(problem_of(whole, "pairs", 3, covariance), labels)
    params = params._replace(weights=rng.dirichlet(np.ones(7))[None])
    evaluation = problem.evaluate(params)
    found = found_of(problem, params)
    sets = oracles.family("pairs", 3)
    covariances = found.covariances[0] if covariance in SHARED else found.covariances
    truth = oracles.Mixture(sets, found.weights, found.means, covariances)
    rows = (X - problem.units.centre) / problem.units.scale
    scale = problem.units.scale
    inside = replace(
        truth, means=(found.means - problem.units.centre) / scale, covariances=covariances / scale / scale[:, None]
    )
    counts, firsts, seconds, _ = expectations(inside, rows, np.ones(len(X)) if weight is None else weight)
    total = expectations(truth, X, np.ones(len(X)) if weight is None else weight)[3]
    shares = np.array([[1 / len(s) if k in s else 0.0 for k in range(3)] for s in sets])
    statistics, layout = evaluation.statistics, problem.layout
    np.testing.assert_allclose(statistics.set_counts[0], counts, rtol=1e-11)
    assert evaluation.log_likelihood[0] == pytest.approx(total, rel=1e-11)
    scales = np.abs(seconds).max()
    np.testing.assert_allclose(statistics.sums[0, :, 1:4], shares.T @ firsts, rtol=1e-11, atol=1e-11 * scales)
    first, second = products(3, layout.second_kind)
    of_sets = seconds[:, first, second]
    if covariance in SHARED:
        complete = problem.settings.reference.scatter[0]
        fixed = complete if layout.diagonal else complete[first, second]
        np.testing.assert_allclose(statistics.pooled[0] + fixed, of_sets.sum(axis=0), rtol=1e-11, atol=1e-12 * scales)
    else:
        np.testing.assert_allclose(statistics.sums[0, :, 4:], shares.T @ of_sets, rtol=1e-11, atol=1e-11 * scales)


@pytest.mark.parametrize("covariance", ["EEE", "EEI", "EII"])
def test_the_step_of_a_shared_covariance_is_that_of_expected_rows(rng, holes, covariance) -> None:
    X, whole, labels = holes
    problem = problem_of(X, "full", 3, covariance)
    params = start_of(problem_of(whole, "full", 3, covariance), labels)
    after, _ = problem.maximise(problem.evaluate(params).vector, params)
    found = found_of(problem, params)
    truth = oracles.Mixture(oracles.family("full", 3), found.weights, found.means, found.covariances[0])
    counts, firsts, seconds, _ = expectations(truth, X, np.ones(len(X)))
    shares = np.array([[1 / len(s) if k in s else 0.0 for k in range(3)] for s in truth.sets])
    means = np.linalg.solve(shares.T @ np.diag(counts) @ shares, shares.T @ firsts)
    nu = shares @ means
    scatter = seconds.sum(axis=0) - firsts.T @ nu - nu.T @ firsts + nu.T @ np.diag(counts) @ nu
    scatter /= counts.sum()
    expected = {"EEE": scatter, "EEI": np.diag(np.diag(scatter)), "EII": np.eye(3) * np.trace(scatter) / 3}[covariance]
    got = found_of(problem, after)
    np.testing.assert_allclose(got.weights, counts / counts.sum(), rtol=1e-12)
    np.testing.assert_allclose(got.means, means, rtol=1e-12)
    np.testing.assert_allclose(got.covariances[0], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("covariance", MODELS)
def test_a_step_is_that_of_statistics_by_loops(rng, holes, covariance) -> None:
    """The M-step of what loops over rows, sets and cells add up is that of the pass, to twelve digits."""
    X, whole, labels = holes
    problem = problem_of(X, "pairs", 3, covariance)
    params = start_of(problem_of(whole, "pairs", 3, covariance), labels)
    params = params._replace(weights=rng.dirichlet(np.ones(7))[None])
    evaluation, layout, scale = problem.evaluate(params), problem.layout, problem.units.scale
    found = found_of(problem, params)
    means, covariances = (found.means - problem.units.centre) / scale, found.covariances / scale / scale[:, None]
    truth = oracles.Mixture(
        oracles.family("pairs", 3), found.weights, means, covariances[0] if covariance in SHARED else covariances
    )
    counts, firsts, seconds, _ = expectations(truth, (X - problem.units.centre) / scale, np.ones(len(X)))
    shares = np.array([[1 / len(s) if k in s else 0.0 for k in range(3)] for s in truth.sets])
    first, second = products(3, layout.second_kind)
    of_sets, parts = seconds[:, first, second], [(shares.T @ counts)[:, None], shares.T @ firsts]
    pooled = evaluation.statistics.pooled
    if covariance in SHARED:
        complete = problem.settings.reference.scatter[0]
        pooled = (of_sets.sum(axis=0) - (complete if layout.diagonal else complete[first, second]))[None]
    else:
        parts.append(shares.T @ of_sets)
    looped = evaluation.statistics._replace(
        set_counts=counts[None], sums=np.concatenate(parts, axis=1)[None], pooled=pooled
    )
    evaluated = components(params, layout.shares, layout.kind, layout.log_noise)
    moments = cluster_moments(looped, params, evaluated, problem.settings, layout)
    expected, _ = problem.maximise(moments.vector(layout), params)
    after, _ = problem.maximise(evaluation.vector, params)
    np.testing.assert_allclose(after.weights, expected.weights, rtol=1e-12)
    np.testing.assert_allclose(after.means, expected.means, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.covariances, expected.covariances, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("covariance", MODELS)
def test_the_likelihood_never_falls(holes, covariance, accelerate) -> None:
    X, whole, labels = holes
    # With a ridge and own covariances EM raises the likelihood minus a penalty that changes with the counts.
    problem = problem_of(X, "pairs", 3, covariance)
    start = start_of(problem_of(whole, "pairs", 3, covariance), labels)
    values = ascend(problem, start, tol=1e-9, accelerate=accelerate, max_iter=60).objectives
    assert (np.diff(values) > -1e-9 * abs(values[0])).all()
    assert values[-1] > values[0] + 0.1


@pytest.mark.parametrize("kind", ["shared", "shared diagonal", "full", "diagonal"])
def test_masses_and_densities_are_those_of_the_observed_cells(rng, mixture, model_of, backend, kind) -> None:
    truth = mixture("pairs", 3, 3, kind)
    model = model_of(truth, centre=rng.normal(size=3), scale=np.array([0.5, 2.0, 4.0]), diagonal="diagonal" in kind)
    X = 2 * rng.normal(size=(60, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[5] = np.nan
    mass, density = assign.masses(X, None, model, backend), assign.log_densities(X, None, model, backend)
    for x, m, value in zip(X, mass, density, strict=True):
        joint = np.log(truth.weights) + [given_observed(*truth.component(j), x)[0] for j in range(len(truth.sets))]
        np.testing.assert_allclose(m, np.exp(joint - logsumexp(joint)), atol=1e-12)
        assert value == pytest.approx(logsumexp(joint), abs=1e-10)
    np.testing.assert_allclose(mass[5], truth.weights, rtol=1e-14)
    assert density[5] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["shared", "shared diagonal", "full", "diagonal"])
def test_missing_cells_are_expected_and_drawn_given_the_others(rng, mixture, model_of, kind) -> None:
    truth = mixture("full", 2, 3, kind)
    model = model_of(truth, centre=rng.normal(size=3), scale=np.array([0.5, 2.0, 4.0]), diagonal="diagonal" in kind)
    X = truth.means[[0, 1, 0, 1]] + 0.5 * rng.normal(size=(4, 3))
    X[0, 1], X[1, [0, 2]], X[3] = np.nan, np.nan, np.nan
    got = assign.imputed(X, None, model, "numpy")
    copies = assign.drawn(X, model, 40_000, np.random.RandomState(0))
    np.testing.assert_array_equal(got[2], X[2])
    is_missing = np.isnan(X)
    assert (copies[:, ~is_missing] == X[~is_missing]).all()
    for x, row, drawn in zip(X, got, np.swapaxes(copies, 0, 1), strict=True):
        found = [given_observed(*truth.component(j), x) for j in range(len(truth.sets))]
        joint = np.log(truth.weights) + [value for value, _, _ in found]
        mass = np.exp(joint - logsumexp(joint))
        expected = sum(m * one for m, (_, one, _) in zip(mass, found, strict=True))
        second = sum(m * (np.outer(one, one) + rest) for m, (_, one, rest) in zip(mass, found, strict=True))
        within = second - np.outer(expected, expected)
        np.testing.assert_allclose(row, expected, rtol=1e-10, atol=1e-12)
        errors = np.sqrt(np.maximum(np.diag(within), 0) / len(drawn))
        assert (np.abs(drawn.mean(axis=0) - expected) <= 4.5 * errors + 1e-9).all()
        np.testing.assert_allclose(np.cov(drawn.T), within, atol=0.05 * max(np.abs(within).max(), 1e-9))


def test_distances_of_incomplete_rows_are_exceeded_as_often(rng) -> None:
    covariances = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, 0.2], [0.1, 0.2, 0.5]])
    means = np.array([[0.0, 0, 0], [50, 50, 50]])
    X = np.array([[np.nan, 2.0, np.nan], [1.0, 0.5, 0.2], [np.nan] * 3])
    got = assign.squared_distances(X, None, means, covariances, "EEE")
    # One normal cell two deviations out is as rare as a row of three cells at this distance.
    rarity = 2 * norm.sf(2.0)
    assert chi2.sf(got[0], 3) == pytest.approx(rarity, rel=1e-10)
    assert got[1] == pytest.approx(X[1] @ np.linalg.solve(covariances, X[1]), rel=1e-12)
    assert got[2] == 0.0
