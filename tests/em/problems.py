"""Estimation problems for the loop and its quasi-Newton steps."""

import numpy as np

from egmm import FocalSets
from egmm.em import start
from egmm.em.parameters import Parameters
from egmm.em.prior import make_prior
from egmm.em.problem import Point, Problem
from egmm.em.statistics import moments
from egmm.rows.array import ArrayRows


def problem_of(
    X, family="full", n_clusters=3, covariance="EEE", ridge=0.0, engine="numpy", weight=None, prior=None, certainty=0.0
) -> Problem:
    """One fit's problem, single-threaded."""
    rows = ArrayRows(X, weight, n_jobs=1)
    total, shares = rows.reduce(moments), FocalSets.of(family, n_clusters).shares
    hyper = make_prior(prior, total, n_clusters, covariance)
    return Problem(rows, total, shares, covariance, np.full(X.shape[1], ridge), engine, hyper, certainty)


def start_of(problem: Problem, labels) -> Parameters:
    """The label start of a problem."""
    n_focal, n_clusters = problem.shares.shape
    rows = problem.rows
    statistics = start.group_statistics(rows.X, rows.sample_weight, labels, problem.moments.centre, n_clusters)
    groups = start.Groups(statistics)
    return start.start_parameters(groups, problem.moments, n_focal, problem.covariance, problem.ridge, problem.prior)


def after_em(problem: Problem, labels, n_steps: int) -> list[Point]:
    """The points EM passes through."""
    points = [problem.evaluate(start_of(problem, labels))]
    for _ in range(n_steps):
        points.append(problem.evaluate(problem.m_step(points[-1])))
    return points
