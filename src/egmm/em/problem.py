"""A batch of estimation problems: rows, models and engine for the EM loop."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._arrays import Place
from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em import device, estep, kernel
from egmm.em.cluster_moments import ClusterMoments, cluster_moments
from egmm.em.covariance import is_diagonal
from egmm.em.evidence import UNLABELLED, Evidence, Links, evidence_for, group_masses
from egmm.em.factors import is_low_rank, precision_diagonals
from egmm.em.incomplete import Incomplete
from egmm.em.layout import Layout, RowTotals, Settings
from egmm.em.mstep import maximise
from egmm.em.noise import Box
from egmm.em.parameters import Components, Evaluated, Parameters, components, concatenated, for_every_cluster, take
from egmm.em.patterns import PatternRows, Piece
from egmm.em.prior import Prior, log_certainty, log_prior, prior_terms
from egmm.em.statistics import Moments, Statistics, Units, monomials
from egmm.rows.source import RowSource

MOST_KEPT = 2**24
"""Maximum number of entries of monomials kept between passes."""


class Evaluation(NamedTuple):
    """Parameters of a batch with the results of a pass over the rows."""

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
    """(B, C) tr(P_k R) of the ridge R; zeros where the penalty of a shared covariance is in the objective."""


class Pass(NamedTuple):
    """The pass over one block of rows, for row sources to call: small, and sent to other processes as it is."""

    model: Components
    layout: Layout
    units: Units
    engine: str
    incomplete: Incomplete | None = None
    """The passes over rows with missing cells, if there are any."""
    log_plausibility: FloatArray | None = None
    """(L, M) of labels, where rows have such."""

    def run(self, X: FloatArray, sample_weight: FloatArray | None, codes: IntArray | None = None) -> Statistics:
        """Statistics of a block, whose rows have labels of these codes."""
        if codes is None:
            return self._sums(X, sample_weight, None)
        total = self._some(X, sample_weight, codes == UNLABELLED, None)
        is_labelled = codes > UNLABELLED
        if self.log_plausibility is None or not is_labelled.any():
            return total
        return total.plus(self._some(X, sample_weight, is_labelled, self.log_plausibility[codes[is_labelled]]))

    def linked(self, links: Links, log_evidence: FloatArray) -> Statistics:
        """Statistics of rows that share mass functions."""
        scores = self.log_scores(links.rows) + log_evidence
        parts = [self._fit(at)._linked(links, log_evidence, scores[at]) for at in range(len(scores))]
        return concatenated(parts)

    def _fit(self, at: int) -> "Pass":
        """The pass of one fit of the batch."""
        one = np.array([at])
        incomplete = None if self.incomplete is None else self.incomplete.take(one)
        return self._replace(model=take(self.model, one), incomplete=incomplete)

    def _linked(self, links: Links, log_evidence: FloatArray, scores: FloatArray) -> Statistics:
        found = group_masses(links, scores)
        fixed = evidence_for(found.mass[links.group], scores) + log_evidence
        sums = self._sums(links.rows, links.weight, fixed)
        return sums._replace(log_likelihood=np.array([found.bound]))

    def log_scores(self, X: FloatArray) -> FloatArray:
        """log pi_j N_j(x) of rows, (B, n, M), up to a constant per row."""
        if self.incomplete is not None and np.isnan(X).any():
            return self.incomplete.log_scores(X, self.log_scores)
        z = monomials(self.units.rows(X), self.layout.kind)
        return np.transpose(estep.log_scores(z, self.model, self.layout.shares), (1, 2, 0))

    def _some(
        self, X: FloatArray, weight: FloatArray | None, which: BoolArray, log_evidence: FloatArray | None
    ) -> Statistics:
        return self._sums(X[which], None if weight is None else weight[which], log_evidence)

    def _sums(self, X: FloatArray, weight: FloatArray | None, log_evidence: FloatArray | None) -> Statistics:
        if self.incomplete is None:
            return self._of_complete(X, weight, log_evidence)
        return self.incomplete.statistics(X, weight, log_evidence, self._of_complete)

    def of_piece(self, piece: Piece) -> Statistics:
        """Statistics of rows with the same missing cells."""
        assert self.incomplete is not None
        return self.incomplete.of_piece(piece, self._of_complete)

    def _of_complete(self, X: FloatArray, weight: FloatArray | None, log_evidence: FloatArray | None) -> Statistics:
        if self.engine == "numba" and log_evidence is None:
            return kernel.e_step(X, weight, self.model, self.layout.shares, self.units)
        z = monomials(self.units.rows(X), self.layout.kind)
        return estep.e_step(z, weight, self.model, self.layout.shares, log_evidence)

    def on(self, where: Place, dtype: Any) -> "Pass | None":
        """The pass over blocks on a device; None where its precision does not do for clusters so far apart."""
        precision = device.precision_of(self.model, where, dtype)
        if precision is None:
            return None
        there = device.carried(self.model, self.layout.shares, self.units, where, precision)
        layout = replace(self.layout, shares=there.shares)
        return self._replace(model=there.model, layout=layout, units=there.units, engine="numpy")


@dataclass(frozen=True)
class Problem:
    """Rows and the layout of a batch; `settings` holds the differences between its fits."""

    rows: RowSource | PatternRows
    units: Units
    layout: Layout
    settings: Settings
    engine: str
    kept: FloatArray | None = None
    """(N, F) monomials of the rows, where there are few."""
    row_weights: FloatArray | None = None
    """(B, N) weights of the kept rows, where every fit has its own, or (N,)."""
    has_missing: bool = False
    """Whether rows have missing cells."""
    evidence: Evidence | None = None
    """Labels and links of the rows."""

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
        noise: Box | None = None,
        tails: bool = False,
        n_factors: int = 0,
    ) -> "Problem":
        """The problem of a single fit; `ridge` (D,) is in the units of the data."""
        units, diagonal = Units.of(total), is_diagonal(covariance)
        options: dict[str, Any] = {"noise": noise, "tails": tails, "n_factors": n_factors}
        layout = Layout.of(covariance, shares, units.scale, certainty, **options)
        totals = RowTotals.of(total, units, diagonal=diagonal)
        settings = Settings(
            np.array([covariance]),
            units.squares(ridge)[None],
            prior_terms(prior, shares.shape[1], covariance, units),
            *totals,
            totals,
        )
        return cls(rows, units, layout, settings, engine)

    def keeping_monomials(self, X: FloatArray, sample_weight: FloatArray | None) -> Self:
        """The problem with the monomials of its rows in memory, for few rows."""
        n_features = X.shape[1]
        n_monomials = {"linear": 1, "diagonal": 2, "full": 2 + n_features // 2}[self.layout.kind] * (n_features + 1)
        if self.engine == "numba" or self.has_missing or self.evidence is not None or len(X) * n_monomials > MOST_KEPT:
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
        evaluated = components(params, self.layout.shares, self.layout.kind, self.layout.log_noise)
        model, is_definite = evaluated.components, evaluated.is_definite
        with np.errstate(all="ignore"):
            statistics = self._pass(params, evaluated)
            moments = cluster_moments(statistics, params, evaluated, self.settings, self.layout)
            log_likelihood = estep.log_likelihood(statistics, model, *self.settings.reference)
            log_likelihood = log_likelihood - self.settings.weight * self.units.log_volume
            objective = log_likelihood + log_prior(params, model, self.settings.prior)
            if self.layout.certainty:
                single = log_certainty(params.weights, self.layout.shares)
                objective = objective + self.layout.certainty * self.settings.weight * single
            traces = self._traces(model, params.means.shape[1])
            if self.layout.is_shared and (self.layout.tails or not self.layout.pools):
                # With N tr(P R) / 2, adding R to a shared covariance is exact EM.
                objective = objective - 0.5 * self.settings.weight * traces[:, 0]
                traces = np.zeros_like(traces)
        objective = np.where(is_definite & np.isfinite(objective), objective, -np.inf)
        vector = moments.vector(self.layout)
        return Evaluation(params, model, statistics, vector, log_likelihood, objective, traces)

    def _pass(self, params: Parameters, evaluated: Evaluated) -> Statistics:
        model = evaluated.components
        if self.kept is not None:
            return estep.e_step(self.kept, self.row_weights, model, self.layout.shares)
        incomplete, evidence = None, self.evidence
        if self.has_missing:
            incomplete = Incomplete.of(params, evaluated, self.layout, self.units, self.engine)
        passes = Pass(model, self.layout, self.units, self.engine, incomplete)
        if isinstance(self.rows, PatternRows):
            return self.rows.reduce(passes.of_piece)
        if evidence is None:
            statistics: Statistics = self.rows.reduce(passes.run)
            return statistics
        statistics = self.rows.reduce(passes._replace(log_plausibility=evidence.log_plausibility).run, evidence.codes)
        if evidence.links is None:
            return statistics
        return statistics.plus(passes.linked(evidence.links, evidence.of_rows(evidence.links.codes)))

    def maximise(self, vector: FloatArray, previous: Parameters) -> tuple[Parameters, BoolArray]:
        """Parameters of the M-step, and which fits have valid ones."""
        moments = ClusterMoments.of(vector, self.layout, previous.means.shape[2])
        return maximise(moments, previous, self.settings, self.layout)

    def gains(self, before: Evaluation, after: Evaluation) -> FloatArray:
        """What steps have gained, (B,), the ridge's penalty at the rows each cluster had before: EM never loses."""
        rows = before.statistics.cluster_counts
        with np.errstate(all="ignore"):
            gains = after.objective - before.objective - 0.5 * (rows * (after.traces - before.traces)).sum(axis=1)
        return np.where(np.isfinite(gains), gains, -np.inf)

    def _traces(self, model: Components, n_clusters: int) -> FloatArray:
        if model.factors.ndim == 4 and is_low_rank(model.factors):
            squares = precision_diagonals(model.factors)
        else:
            squares = model.factors**2
            squares = squares.sum(axis=-1) if squares.ndim == 4 else squares
        traces = np.einsum("bkd,bd->bk", squares, self.settings.ridge)
        return for_every_cluster(traces, n_clusters)
