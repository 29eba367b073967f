"""One estimation problem: rows, model and engine bound together, as the loop sees it."""

from dataclasses import dataclass
from typing import NamedTuple

from egmm._checks import FloatArray
from egmm.em import estep, estep_numba
from egmm.em.covariance import scatter_kind
from egmm.em.mstep import m_step
from egmm.em.parameters import Components, Parameters, components
from egmm.em.prior import Prior, log_prior
from egmm.em.statistics import Moments, Statistics
from egmm.rows.source import RowSource


class Point(NamedTuple):
    """Parameters with all that a pass over the rows says about them."""

    params: Parameters
    model: Components
    statistics: Statistics
    log_likelihood: float
    """Total log-likelihood of the rows."""
    objective: float
    """What EM raises: the log-likelihood minus the ridge's penalty plus the log prior."""


@dataclass(frozen=True)
class Problem:
    """Rows, focal sets, covariance model, regularisation and engine of one fit."""

    rows: RowSource
    moments: Moments
    shares: FloatArray
    covariance: str
    ridge: FloatArray
    engine: str
    prior: Prior | None = None

    @property
    def can_leap(self) -> bool:
        """Whether there are quasi-Newton coordinates for the model."""
        return self.covariance in ("EEE", "EEI") and self.prior is None

    def evaluate(self, params: Parameters) -> Point:
        """One pass over the rows: the E-step, its sums and the log-likelihood."""
        model = components(params, self.moments.centre, self.shares)
        scatter = scatter_kind(self.covariance)
        function = (estep_numba if self.engine == "numba" else estep).prepare(model, scatter)
        statistics = self.rows.reduce(function)
        value = estep.log_likelihood(statistics, model, self.moments)
        objective = value - self._penalty(model.factors) + log_prior(params, self.prior, self.covariance)
        return Point(params, model, statistics, value, objective)

    def m_step(self, point: Point) -> Parameters:
        """Return the parameters the M-step makes of a pass."""
        return m_step(
            point.statistics, self.moments, self.shares, point.params, self.covariance, self.ridge, self.prior
        )

    def _penalty(self, factors: FloatArray) -> float:
        """N tr(P R) / 2: with it, adding R to a shared covariance is exact EM."""
        if factors.ndim != 2:
            return 0.0
        return 0.5 * self.moments.weight * float((self.ridge[:, None] * factors**2).sum())
