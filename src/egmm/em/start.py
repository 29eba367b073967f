"""Where EM starts: labels from k-means, at random or given, given means, or a classical mixture fitted first."""

import threading
import warnings
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from egmm._checks import FloatArray, IntArray
from egmm.em.covariance import is_diagonal
from egmm.em.estep import cluster_scatters
from egmm.em.estep_numba import announced, read_only
from egmm.em.mstep import start_from_groups
from egmm.em.natural import scatters_about
from egmm.em.parameters import Parameters
from egmm.em.prior import Prior
from egmm.em.statistics import TINY, Moments, Statistics
from egmm.rows.source import RowSource

SAMPLE_ROWS = 20_000
"""Rows the k-means and random starts look at: enough to place means, cheap beside the passes of a fit."""


LEAST_RUNS, MOST_RUNS = 10, 30
"""Runs of k-means on components: the best serves the whole fit, and the more there are the less the seed matters."""

FEW_ROWS = 5_000
"""Rows of a sample from which on the least runs do."""

SCALINGS = (0.5, 0.0, 1.0)
"""Powers of their deviation that components are divided by before k-means."""

ROUND_OFF = 1e-13
"""Deviation of a feature, as part of its largest value, below which it is constant."""

META_WEIGHT = 0.01
"""Share of the rows that sets of several clusters have at first, all together, where a mixture is fitted before."""

LABELS_KEPT = 16
"""Labellings remembered: a search over covariance models asks for the same ones fourteen times."""

_last_labels: dict[tuple[bytes, int, int, str], list[IntArray]] = {}
_labelling = threading.Lock()
_quiet = threading.Lock()
"""Held where warnings are silenced: their filters belong to all threads."""


class Sample(NamedTuple):
    """Distinct rows in sorted order with their total weights: blind to the rows' order and to split weights."""

    rows: FloatArray
    weights: FloatArray

    def part(self, n_rows: int) -> "Sample":
        """No more than `n_rows` of the rows."""
        if n_rows >= len(self.rows):
            return self
        drawn = self.places(n_rows)
        return Sample(self.rows[drawn], self.weights[drawn])

    def places(self, n_rows: int) -> IntArray | slice:
        """Places of no more than `n_rows`, drawn at random: every so many of sorted rows might be all of one kind."""
        if n_rows >= len(self.rows):
            return slice(None)
        return np.sort(np.random.default_rng(0).choice(len(self.rows), n_rows, replace=False))


class Drawn(NamedTuple):
    """Distinct rows in the order of their hashes: quick to merge."""

    rows: FloatArray
    weights: FloatArray
    hashes: NDArray[np.uint64]

    def plus(self, other: Self) -> "Drawn":
        """Return the distinct rows of both."""
        return _merged(*(np.concatenate(both) for both in zip(self, other, strict=True)))


def sample_seed(random: np.random.RandomState) -> int:
    """Draw the seed of a sample, the first number that a fit with a named start draws."""
    return int(random.randint(2**31))


def label_seed(random: np.random.RandomState) -> int:
    """Draw the seed of the labels that a classical mixture starts from."""
    return int(random.randint(2**31))


def draw_sample(rows: RowSource, seed: int, size: int = SAMPLE_ROWS) -> Sample:
    """Return the distinct rows, or where there are more than `size`, those with the `size` smallest hashes.

    The set of rows alone decides: neither their order, nor where they are, nor how often a row is there.
    """
    n_rows, n_features = rows.shape
    keys = 2 * np.random.default_rng(seed).integers(1, 2**63, size=n_features, dtype=np.uint64) + np.uint64(1)
    # A quarter more than needed; where rows repeat (grey levels, integers) too few are distinct and more are read.
    fraction = min(1.0, 1.25 * size / n_rows)
    while True:
        drawn = rows.reduce(partial(_draw, keys=keys, fraction=fraction))
        if fraction == 1.0 or len(drawn.rows) >= size:
            break
        fraction = min(1.0, 8 * fraction)
    order = _row_order(drawn.rows[:size])
    return Sample(drawn.rows[order], drawn.weights[order])


def _row_order(rows: FloatArray) -> IntArray:
    """Order of rows by their columns; the first column decides where it has no ties."""
    order = np.argsort(rows[:, 0], kind="stable")
    if (rows[order[1:], 0] == rows[order[:-1], 0]).any():
        order = np.lexsort(rows.T[::-1])
    return order


def _draw(X: FloatArray, sample_weight: FloatArray | None, keys: NDArray[np.uint64], fraction: float) -> Drawn:
    """Rows of a block that have weight and a small hash."""
    rows = np.asarray(X, dtype=np.float64, order="C") + 0.0  # -0.0 becomes 0.0
    weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    bits = rows.view(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(29))) @ keys
    hashes = ((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    drawn = (weights > 0) & (hashes < np.uint64(fraction * 2**53))
    return _merged(rows[drawn], weights[drawn], hashes[drawn])


def _merged(rows: FloatArray, weights: FloatArray, hashes: NDArray[np.uint64]) -> Drawn:
    """Sort by hash and add up the weights of equal rows."""
    order = np.argsort(hashes, kind="stable")
    rows, weights, hashes = rows[order], weights[order], hashes[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_new)
    return Drawn(rows[firsts], np.add.reduceat(weights, firsts) if len(firsts) else weights, hashes[firsts])


def check_distinct(sample: Sample, n_clusters: int) -> None:
    """Refuse more clusters than there are distinct rows."""
    if len(sample.rows) < n_clusters:
        raise ValueError(
            f"n_clusters={n_clusters} but X has only {len(sample.rows)} distinct rows; use fewer clusters."
        )


def kmeans_labels(sample: Sample, n_clusters: int, random: np.random.RandomState) -> IntArray:
    """Cluster the sample by k-means, one run from a k-means++ start."""
    return _complete([_labels(_kmeans(sample, KMeans(n_clusters, n_init=1, random_state=random)))], n_clusters)[0]


def component_labels(sample: Sample, n_clusters: int, seed: int, engine: str = "numpy") -> list[IntArray]:
    """Cluster the sample by k-means on its principal components in three scalings, each the best of many runs.

    Divided by a power of their deviation: 0 leaves the standardised features, where a group of correlated ones counts
    many times; 1 makes noise count as much as what separates clusters; 1/2 is between. Equal partitions come once,
    and those that leave a cluster without rows not at all. The engine "numba" has a k-means of its own: with few rows
    the calls of scikit-learn's take longer than the work.
    """
    asked = (sha256(sample.rows.tobytes() + sample.weights.tobytes()).digest(), n_clusters, seed, engine)
    if (labels := _last_labels.get(asked)) is not None:
        return labels
    with _labelling:  # Of several threads that ask for the same, one does the work.
        labels = _last_labels.get(asked) or _component_labels(sample, n_clusters, seed, engine)
        _last_labels[asked] = labels
        if len(_last_labels) > LABELS_KEPT:
            del _last_labels[next(iter(_last_labels))]
    return labels


def _component_labels(sample: Sample, n_clusters: int, seed: int, engine: str) -> list[IntArray]:
    components, deviations = principal_components(sample)
    if not deviations.size:  # Rows that are equal but for rounding are one group.
        return _complete([np.zeros(len(sample.rows), dtype=np.int64)], n_clusters)
    random = np.random.RandomState(seed)
    found: dict[bytes, IntArray] = {}
    for power in SCALINGS:
        labels = _best_labels(Sample(components / deviations**power, sample.weights), n_clusters, random, engine)
        found.setdefault(_in_order_of_appearance(labels).tobytes(), labels)
    return _complete(list(found.values()), n_clusters)


def _complete(found: list[IntArray], n_clusters: int) -> list[IntArray]:
    """Labels that give every cluster rows. Rows that differ by rounding alone k-means cannot tell apart."""
    n_groups = [len(np.unique(labels)) for labels in found]
    if max(n_groups) < n_clusters:
        raise ValueError(
            f"n_clusters={n_clusters} but k-means finds no more than {max(n_groups)} in X: other rows are too close to "
            "be told apart; use fewer clusters."
        )
    return [labels for labels, count in zip(found, n_groups, strict=True) if count == n_clusters]


def _best_labels(sample: Sample, n_clusters: int, random: np.random.RandomState, engine: str) -> IntArray:
    """Labels of the best of many runs of k-means, more of them where rows are few."""
    n_runs = int(np.clip(LEAST_RUNS * FEW_ROWS // len(sample.rows), LEAST_RUNS, MOST_RUNS))
    if engine == "numba":
        return _compiled_labels(sample, n_clusters, n_runs, random)
    return _labels(_kmeans(sample, KMeans(n_clusters, n_init=n_runs, random_state=random)))


def _compiled_labels(sample: Sample, n_clusters: int, n_runs: int, random: np.random.RandomState) -> IntArray:
    (n_rows, dim), n_trials = sample.rows.shape, 2 + int(np.log(n_clusters))
    draws = random.random_sample((n_runs, n_clusters, n_trials))
    labels, best = np.empty((2, n_rows), dtype=np.int64)
    room = labels, np.empty((n_clusters, dim)), np.empty((n_clusters, dim + 1)), np.empty((3, n_rows))
    _compiled_kmeans()(read_only(sample.rows), read_only(sample.weights), draws, *room, best)
    return best


@cache
def _compiled_kmeans() -> Callable[..., None]:
    """Compile k-means or read it from the cache; say so where it takes long."""
    from egmm.em.compiled.kmeans import kmeans  # noqa: PLC0415  Numba is loaded only when it is used.

    compiled: Callable[..., None] = kmeans
    labels = np.zeros((2, 1), dtype=np.int64)
    room = labels[0], np.empty((1, 1)), np.empty((1, 2)), np.empty((3, 1))
    with announced():
        compiled(read_only(np.zeros((1, 1))), read_only(np.ones(1)), np.zeros((1, 1, 2)), *room, labels[1])
    return compiled


def _in_order_of_appearance(labels: IntArray) -> IntArray:
    """Count clusters in the order in which rows name them."""
    firsts, inverse = np.unique(labels, return_index=True, return_inverse=True)[1:]
    return np.asarray(np.argsort(np.argsort(firsts))[inverse])


def _labels(model: KMeans) -> IntArray:
    return np.asarray(model.labels_, dtype=np.int64)


def _kmeans(sample: Sample, model: KMeans) -> KMeans:
    # What has been checked need not be checked again: on small data that costs as much as the clustering.
    with _quiet, config_context(assume_finite=True, skip_parameter_validation=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Fewer clusters than asked for: `_complete` says so.
        return model.fit(sample.rows, sample_weight=sample.weights)


def principal_components(sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Principal components of the standardised rows, and their standard deviations. Units do not matter."""
    rows, weights = sample
    share = weights / weights.sum()
    offsets = rows - share @ rows
    deviations = np.sqrt(share @ offsets**2)
    offsets /= np.where(deviations > ROUND_OFF * np.abs(rows).max(axis=0), deviations, np.inf)
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
                label = int(counts.argmin())
                raise ValueError(
                    f"init leaves cluster {label + 1} (label {label}) without rows; give every cluster some."
                )
            means = sums / counts[:, None]
        about = scatters_about(scatters, sums, counts, means)
        # Divisor n_k - 1; a group lighter than 2 (one row, fractional weights) is divided by half its weight.
        divisors = np.maximum(counts - 1.0, np.maximum(counts, TINY) / 2.0)
        return means, (about / divisors[:, None, None]).mean(axis=0)


class Classical(NamedTuple):
    """A sample to label, so that the classical mixture is fitted to it before the focal sets enter."""

    sample: Sample
    label: Callable[[Sample], list[IntArray]]
    """Ways to label rows."""


def focal_weights(cluster_weights: FloatArray, shares: FloatArray) -> FloatArray:
    """Weights of focal sets that differ little from a classical mixture's (C,).

    A cluster's weight goes to the smallest sets it is in, which is its singleton where there is one; the other sets
    together get `META_WEIGHT`.

    Examples
    --------
    >>> focal_weights(np.array([0.75, 0.25]), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    array([0.7425, 0.2475, 0.01  ])
    """
    is_in = shares > 0
    sizes = np.where(is_in, is_in.sum(axis=1, keepdims=True), np.inf)
    own = sizes == sizes.min(axis=0)
    others = ~own.any(axis=1)
    weights = (own / own.sum(axis=0)) @ (cluster_weights / cluster_weights.sum())
    if not others.any():
        return np.asarray(weights)
    return np.where(others, META_WEIGHT / others.sum(), (1 - META_WEIGHT) * weights)


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

    A constant feature has neither; any variance serves it, because it tells no cluster from another. Its variance
    within clusters may be the ridge of an earlier fit.
    """
    whole = np.diag(moments.scatter) / moments.weight
    return np.where(whole > 0, np.maximum(1e-9 * within, 1e-12 * whole), 1e-9)


def make_ridge(reg_covar: float | str, covariances: FloatArray, moments: Moments) -> FloatArray:
    """Ridge (D,) for covariances (D, D) or (C, D, D) to begin with: as given, or automatic."""
    dim = covariances.shape[-1]
    if isinstance(reg_covar, str):
        return automatic_ridge(np.diag(covariances.reshape(-1, dim, dim).mean(axis=0)), moments)
    return np.full(dim, float(reg_covar))
