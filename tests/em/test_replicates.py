"""Refits of many weighted replicates at once against one at a time, scikit-learn and SciPy."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from egmm import EGMM
from egmm.em.covariance import MODELS, SHARED, is_diagonal
from egmm.em.replicates import Mixtures, Posteriors, Start
from egmm.em.replicates import refit as refit_all
from egmm.em.statistics import moments

NO_RIDGE = np.zeros(3)


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


def start(rows, model):
    fitted = EGMM(3, focal_sets="singletons", covariance=model, random_state=0).fit(rows)
    return Parameters(fitted.weights_, fitted.means_, fitted.covariances_)


def one(mixtures, at, model):
    weights, means, covariances = (part[at] for part in mixtures)
    return Parameters(weights, means, covariances[0] if model in SHARED else covariances)


@pytest.mark.parametrize("model", MODELS)
def test_every_replicate_ends_where_em_stands_still(rows, counts, model):
    first = start(rows, model)
    mixtures, is_fitted = refit(rows, counts, first, model, NO_RIDGE, 1e-9, 5000)
    assert is_fitted.all()
    for at, weight in enumerate(counts):
        with ArrayRows(rows, weight) as source:
            total = moments(rows, weight)._replace(centre=np.zeros(3), scatter=(rows.T * weight) @ rows)
            problem = Problem(source, total, np.eye(3), model, NO_RIDGE, "numpy")
            last = problem.evaluate(one(mixtures, at, model))
            again = problem.evaluate(problem.m_step(last))
            assert last.log_likelihood >= problem.evaluate(first).log_likelihood
        assert again.log_likelihood - last.log_likelihood < 1e-7
        np.testing.assert_allclose(again.params.means, last.params.means, atol=1e-4)


@pytest.mark.parametrize(("model", "kind"), [("VVV", "full"), ("EEE", "tied"), ("VVI", "diag"), ("VII", "spherical")])
def test_a_replicate_is_scikit_learns_mixture_of_the_rows_drawn(rows, counts, model, kind):
    first = start(rows, model)
    mixtures, _ = refit(rows, counts, first, model, NO_RIDGE, 1e-9, 5000)
    for at, weight in enumerate(counts[:2]):
        drawn = np.repeat(rows, weight.astype(int), axis=0)
        precisions = np.linalg.inv(first.covariances)
        if kind == "diag":
            precisions = np.einsum("kdd->kd", precisions)
        if kind == "spherical":
            precisions = precisions[:, 0, 0]
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
    together, _ = refit(rows, counts, first, model, NO_RIDGE, 0.01, 100)
    alone, _ = refit(rows, counts[2:3], first, model, NO_RIDGE, 0.01, 100)
    for part, own in zip(together, alone, strict=True):
        np.testing.assert_allclose(part[2], own[0], rtol=1e-6, atol=1e-8)


def test_a_replicate_without_a_cluster_fails_alone(rows, counts):
    first = start(rows, "VVV")
    nearest = np.linalg.norm(rows[:, None] - first.means, axis=2).argmin(axis=1)
    bad = np.where(nearest == 0, 0.0, counts[:1])
    bad[0, np.flatnonzero(nearest == 0)[:2]] = 40.0
    mixtures, is_fitted = refit(rows, np.vstack([counts[:1], bad, counts[1:2]]), first, "VVV", NO_RIDGE, 0.01, 300)
    assert is_fitted.tolist() == [True, False, True]
    expected, _ = refit(rows, counts[:2], first, "VVV", NO_RIDGE, 0.01, 300)
    np.testing.assert_allclose(mixtures.means[[0, 2]], expected.means, rtol=1e-6, atol=1e-8)


def test_a_ridge_enters_every_cluster_as_in_one_fit(rows):
    first = start(rows, "VVV")
    ridge = np.array([0.5, 0.1, 0.0])
    mixtures, _ = refit(rows, np.ones((1, len(rows))), first, "VVV", ridge, 0.0, 1)
    total = moments(rows, None)._replace(centre=np.zeros(3))
    with ArrayRows(rows) as source:
        problem = Problem(source, total, np.eye(3), "VVV", ridge, "numpy")
        expected = problem.m_step(problem.evaluate(first))
    np.testing.assert_allclose(mixtures.covariances[0], expected.covariances, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_posteriors_follow_bayes(rng, kind):
    roots = rng.normal(size=(4, 3, 2, 2)) + 2 * np.eye(2)
    covariances = roots @ np.swapaxes(roots, -1, -2)
    if kind == "diagonal":
        covariances = covariances * np.eye(2)
    mixtures = Mixtures(rng.dirichlet(np.ones(3), size=4), 3 * rng.normal(size=(4, 3, 2)), covariances)
    X = 4 * rng.normal(size=(7, 2))
    theta, is_definite = coefficients(mixtures, kind)
    assert is_definite.all()
    found = posteriors(X, theta, kind)
    assert found.shape == (7, 3, 4)
    for b in range(4):
        joint = np.array(
            [
                mixtures.weights[b, k] * multivariate_normal(mixtures.means[b, k], covariances[b, k]).pdf(X)
                for k in range(3)
            ]
        )
        np.testing.assert_allclose(found[:, :, b], (joint / joint.sum(axis=0)).T, rtol=1e-5, atol=1e-7)


def test_blocks_of_rows_make_no_difference(rows, counts, monkeypatch):
    first = start(rows, "EVE")
    whole, _ = refit(rows, counts, first, "EVE", NO_RIDGE, 0.01, 50)
    monkeypatch.setattr("egmm.em.replicates.PASS_ROWS", 17)
    parts, _ = refit(rows, counts, first, "EVE", NO_RIDGE, 0.01, 50)
    np.testing.assert_allclose(parts.means, whole.means, rtol=1e-8, atol=1e-10)
    assert not is_diagonal("EVE")
