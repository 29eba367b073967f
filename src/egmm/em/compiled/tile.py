"""A tile of rows in the vector lanes: bringing it in, and products with it.

Rows of arrays are named by array and index: a view of its own would be counted as a reference every time.
"""

import numba

from egmm.em.compiled.options import NORM, PART


@numba.njit(**PART)
def load(X, by_columns, first, n, centre, inverse_scale, tile):
    """Bring a tile of rows into lanes, centred, scaled and in double precision; lanes past the end are zero."""
    dim = tile.shape[0]
    if by_columns:
        for d in range(dim):
            for i in range(n):
                tile[d, i] = (X[d, first + i] - centre[d]) * inverse_scale[d]
    else:
        for i in range(n):
            for d in range(dim):
                tile[d, i] = (X[first + i, d] - centre[d]) * inverse_scale[d]
    for d in range(dim):
        for i in range(n, tile.shape[1]):
            tile[d, i] = 0.0


@numba.njit(**PART)
def store(mass, lanes, first, n, out):
    """Write a tile's normalised masses as rows."""
    for i in range(n):
        for j in range(mass.shape[0]):
            out[first + i, j] = mass[j, i] * lanes[NORM, i]


@numba.njit(**PART)
def add_scaled(out, k, tile, coefficients, e, last):
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
def add_dots(out, row, tile, weight, k, last):
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
