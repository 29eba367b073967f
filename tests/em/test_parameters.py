"""Parameters and the form of them an E-step reads, against loops over sets and dense inverses."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import oracles
from egmm import FocalSets
from egmm.em.parameters import (
    NotPositiveDefiniteError,
    Parameters,
    check_definite,
    components,
    diagonal_factors,
    focal_parameters,
    precision_factors,
)


def wishart(rng, dim: int) -> np.ndarray:
    root = rng.normal(size=(dim, 2 * dim))
    return root @ root.T / dim


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_precision_factors_are_triangular_roots_of_the_inverse(rng, dim) -> None:
    covariances = np.stack([wishart(rng, dim) for _ in range(3)])
    factors, log_roots = precision_factors(covariances)
    for covariance, factor, log_root in zip(covariances, factors, log_roots, strict=True):
        np.testing.assert_allclose(factor @ factor.T @ covariance, np.eye(dim), atol=1e-11)
        np.testing.assert_array_equal(factor, np.triu(factor))
        assert log_root == pytest.approx(-0.5 * np.linalg.slogdet(covariance)[1], abs=1e-12)
        np.testing.assert_allclose(precision_factors(covariance)[0], factor, rtol=1e-14)


def test_precision_factors_do_not_mind_units(rng) -> None:
    covariance = wishart(rng, 4)
    units = np.array([1e-8, 1.0, 1e3, 1e8])
    plain, plain_root = precision_factors(covariance)
    scaled, scaled_root = precision_factors(covariance * np.outer(units, units))
    np.testing.assert_allclose(scaled * units[:, None], plain, rtol=1e-12)
    assert scaled_root == pytest.approx(plain_root - np.log(units).sum(), abs=1e-12)


@pytest.mark.parametrize("dim", [2, 4, 10, 30])
def test_collinear_features_are_never_taken_for_a_covariance(dim) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(3 * dim, dim - 1))
        rows = np.column_stack([rows, rows @ rng.normal(size=dim - 1)])[:, rng.permutation(dim)]
        with pytest.raises(NotPositiveDefiniteError, match="smallest eigenvalue"):
            precision_factors(np.cov(rows.T))


def test_a_ridge_of_a_trillionth_is_enough_for_a_covariance(rng) -> None:
    rows = rng.normal(size=(60, 3))
    covariance = np.cov(np.column_stack([rows, rows.sum(axis=1)]).T)
    factors, log_root = precision_factors(covariance + 1e-12 * np.diag(np.diag(covariance)))
    assert np.isfinite(factors).all()
    assert np.isfinite(log_root)


@pytest.mark.parametrize("variance", [0.0, -1e-3, np.nan, np.inf])
def test_variances_must_be_positive(variance) -> None:
    with pytest.raises(NotPositiveDefiniteError, match="smallest variance"):
        precision_factors(np.diag([1.0, variance]))
    with pytest.raises(NotPositiveDefiniteError, match="smallest variance"):
        diagonal_factors(np.array([[1.0, variance]]))


@pytest.mark.parametrize(
    "wrong", [1e-16 * np.eye(2), np.diag([1.0, 0.0]), np.diag([1.0, np.nan]), np.full((2, 2), np.inf)]
)
def test_clusters_without_a_covariance_are_named(wrong) -> None:
    # Thousands of times below the rows' own variance, a cluster's is one all the same; below rounding it is none.
    good = np.stack([np.eye(2), 1e-8 * np.eye(2), [[1.0, 0.9], [0.9, 1.0]]])
    units, whole = np.array([[1e6, 1.0], [1.0, 1e-6]]), np.array([1e6, 1e-6])
    check_definite(good * units, whole, np.full(3, 9.0), "VVV")
    message = r"the VVV covariance of cluster 2 \(9 rows\) is not positive definite"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        check_definite(np.stack([good[0], wrong, good[2]]) * units, whole, np.full(3, 9.0), "VVV")


ONE_SET_PER_CLUSTER = [{0}, {0, 1}, {2}, {3}]


@pytest.mark.parametrize("name", ["full", "pairs", "simple", "singletons", ONE_SET_PER_CLUSTER], ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_focal_sets_are_gaussians_with_averaged_natural_parameters(rng, name, shared) -> None:
    focal = FocalSets.of(name, 4)
    means = rng.normal(size=(4, 3)) * 3
    covariances = wishart(rng, 3) if shared else np.stack([wishart(rng, 3) for _ in range(4)])
    params = Parameters(rng.dirichlet(np.ones(len(focal))), means, covariances)
    truth = oracles.Mixture(list(focal), params.weights, means, covariances)
    focal_means, focal_covariances = focal_parameters(params, focal.shares)
    model = components(params, np.zeros(3), focal.shares)
    assert model.is_shared is shared
    x = rng.normal(size=3)
    for j, members in enumerate(focal):
        mean, covariance = truth.component(j)
        np.testing.assert_allclose(focal_means[j], mean, atol=1e-12)
        np.testing.assert_allclose(focal_covariances if shared else focal_covariances[j], covariance, atol=1e-12)
        # log N_j = kappa_j + the members' average log-density, the identity every E-step is built on.
        logs = [multivariate_normal(means[k], covariances if shared else covariances[k]).logpdf(x) for k in members]
        constant = model.log_weights[j] - np.log(params.weights[j])
        assert constant + np.mean(logs) == pytest.approx(multivariate_normal(mean, covariance).logpdf(x), abs=1e-10)


def test_a_set_without_weight_is_impossible_not_an_error(rng) -> None:
    focal = FocalSets.full(2)
    model = components(Parameters(np.array([0.5, 0.5, 0.0]), np.eye(2), np.eye(2)), np.zeros(2), focal.shares)
    assert model.log_weights[2] == -np.inf
    assert np.isfinite(model.log_weights[:2]).all()
