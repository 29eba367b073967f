r"""Covariances of the 14 models from one scatter matrix and one count per cluster (Celeux and Govaert 1995).

Every function minimises

.. math:: f(\Sigma_1, \ldots, \Sigma_C) = \sum_k n_k \log|\Sigma_k| + \operatorname{tr}(\Sigma_k^{-1} W_k)

over the model's covariances :math:`\Sigma_k = \lambda_k D_k A_k D_k^\top`: volume :math:`\lambda_k`, shape
:math:`A_k` diagonal with determinant one, orientation :math:`D_k`. VEI, VEE, EVE, VVE and VEV have no closed form:
they descend from the covariances they are given. Diagonal models read and return diagonals, (C, D). Any axes before
these are many problems of one size, solved together.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em.covariance import is_diagonal

INNER_TOL = 1e-10
"""Tolerance of iterations inside the M-step, on the log-volumes."""

MAX_INNER = 50
"""Most iterations inside one M-step. Ten to thirty do, unless scatters are all but singular; each lowers f, so a cap
keeps EM monotone."""


class Start(NamedTuple):
    """Start and iteration limit of a model without closed form."""

    previous: FloatArray | None = None
    """Covariances to descend from, shaped as the scatters."""
    max_inner: int = MAX_INNER


def fit_covariances(
    covariance: str,
    counts: FloatArray,
    scatters: FloatArray,
    previous: FloatArray | None = None,
    max_inner: int = MAX_INNER,
) -> FloatArray:
    r"""Minimise :math:`f` over the covariances of one model.

    Parameters
    ----------
    covariance : str
        One of the 14 codes.
    counts : ndarray of shape (..., C)
        :math:`n_k > 0`.
    scatters : ndarray of shape (..., C, D, D), or (..., C, D) for the diagonal models
        :math:`W_k`, or their diagonals.
    previous : ndarray of the same shape, optional
        Covariances to descend from where there is no closed form.
    max_inner : int, default=MAX_INNER
        Most iterations where there is no closed form; each lowers :math:`f`.

    Returns
    -------
    covariances : ndarray of the same shape
        Not checked: entries are zero or not finite where a cluster has too few rows for its model.

    Examples
    --------
    >>> scatters = np.array([[4.0, 16.0], [1.0, 1.0]])
    >>> fit_covariances("VII", np.array([2.0, 1.0]), scatters)
    array([[5., 5.], [1., 1.]])
    >>> fit_covariances("EVI", np.array([2.0, 1.0]), scatters).prod(axis=1)
    array([9., 9.])
    """
    fit = _DIAGONAL[covariance] if is_diagonal(covariance) else _FULL[covariance]
    with np.errstate(divide="ignore", invalid="ignore"):
        return fit(counts, scatters, Start(previous, max_inner))


# Diagonal models: scatters are (..., C, D) -------------------------------------------------------------------


def _eii(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    variances = scatters.mean(axis=-1).sum(axis=-1) / counts.sum(axis=-1)
    return np.broadcast_to(variances[..., None, None], scatters.shape).copy()


def _vii(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    return np.broadcast_to((scatters.mean(axis=-1) / counts)[..., None], scatters.shape).copy()


def _eei(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    variances = scatters.sum(axis=-2) / counts.sum(axis=-1)[..., None]
    return np.broadcast_to(variances[..., None, :], scatters.shape).copy()


def _vei(counts: FloatArray, scatters: FloatArray, start: Start) -> FloatArray:
    """Volumes times one shape: scale the scatters' rows to D n_k and their columns to n (Sinkhorn's iteration)."""
    dim = scatters.shape[-1]
    rows = scatters.sum(axis=-2) if start.previous is None else _geometric_means(start.previous, axis=-2)
    shape = _unit_volume(rows)
    volumes = (scatters / shape[..., None, :]).sum(axis=-1) / (dim * counts)
    for _ in range(start.max_inner):
        shape = _unit_volume((scatters / volumes[..., None]).sum(axis=-2))
        last, volumes = volumes, (scatters / shape[..., None, :]).sum(axis=-1) / (dim * counts)
        if _is_settled(volumes, last):
            break
    return np.asarray(volumes[..., None] * shape[..., None, :])


def _evi(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    volumes = _geometric_means(scatters, axis=-1)
    common = volumes.sum(axis=-1) / counts.sum(axis=-1)
    return np.asarray(scatters / volumes[..., None] * common[..., None, None])


def _vvi(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    return scatters / counts[..., None]


# Full models: scatters are (..., C, D, D) --------------------------------------------------------------------


def _eee(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    common = scatters.sum(axis=-3) / counts.sum(axis=-1)[..., None, None]
    return np.broadcast_to(common[..., None, :, :], scatters.shape).copy()


def _vee(counts: FloatArray, scatters: FloatArray, start: Start) -> FloatArray:
    """Volumes times one matrix of determinant one."""
    dim = scatters.shape[-1]
    volumes = np.trace(scatters, axis1=-2, axis2=-1) / counts if start.previous is None else _volumes(start.previous)
    matrix = scatters[..., 0, :, :]
    for _ in range(start.max_inner):
        matrix = np.einsum("...k,...kde->...de", 1 / volumes, scatters)
        matrix /= _volumes(matrix)[..., None, None]
        last = volumes
        volumes = np.einsum("...kde,...de->...k", scatters, _inverse(matrix)) / (dim * counts)
        if _is_settled(volumes, last):
            break
    return np.asarray(volumes[..., None, None] * matrix[..., None, :, :])


def _eev(counts: FloatArray, scatters: FloatArray, start: Start) -> FloatArray:
    values, axes = np.linalg.eigh(scatters)
    return _assemble(axes, _eei(counts, values, start))


def _vev(counts: FloatArray, scatters: FloatArray, start: Start) -> FloatArray:
    """Each cluster has the axes of its scatter; the sorted eigenvalues are a VEI problem."""
    values, axes = np.linalg.eigh(scatters)
    if start.previous is not None:
        start = start._replace(previous=np.asarray(np.linalg.eigvalsh(start.previous)))
    return _assemble(axes, _vei(counts, np.maximum(values, 0.0), start))


def _evv(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    volumes = _volumes(scatters)
    common = volumes.sum(axis=-1) / counts.sum(axis=-1)
    return np.asarray(scatters / volumes[..., None, None] * common[..., None, None, None])


def _vvv(counts: FloatArray, scatters: FloatArray, _: Start) -> FloatArray:
    return scatters / counts[..., None, None]


def _eve(counts: FloatArray, scatters: FloatArray, start: Start) -> FloatArray:
    return _common_axes("EVI", counts, scatters, start)


def _vve(counts: FloatArray, scatters: FloatArray, start: Start) -> FloatArray:
    return _common_axes("VVI", counts, scatters, start)


def _common_axes(along_axes: str, counts: FloatArray, scatters: FloatArray, start: Start) -> FloatArray:
    """One orientation for all clusters: a sweep of plane rotations, then the diagonal model `along_axes`.

    One sweep lowers f, and the next M-step continues. With variances v_kd along the axes, turning axes d and e by an
    angle changes only sum_k (1/v_kd - 1/v_ke) u' W_k u, u the new axis d: the best u is an eigenvector of a 2 x 2
    matrix. Turning disjoint pairs of axes together is exact, so a sweep over all pairs is D - 1 vectorised steps.
    """
    fit = _DIAGONAL[along_axes]
    axes = np.linalg.eigh(scatters.sum(axis=-3))[1] if start.previous is None else common_axes(start.previous)
    # Every axis with its products with all scatters, (D, D, 1 + C, ...): a turn mixes two of these, and with the
    # problems last NumPy does so in long loops.
    turning = np.concatenate([axes[..., None, :, :], scatters @ axes[..., None, :, :]], axis=-3).T.copy()
    along = _across(turning, turning)
    precisions = 1 / fit(counts, along.T, start).T
    for first, second in _disjoint_pairs(scatters.shape[-1]):
        one, two = turning[first], turning[second]
        across, gap = _across(one, two), along[second] - along[first]
        cos, sin = _best_turn(precisions, gap, across, first, second)
        turning[first] = cos[:, None] * one + sin[:, None] * two
        turning[second] = cos[:, None] * two - sin[:, None] * one
        added = sin * (sin * gap + 2 * cos * across)
        along[first] += added
        along[second] -= added
    return _assemble(turning[:, :, :1].T, fit(counts, along.T, start))


def _across(one: FloatArray, two: FloatArray) -> FloatArray:
    """u' W_k v, (P, C, ...), of axes u and v, given with their products with the scatters, (P, D, 1 + C, ...)."""
    return np.asarray((one[:, :, 1:] * two[:, :, :1]).sum(axis=1))


def _best_turn(
    precisions: FloatArray, gaps: FloatArray, across: FloatArray, first: IntArray, second: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Cosine and sine (P, 1, ...) of the turns of planes (first, second) that make sum_k tr(P_k W_k) least.

    `across` are the scatters' entries (first, second), `gaps` what (second, second) has more than (first, first).
    """
    contrast = precisions[first] - precisions[second]
    slope = (contrast * across).sum(axis=1, keepdims=True)
    gap = (contrast * gaps).sum(axis=1, keepdims=True)
    angle = 0.5 * np.arctan2(-2 * slope, gap)
    return np.cos(angle), np.sin(angle)


def common_axes(covariances: FloatArray) -> FloatArray:
    """Axes (..., D, D) that covariances of one orientation have in common."""
    # Unequal weights: axes on which one mixture of the covariances ties must not be taken for a tie of all.
    weights = (1 + np.arange(covariances.shape[-3])) / np.trace(covariances, axis1=-2, axis2=-1)
    return np.linalg.eigh(np.einsum("...k,...kde->...de", weights, covariances))[1]


@cache
def _disjoint_pairs(dim: int) -> tuple[tuple[IntArray, IntArray], ...]:
    """All pairs of axes as rounds of disjoint pairs (the round-robin tournament's circle method)."""
    seats = list(range(dim + dim % 2))
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = [(a, b) for a, b in zip(seats[:half], reversed(seats[half:]), strict=True) if max(a, b) < dim]
        rounds.append((np.array([a for a, _ in pairs], dtype=int), np.array([b for _, b in pairs], dtype=int)))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return tuple(rounds)


# Small pieces ------------------------------------------------------------------------------------------------


def _geometric_means(values: FloatArray, axis: int) -> FloatArray:
    return np.asarray(np.exp(np.log(values).mean(axis=axis)))


def _unit_volume(diagonal: FloatArray) -> FloatArray:
    """Scale diagonals to determinant one."""
    return np.asarray(diagonal / _geometric_means(diagonal, axis=-1)[..., None])


def _volumes(matrices: FloatArray) -> FloatArray:
    """|M|^(1/D) of one or many matrices."""
    return np.asarray(np.exp(np.linalg.slogdet(matrices)[1] / matrices.shape[-1]))


def _inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of one or many covariances; not finite where there is none, which the caller's check finds."""
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        if matrix.ndim == 2:
            return np.full(matrix.shape, np.nan)
        return np.stack([_inverse(one) for one in matrix])


def _is_settled(volumes: FloatArray, last: FloatArray) -> bool:
    # Also where not finite: the caller's check speaks for the cluster.
    return not (np.abs(np.log(volumes / last)) > INNER_TOL).any()


def _assemble(axes: FloatArray, variances: FloatArray) -> FloatArray:
    """D diag(v_k) D' for common (..., 1, D, D) or own (..., C, D, D) axes."""
    return np.asarray((axes * variances[..., None, :]) @ np.swapaxes(axes, -1, -2))


_DIAGONAL = {"EII": _eii, "VII": _vii, "EEI": _eei, "VEI": _vei, "EVI": _evi, "VVI": _vvi}
_FULL = {
    "EEE": _eee,
    "VEE": _vee,
    "EVE": _eve,
    "VVE": _vve,
    "EEV": _eev,
    "VEV": _vev,
    "EVV": _evv,
    "VVV": _vvv,
}
