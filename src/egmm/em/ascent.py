"""The EM loop for a batch of fits: passes and steps until convergence.

Fits step together and leave the batch as they end. Plain EM stops when the log-likelihood's last gain is below the
tolerance, as the authors' code does. Accelerated EM is plain EM until it crawls; then Anderson's method extrapolates,
a step being kept only if the objective rises, and a fit ends after several steps that gain a fraction of the tolerance.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em.anderson import Memory, extrapolate, metric_of
from egmm.em.cluster_moments import ClusterMoments, second_moments
from egmm.em.layout import Layout
from egmm.em.mstep import overlap_matrices
from egmm.em.parameters import Parameters, put, take
from egmm.em.prior import set_weights
from egmm.em.problem import Evaluation, Problem
from egmm.em.soundness import are_degenerate, have_collapsed
from egmm.em.tails import implied_logs

FEWEST_EM_STEPS = 4
"""Number of EM steps before Anderson acceleration may start."""

CRAWL = 3e-3
"""Gain per unit weight above which EM is not accelerated yet."""

QUIET_STEPS, QUIET = 2, 0.03
"""A fit ends after this many consecutive extrapolated steps that each gain less than this share of the tolerance."""

LEAST_DAMPING = 1e-3
"""Smallest damping factor of a step without gain; below it the fit has converged."""

FALL_BY_ROUNDING = 1e-13
"""Relative decrease of the objective by an EM step that counts as rounding."""

LIGHT, FALLING = 0.1, 0.9
"""A set of several clusters is removed if its count is below this share of the tolerance (about the loss by removal)
and falls to this share or less in a step: its count would decrease without end. Before the fit ends, the set gets
weight again if it would grow."""

TRACE = 1e-13
"""Final weight of removed sets, so that they can grow on other rows."""

REVIVED = 0.1
"""Rows' worth of weight given back to a focal set that has less but grows: near zero that is too slow to be seen."""

GROWTH = 0.01
"""Relative increase of a set's weight in a pass that counts as growth."""

GROWN_STEPS, MOST_GROWN = 16, 4.0
"""Passes of growth that a growing set is given at once, and the most it is multiplied by."""

WORTH_GROWING = 0.01
"""Share of the tolerance that this must gain: what grows gains more with every step."""

MOST_REVIVALS = 5
"""Maximum number of times that light sets get more weight."""

FIRST_LOOK = 10
"""Number of steps before the first test for a collapse, doubled for each further test. No fit recovers from a collapse,
but it may continue for hundreds of steps."""

LATE_LOOK = 160
"""Steps after which fits rarely recover from a cluster with too few rows, or a diverged one."""

RUNNING, CONVERGED, STOPPED, LOST, FAILED = range(5)
"""Status of a fit: running, converged, at the maximum number of steps, stopped as degenerate, or failed in a step."""


class State(NamedTuple):
    """State of the fits of a batch."""

    evaluation: Evaluation
    here: FloatArray
    """(B, size) statistics that made the parameters."""
    memory: Memory
    is_near: BoolArray
    """(B,) whether EM is slow."""
    n_quiet: IntArray
    """(B,) consecutive steps with negligible gain."""
    n_revivals: IntArray

    @classmethod
    def of(cls, problem: Problem, evaluation: Evaluation) -> "State":
        """The state before the first step."""
        n_fits, size = evaluation.vector.shape
        counts = np.zeros(n_fits, dtype=np.int64)
        here = _implied(problem, evaluation)
        return cls(evaluation, here, Memory.empty(n_fits, size), counts > 0, counts, counts.copy())


@dataclass
class Ascent:
    """EM from the starts of a batch."""

    problem: Problem
    tol: FloatArray
    """(B,) on the total objective."""
    accelerate: bool
    state: State
    first_covariances: FloatArray
    """Covariances of the starts, the reference for a collapse."""
    gives_up: bool = False
    """Whether fits with unshared covariances stop when they degenerate."""
    status: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    history: list[FloatArray] = field(default_factory=list)
    """(B,) log-likelihoods at the start and after every step; NaN of fits that have ended."""
    n_steps: int = 0

    @classmethod
    def start(
        cls,
        problem: Problem,
        params: Parameters,
        tol: FloatArray,
        *,
        accelerate: bool,
        gives_up: bool = False,
    ) -> "Ascent":
        """Evaluate the starts, which steps leave as they are."""
        evaluation = problem.evaluate(take(params, np.arange(len(tol))))
        status = np.where(np.isfinite(evaluation.objective), RUNNING, FAILED)
        state = State.of(problem, evaluation)
        first = params.covariances
        return cls(problem, tol, accelerate, state, first, gives_up, status, [evaluation.log_likelihood.copy()])

    def on_more_rows(self, problem: Problem, tol: FloatArray) -> "Ascent":
        """Continue on all rows from the end of this ascent on a sample, keeping its memory."""
        params = self.state.evaluation.params
        ascent = Ascent.start(problem, params, tol, accelerate=self.accelerate, gives_up=self.gives_up)
        factor = float(problem.settings.weight[0] / self.problem.settings.weight[0])
        memory = self.state.memory.times(factor)
        ascent.state = ascent.state._replace(memory=memory, is_near=memory.n_kept > 0)
        ascent.first_covariances = self.first_covariances
        return ascent

    @property
    def is_running(self) -> bool:
        """Whether any fit is running."""
        return bool((self.status == RUNNING).any())

    def log_likelihoods(self, at: int) -> FloatArray:
        """History of one fit."""
        values = np.array([step[at] for step in self.history])
        return values[: np.flatnonzero(~np.isnan(values))[-1] + 1] if not np.isnan(values).all() else values[:1]

    def run(self, max_steps: int, report: Callable[["Ascent"], None] | None = None) -> "Ascent":
        """Step until all fits have ended, or `max_steps` steps; `report` is called after every step."""
        live = np.flatnonzero(self.status == RUNNING)
        problem, state = self._part(live)
        while len(live) and self.n_steps < max_steps:
            try:
                state, status = self._step(problem, state, live)
            except KeyboardInterrupt:
                put(self.state, live, state)
                raise
            self.n_steps += 1
            values = np.full(len(self.status), np.nan)
            values[live] = state.evaluation.log_likelihood
            self.history.append(values)
            self.status[live] = status
            if report is not None or (status != RUNNING).any() or self.n_steps == max_steps:
                put(self.state, live, state)
                live = live[status == RUNNING]
                problem, state = self._part(live)
            if report is not None:
                report(self)
        self.status[live] = STOPPED
        return self

    def _part(self, live: IntArray) -> tuple[Problem, State]:
        return self.problem.take(live), take(self.state, live)

    def _step(self, problem: Problem, state: State, live: IntArray) -> tuple[State, IntArray]:
        """One step of the running fits; returns their states and statuses."""
        if not self.accelerate:
            return self._plain_step(problem, state, self.tol[live])
        tol = self.tol[live]
        before = state.evaluation
        left_out = _light_sets(problem, before, tol)
        state.memory.leave_out(left_out)
        left = before.vector - state.here
        target, lengths = extrapolate(state.memory, before.vector, left, problem.layout.n_counts)
        after, gains = _try(problem, before, target, left_out)
        # An extrapolated step without gain is replaced by EM's step, and the memory is cleared.
        misled = (state.memory.n_kept > 0) & ~(gains >= 0)
        is_bold = (state.memory.n_kept > 0) & ~misled
        _redo(problem, before, before.vector, (target, after, gains), misled)
        state.memory.adapt_reach(lengths, misled)
        state.memory.forget(misled)
        has_arrived = _damp(problem, before, left, (target, after, gains))
        is_lost = _stay_where_lost(before, after, gains)
        was_near = state.is_near & ~misled
        is_near = (self.n_steps + 1 >= FEWEST_EM_STEPS) & (gains < CRAWL * problem.settings.weight)
        learns = was_near & is_near & ~is_lost
        if learns.any():
            change, move = after.vector - target - left, after.vector - before.vector
            state.memory.learn(learns, change, move, partial(_metric_at, after, problem.layout))
        state.memory.forget(~is_near)
        # A small gain of an EM step does not show convergence: count only extrapolated steps, or steps without gain.
        n_quiet = np.where(gains < QUIET * tol, state.n_quiet + (is_bold | (gains <= 0)), 0)
        is_done = has_arrived | (n_quiet >= QUIET_STEPS)
        state = State(after, target, state.memory, is_near, n_quiet, state.n_revivals)
        status = np.where(is_lost, FAILED, RUNNING)
        if (is_done & ~is_lost).any():
            state, is_done = _revive(problem, state, tol, is_done & ~is_lost)
            status = np.where(is_done, CONVERGED, status)
        return state, self._given_up(problem, state, status, live)

    def _plain_step(self, problem: Problem, state: State, tol: FloatArray) -> tuple[State, IntArray]:
        """A step of the paper's EM."""
        before = state.evaluation
        target = before.vector.copy()
        after, gains = _try(problem, before, target)
        has_arrived = np.zeros(len(gains), dtype=bool)
        if not problem.layout.is_exact:
            has_arrived = _damp(problem, before, before.vector - state.here, (target, after, gains))
        is_posterior = problem.layout.certainty > 0 or bool((problem.settings.prior.log_det_count > 0).any())
        rises = gains if is_posterior else after.log_likelihood - before.log_likelihood
        status = np.where(has_arrived | (rises < tol), CONVERGED, RUNNING)
        is_lost = _stay_where_lost(before, after, gains)
        return state._replace(evaluation=after, here=target), np.where(is_lost, FAILED, status)

    def _given_up(self, problem: Problem, state: State, status: IntArray, live: IntArray) -> IntArray:
        """Statuses after stopping degenerate fits; collapses are tested for after 10, 20, 40, ... steps."""
        n_looks = np.log2((self.n_steps + 1) / FIRST_LOOK)
        if not self.gives_up or problem.layout.is_shared:
            return status
        first = self.first_covariances[live]
        is_stuck = status == FAILED
        if is_stuck.any():  # A stuck degenerate fit is stopped, which is not an error.
            status = np.where(is_stuck & are_degenerate(problem, state.evaluation, first), LOST, status)
        is_running = status == RUNNING
        if n_looks < 0 or n_looks != int(n_looks) or not is_running.any():
            return status
        if self.n_steps + 1 < LATE_LOOK:
            is_lost = have_collapsed(state.evaluation.params, first, problem.settings, problem.layout)
        else:
            is_lost = are_degenerate(problem, state.evaluation, first)
        return np.where(is_running & is_lost, LOST, status)


def _implied(problem: Problem, evaluation: Evaluation) -> FloatArray:
    """Statistics that yield the parameters, at the counts of their pass."""
    params, layout = evaluation.params, problem.layout
    moments = ClusterMoments.of(evaluation.vector, layout, params.means.shape[2])
    if layout.is_shared:
        set_counts, rows, tails = moments.set_counts, moments.counts.sum(axis=1), moments.tails
        if params.degrees is not None and tails is not None:
            set_counts, rows = tails[:, :-1], problem.settings.weight
            logs = implied_logs(params.degrees, rows)
            tails = np.concatenate([set_counts, logs[:, None]], axis=1)
        firsts = overlap_matrices(set_counts, layout.shares) @ params.means
        seconds = moments.seconds
        if layout.pools:
            within = second_moments(np.zeros_like(params.means[:, :1]), params.covariances, layout)
            at_means = np.swapaxes(params.means, 1, 2) @ firsts
            at_means = np.einsum("bdd->bd", at_means) if layout.diagonal else at_means
            between = second_moments(np.zeros_like(params.means[:, :1]), at_means[:, None], layout)
            seconds = rows[:, None, None] * within + between
        return moments._replace(firsts=firsts, seconds=seconds, tails=tails).vector(layout)
    counts, scatter_counts = moments.counts[..., None], moments.scatter_counts[..., None]
    at_means = second_moments(params.means, np.zeros_like(params.covariances), layout)
    within = second_moments(np.zeros_like(params.means), params.covariances, layout)
    seconds = scatter_counts * within + counts * at_means
    return moments._replace(firsts=counts * params.means, seconds=seconds).vector(layout)


def _try(
    problem: Problem, before: Evaluation, target: FloatArray, left_out: BoolArray | None = None
) -> tuple[Evaluation, FloatArray]:
    """Evaluate the parameters of statistics, and the gain of the step; -inf if it is not possible."""
    params, is_proper = problem.maximise(target, before.params)
    if left_out is not None and left_out.any():
        weights = np.where(left_out, 0.0, params.weights)
        params = params._replace(weights=weights / weights.sum(axis=1, keepdims=True))
    after = problem.evaluate(params)
    return after, np.where(is_proper, problem.gains(before, after), -np.inf)


def _redo(problem: Problem, before: Evaluation, targets: FloatArray, made: Any, which: BoolArray) -> None:
    """Repeat the steps of some fits with other statistics; `made` is (target, after, gains), updated in place."""
    at = np.flatnonzero(which)
    if not len(at):
        return
    target, after, gains = made
    target[at] = targets[at]
    again, again_gains = _try(problem.take(at), take(before, at), target[at])
    put(after, at, again)
    gains[at] = again_gains


def _damp(problem: Problem, before: Evaluation, left: FloatArray, made: Any) -> BoolArray:
    """Shorten steps without gain; returns the fits that no step improves, which stay in place."""
    _, after, gains = made
    floor = -FALL_BY_ROUNDING * np.abs(before.objective)
    damping = 0.5
    while damping > LEAST_DAMPING and (gains < floor).any():
        _redo(problem, before, before.vector - (1 - damping) * left, made, gains < floor)
        damping *= 0.5
    has_arrived = (gains < floor) & (gains > -np.inf)
    at = np.flatnonzero(has_arrived)
    if len(at):
        put(after, at, take(before, at))
        gains[at] = 0.0
    return np.asarray(has_arrived)


def _stay_where_lost(before: Evaluation, after: Evaluation, gains: FloatArray) -> BoolArray:
    """Keep the fits whose step is not possible where they were; returns which."""
    is_lost = gains == -np.inf
    if is_lost.any():
        put(after, np.flatnonzero(is_lost), take(before, is_lost))
    return np.asarray(is_lost)


def _metric_at(evaluation: Evaluation, layout: Layout, at: IntArray) -> FloatArray:
    return metric_of(evaluation.vector[at], take(evaluation.params, at), layout)


def _light_sets(problem: Problem, evaluation: Evaluation, tol: FloatArray) -> BoolArray:
    """Sets of several clusters with negligible and decreasing counts, (B, M)."""
    counts = evaluation.statistics.set_counts
    expected = (1 + problem.layout.certainty) * problem.settings.weight[:, None] * evaluation.params.weights
    is_light = (counts < LIGHT * tol[:, None]) & (counts < FALLING * expected)
    return np.asarray(is_light & ~problem.layout.single & (counts > 0))


def _revive(problem: Problem, state: State, tol: FloatArray, is_done: BoolArray) -> tuple[State, BoolArray]:
    """Give growing light focal sets more weight at once; returns the state, and the fits that have ended.

    A fit whose light sets grow is at a saddle, not a maximum.
    """
    at = np.flatnonzero(is_done)
    part, done = problem.take(at), take(state, at)
    params, shares = done.evaluation.params, problem.layout.shares
    weights = params.weights
    is_out = weights < TRACE
    asked = done.evaluation
    if is_out.any():  # A removed set can grow only from positive weight.
        asked_weights = np.maximum(weights, TRACE)
        asked_weights /= asked_weights.sum(axis=1, keepdims=True)
        asked = part.evaluate(params._replace(weights=asked_weights))
        is_worse = ~np.isfinite(asked.objective)
        if is_worse.any():
            put(asked, np.flatnonzero(is_worse), take(done.evaluation, is_worse))
        put(state, at, done._replace(evaluation=asked))
    current = asked.params.weights
    following = set_weights(asked.statistics.set_counts, shares, problem.layout.certainty)
    is_growing = following > (1 + GROWTH) * current
    may = is_growing.any(axis=1) & (done.n_revivals < MOST_REVIVALS)
    if not may.any():
        return state, is_done
    # Apply several steps of this growth at once, and give extinct sets a little weight.
    with np.errstate(all="ignore"):
        factors = np.minimum((following / current) ** GROWN_STEPS, MOST_GROWN)
    grown = np.maximum(current * factors, REVIVED / part.settings.weight[:, None])
    weights = np.where(is_growing, grown, current)
    some = np.flatnonzero(may)
    revived_params = take(asked.params, some)._replace(weights=(weights / weights.sum(axis=1, keepdims=True))[some])
    revived = part.take(some).evaluate(revived_params)
    pays = revived.objective - asked.objective[some] > WORTH_GROWING * tol[at][some]
    if not pays.any():
        return state, is_done
    paid = np.flatnonzero(pays)
    fresh = State.of(part.take(some[paid]), take(revived, paid))
    fresh = fresh._replace(n_revivals=done.n_revivals[some[paid]] + 1)
    put(state, at[some[paid]], fresh)
    is_done = is_done.copy()
    is_done[at[some[paid]]] = False
    return state, is_done
