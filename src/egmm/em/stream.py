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
from egmm.em.cluster_moments import cluster_moments, second_moments
from egmm.em.completion import DataMoments
from egmm.em.estep import entropy
from egmm.em.factors import dense
from egmm.em.layout import RowTotals
from egmm.em.parameters import Parameters, components, focal_gaussians, is_single, precision_factors
from egmm.em.problem import Problem
from egmm.em.specification import FitResult
from egmm.em.statistics import Statistics, products
from egmm.em.tails import implied_logs
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
    """Running mean of the entropy of the masses."""
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
        reference = RowTotals(problem.settings.weight, scatter)
        problem = replace(problem, settings=problem.settings._replace(scatter=scatter, reference=reference))
        return cls(problem, params, statistics, weight, log_likelihood / weight, entropy / weight)

    def after(self, rows: RowSource, batch: DataMoments) -> "Stream":
        """Return the state after a batch with these moments."""
        problem, before = self.problem, self.statistics
        units, diagonal = problem.units, problem.layout.diagonal
        whole, complete = (RowTotals.of(part.about(units.centre), units, diagonal=diagonal) for part in batch)
        settings = problem.settings._replace(weight=whole.weight, scatter=whole.scatter, reference=complete)
        if batch.has_missing:
            problem, before = _with_missing(problem, before)
        found = replace(problem, rows=rows, settings=settings).evaluate(self.params)
        n_rows = batch.whole.weight
        seen = self.weight + n_rows
        step = (n_rows / seen) ** EXPONENT
        keep, take = (1 - step) * seen / self.weight, step * seen / n_rows
        statistics = before.times(keep).plus(found.statistics.times(take))
        settings = problem.settings._replace(
            weight=np.array([seen]),
            scatter=keep * problem.settings.scatter + take * whole.scatter,
            reference=RowTotals(
                keep * problem.settings.reference.weight + take * complete.weight,
                keep * problem.settings.reference.scatter + take * complete.scatter,
            ),
        )
        problem = replace(problem, settings=settings)
        params, is_proper = _maximised(problem, self.params, statistics)
        log_likelihood = (1 - step) * self.mean_log_likelihood + step * float(found.log_likelihood[0]) / n_rows
        open_part = float(entropy(found.statistics, found.model)[0]) / n_rows
        mean_entropy = (1 - step) * self.mean_entropy + step * open_part
        return Stream(problem, params, statistics, seen, log_likelihood, mean_entropy, is_proper)


def _with_missing(problem: Problem, statistics: Statistics) -> tuple[Problem, Statistics]:
    """A problem, and statistics for it, of rows that may have missing cells."""
    layout = replace(problem.layout, pools=problem.layout.is_shared)
    problem = replace(problem, layout=layout, has_missing=True)
    if layout.pools and not statistics.pooled.shape[1]:
        n_products = len(products(len(problem.units.centre), layout.second_kind)[0])
        statistics = statistics._replace(pooled=np.zeros((1, n_products)))
    return problem, statistics


def _maximised(problem: Problem, params: Parameters, statistics: Statistics) -> tuple[Parameters, bool]:
    """Parameters after an M-step, and whether they are proper."""
    layout = problem.layout
    evaluated = components(params, layout.shares, layout.kind, layout.log_noise)
    moments = cluster_moments(statistics, params, evaluated, problem.settings, layout)
    found, is_proper = problem.maximise(moments.vector(layout), params)
    is_proper &= components(found, layout.shares, layout.kind, layout.log_noise).is_definite
    return found, bool(is_proper[0])


def expected_statistics(problem: Problem, params: Parameters) -> tuple[Statistics, FloatArray]:
    r"""Statistics and total scatter that a mixture, a batch of one, expects of the problem's weight of rows.

    With :math:`n_j` rows of set j, of mean :math:`\nu_j` and covariance :math:`\Sigma_j`, a cluster expects

    .. math:: \sum_{j \ni k} \frac{n_j}{|A_j|} \nu_j, \qquad
              \sum_{j \ni k} \frac{n_j}{|A_j|} (\Sigma_j + \nu_j \nu_j^\top - R)

    of sums and scatters, where R is the ridge, which the M-step adds. Without a prior, it returns the parameters.
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
    if layout.kind != "linear":
        parts.append(per_member.T @ second_moments(means[None], within[None], layout)[0])
    sums = np.concatenate(parts, axis=1)
    tails = None
    if params.degrees is not None:  # A row's pull is one on average.
        logs = implied_logs(params.degrees, settings.weight)
        tails = np.concatenate([counts, logs, np.zeros(1)])[None]
    return Statistics(counts[None], sums[None], np.zeros((1, 0)), np.zeros(1), tails), scatter


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
