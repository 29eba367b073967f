"""One estimation problem: rows, model and engine bound together, as the loop sees it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray
from egmm.em import estep, estep_numba
from egmm.em.covariance import SHARED, is_diagonal, scatter_kind
from egmm.em.mstep import m_step
from egmm.em.parameters import Components, Parameters, components, is_single
from egmm.em.prior import Prior, log_certainty, log_prior
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
    """What EM raises: the log-likelihood minus the ridge's penalty plus the log priors."""

    @property
    def entropy(self) -> float:
        """Total entropy of the rows' masses."""
        return estep.entropy(self.statistics, self.model)


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
    certainty: float = 0.0

    @property
    def has_exact_m_step(self) -> bool:
        """Whether the M-step finds the maximum of Q; else it takes a step towards it."""
        return self.covariance in SHARED or bool(is_single(self.shares).all())

    @property
    def has_prior(self) -> bool:
        """Whether what EM raises is more than the likelihood and the ridge's penalty."""
        return self.prior is not None or self.certainty > 0

    def evaluate(self, params: Parameters) -> Point:
        """One pass over the rows: the E-step, its sums and the log-likelihood."""
        model = self.components(params)
        scatter = scatter_kind(self.covariance)
        function = (estep_numba if self.engine == "numba" else estep).prepare(model, scatter)
        return self.point(params, model, self.rows.reduce(function))

    def point(self, params: Parameters, model: Components, statistics: Statistics) -> Point:
        """What the statistics of a pass say about the parameters it was made with."""
        value = estep.log_likelihood(statistics, model, self.moments)
        objective = value - self._penalty(model.factors) + log_prior(params, self.prior, self.covariance)
        if self.certainty:
            objective += self.certainty * self.moments.weight * log_certainty(params.weights, self.shares)
        return Point(params, model, statistics, value, objective)

    def components(self, params: Parameters) -> Components:
        """Return what the E-step reads of parameters."""
        return components(params, self.moments.centre, self.shares, diagonal=is_diagonal(self.covariance))

    def m_step(self, point: Point) -> Parameters:
        """Return the parameters the M-step makes of a pass."""
        return m_step(
            point.statistics,
            self.moments,
            self.shares,
            point.params,
            self.covariance,
            self.ridge,
            self.prior,
            self.certainty,
        )

    def gain(self, before: Point, after: Point) -> float:
        """What a step has gained, the ridge's penalty at the rows each cluster had before: never negative for EM."""
        rise = after.objective - before.objective
        if before.model.is_shared:
            return rise
        counts = self.shares.T @ before.statistics.set_counts
        return rise - 0.5 * float(counts @ (self._traces(after.model) - self._traces(before.model)))

    def _traces(self, model: Components) -> FloatArray:
        """tr(P_k R), (C,)."""
        return np.asarray(np.square(model.factors).sum(axis=2) @ self.ridge)

    def _penalty(self, factors: FloatArray) -> float:
        """N tr(P R) / 2: with it, adding R to a shared covariance is exact EM."""
        if factors.ndim != 2:
            return 0.0
        return 0.5 * self.moments.weight * float((self.ridge[:, None] * factors**2).sum())
