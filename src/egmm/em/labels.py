"""Initial labels for EM: k-means, k-means on principal components, or nearest to random rows."""

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em.kmeans import kmeans
from egmm.em.sample import Sample
from egmm.em.statistics import TINY

LEAST_RUNS, MOST_RUNS = 10, 30
"""Number of k-means runs on components; more runs make the fit less dependent on the seed."""

FEW_ROWS = 5_000
"""Sample size from which the minimum number of runs suffices."""

SCALINGS = (0.5, 0.0, 1.0)
"""Powers of the standard deviation by which components are divided before k-means."""

LEAST_DEVIATION = 1e-13
"""Standard deviation of a feature, relative to its largest value, below which it is constant."""

FEW_ASIDE = 0.05
"""Share of the weight that may be set aside in groups too small for a cluster."""


def kmeans_labels(sample: Sample, n_clusters: int, random: np.random.RandomState) -> IntArray:
    """Cluster the sample by k-means, one run from a k-means++ start."""
    return _complete([kmeans(*sample, n_clusters, 1, random)], n_clusters)[0]


def component_labels(sample: Sample, n_clusters: int, seed: int) -> list[IntArray]:
    """Cluster the sample by k-means on its principal components in three scalings, each the best of many runs.

    Divided by a power of their deviation: 0 leaves the standardised features, where a group of correlated ones counts
    many times; 1 gives noise as much weight as separating directions; 1/2 is between. If few rows far from all others
    take a group in each of them, there are also the partitions that k-means finds without these rows. Equal partitions
    come once, and those that leave a cluster without rows not at all.
    """
    components, deviations = principal_components(sample)
    if not deviations.size:  # Rows that are equal up to rounding form one group.
        return _complete([np.zeros(len(sample.rows), dtype=np.int64)], n_clusters)
    n_runs = int(np.clip(LEAST_RUNS * FEW_ROWS // len(sample.rows), LEAST_RUNS, MOST_RUNS))
    random = np.random.RandomState(seed)
    scaled = [Sample(components / deviations**power, sample.weights) for power in SCALINGS]
    found = [kmeans(*one, n_clusters, n_runs, random) for one in scaled]
    if all(_are_few(one, labels, n_clusters).any() for one, labels in zip(scaled, found, strict=True)):
        others = [
            _without_far_rows(one, labels, n_clusters, n_runs, np.random.RandomState(seed))
            for one, labels in zip(scaled, found, strict=True)
        ]
        found += [labels for labels in others if labels is not None]
    distinct: dict[bytes, IntArray] = {}
    for labels in found:
        distinct.setdefault(_in_order_of_appearance(labels).tobytes(), labels)
    return _complete(list(distinct.values()), n_clusters)


def _are_few(sample: Sample, labels: IntArray, n_clusters: int) -> BoolArray:
    """Which groups have too few rows for a cluster."""
    return np.asarray(np.bincount(labels, sample.weights, n_clusters) < sample.rows.shape[1] + 1)


def _without_far_rows(
    sample: Sample, labels: IntArray, n_clusters: int, n_runs: int, random: np.random.RandomState
) -> IntArray | None:
    """Labels by k-means without the groups that have too few rows for a cluster, whose rows join the nearest group.

    A mixture that starts from such a group ends degenerate, and one row far from all others may take one at every
    start. None if no group is as small, or if together they are more than a few rows.
    """
    rows, weights = sample
    found, is_kept = labels, np.ones(len(rows), dtype=bool)
    while (is_small := _are_few(Sample(rows[is_kept], weights[is_kept]), found, n_clusters)).any():
        is_far = is_small[found]
        is_kept[is_kept] = ~is_far
        if not is_far.any() or weights[~is_kept].sum() > FEW_ASIDE * weights.sum():
            return None
        found = kmeans(rows[is_kept], weights[is_kept], n_clusters, n_runs, random)
    if is_kept.all():
        return None
    member = np.where(found == np.arange(n_clusters)[:, None], weights[is_kept], 0.0)
    labels = nearest_labels(rows, member @ rows[is_kept] / member.sum(axis=1, keepdims=True))
    labels[is_kept] = found
    return labels


def _complete(found: list[IntArray], n_clusters: int) -> list[IntArray]:
    """Labels with rows for every cluster; k-means cannot separate rows that differ only by rounding."""
    n_groups = [len(np.unique(labels)) for labels in found]
    if max(n_groups) < n_clusters:
        raise ValueError(
            f"n_clusters={n_clusters} but k-means finds only {max(n_groups)} in X: other rows are too close to be "
            "separated; use fewer clusters."
        )
    return [labels for labels, count in zip(found, n_groups, strict=True) if count == n_clusters]


def _in_order_of_appearance(labels: IntArray) -> IntArray:
    """Number clusters in the order of their first rows."""
    firsts, inverse = np.unique(labels, return_index=True, return_inverse=True)[1:]
    return np.asarray(np.argsort(np.argsort(firsts))[inverse])


def principal_components(sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Principal components of the standardised rows, and their standard deviations. Units do not matter."""
    rows, weights = sample
    share = weights / weights.sum()
    offsets = rows - share @ rows
    deviations = np.sqrt(share @ offsets**2)
    offsets /= np.where(deviations > LEAST_DEVIATION * np.abs(rows).max(axis=0), deviations, np.inf)
    _, spreads, axes = np.linalg.svd(np.sqrt(share)[:, None] * offsets, full_matrices=False)
    kept = spreads > 1e-6 * max(spreads[0], TINY)
    return np.asarray(offsets @ axes[kept].T), np.asarray(spreads[kept])


def random_labels(sample: Sample, n_clusters: int, random: np.random.RandomState) -> IntArray:
    """Assign the sample to the nearest of `n_clusters` distinct rows drawn by weight."""
    chance = sample.weights / sample.weights.sum()
    drawn = random.choice(len(chance), size=n_clusters, replace=False, p=chance)
    labels = nearest_labels(sample.rows, sample.rows[drawn])
    labels[drawn] = np.arange(n_clusters)  # Rounding may put a row nearer to its neighbour than to itself.
    return labels


def nearest_labels(X: FloatArray, means: FloatArray) -> IntArray:
    """Index of the nearest mean."""
    shift = means.mean(axis=0)
    return np.asarray(pairwise_distances_argmin(X - shift, means - shift), dtype=np.int64)
