"""Parameters that EM starts from: of hard groups of rows, about given means, or of a classical mixture fitted first."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em.cluster_moments import ClusterMoments, as_matrices
from egmm.em.completion import Completion
from egmm.em.labels import nearest_labels
from egmm.em.layout import Layout, Settings
from egmm.em.mstep import start_covariances, unsound_clusters
from egmm.em.parameters import Parameters
from egmm.em.statistics import TINY, Statistics, Units, monomials, products

CHUNK_ROWS = 2048
"""Rows whose monomials are held at a time."""

RIDGE, LOW_RANK_RIDGE = 1e-9, 5e-3
"""Shares of the variances within clusters that are added to them. Factors would explain a feature that hardly varies to
the last digit, and so waste themselves, did not each keep some noise."""

META_WEIGHT = 0.01
"""Share of the rows that sets of several clusters have at first, all together, where a mixture is fitted before."""


def group_sums(
    X: FloatArray,
    sample_weight: FloatArray | None,
    labels: IntArray,
    units: Units,
    n_clusters: int,
    kind: str,
    completion: Completion | None = None,
) -> Statistics:
    """Sums of the monomials of hard groups, as the statistics of a mixture of singletons, of a batch of one.

    Rows labelled -1 are in no group.
    """
    sums = np.zeros((n_clusters, 1 + X.shape[1] + len(products(X.shape[1], kind)[0])))
    for first in range(0, len(X), CHUNK_ROWS):
        part = slice(first, first + CHUNK_ROWS)
        rows = units.rows(X[part] if completion is None else completion(X[part]))
        member = np.zeros((n_clusters, len(rows)))
        member[labels[part], np.arange(len(rows))] = 1.0 if sample_weight is None else sample_weight[part]
        member[:, labels[part] < 0] = 0.0
        sums += member @ monomials(rows, kind)
    return Statistics(sums[None, :, 0], sums[None], np.zeros((1, 0)), np.zeros(1))


def sums_by_means(
    X: FloatArray,
    sample_weight: FloatArray | None,
    units: Units,
    means: FloatArray,
    kind: str,
    completion: Completion | None = None,
) -> Statistics:
    """Sums of the groups of rows nearest to given means."""
    X = X if completion is None else completion(X)
    return group_sums(X, sample_weight, nearest_labels(X, means), units, len(means), kind)


def sums_by_seeds(
    X: FloatArray,
    sample_weight: FloatArray | None,
    labels: IntArray,
    units: Units,
    seeds: FloatArray,
    kind: str,
    completion: Completion | None = None,
) -> Statistics:
    """Sums of labelled rows, and of the other rows by the nearest mean in units; unknown labels are -1."""
    X = X if completion is None else completion(X)
    labels = np.where(labels >= 0, labels, nearest_labels(units.rows(X), seeds))
    return group_sums(X, sample_weight, labels, units, len(seeds), kind)


class Groups(NamedTuple):
    """Hard groups of rows to start from."""

    moments: ClusterMoments
    """Counts, sums and second moments of the groups, for a batch; diagonals if models are diagonal."""
    means: FloatArray
    """(B, C, D) the groups' own, or given ones that stay."""
    are_given: bool
    within: FloatArray
    """(B, D, D) or (B, D): unweighted mean of the groups' sample covariances about the means, the authors' start."""

    @classmethod
    def of(cls, statistics: Statistics, given: FloatArray | None, *, diagonal: bool) -> "Groups":
        """Read the sums of groups; `given` are means (C, D), in units."""
        counts, dim = statistics.cluster_counts, _dim(statistics, diagonal)
        firsts, seconds = statistics.sums[..., 1 : 1 + dim], statistics.sums[..., 1 + dim :]
        if given is not None:
            means = np.broadcast_to(given, firsts.shape)
        else:
            if counts.min() <= 0:
                label = int(counts.min(axis=0).argmin())
                raise ValueError(
                    f"init leaves cluster {label + 1} (label {label}) without rows; give every cluster some."
                )
            means = firsts / counts[..., None]
        # Divisor n_k - 1; a group lighter than 2 (one row, fractional weights) is divided by half its weight.
        divisors = np.maximum(counts - 1.0, np.maximum(counts, TINY) / 2.0)
        half = 0.5 * counts[..., None] * means - firsts
        if diagonal:
            within = ((seconds + 2 * half * means) / divisors[..., None]).mean(axis=1)
        else:
            first, second = products(dim, "full")
            about = np.empty((*firsts.shape, dim))
            about[..., first, second] = about[..., second, first] = seconds
            cross = half[..., None] * means[..., None, :]
            about += cross + np.swapaxes(cross, -1, -2)
            within = (about / divisors[..., None, None]).mean(axis=1)
            within = 0.5 * (within + np.swapaxes(within, 1, 2))
        return cls(ClusterMoments(counts, counts, counts, firsts, seconds), means, given is not None, within)

    @property
    def variances(self) -> FloatArray:
        """(B, D) within the groups."""
        return self.within if self.within.ndim == 2 else np.einsum("bdd->bd", self.within)


def _dim(statistics: Statistics, diagonal: bool) -> int:
    n_monomials = statistics.sums.shape[2]
    if diagonal:
        return (n_monomials - 1) // 2
    return round((float(np.sqrt(9 + 8 * (n_monomials - 1))) - 3) / 2)


def start_parameters(groups: Groups, settings: Settings, layout: Layout) -> Parameters:
    """Parameters to start from, every focal set with weight 1 / M: the authors' for EEE, else the model's own M-step.

    Where a group has no covariance of its model the result is not finite or not positive definite.
    """
    n_focal, n_clusters = layout.shares.shape
    n_fits, dim = len(settings.model), groups.means.shape[2]
    weights = np.full((n_fits, n_focal), 1.0 / n_focal)
    if layout.n_factors:
        noise = (groups.within + settings.ridge)[:, None, :, None]
        covariances = np.concatenate([noise, np.zeros((n_fits, 1, dim, layout.n_factors))], axis=-1)
        return Parameters(weights, groups.means.copy(), covariances)
    if layout.is_shared and not layout.diagonal:
        covariances = groups.within + settings.ridge[:, None] * np.eye(dim)
        return Parameters(weights, groups.means.copy(), covariances[:, None])
    kind = "diagonal" if layout.diagonal else "full"
    own = replace(layout, shares=np.eye(n_clusters), kind=kind, is_shared=False, pools=False)
    first, second = products(dim, kind)
    ridge = groups.moments.counts[..., None] * settings.ridge[:, None]
    seconds = groups.moments.seconds + np.where(first == second, ridge[..., first], 0.0)
    moments = groups.moments._replace(seconds=seconds)
    given = groups.means if groups.are_given else None
    means, covariances, is_proper = start_covariances(moments, given, settings, own)
    for at in np.flatnonzero(~is_proper):
        # Covariances that a model does not have show which groups are to blame.
        found = _own_covariances(groups, own)[at]
        if not layout.is_shared:
            found[unsound_clusters(found, layout.diagonal) or slice(None)] = np.nan
        covariances[at] = found.mean(axis=0) if layout.is_shared else found
    return Parameters(weights, np.array(means), covariances[:, :1] if layout.is_shared else covariances)


def _own_covariances(groups: Groups, layout: Layout) -> FloatArray:
    """Covariances of the groups, each on its own."""
    dim, counts = groups.means.shape[2], groups.moments.counts[..., None]
    first, second = products(dim, layout.kind)
    with np.errstate(all="ignore"):
        entries = groups.moments.seconds / counts - groups.means[..., first] * groups.means[..., second]
    return as_matrices(entries, dim, layout)


def focal_weights(cluster_weights: FloatArray, shares: FloatArray) -> FloatArray:
    """Weights (B, M) of focal sets that differ little from a classical mixture's (B, C).

    A cluster's weight goes to the smallest sets it is in, which is its singleton where there is one; the other sets
    together get `META_WEIGHT`, and the empty set nothing.

    Examples
    --------
    >>> focal_weights(np.array([[0.75, 0.25]]), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    array([[0.7425, 0.2475, 0.01  ]])
    """
    is_in = shares > 0
    sizes = np.where(is_in, is_in.sum(axis=1, keepdims=True), np.inf)
    own = sizes == sizes.min(axis=0)
    others = ~own.any(axis=1) & is_in.any(axis=1)
    weights = (cluster_weights / cluster_weights.sum(axis=1, keepdims=True)) @ (own / own.sum(axis=0)).T
    if not others.any():
        return np.asarray(weights)
    return np.where(others, META_WEIGHT / others.sum(), (1 - META_WEIGHT) * weights)


def make_ridge(
    reg_covar: float | str, within: FloatArray, variances: FloatArray, units: Units, share: float = RIDGE
) -> FloatArray:
    """Ridges (B, D), in units, for variances `within` clusters (B, D) of a start: as given, or automatic.

    Automatic is a `share` of the start's variances within clusters, at least 1e-12 of the whole `variances` (D,). A
    constant feature has neither; any variance serves it, because it tells no cluster from another. Its variance within
    clusters may be the ridge of an earlier fit.
    """
    if isinstance(reg_covar, str):
        return np.where(variances > 0, np.maximum(share * within, 1e-12 * variances), share)
    return np.broadcast_to(units.squares(np.full(len(variances), float(reg_covar))), within.shape).copy()
