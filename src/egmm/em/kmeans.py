"""k-means, many runs at once.

On few rows a run is hundreds of small array operations, whose calls take longer than the work. Runs therefore step
together, and leave as they end: thirty of them take about as long as two.
"""

import numpy as np

from egmm._checks import FloatArray, IntArray

MAX_STEPS = 300


def kmeans(
    rows: FloatArray, weights: FloatArray, n_clusters: int, n_runs: int, random: np.random.RandomState
) -> IntArray:
    """Labels (N,) of the best of several runs, each from a greedy k-means++ start (Arthur and Vassilvitskii 2007).

    There may be fewer groups if rows are too close to be separated.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> labels = kmeans(rows, np.ones(4), 2, 3, np.random.RandomState(0))
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    rows = rows - (weights @ rows) / weights.sum()
    squares = np.einsum("nd,nd->n", rows, rows)
    centres = _plus_plus(rows, squares, weights, n_clusters, n_runs, random)
    labels = np.full((n_runs, len(rows)), -1)
    inertia = np.zeros(n_runs)
    live = np.arange(n_runs)
    for _ in range(MAX_STEPS):
        distances = _distances(rows, squares, centres[live])
        found = distances.argmin(axis=1)
        nearest = np.take_along_axis(distances, found[:, None], axis=1)[:, 0]
        inertia[live] = nearest @ weights
        moved = (found != labels[live]).any(axis=1)
        labels[live] = found
        live, found, nearest = live[moved], found[moved], nearest[moved]
        if not len(live):
            break
        centres[live] = _means(rows, weights, found, nearest, n_clusters)
    return labels[inertia.argmin()]


def _distances(rows: FloatArray, squares: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distances (R, C, N) of rows from centres (R, C, D)."""
    n_runs, n_clusters, dim = centres.shape
    flat = centres.reshape(-1, dim)
    distances = flat @ rows.T
    distances *= -2.0
    distances += squares
    distances += np.einsum("kd,kd->k", flat, flat)[:, None]
    return np.maximum(distances, 0.0, out=distances).reshape(n_runs, n_clusters, -1)


def _means(rows: FloatArray, weights: FloatArray, labels: IntArray, nearest: FloatArray, n_clusters: int) -> FloatArray:
    """Means (R, C, D) of groups; an empty group moves to the row farthest from its mean."""
    member = np.where(labels[:, None] == np.arange(n_clusters)[:, None], weights, 0.0)
    counts = member.sum(axis=-1)
    means = (member.reshape(-1, len(rows)) @ rows).reshape(*counts.shape, -1)
    means /= np.where(counts > 0, counts, 1.0)[..., None]
    for run, cluster in zip(*np.nonzero(counts == 0), strict=True):
        farthest = int(nearest[run].argmax())
        nearest[run, farthest] = 0.0
        means[run, cluster] = rows[farthest]
    return means


def _plus_plus(
    rows: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    n_runs: int,
    random: np.random.RandomState,
) -> FloatArray:
    """Initial centres (R, C, D), each the best of a few rows drawn by distance from the others."""
    n_trials = 2 + int(np.log(n_clusters))
    draws = random.random_sample((n_clusters, n_runs, n_trials))
    shares = np.cumsum(weights) / weights.sum()
    chosen = rows[np.minimum(np.searchsorted(shares, draws[0, :, 0], side="right"), len(rows) - 1)]
    centres = np.empty((n_runs, n_clusters, rows.shape[1]))
    centres[:, 0] = chosen
    nearest = _distances(rows, squares, chosen[:, None])[:, 0]
    for k in range(1, n_clusters):
        potential = np.cumsum(nearest * weights, axis=1)
        wanted = draws[k] * potential[:, -1:]
        tried = np.stack([np.searchsorted(one, two, side="right") for one, two in zip(potential, wanted, strict=True)])
        candidates = rows[np.minimum(tried, len(rows) - 1)]
        distances = np.minimum(_distances(rows, squares, candidates), nearest[:, None])
        best = (distances @ weights).argmin(axis=1)
        centres[:, k] = candidates[np.arange(n_runs), best]
        nearest = distances[np.arange(n_runs), best]
    return centres
