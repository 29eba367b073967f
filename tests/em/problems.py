"""Estimation problems for the tests of steps, ascents and their acceleration."""

from typing import NamedTuple

import numpy as np

from egmm import FocalSets
from egmm.em.ascent import Ascent
from egmm.em.completion import data_moments
from egmm.em.covariance import is_diagonal
from egmm.em.layout import Layout, RowTotals, Settings
from egmm.em.parameters import Parameters
from egmm.em.prior import make_prior, prior_terms
from egmm.em.problem import Evaluation, Problem
from egmm.em.start import Groups, group_sums, start_parameters
from egmm.em.statistics import Moments, Units
from egmm.rows.array import ArrayRows


def problem_of(
    X,
    family="full",
    n_clusters=3,
    covariance="EEE",
    ridge=0.0,
    engine="numpy",
    weight=None,
    prior=None,
    certainty=0.0,
    noise=None,
    tails=False,
    n_factors=0,
) -> Problem:
    """One fit's problem, single-threaded; `ridge` is in the units of the rows, one number or one per feature."""
    rows = ArrayRows(X, weight, n_jobs=1)
    total = data_moments(rows, diagonal=False)
    shares = FocalSets.of(family, n_clusters, empty=noise is not None).shares
    units, dim = Units.of(total.whole), X.shape[1]
    # Sums are about the centre as it is written.
    total = total.about(units.centre)
    settings = settings_of(total.whole, units, n_clusters, covariance, ridge, prior)
    if total.has_missing:
        complete = settings_of(total.complete, units, n_clusters, covariance).reference
        settings = settings._replace(reference=complete)
    options = {"pools": total.has_missing, "noise": noise, "tails": tails, "n_factors": n_factors}
    layout = Layout.of(covariance, shares, units.scale, certainty, **options)
    assert settings.ridge.shape == (1, dim)
    return Problem(rows, units, layout, settings, engine, has_missing=total.has_missing)


def settings_of(total: Moments, units: Units, n_clusters, covariance, ridge=0.0, prior=None) -> Settings:
    """What one fit has of its own, for rows with these moments; `prior` is a name, a mapping or a `Prior`."""
    hyper = prior if isinstance(prior, tuple) else make_prior(prior, total, n_clusters, covariance)
    dim = len(units.centre)
    scatter = units.covariances_in(total.scatter, diagonal=False)
    scatter = np.diagonal(scatter) if is_diagonal(covariance) else scatter
    return Settings(
        np.array([covariance]),
        units.squares(np.broadcast_to(np.asarray(ridge, dtype=float), (dim,)))[None],
        prior_terms(hyper, n_clusters, covariance, units),
        np.array([total.weight]),
        scatter[None],
        RowTotals(np.array([total.weight]), scatter[None]),
    )


def groups_of(problem: Problem, labels, means=None) -> Groups:
    """Hard groups of a problem's rows; `means` are given ones, in the units of the rows."""
    units, layout, rows = problem.units, problem.layout, problem.rows
    statistics = group_sums(rows.X, rows.sample_weight, labels, units, layout.shares.shape[1], layout.start_kind)
    given = None if means is None else (means - units.centre) / units.scale
    return Groups.of(statistics, given, diagonal=layout.start_kind == "diagonal")


def start_of(problem: Problem, labels, means=None) -> Parameters:
    """The label start of a problem."""
    return start_parameters(groups_of(problem, labels, means), problem.settings, problem.layout)


def after_em(problem: Problem, labels, n_steps: int) -> list[Evaluation]:
    """The points that undamped steps of EM pass through."""
    points = [problem.evaluate(start_of(problem, labels))]
    for _ in range(n_steps):
        params, is_proper = problem.maximise(points[-1].vector, points[-1].params)
        assert is_proper.all()
        points.append(problem.evaluate(params))
    return points


class Found(NamedTuple):
    """Parameters of one fit in the units of the rows, covariances as matrices (C, D, D)."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def found_of(problem: Problem, params: Parameters, at: int = 0) -> Found:
    """Parameters of one fit of a batch as the oracles take them."""
    units, (n_clusters, dim) = problem.units, params.means.shape[1:]
    covariances = units.covariances_out(params.covariances[at], diagonal=params.is_diagonal)
    if params.is_diagonal:
        covariances = covariances[..., None] * np.eye(dim)
    covariances = np.broadcast_to(covariances, (n_clusters, dim, dim))
    return Found(params.weights[at], params.means[at] * units.scale + units.centre, covariances)


class Traced(NamedTuple):
    """An ascent with what it went through."""

    ascent: Ascent
    objectives: np.ndarray
    """After the start and every step."""
    passes: np.ndarray
    """Passes over the rows made by then."""


def ascend(problem: Problem, start, *, tol=1e-6, accelerate=True, max_iter=3000, gives_up=False) -> Traced:
    """An ascent of one fit from labels or parameters."""
    made = []

    class Counted(type(problem)):
        def evaluate(self, params):
            made.append(1)
            return super().evaluate(params)

    counted = Counted(**vars(problem))
    params = start if isinstance(start, Parameters) else start_of(problem, start)
    ascent = Ascent.start(counted, params, np.array([tol]), accelerate=accelerate, gives_up=gives_up)
    trace = [(ascent.state.evaluation.objective[0], len(made))]
    ascent.run(max_iter, lambda now: trace.append((now.state.evaluation.objective[0], len(made))))
    objectives, passes = np.array(trace).T
    return Traced(ascent, objectives, passes.astype(int))
