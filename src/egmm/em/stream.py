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

from egmm._checks import FloatArray
from egmm.em.parameters import Parameters
from egmm.em.problem import Point, Problem
from egmm.em.statistics import Moments, Statistics
from egmm.rows.array import ArrayRows
from egmm.rows.source import RowSource

EXPONENT = 0.6


@dataclass(frozen=True)
class Stream:
    """Running statistics of the rows seen so far."""

    problem: Problem
    """Focal sets, covariance model, ridge, engine and centre, as the first batch's fit left them; no rows."""
    params: Parameters
    statistics: Statistics
    """Scaled to the weight seen."""
    scatter: FloatArray
    """About the centre, scaled likewise."""
    weight: float
    mean_log_likelihood: float
    """Running mean over rows, each batch at the parameters it found."""
    mean_entropy: float
    """Of the masses, likewise."""

    @classmethod
    def from_point(cls, problem: Problem, point: Point) -> "Stream":
        """Start from a fit of the first batch."""
        total = problem.moments
        empty = replace(problem, rows=ArrayRows(np.empty((0, len(total.centre)))))
        means = (point.log_likelihood / total.weight, point.entropy / total.weight)
        return cls(empty, point.params, point.statistics, total.scatter, total.weight, *means)

    def after(self, rows: RowSource, batch: Moments) -> "Stream":
        """Return what is known after a batch with these moments."""
        problem, centre = self.problem, self.problem.moments.centre
        batch = batch.about(centre)
        point = replace(problem, rows=rows, moments=batch).evaluate(self.params)
        seen = self.weight + batch.weight
        step = (batch.weight / seen) ** EXPONENT
        keep, take = (1 - step) * seen / self.weight, step * seen / batch.weight
        statistics = scaled(self.statistics, keep).plus(scaled(point.statistics, take))
        scatter = keep * self.scatter + take * batch.scatter
        total = Moments(seen, centre, scatter)
        params = replace(problem, moments=total).m_step(point._replace(statistics=statistics))
        log_likelihood = (1 - step) * self.mean_log_likelihood + step * point.log_likelihood / batch.weight
        entropy = (1 - step) * self.mean_entropy + step * point.entropy / batch.weight
        return Stream(problem, params, statistics, scatter, seen, log_likelihood, entropy)


def scaled(statistics: Statistics, factor: float) -> Statistics:
    """Statistics of the same rows with weights times `factor`."""
    scatters = statistics.cluster_scatters
    return Statistics(
        factor * statistics.set_counts,
        factor * statistics.cluster_sums,
        None if scatters is None else factor * scatters,
        factor * statistics.log_likelihood,
    )
