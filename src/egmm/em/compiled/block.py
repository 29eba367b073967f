"""The fused E-step, compiled: one sweep over a block of rows, a tile of rows in the vector lanes at a time.

Nothing of size (n, M) is stored: a tile's scratch stays in the cache, and only sums leave it.
"""

from pathlib import Path

import numba
import numpy as np

from egmm._cache import cached_in
from egmm.em.compiled.masses import masses_by_logs, masses_by_products, normalise_plain, pignistic, roots
from egmm.em.compiled.moments import add_scatter
from egmm.em.compiled.options import KERNEL, PART, PEAK, TOTAL
from egmm.em.compiled.scores import quadratic
from egmm.em.compiled.tile import add_dots, add_scaled, load, store

LANES = 128
"""Rows per tile: long enough to amortise loop overhead, with the scratch still in the cache."""

cached = cached_in(Path(__file__).parent)


@cached(**KERNEL)
def block_pass(X, by_columns, weight, density, sets, sums, rows_out):
    """E-step of one block of rows: adds to `sums`, returns the log-likelihood.

    X : (n, D), or (D, n) where `by_columns`
        One compiled kernel for both, so that results do not depend on the memory order.
    weight : (n,), or (0,) where all rows count once
    density, sets, sums, rows_out
        See `egmm.em.kernel`.
    """
    n_rows, dim = X.shape[1 if by_columns else 0], density.centre.shape[0]
    n_clusters, n_focal = sums.firsts.shape[0], sets.log_weights.shape[0]
    weighted = weight.shape[0] > 0
    coefficients = np.exp(sets.log_weights)
    is_plain = _are_clusters(sets, n_clusters)
    tile, lanes, row_weight = np.empty((dim, LANES)), np.empty((4, LANES)), np.ones(LANES)
    score, betp = np.empty((n_clusters, LANES)), np.empty((n_clusters, LANES))
    mass, powers = np.empty((n_focal, LANES)), np.empty((sets.powers.shape[0], n_clusters, LANES))
    log_likelihood = 0.0
    for first in range(0, n_rows, LANES):
        n = min(LANES, n_rows - first)
        load(X, by_columns, first, n, density.centre, density.inverse_scale, tile)
        if weighted:
            for i in range(n):
                row_weight[i] = weight[first + i]
        for i in range(n, LANES):
            row_weight[i] = 0.0
        _score(density, tile, score, lanes)
        part = np.nan
        if powers.shape[0] > 0:
            roots(score, sets.powers, sets.halves, lanes, powers)
            part = masses_by_products(
                powers, coefficients, sets.starts, sets.members, sets.power_of, mass, lanes, row_weight
            )
        if np.isnan(part):
            part = masses_by_logs(score, sets.log_weights, sets.starts, sets.members, mass, lanes, row_weight)
        log_likelihood += part
        for i in range(min(n, rows_out.log_densities.shape[0])):
            rows_out.log_densities[first + i] = np.log(lanes[TOTAL, i]) + lanes[PEAK, i]
        if rows_out.masses.shape[0] > 0:
            store(mass, lanes, first, n, rows_out.masses)
        if is_plain:
            normalise_plain(mass, lanes, sums.set_counts)
            _add_moments(tile, mass, sums, lanes)
        else:
            pignistic(mass, coefficients, lanes, sets.starts, sets.members, betp, sums.set_counts)
            _add_moments(tile, betp, sums, lanes)
    return log_likelihood


@numba.njit(**PART)
def _are_clusters(sets, n_clusters):
    """Whether set j is cluster j: masses are then those of the clusters."""
    if sets.log_weights.shape[0] != n_clusters:
        return False
    is_plain = True
    for j in range(n_clusters):
        is_plain = is_plain and sets.starts[j + 1] == j + 1 and sets.members[j] == j
    return is_plain


@numba.njit(**PART)
def _score(density, tile, score, lanes):
    """Log-densities of the clusters on a tile."""
    for k in range(score.shape[0]):
        if density.factors.shape[0] == 0:
            for i in range(tile.shape[1]):
                score[k, i] = density.offsets[k]
            add_scaled(score, k, tile, density.linear, k, tile.shape[0])
        else:
            quadratic(tile, density.factors[k], density.whitened[k], density.offsets[k], score, k, lanes)


@numba.njit(**PART)
def _add_moments(tile, betp, sums, lanes):
    """Add the clusters' first and second moments on a tile."""
    for k in range(sums.firsts.shape[0]):
        add_dots(sums.firsts, k, tile, betp, k, tile.shape[0])
        if sums.seconds.shape[1] > 0:
            add_scatter(tile, betp, k, sums.seconds[k], lanes)
