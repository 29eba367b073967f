"""The fused, compiled engine: the same sums as `estep.e_step`, many times faster on large blocks."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em import estep
from egmm.em.parameters import Components, triangular_inverse
from egmm.em.statistics import Statistics

LARGEST_LOG_WEIGHT = 300.0
"""Above it (clusters tens of standard deviations apart) products of roots could overflow: the log domain is used."""

LARGEST_SLOPE = 1e5
"""Change of a cluster's score over one standard deviation of a feature above which round-off shows (1e-10)."""

SECONDS_BEFORE_NOTICE = 1.0

NO_ROWS = np.empty((0, 1))

_compiling = threading.Lock()


class Density(NamedTuple):
    """Clusters as the kernel scores them; see `compiled.block.block_pass`."""

    linear: FloatArray
    offsets: FloatArray
    factors: FloatArray
    whitened: FloatArray


class Sets(NamedTuple):
    """The family of focal sets as the kernel walks it; see `compiled.block.block_pass`."""

    log_weights: FloatArray
    starts: IntArray
    members: IntArray
    powers: FloatArray
    halves: IntArray
    power_of: IntArray


_ONE = np.zeros(1, dtype=np.int64)
ONE_SET = Sets(np.zeros(1), np.array([0, 1]), _ONE, np.empty(0), _ONE, _ONE)
"""The family of a single cluster, for a kernel to be compiled with."""


def prepare(model: Components, scatter: str) -> Callable[[FloatArray, FloatArray | None], Statistics]:
    """Return the E-step of a block of rows for one pass with `model`."""
    density = _density(model, scatter)
    if density is None:
        return estep.prepare(model, scatter)
    return partial(e_step, centre=model.centre, density=density, sets=sets_of(model), scatter=scatter)


def e_step(
    X: FloatArray, sample_weight: FloatArray | None, centre: FloatArray, density: Density, sets: Sets, scatter: str
) -> Statistics:
    """Masses of one block of rows, reduced to sums that add [eq_EMemb, eq_EMP, eq_B]."""
    n_clusters, dim = density.whitened.shape
    counts, sums = np.zeros((1, len(sets.log_weights))), np.zeros((n_clusters, dim))
    scatters = np.zeros((n_clusters, {"none": 0, "diagonal": 1, "full": dim}[scatter], dim))
    weight = read_only(np.empty(0) if sample_weight is None else sample_weight)
    sums_out = (counts, sums, scatters)
    block_pass = kernel(X.dtype.name)
    log_likelihood = block_pass(*readable(X), weight, centre, density, sets, sums_out, (NO_ROWS, NO_ROWS[:, 0]))
    return Statistics(counts[0], sums, unfolded(scatters, scatter), float(log_likelihood))


def masses(X: FloatArray, model: Components) -> tuple[FloatArray, FloatArray]:
    """Masses (n, M) and log-densities (n,) of one block of rows [eq_EMemb]."""
    density = _density(model, "none")
    if density is None:
        return estep.masses(X, model)
    n_focal, n_clusters = model.shares.shape
    n_rows, dim = X.shape
    rows_out = (np.empty((n_rows, n_focal)), np.empty(n_rows))
    sums_out = (np.zeros((1, n_focal)), np.zeros((n_clusters, dim)), np.zeros((n_clusters, 0, dim)))
    block_pass, weight = kernel(X.dtype.name), read_only(np.empty(0))
    block_pass(*readable(X), weight, model.centre, density, sets_of(model), sums_out, rows_out)
    return rows_out[0], rows_out[1] + estep.log_reference(estep.centred(X, model), model)


def kernel(dtype: str) -> Callable[..., float]:
    """Return the kernel for rows of this type; the first thread to ask has it compiled, the others wait."""
    with _compiling:
        return _kernel(dtype)


def is_compiled() -> bool:
    """Whether this process has a kernel at hand."""
    return _kernel.cache_info().currsize > 0


@cache
def _kernel(dtype: str) -> Callable[..., float]:
    """Compile the kernel or read it from the cache; say so where it takes long."""
    from egmm.em.compiled.block import block_pass  # noqa: PLC0415  Numba is loaded only when this engine is used.

    density = Density(np.zeros((1, 2)), np.zeros(1), np.empty((0, 2, 2)), np.zeros((1, 2)))
    sums = (np.zeros((1, 1)), np.zeros((1, 2)), np.zeros((1, 0, 2)))
    rows_out = (NO_ROWS, NO_ROWS[:, 0])
    rows = readable(np.zeros((2, 2), dtype=dtype))
    with announced():
        block_pass(*rows, read_only(np.empty(0)), np.zeros(2), density, ONE_SET, sums, rows_out)
    compiled: Callable[..., float] = block_pass
    return compiled


def readable(X: FloatArray) -> tuple[FloatArray, bool]:
    """Rows as the kernel takes them: contiguous, as they are or (second value) transposed."""
    by_columns = X.strides[0] == X.itemsize and X.shape[1] > 1
    return read_only(np.ascontiguousarray(X.T if by_columns else X)), by_columns


def read_only(array: FloatArray) -> FloatArray:
    """A contiguous view that may not be written, so that mutable and read-only arrays share one compiled kernel."""
    view = (array if array.flags.forc else np.ascontiguousarray(array)).view(np.ndarray)
    view.flags.writeable = False
    return view


@contextmanager
def announced() -> Iterator[None]:
    """Say that there is something to compile where it takes long."""
    notice = threading.Timer(SECONDS_BEFORE_NOTICE, _announce)
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


@cache
def _announce() -> None:
    """Say it once."""
    sys.stderr.write("egmm: compiling the fast engine for this machine; later runs find it in the cache.\n")


def _density(model: Components, scatter: str) -> Density | None:
    """Clusters as the kernel scores them, or None where its short form would lose digits."""
    dim = len(model.centre)
    if not model.is_shared:
        factors = np.ascontiguousarray(np.swapaxes(model.factors, 1, 2))
        if scatter == "diagonal":
            factors = np.ascontiguousarray(np.einsum("kdd->kd", factors)[:, None, :])
        return Density(np.empty((0, dim)), model.log_norms, factors, model.whitened)
    linear = np.ascontiguousarray(model.whitened @ model.factors.T)
    deviations = np.sqrt((triangular_inverse(model.factors.T) ** 2).sum(axis=1))
    if (np.abs(linear) @ deviations).max() > LARGEST_SLOPE:
        return None
    offsets = -0.5 * (model.whitened**2).sum(axis=1)
    return Density(linear, offsets, np.empty((0, dim, dim)), model.whitened)


def sets_of(model: Components) -> Sets:
    """The family of focal sets as the kernel walks it, in logs where products of roots could overflow."""
    starts, members, powers, halves, power_of = plan(model.shares)
    if model.log_weights.max() > LARGEST_LOG_WEIGHT:
        powers = powers[:0]
    return Sets(model.log_weights, starts, members, powers, halves, power_of)


def plan(shares: FloatArray) -> tuple[IntArray, IntArray, FloatArray, IntArray, IntArray]:
    """How the kernel walks a family of focal sets; see `_plan`."""
    return _plan(shares.tobytes(), *shares.shape)


@lru_cache(maxsize=64)
def _plan(shares: bytes, n_focal: int, n_clusters: int) -> tuple[IntArray, IntArray, FloatArray, IntArray, IntArray]:
    """Members of each set in one list, and the roots whose products give the masses.

    Sets of c clusters need the c-th roots of the clusters' densities. A root is an exponential, or the square of the
    root of twice the order where that is needed too. The plan is empty where exponentials per set are no more.
    """
    membership = np.frombuffer(shares).reshape(n_focal, n_clusters) > 0
    sizes = membership.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    members = np.nonzero(membership)[1].astype(np.int64)
    powers = np.unique(sizes)[::-1]
    halves = np.array([int(np.flatnonzero(powers == 2 * c)[0]) if 2 * c in powers else -1 for c in powers])
    power_of = np.searchsorted(-powers, -sizes)
    if n_focal <= 1.5 * n_clusters * (halves < 0).sum():
        powers = powers[:0]
    return starts, members, powers.astype(np.float64), halves.astype(np.int64), power_of.astype(np.int64)


def unfolded(scatters: FloatArray, scatter: str) -> FloatArray | None:
    """Second moments as statistics have them, of those that the kernel fills."""
    if scatter == "none":
        return None
    if scatter == "diagonal":
        return scatters[:, 0, :]
    return scatters + np.swapaxes(np.tril(scatters, -1), 1, 2)
