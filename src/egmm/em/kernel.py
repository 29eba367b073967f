"""The fused, compiled engine: the same sums as `estep.e_step`, many times faster on large blocks."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em import estep
from egmm.em.parameters import Components, concatenated, take
from egmm.em.statistics import Statistics, Units, monomials, products

LARGEST_LOG_WEIGHT = 300.0
"""Above it (clusters tens of standard deviations apart) products of roots could overflow: the log domain is used."""

SECONDS_BEFORE_NOTICE = 1.0

SECONDS_TO_COMPILE = 6.0
"""Approximate compile time, once per machine."""

_compiling = threading.Lock()


class Density(NamedTuple):
    """Parameters of the clusters for the kernel, and the units of rows.

    With `factors` empty the covariance is shared and cluster k scores ``linear[k] . x + offsets[k]``; else it scores
    ``offsets[k] - |factors[k] x - whitened[k]|^2 / 2``.
    """

    centre: FloatArray
    inverse_scale: FloatArray
    linear: FloatArray
    """(C, D) or (0, D)."""
    offsets: FloatArray
    """(C,)."""
    factors: FloatArray
    """(C, D, D) lower triangular, (C, 1, D) diagonals or (0, D, D)."""
    whitened: FloatArray
    """(C, D)."""


class Sets(NamedTuple):
    """The family of focal sets as the kernel walks it: members of set j are ``members[starts[j]:starts[j + 1]]``."""

    log_weights: FloatArray
    starts: IntArray
    members: IntArray
    powers: FloatArray
    """Sizes of sets, whose roots of densities multiply to masses; empty where masses are made in the log domain."""
    halves: IntArray
    """Where the root of twice the order is, whose square the root is; -1 where there is none."""
    power_of: IntArray
    """(M,) place of each set's size in `powers`."""


class Sums(NamedTuple):
    """Sums over rows that the kernel adds to."""

    set_counts: FloatArray
    """(1, M)."""
    firsts: FloatArray
    """(C, D)."""
    seconds: FloatArray
    """(C, D, D) lower triangles, (C, 1, D) diagonals or (C, 0, D)."""


class RowsOut(NamedTuple):
    """Outputs per row; filled if not empty."""

    masses: FloatArray
    """(n, M) or (0, 1)."""
    log_densities: FloatArray
    """(n,) or (0,)."""


def e_step(
    X: FloatArray, sample_weight: FloatArray | None, model: Components, shares: FloatArray, units: Units
) -> Statistics:
    """Masses of a block of rows under every fit of a batch, reduced to sums that add [eq_EMemb, eq_EMP, eq_B]."""
    parts = [
        _one_e_step(X, sample_weight, take(model, np.array([at])), shares, units) for at in range(len(model.theta))
    ]
    return concatenated(parts)


def _one_e_step(
    X: FloatArray, sample_weight: FloatArray | None, model: Components, shares: FloatArray, units: Units
) -> Statistics:
    kind = _kind(model)
    if _is_lost_on_kernel(model, kind):
        return estep.e_step(monomials(units.rows(X), kind), sample_weight, model, shares)
    n_clusters, dim = model.whitened.shape[1:]
    depth = {"linear": 0, "diagonal": 1, "full": dim}[kind]
    sums = Sums(np.zeros((1, len(shares))), np.zeros((n_clusters, dim)), np.zeros((n_clusters, depth, dim)))
    weight = read_only(np.empty(0) if sample_weight is None else sample_weight)
    density, sets = _density(model, kind, units), _sets(model, shares)
    log_likelihood = kernel(X.dtype.name)(*readable(X), weight, density, sets, sums, NO_ROWS)
    first, second = products(dim, kind)
    seconds = (
        sums.seconds[:, 0]
        if kind == "diagonal"
        else sums.seconds[:, second, first]
        if depth
        else sums.seconds[:, :0, 0]
    )
    counts = (sums.set_counts @ shares).T
    gathered = np.concatenate([counts, sums.firsts, seconds], axis=1)
    return Statistics(sums.set_counts, gathered[None], np.zeros((1, 0)), np.array([log_likelihood]))


def masses(X: FloatArray, model: Components, shares: FloatArray, units: Units) -> tuple[FloatArray, FloatArray]:
    """Masses (n, M) and log-densities (n,), relative where the covariance is shared, under one fit [eq_EMemb]."""
    kind = _kind(model)
    if _is_lost_on_kernel(model, kind):
        mass, log_density = estep.masses(monomials(units.rows(X), kind), model, shares)
        return mass[0], log_density[0]
    n_clusters, dim = model.whitened.shape[1:]
    out = RowsOut(np.empty((len(X), len(shares))), np.empty(len(X)))
    sums = Sums(np.zeros((1, len(shares))), np.zeros((n_clusters, dim)), np.zeros((n_clusters, 0, dim)))
    weight = read_only(np.empty(0))
    kernel(X.dtype.name)(*readable(X), weight, _density(model, kind, units), _sets(model, shares), sums, out)
    return out.masses, out.log_densities


NO_ROWS = RowsOut(np.empty((0, 1)), np.empty(0))


def _kind(model: Components) -> str:
    dim, n_monomials = model.whitened.shape[2], model.theta.shape[2]
    return "linear" if n_monomials == 1 + dim else "diagonal" if model.factors.ndim == 3 else "full"


def _is_lost_on_kernel(model: Components, kind: str) -> bool:
    """Whether the kernel's short form of a shared covariance would lose digits, or tails are heavy."""
    return model.degrees is not None or (kind == "linear" and bool(model.is_far[0]))


def kernel(dtype: str) -> Callable[..., float]:
    """Kernel for rows of this type; the first thread compiles it, the others wait."""
    with _compiling:
        return _kernel(dtype)


def is_compiled() -> bool:
    """Whether this process has a compiled kernel."""
    return _kernel.cache_info().currsize > 0


@cache
def _kernel(dtype: str) -> Callable[..., float]:
    """Compile the kernel or read it from the cache, with a message if it takes long."""
    from egmm.em.compiled.block import block_pass  # noqa: PLC0415  Numba is loaded only when this engine is used.

    density = Density(np.zeros(2), np.ones(2), np.zeros((1, 2)), np.zeros(1), np.empty((0, 2, 2)), np.zeros((1, 2)))
    one = np.zeros(1, dtype=np.int64)
    sets = Sets(np.zeros(1), np.array([0, 1]), one, np.empty(0), one, one)
    sums = Sums(np.zeros((1, 1)), np.zeros((1, 2)), np.zeros((1, 0, 2)))
    rows = readable(np.zeros((2, 2), dtype=dtype))
    with announced():
        block_pass(*rows, read_only(np.empty(0)), density, sets, sums, NO_ROWS)
    compiled: Callable[..., float] = block_pass
    return compiled


def readable(X: FloatArray) -> tuple[FloatArray, bool]:
    """Contiguous rows for the kernel, or (second value) transposed."""
    by_columns = X.strides[0] == X.itemsize and X.shape[1] > 1
    return read_only(np.ascontiguousarray(X.T if by_columns else X)), by_columns


def read_only(array: FloatArray) -> FloatArray:
    """A contiguous view that may not be written, so that mutable and read-only arrays share one compiled kernel."""
    view = (array if array.flags.forc else np.ascontiguousarray(array)).view(np.ndarray)
    view.flags.writeable = False
    return view


@contextmanager
def announced() -> Iterator[None]:
    """Announce a long compilation."""
    notice = threading.Timer(SECONDS_BEFORE_NOTICE, _announce)
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


@cache
def _announce() -> None:
    """Write the message once, if there is an error stream."""
    with suppress(AttributeError, OSError, ValueError):  # no stream, or one that is closed or full
        sys.stderr.write(
            f"egmm: compiling the fast engine for this machine, about {SECONDS_TO_COMPILE:.0f} seconds; "
            "later runs use the cache.\n"
        )


def _density(model: Components, kind: str, units: Units) -> Density:
    """Clusters of one fit as the kernel scores them."""
    dim, whitened = len(units.centre), np.ascontiguousarray(model.whitened[0])
    scale = 1 / units.scale
    if kind == "linear":
        theta = model.theta[0]
        linear, offsets = np.ascontiguousarray(theta[:, 1:]), np.ascontiguousarray(theta[:, 0])
        return Density(units.centre, scale, linear, offsets, np.empty((0, dim, dim)), whitened)
    factors = np.broadcast_to(model.factors[0], (len(whitened), *model.factors.shape[2:]))
    factors = factors[:, None] if kind == "diagonal" else np.swapaxes(factors, 1, 2)
    offsets = np.ascontiguousarray(model.log_norms[0])
    return Density(units.centre, scale, np.empty((0, dim)), offsets, np.ascontiguousarray(factors), whitened)


def _sets(model: Components, shares: FloatArray) -> Sets:
    """The family of focal sets as the kernel walks it, in logs where products of roots could overflow."""
    starts, members, powers, halves, power_of = _plan(shares.tobytes(), *shares.shape)
    log_weights = np.ascontiguousarray(model.log_weights[0])
    if log_weights.max() > LARGEST_LOG_WEIGHT:
        powers = powers[:0]
    return Sets(log_weights, starts, members, powers, halves, power_of)


@lru_cache(maxsize=64)
def _plan(shares: bytes, n_focal: int, n_clusters: int) -> tuple[IntArray, IntArray, FloatArray, IntArray, IntArray]:
    """Members of each set in one list, and the roots whose products give the masses.

    Sets of c clusters need the c-th roots of the clusters' densities. A root is an exponential, or the square of the
    root of twice the order where that is needed too. The plan is empty where exponentials per set are no more, and
    where the empty set is among them, whose density may be all that a far row has.
    """
    membership = np.frombuffer(shares).reshape(n_focal, n_clusters) > 0
    sizes = membership.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    members = np.nonzero(membership)[1].astype(np.int64)
    powers = np.unique(sizes)[::-1]
    halves = np.array([int(np.flatnonzero(powers == 2 * c)[0]) if 2 * c in powers else -1 for c in powers])
    power_of = np.searchsorted(-powers, -sizes)
    if sizes.min() == 0 or n_focal <= 1.5 * n_clusters * (halves < 0).sum():
        powers = powers[:0]
    return starts, members, powers.astype(np.float64), halves.astype(np.int64), power_of.astype(np.int64)
