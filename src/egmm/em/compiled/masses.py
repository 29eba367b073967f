"""Masses of a tile of rows on the focal sets, and the clusters' shares of them."""

import numba
import numpy as np

from egmm.em.compiled.arithmetic import exp, log
from egmm.em.compiled.options import NORM, PART, PEAK, TOTAL
from egmm.em.compiled.tile import add_dots


@numba.njit(**PART)
def roots(score, powers, halves, lanes, roots):
    """roots[p, k] = exp((score_k - peak) / powers[p]); the square of a known root where possible."""
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
                    roots[p, k, i] = exp((score[k, i] - lanes[PEAK, i]) * inverse)


@numba.njit(**PART)
def masses_by_products(roots, coefficients, starts, members, power_of, mass, lanes, row_weight):
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
        log_likelihood += row_weight[i] * (log(lanes[TOTAL, i]) + lanes[PEAK, i])
    return log_likelihood


@numba.njit(**PART)
def masses_by_logs(score, log_weights, starts, members, mass, lanes, row_weight):
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
            m = exp(mass[j, i] - lanes[PEAK, i])
            mass[j, i] = m
            lanes[TOTAL, i] += m
    return _normalise(lanes, row_weight)


@numba.njit(**PART)
def normalise_plain(mass, lanes, counts):
    """Make masses of clusters alone sum to the rows' weights, and add them to `counts`."""
    for k in range(mass.shape[0]):
        total = 0.0
        for i in range(mass.shape[1]):
            mass[k, i] *= lanes[NORM, i]
            total += mass[k, i]
        counts[0, k] += total


@numba.njit(**PART)
def pignistic(mass, coefficients, lanes, starts, members, betp, counts):
    """Add a tile's masses, once normalised, to `counts`, and share them among the clusters."""
    add_dots(counts, 0, mass, lanes, NORM, mass.shape[0])
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
