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
from egmm.em.estep import entropy
from egmm.em.factors import dense
from egmm.em.fit import FitResult
from egmm.em.mstep import RowTotals, Settings, cluster_moments, second_moments
from egmm.em.parameters import Parameters, components, focal_gaussians, is_single, precision_factors
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
    is_proper: bool = True
    """Whether there was an M-step after the last batch."""

    @classmethod
    def from_fit(cls, fit: FitResult) -> "Stream":
        """Start from a fit of the first batch."""
        problem, evaluation = fit.problem, fit.evaluation
        empty = replace(problem, rows=ArrayRows(np.empty((0, len(problem.units.centre)))), kept=None, row_weights=None)
        weight = float(problem.settings.weight[0])
        means = (fit.log_likelihood / weight, fit.entropy / weight)
        return cls(empty, evaluation.params, evaluation.statistics, weight, *means)

    @classmethod
    def from_model(cls, problem: Problem, params: Parameters, log_likelihood: float, entropy: float) -> "Stream":
        """Start from a fitted model alone, with the statistics that it expects of as many rows."""
        weight = float(problem.settings.weight[0])
        statistics, scatter = expected_statistics(problem, params)
        problem = replace(problem, settings=_with_rows(problem.settings, RowTotals(problem.settings.weight, scatter)))
        return cls(problem, params, statistics, weight, log_likelihood / weight, entropy / weight)

    def after(self, rows: RowSource, batch: Moments) -> "Stream":
        """Return what is known after a batch with these moments."""
        problem, units = self.problem, self.problem.units
        batch = batch.about(units.centre)
        scatter = units.covariances_in(batch.scatter, diagonal=batch.scatter.ndim == 1)
        if problem.settings.scatter.ndim == 2 and scatter.ndim == 2:
            scatter = np.diagonal(scatter)
        settings = _with_rows(problem.settings, RowTotals(np.array([batch.weight]), scatter[None]))
        found = replace(problem, rows=rows, settings=settings).evaluate(self.params)
        seen = self.weight + batch.weight
        step = (batch.weight / seen) ** EXPONENT
        keep, take = (1 - step) * seen / self.weight, step * seen / batch.weight
        statistics = self.statistics.times(keep).plus(found.statistics.times(take))
        scatter = keep * problem.settings.scatter + take * scatter
        settings = _with_rows(problem.settings, RowTotals(np.array([seen]), scatter))
        problem = replace(problem, settings=settings)
        params, is_proper = _maximised(problem, self.params, statistics)
        log_likelihood = (1 - step) * self.mean_log_likelihood + step * float(found.log_likelihood[0]) / batch.weight
        open_part = float(entropy(found.statistics, found.model)[0]) / batch.weight
        mean_entropy = (1 - step) * self.mean_entropy + step * open_part
        return Stream(problem, params, statistics, seen, log_likelihood, mean_entropy, is_proper)


def _with_rows(settings: Settings, rows: RowTotals) -> Settings:
    """Settings for other rows."""
    return settings._replace(weight=rows.weight, scatter=rows.scatter, reference=rows)


def _maximised(problem: Problem, params: Parameters, statistics: Statistics) -> tuple[Parameters, bool]:
    """Parameters after an M-step, and whether they are proper."""
    layout = problem.layout
    evaluated = components(params, layout.shares, layout.kind)
    moments = cluster_moments(statistics, params, evaluated, problem.settings, layout)
    found, is_proper = problem.maximise(moments.vector(layout), params)
    is_proper &= components(found, layout.shares, layout.kind).is_definite
    return found, bool(is_proper[0])


def expected_statistics(problem: Problem, params: Parameters) -> tuple[Statistics, FloatArray]:
    r"""Statistics and total scatter that a mixture, a batch of one, expects of the problem's weight of rows.

    With :math:`n_j` rows of set j, of mean :math:`\nu_j` and covariance :math:`\Sigma_j`, a cluster expects

    .. math:: \sum_{j \ni k} \frac{n_j}{|A_j|} \nu_j, \qquad
              \sum_{j \ni k} \frac{n_j}{|A_j|} (\Sigma_j + \nu_j \nu_j^\top - R)

    of sums and scatters, where R is the ridge, which the M-step adds. It gives the parameters back, but for a prior.
    """
    layout, settings = problem.layout, problem.settings
    counts = settings.weight[0] * unweighted(params.weights[0], layout.shares, layout.certainty)
    ridge = settings.ridge[0] if layout.diagonal else np.diag(settings.ridge[0])
    if layout.is_shared:
        covariances = params.covariances if layout.diagonal else dense(params.covariances)
        means, within = layout.shares @ params.means[0], covariances[0] - ridge
    else:
        factors, log_roots, _ = precision_factors(params.covariances, diagonal=layout.diagonal)
        focal, _ = focal_gaussians(params, factors, log_roots, layout.shares)
        means, within = focal.means[0], focal.covariances[0] - ridge
    squares = means**2 if layout.diagonal else means[:, :, None] * means[:, None, :]
    scatter = np.einsum("j,j...->...", counts, within + squares)[None]
    per_member = counts[:, None] * layout.shares
    parts = [per_member.sum(axis=0)[:, None], per_member.T @ means]
    if not layout.is_shared:
        parts.append(per_member.T @ second_moments(means[None], within[None], layout)[0])
    sums = np.concatenate(parts, axis=1)
    return Statistics(counts[None], sums[None], np.zeros((1, 0)), np.zeros(1)), scatter


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
