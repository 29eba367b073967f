"""The fused E-step, compiled: one sweep over a block of rows, a tile of rows in the vector lanes at a time.

Nothing of size (n, M) is ever stored: a tile's scratch lives in the cache, and only sums leave it.
"""

from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from egmm._cache import cached_in

LANES = 128
"""Rows per tile: long enough that loops over them outweigh their start, with the scratch still in the cache."""

MOST_LANES = 256
"""Most rows per tile of `small_pass`: half the loops to start are worth more than the nearest cache."""

PEAK, TOTAL, NORM, WORK = 0, 1, 2, 3
"""Rows of a tile's scratch: the largest score, the sum of masses, what makes them sum to the row's weight, anything."""

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer held in the low mantissa bits

# Sums may be reassociated so that they vectorise; inf and nan keep their meaning. Python's check for division by zero
# would keep loops from being vectorised.
KERNEL: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy", "nogil": True}
# What the kernel calls becomes part of it. Outside it would be compiled once more on its own, and round otherwise:
# a process that has compiled the kernel would use that one, a process that read it from the cache the other. Nobody
# calls it from Python or C, and a sixth of the compiling is spared without such doors.
PART: dict[str, Any] = KERNEL | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
EXACT: dict[str, Any] = PART | {"fastmath": {"contract"}}


cached = cached_in(Path(__file__).parent)


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
    shifted = x * LOG2E + ROUND
    n = shifted - ROUND
    r = (x - n * LN2_HIGH) - n * LN2_LOW
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


@numba.njit(**PART)
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
        for i in range(n, tile.shape[1]):
            tile[d, i] = 0.0


@numba.njit(**PART)
def _store(mass, lanes, first, n, out):
    """Write a tile's normalised masses as rows."""
    for i in range(n):
        for j in range(mass.shape[0]):
            out[first + i, j] = mass[j, i] * lanes[NORM, i]


# Rows of arrays are named by array and index below: a view of its own would be counted as a reference every time.


@numba.njit(**PART)
def _add_scaled(out, k, tile, coefficients, e, last):
    """Add to out[k] the sum of coefficients[e, d] * tile[d] over d < last, four rows of the tile at a time."""
    d = 0
    while d + 4 <= last:
        a, b = coefficients[e, d], coefficients[e, d + 1]
        c, f = coefficients[e, d + 2], coefficients[e, d + 3]
        for i in range(tile.shape[1]):
            out[k, i] += a * tile[d, i] + b * tile[d + 1, i] + c * tile[d + 2, i] + f * tile[d + 3, i]
        d += 4
    while d < last:
        a = coefficients[e, d]
        for i in range(tile.shape[1]):
            out[k, i] += a * tile[d, i]
        d += 1


@numba.njit(**PART)
def _add_dots(out, row, tile, weight, k, last):
    """Add to out[row, d] the sum over lanes of weight[k] * tile[d] for d < last, four rows at a time."""
    d = 0
    while d + 4 <= last:
        a, b, c, e = 0.0, 0.0, 0.0, 0.0
        for i in range(tile.shape[1]):
            a += weight[k, i] * tile[d, i]
            b += weight[k, i] * tile[d + 1, i]
            c += weight[k, i] * tile[d + 2, i]
            e += weight[k, i] * tile[d + 3, i]
        out[row, d] += a
        out[row, d + 1] += b
        out[row, d + 2] += c
        out[row, d + 3] += e
        d += 4
    while d < last:
        a = 0.0
        for i in range(tile.shape[1]):
            a += weight[k, i] * tile[d, i]
        out[row, d] += a
        d += 1


@numba.njit(**PART)
def _quadratic(tile, factor, mean, norm, score, k, lanes):
    """Fill score[k] with norm - |U'x - mean|^2 / 2, U' lower triangular in `factor`, or its diagonal in factor[0]."""
    dim = tile.shape[0]
    is_diagonal = factor.shape[0] < dim
    for i in range(tile.shape[1]):
        score[k, i] = norm
    for e in range(dim):
        if is_diagonal:
            _subtract_square(tile, factor, 0, e, 1, mean[e], score, k)
        elif e < 4:
            _subtract_square(tile, factor, e, 0, e + 1, mean[e], score, k)
        else:
            for i in range(tile.shape[1]):
                lanes[WORK, i] = -mean[e]
            _add_scaled(lanes, WORK, tile, factor, e, e + 1)
            for i in range(tile.shape[1]):
                score[k, i] -= 0.5 * lanes[WORK, i] * lanes[WORK, i]


@numba.njit(**PART)
def _subtract_square(tile, factor, row, d, n, shift, score, k):
    """Subtract from score[k] half the square of the sum of factor[row] * tile over `n` features from d on, less shift.

    One to four features: in one loop, the square needs no place in memory.
    """
    a = factor[row, d]
    if n == 1:
        for i in range(tile.shape[1]):
            work = a * tile[d, i] - shift
            score[k, i] -= 0.5 * work * work
        return
    b = factor[row, d + 1]
    if n == 2:
        for i in range(tile.shape[1]):
            work = a * tile[d, i] + b * tile[d + 1, i] - shift
            score[k, i] -= 0.5 * work * work
        return
    c = factor[row, d + 2]
    if n == 3:
        for i in range(tile.shape[1]):
            work = a * tile[d, i] + b * tile[d + 1, i] + c * tile[d + 2, i] - shift
            score[k, i] -= 0.5 * work * work
        return
    e = factor[row, d + 3]
    for i in range(tile.shape[1]):
        work = a * tile[d, i] + b * tile[d + 1, i] + c * tile[d + 2, i] + e * tile[d + 3, i] - shift
        score[k, i] -= 0.5 * work * work


@numba.njit(**PART)
def _add_scatter(tile, betp, k, scatter, lanes):
    """Add to `scatter` sum_i betp_ki x_i x_i', its lower triangle, or its diagonal in scatter[0]."""
    dim = tile.shape[0]
    if scatter.shape[0] < dim:
        for d in range(dim):
            total = 0.0
            for i in range(tile.shape[1]):
                total += betp[k, i] * tile[d, i] * tile[d, i]
            scatter[0, d] += total
        return
    whole = dim // 4 * 4
    for d in range(0, whole, 4):
        _add_square(tile, betp, k, d, scatter)
    for d in range(min(4, whole), dim):
        for i in range(tile.shape[1]):
            lanes[WORK, i] = betp[k, i] * tile[d, i]
        _add_dots(scatter, d, tile, lanes, WORK, d // 4 * 4 if d < whole else d + 1)


@numba.njit(**PART)
def _add_square(tile, betp, k, d, scatter):
    """Add the ten products of four features from d on: each is read once for all."""
    aa, ab, bb, ac, bc, cc, ae, be, ce, ee = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(tile.shape[1]):
        a, b, c, e = tile[d, i], tile[d + 1, i], tile[d + 2, i], tile[d + 3, i]
        pa, pb, pc, pe = betp[k, i] * a, betp[k, i] * b, betp[k, i] * c, betp[k, i] * e
        aa += pa * a
        ab += pa * b
        bb += pb * b
        ac += pa * c
        bc += pb * c
        cc += pc * c
        ae += pa * e
        be += pb * e
        ce += pc * e
        ee += pe * e
    scatter[d, d] += aa
    scatter[d + 1, d] += ab
    scatter[d + 1, d + 1] += bb
    scatter[d + 2, d] += ac
    scatter[d + 2, d + 1] += bc
    scatter[d + 2, d + 2] += cc
    scatter[d + 3, d] += ae
    scatter[d + 3, d + 1] += be
    scatter[d + 3, d + 2] += ce
    scatter[d + 3, d + 3] += ee


@cached(**KERNEL)
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
        (1, M), (C, D) and (C, D, D), (C, 1, D) or (C, 0, D).
    rows_out : (masses, log_densities)
        (n, M) and (n,): filled where they have rows.
    """
    return _sweep(X, by_columns, weight, centre, density, sets, sums_out, rows_out, LANES)


@cached(**KERNEL)
def small_pass(X, by_columns, weight, centre, density, sets, sums_out, rows_out):
    """The same for few rows, in tiles of equal width so that few lanes are empty; of many rows it takes longer."""
    n_rows = X.shape[1 if by_columns else 0]
    n_tiles = max(1, -(-n_rows // MOST_LANES))
    width = max(1, -(-n_rows // (16 * n_tiles))) << 4  # A multiple of 16, as the compiler sees: no loop has a rest.
    return _sweep(X, by_columns, weight, centre, density, sets, sums_out, rows_out, width)


@numba.njit(**PART)
def _sweep(X, by_columns, weight, centre, density, sets, sums_out, rows_out, width):
    """Tiles of so many rows, one after the other."""
    linear, offsets, factors, whitened = density
    log_weights, starts, members, powers, halves, power_of = sets
    counts, sums, scatters = sums_out
    masses_out, log_out = rows_out
    n_rows, dim = X.shape[1 if by_columns else 0], centre.shape[0]
    n_clusters, n_focal = sums.shape[0], counts.shape[1]
    is_shared = factors.shape[0] == 0
    weighted = weight.shape[0] > 0
    coefficients = np.exp(log_weights)
    is_plain = n_focal == n_clusters  # Set j is cluster j: masses are what the clusters have.
    for j in range(n_focal):
        is_plain = is_plain and starts[j + 1] == j + 1 and members[j] == j
    n_roots = powers.shape[0] * n_clusters
    scratch = np.empty((dim + 5 + 2 * n_clusters + n_roots + n_focal, width))
    tile, lanes, row_weight = scratch[:dim], scratch[dim : dim + 4], scratch[dim + 4]
    score, scratch = scratch[dim + 5 : dim + 5 + n_clusters], scratch[dim + 5 + n_clusters :]
    betp, mass = scratch[:n_clusters], scratch[n_clusters : n_clusters + n_focal]
    roots = scratch[n_clusters + n_focal :].reshape((powers.shape[0], n_clusters, width))
    for i in range(width):
        row_weight[i] = 1.0
    log_likelihood = 0.0
    for first in range(0, n_rows, width):
        n = min(width, n_rows - first)
        _load(X, by_columns, first, n, centre, tile)
        if weighted:
            for i in range(n):
                row_weight[i] = weight[first + i]
        for i in range(n, width):
            row_weight[i] = 0.0
        for k in range(n_clusters):
            if is_shared:
                for i in range(width):
                    score[k, i] = offsets[k]
                _add_scaled(score, k, tile, linear, k, dim)
            else:
                _quadratic(tile, factors[k], whitened[k], offsets[k], score, k, lanes)
        part = np.nan
        if powers.shape[0] > 0:
            _roots(score, powers, halves, lanes, roots)
            part = _masses_by_products(roots, coefficients, starts, members, power_of, mass, lanes, row_weight)
        if np.isnan(part):
            part = _masses_by_logs(score, log_weights, starts, members, mass, lanes, row_weight)
        log_likelihood += part
        if log_out.shape[0] > 0:
            for i in range(n):
                log_out[first + i] = np.log(lanes[TOTAL, i]) + lanes[PEAK, i]
        if masses_out.shape[0] > 0:
            _store(mass, lanes, first, n, masses_out)
        if is_plain:
            betp = mass
            _normalise_plain(mass, lanes, counts)
        else:
            _pignistic(mass, coefficients, lanes, starts, members, betp, counts)
        for k in range(n_clusters):
            _add_dots(sums, k, tile, betp, k, dim)
            if scatters.shape[1] > 0:
                _add_scatter(tile, betp, k, scatters[k], lanes)
    return log_likelihood


@numba.njit(**PART)
def _roots(score, powers, halves, lanes, roots):
    """roots[p, k] = exp((score_k - peak) / powers[p]); where 2 * powers[p] is at hand, its square."""
    n_clusters = score.shape[0]
    for i in range(score.shape[1]):
        lanes[PEAK, i] = score[0, i]
    for k in range(1, n_clusters):
        for i in range(score.shape[1]):
            lanes[PEAK, i] = max(lanes[PEAK, i], score[k, i])
    for p in range(powers.shape[0]):
        inverse = 1.0 / powers[p]
        half = halves[p]
        for k in range(n_clusters):
            if half >= 0:
                for i in range(score.shape[1]):
                    roots[p, k, i] = roots[half, k, i] * roots[half, k, i]
            else:
                for i in range(score.shape[1]):
                    roots[p, k, i] = _exp((score[k, i] - lanes[PEAK, i]) * inverse)


@numba.njit(**PART)
def _masses_by_products(roots, coefficients, starts, members, power_of, mass, lanes, row_weight):
    """Masses as products of the members' roots: no exponential per set. NaN when a row underflows."""
    for i in range(mass.shape[1]):
        lanes[TOTAL, i] = 0.0
    for j in range(coefficients.shape[0]):
        a, p = coefficients[j], power_of[j]
        at, end = starts[j], starts[j + 1]
        k = members[at]
        if a == 0.0:
            for i in range(mass.shape[1]):
                mass[j, i] = 0.0
            continue
        if end - at == 1:
            for i in range(mass.shape[1]):
                mass[j, i] = a * roots[p, k, i]
                lanes[TOTAL, i] += mass[j, i]
            continue
        m = members[at + 1]
        if end - at == 2:
            for i in range(mass.shape[1]):
                mass[j, i] = a * roots[p, k, i] * roots[p, m, i]
                lanes[TOTAL, i] += mass[j, i]
            continue
        at += (end - at) % 2
        for i in range(mass.shape[1]):
            mass[j, i] = a if at == starts[j] else a * roots[p, k, i]
        while at < end:
            k, m = members[at], members[at + 1]
            for i in range(mass.shape[1]):
                mass[j, i] *= roots[p, k, i] * roots[p, m, i]
            at += 2
        for i in range(mass.shape[1]):
            lanes[TOTAL, i] += mass[j, i]
    n_safe = 0
    for i in range(mass.shape[1]):
        n_safe += lanes[TOTAL, i] > 1e-100
    if n_safe < mass.shape[1]:
        return np.nan
    return _normalise(lanes, row_weight)


@numba.njit(**PART)
def _normalise(lanes, row_weight):
    """Fill the factors that make a tile's masses sum to the rows' weights; return its log-likelihood."""
    log_likelihood = 0.0
    for i in range(lanes.shape[1]):
        lanes[NORM, i] = row_weight[i] / lanes[TOTAL, i]
        log_likelihood += row_weight[i] * (_log(lanes[TOTAL, i]) + lanes[PEAK, i])
    return log_likelihood


@numba.njit(**PART)
def _masses_by_logs(score, log_weights, starts, members, mass, lanes, row_weight):
    """Masses in the log domain, one exponential per set: safe for any data."""
    for i in range(score.shape[1]):
        lanes[PEAK, i] = -np.inf
        lanes[TOTAL, i] = 0.0
    for j in range(log_weights.shape[0]):
        at, end = starts[j], starts[j + 1]
        a, share, k = log_weights[j], 1.0 / (end - at), members[at]
        if end - at == 1:
            for i in range(score.shape[1]):
                mass[j, i] = a + score[k, i]
                lanes[PEAK, i] = max(lanes[PEAK, i], mass[j, i])
            continue
        at += (end - at) % 2
        for i in range(score.shape[1]):
            mass[j, i] = a if at == starts[j] else a + share * score[k, i]
        while at < end:
            k, m = members[at], members[at + 1]
            for i in range(score.shape[1]):
                mass[j, i] += share * (score[k, i] + score[m, i])
            at += 2
        for i in range(score.shape[1]):
            lanes[PEAK, i] = max(lanes[PEAK, i], mass[j, i])
    for j in range(log_weights.shape[0]):
        for i in range(score.shape[1]):
            m = _exp(mass[j, i] - lanes[PEAK, i])
            mass[j, i] = m
            lanes[TOTAL, i] += m
    return _normalise(lanes, row_weight)


@numba.njit(**PART)
def _normalise_plain(mass, lanes, counts):
    """Make masses of clusters alone sum to the rows' weights, and add them to `counts`."""
    for k in range(mass.shape[0]):
        total = 0.0
        for i in range(mass.shape[1]):
            mass[k, i] *= lanes[NORM, i]
            total += mass[k, i]
        counts[0, k] += total


@numba.njit(**PART)
def _pignistic(mass, coefficients, lanes, starts, members, betp, counts):
    """Add a tile's masses, once normalised, to `counts`, and share them among the clusters."""
    _add_dots(counts, 0, mass, lanes, NORM, mass.shape[0])
    betp[:] = 0.0
    for j in range(mass.shape[0]):
        at, end = starts[j], starts[j + 1]
        share = 1.0 / (end - at)
        if coefficients[j] == 0.0:
            continue
        if (end - at) % 2 == 1:
            k = members[at]
            for i in range(mass.shape[1]):
                betp[k, i] += share * mass[j, i]
            at += 1
        while at < end:
            k, m = members[at], members[at + 1]
            for i in range(mass.shape[1]):
                betp[k, i] += share * mass[j, i]
                betp[m, i] += share * mass[j, i]
            at += 2
    for k in range(betp.shape[0]):
        for i in range(mass.shape[1]):
            betp[k, i] *= lanes[NORM, i]
