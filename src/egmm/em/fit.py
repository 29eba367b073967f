"""A whole fit: starts, an ascent from each, and the best of those that did not degenerate."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm._progress import Progress
from egmm.em import degenerate
from egmm.em.checkpoint import (
    STEPS_BETWEEN,
    Arrays,
    Checkpoint,
    Progressed,
    pack_ascent,
    pack_random,
    unpack_ascent,
    unpack_random,
)
from egmm.em.covariance import SHARED
from egmm.em.loop import GROWING, Ascent
from egmm.em.parameters import NotPositiveDefiniteError, Parameters, TooFewRowsError
from egmm.em.prior import Prior
from egmm.em.problem import Problem
from egmm.em.start import (
    SAMPLE_ROWS,
    Classical,
    Groups,
    Sample,
    check_distinct,
    component_labels,
    draw_sample,
    focal_weights,
    group_statistics,
    groups_by_means,
    kmeans_labels,
    label_seed,
    make_ridge,
    random_labels,
    sample_seed,
    start_parameters,
)
from egmm.em.statistics import Moments
from egmm.em.statistics import moments as row_moments
from egmm.em.whole import Limits, Wanted, Whole, can_fit_whole, fit_whole
from egmm.rows.array import ArrayRows
from egmm.rows.source import RowSource

CLASSICAL_TOL = 1e-4
"""Tolerance of a classical mixture that is only a start."""

TRIAL_ROWS, TRIAL_TOL = 5_000, 1e-3
"""Rows of a large sample that the classical mixture is fitted to, and the tolerance there."""

REHEARSED, REHEARSAL_TOL = 4, 1e-4
"""Times the sample's weight that rows must have for it to be fitted first, and the tolerance there: its maximum is
further than that from the one of all rows."""

FIRST_LOOK = 10
"""Steps after which an ascent is looked at first for a collapse; then after twice as many, and so on. From a collapse
none comes back, though it may go on for hundreds of steps."""

LATE_LOOK = 160
"""Steps after which hardly any comes back from too few rows in a cluster either, or from one that ran away."""

SAME = 1e-9
"""Share of a log-likelihood by which two ascents to one maximum may differ."""

WHOLE = Limits(
    degenerate.SMALLEST_EIGENVALUE,
    degenerate.FLATTEST,
    degenerate.MOST_RIDGE,
    degenerate.FARTHEST,
    GROWING,
    SAME,
    looks=(FIRST_LOOK, LATE_LOOK),
)
"""The same for compiled fits."""

SECONDS_PER_SET = 25e-9
SECONDS_PER_PRODUCT = 2e-9
SECONDS_TO_COMPILE = 4.0
EXPECTED_PASSES = 60


Start = Groups | Classical | Parameters


@dataclass(frozen=True)
class Options:
    """How to fit, as the estimator's parameters say it."""

    covariance: str
    init: str | FloatArray | IntArray | list[IntArray] | Parameters
    """Name of a start, labels (n,) or several of them, means (C, D), or parameters to go on from."""
    n_init: int
    tol: float
    max_iter: int
    reg_covar: float | str
    accelerate: bool
    engine: str
    verbose: bool
    random: np.random.RandomState
    prior: Prior | None = None
    certainty: float = 0.0
    checkpoint: Path | None = None
    gives_up: bool = False
    """Whether an ascent with own covariances ends where it is seen to have degenerated."""
    seed: Any = None
    """What `random` began with, where that is a number."""
    sample: Sample | None = None
    """Rows that named starts look at, where they have been drawn before."""
    found: Whole | None = None
    """A compiled fit with these options that has been made before."""


class Fit(NamedTuple):
    """The best ascent of a fit."""

    ascent: Ascent
    is_degenerate: bool
    interrupted: bool

    @property
    def log_likelihood(self) -> float:
        """Total log-likelihood."""
        return self.ascent.point.log_likelihood


def choose_engine(
    engine: str, n_rows: float, n_features: int, shares: FloatArray, is_shared: bool, n_passes: int = EXPECTED_PASSES
) -> str:
    """Compile where the passes expected in NumPy would take longer than compiling."""
    if engine != "auto":
        return engine
    n_focal, n_clusters = shares.shape
    products = n_clusters * n_features * (1 if is_shared else n_features)
    seconds = n_rows * (SECONDS_PER_SET * n_focal + SECONDS_PER_PRODUCT * products)
    return "numba" if seconds * n_passes > SECONDS_TO_COMPILE else "numpy"


def fit_mixture(
    rows: RowSource, moments: Moments, shares: FloatArray, options: Options, sample: Sample | None = None
) -> Fit:
    """Ascend from every start; keep the best likelihood, a degenerate one only where there is no other.

    Named starts look at a sample, which is drawn where it is not given.
    """
    return _Fitting(rows, moments, shares, options).run(sample)


class _Fitting:
    """One fit under way."""

    def __init__(self, rows: RowSource, moments: Moments, shares: FloatArray, options: Options) -> None:
        self.rows, self.moments, self.shares, self.options = rows, moments, shares, options
        self.engine = choose_engine(options.engine, *rows.shape, shares, options.covariance in SHARED)
        self.checkpoint = _checkpoint(moments, shares, options, self.engine)
        self.resumed = None if self.checkpoint is None else self.checkpoint.read()
        if self.resumed is not None:
            unpack_random(self.resumed.random, options.random)
        self.random = {} if self.checkpoint is None else pack_random(options.random)
        self.best = self._resumed_best()

    def run(self, sample: Sample | None) -> Fit:
        """Ascend from every start. Interrupted between two of them, the best so far is the result."""
        try:
            return self._run(sample)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return self.best._replace(interrupted=True)

    def _run(self, sample: Sample | None) -> Fit:
        options = self.options
        title = "EGMM" if sample is None else "EGMM, sample"
        is_named = isinstance(options.init, str)
        if is_named and sample is None:
            seed = sample_seed(options.random)
            sample = options.sample or draw_sample(self.rows, seed)
        starts: Iterable[Start | Fit] = start_points(
            self.rows, self.moments, self.shares.shape[1], options, sample, self.engine
        )
        rehearsal = self._rehearse(sample)
        if rehearsal is not None:
            starts = [rehearsal]
        n_starts = options.n_init if is_named and rehearsal is None else 1
        failure: NotPositiveDefiniteError | None = None
        with Progress(title, options.max_iter, enabled=options.verbose) as progress:
            for number, start in enumerate(starts):
                if self.resumed is not None and number < self.resumed.start:
                    continue
                note = f"start {number + 1}/{n_starts}" if n_starts > 1 else ""
                try:
                    fit = self._ascend(number, start, partial(_report, progress, note))
                except NotPositiveDefiniteError as error:
                    failure = error
                    continue
                self.best = _better(self.best, fit)
                if fit.interrupted:
                    return self.best._replace(interrupted=True)
        if self.best is None:
            raise failure or ValueError("no start was tried")
        if self.checkpoint is not None:
            self.checkpoint.remove()
        return self.best

    def _rehearse(self, sample: Sample | None) -> Fit | None:
        """Fit the sample, from every start, where rows are many; None where they are few, or where that degenerates."""
        options = self.options
        if sample is None or not options.accelerate or self.moments.weight <= REHEARSED * sample.weights.sum():
            return None
        options = replace(options, tol=max(options.tol, REHEARSAL_TOL), engine=self.engine)
        with suppress(NotPositiveDefiniteError):
            fit = self._fit_sample(sample, self.shares, options)
            return None if fit.is_degenerate and not fit.interrupted else fit
        return None

    def _ascend(self, number: int, start: Start | Fit, report: Callable[[Ascent], None]) -> Fit:
        """One ascent, or the rest of one that was cut short. Interrupted, it ends where it is."""
        found = self._whole(start)
        ridge, first, interrupted = self._first(start) if found is None else (found.ridge, found.first, False)
        ascent: Ascent | None = None
        try:
            ascent = self._begin(number, start, ridge, first) if found is None else found.ascent(self._problem(ridge))
            watched = self.options.verbose or self.checkpoint is not None
            after_step = partial(self._after_step, number, report) if watched else None
            # What has been given up in compiled code, and is degenerate, has ended.
            is_over = interrupted or (found is not None and found.is_given_up and is_degenerate(ascent, first))
            self._run_ascent(ascent, first, 0 if is_over else self.options.max_iter, after_step)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(_why_not_definite(ascent, error)) from None
        except KeyboardInterrupt:
            if ascent is None:
                raise
            interrupted = True
        return Fit(ascent, is_degenerate(ascent, first), interrupted)

    def _whole(self, start: Start | Fit) -> Whole | None:
        """The fit in compiled code, where it begins with a classical mixture of rows that the sample has all of."""
        if not isinstance(start, Classical) or self.resumed is not None or self.rows.shape[0] > SAMPLE_ROWS:
            return None
        if self.options.found is not None:
            return self.options.found
        options = replace(self.options, engine=self.engine)
        return _fit_whole(self.moments, start.sample, start.label, self.shares, CLASSICAL_TOL, options)

    def _run_ascent(
        self, ascent: Ascent, first: Parameters, n_steps: int, after_step: Callable[[Ascent], None] | None
    ) -> None:
        look = FIRST_LOOK if self.options.gives_up and self.options.covariance not in SHARED else n_steps
        while ascent.n_iter < n_steps and not ascent.converged:
            ascent.run(min(look, n_steps), after_step)
            is_lost = has_collapsed if look < LATE_LOOK else is_degenerate
            # Not in between: an ascent that was cut short and goes on must end as if it had not been.
            if ascent.n_iter == look < n_steps and is_lost(ascent, first):
                return
            look *= 2

    def _begin(self, number: int, start: Start | Fit, ridge: FloatArray, first: Parameters) -> Ascent:
        """An ascent where it was cut short, where the sample's has ended, or at its first parameters."""
        if self.resumed is not None and number == self.resumed.start:
            return self._unpacked(self.resumed.ascent)
        problem, tol = self._problem(ridge), self.options.tol * self.moments.weight
        if isinstance(start, Fit):
            return start.ascent.on_more_rows(problem, tol)
        return Ascent.from_start(problem, first, tol=tol, accelerate=self.options.accelerate)

    def _first(self, start: Start | Fit) -> tuple[FloatArray, Parameters, bool]:
        """Ridge and parameters to begin with, and whether finding them was interrupted."""
        options, interrupted = self.options, False
        if isinstance(start, Fit):
            return start.ascent.problem.ridge, start.ascent.point.params, start.interrupted
        if isinstance(start, Classical):
            start, interrupted = self._classical(start)
        if isinstance(start, Parameters):
            return make_ridge(options.reg_covar, start.covariances, self.moments), start, interrupted
        ridge = make_ridge(options.reg_covar, start.average_covariance()[1], self.moments)
        args = (self.moments, len(self.shares), options.covariance, ridge, options.prior)
        return ridge, start_parameters(start, *args), interrupted

    def _classical(self, start: Classical) -> tuple[Parameters, bool]:
        """Fit mixtures of single clusters to the sample; to the best, the other focal sets come with little weight.

        Returns also whether that was interrupted: the parameters are then the best so far.
        """
        fit: Fit | None = None
        part = start.sample.part(TRIAL_ROWS)
        if len(part.rows) < len(start.sample.rows):
            # Fewer rows will do, if they are enough for every cluster: the ascent with all focal sets is yet to come.
            with suppress(ValueError):
                fit = self._fit_classical(part, start.label, TRIAL_TOL)
        if fit is None or (fit.is_degenerate and not fit.interrupted):
            fit = self._fit_classical(start.sample, start.label, CLASSICAL_TOL)
        params = fit.ascent.point.params
        return params._replace(weights=focal_weights(params.weights, self.shares)), fit.interrupted

    def _fit_classical(self, sample: Sample, label: Callable[[Sample], list[IntArray]], tol: float) -> Fit:
        shares, options = np.eye(self.shares.shape[1]), self.options
        options = replace(options, tol=max(options.tol, tol), verbose=False, gives_up=True)
        with ArrayRows(*sample, n_jobs=1) as rows:
            total = rows.reduce(row_moments).about(self.moments.centre)
            found = _fit_whole(total, sample, label, shares, tol, replace(options, engine=self.engine))
            if found is not None:
                ascent = found.ascent(Problem(rows, total, shares, options.covariance, found.ridge, self.engine))
                return Fit(ascent, is_degenerate(ascent, found.first), interrupted=False)
        return self._fit_sample(sample, shares, replace(options, init=label(sample)))

    def _fit_sample(self, sample: Sample, shares: FloatArray, options: Options) -> Fit:
        """Fit rows of the sample as if they were all."""
        with ArrayRows(*sample, n_jobs=1) as rows:
            total = rows.reduce(row_moments).about(self.moments.centre)
            return fit_mixture(rows, total, shares, replace(options, checkpoint=None), sample)

    def _problem(self, ridge: FloatArray) -> Problem:
        options = self.options
        args = (self.rows, self.moments, self.shares, options.covariance, ridge, self.engine)
        return Problem(*args, options.prior, options.certainty)

    def _after_step(self, number: int, report: Callable[[Ascent], None], ascent: Ascent) -> None:
        report(ascent)
        if self.checkpoint is not None and ascent.n_iter % STEPS_BETWEEN == 0:
            best: Arrays = {}
            if self.best is not None:
                best = {**pack_ascent(self.best.ascent), "is_degenerate": self.best.is_degenerate}
            self.checkpoint.write(Progressed(self.random, number, pack_ascent(ascent), best))

    def _resumed_best(self) -> Fit | None:
        if self.resumed is None or not self.resumed.best:
            return None
        is_worse = bool(self.resumed.best["is_degenerate"])
        return Fit(self._unpacked(self.resumed.best), is_worse, interrupted=False)

    def _unpacked(self, arrays: Arrays) -> Ascent:
        tol = self.options.tol * self.moments.weight
        return unpack_ascent(arrays, self._problem(arrays["ridge"]), tol, self.options.accelerate)


def _fit_whole(
    moments: Moments,
    sample: Sample,
    label: Callable[[Sample], list[IntArray]],
    shares: FloatArray,
    start_tol: float,
    options: Options,
) -> Whole | None:
    """Fit rows, which the sample has all of, in compiled code; None where that is not for it to do."""
    is_ordinary = options.prior is None and options.accelerate and options.engine == "numba"
    if not (is_ordinary and can_fit_whole(len(sample.rows), sample.rows.shape[1], shares)):
        return None
    wanted = Wanted(
        label(sample),
        options.covariance,
        options.reg_covar,
        options.certainty,
        max(options.tol, start_tol),
        options.tol,
        options.max_iter,
        options.gives_up,
    )
    return fit_whole(sample, moments, shares, wanted, WHOLE)


def try_fit(n_rows: int, moments: Moments, shares: FloatArray, options: Options, seed: int) -> Whole | None:
    """Fit the rows of a sample, if these are all, from a classical mixture in compiled code; None if that cannot be."""
    sample = options.sample
    if sample is None or n_rows > SAMPLE_ROWS:
        return None
    check_distinct(sample, shares.shape[1])
    label = partial(component_labels, n_clusters=shares.shape[1], seed=seed, engine="numba")
    return _fit_whole(moments, sample, label, shares, CLASSICAL_TOL, options)


def is_sound(found: Whole, moments: Moments, shares: FloatArray) -> bool:
    """Whether a compiled fit has arrived and is not degenerate."""
    if not (found.is_converged and found.is_doubtful):
        return found.is_converged
    args = (shares, found.params, found.set_counts, found.first)
    return not degenerate.has_degenerated(moments, found.ridge, *args)


def start_points(
    rows: RowSource, moments: Moments, n_clusters: int, options: Options, sample: Sample | None, engine: str
) -> Iterator[Start]:
    """Yield the starts: one per `n_init` for named starts, found on a sample, else the given ones."""
    centre = moments.centre
    if isinstance(options.init, Parameters):
        yield options.init
    elif isinstance(options.init, str):
        assert sample is not None
        check_distinct(sample, n_clusters)
        for _ in range(options.n_init):
            if options.init == "mixture":
                seed = label_seed(options.random)
                yield Classical(sample, partial(component_labels, n_clusters=n_clusters, seed=seed, engine=engine))
                continue
            label = {"kmeans": kmeans_labels, "random": random_labels}[options.init]
            yield Groups(group_statistics(*sample, label(sample, n_clusters, options.random), centre, n_clusters))
    elif isinstance(options.init, list) or options.init.ndim == 1:
        group = partial(group_statistics, centre=centre, n_clusters=n_clusters)
        for labels in options.init if isinstance(options.init, list) else [options.init]:
            yield Groups(rows.reduce(group, labels))
    else:
        means = options.init - centre
        yield Groups(rows.reduce(partial(groups_by_means, centre=centre, means=means)), means)


def is_degenerate(ascent: Ascent, first: Parameters) -> bool:
    """Whether a cluster weighs less than D + 1 rows or has run away, or a covariance has collapsed."""
    problem, point = ascent.problem, ascent.point
    args = (problem.shares, point.params, point.statistics.set_counts, first)
    return degenerate.has_degenerated(problem.moments, problem.ridge, *args)


def has_collapsed(ascent: Ascent, first: Parameters) -> bool:
    """Whether a covariance has hardly any extent left along some direction."""
    return degenerate.has_collapsed(ascent.problem.moments, ascent.problem.ridge, ascent.point.params, first)


def _why_not_definite(ascent: Ascent | None, error: NotPositiveDefiniteError) -> str:
    """Say why there is no next step; without an ascent, why there is no first."""
    n_iter = 0 if ascent is None else ascent.n_iter + 1
    away: list[str] = []
    if ascent is not None:
        problem, point = ascent.problem, ascent.point
        args = (problem.shares, point.params, point.statistics.set_counts)
        found = degenerate.have_run_away(problem.moments, problem.ridge, *args)
        away = [str(k + 1) for k in np.flatnonzero(found)]
    if not away:
        if isinstance(error, TooFewRowsError):
            return f"at iteration {n_iter} {error}"
        return f"covariance is not positive definite at iteration {n_iter} ({error}); raise reg_covar."
    which = f"cluster {away[0]} has" if len(away) == 1 else f"clusters {', '.join(away)} have"
    return (
        f"{which} run away at iteration {n_iter}, far beyond all rows: none is of such a cluster alone, and "
        "meta-clusters are likelier without it; use fewer clusters, another start or one covariance for all, "
        "such as 'EEE'."
    )


def _better(best: Fit | None, fit: Fit) -> Fit:
    """The sound one, else the likelier; of two at one maximum, whose clusters may be numbered otherwise, the first."""
    if best is None:
        return fit
    if best.is_degenerate != fit.is_degenerate:
        return fit if best.is_degenerate else best
    rise = fit.log_likelihood - best.log_likelihood
    return fit if rise > SAME * abs(best.log_likelihood) else best


def _checkpoint(moments: Moments, shares: FloatArray, options: Options, engine: str) -> Checkpoint | None:
    if options.checkpoint is None:
        return None
    priors = (options.certainty, *(() if options.prior is None else options.prior))
    settings = (options.covariance, options.n_init, options.tol, options.reg_covar, options.accelerate, options.seed)
    start = options.init if isinstance(options.init, Parameters) else (options.init,)
    return Checkpoint(options.checkpoint, [*moments, shares, engine, *settings, *start, *priors])


def _report(progress: Progress, prefix: str, ascent: Ascent) -> None:
    mean = ascent.point.log_likelihood / ascent.problem.moments.weight
    progress.update(ascent.n_iter, f"{prefix} mean log-likelihood {mean:.6f}".strip())
