"""Log-densities of the clusters on a tile of rows."""

import numba

from egmm.em.compiled.options import PART, WORK
from egmm.em.compiled.tile import add_scaled


@numba.njit(**PART)
def quadratic(tile, factor, mean, norm, score, k, lanes):
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
            add_scaled(lanes, WORK, tile, factor, e, e + 1)
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
