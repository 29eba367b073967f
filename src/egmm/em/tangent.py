r"""Directions in which the covariances of a model may move.

A direction is one symmetric matrix :math:`X_k` per cluster, :math:`\dot P_k = U_k X_k U_k^\top` for the precision
:math:`P_k = U_k U_k^\top`: whitened, so that :math:`\sum_k n_k \operatorname{tr}(X_k^2) / 2` is the Fisher information
of :math:`n_k` rows of each cluster. Arrays are blocks, (B, C, q, q): one block of size D for full covariances, D blocks
of size one for diagonal ones.
"""

import numpy as np

from egmm._checks import FloatArray

TIED = 0.1
"""Two axes whose variances' square roots differ by less than this share are not turned by a tangent direction: the
angle would be ill determined. `fit_covariances` still turns them."""


def project(covariance: str, directions: FloatArray, counts: FloatArray, variances: FloatArray) -> FloatArray:
    """Nearest directions tangent to the model, in the metric of `counts` (C,) rows per cluster.

    `variances` (C, D) are those along the clusters' axes, which the whitening then follows; read only where the model
    knows an orientation apart from a shape (EVE, VVE, EEV, VEV).
    """
    weights = counts / counts.sum()
    means = np.einsum("bkdd->k", directions) / (directions.shape[0] * directions.shape[-1])
    volumes, shape = covariance[0], covariance[1:]
    new_means = means if volumes == "V" else np.full_like(means, weights @ means)
    identity = np.eye(directions.shape[-1])
    centred = directions - means[:, None, None] * identity
    return np.asarray(_project_shapes(shape, centred, weights, variances) + new_means[:, None, None] * identity)


def _project_shapes(shape: str, centred: FloatArray, weights: FloatArray, variances: FloatArray) -> FloatArray:
    """Project directions without change of volume; `shape` is the model's code for shape and orientation."""
    if shape == "II":
        return np.zeros_like(centred)
    if shape in ("VI", "VV"):
        return centred
    if shape in ("EI", "EE"):
        return np.asarray(np.einsum("k,bkde->bde", weights, centred)[:, None])
    diagonal = centred * np.eye(centred.shape[-1])
    if shape == "EV":
        along = np.einsum("k,bkde->bde", weights, diagonal)[:, None]
        return np.asarray(along + np.where(np.abs(_leverage(variances)) > TIED, centred, 0.0))
    return diagonal + _common_turn(centred - diagonal, weights, _leverage(variances))


def _leverage(variances: FloatArray) -> FloatArray:
    """Change of X_de per small turn of axes d and e: a difference of precisions, whitened; (C, D, D)."""
    roots = np.sqrt(variances)
    ratios = roots[:, :, None] / roots[:, None, :]
    return np.asarray(np.swapaxes(ratios, 1, 2) - ratios)


def _common_turn(off_diagonal: FloatArray, weights: FloatArray, leverage: FloatArray) -> FloatArray:
    """One turn of the axes for all clusters: weighted regression of X_kde on the clusters' leverages."""
    moved = np.einsum("k,kde,bkde->de", weights, leverage, off_diagonal)
    information = np.einsum("k,kde->de", weights, leverage**2)
    turn = np.divide(moved, information, out=np.zeros_like(moved), where=information > TIED**2)
    return np.asarray(leverage * turn)[None]
