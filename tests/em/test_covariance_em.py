"""EM with the fourteen models: monotone, equivariant, with priors, and clear where a cluster degenerates."""

import numpy as np
import pytest
from scipy.stats import special_ortho_group

from egmm.belief.focal import FocalSets
from egmm.em.covariance import MODELS, SHARED, is_diagonal
from egmm.em.parameters import NotPositiveDefiniteError, Parameters, components, take
from egmm.em.prior import Prior, log_prior, make_prior, prior_terms
from egmm.em.statistics import Moments, Units, moments, products
from em import oracles_covariance as oracles
from em.covariance_cases import fit, random_scatters, solve
from em.problems import after_em, found_of, groups_of, problem_of, start_of

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
    assert oracles.belongs(model, run.params.covariances)
    _, likelihood = oracles.masses(blobs[0], list(FocalSets.of(family, 3)), *run.params)
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
    units, diagonal = Units(np.zeros(3), np.array([0.5, 2.0, 1.0])), is_diagonal(model)
    ours, theirs, none = [], [], []
    for _ in range(2):
        covariances = solve(model, np.full(4, 9.0), random_scatters(rng, 4, 3) / 3)
        means = rng.normal(size=(4, 3))
        own = covariances[:1] if model in SHARED else covariances
        own = units.covariances_in(np.einsum("kdd->kd", own) if diagonal else own, diagonal=diagonal)
        params = Parameters(np.ones((1, 1)), (means / units.scale)[None], own[None])
        kind = "linear" if model in SHARED else "diagonal" if diagonal else "full"
        parts = components(params, np.full((1, 4), 0.25), kind).components
        ours.append(log_prior(params, parts, prior_terms(prior, 4, model, units))[0])
        none.append(log_prior(params, parts, prior_terms(None, 4, model, units))[0])
        theirs.append(oracles.log_prior(model, *prior, means, covariances))
    # inverse gamma and inverse Wishart densities are of variances, ours too: only constants differ
    assert ours[1] - ours[0] == pytest.approx(theirs[1] - theirs[0], rel=1e-10)
    assert none == [0.0, 0.0]


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
    problem = problem_of(X, "singletons", 3, model, ridge, prior=prior._replace(mean=prior.mean - X.mean(axis=0)))
    means = np.array([(g.sum(axis=0) + prior.kappa * prior.mean) / (len(g) + prior.kappa) for g in groups])
    T = []
    for g in groups:
        gap, share = g.mean(axis=0) - prior.mean, prior.kappa * len(g) / (prior.kappa + len(g))
        # A ridge is as much more scatter per row; the prior's rows have none.
        T.append(np.cov(g.T, bias=True) * len(g) + share * np.outer(gap, gap) + len(g) * ridge * np.eye(3))
    expected = PUBLISHED[model](np.array(T), n, prior.degrees, prior.scale)
    if model in SHARED:
        expected = np.stack([expected] * 3)
    groups, problem_start = groups_of(problem, labels), start_of(problem, labels)
    # The statistics of hard groups as those of rows that are sure.
    ridged = groups.moments.seconds
    if model not in SHARED:
        first, second = products(3, problem.layout.kind)
        more = np.where(first == second, problem.settings.ridge[0, first], 0.0)
        ridged = ridged + groups.moments.counts[..., None] * more
    step, is_proper = problem.maximise(groups.moments._replace(seconds=ridged).vector(problem.layout), problem_start)
    assert is_proper.all()
    found = [step] if model == "EEE" else [step, problem_start]  # The start of EEE is the authors'.
    for params in found:
        got = found_of(problem, params)
        np.testing.assert_allclose(got.covariances, expected, rtol=1e-9, atol=1e-12)
        if params is step or model not in SHARED:
            np.testing.assert_allclose(got.means, means, rtol=1e-10)


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


FEW = [("VVV", 3), ("EVV", 3), ("VVI", 1), ("EVI", 1), ("VII", 1), ("VEI", 1), ("VEE", 1), ("VEV", 1)]


def few(blobs, n_rows):
    return blobs[0][: 80 + n_rows], blobs[1][: 80 + n_rows]


@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize(("model", "n_rows"), FEW)
def test_too_few_rows_are_an_error_with_a_way_out(blobs, model, n_rows, family):
    message = rf"{model} covariance of cluster.* 3 \(.* rows\).*prior='default'.*reg_covar.*simpler"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        fit(*few(blobs, n_rows), family, model)
    run = fit(*few(blobs, n_rows), family, model, prior="default", max_iter=20)
    assert np.isfinite(run.objectives).all()
    assert np.diff(run.objectives).min() > -1e-9


@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize(("model", "n_rows"), FEW)
def test_too_few_rows_name_the_cluster(blobs, model, n_rows, family):
    message = rf"{model} covariance of (cluster|clusters .*,) 3 \({n_rows} rows\)"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        fit(*few(blobs, n_rows), family, model)


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
    own = rf"{model} covariance of clusters 1 .*, 2 .*, 3 \(.* rows\)"
    message = "covariance is not positive definite at iteration 0" if model in SHARED else own
    with pytest.raises(NotPositiveDefiniteError, match=message):
        fit(X, labels, family, model)


def test_collapse_during_em_is_an_error_and_never_nan(blobs):
    X, labels = blobs[0].copy(), blobs[1].copy()
    # Five rows nearly on a plane: the likelihood grows without bound.
    X[:5, 0] = 10.0 + 1e-7 * np.arange(5)
    labels[:5] = 0
    labels[5:40] = 1
    for family in ("pairs", "singletons"):
        with pytest.raises(
            NotPositiveDefiniteError, match=r"VVV covariance of cluster.* 1 .* is not positive definite"
        ):
            fit(np.where(np.arange(120)[:, None] < 5, X.round(3), X), labels, family, "VVV")


@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize("model", ["VVI", "VVV"])
def test_a_cluster_without_rows_has_no_step_and_others_of_the_batch_have(blobs, family, model):
    problem = problem_of(*blobs[:1], family, 3, model).take(np.zeros(2, dtype=int))
    points = after_em(problem_of(*blobs[:1], family, 3, model), blobs[1], 1)
    params = take(points[-1].params, np.zeros(2, dtype=int))
    params.weights[1, problem.layout.shares[:, 2] > 0] = 0.0
    params.weights[1] /= params.weights[1].sum()
    _, is_proper = problem.maximise(problem.evaluate(params).vector, params)
    assert is_proper.tolist() == [True, False]


# Ridge and start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["VVV", "VVI"])
def test_ridge_enters_as_variance(blobs, model):
    X, labels = blobs
    ridge = np.array([0.1, 0.0, 2.0])
    found = []
    for each in (np.zeros(3), ridge):
        problem = problem_of(X, "full", 3, model, each)
        found.append(found_of(problem, start_of(problem, labels)))
    difference = found[1].covariances - found[0].covariances
    np.testing.assert_allclose(difference, np.stack([np.diag(ridge)] * 3), atol=1e-12)
    np.testing.assert_allclose(found[1].weights, np.full(7, 1 / 7))


@pytest.mark.parametrize("model", [model for model in MODELS if model != "EEE"])
def test_start_about_given_means_keeps_them(blobs, model):
    X, labels = blobs
    means = 1.5 * np.eye(3)
    problem = problem_of(X, "singletons", 3, model)
    start = found_of(problem, start_of(problem, labels, means))
    about = np.array([(X[labels == k] - means[k]).T @ (X[labels == k] - means[k]) for k in range(3)])
    expected = solve(model, np.full(3, 40.0), about, n_steps=1)
    np.testing.assert_allclose(start.means, means, atol=1e-14)
    np.testing.assert_allclose(start.covariances, expected, rtol=1e-8, atol=1e-12)
