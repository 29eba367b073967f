"""The prior of the weights that favours single clusters."""

import numpy as np
import pytest
from scipy.optimize import minimize

from egmm import EGMM, FocalSets, select_model
from egmm.datasets import make_four_class
from egmm.em.prior import log_certainty, n_weighted, set_weights
from em.problems import after_em, ascend, problem_of

BETWEEN = FocalSets.pairs(3).shares


@pytest.fixture
def data(rng):
    X = np.concatenate([rng.normal(mean, 1, (80, 2)) for mean in ([0, 0], [3, 0], [1, 3])])
    return X, np.repeat([0, 1, 2], 80)


@pytest.mark.parametrize("certainty", [0.0, 0.3, 5.0])
def test_weights_maximise_counts_and_prior(rng, certainty) -> None:
    counts = rng.uniform(1, 50, size=len(BETWEEN))
    is_single = (BETWEEN > 0).sum(axis=1) == 1

    def loss(logits):
        weights = np.exp(logits - np.logaddexp.reduce(logits))
        return -(counts @ np.log(weights)) - certainty * counts.sum() * np.log(weights[is_single].sum())

    found = minimize(loss, np.zeros(len(counts)), tol=1e-12).x
    best = np.exp(found - np.logaddexp.reduce(found))
    np.testing.assert_allclose(set_weights(counts, BETWEEN, certainty), best, atol=1e-5)


@pytest.mark.parametrize("shares", [np.eye(3), np.full((1, 3), 1 / 3)])
def test_where_sets_are_all_single_or_none_is_it_says_nothing(shares) -> None:
    counts = np.arange(1.0, len(shares) + 1)
    np.testing.assert_allclose(set_weights(counts, shares, 2.0), counts / counts.sum(), rtol=1e-15)
    assert log_certainty(counts / counts.sum(), shares) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VEV", "VVV"])
@pytest.mark.parametrize("family", ["pairs", "full"])
def test_em_never_lowers_the_posterior(data, covariance, family) -> None:
    problem = problem_of(data[0], family, covariance=covariance, certainty=0.5)
    for accelerate in (False, True):
        objectives = ascend(problem, data[1], tol=-1.0, max_iter=60, accelerate=accelerate).objectives
        assert np.diff(objectives).min() > -1e-9


def test_the_objective_is_the_posterior(data) -> None:
    problem = problem_of(data[0], "pairs", certainty=0.5)
    point = after_em(problem, data[1], 3)[-1]
    on_single = point.params.weights[0, (problem.layout.shares > 0).sum(axis=1) == 1].sum()
    want = point.log_likelihood[0] + 0.5 * 240 * np.log(on_single)
    assert point.objective[0] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
def test_acceleration_climbs_as_high_as_em(data, covariance) -> None:
    problem = problem_of(data[0], "pairs", covariance=covariance, certainty=0.1)
    plain, fast = (
        ascend(problem, data[1], tol=1e-9, accelerate=accelerate, max_iter=20_000) for accelerate in (False, True)
    )
    assert fast.objectives[-1] > plain.objectives[-1] - 1e-4
    assert fast.passes[-1] < plain.passes[-1]


def test_more_certainty_more_weight_on_single_clusters(data) -> None:
    X, labels = data
    shares = []
    for certainty in (0.0, 0.1, 1.0):
        model = EGMM(3, init=labels, certainty=certainty).fit(X)
        shares.append(model.weights_[(model.focal_sets_.shares > 0).sum(axis=1) == 1].sum())
    assert np.diff(shares).min() > -1e-5
    assert shares[2] > shares[0] + 0.05
    single = EGMM(3, init=labels, focal_sets="singletons", tol=1e-14)
    means = [single.set_params(certainty=certainty).fit(X).means_ for certainty in (9.0, 0.0)]
    np.testing.assert_allclose(*means, atol=1e-5)


def test_meta_clusters_left_without_weight_are_no_parameters(rng) -> None:
    # Far apart, no pair has rows; a fourth group between the first two is the pair's, whatever the prior.
    far = np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in ([0, 0], [40, 0], [20, 60])])
    labels = np.repeat([0, 1, 2], 60)
    between = np.concatenate([far, rng.normal([20, 0], 1, (60, 2))])
    own = 3 * 2 + 3
    for X, start, n_sets in ((far, labels, 3), (between, np.append(labels, np.tile([0, 1], 30)), 4)):
        model = EGMM(3, init=start, certainty=0.3).fit(X)
        assert model.n_parameters_ == n_sets - 1 + own
        expected = model.log_likelihood_ - 0.5 * model.n_parameters_ * np.log(len(X))
        assert model.ebic_ == pytest.approx(expected, rel=1e-12)
        assert model.ebic(X) == pytest.approx(expected, rel=1e-9)
        # The paper's model counts every set.
        assert EGMM(3, init=start).fit(X).n_parameters_ == len(BETWEEN) - 1 + own


def test_a_row_s_weight_makes_a_set_a_parameter() -> None:
    weights = np.array([0.5, 0.25, 0.0, 0.0, 0.125, 0.125, 0.0])
    assert n_weighted(weights, BETWEEN, 0.3, n_rows=8) == 3 + 2
    assert n_weighted(weights, BETWEEN, 0.3, n_rows=7) == 3
    assert n_weighted(weights, BETWEEN, 0.0, n_rows=7) == 7


def test_four_overlapping_clusters_are_counted() -> None:
    # With every pair counted, two clusters of another shape would be chosen here.
    X, _ = make_four_class(random_state=1)
    assert select_model(X, range(2, 6), ["EII", "EEI"], random_state=0, n_jobs=1).n_clusters == 4


def test_a_negative_certainty_is_refused(data) -> None:
    with pytest.raises(ValueError, match="certainty must be"):
        EGMM(3, certainty=-0.1).fit(data[0])
