"""Anderson's method: EM's steps extrapolated in the space of statistics, for every fit of a batch.

A step of EM maps statistics to statistics: parameters are made of them, and a pass over the rows with these parameters
gives new ones. The method needs neither coordinates of a covariance model nor a gradient, and wherever it leads, the
parameters made of the statistics belong to the model (Anderson 1965; Walker and Ni 2011).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em.cluster_moments import ClusterMoments
from egmm.em.layout import Layout
from egmm.em.parameters import Parameters
from egmm.em.statistics import products
from egmm.em.tails import tail_metric

MEMORY = 10
"""Number of steps remembered."""

GRAM_RIDGE = 1e-10
"""Relative ridge on the products of changes, which may be nearly dependent."""

LEAST_COUNT = 0.1
"""Lower bound of an extrapolated count relative to EM's."""

FIRST_REACH, FARTHER = 16.0, 4.0
"""How far an extrapolation may lead at first, in lengths of EM's own step, and what the limit is multiplied by after a
step that gains and divided by after one that does not: on a plateau slow modes look like none."""

NEGLIGIBLE_COUNT = 1e-3
"""Lower bound of counts in the metric."""


class Memory(NamedTuple):
    """Changes over the last steps."""

    changes: FloatArray
    """(B, MEMORY, size) changes of the residual (EM's step) between steps."""
    moves: FloatArray
    """(B, MEMORY, size) changes of EM's results between steps."""
    metric: FloatArray
    """(B, size) weights in which residuals are measured."""
    n_kept: np.ndarray
    """(B,) steps remembered."""
    reach: FloatArray
    """(B,) limit of an extrapolation, in lengths of EM's step."""

    @classmethod
    def empty(cls, n_fits: int, size: int) -> "Memory":
        """An empty memory."""
        steps = (n_fits, MEMORY, size)
        n_kept, reach = np.zeros(n_fits, dtype=np.int64), np.full(n_fits, FIRST_REACH)
        return cls(np.zeros(steps), np.zeros(steps), np.ones((n_fits, size)), n_kept, reach)

    def times(self, factor: float) -> "Memory":
        """The memory scaled to `factor` times as many rows."""
        return Memory(
            factor * self.changes, factor * self.moves, self.metric / factor, self.n_kept.copy(), self.reach.copy()
        )

    def forget(self, which: BoolArray) -> None:
        """Forget the steps of some fits."""
        self.n_kept[which] = 0

    def learn(
        self, which: BoolArray, change: FloatArray, move: FloatArray, metric_at: Callable[[IntArray], FloatArray]
    ) -> None:
        """Remember a step of some fits, replacing the oldest; the first sets the metric."""
        at = np.flatnonzero(which)
        first = at[self.n_kept[at] == 0]
        if len(first):
            self.metric[first] = metric_at(first)
        full = at[self.n_kept[at] == MEMORY]
        for kept in (self.changes, self.moves):
            kept[full, :-1] = kept[full, 1:]
        self.n_kept[full] -= 1
        self.changes[at, self.n_kept[at]] = change[at]
        self.moves[at, self.n_kept[at]] = move[at]
        self.n_kept[at] += 1

    def adapt_reach(self, lengths: FloatArray, misled: BoolArray) -> None:
        """Raise the limit after steps that gained at it, lower it after steps that failed."""
        shorter = np.maximum(np.minimum(lengths, self.reach) / FARTHER, 1.0)
        at_limit = ~misled & (lengths >= 0.999 * self.reach)
        self.reach[:] = np.where(misled, shorter, np.where(at_limit, FARTHER * self.reach, self.reach))

    def leave_out(self, which: BoolArray) -> None:
        """Forget some focal sets, (B, M): their counts have become zero."""
        fits, sets = np.nonzero(which)
        self.changes[fits, :, sets] = 0.0
        self.moves[fits, :, sets] = 0.0


class Extrapolation(NamedTuple):
    """Result of an extrapolation."""

    target: FloatArray
    """(B, size) statistics."""
    lengths: FloatArray
    """(B,) lengths of the steps beyond EM's own, in lengths of that."""


def extrapolate(memory: Memory, vector: FloatArray, left: FloatArray, n_counts: int) -> Extrapolation:
    """Extrapolate: EM's statistics minus the moves that would cancel the residual `left`.

    Fits without memory take EM's step.
    """
    most = int(memory.n_kept.max(initial=0))
    if most == 0:
        return Extrapolation(vector.copy(), np.zeros(len(vector)))
    changes = memory.changes[:, :most]
    is_known = np.arange(most) < memory.n_kept[:, None]
    weighted = changes * memory.metric[:, None]
    gram = weighted @ np.swapaxes(changes, 1, 2)
    right = np.where(is_known, (weighted @ left[..., None])[..., 0], 0.0)
    squares = np.einsum("bmm->bm", gram)
    both = is_known[:, :, None] & is_known[:, None, :]
    gram = np.where(both, gram, 0.0) + np.eye(most) * np.where(is_known, GRAM_RIDGE * squares, 1.0)[:, None]
    try:
        shares = np.linalg.solve(gram, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        return Extrapolation(vector.copy(), np.zeros(len(vector)))
    shares = np.where(np.isfinite(shares).all(axis=1, keepdims=True), shares, 0.0)
    step = -(shares[:, None, :] @ memory.moves[:, :most])[:, 0]
    with np.errstate(all="ignore"):
        squares = (memory.metric * left**2).sum(axis=1)
        # Growing steps indicate a saddle behind them: continue forwards, not back.
        leads_back = (memory.metric * (left + step) * left).sum(axis=1) <= 0
        step = np.where(leads_back[:, None], memory.reach[:, None] * left, step)
        lengths = np.sqrt((memory.metric * step**2).sum(axis=1) / squares)
        step *= np.where(lengths > memory.reach, memory.reach / lengths, 1.0)[:, None]
    target = vector + step
    counts = vector[:, :n_counts]
    target[:, :n_counts] = np.where(counts > 0, np.maximum(target[:, :n_counts], LEAST_COUNT * counts), 0.0)
    is_known_at_all = memory.n_kept > 0
    target = np.where(is_known_at_all[:, None], target, vector)
    return Extrapolation(target, np.where(is_known_at_all, np.minimum(lengths, memory.reach), 0.0))


def metric_of(vector: FloatArray, params: Parameters, layout: Layout) -> FloatArray:
    """Weights (B, size) of differences of statistics: approximately inverse variances."""
    dim = params.means.shape[2]
    moments = ClusterMoments.of(vector, layout, dim)
    set_counts, counts, scatter_counts = (np.maximum(part, NEGLIGIBLE_COUNT) for part in moments[:3])
    variances = params.variances.mean(axis=1)
    firsts = 1 / (counts[..., None] * variances[:, None])
    first, second = products(dim, layout.second_kind)
    # Of a symmetric matrix a product of two features is there once: it counts twice.
    with np.errstate(over="ignore"):  # What varies beyond all measure weighs nothing.
        own = np.where(first == second, 0.5, 1.0) / (variances[:, first] * variances[:, second])
    seconds = own[:, None] / (scatter_counts.sum(axis=1, keepdims=True) if layout.pools else scatter_counts)[..., None]
    tails = None if moments.tails is None else tail_metric(moments.tails, set_counts.sum(axis=1))
    return ClusterMoments(1 / set_counts, 1 / counts, 1 / scatter_counts, firsts, seconds, tails).vector(layout)
