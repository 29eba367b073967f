"""What counts as degenerate: clusters of few rows, collapsed covariances, clusters that diverged."""

import numpy as np
import pytest

from egmm.em.parameters import Parameters, take
from egmm.em.soundness import are_degenerate, have_collapsed, have_diverged
from em.problems import after_em, problem_of


@pytest.fixture
def rows(rng):
    return np.concatenate([rng.normal(mean, 1, (40, 2)) for mean in ([0, 0], [6, 0], [0, 6])])


def evaluated(X, labels, covariance="VVV", family="singletons", n_steps=0):
    problem = problem_of(X, family, int(labels.max()) + 1, covariance, 1e-9)
    return problem, after_em(problem, labels, n_steps)[-1]


def test_a_cluster_of_fewer_rows_than_it_needs_is_degenerate(rows) -> None:
    problem, evaluation = evaluated(rows, np.repeat(np.arange(3), 40))
    first = evaluation.params.covariances
    assert not are_degenerate(problem, evaluation, first)[0]
    counts = evaluation.statistics.sums.copy()
    counts[0, 1, 0] = 2.9  # D + 1 = 3
    short = evaluation._replace(statistics=evaluation.statistics._replace(sums=counts))
    assert are_degenerate(problem, short, first)[0]


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
@pytest.mark.parametrize("units", [1e-6, 1.0, 1e7])
def test_a_covariance_that_collapses_is_degenerate_whatever_the_units(rows, units, covariance) -> None:
    X = rows * [1.0, units]
    problem, evaluation = evaluated(X, np.repeat(np.arange(3), 40), covariance)
    params, first = evaluation.params, evaluation.params.covariances
    for factor, collapsed in ((1e-5, False), (1e-7, True)):
        shrunk = params._replace(covariances=first * factor)
        assert have_collapsed(shrunk, first, problem.settings, problem.layout)[0] == collapsed


def test_each_fit_of_a_batch_is_judged_alone(rows) -> None:
    problem, evaluation = evaluated(rows, np.repeat(np.arange(3), 40))
    twice = problem.take(np.array([0, 0]))
    params = take(evaluation.params, np.array([0, 0]))
    first = params.covariances.copy()
    params.covariances[1, 2] *= 1e-8
    np.testing.assert_array_equal(have_collapsed(params, first, twice.settings, twice.layout), [False, True])


def test_a_cluster_far_away_without_rows_of_its_own_has_diverged(rows) -> None:
    problem, evaluation = evaluated(rows, np.repeat(np.arange(3), 40), family="pairs")
    means, counts = evaluation.params.means.copy(), evaluation.statistics.set_counts.copy()
    means[0, 2] = 200.0
    params = Parameters(evaluation.params.weights, means, evaluation.params.covariances)
    assert not have_diverged(params, counts, problem.settings, problem.layout).any()
    counts[0, problem.layout.shares[:, 2] == 1] = 0.5  # No row is of it alone.
    np.testing.assert_array_equal(
        have_diverged(params, counts, problem.settings, problem.layout)[0], [False, False, True]
    )
