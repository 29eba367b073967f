"""Fits of one form: what they have in common, and the ascents they make."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em import soundness
from egmm.em.ascent import FAILED, Ascent
from egmm.em.checkpoint import STEPS_BETWEEN, Checkpoint
from egmm.em.completion import DataMoments, data_moments
from egmm.em.criteria import SAME
from egmm.em.layout import Layout, RowTotals, Settings
from egmm.em.parameters import Parameters, take
from egmm.em.patterns import PatternRows, pattern_order
from egmm.em.prior import PriorTerms, prior_terms
from egmm.em.problem import Problem
from egmm.em.sample import Sample
from egmm.em.specification import Specification
from egmm.em.start import LOW_RANK_RIDGE, RIDGE, make_ridge
from egmm.em.summary import DataSummary
from egmm.rows.array import ArrayRows
from egmm.rows.source import BLOCK_ROWS, RowSource

Report = Callable[[Ascent, str], None]
"""Function called after every step with the ascents and their title."""

ON_ALL_ROWS, ON_SAMPLE, UNREPORTED = "EGMM", "EGMM, sample", ""
"""Titles of ascents."""


class Starts(NamedTuple):
    """Starts of ascents."""

    params: Parameters
    ridge: FloatArray
    """(B, D)."""
    owner: IntArray
    """(B,) number of the specification each is a start of."""


class Part(NamedTuple):
    """Rows of a sample, and their moments about the centre of all rows."""

    sample: Sample
    rows: ArrayRows
    total: DataMoments


class Batch:
    """Models of one form, the rows they are fitted to, and their ascents.

    Parameters
    ----------
    rows : RowSource
    summary : DataSummary
    specifications : sequence of Specification
        They differ in covariance model and prior alone.
    report : callable, optional
        Called after every step.
    checkpoint : Checkpoint, optional
        Where the state of the ascents on all rows is kept.
    """

    def __init__(
        self,
        rows: RowSource,
        summary: DataSummary,
        specifications: Sequence[Specification],
        report: Report | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.rows, self.order = _by_pattern(rows) if summary.has_missing else (rows, None)
        self.summary, self.specifications = summary, list(specifications)
        self.report, self.checkpoint = report, checkpoint
        self.first = first = self.specifications[0]
        scale, pools = summary.units.scale, summary.has_missing
        args = (first.covariance, first.shares, scale, first.certainty)
        options: dict[str, Any] = {"noise": first.noise, "tails": first.tails, "n_factors": first.n_factors}
        self.layout = Layout.of(*args, pools=pools, **options)
        self.evidence = None if first.evidence is None else first.evidence.ordered(self.order)
        self.failures: dict[int, str] = {}
        """Reasons of the specifications without a start."""
        self.group_counts: dict[int, FloatArray] = {}
        """Rows of the groups that each specification started from last."""
        self.is_interrupted = False

    @property
    def total(self) -> DataMoments:
        """Moments of all rows."""
        return self.summary.moments

    def part(self, sample: Sample) -> Part:
        """The sample in place of all rows."""
        rows = ArrayRows(*sample, n_jobs=1)
        whole = self.summary.total
        total = data_moments(rows, diagonal=whole.scatter.ndim == 1).about(whole.centre)
        return Part(sample, rows, total)

    def ridges(self, within: FloatArray) -> FloatArray:
        """Ridges (B, D) of fits with these variances within clusters."""
        units, total = self.summary.units, self.summary.total
        share = LOW_RANK_RIDGE if self.layout.n_factors else RIDGE
        return make_ridge(self.first.reg_covar, within, units.squares(total.variances), units, share)

    def settings(self, total: DataMoments, ridge: FloatArray, owner: IntArray) -> Settings:
        """Settings of fits of these specifications."""
        units, n_clusters = self.summary.units, self.layout.shares.shape[1]
        models = [self.specifications[number] for number in owner]
        terms = [prior_terms(model.prior, n_clusters, model.covariance, units) for model in models]
        totals = partial(RowTotals.of, units=units, diagonal=self.layout.diagonal, n_fits=len(models))
        whole, complete = map(totals, total)
        return Settings(
            np.array([model.covariance for model in models]),
            ridge,
            PriorTerms(*(np.concatenate(column) for column in zip(*terms, strict=True))),
            *whole,
            complete,
        )

    def problem(
        self, rows: RowSource, total: DataMoments, ridge: FloatArray, owner: IntArray, layout: Layout | None = None
    ) -> Problem:
        """The problem of fitting these specifications to rows."""
        settings, has_missing = self.settings(total, ridge, owner), self.summary.has_missing
        layout = layout or self.layout
        evidence = self.evidence if rows is self.rows else None
        engine, units = self.first.engine, self.summary.units
        source: RowSource | PatternRows = rows
        if isinstance(rows, ArrayRows) and has_missing and evidence is None and not layout.diagonal:
            source = PatternRows.of(rows, units)
        problem = Problem(source, units, layout, settings, engine, has_missing=has_missing, evidence=evidence)
        if isinstance(rows, ArrayRows) and len(rows.X) <= BLOCK_ROWS:
            return problem.keeping_monomials(rows.X, rows.sample_weight)
        return problem

    def tol(self, total: DataMoments, owner: IntArray, least: float = 0.0) -> FloatArray:
        """Tolerances (B,) on the total objective."""
        return np.full(len(owner), max(self.first.tol, least) * total.whole.weight)

    def ascent(
        self,
        problem: Problem,
        starts: Starts,
        total: DataMoments,
        *,
        least_tol: float = 0.0,
        gives_up: bool | None = None,
    ) -> Ascent:
        """The ascents from starts."""
        return Ascent.start(
            problem,
            starts.params,
            self.tol(total, starts.owner, least_tol),
            accelerate=self.first.accelerate,
            gives_up=self.first.gives_up if gives_up is None else gives_up,
        )

    def run(self, ascent: Ascent, title: str, owner: IntArray) -> None:
        """Run ascents to their end. An interrupt ends them, and all later ones, where they are."""
        if self.is_interrupted:
            return
        after_step = None
        is_reported = self.report is not None and title != UNREPORTED
        if is_reported or (self.checkpoint is not None and title == ON_ALL_ROWS):
            after_step = partial(self._after_step, title, owner)
        try:
            ascent.run(self.first.max_iter, after_step)
        except KeyboardInterrupt:
            self.is_interrupted = True

    def _after_step(self, title: str, owner: IntArray, ascent: Ascent) -> None:
        if self.report is not None:
            self.report(ascent, title)
        if self.checkpoint is not None and title == ON_ALL_ROWS and ascent.n_steps % STEPS_BETWEEN == 0:
            self.checkpoint.write(ascent, owner)


def _by_pattern(rows: RowSource) -> tuple[RowSource, IntArray | None]:
    """Rows in memory so ordered that a block has few patterns of missing cells, and their places before."""
    if not isinstance(rows, ArrayRows):
        return rows, None
    order = pattern_order(rows.X)
    return rows.take(order), order


# Choice among ascents ----------------------------------------------------------------------------------------


def are_degenerate(ascent: Ascent) -> BoolArray:
    """Which ascents ended degenerate, (B,); those that failed count as such."""
    is_degenerate = ascent.status == FAILED
    at = np.flatnonzero(~is_degenerate)
    if len(at):
        evaluation, first = take(ascent.state.evaluation, at), ascent.first_covariances[at]
        is_degenerate[at] = soundness.are_degenerate(ascent.problem.take(at), evaluation, first)
    return np.asarray(is_degenerate)


def best_of(ascent: Ascent, places: IntArray, is_degenerate: BoolArray) -> int | None:
    """The best fit: sound if possible, then the likeliest, of equal maxima the first. None if all failed."""
    best: int | None = None
    for at in places:
        if ascent.status[at] == FAILED:
            continue
        if best is not None:
            value, known = ascent.state.evaluation.log_likelihood[[at, best]]
            is_higher = value - known > SAME * abs(known)
            is_worse = is_degenerate[at] and not is_degenerate[best]
            if is_worse or (is_degenerate[at] == is_degenerate[best] and not is_higher):
                continue
        best = int(at)
    return best


def best_of_each(ascent: Ascent, owner: IntArray, is_degenerate: BoolArray) -> dict[int, int]:
    """The best ascent of each specification that has one."""
    found = {
        int(number): best_of(ascent, np.flatnonzero(owner == number), is_degenerate) for number in np.unique(owner)
    }
    return {number: at for number, at in found.items() if at is not None}
