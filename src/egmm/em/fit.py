"""Whole fits: starts, ascents from them, and the best that did not degenerate, for one model or many.

    rows -> summarise -> DataSummary -+-> starts -> classical mixtures -> sample -> all rows -> FitResult
    models -> Specification ----------+

Models of as many clusters and of one form are fitted together, as a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em import soundness
from egmm.em.ascent import CONVERGED, FAILED, LOST, Ascent
from egmm.em.checkpoint import STEPS_BETWEEN, Checkpoint
from egmm.em.completion import DataMoments, data_moments
from egmm.em.covariance import is_diagonal, monomial_kind
from egmm.em.criteria import SAME, ebic_of, n_free_parameters
from egmm.em.estep import entropy
from egmm.em.evidence import Evidence, gather, matched_seeds, seeds
from egmm.em.failure import why_not
from egmm.em.incomplete import pattern_order
from egmm.em.mstep import Layout, RowTotals, Settings, are_determined, overlap_matrices, warn_no_mass
from egmm.em.noise import Box, likely_clean, with_noise
from egmm.em.parameters import Parameters, concatenated, is_empty, put, take
from egmm.em.prior import Prior, PriorTerms, prior_terms
from egmm.em.problem import Evaluation, Problem
from egmm.em.sample import Sample
from egmm.em.start import (
    LOW_RANK_RIDGE,
    RIDGE,
    Groups,
    focal_weights,
    group_sums,
    make_ridge,
    start_parameters,
    sums_by_means,
    sums_by_seeds,
)
from egmm.em.statistics import Moments, Statistics
from egmm.em.summary import DataSummary, check_distinct
from egmm.em.tails import FIRST_DEGREES
from egmm.rows.array import ArrayRows
from egmm.rows.source import BLOCK_ROWS, RowSource

CLASSICAL_TOL = 1e-4
"""Tolerance of a classical mixture used as a start."""

TRIAL_ROWS, TRIAL_TOL = 5_000, 1e-3
"""Rows of a large sample that the classical mixture is fitted to, and the tolerance there."""

MANY_TIMES, SAMPLE_TOL = 4, 1e-4
"""Times the sample's weight that rows must have for the sample to be fitted first, and the tolerance there: its maximum
is further than that from the one of all rows."""

SECONDS_PER_SET = 25e-9
SECONDS_PER_PRODUCT = 2e-9
LEAST_SECONDS = 10.0
"""Seconds of NumPy passes above which the kernel is worth compiling."""

EXPECTED_PASSES = 60

MOST_SEEDS = 20_000
"""Maximum number of labelled rows used by a start."""
FALLS = 2
"""The search for the number of factors stops after this many consecutive values without a higher EBIC."""


@dataclass(frozen=True)
class Specification:
    """A model to fit, with its settings."""

    covariance: str
    """One of the 14 codes, or 'low-rank'."""
    shares: FloatArray
    """(M, C) W of the focal sets."""
    init: str | FloatArray | IntArray | Parameters
    """Name of a start, labels (n,), means (C, D), or the parameters of a fit to go on from."""
    n_init: int = 1
    tol: float = 1e-6
    max_iter: int = 1000
    reg_covar: float | str = "auto"
    prior: Prior | None = None
    certainty: float = 0.0
    accelerate: bool = True
    engine: str = "numpy"
    gives_up: bool = False
    """Whether an ascent with covariances of the clusters' own ends where it is seen to have degenerated."""
    evidence: Evidence | None = None
    """Labels and links of the rows."""
    noise: Box | None = None
    """Bounding box of noise, if the empty set is a focal set."""
    tails: bool = False
    """Whether tails are heavy."""
    n_factors: int = 0
    """Number of factors of a low-rank covariance, or the maximum if `chooses_factors`."""
    chooses_factors: bool = False
    """Whether EBIC chooses the number of factors."""

    @property
    def is_named(self) -> bool:
        """Whether the start is found on a sample."""
        return isinstance(self.init, str)

    @property
    def form(self) -> tuple[Any, ...]:
        """Properties that models must share to be fitted together."""
        kind, diagonal = monomial_kind(self.covariance), is_diagonal(self.covariance)
        return self.shares.shape, self.shares.tobytes(), kind, diagonal, self.n_factors


@dataclass(frozen=True)
class FitResult:
    """A fit: parameters in the units of the data, and how it ended."""

    specification: Specification
    problem: Problem
    """A batch of one fit."""
    evaluation: Evaluation
    history: FloatArray
    """Log-likelihood at the start and after every step."""
    is_converged: bool
    is_degenerate: bool
    is_given_up: bool
    """Whether the ascent was stopped because it degenerated."""
    is_interrupted: bool

    @property
    def log_likelihood(self) -> float:
        """Total log-likelihood."""
        return float(self.evaluation.log_likelihood[0])

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(self.problem.settings.weight[0])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters."""
        one = self.specification
        args = (self.means.shape[1], one.shares, one.covariance, one.certainty, self.weight, one.n_factors)
        return n_free_parameters(self.weights, *args, tails=one.tails)

    @property
    def entropy(self) -> float:
        """Total entropy of the rows' masses."""
        return float(entropy(self.evaluation.statistics, self.evaluation.model)[0])

    @property
    def weights(self) -> FloatArray:
        """(M,)."""
        return self.evaluation.params.weights[0]

    @property
    def means(self) -> FloatArray:
        """(C, D)."""
        units = self.problem.units
        return np.asarray(self.evaluation.params.means[0] * units.scale + units.centre)

    @property
    def degrees(self) -> float | None:
        """Degrees of freedom, where tails are heavy."""
        found = self.evaluation.params.degrees
        return None if found is None else float(found[0])

    @property
    def covariances(self) -> FloatArray:
        """(D, D) or (D,) where clusters share it, (C, D, D) or (C, D) else; diagonal models have variances alone.

        Low-rank ones, (D, 1 + q), have noise variances beside loadings.
        """
        return self._out(self.evaluation.params.covariances[0])

    def _out(self, covariances: FloatArray) -> FloatArray:
        layout = self.problem.layout
        found = self.problem.units.covariances_out(covariances, diagonal=layout.diagonal)
        return found[0] if layout.is_shared else found


class Failure(NamedTuple):
    """The reason why there is no fit."""

    message: str


def choose_engine(engine: str, seconds: float) -> str:
    """Engine of a job with this many seconds of NumPy passes."""
    if engine != "auto":
        return engine
    return "numba" if seconds > LEAST_SECONDS else "numpy"


def seconds_in_numpy(size: tuple[float, int], shares: FloatArray, covariance: str) -> float:
    """About what one pass takes over rows of this size, (n_rows, n_features)."""
    (n_rows, n_features), (n_focal, n_clusters) = size, shares.shape
    kind = monomial_kind(covariance, is_absolute=bool(is_empty(shares).any()))
    n_products = {"linear": n_features, "diagonal": 2 * n_features, "full": n_features * n_features}[kind]
    return n_rows * (SECONDS_PER_SET * n_focal + SECONDS_PER_PRODUCT * n_clusters * n_products)


Report = Callable[[Ascent, str], None]


def fit(
    rows: RowSource,
    summary: DataSummary,
    specification: Specification,
    *,
    report: Report | None = None,
    checkpoint: Checkpoint | None = None,
) -> FitResult:
    """Fit one model.

    Raises
    ------
    ValueError
        Where there is no start, or no ascent from one that can be finished.
    """
    result = fit_all(rows, summary, [specification], report=report, checkpoint=checkpoint)[0]
    if isinstance(result, Failure):
        raise ValueError(result.message)
    return result


def fit_all(
    rows: RowSource,
    summary: DataSummary,
    specifications: Sequence[Specification],
    *,
    report: Report | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[FitResult | Failure]:
    """Fit models of one form together; they differ in covariance model and prior alone."""
    if specifications[0].chooses_factors:
        return [_with_best_factors(rows, summary, one, report) for one in specifications]
    batch = _Batch(rows, summary, specifications, report, checkpoint)
    return batch.run()


def _with_best_factors(
    rows: RowSource, summary: DataSummary, specification: Specification, report: Report | None
) -> FitResult | Failure:
    """The fit whose number of factors has the highest EBIC; each begins where the one of fewer factors has ended."""
    best: FitResult | None = None
    best_ebic, n_lower, init = -np.inf, 0, specification.init
    for n_factors in range(1, specification.n_factors + 1):
        one = replace(specification, n_factors=n_factors, chooses_factors=False, init=init)
        result = fit_all(rows, summary, [one], report=report)[0]
        if isinstance(result, Failure):
            return best or result
        ebic = ebic_of(result.log_likelihood, result.n_parameters, result.weight)
        n_lower = 0 if ebic > best_ebic else n_lower + 1
        if n_lower == 0:
            best, best_ebic = result, ebic
        if n_lower == FALLS or result.is_interrupted:
            break
        params = result.evaluation.params
        nothing = np.zeros_like(params.covariances[..., :1])
        init = params._replace(covariances=np.concatenate([params.covariances, nothing], axis=-1))
    assert best is not None
    return best


class Starts(NamedTuple):
    """Starts of ascents."""

    params: Parameters
    ridge: FloatArray
    """(B, D)."""
    owner: IntArray
    """(B,) number of the specification each is a start of."""


class _Batch:
    """State of the fits of one form."""

    def __init__(
        self,
        rows: RowSource,
        summary: DataSummary,
        specifications: Sequence[Specification],
        report: Report | None,
        checkpoint: Checkpoint | None,
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
        self.group_counts: dict[int, FloatArray] = {}
        """Rows of the groups that each specification started from last."""
        self.is_interrupted = False

    def run(self) -> list[FitResult | Failure]:
        """Ascend from every start; keep the best of each model, a degenerate one only if there is no other."""
        resumed = None if self.checkpoint is None else self.checkpoint.read()
        try:
            if resumed is not None:
                ascent, owner = self._resumed(resumed)
            else:
                ascent, owner = self._begin()
        except ValueError as error:
            return [Failure(str(error))] * len(self.specifications)
        self._run(ascent, "EGMM", owner)
        if self.checkpoint is not None and not self.is_interrupted:
            self.checkpoint.remove()
        best = self._best(ascent, owner)
        return [
            self._result(ascent, best[number]) if number in best else Failure(self._why(number, ascent, owner))
            for number in range(len(self.specifications))
        ]

    # Stages --------------------------------------------------------------------------------------------------

    def _begin(self) -> tuple[Ascent, IntArray]:
        """The ascents on all rows, before their first step."""
        starts = self._starts()
        on_sample = self._on_sample(starts)
        if on_sample is not None:
            ascent, owner = on_sample
            problem = self._problem(self.rows, self._total(), ascent.problem.settings.ridge, owner)
            return ascent.on_more_rows(problem, self._tol(self._total(), owner, 0.0)), owner
        problem = self._problem(self.rows, self._total(), starts.ridge, starts.owner)
        return self._ascent(problem, starts, self._total()), starts.owner

    def _on_sample(self, starts: Starts) -> tuple[Ascent, IntArray] | None:
        """The best ascents on the sample; None if there are too few rows for sampling."""
        sample, total = self.summary.sample, self._total()
        if not self.first.is_named or not self.first.accelerate or sample is None or self.evidence is not None:
            return None
        if total.whole.weight <= MANY_TIMES * sample.weights.sum():
            return None
        part = self._part(sample)
        problem = self._problem(part.rows, part.total, starts.ridge, starts.owner)
        ascent = self._ascent(problem, starts, part.total, least_tol=SAMPLE_TOL)
        self._run(ascent, "EGMM, sample", starts.owner)
        best = self._best(ascent, starts.owner)
        is_degenerate = soundness.are_degenerate(ascent.problem, ascent.state.evaluation, ascent.first_covariances)
        kept = {number: at for number, at in best.items() if not is_degenerate[at] or self.is_interrupted}
        if len(kept) < len(self.specifications):
            # Fits that fail on the sample may succeed on all rows: they begin at their starts.
            return None if not kept else self._mixed(ascent, starts, kept)
        at = np.array([kept[number] for number in sorted(kept)])
        return _taken(ascent, at), np.array(sorted(kept))

    def _mixed(self, ascent: Ascent, starts: Starts, kept: dict[int, int]) -> tuple[Ascent, IntArray]:
        """Ascents that continue from the sample, or from their starts if the sample failed."""
        places = [at for at in range(len(starts.owner)) if kept.get(int(starts.owner[at]), at) == at]
        taken, owner = _taken(ascent, np.array(places)), starts.owner[places]
        for slot, at in enumerate(places):
            if int(owner[slot]) not in kept:
                begun = take(starts.params, np.array([at]))
                put(taken.state.evaluation.params, np.array([slot]), begun)
                taken.state.memory.n_kept[slot] = 0
        return taken, owner

    def _starts(self) -> Starts:
        """Starting points of the ascents; with noise also those computed from rows with close neighbours."""
        if isinstance(self.first.init, Parameters):
            return self._from_parameters(self.first.init)
        if self.layout.noise is None:
            starts = self._starts_on(self.summary.sample)
            degrees = np.full(len(starts.owner), FIRST_DEGREES) if self.layout.tails else None
            return starts._replace(params=starts.params._replace(degrees=degrees))
        samples = [self.summary.sample]
        if samples[0] is not None:
            samples.append(likely_clean(self.summary.completed(samples[0]), self.summary.units))
        found, failure = [], ValueError()
        for sample in samples:
            try:
                found.append(self._starts_on(sample))
            except ValueError as error:
                failure = error
        if not found:
            raise failure
        starts, shares = concatenated(found), self.layout.shares
        weights = starts.params.weights
        if not (isinstance(self.first.init, str) and self.first.init == "mixture"):
            # Means that noise has drawn away are brought back before meta-clusters can do a cluster's work.
            weights = focal_weights(np.ones((len(weights), shares.shape[1])), shares)
        weights = with_noise(weights, is_empty(shares))
        return starts._replace(params=starts.params._replace(weights=weights))

    def _starts_on(self, sample: Sample | None) -> Starts:
        """Named starts on a sample, or a given start."""
        first, n_clusters = self.first, self.layout.shares.shape[1]
        assert not isinstance(first.init, Parameters)
        if isinstance(first.init, str) and self.evidence is not None and self.evidence.has_labels:
            return self._from_evidence(self.evidence)
        if isinstance(first.init, str):
            assert sample is not None
            check_distinct(sample, n_clusters)
            if first.init == "mixture":
                return self._classical(sample)
            labellings = self.summary.labellings(n_clusters, first.init, first.n_init, sample)
            return self._from_labels(self._part(sample), [one[0] for one in labellings], self.layout)
        kind, units = self.layout.start_kind, self.summary.units
        options: dict[str, Any] = {"units": units, "kind": kind, "completion": self.summary.completion}
        given = None
        if first.init.ndim == 1:
            labels = first.init if self.order is None else first.init[self.order]
            statistics = self.rows.reduce(partial(group_sums, n_clusters=n_clusters, **options), labels)
        else:
            means = np.asarray(first.init, dtype=np.float64)
            given = (means - units.centre) / units.scale
            statistics = self.rows.reduce(partial(sums_by_means, means=means, **options))
        return self._from_groups([statistics], given, self._total(), self.layout)

    def _from_evidence(self, evidence: Evidence) -> Starts:
        """Starts from the means of labelled rows, and from unlabelled ones whose clusters are matched to the labels."""
        units, completion, sample = self.summary.units, self.summary.completion, self.summary.sample
        kind, n_clusters = "diagonal" if self.layout.diagonal else "full", self.layout.shares.shape[1]
        places = np.flatnonzero(evidence.crisp >= 0)[:MOST_SEEDS]
        labelled, labels = gather(self.rows, places, len(evidence.crisp))[0], evidence.crisp[places]
        assert sample is not None
        assert isinstance(self.first.init, str)
        others = units.rows(self.summary.completed(sample).rows)
        rows = units.rows(labelled if completion is None else completion(labelled))
        found = [seeds(rows, labels, others, n_clusters)]
        for labellings in self.summary.labellings(n_clusters, self.first.init, self.first.n_init, sample):
            found.extend(matched_seeds(rows, labels, others, one, n_clusters) for one in labellings)
        groups = [partial(sums_by_seeds, units=units, seeds=one, kind=kind, completion=completion) for one in found]
        sums = [self.rows.reduce(group, evidence.crisp) for group in groups]
        return self._from_groups(sums, None, self._total(), self.layout)

    def _from_parameters(self, params: Parameters) -> Starts:
        owner = np.arange(len(self.specifications))
        repeated = take(params, np.zeros(len(owner), dtype=np.int64))
        return Starts(repeated, self._ridges(repeated.variances.mean(axis=1)), owner)

    def _from_labels(self, part: "_Part", labels: list[IntArray], layout: Layout) -> Starts:
        args = (self.summary.units, layout.shares.shape[1], layout.start_kind)
        rows, weights = self.summary.completed(part.sample)
        sums = [group_sums(rows, weights, one, *args) for one in labels]
        return self._from_groups(sums, None, part.total, layout)

    def _from_groups(
        self, sums: list[Statistics], given: FloatArray | None, total: DataMoments, layout: Layout
    ) -> Starts:
        """Starts of every model from every grouping."""
        n_models = len(self.specifications)
        statistics = concatenated(sums * n_models)
        owner = np.repeat(np.arange(n_models), len(sums))
        groups = Groups.of(statistics, given, diagonal=layout.start_kind == "diagonal")
        self.group_counts |= dict(zip(owner.tolist(), groups.moments.counts, strict=True))
        ridge = self._ridges(groups.variances)
        settings = self._settings(total, ridge, owner)
        return Starts(start_parameters(groups, settings, layout), ridge, owner)

    def _classical(self, sample: Sample) -> Starts:
        """Mixtures of single clusters, fitted to the sample; the other focal sets join the best with little weight."""
        n_clusters = self.layout.shares.shape[1]
        options: dict[str, Any] = {"pools": self.summary.has_missing, "n_factors": self.first.n_factors}
        layout = Layout.of(self.first.covariance, np.eye(n_clusters), self.layout.scale, **options)
        found: dict[tuple[int, int], Parameters] = {}
        part = sample.part(TRIAL_ROWS)
        stages = [(part, TRIAL_TOL, True), (sample, CLASSICAL_TOL, False)]
        for rows, tol, is_trial in stages if len(part.rows) < len(sample.rows) else stages[1:]:
            # Fewer rows will do, if they are enough for every cluster: the ascent with all focal sets is yet to come.
            wanted = [key for key in self._classical_keys() if key not in found]
            if not wanted:
                break
            try:
                labellings = self.summary.labellings(n_clusters, "mixture", self.first.n_init, rows)
            except ValueError:
                if is_trial:
                    continue
                raise
            found |= self._fit_classical(self._part(rows), labellings, layout, tol, wanted, keep_all=not is_trial)
        if not found:
            raise ValueError(next(iter(self.failures.values())))
        keys = sorted(found)
        params = concatenated([found[key] for key in keys])
        params = params._replace(weights=focal_weights(params.weights, self.layout.shares))
        owner = np.array([number for number, _ in keys])
        return Starts(params, self._ridges(params.variances.mean(axis=1)), owner)

    def _classical_keys(self) -> list[tuple[int, int]]:
        """Number of the specification and of its start."""
        return [(number, start) for number in range(len(self.specifications)) for start in range(self.first.n_init)]

    def _fit_classical(
        self,
        part: "_Part",
        labellings: list[list[IntArray]],
        layout: Layout,
        tol: float,
        wanted: list[tuple[int, int]],
        *,
        keep_all: bool,
    ) -> dict[tuple[int, int], Parameters]:
        """The best mixture of each start; degenerate ones only on request."""
        starts = self._from_labels(part, [one for labels in labellings for one in labels], layout)
        numbers = np.repeat(np.arange(len(labellings)), [len(labels) for labels in labellings])
        start_of = np.tile(numbers, len(self.specifications))
        is_wanted = np.array([(owner, start) in wanted for owner, start in zip(starts.owner, start_of, strict=True)])
        starts, start_of = take(starts, is_wanted), start_of[is_wanted]
        problem = self._problem(part.rows, part.total, starts.ridge, starts.owner, layout)
        ascent = self._ascent(problem, starts, part.total, least_tol=tol, gives_up=True)
        self._run(ascent, "", starts.owner)
        found: dict[tuple[int, int], Parameters] = {}
        for number, start in wanted:
            of_start = np.flatnonzero((starts.owner == number) & (start_of == start))
            at = _best_of(ascent, of_start)
            if at is None:
                self.failures[number] = self._why_not(ascent, int(of_start[0]), number)
            elif keep_all or self.is_interrupted or not _is_degenerate(ascent, at):
                found[number, start] = take(ascent.state.evaluation.params, np.array([at]))
        return found

    # Pieces --------------------------------------------------------------------------------------------------

    def _total(self) -> DataMoments:
        return self.summary.moments

    def _part(self, sample: Sample) -> "_Part":
        """The sample in place of all rows."""
        rows = ArrayRows(*sample, n_jobs=1)
        whole = self.summary.total
        total = data_moments(rows, diagonal=whole.scatter.ndim == 1).about(whole.centre)
        return _Part(sample, rows, total)

    def _ridges(self, within: FloatArray) -> FloatArray:
        units, total = self.summary.units, self.summary.total
        share = LOW_RANK_RIDGE if self.layout.n_factors else RIDGE
        return make_ridge(self.first.reg_covar, within, units.squares(total.variances), units, share)

    def _settings(self, total: DataMoments, ridge: FloatArray, owner: IntArray) -> Settings:
        units, n_clusters = self.summary.units, self.layout.shares.shape[1]
        models = [self.specifications[number] for number in owner]
        terms = [prior_terms(model.prior, n_clusters, model.covariance, units) for model in models]
        whole, complete = (self._row_totals(part, len(models)) for part in total)
        return Settings(
            np.array([model.covariance for model in models]),
            ridge,
            PriorTerms(*(np.concatenate(column) for column in zip(*terms, strict=True))),
            *whole,
            complete,
        )

    def _row_totals(self, total: Moments, n_fits: int) -> RowTotals:
        scatter = self.summary.units.covariances_in(total.scatter, diagonal=total.scatter.ndim == 1)
        if self.layout.diagonal and scatter.ndim == 2:
            scatter = np.diagonal(scatter)
        return RowTotals(np.full(n_fits, total.weight), np.broadcast_to(scatter, (n_fits, *scatter.shape)))

    def _problem(
        self, rows: RowSource, total: DataMoments, ridge: FloatArray, owner: IntArray, layout: Layout | None = None
    ) -> Problem:
        settings, has_missing = self._settings(total, ridge, owner), self.summary.has_missing
        layout = layout or self.layout
        evidence = self.evidence if rows is self.rows else None
        engine, units = self.first.engine, self.summary.units
        problem = Problem(rows, units, layout, settings, engine, has_missing=has_missing, evidence=evidence)
        if isinstance(rows, ArrayRows) and len(rows.X) <= BLOCK_ROWS:
            return problem.keeping_monomials(rows.X, rows.sample_weight)
        return problem

    def _tol(self, total: DataMoments, owner: IntArray, least: float) -> FloatArray:
        return np.full(len(owner), max(self.first.tol, least) * total.whole.weight)

    def _ascent(
        self,
        problem: Problem,
        starts: Starts,
        total: DataMoments,
        *,
        least_tol: float = 0.0,
        gives_up: bool | None = None,
    ) -> Ascent:
        return Ascent.start(
            problem,
            starts.params,
            self._tol(total, starts.owner, least_tol),
            accelerate=self.first.accelerate,
            gives_up=self.first.gives_up if gives_up is None else gives_up,
        )

    def _run(self, ascent: Ascent, title: str, owner: IntArray) -> None:
        """Run ascents to their end. An interrupt ends them, and all later ones, where they are."""
        if self.is_interrupted:
            return
        is_last = title == "EGMM"
        after_step = None
        if (self.report is not None and title) or (self.checkpoint is not None and is_last):
            after_step = partial(self._after_step, title, owner)
        try:
            ascent.run(self.first.max_iter, after_step)
        except KeyboardInterrupt:
            self.is_interrupted = True

    def _after_step(self, title: str, owner: IntArray, ascent: Ascent) -> None:
        if self.report is not None:
            self.report(ascent, title)
        if self.checkpoint is not None and title == "EGMM" and ascent.n_steps % STEPS_BETWEEN == 0:
            self.checkpoint.write(ascent, owner)

    def _resumed(self, arrays: dict[str, Any]) -> tuple[Ascent, IntArray]:
        owner, ridge = arrays.pop("owner"), arrays.pop("ridge")
        problem = self._problem(self.rows, self._total(), ridge, owner)
        assert self.checkpoint is not None
        tol = self._tol(self._total(), owner, 0.0)
        options = {"accelerate": self.first.accelerate, "gives_up": self.first.gives_up}
        return self.checkpoint.unpack(arrays, problem, tol, **options), owner

    # Results -------------------------------------------------------------------------------------------------

    def _best(self, ascent: Ascent, owner: IntArray) -> dict[int, int]:
        """The best ascent of each specification that has one."""
        found = {
            number: _best_of(ascent, np.flatnonzero(owner == number)) for number in range(len(self.specifications))
        }
        return {number: at for number, at in found.items() if at is not None}

    def _result(self, ascent: Ascent, at: int) -> FitResult:
        is_converged = ascent.status[at] == CONVERGED and not self.is_interrupted
        if not self.layout.is_exact:
            counts = ascent.state.evaluation.statistics.set_counts[[at]]
            overlap = overlap_matrices(counts, self.layout.shares)
            if not are_determined(overlap)[0]:
                warn_no_mass(overlap[0].diagonal(), overlap[0])
        return FitResult(
            self.specifications[int(self._owner_of(ascent, at))],
            ascent.problem.take(np.array([at])),
            take(ascent.state.evaluation, np.array([at])),
            ascent.log_likelihoods(at),
            bool(is_converged),
            _is_degenerate(ascent, at),
            bool(ascent.status[at] == LOST),
            self.is_interrupted,
        )

    def _owner_of(self, ascent: Ascent, at: int) -> int:
        model = str(ascent.problem.settings.model[at])
        return next(n for n, one in enumerate(self.specifications) if one.covariance == model)

    def _why(self, number: int, ascent: Ascent, owner: IntArray) -> str:
        """Reason why a specification has no fit."""
        of_model = np.flatnonzero(owner == number)
        if not len(of_model):
            return self.failures[number]
        return self._why_not(ascent, int(of_model[-1]), number)

    def _why_not(self, ascent: Ascent, at: int, number: int) -> str:
        return why_not(ascent, at, self.specifications[number].covariance, self.group_counts.get(number))


class _Part(NamedTuple):
    """Rows of a sample, and their moments about the centre of all rows."""

    sample: Sample
    rows: ArrayRows
    total: DataMoments


def _by_pattern(rows: RowSource) -> tuple[RowSource, IntArray | None]:
    """Rows in memory so ordered that a block has few patterns of missing cells, and their places before."""
    if not isinstance(rows, ArrayRows):
        return rows, None
    order = pattern_order(rows.X)
    return rows.take(order), order


def _taken(ascent: Ascent, at: IntArray) -> Ascent:
    """Some of the ascents."""
    return Ascent(
        ascent.problem.take(at),
        ascent.tol[at],
        ascent.accelerate,
        take(ascent.state, at),
        ascent.first_covariances[at],
        ascent.gives_up,
        ascent.status[at],
        [step[at] for step in ascent.history],
        ascent.n_steps,
    )


def _is_degenerate(ascent: Ascent, at: int) -> bool:
    one = np.array([at])
    evaluation = take(ascent.state.evaluation, one)
    return bool(soundness.are_degenerate(ascent.problem.take(one), evaluation, ascent.first_covariances[one])[0])


def _best_of(ascent: Ascent, places: IntArray) -> int | None:
    """The sound fit, else the likelier one; at equal maxima (up to relabelling), the first."""
    best, best_is_degenerate = None, True
    for at in places:
        if ascent.status[at] == FAILED:
            continue
        is_degenerate = _is_degenerate(ascent, int(at))
        if best is not None:
            value, known = ascent.state.evaluation.log_likelihood[[at, best]]
            is_higher = value - known > SAME * abs(known)
            if (is_degenerate and not best_is_degenerate) or (is_degenerate == best_is_degenerate and not is_higher):
                continue
        best, best_is_degenerate = int(at), is_degenerate
    return best
