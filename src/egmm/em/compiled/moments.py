"""Second moments of the clusters on a tile of rows."""

import numba

from egmm.em.compiled.options import PART, WORK
from egmm.em.compiled.tile import add_dots


@numba.njit(**PART)
def add_scatter(tile, betp, k, scatter, lanes):
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
        add_dots(scatter, d, tile, lanes, WORK, d // 4 * 4 if d < whole else d + 1)


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
