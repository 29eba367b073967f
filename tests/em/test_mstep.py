"""The M-step against the paper's formulas as loops over rows and sets."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import oracles
from egmm import EGMM, FocalSets
from egmm.em.cluster_moments import ClusterMoments
from egmm.em.layout import Layout, RowTotals, Settings
from egmm.em.mstep import maximise
from egmm.em.parameters import Parameters
from egmm.em.prior import prior_terms
from egmm.em.statistics import Units
from em.problems import Found, found_of, problem_of


def one_step(X, weight, truth, covariance="EEE", ridge=0.0) -> Found:
    """E-step and M-step of the code."""
    problem = problem_of(X, truth.sets, len(truth.means), covariance, ridge, weight=weight)
    units, spread = problem.units, np.diag(truth.covariances) if problem.layout.diagonal else truth.covariances
    within = units.covariances_in(spread[None], diagonal=problem.layout.diagonal)
    start = Parameters(truth.weights[None], ((truth.means - units.centre) / units.scale)[None], within[None])
    params, is_proper = problem.maximise(problem.evaluate(start).vector, start)
    assert is_proper.all()
    return found_of(problem, params)


@pytest.mark.parametrize(
    "family", ["full", "pairs", "simple", "singletons", [{0, 1}, {1}, {0, 2, 3}, {2}, {0, 1, 2, 3}]]
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_it_is_the_paper_s(rng, mixture, family, weighted, offset) -> None:
    truth = mixture(family, 4, 3)
    truth = replace(truth, means=truth.means + offset)
    X = truth.means[rng.integers(4, size=60)] + rng.normal(size=(60, 3))
    weight = rng.integers(0, 3, 60).astype(float) if weighted else None
    # The loops work about the origin, where they lose no digits.
    near = replace(truth, means=truth.means - offset)
    want = oracles.m_step(X - offset, near.masses(X - offset), near, weight)
    got = one_step(X, weight, truth)
    digits = 1e-11 if offset == 0 else 1e-7
    np.testing.assert_allclose(got.weights, want.weights, atol=digits)
    np.testing.assert_allclose(got.means - offset, want.means, atol=100 * digits)
    np.testing.assert_allclose(got.covariances[0], want.covariances, atol=10 * digits)


def test_diagonal_and_spherical_models_keep_what_they_may_of_the_covariance(rng, mixture) -> None:
    truth = mixture("full", 3, 3, "shared diagonal")
    X = 2 * rng.normal(size=(50, 3))
    full, diagonal, spherical = (one_step(X, None, truth, name).covariances[0] for name in ("EEE", "EEI", "EII"))
    np.testing.assert_allclose(diagonal, np.diag(np.diag(full)), rtol=1e-14)
    np.testing.assert_allclose(spherical, np.eye(3) * np.trace(full) / 3, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("covariance", ["EEE", "EEI", "EII"])
def test_the_ridge_is_added_to_every_variance(rng, mixture, covariance) -> None:
    truth = mixture("full", 3, 3, "shared diagonal")
    X = 2 * rng.normal(size=(50, 3))
    plain, ridged = (one_step(X, None, truth, covariance, ridge) for ridge in (0.0, 0.25))
    np.testing.assert_allclose(ridged.covariances - plain.covariances, np.stack([0.25 * np.eye(3)] * 3), atol=1e-14)
    np.testing.assert_array_equal(ridged.means, plain.means)


def statistics_of(focal: FocalSets, counts, means) -> ClusterMoments:
    """Statistics of masses `counts` on sets whose rows all lie at the sets' means."""
    counts = np.asarray(counts, dtype=float)
    firsts = focal.shares.T @ (counts[:, None] * (focal.shares @ means))
    clusters = (counts @ focal.shares)[None]
    return ClusterMoments(counts[None], clusters, clusters, firsts[None], np.empty((1, len(means), 0)))


def run(moments, focal, previous) -> Parameters:
    units = Units(np.zeros(2), np.ones(2))
    terms, scatter = prior_terms(None, len(previous), "EEE", units), np.diag([5.0, 18.0])
    rows = RowTotals(np.array([3.0]), scatter[None])
    settings = Settings(np.array(["EEE"]), np.ones((1, 2)), terms, *rows, rows)
    layout = Layout.of("EEE", focal.shares, units.scale)
    params = Parameters(np.full((1, len(focal)), 1 / len(focal)), previous[None], np.eye(2)[None, None])
    found = maximise(moments, params, settings, layout)[0]
    return Parameters(*(part[0] for part in found[:3]))


def test_a_cluster_without_mass_stays_and_is_named(rng) -> None:
    focal = FocalSets.full(3)
    truth, previous = rng.normal(size=(2, 3, 2))
    # {1}, {3} and {1,3} alone have mass: nothing speaks of cluster 2.
    with pytest.warns(ConvergenceWarning, match="cluster 2 has no mass of its own left and keeps its mean"):
        got = run(statistics_of(focal, [5, 0, 0, 4, 3, 0, 0], truth), focal, previous)
    np.testing.assert_allclose(got.means[[0, 2]], truth[[0, 2]], atol=1e-12)
    np.testing.assert_allclose(got.means[1], previous[1], atol=1e-12)


def test_clusters_without_mass_are_named_together(rng) -> None:
    focal = FocalSets.full(3)
    truth, previous = rng.normal(size=(2, 3, 2))
    with pytest.warns(ConvergenceWarning, match="clusters 2, 3 have no mass of their own left and keep their means"):
        got = run(statistics_of(focal, [5, 0, 0, 0, 0, 0, 0], truth), focal, previous)
    np.testing.assert_allclose(got.means[1:], previous[1:], atol=1e-12)


@pytest.mark.parametrize("count", [3.0, 60.0, 1 / 3, 0.1, 7.7, 1e-3, 58.123456789])
def test_clusters_seen_only_together_keep_their_difference(rng, count) -> None:
    focal = FocalSets.from_sets([{0, 1}, {2}], 3)
    truth, previous = rng.normal(size=(2, 3, 2))
    with pytest.warns(ConvergenceWarning, match="clusters 1, 2 have no mass of their own left and keep their d"):
        got = run(statistics_of(focal, [count, 2 * count], truth), focal, previous)
    np.testing.assert_allclose(got.means[:2].mean(axis=0), truth[:2].mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(got.means[0] - got.means[1], previous[0] - previous[1], atol=1e-9)
    np.testing.assert_allclose(got.means[2], truth[2], atol=1e-12)


@pytest.mark.parametrize("covariance", ["EEE", "EII", "VVV", "VII", "EVE"])
@pytest.mark.parametrize(
    ("sets", "named"),
    [([{0, 1, 2, 3}], "1, 2, 3, 4"), ([{0}, {1, 2}, {3}], "2, 3"), ([{0, 1}, {1, 2}, {2, 3}, {0, 3}], "1, 2, 3, 4")],
)
def test_clusters_seen_only_together_are_named_whatever_the_covariance(rng, covariance, sets, named) -> None:
    X = np.concatenate([rng.normal(mean, 1, (30, 2)) for mean in ([0, 0], [5, 0], [5, 5], [0, 5])])
    model = EGMM(4, focal_sets=sets, covariance=covariance, init=np.repeat(np.arange(4), 30), accelerate=False, tol=1e9)
    with pytest.warns(ConvergenceWarning, match=f"^clusters {named} have no mass of their own left and keep their d"):
        model.fit(X)


def test_little_mass_of_its_own_is_enough(rng) -> None:
    focal = FocalSets.full(2)
    truth, previous = rng.normal(size=(2, 2, 2))
    got = run(statistics_of(focal, [1e-7, 1e-7, 10], truth), focal, previous)
    np.testing.assert_allclose(got.means, truth, atol=1e-6)
