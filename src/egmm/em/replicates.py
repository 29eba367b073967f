r"""Many refits of one Gaussian mixture at once: EM on bootstrap replicates, each a vector of row weights.

A refit of a small mixture is a few thousand tiny operations; made one after another, their overhead is nearly all of
the time. Here a pass is two matrix products for all replicates, because a Gaussian's log density is linear in the
monomials :math:`z(x) = (1, x_d, x_d x_e)`:

.. math:: \log \pi_{bk} N(x_i; \mu_{bk}, \Sigma_{bk}) = \theta_{bk}^\top z(x_i), \qquad
    T_{bk} = \sum_i w_{bi} P_{bik} z(x_i),

and the M-step reads counts, sums and scatters from :math:`T`. Mixtures have singletons only.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em.celeux_govaert import fit_covariances
from egmm.em.covariance import is_diagonal
from egmm.em.parameters import LOG_2PI, Parameters

PASS_ROWS = 2048
"""Rows per block of a pass: their monomials stay in the cache."""

MAX_INNER = 3
"""Iterations inside an M-step: the next one goes on where this one stopped."""

SMALLEST_EIGENVALUE = 1e-14
"""Of a correlation matrix: below it, it is singular up to round-off."""


class Mixtures(NamedTuple):
    """One mixture per replicate; means are relative to the rows' centre."""

    weights: FloatArray
    """(B, C)."""
    means: FloatArray
    """(B, C, D)."""
    covariances: FloatArray
    """(B, C, D, D)."""

    def take(self, which: IntArray | BoolArray) -> "Mixtures":
        """Return some of them."""
        return Mixtures(self.weights[which], self.means[which], self.covariances[which])

    @classmethod
    def repeat(cls, params: Parameters, n_replicates: int) -> "Mixtures":
        """Copies of one mixture."""
        n_clusters, dim = params.means.shape
        covariances = np.broadcast_to(params.covariances, (n_clusters, dim, dim))
        return cls(*(np.repeat(part[None], n_replicates, axis=0) for part in (*params[:2], covariances)))

    @classmethod
    def concatenate(cls, parts: list["Mixtures"]) -> "Mixtures":
        """All replicates of several batches."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def refit(
    rows: FloatArray,
    counts: FloatArray,
    start: Parameters,
    covariance: str,
    ridge: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[Mixtures, BoolArray]:
    """Refit a mixture to every replicate by EM from one start.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows minus their centre.
    counts : ndarray of shape (B, N)
        How often each replicate holds each row.
    start : Parameters
        Mixture of singletons to start from.
    covariance : str
        One of the 14 codes.
    ridge : ndarray of shape (D,)
        Added to every cluster's variances, as in `mstep.m_step`.
    tol : float
        A replicate is done when the gain of its log-likelihood that is still to come is predicted to be below.
    max_iter : int
        Most M-steps.

    Returns
    -------
    mixtures : Mixtures
        B mixtures; where the fit failed, the start.
    is_fitted : ndarray of shape (B,), bool
        False where a cluster lost its rows or its covariance.

    Examples
    --------
    >>> rows = np.array([[-5.0], [-4.0], [-3.0], [3.0], [4.0], [5.0]])
    >>> start = Parameters(np.array([0.5, 0.5]), np.array([[-4.0], [4.0]]), np.array([[1.0]]))
    >>> counts = np.array([[1.0, 1, 1, 1, 1, 1], [2, 1, 0, 0, 2, 1]])
    >>> refit(rows, counts, start, "EII", np.zeros(1), 1e-6, 100)[0].means[:, :, 0].round(3)
    array([[-4.   ,  4.   ], [-4.667,  4.333]])
    """
    kind = "diagonal" if is_diagonal(covariance) else "full"
    done, is_fitted = Mixtures.repeat(start, len(counts)), np.ones(len(counts), dtype=bool)
    batch = _Batch(np.arange(len(counts)), Mixtures.repeat(start, len(counts)), np.empty((0, len(counts))))
    for step in range(max_iter + 1):
        theta, is_definite = coefficients(batch.mixtures, kind)
        is_fitted[batch.which[~is_definite]] = False
        batch, theta = batch.take(is_definite), theta[:, is_definite]
        if not len(batch.which):
            break
        sums, values = _pass(rows, counts if len(batch.which) == len(counts) else counts[batch.which], theta, kind)
        batch = batch._replace(history=np.vstack([batch.history[-3:], values]))
        is_done = _left(batch.history) < tol if step < max_iter else np.ones(len(values), dtype=bool)
        for part, last in zip(done, batch.mixtures, strict=True):
            part[batch.which[is_done]] = last[is_done]
        batch = batch.take(~is_done)
        batch = batch._replace(mixtures=_m_step(sums[:, ~is_done], batch.mixtures, covariance, ridge))
    return done, is_fitted


class _Batch(NamedTuple):
    """Replicates under way."""

    which: IntArray
    """(B,) numbers of the replicates."""
    mixtures: Mixtures
    history: FloatArray
    """(up to 4, B) their last log-likelihoods."""

    def take(self, is_kept: BoolArray) -> "_Batch":
        if is_kept.all():
            return self
        return _Batch(self.which[is_kept], self.mixtures.take(is_kept), self.history[:, is_kept])


def coefficients(mixtures: Mixtures, kind: str) -> tuple[FloatArray, BoolArray]:
    """theta (C, B, F) of every mixture, and which of them have proper covariances, (B,)."""
    weights, means, covariances = mixtures
    with np.errstate(all="ignore"):
        scales = np.sqrt(np.einsum("bkdd->bkd", covariances))
        correlations = covariances / (scales[..., :, None] * scales[..., None, :])
    roots, is_definite = _cholesky(correlations)
    is_definite &= (weights > 0).all(axis=1)
    with np.errstate(all="ignore"):
        inverse = np.linalg.inv(roots)
        precisions = np.swapaxes(inverse, -1, -2) @ inverse / (scales[..., :, None] * scales[..., None, :])
        log_det = 2 * (np.log(np.einsum("bkdd->bkd", roots)).sum(axis=-1) + np.log(scales).sum(axis=-1))
        natural = np.einsum("bkde,bke->bkd", precisions, means)
        constant = np.log(weights) - 0.5 * (log_det + means.shape[2] * LOG_2PI + (natural * means).sum(axis=2))
    first, second = _products(means.shape[2], kind)
    quadratic = precisions[..., first, second] * np.where(first == second, -0.5, -1.0)
    theta = np.concatenate([constant[..., None], natural, quadratic], axis=2)
    return np.ascontiguousarray(np.swapaxes(theta, 0, 1)), is_definite


def posteriors(rows: FloatArray, theta: FloatArray, kind: str) -> NDArray[np.float32]:
    """Posterior probabilities of rows (relative to the centre) in every mixture, (n, C, B), in single precision."""
    n_clusters, n_replicates, n_monomials = theta.shape
    joint = monomials(rows, kind) @ theta.reshape(-1, n_monomials).T
    joint = joint.reshape(len(rows), n_clusters, n_replicates)
    joint -= joint.max(axis=1, keepdims=True)
    np.exp(joint, out=joint)
    joint /= joint.sum(axis=1, keepdims=True)
    return joint.astype(np.float32)


def monomials(rows: FloatArray, kind: str) -> FloatArray:
    """z(x) = (1, x_d, x_d x_e) of each row; only the squares x_d^2 of the products for diagonal covariances."""
    first, second = _products(rows.shape[1], kind)
    return np.concatenate([np.ones((len(rows), 1)), rows, rows[:, first] * rows[:, second]], axis=1)


def _products(dim: int, kind: str) -> tuple[IntArray, IntArray]:
    if kind == "diagonal":
        return np.arange(dim), np.arange(dim)
    first, second = np.triu_indices(dim)
    return first, second


def _pass(rows: FloatArray, counts: FloatArray, theta: FloatArray, kind: str) -> tuple[FloatArray, FloatArray]:
    """Sums T (C, B, F) and log-likelihoods (B,) of every replicate: the E-step."""
    n_clusters, n_replicates, n_monomials = theta.shape
    flat = theta.reshape(-1, n_monomials)
    sums, values = np.zeros_like(flat), np.zeros(n_replicates)
    for block in _blocks(len(rows)):
        known, weight = monomials(rows[block], kind), counts[:, block]
        joint = (flat @ known.T).reshape(n_clusters, n_replicates, -1)
        peak = joint.max(axis=0)
        joint -= peak
        np.exp(joint, out=joint)
        density = joint.sum(axis=0)
        joint *= weight / density
        sums += joint.reshape(len(flat), -1) @ known
        values += np.einsum("bn,bn->b", weight, np.log(density) + peak)
    return sums.reshape(theta.shape), values


def _blocks(n_rows: int) -> Iterator[slice]:
    return (slice(first, first + PASS_ROWS) for first in range(0, n_rows, PASS_ROWS))


def _m_step(sums: FloatArray, last: Mixtures, covariance: str, ridge: FloatArray) -> Mixtures:
    """Parameters of every replicate from its sums; not checked."""
    dim = last.means.shape[2]
    sums = np.swapaxes(sums, 0, 1)
    counts, firsts, seconds = sums[..., 0], sums[..., 1 : dim + 1], sums[..., dim + 1 :]
    with np.errstate(all="ignore"):
        means = firsts / counts[..., None]
        own_rows = counts[..., None] * ridge
        if is_diagonal(covariance):
            variances = np.einsum("bkdd->bkd", last.covariances)
            scatters = np.maximum(seconds - firsts * means, 0.0) + own_rows
            variances = fit_covariances(covariance, counts, scatters, variances, MAX_INNER)
            covariances = variances[..., None] * np.eye(dim)
        else:
            first, second = np.triu_indices(dim)
            scatters = np.empty((*means.shape, dim))
            scatters[..., first, second] = scatters[..., second, first] = seconds
            scatters -= firsts[..., :, None] * means[..., None, :]
            scatters += own_rows[..., None] * np.eye(dim)
            scatters[~np.isfinite(scatters)] = 0.0
            covariances = fit_covariances(covariance, counts, scatters, last.covariances, MAX_INNER)
        return Mixtures(counts / counts.sum(axis=1, keepdims=True), means, covariances)


def _left(history: FloatArray) -> FloatArray:
    """Gain still to come of each replicate, if gains go on falling as the last ones did (Aitken), (B,)."""
    if len(history) < 4:
        return np.full(history.shape[1], np.inf)
    gains = np.diff(history, axis=0)
    with np.errstate(all="ignore"):
        rate = (gains[1:] / gains[:-1]).max(axis=0)
        left = gains[-1] * rate / (1 - rate)
    return np.where(gains[-1] <= 0, 0.0, np.where(rate < 1, left, np.inf))


def _cholesky(matrices: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Lower factors of (B, C, D, D), and which replicates have all of theirs; the others get identities."""
    is_definite: BoolArray = np.asarray(np.isfinite(matrices).all(axis=(1, 2, 3)))
    if is_definite.all():
        try:
            return np.asarray(np.linalg.cholesky(matrices)), is_definite
        except np.linalg.LinAlgError:
            pass
    identity = np.eye(matrices.shape[-1])
    safe = np.where(is_definite[:, None, None, None], matrices, identity)
    is_definite &= np.linalg.eigvalsh(safe)[..., 0].min(axis=1) > SMALLEST_EIGENVALUE
    safe = np.where(is_definite[:, None, None, None], matrices, identity)
    return np.asarray(np.linalg.cholesky(safe)), is_definite
