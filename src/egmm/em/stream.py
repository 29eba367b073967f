r"""Stepwise EM for rows that come in batches and are seen once.

After each batch the running statistics move towards the batch's own by a step that shrinks as rows are seen,

.. math:: \hat s \leftarrow (1 - \gamma)\, \hat s + \gamma\, s(\text{batch}), \qquad
          \gamma = (n_{\text{batch}} / n_{\text{seen}})^{0.6},

and an M-step follows (Cappé and Moulines 2009). The exponent lies between 1/2, below which the steps do not settle, and
1, where nothing is ever forgotten, not even the poor masses of the first batches. With equal batches the t-th counts
:math:`t^{-0.6}`, so about the last :math:`t^{0.6}` batches speak.
"""

from dataclasses import dataclass, replace

import numpy as np

from egmm.em.estep import entropy
from egmm.em.fit import FitResult
from egmm.em.mstep import cluster_moments
from egmm.em.parameters import Parameters, components
from egmm.em.problem import Problem
from egmm.em.statistics import Moments, Statistics
from egmm.rows.array import ArrayRows
from egmm.rows.source import RowSource

EXPONENT = 0.6


@dataclass(frozen=True)
class Stream:
    """Running statistics of the rows seen so far."""

    problem: Problem
    """Focal sets, covariance model, ridge, engine and units, as the first batch's fit left them; no rows."""
    params: Parameters
    statistics: Statistics
    """Scaled to the weight seen."""
    weight: float
    mean_log_likelihood: float
    """Running mean over rows, each batch at the parameters it found."""
    mean_entropy: float
    """Of the masses, likewise."""

    @classmethod
    def from_fit(cls, fit: FitResult) -> "Stream":
        """Start from a fit of the first batch."""
        problem, evaluation = fit.problem, fit.evaluation
        empty = replace(problem, rows=ArrayRows(np.empty((0, len(problem.units.centre)))), kept=None, row_weights=None)
        weight = float(problem.settings.weight[0])
        means = (fit.log_likelihood / weight, fit.entropy / weight)
        return cls(empty, evaluation.params, evaluation.statistics, weight, *means)

    def after(self, rows: RowSource, batch: Moments) -> "Stream":
        """Return what is known after a batch with these moments."""
        problem, units = self.problem, self.problem.units
        batch = batch.about(units.centre)
        scatter = units.covariances_in(batch.scatter, diagonal=batch.scatter.ndim == 1)
        if problem.settings.scatter.ndim == 2 and scatter.ndim == 2:
            scatter = np.diagonal(scatter)
        settings = problem.settings._replace(weight=np.array([batch.weight]), scatter=scatter[None])
        found = replace(problem, rows=rows, settings=settings).evaluate(self.params)
        seen = self.weight + batch.weight
        step = (batch.weight / seen) ** EXPONENT
        keep, take = (1 - step) * seen / self.weight, step * seen / batch.weight
        statistics = self.statistics.times(keep).plus(found.statistics.times(take))
        settings = problem.settings._replace(
            weight=np.array([seen]), scatter=keep * problem.settings.scatter + take * scatter
        )
        problem = replace(problem, settings=settings)
        params = _maximised(problem, self.params, statistics)
        log_likelihood = (1 - step) * self.mean_log_likelihood + step * float(found.log_likelihood[0]) / batch.weight
        open_part = float(entropy(found.statistics, found.model)[0]) / batch.weight
        return Stream(
            problem, params, statistics, seen, log_likelihood, (1 - step) * self.mean_entropy + step * open_part
        )


def _maximised(problem: Problem, params: Parameters, statistics: Statistics) -> Parameters:
    """Parameters after an M-step; the old ones where there is none."""
    layout = problem.layout
    evaluated = components(params, layout.shares, layout.kind)
    moments = cluster_moments(statistics, params, evaluated, problem.settings, layout)
    found, is_proper = problem.maximise(moments.vector(layout), params)
    is_proper &= components(found, layout.shares, layout.kind).is_definite
    return found if is_proper[0] else params
