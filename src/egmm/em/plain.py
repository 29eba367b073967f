"""Plain EM of small fits in compiled steps: step by step, the calls of NumPy would take longer than the work."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray
from egmm.em.covariance import SHARED
from egmm.em.estep_numba import (
    LARGEST_LOG_WEIGHT,
    LARGEST_SLOPE,
    NO_ROWS,
    ONE_SET,
    Density,
    Sets,
    announced,
    kernel,
    read_only,
    readable,
    sets_of,
)
from egmm.em.mstep import EPSILON, ROUND_OFF
from egmm.em.parameters import LARGEST_INVERSE, Parameters
from egmm.em.problem import Point, Problem
from egmm.em.statistics import Statistics
from egmm.rows.array import ArrayRows
from egmm.rows.source import BLOCK_ROWS

LARGEST_SIZE = 32
"""Of features or clusters: beyond it LAPACK is worth its call."""

MASSES_AT_ONCE = 2e7
"""Rows times sets times steps, about a tenth of a second: in between an interrupt is heard."""

STEPS_AT_ONCE = 1000
"""As many as there is room for in a history."""

LIMITS = (EPSILON, ROUND_OFF, LARGEST_INVERSE, LARGEST_SLOPE, LARGEST_LOG_WEIGHT)
"""Of the ordinary; handed over, because compiled code in the cache would not notice that they change."""


class _State(NamedTuple):
    """Parameters and the sums of a pass there, as views of one vector; the log-likelihood is its last element."""

    weights: FloatArray
    means: FloatArray
    covariance: FloatArray
    counts: FloatArray
    sums: FloatArray

    @classmethod
    def within(cls, values: FloatArray, n_focal: int, n_clusters: int, dim: int) -> Self:
        """Name the parts of a vector."""
        shapes = ((n_focal,), (n_clusters, dim), (dim, dim), (1, n_focal), (n_clusters, dim))
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        return cls(*(part.reshape(shape) for part, shape in zip(np.split(values, ends)[:-1], shapes, strict=True)))

    @staticmethod
    def size(n_focal: int, n_clusters: int, dim: int) -> int:
        """Length of the vector."""
        return 2 * n_focal + 2 * n_clusters * dim + dim * dim + 1


def has_plain_steps(problem: Problem) -> bool:
    """Whether there are compiled steps for a problem: one covariance, no priors, one small block of rows in memory."""
    return (
        problem.engine == "numba"
        and problem.covariance in SHARED
        and not problem.has_prior
        and isinstance(problem.rows, ArrayRows)
        and len(problem.rows.X) <= BLOCK_ROWS
        and max(problem.shares.shape[1], len(problem.ridge)) <= LARGEST_SIZE
    )


def make_plain_steps(problem: Problem, start: Point, tol: float, max_steps: int) -> tuple[Point, list[float]]:
    """Make steps of EM until the log-likelihood gains less than `tol`, at most `max_steps`.

    Fewer where they take long, and none that is out of the ordinary: that is for `Problem` to make or to refuse.

    Returns
    -------
    end : Point
        Where the last step led to.
    history : list of float
        Log-likelihood after every step.
    """
    rows: Any = problem.rows
    n_focal, n_clusters = problem.shares.shape
    shape = (n_focal, n_clusters, len(problem.ridge))
    buffer, end = np.zeros(_State.size(*shape)), np.zeros(_State.size(*shape))
    work, made = _State.within(buffer, *shape), _State.within(end, *shape)
    work.counts[0], work.sums[:] = start.statistics.set_counts, start.statistics.cluster_sums
    at_once = min(max_steps, STEPS_AT_ONCE, 1 + int(MASSES_AT_ONCE / (n_focal * len(rows.X))))
    history = np.empty(1 + at_once)
    history[0] = start.log_likelihood
    moments = (float(problem.moments.weight), np.array(problem.moments.scatter, order="C"))
    model = (SHARED.index(problem.covariance), np.array(problem.ridge))
    call = _call(rows.X, rows.sample_weight, np.array(problem.moments.centre), sets_of(start.model), work)
    steps, address = _compiled(rows.X.dtype.name)
    n_made = steps(address, call, moments, model, LIMITS, _scratch(work), work[:3], buffer, end, history, float(tol))
    if n_made == 0:
        return start, []
    params = Parameters(*made[:3])
    statistics = Statistics(made.counts[0], made.sums, None, float(end[-1]))
    point = problem.point(params, problem.components(params), statistics)
    return point, [*history[1:n_made].tolist(), point.log_likelihood]


def _call(X: FloatArray, weight: FloatArray | None, centre: FloatArray, sets: Sets, work: _State) -> tuple[Any, ...]:
    """Arguments of `compiled.block.block_pass`, with room for what the steps will fill."""
    n_clusters, dim = work.means.shape
    density = Density(np.empty((n_clusters, dim)), np.empty(n_clusters), np.empty((0, dim, dim)), work.means.copy())
    sums_out = (work.counts, work.sums, np.empty((n_clusters, 0, dim)))
    weight = read_only(np.empty(0) if weight is None else weight)
    sets = sets._replace(log_weights=np.empty(len(work.weights)))
    return (*readable(X), weight, centre, density, sets, sums_out, (NO_ROWS, NO_ROWS[:, 0]))


def _scratch(work: _State) -> tuple[FloatArray, ...]:
    n_clusters, dim = work.means.shape
    return np.empty((n_clusters + dim, n_clusters + dim)), np.empty(dim), np.empty((dim, dim)), np.empty((dim, dim))


@cache
def _compiled(dtype: str) -> tuple[Callable[..., int], int]:
    """Return the compiled steps, and the address of the kernel they call, for rows of this type."""
    block_pass = kernel(dtype)
    from egmm.em.compiled.plain import address_of, plain_steps  # noqa: PLC0415  Numba is loaded only when it is used.

    buffer = np.zeros(_State.size(1, 1, 2))
    work = _State.within(buffer, 1, 1, 2)
    call = _call(np.zeros((2, 2), dtype=dtype), None, np.zeros(2), ONE_SET, work)
    address = address_of(block_pass, call)
    moments, model, no_steps = (1.0, np.eye(2)), (0, np.zeros(2)), np.zeros(1)
    with announced():
        plain_steps(address, call, moments, model, LIMITS, _scratch(work), work[:3], buffer, buffer, no_steps, 0.0)
    return plain_steps, address
