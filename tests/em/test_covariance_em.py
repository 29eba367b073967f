"""EM with the fourteen models: monotone, equivariant, with priors, and clear where a cluster degenerates."""

import numpy as np
import pytest
from scipy.stats import special_ortho_group
from sklearn.exceptions import ConvergenceWarning

from egmm.belief.focal import FocalSets
from egmm.em.covariance import MODELS, SHARED, is_diagonal
from egmm.em.mstep import m_step, start_from_groups
from egmm.em.parameters import NotPositiveDefiniteError, Parameters
from egmm.em.prior import Prior, log_prior, make_prior
from egmm.em.statistics import Moments, Statistics, moments
from em import oracles_covariance as oracles
from em.covariance_cases import fit, group_statistics, random_scatters, solve

# By nature: shapes and orientations apart do not survive the rescaling of one feature.
NOT_RESCALED = ("EII", "VII", "EVE", "VVE", "EEV", "VEV")


@pytest.fixture
def blobs(rng):
    """Three overlapping clusters of different shapes, 40 rows each, and their labels."""
    shapes = random_scatters(rng, 3, 3) / 20
    rows = [rng.multivariate_normal(2.0 * np.eye(3)[k], shapes[k], size=40) for k in range(3)]
    return np.concatenate(rows), np.repeat([0, 1, 2], 40)


# Monotone ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, "default"])
@pytest.mark.parametrize("family", ["full", "pairs", "singletons"])
@pytest.mark.parametrize("model", MODELS)
def test_em_never_lowers_the_posterior(blobs, model, family, prior):
    run = fit(*blobs, family, model, prior=prior, max_iter=25)
    assert len(run.objectives) > 10
    assert np.diff(run.objectives).min() > -1e-9
    covariances = np.broadcast_to(run.params.covariances, (3, 3, 3))
    assert oracles.belongs(model, covariances)
    X, sets = blobs[0] - blobs[0].mean(axis=0), list(FocalSets.of(family, 3))
    _, likelihood = oracles.masses(X, sets, run.params.weights, run.params.means, covariances)
    assert run.log_likelihood == pytest.approx(likelihood, rel=1e-10)


# Equivariance ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, "default"])
@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize("model", [model for model in MODELS if model not in NOT_RESCALED])
def test_rescaling_a_feature_rescales_nothing_else(blobs, model, family, prior):
    X, labels = blobs
    scales = np.array([1.0, 1e-4, 300.0])
    run, scaled = (fit(rows, labels, family, model, prior=prior, max_iter=12) for rows in (X, X * scales))
    np.testing.assert_allclose(scaled.params.weights, run.params.weights, atol=1e-7)
    np.testing.assert_allclose(scaled.params.means / scales, run.params.means, atol=1e-6)
    np.testing.assert_allclose(scaled.params.covariances / np.outer(scales, scales), run.params.covariances, atol=1e-6)


@pytest.mark.parametrize("prior", [None, "default"])
@pytest.mark.parametrize("model", NOT_RESCALED)
def test_turning_and_scaling_the_whole_changes_nothing_else(blobs, model, prior):
    X, labels = blobs
    turn = 40.0 * special_ortho_group.rvs(3, random_state=1)
    run, turned = (fit(rows, labels, "pairs", model, prior=prior, max_iter=12) for rows in (X, X @ turn.T))
    # VII is read along the features, which a turn changes: its steps differ a little on the way.
    np.testing.assert_allclose(turned.params.weights, run.params.weights, atol=1e-5 if model == "VII" else 1e-7)
    np.testing.assert_allclose(turned.params.means @ turn / 1600, run.params.means, atol=1e-4)


# Prior -------------------------------------------------------------------------------------------------------


def prior_for(model, dim=3):
    scale = {2: np.array(0.7), 1: np.linspace(0.5, 1.5, dim), 0: np.eye(dim) + 0.2}[
        2 if model.endswith("II") else int(is_diagonal(model))
    ]
    return Prior(0.3, np.linspace(-1, 1, dim), dim + 1.5, scale)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kappa", [0.3, 0.0])
def test_log_prior_is_that_of_its_distributions(rng, model, kappa):
    prior = prior_for(model)._replace(kappa=kappa)
    ours, theirs = [], []
    for _ in range(2):
        covariances = solve(model, np.full(4, 9.0), random_scatters(rng, 4, 3) / 3)
        means = rng.normal(size=(4, 3))
        params = Parameters(np.ones(1), means, covariances[0] if model in SHARED else covariances)
        ours.append(log_prior(params, prior, model))
        theirs.append(oracles.log_prior(model, *prior, means, covariances))
    # inverse gamma and inverse Wishart densities are of variances, ours too: only constants differ
    assert ours[1] - ours[0] == pytest.approx(theirs[1] - theirs[0], rel=1e-10)
    assert log_prior(params, None, model) == 0.0


# Fraley and Raftery (2007), table 2 as corrected in 2009: numerator and denominator for n_k rows with scatter W_k, in G
# clusters of D features; T_k = W_k + kappa n_k / (kappa + n_k) (mean_k - mu0)(mean_k - mu0)'.
PUBLISHED = {
    "EII": lambda T, n, nu, scale: (scale + np.trace(T.sum(axis=0))) / (nu + (n.sum() + len(n)) * 3 + 2) * np.eye(3),
    "VII": lambda T, n, nu, scale: np.array(
        [(scale + np.trace(t)) / (nu + (m + 1) * 3 + 2) * np.eye(3) for t, m in zip(T, n, strict=True)]
    ),
    "EEI": lambda T, n, nu, scale: np.diag((scale + np.diag(T.sum(axis=0))) / (nu + n.sum() + len(n) + 2)),
    "VVI": lambda T, n, nu, scale: np.array(
        [np.diag((scale + np.diag(t)) / (nu + m + 3)) for t, m in zip(T, n, strict=True)]
    ),
    "EEE": lambda T, n, nu, scale: (scale + T.sum(axis=0)) / (nu + n.sum() + len(n) + 3 + 1),
    "VVV": lambda T, n, nu, scale: np.array([(scale + t) / (nu + m + 3 + 2) for t, m in zip(T, n, strict=True)]),
}


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("model", PUBLISHED)
def test_singletons_have_the_published_posterior_mode(blobs, model, ridge):
    X, labels = blobs
    X, prior = X - X.mean(axis=0), prior_for(model)
    groups = [X[labels == k][: 10 + 5 * k] for k in range(3)]
    X, labels = np.concatenate(groups), np.repeat([0, 1, 2], [10, 15, 20])
    n = np.array([10.0, 15.0, 20.0])
    total = Moments(45.0, np.zeros(3), X.T @ X)
    statistics = group_statistics(X, labels, 3, is_diagonal(model))
    means = np.array([(g.sum(axis=0) + prior.kappa * prior.mean) / (len(g) + prior.kappa) for g in groups])
    T = []
    for g in groups:
        gap, share = g.mean(axis=0) - prior.mean, prior.kappa * len(g) / (prior.kappa + len(g))
        # A ridge is as much more scatter per row; the prior's rows have none.
        T.append(np.cov(g.T, bias=True) * len(g) + share * np.outer(gap, gap) + len(g) * ridge * np.eye(3))
    expected = PUBLISHED[model](np.array(T), n, prior.degrees, prior.scale)
    start = start_from_groups(statistics, total, 3, model, np.full(3, ridge), prior)
    step = m_step(statistics, total, np.eye(3), start, model, np.full(3, ridge), prior)
    for params in (start, step):
        np.testing.assert_allclose(params.means, means, rtol=1e-10)
        np.testing.assert_allclose(params.covariances, expected, rtol=1e-9, atol=1e-12)


def test_default_hyperparameters(rng):
    X = rng.normal(size=(30, 3)) * [1.0, 3.0, 0.5] + [5.0, -2.0, 0.0]
    total = moments(X, None)
    full = make_prior("default", total, 8, "VEV")
    assert (full.kappa, full.degrees) == (0.01, 5.0)
    np.testing.assert_allclose(full.mean, 0.0)
    # 8 clusters of 3 features: the variance over 8^(2/3).
    np.testing.assert_allclose(full.scale, np.cov(X.T) / 4)
    np.testing.assert_allclose(make_prior("default", total, 8, "VEI").scale, X.var(axis=0, ddof=1) / 4)
    np.testing.assert_allclose(make_prior("default", total, 8, "VII").scale, X.var(axis=0, ddof=1).mean() / 4)


def test_given_hyperparameters_are_in_the_units_of_the_rows(rng):
    total = moments(rng.normal(size=(30, 2)) + 7.0, None)
    prior = make_prior({"mean": [7.0, 8.0], "degrees": 9}, total, 2, "VVV")
    np.testing.assert_allclose(prior.mean, [7.0, 8.0] - total.centre)
    assert prior.degrees == 9.0
    assert make_prior(None, total, 2, "VVV") is None


@pytest.mark.parametrize(
    ("prior", "error", "message"),
    [
        ("none", ValueError, r"prior must be one of 'default'; got 'none'"),
        (3, TypeError, r"prior must be None, 'default' or a mapping of hyperparameters, got 3"),
        (Prior(0.1, np.zeros(2), 4.0, np.eye(2)), TypeError, r"must be None, 'default' or a mapping .* got Prior\("),
        ({"nu": 3}, ValueError, r"a hyperparameter of prior must be one of 'kappa', .* got 'nu'"),
        ({"kappa": -1}, ValueError, r"prior\['kappa'\] must be a finite number in \[0, inf\], got -1"),
        ({"degrees": 0}, ValueError, r"prior\['degrees'\] must be a finite number in \(0, inf\], got 0"),
        ({"mean": [1.0]}, ValueError, r"prior\['mean'\] must have shape \(2,\), got \(1,\)"),
        ({"scale": [1.0, 2.0]}, ValueError, r"prior\['scale'\] must have shape \(2, 2\), got \(2,\)"),
    ],
)
def test_wrong_hyperparameters_are_named(prior, error, message):
    with pytest.raises(error, match=message):
        make_prior(prior, Moments(9.0, np.zeros(2), np.eye(2)), 2, "VVV")


@pytest.mark.parametrize(
    ("model", "scale", "message"),
    [
        ("EVE", [[1.0, 200.0], [3.0, 4.0]], r"must be symmetric positive definite, got \[\[ *1. 200.\]"),
        ("VEV", [[4.0, 1.0], [0.0, 4.0]], "must be symmetric positive definite"),
        ("EEE", -np.eye(2), "must be symmetric positive definite"),
        ("VVV", [[1.0, 2.0], [2.0, 4.0]], "must be symmetric positive definite"),
        ("VVV", np.diag([1.0, 0.0]), "must be symmetric positive definite"),
        ("VVI", [1.0, -1.0], r"must be positive, got \[ 1. -1.\]"),
        ("EEI", [0.0, 1.0], "must be positive"),
        ("VII", -2.0, "must be positive, got -2"),
        ("EII", 0.0, "must be positive"),
    ],
)
def test_a_scale_is_a_covariance(model, scale, message):
    with pytest.raises(ValueError, match=rf"prior\['scale'\] {message}"):
        make_prior({"scale": scale}, Moments(9.0, np.zeros(2), np.eye(2)), 2, model)


def test_a_scale_may_be_in_any_units_and_rounded():
    moments_of_two = Moments(9.0, np.zeros(2), np.eye(2))
    scale = np.array([[1.0, 2e-9], [2e-9 * (1 + 1e-12), 9e-18]])
    assert make_prior({"scale": scale}, moments_of_two, 2, "VVV").scale is scale
    assert make_prior({"scale": [1e-30, 1e30]}, moments_of_two, 2, "VVI").scale.tolist() == [1e-30, 1e30]


# Degenerate clusters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize(
    ("model", "n_rows"),
    [("VVV", 3), ("EVV", 3), ("VVI", 1), ("EVI", 1), ("VII", 1), ("VEI", 1), ("VEE", 1), ("VEV", 1)],
)
def test_too_few_rows_name_the_cluster_and_the_way_out(blobs, model, n_rows, family):
    X, labels = blobs[0][: 80 + n_rows], blobs[1][: 80 + n_rows]
    message = rf"{model} covariance of (cluster|clusters .*,) 3 \({n_rows} rows\).*prior='default'.*reg_covar.*simpler"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        fit(X, labels, family, model)
    run = fit(X, labels, family, model, prior="default", max_iter=20)
    assert np.isfinite(run.objectives).all()
    assert np.diff(run.objectives).min() > -1e-9


@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize("model", ["VVV", "EVV", "VVI", "EVI"])
def test_flat_directions_name_the_cluster(blobs, model, family):
    X, labels = blobs[0].copy(), blobs[1]
    X[labels == 1, 2] = 0.5
    with pytest.raises(NotPositiveDefiniteError, match=rf"{model} covariance of cluster .*2 \(40 rows\)"):
        fit(X, labels, family, model)


@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize("model", [model for model in MODELS if not model.endswith("II")])
def test_a_constant_feature_is_everyone_s(blobs, model, family):
    X, labels = blobs[0].copy(), blobs[1]
    X[:, 2] = 0.5
    with pytest.raises(NotPositiveDefiniteError, match=rf"{model} covariance of clusters 1 .*, 2 .*, 3 \(40 rows\)"):
        fit(X, labels, family, model)


def test_collapse_during_em_is_an_error_and_never_nan(blobs):
    X, labels = blobs[0].copy(), blobs[1].copy()
    # Five rows nearly on a plane: the likelihood grows without bound.
    X[:5, 0] = 10.0 + 1e-7 * np.arange(5)
    labels[:5] = 0
    labels[5:40] = 1
    for family in ("pairs", "singletons"):
        with pytest.raises(NotPositiveDefiniteError, match=r"VVV covariance of cluster 1 "):
            fit(np.where(np.arange(120)[:, None] < 5, X.round(3), X), labels, family, "VVV")


@pytest.mark.parametrize("family", ["pairs", "singletons"])
def test_clusters_without_rows_are_named(family):
    shares = FocalSets.of(family, 2).shares
    counts = np.where(shares[:, 1] > 0, 0.0, 10.0)
    statistics = Statistics(counts, np.zeros((2, 2)), np.array([np.eye(2) * 10, np.zeros((2, 2))]), 0.0)
    params = Parameters(np.full(len(shares), 1 / len(shares)), np.zeros((2, 2)), np.stack([np.eye(2)] * 2))
    with pytest.raises(NotPositiveDefiniteError, match=r"cluster 2 has no rows left for its VVV covariance; use fewer"):
        m_step(statistics, Moments(10.0, np.zeros(2), np.eye(2) * 10), shares, params, "VVV", np.zeros(2))


@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize("model", ["VVI", "VVV"])
@pytest.mark.parametrize("left", [0.0, 1e-20])
def test_a_prior_that_leaves_means_alone_leaves_that_of_a_cluster_without_rows(family, model, left):
    shares = FocalSets.of(family, 2).shares
    counts = np.where(shares[:, 1] > 0, left, 10.0)
    scatters = np.array([[10.0, 10.0], [0.0, 0.0]]) if model == "VVI" else np.array([np.eye(2) * 10, np.zeros((2, 2))])
    statistics = Statistics(counts, np.zeros((2, 2)), scatters, 0.0)
    params = Parameters(np.full(len(shares), 1 / len(shares)), np.full((2, 2), 7.0), np.stack([np.eye(2)] * 2))
    total = Moments(10.0, np.zeros(2), np.eye(2) * 10)
    prior = make_prior({"kappa": 0}, total, 2, model)
    with pytest.warns(ConvergenceWarning, match="cluster 2 has no mass of its own left and keeps its mean"):
        got = m_step(statistics, total, shares, params, model, np.zeros(2), prior)
    np.testing.assert_allclose(got.means, [[0.0, 0.0], [7.0, 7.0]], atol=1e-12)


def test_a_step_to_a_singular_covariance_names_the_cluster():
    scatters = np.array([np.eye(2), np.ones((2, 2))]) * 10
    statistics = Statistics(np.full(2, 10.0), np.zeros((2, 2)), scatters, 0.0)
    params = Parameters(np.full(2, 0.5), np.zeros((2, 2)), np.stack([np.eye(2)] * 2))
    with pytest.raises(NotPositiveDefiniteError, match=r"the VVV covariance of cluster 2 \(10 rows\) is not positive"):
        m_step(statistics, Moments(20.0, np.zeros(2), scatters.sum(axis=0)), np.eye(2), params, "VVV", np.zeros(2))


def test_own_covariances_need_second_moments():
    params = Parameters(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    statistics = Statistics(np.ones(1), np.zeros((1, 1)), None, 0.0)
    with pytest.raises(ValueError, match="covariance='VII' needs second moments per cluster"):
        m_step(statistics, Moments(1.0, np.zeros(1), np.eye(1)), np.eye(1), params, "VII", np.zeros(1))


# Ridge and start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["VVV", "VVI"])
def test_ridge_enters_as_variance(blobs, model):
    X, labels = blobs
    X = X - X.mean(axis=0)
    groups, total = group_statistics(X, labels, 3, is_diagonal(model)), moments(X, None)
    ridge = np.array([0.1, 0.0, 2.0])
    plain, ridged = (start_from_groups(groups, total, 7, model, r, None) for r in (np.zeros(3), ridge))
    np.testing.assert_allclose(ridged.covariances - plain.covariances, np.stack([np.diag(ridge)] * 3), atol=1e-12)
    np.testing.assert_allclose(ridged.weights, np.full(7, 1 / 7))


@pytest.mark.parametrize("model", MODELS)
def test_start_about_given_means_keeps_them(blobs, model):
    X, labels = blobs
    X, means = X - X.mean(axis=0), 1.5 * np.eye(3)
    groups = group_statistics(X, labels, 3, is_diagonal(model))
    start = start_from_groups(groups, moments(X, None), 3, model, np.zeros(3), means=means)
    about = np.array([(X[labels == k] - means[k]).T @ (X[labels == k] - means[k]) for k in range(3)])
    expected = solve(model, np.full(3, 40.0), about, n_steps=1)
    np.testing.assert_array_equal(start.means, means)
    np.testing.assert_allclose(start.covariances, expected[0] if model in SHARED else expected, rtol=1e-8, atol=1e-12)
