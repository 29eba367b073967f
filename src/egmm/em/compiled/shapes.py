r"""Covariances of the 14 models from scatters and counts, compiled: `celeux_govaert` for small matrices.

A model is three numbers, for volume, shape and orientation: NONE, EQUAL or OWN. Whatever the model, covariances are
:math:`\Sigma_k = D_k \operatorname{diag}(v_k) D_k^\top` along axes: of the coordinates, of all clusters or of each.
Given the axes, what is left is a diagonal model. Only EEE, VEE, EVV and VVV are fitted as wholes.
"""

import numba
import numpy as np

from egmm.em.compiled.plain import PART

NONE, EQUAL, OWN = 0, 1, 2
"""What the letters I, E and V of a model stand for."""

INNER_TOL = 1e-10
"""An iteration inside the M-step ends when the logarithms of its volumes change by less."""

MAX_INNER = 50
"""Most iterations inside one M-step that cost next to nothing."""

MAX_MATRICES = 4
"""Most iterations of VEE, which factors a matrix in each: the next M-step goes on where this one stopped."""

MAX_SWEEPS = 2
"""Most sweeps over the planes of a common orientation: the next M-step goes on where this one stopped."""

MAX_TURNS, TURNED = 30, 1e-13
"""Most sweeps of Jacobi's rotations, of which about five do, and the correlation that counts as none: eigenvalues are
off by no more than its square."""


@numba.njit(**PART)
def fit_covariances(model, counts, scatters, axes, covariances):
    """Fill `covariances` (C, D, D) of a model from counts (C,) and scatters (C, D, D), which are used up.

    VEE descends from `covariances`, which belong to the model, EVE and VVE from the common `axes` (D, D), which are
    replaced.
    """
    volume, shape, orientation = model
    if shape == EQUAL and orientation == EQUAL:
        _fit_common_matrix(volume, counts, scatters, covariances)
    elif shape == OWN and orientation == OWN:
        _fit_own_matrices(volume, counts, scatters, covariances)
    elif orientation == NONE:
        _fit_along_axes(volume, shape, counts, scatters, covariances)
    elif orientation == EQUAL:
        _fit_common_axes(volume, counts, scatters, axes, covariances)
    else:
        _fit_own_axes(volume, counts, scatters, covariances)


# Given axes ------------------------------------------------------------------------------------------------------


@numba.njit(**PART)
def _variances(volume, shape, counts, values, variances):
    """Diagonal models: fill `variances` (C, D) from the scatters' values along the axes; VEI goes on from them."""
    n_clusters, dim = values.shape
    total = 0.0
    for k in range(n_clusters):
        total += counts[k]
    if shape == NONE:
        pooled = 0.0
        for k in range(n_clusters):
            mean = 0.0
            for d in range(dim):
                mean += values[k, d] / dim
            pooled += mean
            for d in range(dim):
                variances[k, d] = mean / counts[k]
        if volume == EQUAL:
            variances[:] = pooled / total
    elif shape == OWN:
        if volume == OWN:
            for k in range(n_clusters):
                for d in range(dim):
                    variances[k, d] = values[k, d] / counts[k]
            return
        common = 0.0
        for k in range(n_clusters):
            size = _geometric_mean(values, k)
            common += size / total
            for d in range(dim):
                variances[k, d] = values[k, d] / size
        for k in range(n_clusters):
            for d in range(dim):
                variances[k, d] *= common
    elif volume == EQUAL:
        for d in range(dim):
            pooled = 0.0
            for k in range(n_clusters):
                pooled += values[k, d]
            for k in range(n_clusters):
                variances[k, d] = pooled / total
    else:
        _volumes_times_shape(counts, values, variances)


@numba.njit(**PART)
def _volumes_times_shape(counts, values, variances):
    """VEI: scale the values' rows to D n_k and their columns to n (Sinkhorn's iteration)."""
    n_clusters, dim = values.shape
    shape, volumes = np.empty((1, dim)), np.empty(n_clusters)
    for d in range(dim):
        total = 0.0
        for k in range(n_clusters):
            total += np.log(variances[k, d])
        shape[0, d] = np.exp(total / n_clusters)
    _scale_to_one(shape)
    for k in range(n_clusters):
        volumes[k] = _volume_along(values, k, shape, counts[k])
    for _ in range(MAX_INNER):
        for d in range(dim):
            total = 0.0
            for k in range(n_clusters):
                total += values[k, d] / volumes[k]
            shape[0, d] = total
        _scale_to_one(shape)
        change = 0.0
        for k in range(n_clusters):
            last, volumes[k] = volumes[k], _volume_along(values, k, shape, counts[k])
            change = max(change, abs(np.log(volumes[k] / last)))
        if not change > INNER_TOL:
            break
    for k in range(n_clusters):
        for d in range(dim):
            variances[k, d] = volumes[k] * shape[0, d]


@numba.njit(**PART)
def _volume_along(values, k, shape, count):
    total = 0.0
    for d in range(values.shape[1]):
        total += values[k, d] / shape[0, d]
    return total / (values.shape[1] * count)


@numba.njit(**PART)
def _geometric_mean(values, k):
    total = 0.0
    for d in range(values.shape[1]):
        total += np.log(values[k, d])
    return np.exp(total / values.shape[1])


@numba.njit(**PART)
def _scale_to_one(shape):
    """Scale (1, D) to product one."""
    size = _geometric_mean(shape, 0)
    for d in range(shape.shape[1]):
        shape[0, d] /= size


@numba.njit(**PART)
def _fit_along_axes(volume, shape, counts, scatters, covariances):
    n_clusters, dim = scatters.shape[:2]
    values, variances = np.empty((n_clusters, dim)), np.empty((n_clusters, dim))
    for k in range(n_clusters):
        for d in range(dim):
            values[k, d], variances[k, d] = scatters[k, d, d], covariances[k, d, d]
    _variances(volume, shape, counts, values, variances)
    covariances[:] = 0.0
    for k in range(n_clusters):
        for d in range(dim):
            covariances[k, d, d] = variances[k, d]


@numba.njit(**PART)
def _fit_own_axes(volume, counts, scatters, covariances):
    """EEV and VEV: each cluster has its own scatter's axes, and one shape has the variances in their order."""
    n_clusters, dim = scatters.shape[:2]
    values, variances = np.empty((n_clusters, dim)), np.empty((n_clusters, dim))
    axes = np.empty((n_clusters, dim, dim))
    for k in range(n_clusters):
        eigenvalues(scatters[k], axes[k], values, k)
        for d in range(dim):
            values[k, d] = max(values[k, d], 0.0)
            variances[k, d] = values[k, d] / counts[k]
    _variances(volume, EQUAL, counts, values, variances)
    for k in range(n_clusters):
        _assemble(axes[k], variances, k, covariances)


@numba.njit(**PART)
def _fit_common_axes(volume, counts, scatters, axes, covariances):
    """EVE and VVE: plane rotations that lower sum_k tr(P_k W_k), and variances along the axes, in turn.

    With variances v_kd, turning axes d and e changes only sum_k (1/v_kd - 1/v_ke) u' W_k u, u the new axis d: the best
    u is an eigenvector of a 2 x 2 matrix.
    """
    n_clusters, dim = scatters.shape[:2]
    values, variances = np.empty((n_clusters, dim)), np.empty((n_clusters, dim))
    half = np.empty((dim, dim))
    for k in range(n_clusters):
        _turn(scatters[k], axes, half)
        for d in range(dim):
            values[k, d] = scatters[k, d, d]
    _variances(volume, OWN, counts, values, variances)
    for _ in range(MAX_SWEEPS):
        for d in range(dim - 1):
            for e in range(d + 1, dim):
                slope, gap = 0.0, 0.0
                for k in range(n_clusters):
                    contrast = 1 / variances[k, d] - 1 / variances[k, e]
                    slope += contrast * scatters[k, d, e]
                    gap += contrast * (scatters[k, e, e] - scatters[k, d, d])
                angle = 0.5 * np.arctan2(-2 * slope, gap)
                cosine, sine = np.cos(angle), np.sin(angle)
                for k in range(n_clusters):
                    _rotate(scatters[k], d, e, cosine, sine)
                    values[k, d], values[k, e] = scatters[k, d, d], scatters[k, e, e]
                _rotate_columns(axes, d, e, cosine, sine)
            _variances(volume, OWN, counts, values, variances)
    for k in range(n_clusters):
        _assemble(axes, variances, k, covariances)


# As a whole ------------------------------------------------------------------------------------------------------


@numba.njit(**PART)
def _fit_own_matrices(volume, counts, scatters, covariances):
    """EVV and VVV."""
    n_clusters, dim = scatters.shape[:2]
    total, common = 0.0, 0.0
    root = np.empty((dim, dim))
    sizes = np.empty(n_clusters)
    for k in range(n_clusters):
        total += counts[k]
        sizes[k] = counts[k] if volume == OWN else np.exp(2 * log_root(scatters[k], root) / dim)
        common += sizes[k]
    for k in range(n_clusters):
        factor = 1 / counts[k] if volume == OWN else common / total / sizes[k]
        for d in range(dim):
            for e in range(dim):
                covariances[k, d, e] = factor * scatters[k, d, e]


@numba.njit(**PART)
def _fit_common_matrix(volume, counts, scatters, covariances):
    """EEE and VEE: volumes times one matrix."""
    n_clusters, dim = scatters.shape[:2]
    volumes, matrix, root = np.ones(n_clusters), np.empty((dim, dim)), np.empty((dim, dim))
    total = 0.0
    for k in range(n_clusters):
        total += counts[k]
        if volume == OWN:
            volumes[k] = np.exp(2 * log_root(covariances[k], root) / dim)
    for _ in range(MAX_MATRICES):
        matrix[:] = 0.0
        for k in range(n_clusters):
            for d in range(dim):
                for e in range(dim):
                    matrix[d, e] += scatters[k, d, e] / volumes[k]
        if volume == EQUAL:
            matrix /= total
            break
        matrix /= np.exp(2 * log_root(matrix, root) / dim)
        log_root(matrix, root)
        change = 0.0
        for k in range(n_clusters):
            last, volumes[k] = volumes[k], _trace_of_ratio(scatters[k], root) / (dim * counts[k])
            change = max(change, abs(np.log(volumes[k] / last)))
        if not change > INNER_TOL:
            break
    for k in range(n_clusters):
        for d in range(dim):
            for e in range(dim):
                covariances[k, d, e] = volumes[k] * matrix[d, e]


@numba.njit(**PART)
def _trace_of_ratio(matrix, root):
    """tr(W M^-1) for M = L L', L lower triangular in `root`: |L^-1 W^(1/2)|^2, column by column."""
    dim = matrix.shape[0]
    inverse = np.zeros((dim, dim))
    for d in range(dim):
        inverse[d, d] = 1 / root[d, d]
        for e in range(d):
            total = 0.0
            for f in range(e, d):
                total += root[d, f] * inverse[f, e]
            inverse[d, e] = -total / root[d, d]
    trace = 0.0
    for d in range(dim):
        for e in range(d + 1):
            total = 0.0
            for f in range(d + 1):
                total += matrix[e, f] * inverse[d, f]
            trace += total * inverse[d, e]
    return trace


# Small matrices --------------------------------------------------------------------------------------------------


@numba.njit(**PART)
def log_root(matrix, root):
    """Fill `root` with the lower triangular L of M = L L'; returns log |L|, NaN where there is none."""
    dim = matrix.shape[0]
    total = 0.0
    for d in range(dim):
        for e in range(d + 1):
            left = matrix[d, e]
            for f in range(e):
                left -= root[d, f] * root[e, f]
            if e < d:
                root[d, e] = left / root[e, e]
                root[e, d] = 0.0
            elif left > 0:
                root[d, d] = np.sqrt(left)
                total += np.log(root[d, d])
            else:
                return np.nan
    return total


@numba.njit(**PART)
def _rotate_columns(matrix, d, e, cosine, sine):
    for i in range(matrix.shape[0]):
        a, b = matrix[i, d], matrix[i, e]
        matrix[i, d], matrix[i, e] = cosine * a + sine * b, cosine * b - sine * a


@numba.njit(**PART)
def _rotate(matrix, d, e, cosine, sine):
    """Turn the coordinates of a symmetric matrix in one plane."""
    _rotate_columns(matrix, d, e, cosine, sine)
    for i in range(matrix.shape[0]):
        a, b = matrix[d, i], matrix[e, i]
        matrix[d, i], matrix[e, i] = cosine * a + sine * b, cosine * b - sine * a


@numba.njit(**PART)
def _turn(matrix, axes, half):
    """Turn the coordinates of a symmetric matrix to those along axes."""
    dim = matrix.shape[0]
    for d in range(dim):
        for e in range(dim):
            total = 0.0
            for f in range(dim):
                total += matrix[d, f] * axes[f, e]
            half[d, e] = total
    for d in range(dim):
        for e in range(dim):
            total = 0.0
            for f in range(dim):
                total += axes[f, d] * half[f, e]
            matrix[d, e] = total


@numba.njit(**PART)
def _assemble(axes, variances, k, covariances):
    """Fill covariances[k] with D diag(v_k) D'."""
    dim = axes.shape[0]
    for d in range(dim):
        for e in range(d + 1):
            total = 0.0
            for f in range(dim):
                total += axes[d, f] * variances[k, f] * axes[e, f]
            covariances[k, d, e] = covariances[k, e, d] = total


@numba.njit(**PART)
def eigenvalues(matrix, axes, values, k):
    """Fill values[k] with a symmetric matrix's eigenvalues, rising, and `axes` with its eigenvectors (Jacobi)."""
    dim = matrix.shape[0]
    for d in range(dim):
        for e in range(dim):
            axes[d, e] = 1.0 if d == e else 0.0
    for _ in range(MAX_TURNS):
        n_turned = 0
        for d in range(dim - 1):
            for e in range(d + 1, dim):
                off = matrix[d, e]
                if abs(off) <= TURNED * np.sqrt(abs(matrix[d, d] * matrix[e, e])):
                    continue
                n_turned += 1
                ratio = (matrix[e, e] - matrix[d, d]) / (2 * off)
                tangent = -1 / (ratio + np.copysign(np.sqrt(1 + ratio * ratio), ratio))
                cosine = 1 / np.sqrt(1 + tangent * tangent)
                _rotate(matrix, d, e, cosine, tangent * cosine)
                _rotate_columns(axes, d, e, cosine, tangent * cosine)
        if n_turned == 0:
            break
    for d in range(dim):  # In order, by exchanges.
        least = d
        for e in range(d + 1, dim):
            if matrix[e, e] < matrix[least, least]:
                least = e
        values[k, d] = matrix[least, least]
        matrix[least, least] = matrix[d, d]
        for i in range(dim):
            axes[i, d], axes[i, least] = axes[i, least], axes[i, d]
