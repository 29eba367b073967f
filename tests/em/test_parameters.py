"""Parameters and the form of them an E-step reads, against loops over sets and dense inverses."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import oracles
from egmm import FocalSets
from egmm.em.mstep import are_definite, unsound_clusters
from egmm.em.parameters import (
    Parameters,
    components,
    copied,
    focal_gaussians,
    is_identity,
    is_single,
    precision_factors,
    put,
    safe_cholesky,
    take,
)


def wishart(rng, dim: int) -> np.ndarray:
    root = rng.normal(size=(dim, 2 * dim))
    return root @ root.T / dim


# Precisions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_precision_factors_are_triangular_roots_of_the_inverse(rng, dim) -> None:
    covariances = np.array([[wishart(rng, dim) for _ in range(3)] for _ in range(2)])
    factors, log_roots, is_definite = precision_factors(covariances, diagonal=False)
    assert is_definite.all()
    for covariance, factor, log_root in zip(
        covariances.reshape(-1, dim, dim), factors.reshape(-1, dim, dim), log_roots.ravel(), strict=True
    ):
        np.testing.assert_allclose(factor @ factor.T @ covariance, np.eye(dim), atol=1e-11)
        np.testing.assert_array_equal(factor, np.triu(factor))
        assert log_root == pytest.approx(-0.5 * np.linalg.slogdet(covariance)[1], abs=1e-12)


def test_roots_of_variances_are_those_of_their_matrices(rng) -> None:
    variances = rng.uniform(0.1, 9, size=(2, 3, 4))
    short = precision_factors(variances, diagonal=True)
    long = precision_factors(variances[..., None] * np.eye(4), diagonal=False)
    np.testing.assert_allclose(short.factors[..., None] * np.eye(4), long.factors, rtol=1e-14)
    np.testing.assert_allclose(short.log_roots, long.log_roots, rtol=1e-13)


def test_precision_factors_do_not_mind_units(rng) -> None:
    covariance = wishart(rng, 4)
    units = np.array([1e-8, 1.0, 1e3, 1e8])
    plain, scaled = (
        precision_factors(one[None, None], diagonal=False) for one in (covariance, covariance * np.outer(units, units))
    )
    np.testing.assert_allclose(scaled.factors * units[:, None], plain.factors, rtol=1e-12)
    np.testing.assert_allclose(scaled.log_roots, plain.log_roots - np.log(units).sum(), atol=1e-12)


@pytest.mark.parametrize("dim", [2, 4, 10, 30])
def test_collinear_features_are_never_taken_for_a_covariance(dim) -> None:
    drawn = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(3 * dim, dim - 1))
        rows = np.column_stack([rows, rows @ rng.normal(size=dim - 1)])[:, rng.permutation(dim)]
        drawn.append(np.cov(rows.T))
    assert not precision_factors(np.array(drawn)[:, None], diagonal=False).is_definite.any()


def test_a_ridge_of_a_trillionth_is_enough_for_a_covariance(rng) -> None:
    rows = rng.normal(size=(60, 3))
    covariance = np.cov(np.column_stack([rows, rows.sum(axis=1)]).T)
    ridged = covariance + 1e-12 * np.diag(np.diag(covariance))
    factors, log_roots, is_definite = precision_factors(ridged[None, None], diagonal=False)
    assert is_definite.all()
    assert np.isfinite(factors).all()
    assert np.isfinite(log_roots).all()


@pytest.mark.parametrize("variance", [0.0, -1e-3, np.nan, np.inf])
def test_variances_must_be_positive_and_others_do_not_suffer(variance) -> None:
    variances = np.array([[[1.0, 4.0]], [[1.0, variance]], [[4.0, 1.0]]])
    matrices = np.array([[np.diag(one[0])] for one in variances])
    for one, diagonal in ((variances, True), (matrices, False)):
        factors, log_roots, is_definite = precision_factors(one, diagonal=diagonal)
        assert is_definite.tolist() == [True, False, True]
        np.testing.assert_allclose(log_roots[[0, 2], 0], -np.log(2.0))
        assert np.isfinite(factors).all()


def test_matrices_without_a_factor_leave_that_of_others(rng) -> None:
    matrices = np.array([[wishart(rng, 3) for _ in range(2)] for _ in range(4)])
    matrices[1, 1] = np.diag([1.0, -1.0, 1.0])
    factors, is_definite = safe_cholesky(matrices, np.array([True, True, True, False]))
    assert is_definite.tolist() == [True, False, True, False]
    for at in (0, 2):
        np.testing.assert_allclose(factors[at] @ np.swapaxes(factors[at], 1, 2), matrices[at], atol=1e-13)
    np.testing.assert_array_equal(factors[[1, 3]], np.broadcast_to(np.eye(3), (2, 2, 3, 3)))


@pytest.mark.parametrize(
    "wrong", [1e-16 * np.eye(2), np.diag([1.0, 0.0]), np.full((2, 2), np.nan), np.full((2, 2), np.inf), np.ones((2, 2))]
)
def test_clusters_whose_covariance_is_rounding_are_found(wrong) -> None:
    # Variances are in units of the rows' own. Thousands of times below, a cluster's is one all the same.
    good = np.stack([np.eye(2), 1e-8 * np.eye(2), [[1.0, 0.9], [0.9, 1.0]]])
    bad = np.stack([good[0], wrong, good[2]])
    assert unsound_clusters(good, diagonal=False) == []
    assert unsound_clusters(bad, diagonal=False) == [1]
    with np.errstate(invalid="ignore"):
        assert are_definite(np.stack([good, bad, good]), diagonal=False).tolist() == [True, False, True]
    short = np.stack([np.diag(one) for one in bad])
    if not np.array_equal(wrong, np.ones((2, 2))):
        assert unsound_clusters(short, diagonal=True) == [1]
        assert are_definite(short[None], diagonal=True).tolist() == [False]


# Focal sets ------------------------------------------------------------------------------------------------------

ONE_SET_PER_CLUSTER = [{0}, {0, 1}, {2}, {3}]


@pytest.mark.parametrize("name", ["full", "pairs", "simple", "singletons", ONE_SET_PER_CLUSTER], ids=str)
@pytest.mark.parametrize("kind", ["linear", "linear diagonal", "diagonal", "full"])
def test_focal_sets_are_gaussians_with_averaged_natural_parameters(rng, name, kind) -> None:
    focal = FocalSets.of(name, 4)
    means = rng.normal(size=(2, 4, 3)) * 3
    shared, diagonal = kind.startswith("linear"), kind.endswith("diagonal")
    covariances = np.array([[wishart(rng, 3) for _ in range(1 if shared else 4)] for _ in range(2)])
    if diagonal:
        covariances = covariances * np.eye(3)
    compact = np.einsum("bkdd->bkd", covariances) if diagonal else covariances
    params = Parameters(rng.dirichlet(np.ones(len(focal)), size=2), means, compact)
    kind = kind.split()[0]
    model, gaussians, is_definite = components(params, focal.shares, kind)
    assert is_definite.all()
    assert (gaussians is None) is shared
    x = rng.normal(size=3)
    for b in range(2):
        own = covariances[b, 0] if shared else covariances[b]
        truth = oracles.Mixture(list(focal), params.weights[b], means[b], own)
        for j, members in enumerate(focal):
            mean, covariance = truth.component(j)
            if not shared:
                np.testing.assert_allclose(gaussians.means[b, j], mean, atol=1e-12)
                found = gaussians.covariances[b, j]
                np.testing.assert_allclose(np.diag(found) if diagonal else found, covariance, atol=1e-12)
                half = 0.5 * np.linalg.slogdet(covariance)[1]
                assert gaussians.log_roots[b, j] == pytest.approx(half, abs=1e-12)
            # log N_j = kappa_j + the members' average log-density, the identity every E-step is built on.
            logs = [multivariate_normal(means[b, k], own if shared else own[k]).logpdf(x) for k in members]
            constant = model.log_weights[b, j] - np.log(params.weights[b, j])
            want = multivariate_normal(mean, covariance).logpdf(x)
            assert constant + np.mean(logs) == pytest.approx(want, abs=1e-10)


def test_a_set_without_weight_is_impossible_not_an_error() -> None:
    shares = FocalSets.full(2).shares
    params = Parameters(np.array([[0.5, 0.5, 0.0]]), np.eye(2)[None], np.eye(2)[None, None])
    model = components(params, shares, "linear").components
    assert model.log_weights[0, 2] == -np.inf
    assert np.isfinite(model.log_weights[0, :2]).all()


def test_fits_without_a_covariance_are_told_and_others_do_not_suffer(rng) -> None:
    shares, covariances = FocalSets.full(2).shares, np.array([[wishart(rng, 2)] * 2] * 3)
    covariances[1, 0] = np.ones((2, 2))
    params = Parameters(np.full((3, 3), 1 / 3), rng.normal(size=(3, 2, 2)), covariances)
    evaluated = components(params, shares, "full")
    assert evaluated.is_definite.tolist() == [True, False, True]
    alone = components(take(params, np.array([2])), shares, "full")
    for mine, other in zip(take(evaluated.components, np.array([2])), alone.components, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_which_sets_are_clusters() -> None:
    assert is_single(FocalSets.full(2).shares).tolist() == [True, True, False]
    assert is_identity(np.eye(3))
    assert not is_identity(np.eye(3)[[1, 0, 2]])
    assert not is_identity(FocalSets.full(2).shares)
    assert not is_identity(np.array([[1.0, 0.0], [0.5, 0.5]]))


def test_with_one_covariance_focal_means_are_averages(rng) -> None:
    # Equal covariances of their own are the paper's model.
    shares, means = FocalSets.full(3).shares, rng.normal(size=(1, 3, 2))
    params = Parameters(np.full((1, 7), 1 / 7), means, np.array([[wishart(rng, 2)] * 3]))
    params = params._replace(covariances=np.broadcast_to(params.covariances[:, :1], (1, 3, 2, 2)))
    factors, log_roots, _ = precision_factors(params.covariances, diagonal=False)
    focal, _ = focal_gaussians(params, factors, log_roots, shares)
    np.testing.assert_allclose(focal.means[0], shares @ means[0], atol=1e-12)
    np.testing.assert_allclose(focal.covariances[0], np.broadcast_to(params.covariances[0, 0], (7, 2, 2)), atol=1e-12)


# Records of a batch ----------------------------------------------------------------------------------------------


def test_entries_of_some_fits_are_taken_and_put_back(rng) -> None:
    params = Parameters(rng.random((4, 3)), rng.random((4, 2, 2)), rng.random((4, 2, 2)))
    evaluated = components(params, FocalSets.full(2).shares, "diagonal")._replace(focal=params)
    kept = copied(evaluated)
    some = take(evaluated, np.array([3, 1]))
    np.testing.assert_array_equal(some.components.theta, evaluated.components.theta[[3, 1]])
    np.testing.assert_array_equal(some.focal.means, params.means[[3, 1]])
    put(evaluated, np.array([1, 3]), some)
    np.testing.assert_array_equal(params.means[[1, 3]], kept.focal.means[[3, 1]])
    np.testing.assert_array_equal(params.means[[0, 2]], kept.focal.means[[0, 2]])
    np.testing.assert_array_equal(take(params, params.weights[:, 0] < 2).means, params.means)


def test_factors_of_a_batch_are_those_of_each_fit(rng) -> None:
    roots = rng.normal(size=(9, 2, 3, 3))
    matrices = roots @ np.swapaxes(roots, -1, -2) + np.eye(3)
    for at in (0, 4, 8):
        matrices[at, 1] -= 100 * np.eye(3)
    is_usable = np.arange(9) != 2
    lower, is_definite = safe_cholesky(matrices, is_usable)
    np.testing.assert_array_equal(np.flatnonzero(~is_definite), [0, 2, 4, 8])
    for at in range(9):
        expected = np.linalg.cholesky(matrices[at]) if is_definite[at] else np.broadcast_to(np.eye(3), (2, 3, 3))
        np.testing.assert_array_equal(lower[at], expected)
