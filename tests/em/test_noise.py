"""Noise: masses and steps as the definitions say, uniform boxes, and guesses to start from."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from egmm.belief.focal import FocalSets
from egmm.em.covariance import MODELS
from egmm.em.estep import entropy
from egmm.em.noise import Box, bounding_box, likely_clean, with_noise
from egmm.em.parameters import Parameters, is_empty
from egmm.em.sample import Sample
from egmm.em.statistics import Units, moments
from em.oracles_covariance import focal_gaussian
from em.problems import ascend, found_of, problem_of, start_of

LABELS = np.repeat([0, 1, 2, 0], [40, 40, 40, 12])


@pytest.fixture
def X(rng):
    """Three clusters of different shapes, and rows anywhere."""
    shapes = [[1.0, 0.3], [0.6, 1.4], [1.2, 0.7]]
    rows = [rng.normal(4.0 * np.array(at), shape, (40, 2)) for at, shape in zip(np.eye(3)[:, :2], shapes, strict=True)]
    return np.concatenate([*rows, rng.uniform(-9, 12, (12, 2))])


def noisy(X, family, model, **options):
    """A problem with noise and parameters to look at: those of the label start, the empty set with little weight."""
    problem = problem_of(X, family, 3, model, noise=bounding_box(X, options.get("weight")), **options)
    params = start_of(problem, LABELS)
    return problem, params._replace(weights=with_noise(params.weights, is_empty(problem.layout.shares)))


def oracle(X, sets, found):
    """Masses (n, M) by loops and the log-likelihood: the empty set has one over the volume of the box."""
    volume = np.prod([column.max() - column.min() for column in X.T])
    joint = np.empty((len(X), len(sets)))
    for j, members in enumerate(sets):
        if not members:
            joint[:, j] = -np.log(volume)
        else:
            mean, covariance = focal_gaussian(members, found.means, found.covariances)
            joint[:, j] = multivariate_normal(mean, covariance).logpdf(X)
    joint += np.log(found.weights)
    total = logsumexp(joint, axis=1)
    return np.exp(joint - total[:, None]), float(total.sum())


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("model", MODELS)
def test_a_pass_is_that_of_the_definition(X, model, engine):
    problem, params = noisy(X, "full", model, engine=engine)
    evaluation = problem.evaluate(params)
    mass, log_likelihood = oracle(X, list(FocalSets.full(3, empty=True)), found_of(problem, params))
    np.testing.assert_allclose(evaluation.statistics.set_counts[0], mass.sum(axis=0), rtol=1e-10)
    assert evaluation.log_likelihood[0] == pytest.approx(log_likelihood, rel=1e-12)
    own = -np.where(mass > 0, mass * np.log(np.maximum(mass, 1e-300)), 0.0).sum()
    assert entropy(evaluation.statistics, evaluation.model)[0] == pytest.approx(own, rel=1e-8)


@pytest.mark.parametrize("family", ["full", "singletons"])
@pytest.mark.parametrize("model", MODELS)
def test_a_step_is_that_of_rows_as_heavy_as_they_are_no_noise(X, model, family):
    problem, params = noisy(X, family, model, ridge=1e-3)
    evaluation = problem.evaluate(params)
    after, is_proper = problem.maximise(evaluation.vector, params)
    assert is_proper.all()
    mass, _ = oracle(X, list(FocalSets.of(family, 3, empty=True)), found_of(problem, params))
    share = mass[:, 0].mean()
    plain = problem_of(X, family, 3, model, ridge=1e-3, weight=1 - mass[:, 0])
    units, theirs = problem.units, plain.units
    # The same parameters about the weighted rows' centre and in their units.
    means = (params.means * units.scale + units.centre - theirs.centre) / theirs.scale
    ratio = units.scale / theirs.scale
    squares = ratio**2 if params.is_diagonal else np.outer(ratio, ratio)
    rest = params.weights[:, 1:] / params.weights[:, 1:].sum()
    before = Parameters(rest, means, params.covariances * squares)
    wanted = found_of(plain, plain.maximise(plain.evaluate(before).vector, before)[0])
    found = found_of(problem, after)
    np.testing.assert_allclose(found.weights, np.r_[share, (1 - share) * wanted.weights], rtol=1e-9)
    np.testing.assert_allclose(found.means, wanted.means, atol=1e-9)
    np.testing.assert_allclose(found.covariances, wanted.covariances, atol=1e-9)


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("family", ["pairs", "singletons"])
@pytest.mark.parametrize("model", MODELS)
def test_em_never_lowers_the_likelihood(X, model, family, accelerate):
    problem, params = noisy(X, family, model)
    trace = ascend(problem, params, accelerate=accelerate, max_iter=40)
    assert np.diff(trace.objectives).min() > -1e-8
    assert trace.objectives[-1] > trace.objectives[0] + 10


def test_a_row_far_away_is_noise_to_both_engines(X):
    for engine in ("numpy", "numba"):
        problem, params = noisy(np.concatenate([X, [[1e8, -1e8]]])[1:], "pairs", "VVV", engine=engine)
        params = params._replace(covariances=np.broadcast_to(1e-12 * np.eye(2), params.covariances.shape))
        assert problem.evaluate(params).statistics.set_counts[0, 0] > 1


def test_boxes_hold_rows_with_weight_and_add(rng):
    X = rng.normal(size=(20, 3))
    X[4, 1] = np.nan
    box = bounding_box(X[:9], None).plus(bounding_box(X[9:], None))
    np.testing.assert_array_equal(box.lower, np.nanmin(X, axis=0))
    np.testing.assert_array_equal(box.upper, np.nanmax(X, axis=0))
    weight = np.arange(20) % 2.0
    np.testing.assert_array_equal(bounding_box(X, weight).upper, np.nanmax(X[1::2], axis=0))
    nothing = bounding_box(X, np.zeros(20))
    np.testing.assert_array_equal(box.plus(nothing), box)


def test_a_box_has_the_density_of_its_volume_in_any_units():
    box = Box(np.array([0.0, 10.0]), np.array([4.0, 12.0]))
    assert box.log_density(np.ones(2)) == pytest.approx(-np.log(8))
    assert box.log_density(np.array([2.0, 0.5])) == pytest.approx(-np.log(8))
    assert box.log_density(np.array([4.0, 2.0])) == pytest.approx(0.0)
    np.testing.assert_allclose(box.covariance(diagonal=False), np.diag([16 / 12, 4 / 12]))
    np.testing.assert_allclose(box.centre, [2, 11])


def test_rows_far_from_others_are_left_out_at_first(rng):
    X = np.concatenate([rng.normal(0, 1, (300, 2)), rng.normal(9, 1, (300, 2)), rng.uniform(-40, 40, (30, 2))])
    order = np.lexsort(X.T[::-1])
    clean = likely_clean(Sample(X[order], np.ones(630)), Units.of(moments(X, None)))
    kept = {row.tobytes() for row in clean.rows}
    are_kept = np.array([row.tobytes() in kept for row in X])
    assert are_kept[:600].mean() > 0.9
    assert are_kept[600:].mean() < 0.2
    few = Sample(X[:9], np.ones(9))
    assert likely_clean(few, Units.of(moments(X, None))) is few
