"""Where EM starts: labels from k-means, at random or given, or given means."""

from functools import partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from egmm._checks import FloatArray, IntArray
from egmm.em.covariance import is_diagonal
from egmm.em.estep import cluster_scatters
from egmm.em.mstep import start_from_groups
from egmm.em.natural import scatters_about
from egmm.em.parameters import Parameters
from egmm.em.prior import Prior
from egmm.em.statistics import Moments, Statistics
from egmm.rows.source import RowSource

SAMPLE_ROWS = 20_000
"""Rows the k-means and random starts look at: enough to place means, cheap beside the passes of a fit."""


class Sample(NamedTuple):
    """Distinct rows in sorted order with their total weights: blind to the rows' order and to split weights."""

    rows: FloatArray
    weights: FloatArray

    def plus(self, other: Self) -> "Sample":
        """Return the distinct rows of both samples."""
        return distinct(np.concatenate([self.rows, other.rows]), np.concatenate([self.weights, other.weights]))


def distinct(X: FloatArray, weights: FloatArray) -> Sample:
    """Sort rows, merge equal ones and drop those without weight."""
    X, weights = X[weights > 0], weights[weights > 0]
    order = np.argsort(X[:, 0], kind="stable")
    if (X[order[1:], 0] == X[order[:-1], 0]).any():
        order = np.lexsort(X.T[::-1])
    X, weights = X[order], weights[order]
    is_new = np.ones(len(X), dtype=bool)
    is_new[1:] = (X[1:] != X[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_new)
    return Sample(X[firsts], np.add.reduceat(weights, firsts) if len(firsts) else weights)


def draw_sample(rows: RowSource, seed: int, size: int = SAMPLE_ROWS) -> Sample:
    """Distinct rows, about `size` of them where there are more.

    A row is drawn if a hash of its values is small, so the same rows are drawn in any order and from any source.
    """
    n_rows, n_features = rows.shape
    keys = np.random.default_rng(seed).integers(1, 2**63, size=n_features, dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )
    fraction = min(1.0, size / n_rows)
    while True:
        sample = rows.reduce(partial(_draw, keys=keys, fraction=fraction))
        # Heavy ties (grey levels, integers) leave few distinct rows: look at more of them.
        if fraction == 1.0 or len(sample.rows) >= size // 4:
            return sample
        fraction = min(1.0, 8 * fraction)


def _draw(X: FloatArray, sample_weight: FloatArray | None, keys: NDArray[np.uint64], fraction: float) -> Sample:
    rows = np.asarray(X, dtype=np.float64) + 0.0  # -0.0 becomes 0.0
    weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if fraction < 1.0:
        bits = np.ascontiguousarray(rows).view(np.uint64)
        mixed = ((bits ^ (bits >> np.uint64(29))) * keys).sum(axis=1, dtype=np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        drawn = (mixed >> np.uint64(11)) < np.uint64(fraction * 2**53)
        rows, weights = rows[drawn], weights[drawn]
    return distinct(rows, weights)


def kmeans_labels(sample: Sample, n_clusters: int, random: np.random.RandomState) -> IntArray:
    """Cluster the sample by k-means, one run from a k-means++ start."""
    model = KMeans(n_clusters, n_init=1, random_state=random)
    return np.asarray(model.fit(sample.rows, sample_weight=sample.weights).labels_, dtype=np.int64)


def random_labels(sample: Sample, n_clusters: int, random: np.random.RandomState) -> IntArray:
    """Assign the sample to the nearest of `n_clusters` distinct rows drawn by weight."""
    chance = sample.weights / sample.weights.sum()
    centres = sample.rows[random.choice(len(chance), size=n_clusters, replace=False, p=chance)]
    return nearest_labels(sample.rows, centres)


def nearest_labels(X: FloatArray, means: FloatArray) -> IntArray:
    """Index of the nearest mean."""
    shift = means.mean(axis=0)
    return np.asarray(pairwise_distances_argmin(X - shift, means - shift), dtype=np.int64)


def group_statistics(
    X: FloatArray, sample_weight: FloatArray | None, labels: IntArray, centre: FloatArray, n_clusters: int
) -> Statistics:
    """Counts, sums and scatters of hard groups, as the statistics of a mixture of singletons."""
    rows = np.subtract(X, centre, dtype=np.float64, order="C")
    member = np.zeros((len(rows), n_clusters))
    member[np.arange(len(rows)), labels] = 1.0 if sample_weight is None else sample_weight
    return Statistics(member.sum(axis=0), member.T @ rows, cluster_scatters(rows, member, "full"), 0.0)


def groups_by_means(
    X: FloatArray, sample_weight: FloatArray | None, centre: FloatArray, means: FloatArray
) -> Statistics:
    """Statistics of the groups of rows nearest to given means (relative to the centre)."""
    return group_statistics(X, sample_weight, nearest_labels(X, means + centre), centre, len(means))


class Groups(NamedTuple):
    """Hard groups of rows to start from, and means if they are given."""

    statistics: Statistics
    """Counts (C,), sums and full scatters of the groups."""
    means: FloatArray | None = None
    """(C, D) relative to the centre; None means the groups' own."""

    def average_covariance(self) -> tuple[FloatArray, FloatArray]:
        """Means, and the unweighted mean of the groups' sample covariances about them: the authors' start."""
        counts, sums, scatters, _ = self.statistics
        assert scatters is not None
        means = self.means
        if means is None:
            if counts.min() <= 0:
                raise ValueError(
                    f"the start leaves cluster {int(counts.argmin())} without rows; give every cluster some."
                )
            means = sums / counts[:, None]
        about = scatters_about(scatters, sums, counts, means)
        # Divisor n_k - 1; a group lighter than 2 (one row, fractional weights) is divided by half its weight.
        divisors = np.maximum(counts - 1.0, np.maximum(counts, np.finfo(float).tiny) / 2.0)
        return means, (about / divisors[:, None, None]).mean(axis=0)


def start_parameters(
    groups: Groups, moments: Moments, n_focal: int, covariance: str, ridge: FloatArray, prior: Prior | None
) -> Parameters:
    """Parameters to start from: the authors' for EEE, else the model's own M-step on the groups."""
    if covariance == "EEE":
        means, average = groups.average_covariance()
        return Parameters(np.full(n_focal, 1.0 / n_focal), means, 0.5 * (average + average.T) + np.diag(ridge))
    statistics = groups.statistics
    if is_diagonal(covariance) and statistics.cluster_scatters is not None:
        diagonals = np.einsum("kdd->kd", statistics.cluster_scatters)
        statistics = statistics._replace(cluster_scatters=diagonals)
    return start_from_groups(statistics, moments, n_focal, covariance, ridge, prior, groups.means)


def automatic_ridge(within: FloatArray, moments: Moments) -> FloatArray:
    """1e-9 of the start's variances `within` clusters, at least 1e-12 of the whole variance, per feature.

    A constant feature has neither; any variance serves it, because it tells no cluster from another.
    """
    whole = np.diag(moments.scatter) / moments.weight
    ridge = np.maximum(1e-9 * within, 1e-12 * whole)
    return np.where(ridge > 0, ridge, 1e-9)
