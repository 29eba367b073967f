"""A batch of estimation problems: rows, models and engine bound together, as the EM loop sees them."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._arrays import Place
from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em import device, estep, kernel
from egmm.em.covariance import is_diagonal, monomial_kind
from egmm.em.mstep import ClusterMoments, Layout, Settings, cluster_moments, maximise
from egmm.em.parameters import Components, Parameters, components, take
from egmm.em.prior import Prior, log_certainty, log_prior, prior_terms
from egmm.em.statistics import Moments, Statistics, Units, monomials
from egmm.rows.source import RowSource

MOST_KEPT = 2**24
"""Most entries of the monomials of a single block that are kept between passes."""


class Evaluation(NamedTuple):
    """Parameters of a batch with all that a pass over the rows says about them."""

    params: Parameters
    model: Components
    statistics: Statistics
    vector: FloatArray
    """(B, size) the statistics as the M-step reads them."""
    log_likelihood: FloatArray
    """(B,) total log-likelihood of the rows."""
    objective: FloatArray
    """(B,) what EM raises: the log-likelihood minus the ridge's penalty plus the log priors; -inf where a covariance
    is not positive definite."""
    traces: FloatArray
    """(B, C) tr(P_k R) of the ridge R; zeros where the covariance is shared, whose penalty is in the objective."""


class Pass(NamedTuple):
    """The pass over one block of rows, for row sources to call: small, and sent to other processes as it is."""

    model: Components
    shares: FloatArray
    units: Units
    kind: str
    engine: str

    def run(self, X: FloatArray, sample_weight: FloatArray | None) -> Statistics:
        """Statistics of a block."""
        if self.engine == "numba":
            return kernel.e_step(X, sample_weight, self.model, self.shares, self.units)
        return estep.e_step(monomials(self.units.rows(X), self.kind), sample_weight, self.model, self.shares)

    def on(self, where: Place, dtype: Any) -> "Pass | None":
        """The pass over blocks on a device; None where its precision does not do for clusters so far apart."""
        precision = device.precision_of(self.model, where, dtype)
        if precision is None:
            return None
        there = device.carried(self.model, self.shares, self.units, where, precision)
        return self._replace(model=there.model, shares=there.shares, units=there.units, engine="numpy")


@dataclass(frozen=True)
class Problem:
    """Rows and what the fits of a batch have in common; `settings` has what they do not."""

    rows: RowSource
    units: Units
    layout: Layout
    settings: Settings
    engine: str
    kept: FloatArray | None = None
    """(N, F) monomials of the rows, where there are few."""
    row_weights: FloatArray | None = None
    """(B, N) weights of the kept rows, where every fit has its own, or (N,)."""

    @classmethod
    def of_one(
        cls,
        rows: RowSource,
        total: Moments,
        shares: FloatArray,
        covariance: str,
        ridge: FloatArray,
        engine: str,
        prior: Prior | None = None,
        certainty: float = 0.0,
    ) -> "Problem":
        """The problem of a single fit; `ridge` (D,) is in the units of the data."""
        units, diagonal = Units.of(total), is_diagonal(covariance)
        layout = Layout(shares, monomial_kind(covariance), diagonal, units.scale, certainty)
        scatter = units.covariances_in(total.scatter, diagonal=total.scatter.ndim == 1)
        scatter = np.diagonal(scatter) if diagonal and scatter.ndim == 2 else scatter
        settings = Settings(
            np.array([covariance]),
            units.squares(ridge)[None],
            prior_terms(prior, shares.shape[1], covariance, units),
            np.array([total.weight]),
            scatter[None],
        )
        return cls(rows, units, layout, settings, engine)

    def keeping_monomials(self, X: FloatArray, sample_weight: FloatArray | None) -> Self:
        """The same problem, whose rows are few, with their monomials at hand."""
        n_features = X.shape[1]
        n_monomials = {"linear": 1, "diagonal": 2, "full": 2 + n_features // 2}[self.layout.kind] * (n_features + 1)
        if self.engine == "numba" or len(X) * n_monomials > MOST_KEPT:
            return self
        z = monomials(self.units.rows(X), self.layout.kind)
        return replace(self, kept=z, row_weights=sample_weight)

    def take(self, which: IntArray | BoolArray) -> Self:
        """The problem of some of the fits."""
        own = self.row_weights
        row_weights = own[which] if own is not None and own.ndim == 2 else own
        return replace(self, settings=take(self.settings, which), row_weights=row_weights)

    def evaluate(self, params: Parameters) -> Evaluation:
        """One pass over the rows: the E-step, its sums and the log-likelihoods."""
        evaluated = components(params, self.layout.shares, self.layout.kind)
        model, is_definite = evaluated.components, evaluated.is_definite
        with np.errstate(all="ignore"):
            statistics = self._pass(model)
            moments = cluster_moments(statistics, params, evaluated, self.settings, self.layout)
            args = (statistics, model, self.settings.weight, self.settings.scatter)
            log_likelihood = estep.log_likelihood(*args) - self.settings.weight * self.units.log_volume
            objective = log_likelihood + log_prior(params, model, self.settings.prior)
            if self.layout.certainty:
                single = log_certainty(params.weights, self.layout.shares)
                objective = objective + self.layout.certainty * self.settings.weight * single
            traces = self._traces(model, params.means.shape[1])
            if self.layout.is_shared:
                # With N tr(P R) / 2, adding R to a shared covariance is exact EM.
                objective = objective - 0.5 * self.settings.weight * traces[:, 0]
                traces = np.zeros_like(traces)
        objective = np.where(is_definite & np.isfinite(objective), objective, -np.inf)
        vector = moments.vector(self.layout)
        return Evaluation(params, model, statistics, vector, log_likelihood, objective, traces)

    def _pass(self, model: Components) -> Statistics:
        shares = self.layout.shares
        if self.kept is not None:
            return estep.e_step(self.kept, self.row_weights, model, shares)
        statistics: Statistics = self.rows.reduce(Pass(model, shares, self.units, self.layout.kind, self.engine).run)
        return statistics

    def maximise(self, vector: FloatArray, previous: Parameters) -> tuple[Parameters, BoolArray]:
        """Parameters that the M-step makes of statistics, and which fits have proper ones."""
        moments = ClusterMoments.of(vector, self.layout, previous.means.shape[2])
        return maximise(moments, previous, self.settings, self.layout)

    def gains(self, before: Evaluation, after: Evaluation) -> FloatArray:
        """What steps have gained, (B,), the ridge's penalty at the rows each cluster had before: EM never loses."""
        rows = before.statistics.cluster_counts
        with np.errstate(all="ignore"):
            gains = after.objective - before.objective - 0.5 * (rows * (after.traces - before.traces)).sum(axis=1)
        return np.where(np.isfinite(gains), gains, -np.inf)

    def _traces(self, model: Components, n_clusters: int) -> FloatArray:
        squares = model.factors**2
        if squares.ndim == 4:
            squares = squares.sum(axis=-1)
        traces = np.einsum("bkd,bd->bk", squares, self.settings.ridge)
        return np.broadcast_to(traces, (len(traces), n_clusters)).copy()
