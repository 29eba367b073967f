r"""Moments of clusters, which the M-step reads and EM's acceleration extrapolates.

If covariances are not shared, the M-step has no closed form for clusters in meta-clusters. The moments that a
meta-cluster adds are then substituted. Cluster k's statistics plus, for each set j of several clusters that it is in,

.. math:: \frac{n_j}{c_j} \big( w_{jk} E_k[z] - E_j[z] \big), \qquad w_{jk} = \operatorname{tr}(\Sigma_j P_k) / D,

are those of a cluster on its own, E being moments that the parameters expect. For covariances the weight is
:math:`w_{jk} (1 + |\mu_k - \nu_j|^2_{P_k})`: a precision also moves the means of the sets, by as much as they are away,
and with less weight steps would overshoot. Spherical clusters (VII) have one variance for all D features, which share
the move: it is divided by D. Where the M-step's condition holds the correction vanishes; with singletons there is none.
"""

from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray
from egmm.em.layout import Layout, Settings
from egmm.em.parameters import Evaluated, Parameters
from egmm.em.statistics import Statistics, products


class ClusterMoments(NamedTuple):
    """Input of an M-step: moments of clusters as if each were on its own."""

    set_counts: FloatArray
    """(B, M)."""
    counts: FloatArray
    """(B, C) counts for each mean."""
    scatter_counts: FloatArray
    """(B, C) counts for each covariance; different only if the M-step has no closed form."""
    firsts: FloatArray
    """(B, C, D)."""
    seconds: FloatArray
    """(B, C, P) products of features; with one shared covariance (B, 1, P) where they are pooled, else P is zero."""
    tails: FloatArray | None = None
    """(B, M + 1) where tails are heavy: sums of m u for every set, and those that tell the degrees of freedom."""

    def vector(self, layout: Layout) -> FloatArray:
        """All moments as one vector per fit, without counts that follow from those of the sets."""
        parts = [self.set_counts, self.firsts, self.seconds] if layout.is_exact else list(self[:5])
        if self.tails is not None:
            parts = [self.set_counts, self.tails[:, :-1], self.firsts, self.seconds, self.tails[:, -1:]]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    @classmethod
    def of(cls, vector: FloatArray, layout: Layout, dim: int) -> "ClusterMoments":
        """Read a vector."""
        (n_focal, n_clusters), n_fits, at = layout.shares.shape, len(vector), layout.n_counts
        set_counts, tails = vector[:, :n_focal], None
        if layout.tails:
            vector, logs = vector[:, :-1], vector[:, -1:]
            tails = np.concatenate([vector[:, n_focal:at], logs], axis=1)
            counts = scatter_counts = tails[:, :-1] @ layout.shares
        elif layout.is_exact:
            counts = scatter_counts = set_counts @ layout.shares
        else:
            counts, scatter_counts = np.split(vector[:, n_focal:at], 2, axis=1)
        firsts = vector[:, at : at + n_clusters * dim].reshape(n_fits, n_clusters, dim)
        seconds = vector[:, at + n_clusters * dim :].reshape(n_fits, 1 if layout.pools else n_clusters, -1)
        return cls(set_counts, counts, scatter_counts, firsts, seconds, tails)


def cluster_moments(
    statistics: Statistics, params: Parameters, evaluated: Evaluated, settings: Settings, layout: Layout
) -> ClusterMoments:
    """Moments of the clusters as if each were on its own, the ridge among them."""
    shares, dim = layout.shares, params.means.shape[2]
    set_counts, counts = statistics.set_counts, statistics.cluster_counts
    firsts, seconds = statistics.sums[..., 1 : 1 + dim], statistics.sums[..., 1 + dim :]
    if layout.pools:
        seconds = pooled_seconds(statistics, settings, layout)
        tails = None if statistics.tails is None else statistics.tails[:, :-1]
        return ClusterMoments(set_counts, counts, counts, firsts, seconds, tails)
    first, second = products(dim, layout.kind)
    ridge = counts[..., None] * settings.ridge[:, None, :]
    seconds = seconds + np.where(first == second, ridge[..., first], 0.0)
    if layout.is_exact:
        return ClusterMoments(set_counts, counts, counts, firsts, seconds)
    assert evaluated.focal is not None
    meta = layout.meta
    per_member = set_counts[:, meta, None] * shares[meta]  # (B, J, C) n_j / c_j
    focal_means, focal_covariances = evaluated.focal.means[:, meta], evaluated.focal.covariances[:, meta]
    factors = evaluated.components.factors
    widths = per_member * _widths(focal_covariances, factors, layout.diagonal)
    moved = _distances(params, focal_means, factors)
    moved = np.where((settings.model == "VII")[:, None, None], moved / dim, moved)
    gained, spread = widths.sum(axis=1), (widths * (1 + moved)).sum(axis=1)
    alone = set_counts[:, ~meta] @ shares[~meta]
    own = spread[..., None] * _covariance_entries(params.covariances, layout)
    own = own + gained[..., None] * params.means[..., first] * params.means[..., second]
    expected = second_moments(focal_means, focal_covariances, layout)
    return ClusterMoments(
        set_counts,
        alone + gained,
        alone + spread,
        firsts + gained[..., None] * params.means - np.einsum("bjk,bjd->bkd", per_member, focal_means),
        seconds + own - np.einsum("bjk,bjp->bkp", per_member, expected),
    )


def pooled_seconds(statistics: Statistics, settings: Settings, layout: Layout) -> FloatArray:
    """Second moments (B, 1, P) of all rows together: a shared covariance does not tell clusters apart."""
    dim = settings.ridge.shape[1]
    if layout.kind == "linear":
        fixed = settings.reference.scatter
        complete = fixed if layout.diagonal else fixed[(slice(None), *products(dim, layout.second_kind))]
    else:
        complete = statistics.sums[..., 1 + dim :].sum(axis=1)
    # Without missing cells there is nothing to add.
    return (complete + statistics.pooled if statistics.pooled.shape[1] else complete)[:, None]


def _widths(covariances: FloatArray, factors: FloatArray, diagonal: bool) -> FloatArray:
    """w_jk = tr(Sigma_j P_k) / D, (B, J, C)."""
    dim = factors.shape[-1]
    if diagonal:
        return np.einsum("bjd,bkd->bjk", covariances, factors**2) / dim
    precisions = factors @ np.swapaxes(factors, -1, -2)
    n_fits = len(factors)
    flat = precisions.reshape(n_fits, -1, dim * dim)
    return np.asarray(covariances.reshape(n_fits, -1, dim * dim) @ np.swapaxes(flat, 1, 2) / dim)


def _distances(params: Parameters, focal_means: FloatArray, factors: FloatArray) -> FloatArray:
    """|mu_k - nu_j|^2 in the metric of P_k, (B, J, C)."""
    offsets = focal_means[:, None] - params.means[:, :, None]
    offsets = offsets * factors[:, :, None] if params.is_diagonal else offsets @ factors
    return np.swapaxes((offsets**2).sum(axis=-1), 1, 2)


def _covariance_entries(covariances: FloatArray, layout: Layout) -> FloatArray:
    """Entries of covariances as statistics have the products of features, (B, ., P)."""
    first, second = products(covariances.shape[-1], layout.second_kind)
    return covariances if layout.diagonal else covariances[..., first, second]


def second_moments(means: FloatArray, covariances: FloatArray, layout: Layout) -> FloatArray:
    """Expected products of features, (B, ., P)."""
    first, second = products(means.shape[-1], layout.second_kind)
    return np.asarray(_covariance_entries(covariances, layout) + means[..., first] * means[..., second])


def as_matrices(seconds: FloatArray, dim: int, layout: Layout) -> FloatArray:
    """Second moments as matrices (B, ., D, D), or diagonals (B, ., D)."""
    if layout.diagonal:
        return seconds
    first, second = products(dim, layout.second_kind)
    matrices = np.empty((*seconds.shape[:2], dim, dim))
    matrices[..., first, second] = matrices[..., second, first] = seconds
    return matrices
