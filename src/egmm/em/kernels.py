"""The fused E-step, compiled: one sweep over a block of rows, a tile of rows in the vector lanes at a time.

Nothing of size (n, M) is ever stored: a tile's scratch lives in the cache, and only sums leave it.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config, types
from numba.extending import intrinsic

LANES = 128
"""Rows per tile: long enough that loops over them outweigh their start, with the scratch still in the cache."""

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer held in the low mantissa bits

# Sums may be reassociated so that they vectorise; inf and nan keep their meaning. Python's check for division by zero
# would keep loops from being vectorised.
SUMS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy", "nogil": True}
EXACT: dict[str, Any] = SUMS | {"fastmath": {"contract"}}


def _cached(**options: Any) -> Callable[..., Any]:
    """Compile with the result kept in the user's cache directory, unless NUMBA_CACHE_DIR names another."""

    def decorate(function: Callable[..., Any]) -> Any:
        before = config.CACHE_DIR
        config.CACHE_DIR = before or str(_user_cache() / "egmm")
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # No directory can be written: compile in every process.
            return numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = before

    return decorate


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))


@intrinsic
def _bits(typingctx: Any, value: Any) -> Any:  # noqa: ARG001
    """Reinterpret a double as a 64-bit integer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@intrinsic
def _double(typingctx: Any, value: Any) -> Any:  # noqa: ARG001
    """Reinterpret a 64-bit integer as a double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@numba.njit(**EXACT)
def _exp(x):
    """exp(x) for x <= 0 to the last bits; below -708 it is 0. Branch-free, so that it vectorises."""
    clipped = max(x, -708.0)
    shifted = clipped * LOG2E + ROUND
    n = shifted - ROUND
    r = (clipped - n * LN2_HIGH) - n * LN2_LOW
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    scale = _double((_bits(shifted) + 1023) << 52)
    return p * scale if x > -708.0 else 0.0


@numba.njit(**EXACT)
def _log(x):
    """log(x) for normal x > 0 to the last bits, branch-free."""
    bits = _bits(x)
    # Exponent such that the mantissa lies in [sqrt(1/2), sqrt(2)).
    high = (bits - 0x3FE6A09E667F3BCD) >> 52
    mantissa = _double(bits - (high << 52))
    n = _double((high + 2048) | 0x4330000000000000) - 4503599627372544.0
    f = (mantissa - 1.0) / (mantissa + 1.0)
    s = f * f
    p = 1.0 / 21.0
    p = p * s + 1.0 / 19.0
    p = p * s + 1.0 / 17.0
    p = p * s + 1.0 / 15.0
    p = p * s + 1.0 / 13.0
    p = p * s + 1.0 / 11.0
    p = p * s + 1.0 / 9.0
    p = p * s + 1.0 / 7.0
    p = p * s + 1.0 / 5.0
    p = p * s + 1.0 / 3.0
    return n * LN2_HIGH + (n * LN2_LOW + 2.0 * (f + f * s * p))


@numba.njit(**SUMS)
def _load(X, by_columns, first, n, centre, tile):
    """Bring a tile of centred rows into lanes, in double precision; lanes past the end are zero."""
    dim = tile.shape[0]
    if by_columns:
        for d in range(dim):
            for i in range(n):
                tile[d, i] = X[d, first + i] - centre[d]
    else:
        for i in range(n):
            for d in range(dim):
                tile[d, i] = X[first + i, d] - centre[d]
    for d in range(dim):
        for i in range(n, LANES):
            tile[d, i] = 0.0


@numba.njit(**SUMS)
def _store(mass, norm, first, n, out):
    """Write a tile's normalised masses as rows."""
    for i in range(n):
        for j in range(mass.shape[0]):
            out[first + i, j] = mass[j, i] * norm[i]


@numba.njit(**SUMS)
def _add_scaled(out, tile, coefficients, first, last):
    """Add to `out` sum_d coefficients[d] * tile[d] for d in [first, last), four rows of the tile at a time."""
    d = first
    while d + 4 <= last:
        a, b, c, e = coefficients[d], coefficients[d + 1], coefficients[d + 2], coefficients[d + 3]
        for i in range(LANES):
            out[i] += a * tile[d, i] + b * tile[d + 1, i] + c * tile[d + 2, i] + e * tile[d + 3, i]
        d += 4
    while d < last:
        a = coefficients[d]
        for i in range(LANES):
            out[i] += a * tile[d, i]
        d += 1


@numba.njit(**SUMS)
def _add_dots(out, tile, weight, first):
    """Add to out[d] the sum over lanes of weight * tile[d] for d from `first`, four rows of the tile at a time."""
    d, last = first, tile.shape[0]
    while d + 4 <= last:
        a, b, c, e = 0.0, 0.0, 0.0, 0.0
        for i in range(LANES):
            a += weight[i] * tile[d, i]
            b += weight[i] * tile[d + 1, i]
            c += weight[i] * tile[d + 2, i]
            e += weight[i] * tile[d + 3, i]
        out[d] += a
        out[d + 1] += b
        out[d + 2] += c
        out[d + 3] += e
        d += 4
    while d < last:
        a = 0.0
        for i in range(LANES):
            a += weight[i] * tile[d, i]
        out[d] += a
        d += 1


@numba.njit(**SUMS)
def _quadratic(tile, factor, mean, norm, out, work):
    """Fill `out` with norm - |U'x - mean|^2 / 2, with U' lower triangular in `factor`, or its diagonal in factor[0]."""
    dim = tile.shape[0]
    is_diagonal = factor.shape[0] < dim
    for i in range(LANES):
        out[i] = norm
    for e in range(dim):
        if is_diagonal:
            scale, shift = factor[0, e], mean[e]
            for i in range(LANES):
                work[i] = scale * tile[e, i] - shift
        else:
            shift = mean[e]
            for i in range(LANES):
                work[i] = -shift
            _add_scaled(work, tile, factor[e], 0, e + 1)
        for i in range(LANES):
            out[i] -= 0.5 * work[i] * work[i]


@numba.njit(**SUMS)
def _add_scatter(tile, weight, scatter, work):
    """Add to `scatter` sum_i weight_i x_i x_i', its upper triangle, or its diagonal in scatter[0]."""
    dim = tile.shape[0]
    is_diagonal = scatter.shape[0] < dim
    for d in range(dim):
        for i in range(LANES):
            work[i] = weight[i] * tile[d, i]
        if is_diagonal:
            total = 0.0
            for i in range(LANES):
                total += work[i] * tile[d, i]
            scatter[0, d] += total
        else:
            _add_dots(scatter[d], tile, work, d)


@_cached(**SUMS)
def block_pass(X, by_columns, weight, centre, density, sets, sums_out, rows_out):
    """E-step of one block of rows: adds to the sums in `sums_out`, returns the log-likelihood.

    X : (n, D), or (D, n) where `by_columns`
        One compiled kernel for both, so that the order in memory changes no bit of the result.
    density : (linear, offsets, factors, whitened)
        With `factors` empty the covariance is shared and cluster k scores ``linear[k] . x + offsets[k]``; else it
        scores ``offsets[k] - |factors[k] x - whitened[k]|^2 / 2``.
    sets : (log_weights, starts, members, powers, halves, power_of)
        Members of set j are ``members[starts[j]:starts[j + 1]]``; the last three are the plan of `_masses_by_products`.
    sums_out : (counts, sums, scatters)
        (M,), (C, D) and (C, D, D), (C, 1, D) or (C, 0, D).
    rows_out : (masses, log_densities)
        (n, M) and (n,): filled where they have rows.
    """
    linear, offsets, factors, whitened = density
    log_weights, starts, members, powers, halves, power_of = sets
    counts, sums, scatters = sums_out
    masses_out, log_out = rows_out
    n_rows, dim = X.shape[1 if by_columns else 0], centre.shape[0]
    n_clusters, n_focal = sums.shape[0], counts.shape[0]
    is_shared = factors.shape[0] == 0
    weighted = weight.shape[0] > 0
    coefficients = np.exp(log_weights)
    tile = np.empty((dim, LANES))
    score = np.empty((n_clusters, LANES))
    roots = np.empty((powers.shape[0], n_clusters, LANES))
    betp = np.empty((n_clusters, LANES))
    mass = np.empty((n_focal, LANES))
    lanes = np.empty((4, LANES))  # peak, total, norm, work
    row_weight = np.ones(LANES)
    log_likelihood = 0.0
    for first in range(0, n_rows, LANES):
        n = min(LANES, n_rows - first)
        _load(X, by_columns, first, n, centre, tile)
        if weighted:
            for i in range(n):
                row_weight[i] = weight[first + i]
        for i in range(n, LANES):
            row_weight[i] = 0.0
        for k in range(n_clusters):
            if is_shared:
                score[k] = offsets[k]
                _add_scaled(score[k], tile, linear[k], 0, dim)
            else:
                _quadratic(tile, factors[k], whitened[k], offsets[k], score[k], lanes[3])
        part = np.nan
        if powers.shape[0] > 0:
            _roots(score, powers, halves, lanes[0], roots)
            part = _masses_by_products(roots, coefficients, starts, members, power_of, mass, lanes, row_weight)
        if np.isnan(part):
            part = _masses_by_logs(score, log_weights, starts, members, mass, lanes, row_weight)
        log_likelihood += part
        _pignistic(mass, lanes[2], starts, members, betp, counts)
        if log_out.shape[0] > 0:
            for i in range(n):
                log_out[first + i] = np.log(lanes[1, i]) + lanes[0, i]
        if masses_out.shape[0] > 0:
            _store(mass, lanes[2], first, n, masses_out)
        for k in range(n_clusters):
            _add_dots(sums[k], tile, betp[k], 0)
            if scatters.shape[1] > 0:
                _add_scatter(tile, betp[k], scatters[k], lanes[3])
    return log_likelihood


@numba.njit(**SUMS)
def _roots(score, powers, halves, peak, roots):
    """roots[p, k] = exp((score_k - peak) / powers[p]); where 2 * powers[p] is at hand, its square."""
    n_clusters = score.shape[0]
    for i in range(LANES):
        peak[i] = score[0, i]
    for k in range(1, n_clusters):
        for i in range(LANES):
            peak[i] = max(peak[i], score[k, i])
    for p in range(powers.shape[0]):
        inverse = 1.0 / powers[p]
        half = halves[p]
        for k in range(n_clusters):
            out = roots[p, k]
            if half >= 0:
                root = roots[half, k]
                for i in range(LANES):
                    out[i] = root[i] * root[i]
            else:
                for i in range(LANES):
                    out[i] = _exp((score[k, i] - peak[i]) * inverse)


@numba.njit(**SUMS)
def _masses_by_products(roots, coefficients, starts, members, power_of, mass, lanes, row_weight):
    """Masses as products of the members' roots: no exponential per set. NaN when a row under- or overflows."""
    total = lanes[1]
    for i in range(LANES):
        total[i] = 0.0
    for j in range(coefficients.shape[0]):
        a = coefficients[j]
        begin, end = starts[j], starts[j + 1]
        base = roots[power_of[j]]
        row = mass[j]
        x = base[members[begin]]
        at = begin + 1
        if (end - begin) % 2 == 1:
            for i in range(LANES):
                row[i] = a * x[i]
        else:
            y = base[members[at]]
            at += 1
            for i in range(LANES):
                row[i] = a * x[i] * y[i]
        while at < end:
            x = base[members[at]]
            y = base[members[at + 1]]
            for i in range(LANES):
                row[i] *= x[i] * y[i]
            at += 2
        for i in range(LANES):
            total[i] += row[i]
    n_safe = 0
    for i in range(LANES):
        n_safe += (total[i] > 1e-100) & (total[i] < 1e200)
    if n_safe < LANES:
        return np.nan
    return _normalise(lanes, row_weight)


@numba.njit(**SUMS)
def _normalise(lanes, row_weight):
    """Fill the factors that make a tile's masses sum to the rows' weights; return its log-likelihood."""
    peak, total, norm = lanes[0], lanes[1], lanes[2]
    log_likelihood = 0.0
    for i in range(LANES):
        norm[i] = row_weight[i] / total[i]
        log_likelihood += row_weight[i] * (_log(total[i]) + peak[i])
    return log_likelihood


@numba.njit(**SUMS)
def _masses_by_logs(score, log_weights, starts, members, mass, lanes, row_weight):
    """Masses in the log domain, one exponential per set: safe for any data."""
    peak, total = lanes[0], lanes[1]
    for i in range(LANES):
        peak[i] = -np.inf
        total[i] = 0.0
    for j in range(log_weights.shape[0]):
        lw = log_weights[j]
        begin, end = starts[j], starts[j + 1]
        share = 1.0 / (end - begin)
        row = mass[j]
        if end - begin == 1:
            a = score[members[begin]]
            for i in range(LANES):
                row[i] = lw + a[i]
        elif end - begin == 2:
            a = score[members[begin]]
            b = score[members[begin + 1]]
            for i in range(LANES):
                row[i] = lw + 0.5 * (a[i] + b[i])
        else:
            a = score[members[begin]]
            for i in range(LANES):
                row[i] = lw + share * a[i]
            for at in range(begin + 1, end):
                a = score[members[at]]
                for i in range(LANES):
                    row[i] += share * a[i]
        for i in range(LANES):
            peak[i] = max(peak[i], row[i])
    for j in range(log_weights.shape[0]):
        row = mass[j]
        for i in range(LANES):
            m = _exp(row[i] - peak[i])
            row[i] = m
            total[i] += m
    return _normalise(lanes, row_weight)


@numba.njit(**SUMS)
def _pignistic(mass, norm, starts, members, betp, counts):
    """Add a tile's masses, once normalised, to `counts`, and share them among the clusters."""
    _add_dots(counts, mass, norm, 0)
    betp[:] = 0.0
    for j in range(counts.shape[0]):
        row = mass[j]
        at, end = starts[j], starts[j + 1]
        share = 1.0 / (end - at)
        if (end - at) % 2 == 1:
            x = betp[members[at]]
            for i in range(LANES):
                x[i] += share * row[i]
            at += 1
        while at < end:
            x, y = betp[members[at]], betp[members[at + 1]]
            for i in range(LANES):
                x[i] += share * row[i]
                y[i] += share * row[i]
            at += 2
    for k in range(betp.shape[0]):
        x = betp[k]
        for i in range(LANES):
            x[i] *= norm[i]
