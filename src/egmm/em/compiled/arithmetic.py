"""Exponential and logarithm without branches, so that loops over rows vectorise."""

import numba
import numpy as np

from egmm.em.compiled.options import EXACT

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer held in the low mantissa bits


@numba.njit(**EXACT)
def _bits(x):
    """Reinterpret a double as a 64-bit integer."""
    return np.float64(x).view(np.int64)


@numba.njit(**EXACT)
def _double(x):
    """Reinterpret a 64-bit integer as a double."""
    return np.int64(x).view(np.float64)


@numba.njit(**EXACT)
def exp(x):
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
def log(x):
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
