r"""The M-step with meta-clusters and covariances of their own: a truncated Gauss-Newton step on Q.

With natural parameters :math:`P_k = \Sigma_k^{-1}`, :math:`h_k = P_k \mu_k` and their averages :math:`\bar P_j`,
:math:`\bar h_j` over the members of focal set j,

.. math:: Q = \sum_k \left(h_k^\top s_k - \tfrac12 \operatorname{tr} P_k S_k\right)
              + \tfrac12 \sum_j \left(l_j \log|\bar P_j| - n_j \bar h_j^\top \bar P_j^{-1} \bar h_j\right)

is concave in the natural parameters, and the second sum's curvature is the Fisher information of the focal sets. The
means are a linear system and are maximised out exactly. The covariances move along the model's tangent directions by
conjugate gradients on that information, preconditioned by what the clusters' own rows would have, and return to
the model by its Celeux-Govaert step. With singletons only, that is the classical M-step. A step that does not raise Q
is halved, so EM stays monotone; the cost does not depend on the number of rows.
"""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from egmm._checks import BoolArray, FloatArray
from egmm.em.celeux_govaert import common_axes, fit_covariances
from egmm.em.covariance import is_diagonal
from egmm.em.parameters import NotPositiveDefiniteError, precision_factors
from egmm.em.tangent import project

MAX_CONJUGATE = 20
"""Most conjugate-gradient iterations of one step."""

CONJUGATE_TOL = 0.03
"""They end at this share of the first residual: the next EM pass moves the target further than that."""

MAX_HALVINGS = 20
"""Then the covariances stay, which raises Q no further than the means do."""

DETERMINED = 1e-12
"""Share of the weight on a cluster's mean that must be its own, lest the mean keep its place."""

SLACK = 1e-13
"""Rounding allowed for when two values of Q are compared, as a share of N times D."""


class Expected(NamedTuple):
    """The terms of Q, ridge and prior included."""

    shares: FloatArray
    """(M, C) W: rows of focal sets, and of singletons for which a prior speaks."""
    set_counts: FloatArray
    """(M,) n_j."""
    log_det_counts: FloatArray
    """(M,) l_j, equal to n_j but for a prior."""
    cluster_sums: FloatArray
    """(C, D) s_k."""
    cluster_scatters: FloatArray
    """(C, D, D) S_k, or (C, D) their diagonals."""


class Point(NamedTuple):
    """Covariances with the means that are best for them, and all that a step from there needs, in blocks."""

    covariances: FloatArray
    """(B, C, q, q)."""
    means: FloatArray
    """(B, C, q)."""
    q: float
    residuals: FloatArray
    """(B, C, q, q) -2 dQ/dP_k: observed minus expected second moments, zero when they match."""
    counts: FloatArray
    """(C,) rows that speak for each cluster's covariance, a meta-cluster's shared out by precision."""
    whitening: FloatArray
    """(B, C, q, q) U_k with P_k = U_k U_k'."""
    variances: FloatArray
    """(C, D) along the axes of the whitening, where the model has axes."""
    set_means: FloatArray
    """(B, M, q)."""
    set_covariances: FloatArray
    """(B, M, q, q)."""
    inverse_gram: FloatArray
    """(B, C q, C q) inverse of minus the second derivative of Q in the whitened natural means U_k^-1 h_k."""


def raise_q(
    expected: Expected, means: FloatArray, covariances: FloatArray, covariance: str
) -> tuple[FloatArray, FloatArray]:
    """Return means and covariances, (C, D) and (C, D, D), with a higher Q than those given."""
    here = evaluate(expected, _vector_blocks(covariance, means), matrix_blocks(covariance, covariances), covariance)
    changes, colouring = _changes(here, newton_direction(expected, here, covariance), covariance)
    slack = SLACK * expected.log_det_counts.sum() * means.shape[1]
    for halving in range(MAX_HALVINGS):
        there = _move(expected, here, colouring, 0.5**halving * changes, covariance)
        if there is not None and there.q >= here.q - slack:
            here = there
            break
    return _from_vector_blocks(covariance, here.means), _from_matrix_blocks(covariance, here.covariances)


# Q, its gradient and curvature ---------------------------------------------------------------------------------


def evaluate(expected: Expected, start: FloatArray, covariances: FloatArray, covariance: str) -> Point:
    """Best means for these covariances, Q and its gradient there; `start` are the means an emptied cluster keeps."""
    shares, counts = expected.shares, expected.set_counts
    whitening, variances, covariances = _whiten(covariances, covariance)
    precisions = whitening @ _t(whitening)
    set_covariances, log_dets = _inverse(_mix(shares, precisions))
    gram = _gram(expected, whitening, set_covariances)
    inverse_gram = _inverse_gram(gram, expected)
    natural = _best_natural_means(expected, start, whitening, gram, inverse_gram, covariance)
    means, set_means = _apply(covariances, natural), _apply(set_covariances, shares @ natural)

    memberships = counts[:, None] * shares
    scatters = scatters_about(
        expected.cluster_scatters,
        expected.cluster_sums,
        memberships.sum(axis=0),
        _from_vector_blocks(covariance, means),
    )
    scatters = _blocks(covariance, scatters)
    # sum_k r_k mu_k' P_k mu_k - sum_j n_j a_j' Pbar_j a_j, written about the focal means so that nothing cancels
    offsets = (means[:, :, None] - set_means[:, None]) * np.sqrt(memberships).T[:, :, None]
    spread = float(((offsets @ whitening) ** 2).sum())
    q = 0.5 * (spread - float((precisions * scatters).sum()) + float((log_dets @ expected.log_det_counts).sum()))
    within = _mix((expected.log_det_counts[:, None] * shares).T, set_covariances)
    residuals = scatters - within - _t(offsets) @ offsets
    shared_out = np.einsum("bkde,bkde->k", within, precisions) / start[:, 0].size
    return Point(
        covariances,
        means,
        q,
        _symmetric(residuals),
        shared_out,
        whitening,
        variances,
        set_means,
        set_covariances,
        inverse_gram,
    )


def newton_direction(expected: Expected, point: Point, covariance: str) -> FloatArray:
    """Whitened change of the precisions, (B, C, q, q): Gauss-Newton along the tangent, a plain step off it.

    The part off the tangent does nothing at first order; it lets the Celeux-Govaert step that follows see what it
    would see without meta-clusters, the curvature of the model's set included.
    """
    weights = 0.5 * point.counts[:, None, None]
    residual = -0.5 * _t(point.whitening) @ point.residuals @ point.whitening
    scaled = residual / weights
    search = project(covariance, scaled, point.counts, point.variances)
    direction = scaled - search
    size = first = float((residual * search).sum())
    for _ in range(MAX_CONJUGATE):
        image = curvature(expected, point, search)
        bend = float((search * image).sum())
        if not (size > 0 and bend > 0):  # Along the tangent nothing is left but rounding.
            break
        direction = direction + (size / bend) * search
        residual = residual - (size / bend) * image
        steepest = project(covariance, residual / weights, point.counts, point.variances)
        last, size = size, float((residual * steepest).sum())
        if not size > CONJUGATE_TOL**2 * first:
            break
        search = steepest + (size / last) * search
    return direction


def curvature(expected: Expected, point: Point, directions: FloatArray) -> FloatArray:
    r"""Minus the second derivative of Q along whitened directions, the means following; (B, C, q, q).

    For set j with mean :math:`a_j` and covariance :math:`\bar\Sigma_j` the information is
    :math:`l_j \operatorname{tr} (\dot{\bar P}_j \bar\Sigma_j)^2 / 2 + n_j y_j^\top \bar\Sigma_j y_j` with
    :math:`y_j = \dot{\bar h}_j - \dot{\bar P}_j a_j`.
    """
    shares, set_covariances = expected.shares, point.set_covariances
    changes = point.whitening @ directions @ _t(point.whitening)
    set_changes = _mix(shares, changes)
    shifts = shares @ _apply(changes, point.means) - _apply(set_changes, point.set_means)
    pulls = shares.T @ (expected.set_counts[:, None] * _apply(set_covariances, shifts))
    answer = _apply(point.inverse_gram, _apply(_t(point.whitening), pulls).reshape(len(pulls), -1))
    shifts = shifts - shares @ _apply(point.whitening, answer.reshape(pulls.shape))
    pulls = expected.set_counts[:, None] * _apply(set_covariances, shifts)
    spreads = 0.5 * expected.log_det_counts[:, None, None] * (set_covariances @ set_changes @ set_covariances)
    images = spreads - _symmetric(pulls[..., :, None] * point.set_means[..., None, :])
    return np.asarray(_t(point.whitening) @ _mix(shares.T, images) @ point.whitening)


def _changes(here: Point, direction: FloatArray, covariance: str) -> tuple[FloatArray, FloatArray]:
    """Diagonalise a whitened direction: relative changes of precisions, and the coloured axes they are along."""
    changes, turn = np.linalg.eigh(direction)
    if not changes.max() < 1:
        # Too far for variances to follow linearly, as they must for the part off the tangent to do nothing.
        changes, turn = np.linalg.eigh(project(covariance, direction, here.counts, here.variances))
    return changes, here.covariances @ here.whitening @ turn


def _move(expected: Expected, here: Point, colouring: FloatArray, changes: FloatArray, covariance: str) -> Point | None:
    """Change variances against the precisions and return to the model; None where rounding leaves no covariance."""
    variances = 1 - changes
    if not variances.min() > 0:
        # 1 / 4x from 1/2 on: they shrink but stay.
        variances = np.where(changes > 0.5, 0.25 / np.maximum(changes, 0.5), variances)
    scatters = (colouring * variances[..., None, :]) @ _t(colouring) * here.counts[:, None, None]
    moved = fit_covariances(
        covariance,
        here.counts,
        _natural_shape(covariance, _symmetric(scatters)),
        _natural_shape(covariance, here.covariances),
    )
    try:
        return evaluate(expected, here.means, _blocks(covariance, moved), covariance)
    except NotPositiveDefiniteError:
        return None


def _whiten(covariances: FloatArray, covariance: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Factors U_k of the precisions; along the axes where the model has axes, and then the variances there."""
    if covariance not in ("EVE", "VVE", "EEV", "VEV"):
        return precision_factors(covariances)[0], np.empty((0, 0)), covariances
    if not np.isfinite(covariances).all():
        raise NotPositiveDefiniteError("covariances too large to be represented")
    if covariance.endswith("E"):
        axes = common_axes(covariances[0])
        variances = np.einsum("kdd->kd", axes.T @ covariances[0] @ axes)
    else:
        variances, axes = np.linalg.eigh(covariances[0])
    if not variances.min() > 0:
        raise NotPositiveDefiniteError(f"smallest eigenvalue {variances.min():.3g}")
    roots = np.sqrt(variances)[:, None, :]
    colouring = axes * roots
    return (axes / roots)[None], variances, (colouring @ _t(colouring))[None]


def _inverse(precisions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inverses and log-determinants of the focal precisions."""
    try:
        roots = np.diagonal(np.linalg.cholesky(precisions), axis1=-2, axis2=-1)
        return _symmetric(np.asarray(np.linalg.inv(precisions))), 2 * np.log(roots).sum(axis=-1)
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError("the average precision of some focal set is singular") from None


def _gram(expected: Expected, whitening: FloatArray, set_covariances: FloatArray) -> FloatArray:
    blocks, n_clusters, size, _ = whitening.shape
    shares = expected.shares
    pairs = (expected.set_counts[:, None, None] * shares[:, :, None] * shares[:, None, :]).reshape(len(shares), -1)
    mixed = _mix(pairs.T, set_covariances).reshape(blocks, n_clusters, n_clusters, size, size)
    whitened = _t(whitening)[:, :, None] @ mixed @ whitening[:, None]
    return whitened.transpose(0, 1, 3, 2, 4).reshape(blocks, n_clusters * size, n_clusters * size)


def _inverse_gram(gram: FloatArray, expected: Expected) -> FloatArray:
    shares = expected.shares
    weights = np.diagonal(gram, axis1=1, axis2=2)
    clusters = weights.reshape(len(gram), shares.shape[1], -1).sum(axis=(0, 2))
    if clusters.min() > DETERMINED * clusters.sum():
        try:
            pivots = np.diagonal(np.linalg.cholesky(gram), axis1=1, axis2=2) ** 2
            if (pivots > DETERMINED * weights).all():
                return np.asarray(np.linalg.inv(gram))
        except np.linalg.LinAlgError:
            pass
    warn_no_mass(clusters, overlap_matrix(expected.set_counts, shares))
    return np.asarray(np.linalg.pinv(gram, DETERMINED, hermitian=True))


def _best_natural_means(
    expected: Expected,
    start: FloatArray,
    whitening: FloatArray,
    gram: FloatArray,
    inverse_gram: FloatArray,
    covariance: str,
) -> FloatArray:
    """Natural means (B, C, q) that maximise Q for given covariances."""
    whitened = _apply(_t(whitening), start).reshape(len(gram), -1)
    sums = _apply(_t(whitening), _vector_blocks(covariance, expected.cluster_sums)).reshape(whitened.shape)
    whitened = whitened + _apply(inverse_gram, sums - _apply(gram, whitened))
    return _apply(whitening, whitened.reshape(start.shape))


def overlap_matrix(set_counts: FloatArray, shares: FloatArray) -> FloatArray:
    """H = W' diag(n) W, (C, C) [eq_H]."""
    return (shares * set_counts[:, None]).T @ shares


def warn_no_mass(diagonal: FloatArray, overlap: FloatArray) -> None:
    """Name the clusters whose mean nothing determines; `diagonal` (C,) is how much does, `overlap` (C, C) is H."""
    empty = [str(k + 1) for k in np.flatnonzero(diagonal <= 1e-8 * diagonal.sum())]
    if len(empty) == 1:
        found = f"cluster {empty[0]} has no mass of its own left and keeps its mean"
    elif empty:
        found = f"clusters {', '.join(empty)} have no mass of their own left and keep their means"
    else:
        together = [str(k + 1) for k in np.flatnonzero(_seen_together(overlap))]
        which = f"clusters {', '.join(together)}" if together else "some clusters"
        found = f"{which} have no mass of their own left and keep their differences"
    warnings.warn(
        f"{found}; use fewer clusters or another start.",
        ConvergenceWarning,
        stacklevel=2,
    )


def _seen_together(overlap: FloatArray) -> BoolArray:
    """Clusters whose means can move against each other while those of all focal sets stay: H's null space."""
    deviations = np.sqrt(overlap.diagonal())
    values, vectors = np.linalg.eigh(overlap / deviations / deviations[:, None])
    return np.asarray((vectors[:, values < 1e-8] ** 2).sum(axis=1) > 1e-8)


def scatters_about(scatters: FloatArray, sums: FloatArray, counts: FloatArray, means: FloatArray) -> FloatArray:
    """sum_i r_ik (x_i - mu_k)(x_i - mu_k)' from moments about the centre, (C, D, D), or (C, D) diagonals."""
    half = 0.5 * counts[:, None] * means - sums
    if scatters.ndim == 2:
        return np.asarray(scatters + 2 * half * means)
    half = half[:, :, None] * means[:, None, :]
    return scatters + half + _t(half)


# Blocks: a full covariance is one block of size D, a diagonal one D blocks of size 1 ---------------------------


def matrix_blocks(covariance: str, covariances: FloatArray) -> FloatArray:
    """(C, D, D) covariances as (B, C, q, q)."""
    return _blocks(covariance, np.einsum("kdd->kd", covariances) if is_diagonal(covariance) else covariances)


def _from_matrix_blocks(covariance: str, blocks: FloatArray) -> FloatArray:
    own = _natural_shape(covariance, blocks)
    return own[:, :, None] * np.eye(own.shape[1]) if is_diagonal(covariance) else own


def _blocks(covariance: str, matrices: FloatArray) -> FloatArray:
    """(C, D, D), or (C, D) of a diagonal model, as (B, C, q, q)."""
    return matrices.T[:, :, None, None] if is_diagonal(covariance) else matrices[None]


def _natural_shape(covariance: str, blocks: FloatArray) -> FloatArray:
    return blocks[:, :, 0, 0].T if is_diagonal(covariance) else blocks[0]


def _vector_blocks(covariance: str, vectors: FloatArray) -> FloatArray:
    return vectors.T[:, :, None] if is_diagonal(covariance) else vectors[None]


def _from_vector_blocks(covariance: str, blocks: FloatArray) -> FloatArray:
    return blocks[:, :, 0].T if is_diagonal(covariance) else blocks[0]


def _t(matrices: FloatArray) -> FloatArray:
    return np.swapaxes(matrices, -1, -2)


def _symmetric(matrices: FloatArray) -> FloatArray:
    return 0.5 * (matrices + _t(matrices))


def _apply(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _mix(weights: FloatArray, matrices: FloatArray) -> FloatArray:
    """sum_k w_jk M_k for every block: (J, C) and (B, C, q, q) to (B, J, q, q)."""
    blocks, _, size, _ = matrices.shape
    return (weights @ matrices.reshape(blocks, -1, size * size)).reshape(blocks, -1, size, size)
