"""Whole fits of few rows in compiled code: step by step, the calls of NumPy would take longer than the work.

The classical mixture is fitted from every labelling and the focal sets from the best of these. A step that is out of
the ordinary is left to `fit`, so that warnings and errors have one source.
"""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em import estep
from egmm.em.covariance import SHARED, scatter_kind
from egmm.em.estep_numba import LARGEST_LOG_WEIGHT, NO_ROWS, Density, Sets, announced, plan, read_only, unfolded
from egmm.em.loop import Ascent
from egmm.em.parameters import Parameters, is_single
from egmm.em.plain import LARGEST_SIZE, LIMITS
from egmm.em.problem import Problem
from egmm.em.start import META_WEIGHT, Sample
from egmm.em.statistics import Moments, Statistics
from egmm.rows.source import BLOCK_ROWS

MEMORY = 8
"""Steps that an extrapolation looks back on."""

LETTERS = {"I": 0, "E": 1, "V": 2}
"""Of a covariance model: none, equal, own."""

CONVERGED, LOST, FAILED = 0, 2, 3
"""How a fit ended, as in `compiled.whole`."""

MOST_STEPS = 150
"""Of an ascent: one that takes longer crawls, and is left to quasi-Newton."""


_compiling = threading.Lock()


class Limits(NamedTuple):
    """What separates sound fits from others, and the rest; see `compiled.whole.fit_whole`."""

    smallest_eigenvalue: float
    flattest: float
    most_ridge: float
    farthest: float
    growing: tuple[float, float, float, float, float]
    same: float
    looks: tuple[int, int]


class Wanted(NamedTuple):
    """How to fit."""

    labels: list[IntArray]
    covariance: str
    reg_covar: float | str
    certainty: float
    start_tol: float
    tol: float
    max_iter: int
    gives_up: bool


def can_fit_whole(n_rows: int, n_features: int, shares: FloatArray) -> bool:
    """Whether there is compiled code for such a fit: one block of rows, few features, every cluster a focal set."""
    single = is_single(shares)
    covered = shares[single].sum(axis=0)
    is_small = n_rows <= BLOCK_ROWS and max(shares.shape[1], n_features) <= LARGEST_SIZE
    return bool(is_small and (covered == 1).all())


class Whole(NamedTuple):
    """The end of a fit."""

    params: Parameters
    first: Parameters
    """Where the ascent began: of these the covariances count."""
    ridge: FloatArray
    history: list[float]
    """Log-likelihood at the start and after every step."""
    is_converged: bool
    is_given_up: bool
    """Whether it was ended as degenerate; else, where it has not converged, there is more to gain."""
    is_doubtful: bool
    """Whether it may be degenerate."""
    tol: float
    last_pass: tuple[Any, ...]
    """Its arguments."""

    @property
    def set_counts(self) -> FloatArray:
        """Rows of the focal sets, (M,)."""
        counts: FloatArray = self.last_pass[6][0][0]
        return counts

    def ascent(self, problem: Problem) -> Ascent:
        """Return the ascent that has ended, on the problem that it was made for."""
        model = problem.components(self.params)
        _, sums, scatters = self.last_pass[6]
        statistics = Statistics(self.set_counts, sums, unfolded(scatters, scatter_kind(problem.covariance)), 0.0)
        # With one covariance statistics have the log-likelihood relative to a reference density.
        relative = self.history[-1] - estep.log_likelihood(statistics, model, problem.moments)
        point = problem.point(self.params, model, statistics._replace(log_likelihood=relative))
        point = point._replace(log_likelihood=self.history[-1])  # Without what rounding has made of it.
        n_steps = len(self.history) - 1
        return Ascent(problem, point, self.tol, True, self.history, n_steps, self.is_converged, n_steps + 1, [point])

    def masses(self) -> FloatArray:
        """Masses (n, M) of the sample's rows."""
        from egmm.em.compiled.block import small_pass  # noqa: PLC0415  Loaded before, by the fit.

        *how, (counts, sums, _), _ = self.last_pass
        masses, weight = np.empty((how[0].shape[1], counts.shape[1])), how[2]
        room = np.zeros(counts.shape), np.zeros(sums.shape), np.zeros((len(sums), 0, sums.shape[1]))
        small_pass(*how, room, (masses, NO_ROWS[:, 0]))
        return np.divide(masses, weight[:, None], out=masses)


def fit_whole(sample: Sample, moments: Moments, shares: FloatArray, wanted: Wanted, limits: Limits) -> Whole | None:
    """Fit a mixture to rows, all of which are in the sample; None where a step is out of the ordinary."""
    room = _Room(sample, moments, shares, wanted.covariance)
    is_automatic = isinstance(wanted.reg_covar, str)
    ridge = np.full(sample.rows.shape[1], 0.0 if is_automatic else float(wanted.reg_covar))
    fit, addresses = _compiled()
    problem = _problem(addresses, wanted.covariance, moments, ridge, wanted.certainty, limits)
    tols = wanted.start_tol * moments.weight, wanted.tol * moments.weight
    history = np.empty(1 + min(wanted.max_iter, MOST_STEPS))
    options = (is_automatic, *tols, len(history) - 1, wanted.gives_up, META_WEIGHT, *limits[4:])
    labels = np.array(wanted.labels, dtype=np.int64)
    status, n_steps, is_doubtful = fit(
        problem, room.single, room.every, labels, options, room.best, *room.others, history
    )
    if status == FAILED:
        return None
    weights, means, covariances = room.every[1][:3]
    first = room.first_covariances
    if wanted.covariance in SHARED:
        covariances, first = covariances[0], first[0]
    params, made = Parameters(weights, means, covariances), history[: n_steps + 1].tolist()
    call, *_, in_logs = room.every
    last_pass = call if call[5].log_weights.max() <= LARGEST_LOG_WEIGHT else in_logs
    ended = status == CONVERGED, status == LOST, is_doubtful
    return Whole(params, params._replace(covariances=first), ridge, made, *ended, tols[1], last_pass)


class _Room:
    """Arrays that the compiled code works on, as `compiled.step` and `compiled.whole` name them."""

    def __init__(self, sample: Sample, moments: Moments, shares: FloatArray, covariance: str) -> None:
        n_clusters, dim = shares.shape[1], sample.rows.shape[1]
        is_shared = covariance in SHARED
        self.edge = edge = {"none": 0, "diagonal": 1, "full": dim}[scatter_kind(covariance)]
        self._shape = (n_clusters, 1 if is_shared else n_clusters, dim)
        rows = np.ascontiguousarray(sample.rows.T)
        self._rows = read_only(rows), True, read_only(sample.weights), np.array(moments.centre)
        self._density = Density(
            np.empty((n_clusters if is_shared else 0, dim)),
            np.empty(n_clusters),
            np.zeros((0, dim, dim) if is_shared else (n_clusters, edge, dim)),
            np.empty((n_clusters, dim)),
        )
        self._sums = np.empty((n_clusters, dim)), np.empty((n_clusters, edge, dim))
        self.single, self.every = self._stage(np.eye(n_clusters)), self._stage(shares)
        self.best = self._params(n_clusters)
        self.first_covariances = np.empty((self._shape[1], dim, dim))
        square, memory = (dim, dim), (MEMORY, MEMORY)
        of_step = ((dim,), square, square, (n_clusters,), (dim,), square, (n_clusters + dim, n_clusters + dim))
        of_clusters = ((n_clusters,), (n_clusters, dim), (n_clusters, dim, dim))
        of_ascent = (memory, memory, (MEMORY,), square, (1, dim, dim))
        spare = tuple(np.empty(shape) for shape in (*of_step, *of_clusters, *of_ascent))
        self.others = self.first_covariances, spare, np.zeros((6, n_clusters + 2))

    def _stage(self, shares: FloatArray) -> tuple[Any, ...]:
        n_focal, (n_clusters, _, dim) = len(shares), self._shape
        sets = Sets(np.empty(n_focal), *plan(shares))
        sums_out = (np.empty((1, n_focal)), *self._sums)
        call, in_logs = (
            (*self._rows, self._density, how, sums_out, (NO_ROWS, NO_ROWS[:, 0]))
            for how in (sets, sets._replace(powers=sets.powers[:0]))
        )
        focal = np.empty((n_focal, dim)), np.empty((n_focal, self.edge, dim)), np.empty((n_clusters, self.edge, dim))
        n_second = {0: 0, 1: 1 + dim, dim: 1 + dim * (dim + 1) // 2}[self.edge]  # With the clusters' own counts.
        size = n_focal + n_clusters * (dim + n_second)
        vectors, seen = np.zeros((6, size)), np.empty((2, MEMORY, size))
        return call, self._params(n_focal), self._params(n_focal), focal, vectors, *seen, in_logs

    def _params(self, n_focal: int) -> tuple[FloatArray, ...]:
        n_clusters, n_matrices, dim = self._shape
        first, second, third = n_focal, n_focal + n_clusters * dim, n_focal + (n_clusters + n_matrices * dim) * dim
        values = np.zeros(third + dim * dim)
        return (
            values[:first],
            values[first:second].reshape(n_clusters, dim),
            values[second:third].reshape(n_matrices, dim, dim),
            values[third:].reshape(dim, dim),
            values,
        )


def _problem(
    addresses: tuple[int, ...], covariance: str, moments: Moments, ridge: FloatArray, certainty: float, limits: Limits
) -> tuple[Any, ...]:
    model = tuple(LETTERS[letter] for letter in covariance)
    scatter = np.array(moments.scatter, order="C")
    return addresses, model, float(moments.weight), scatter, ridge, float(certainty), (*LIMITS, *limits[:4])


def _compiled() -> tuple[Callable[..., tuple[int, int, bool]], tuple[int, int, int]]:
    """The first thread to ask has it compiled, the others wait."""
    with _compiling:
        return _compile()


@cache
def _compile() -> tuple[Callable[..., tuple[int, int, bool]], tuple[int, int, int]]:
    """Return the compiled fit, and the addresses of what it calls: by name all of it would be compiled again."""
    from egmm.em.compiled.block import small_pass  # noqa: PLC0415  Numba is loaded only when it is used.
    from egmm.em.compiled.plain import address_of  # noqa: PLC0415
    from egmm.em.compiled.step import evaluate, maximise  # noqa: PLC0415
    from egmm.em.compiled.whole import fit_whole as compiled  # noqa: PLC0415

    moments, limits = (
        Moments(2.0, np.zeros(2), np.eye(2)),
        Limits(0.0, 0.0, 0.0, 0.0, (0.0, 0.0, 0.0, 0.0, 0.0), 0.0, (1, 1)),
    )
    room = _Room(Sample(np.eye(2), np.ones(2)), moments, np.eye(1), "EII")
    _, spare, numbers = room.others
    call, params, _, focal, vectors, _, _, in_logs = room.single
    with announced():
        small_pass(*call)
        problem = _problem((address_of(small_pass, call), 0, 0), "EII", moments, np.zeros(2), 0.0, limits)
        arguments = (problem, call, params, spare, vectors[0])
        maximise(*arguments)
        made = (problem, call, in_logs, params, focal, spare, *numbers[:3], vectors[0])
        evaluate(*made)
        addresses = problem[0][0], address_of(evaluate, made), address_of(maximise, arguments)
        problem = addresses, *problem[1:]
        options = (True, 0.0, 0.0, 0, False, 0.0, *limits[4:])
        no_labels = np.empty((0, 2), dtype=np.int64)
        compiled(problem, room.single, room.every, no_labels, options, room.best, *room.others, np.empty(1))
    return compiled, addresses
