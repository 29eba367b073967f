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
from egmm.em.covariance import is_diagonal
from egmm.em.parameters import Parameters, focal_parameters, is_single
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

    @classmethod
    def from_model(cls, problem: Problem, params: Parameters, log_likelihood: float, entropy: float) -> "Stream":
        """Start from a fitted model alone, with the statistics that it expects of as many rows."""
        weight = problem.moments.weight
        statistics, scatter = expected_statistics(problem, params)
        empty = replace(problem, rows=ArrayRows(np.empty((0, params.means.shape[1]))))
        return cls(empty, params, statistics, scatter, weight, log_likelihood / weight, entropy / weight)

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


def expected_statistics(problem: Problem, params: Parameters) -> tuple[Statistics, FloatArray]:
    r"""Statistics and total scatter that a mixture expects of the problem's weight of rows.

    With :math:`n_j` rows of set j, of mean :math:`\nu_j` and covariance :math:`\Sigma_j`, a cluster expects

    .. math:: \sum_{j \ni k} \frac{n_j}{|A_j|} \nu_j, \qquad
              \sum_{j \ni k} \frac{n_j}{|A_j|} (\Sigma_j + \nu_j \nu_j^\top - R)

    of sums and scatters, where R is the ridge, which the M-step adds. It gives the parameters back, but for a prior.
    """
    shares, ridge = problem.shares, np.diag(problem.ridge)
    counts = problem.moments.weight * unweighted(params.weights, shares, problem.certainty)
    means, covariances = focal_parameters(params, shares)
    squares = covariances - ridge + means[:, :, None] * means[:, None, :]
    scatters = None
    if params.covariances.ndim == 3:
        scatters = np.einsum("jk,j,jde->kde", shares, counts, squares)
        scatters = np.einsum("kdd->kd", scatters) if is_diagonal(problem.covariance) else scatters
    statistics = Statistics(counts, (shares.T * counts) @ means, scatters, 0.0)
    return statistics, np.einsum("j,jde->de", counts, squares)


def unweighted(weights: FloatArray, shares: FloatArray, certainty: float) -> FloatArray:
    """Shares of rows that give these weights under the prior of `set_weights`, where there are such.

    >>> unweighted(np.array([0.675, 0.225, 0.1]), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 1.0)
    array([0.6, 0.2, 0.2])
    """
    single = is_single(shares)
    on_single = weights[single].sum()
    if certainty == 0 or on_single == 0:
        return weights
    rest = max(1 - (1 + certainty) * weights[~single].sum(), 0.0)
    counts = np.where(single, weights * rest / on_single, (1 + certainty) * weights)
    return np.asarray(counts / counts.sum())


def scaled(statistics: Statistics, factor: float) -> Statistics:
    """Statistics of the same rows with weights times `factor`."""
    scatters = statistics.cluster_scatters
    return Statistics(
        factor * statistics.set_counts,
        factor * statistics.cluster_sums,
        None if scatters is None else factor * scatters,
        factor * statistics.log_likelihood,
    )
