"""The EM loop: passes and steps until the gain that is left is below the tolerance."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from egmm._checks import FloatArray
from egmm.em.accelerate import SUFFICIENT, QuasiNewton
from egmm.em.parameters import NotPositiveDefiniteError, Parameters
from egmm.em.plain import has_plain_steps, make_plain_steps
from egmm.em.prior import set_weights
from egmm.em.problem import Point, Problem

TRAIL = 8
"""EM steps before quasi-Newton may take over."""

SEEN = 3
"""Last points of EM whose gradients are quasi-Newton's first curvature; more of them teach it no more."""

PATIENCE = 12
"""EM goes on while it is predicted to finish within so many passes."""

CRAWL = 1e-3
"""Gain per unit weight below which EM crawls. Above it EM is still finding its basin, where curvature misleads."""

CRAWL_DEAR = 3e-3
"""The same where the M-step is an iteration of its own, which quasi-Newton steps spare."""

REVIVED = 0.1
"""Rows' worth of weight given back to a focal set that has less but grows: near zero that is too slow to be seen."""

GROWTH = 0.01
"""Share by which a pass would raise a set's weight for the set to count as growing."""

GROWN_STEPS, MOST_GROWN = 16, 4.0
"""Passes of growth that a growing set is given at once, and the most it is multiplied by."""

SURE = 0.01
"""Quasi-Newton's word that less than the tolerance is left is taken where EM's own step promises less than this share
of it: of directions it has not been along quasi-Newton knows nothing, and there EM's gains may fall by 1 % a step."""

SURER = 1e-5
"""The share while some set's weight grows: as long as the set is light EM hardly gains by it, later more and more."""

SLOW_GROWTH = 0.25
"""Growth that counts there, in a pass and in square roots of the tolerance per row: a set that grows by a share s
promises some N s^2 / 2."""

WORTH_GROWING = 0.01
"""Share of the tolerance that this must gain: what grows gains more with every step."""

GROWING = (REVIVED, GROWTH, float(GROWN_STEPS), MOST_GROWN, WORTH_GROWING)
"""The same for compiled ascents, which revive as `Ascent._stop_or_revive` does."""


@dataclass
class Ascent:
    """EM from one start: where it is, how it came there, whether it has arrived.

    Plain EM stops when the log-likelihood's last gain is below `tol` (on the total), as the authors' code does; with a
    ridge it may even fall, which stops it too. With a prior it is the posterior's gain. Accelerated EM stops when
    the objective's gain that is still to come is predicted to be below `tol`.
    """

    problem: Problem
    point: Point
    tol: float
    accelerate: bool
    history: list[float] = field(default_factory=list)
    """Log-likelihood at the start and after every step."""
    n_iter: int = 0
    converged: bool = False
    n_passes: int = 1
    trail: list[Point] = field(default_factory=list)
    """The last points EM came through; quasi-Newton learns curvature from them."""
    newton: QuasiNewton | None = None

    @classmethod
    def from_start(cls, problem: Problem, start: Parameters, *, tol: float, accelerate: bool) -> "Ascent":
        """Evaluate the start."""
        point = problem.evaluate(start)
        return cls(problem, point, tol, accelerate, [point.log_likelihood], trail=[point])

    def on_more_rows(self, problem: Problem, tol: float) -> "Ascent":
        """Begin on all rows where this ascent on a sample of them has ended, with the curvature it has met."""
        ascent = Ascent.from_start(problem, self.point.params, tol=tol, accelerate=self.accelerate)
        newton = self.newton or QuasiNewton.from_trail(self.problem, self.trail[-SEEN:])
        ascent.newton = newton.on_more_rows(problem, ascent.point)
        return ascent

    def run(self, max_iter: int, report: Callable[["Ascent"], None] | None = None) -> "Ascent":
        """Step until converged or `max_iter` steps; `report` is called after every step."""
        at_once = not self.accelerate and report is None and has_plain_steps(self.problem)
        while not self.converged and self.n_iter < max_iter:
            if self.newton is not None:
                self._newton_step(self.newton)
            elif not (at_once and self._plain_steps(max_iter - self.n_iter)):
                self._em_step()
            if report is not None:
                report(self)
        return self

    def _plain_steps(self, max_steps: int) -> bool:
        """Make the ordinary steps that come next in one go; False where there is none."""
        point, history = make_plain_steps(self.problem, self.point, self.tol, max_steps)
        self.history += history
        self.n_iter += len(history)
        self.n_passes += len(history)
        self.point, self.trail = point, [point]
        self.converged = bool(history) and self.history[-1] - self.history[-2] < self.tol
        return bool(history)

    def _em_step(self) -> None:
        before = self.point
        self.n_passes += 1
        self._arrive(self.problem.evaluate(self.problem.m_step(before)))
        if not self.accelerate:
            self.converged = self._plain_gain(before) < self.tol
            return
        gains = [self.problem.gain(*points) for points in pairwise(self.trail[-5:])]
        left, rate = _aitken(gains)
        if left < self.tol:
            # A slow mode may hide behind a fast one, or the M-step be at fault: the gradient decides.
            self.newton = QuasiNewton.from_trail(self.problem, self.trail[-SEEN:])
            return
        slow = CRAWL if self.problem.has_exact_m_step else CRAWL_DEAR
        crawls = gains[-1] < slow * self.problem.moments.weight and left * rate**PATIENCE > self.tol
        if crawls and len(self.trail) > TRAIL:
            self.newton = QuasiNewton.from_trail(self.problem, self.trail[-SEEN:])

    def _plain_gain(self, before: Point) -> float:
        if self.problem.has_prior:
            return self.problem.gain(before, self.point)
        return self.point.log_likelihood - before.log_likelihood

    def _newton_step(self, newton: QuasiNewton) -> None:
        with np.errstate(all="ignore"):  # Of a cluster without rows nothing is known: the slope is then no number.
            step, slope = newton.propose()
        is_near = 0.5 * abs(slope) < self.tol
        em_gain = newton.em_gain() if is_near else np.inf
        if em_gain < SURE * self.tol and (em_gain < SURER * self.tol or not self._has_growing_set()):
            self._stop_or_revive()
            return
        # Near the end EM may promise more than quasi-Newton: what was learnt misleads.
        if not slope > 0 or (is_near and em_gain > self.tol):
            self._leave_newton(is_near)
            return
        for _ in range(3):
            point = self._try(partial(newton.params_at, step))
            gain = -np.inf if point is None else self.problem.gain(self.point, point)
            if point is not None and gain >= SUFFICIENT * slope:
                newton.accept(point, step)
                self._arrive(point)
                return
            # The parabola through both values and the slope, kept within sight of the step.
            shrink = float(np.clip(0.5 * slope / (slope - gain), 0.1, 0.5))
            step, slope = step * shrink, slope * shrink
        self._leave_newton(is_near)

    def _next_weights(self) -> FloatArray:
        """Weights of the focal sets after EM's next step."""
        return set_weights(self.point.statistics.set_counts, self.problem.shares, self.problem.certainty)

    def _has_growing_set(self) -> bool:
        growth = SLOW_GROWTH * np.sqrt(self.tol / self.problem.moments.weight)
        return bool((self._next_weights() > (1 + growth) * self.point.params.weights).any())

    def _stop_or_revive(self) -> None:
        """Stop, unless light focal sets still grow: that is a saddle, not a maximum, and gains are yet to come."""
        params, weight = self.point.params, self.problem.moments.weight
        next_weights = self._next_weights()
        growing = next_weights > (1 + GROWTH) * params.weights
        if growing.any():
            # At once what some steps of such growth would make, and of a set that has died out a little.
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                factors = np.minimum((next_weights / params.weights) ** GROWN_STEPS, MOST_GROWN)
            grown = np.maximum(params.weights * factors, REVIVED / weight)
            weights = np.where(growing, grown, params.weights)
            point = self._try(partial(params._replace, weights=weights / weights.sum()))
            if point is not None and point.objective - self.point.objective > WORTH_GROWING * self.tol:
                self._arrive(point)
                self.newton = None
                self.trail = [point]
                return
        self.converged = True

    def _leave_newton(self, is_near: bool) -> None:
        """Go back to EM, which cannot fail; stop where it gains nothing, or no more than was left near the end."""
        before = self.point
        self.newton = None
        self.trail = [before]
        self._em_step()
        gain = self.problem.gain(before, self.point)
        if gain <= 0 or (is_near and gain < self.tol):
            self._stop_or_revive()

    def _try(self, make: Callable[[], Parameters]) -> Point | None:
        """Evaluate the parameters at the end of a step; None where it is out of bounds."""
        self.n_passes += 1
        try:
            with np.errstate(all="ignore"):
                point = self.problem.evaluate(make())
        except (NotPositiveDefiniteError, np.linalg.LinAlgError):
            return None
        return point if np.isfinite(point.objective) else None

    def _arrive(self, point: Point) -> None:
        self.point = point
        self.n_iter += 1
        self.history.append(point.log_likelihood)
        self.trail = [*self.trail[-TRAIL:], point]


def _aitken(gains: list[float]) -> tuple[float, float]:
    """Gain still to come, and the rate at which gains fall, if they go on as the last four did."""
    if len(gains) < 4:
        return np.inf, 1.0
    if gains[-1] <= 0:
        return 0.0, 0.0
    # The slowest of the last three rates: a rate seen once may be the end of a fast mode before a slow one.
    rate = max(after / before if before > 0 else np.inf for before, after in pairwise(gains))
    if not rate < 1:
        return np.inf, 1.0
    return gains[-1] * rate / (1 - rate), rate
