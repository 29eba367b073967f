"""Refits of many weighted replicates at once against one at a time, scikit-learn and SciPy."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from egmm import EGMM
from egmm.em.covariance import MODELS, SHARED, is_diagonal
from egmm.em.parameters import Parameters
from egmm.em.replicates import Mixtures, Posteriors, Start
from egmm.em.replicates import refit as refit_all
from egmm.em.statistics import moments
from em.problems import ascend, problem_of


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    shifts = np.array([[0.0, 0.0, 0.0], [3.0, 1.0, 0.0], [0.0, 4.0, 2.0]])
    shapes = rng.normal(size=(3, 3, 3)) + 2 * np.eye(3)
    X = np.vstack([rng.normal(size=(60, 3)) @ shape / 3 + shift for shape, shift in zip(shapes, shifts, strict=True)])
    return X - X.mean(axis=0)


@pytest.fixture(scope="module")
def counts(rows):
    rng = np.random.default_rng(4)
    draws = rng.integers(len(rows), size=(5, len(rows)))
    return np.array([np.bincount(draw, minlength=len(rows)) for draw in draws], dtype=float)


def start(rows, model, reg_covar=0.0) -> Start:
    fitted = EGMM(3, focal_sets="singletons", covariance=model, random_state=0).fit(rows)
    found = np.asarray(fitted.covariances_)
    if is_diagonal(model):
        found = np.einsum("...dd->...d", found)
    return Start(fitted.weights_, fitted.means_, found, model, reg_covar)


def refit(rows, counts, first, tol, max_iter):
    return refit_all(rows, counts, moments(rows, None), first, tol, max_iter)


def parameters(problem, mixtures, at, model) -> Parameters:
    """One of the mixtures in the units of a problem of the same rows."""
    units = problem.units
    own = mixtures.covariances[at][:1] if model in SHARED else mixtures.covariances[at]
    if is_diagonal(model):
        own = np.einsum("kdd->kd", own)
    means = (mixtures.means[at] - units.centre) / units.scale
    within = units.covariances_in(own, diagonal=is_diagonal(model))
    return Parameters(mixtures.weights[at][None], means[None], within[None])


@pytest.mark.parametrize("model", MODELS)
def test_every_replicate_ends_where_em_stands_still(rows, counts, model):
    mixtures, is_fitted = refit(rows, counts, start(rows, model), 1e-9, 5000)
    assert is_fitted.all()
    for at, weight in enumerate(counts):
        problem = problem_of(rows, "singletons", 3, model, weight=weight)
        last = problem.evaluate(parameters(problem, mixtures, at, model))
        params, is_proper = problem.maximise(last.vector, last.params)
        assert is_proper.all()
        again = problem.evaluate(params)
        assert again.log_likelihood[0] - last.log_likelihood[0] < 1e-7
        np.testing.assert_allclose(again.params.means, last.params.means, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_replicates_are_weighted_single_fits(rows, counts, model):
    first = start(rows, model)
    mixtures, _ = refit(rows, counts, first, 1e-8, 5000)
    for at, weight in enumerate(counts[:3]):
        problem = problem_of(rows, "singletons", 3, model, weight=weight)
        begin = Mixtures(
            first.weights[None],
            first.means[None],
            np.broadcast_to(first.covariances[..., None] * np.eye(3), (1, 3, 3, 3))
            if is_diagonal(model)
            else np.broadcast_to(first.covariances, (1, 3, 3, 3)),
        )
        alone = ascend(problem, parameters(problem, begin, 0, model), tol=1e-8, max_iter=5000)
        found = problem.evaluate(parameters(problem, mixtures, at, model))
        assert found.log_likelihood[0] == pytest.approx(alone.objectives[-1], abs=1e-5)


@pytest.mark.parametrize(("model", "kind"), [("VVV", "full"), ("EEE", "tied"), ("VVI", "diag"), ("VII", "spherical")])
def test_a_replicate_is_scikit_learns_mixture_of_the_rows_drawn(rows, counts, model, kind):
    first = start(rows, model)
    mixtures, _ = refit(rows, counts, first, 1e-9, 5000)
    for at, weight in enumerate(counts[:2]):
        drawn = np.repeat(rows, weight.astype(int), axis=0)
        precisions = 1 / first.covariances if is_diagonal(model) else np.linalg.inv(first.covariances)
        if kind == "spherical":
            precisions = precisions[:, 0]
        theirs = GaussianMixture(
            3,
            covariance_type=kind,
            weights_init=first.weights,
            means_init=first.means,
            precisions_init=precisions,
            tol=1e-11,
            max_iter=5000,
            reg_covar=0.0,
        ).fit(drawn)
        np.testing.assert_allclose(mixtures.means[at], theirs.means_, atol=1e-3)
        np.testing.assert_allclose(mixtures.weights[at], theirs.weights_, atol=1e-3)


@pytest.mark.parametrize("model", ["VEV", "EEE", "VVI"])
def test_replicates_do_not_depend_on_their_company(rows, counts, model):
    first = start(rows, model)
    together, _ = refit(rows, counts, first, 0.01, 100)
    alone, _ = refit(rows, counts[2:3], first, 0.01, 100)
    for part, own in zip(together, alone, strict=True):
        np.testing.assert_allclose(part[2], own[0], rtol=1e-6, atol=1e-8)


def test_a_replicate_without_covariances_fails_alone(rows, counts):
    first = start(rows, "VVV")
    bad = np.zeros((1, len(rows)))
    bad[0, [0, 60, 120]] = 60.0  # One row of each group: nothing has a covariance.
    mixtures, is_fitted = refit(rows, np.vstack([counts[:1], bad, counts[1:2]]), first, 0.01, 300)
    assert is_fitted.tolist() == [True, False, True]
    expected, _ = refit(rows, counts[:2], first, 0.01, 300)
    np.testing.assert_allclose(mixtures.means[[0, 2]], expected.means, rtol=1e-6, atol=1e-8)


def test_a_ridge_enters_every_cluster_as_in_one_fit(rows):
    first = start(rows, "VVV", 0.5)
    mixtures, _ = refit(rows, np.ones((1, len(rows))), first, 0.0, 1)
    problem = problem_of(rows, "singletons", 3, "VVV", 0.5)
    begin = parameters(problem, Mixtures(*(part[None] for part in first[:3])), 0, "VVV")
    expected, _ = problem.maximise(problem.evaluate(begin).vector, begin)
    got = parameters(problem, mixtures, 0, "VVV")
    np.testing.assert_allclose(got.covariances, expected.covariances, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_posteriors_follow_bayes(rng, kind):
    roots = rng.normal(size=(4, 3, 2, 2)) + 2 * np.eye(2)
    covariances = roots @ np.swapaxes(roots, -1, -2)
    if kind == "diagonal":
        covariances = covariances * np.eye(2)
    mixtures = Mixtures(rng.dirichlet(np.ones(3), size=4), 3 * rng.normal(size=(4, 3, 2)), covariances)
    X = 4 * rng.normal(size=(7, 2))
    centre = np.array([3.0, -1.0])
    found = Posteriors.of(mixtures, centre, "VVI" if kind == "diagonal" else "VVV")(X + centre)
    assert found.shape == (7, 3, 4)
    for b in range(4):
        joint = np.array(
            [
                mixtures.weights[b, k] * multivariate_normal(mixtures.means[b, k], covariances[b, k]).pdf(X)
                for k in range(3)
            ]
        )
        np.testing.assert_allclose(found[:, :, b], (joint / joint.sum(axis=0)).T, rtol=1e-5, atol=1e-7)
