"""Belief peaks: the belief that each row is a cluster centre, and its distance to a row of higher belief."""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from egmm._checks import BoolArray, FloatArray, IntArray, check_finite_matrix, check_integer, check_real
from egmm.belief.focal import MAX_CLUSTERS
from egmm.belief.moebius import row_blocks

PEAKS_AT_ONCE, ROWS_AT_ONCE = 64, 4096
"""Size of distance matrices in the search beyond the neighbours: 2 MB."""


class DecisionGraph(NamedTuple):
    """The delta-Bel graph: one point per row, with both coordinates high for cluster centres."""

    belief: FloatArray
    """(n_samples,) degree of belief that the row is a cluster centre."""
    delta: FloatArray
    """(n_samples,) distance to the nearest row of higher belief; for the top row, the largest delta of the others."""
    peaks: IntArray
    """(n_clusters,) rows chosen as prototypes, by decreasing delta times belief."""

    @property
    def gap(self) -> float:
        """Ratio of the smallest chosen decision value to the largest of the others."""
        value = self.delta * self.belief
        left = _is_central(self.belief) & (self.delta > 0)
        left[self.peaks] = False
        smallest = float(value[self.peaks].min())
        # A row with zero belief is not a peak; if all rows are equal, one is.
        if smallest == 0 and self.delta.any():
            return 0.0
        return smallest / float(value[left].max()) if left.any() else np.inf


def delta_bel(
    X: Any, n_neighbors: int = 50, quantile: float = 0.9, *, n_jobs: int | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Coordinates of the delta-Bel graph.

    Each of the K nearest neighbours j of a row i is evidence that i is a centre, stronger for smaller distances on the
    scale :math:`\gamma_j` of j, the inverse of a quantile of j's distances to its neighbours:

    .. math:: \mathrm{Bel}_i = 1 - \prod_{j \in \mathrm{kNN}(i)} \Bigl( 1 - \frac{1}{K} e^{-\gamma_j^2 d_{ij}^2} \Bigr),
        \qquad \delta_i = \min_{j : \mathrm{Bel}_j > \mathrm{Bel}_i} d_{ij}

    Among rows with equal belief the first counts as larger, so that duplicates form one peak. Neighbours come from a
    tree, or for many features from all rows block by block. The nearest row of higher belief is among them except for
    the few local maxima, which are compared with such rows block by block: memory stays proportional to N K.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    n_neighbors : int, default=50
        Number K of neighbours, less than the number of rows.
    quantile : float, default=0.9
        Quantile, from 0 to 1, of a row's K distances that is used as its scale.
    n_jobs : int, default=None
        Threads of the neighbour search; None uses all cores.

    Returns
    -------
    belief, delta : ndarray of shape (n_samples,)
        The top row has the largest delta of the others.

    Examples
    --------
    >>> belief, delta = delta_bel([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]], n_neighbors=2)
    >>> np.flatnonzero(delta > 5)
    array([1, 4])
    """
    X = check_finite_matrix("X", X, (None, None))
    check_integer("n_neighbors", n_neighbors, 1)
    if n_neighbors >= len(X):
        raise ValueError(
            f"n_neighbors must be less than the number of rows, got n_neighbors={n_neighbors} with {len(X)} rows."
        )
    check_real("quantile", quantile, 0, 1)
    distances, neighbours = _nearest(X, n_neighbors, n_jobs)
    belief = _belief(distances, neighbours, quantile)
    order = np.argsort(-belief, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(X))
    delta = _delta_among_neighbours(distances, neighbours, rank)
    far = np.sort(rank[np.isinf(delta)])[1:]
    delta[order[far]] = _delta_beyond(X[order], far)
    delta[order[0]] = delta[order[1:]].max()
    return belief, delta


def _nearest(X: FloatArray, n_neighbors: int, n_jobs: int | None) -> tuple[FloatArray, IntArray]:
    """Ascending distances to the K nearest other rows, and their indices, both (n_samples, K)."""
    search = NearestNeighbors(n_neighbors=n_neighbors, n_jobs=-1 if n_jobs is None else n_jobs)
    found = search.fit(X - np.median(X, axis=0)).kneighbors(return_distance=False)
    # For many features or neighbours the search expands squares, which loses precision far from the origin or between
    # equal rows: it runs on rows centred at their median, and distances are recomputed.
    distances = np.empty(found.shape)
    for block in row_blocks(len(X), n_neighbors * X.shape[1]):
        distances[block] = np.linalg.norm(X[found[block]] - X[block, None], axis=2)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(found, order, axis=1)


def _belief(distances: FloatArray, neighbours: IntArray, quantile: float) -> FloatArray:
    """Belief of each row from its neighbours' distances, both (n_samples, K)."""
    scale = np.quantile(distances, quantile, axis=1)
    belief = np.empty(len(distances))
    for block in row_blocks(*distances.shape):
        d, s = distances[block], scale[neighbours[block]]
        # A row with more than q K duplicates has scale zero: it supports its duplicates fully and no other row.
        relative = np.divide(d, s, out=np.where(d > 0, np.inf, 0.0), where=s > 0)
        support = np.exp(-np.square(relative)) / distances.shape[1]
        belief[block] = 1 - np.prod(1 - support, axis=1)
    return belief


def _delta_among_neighbours(distances: FloatArray, neighbours: IntArray, rank: IntArray) -> FloatArray:
    """Distance to the first neighbour of higher rank (smaller number), infinite if there is none."""
    delta = np.full(len(rank), np.inf)
    for block in row_blocks(*distances.shape):
        is_higher = rank[neighbours[block]] < rank[block, None]
        first = is_higher.argmax(axis=1)
        rows = np.arange(len(first))
        delta[block] = np.where(is_higher[rows, first], distances[block][rows, first], np.inf)
    return delta


def _delta_beyond(sorted_rows: FloatArray, ranks: IntArray) -> FloatArray:
    """Distance of the rows with these ascending positions to the nearest row before them."""
    delta = np.full(len(ranks), np.inf)
    for first in range(0, len(ranks), PEAKS_AT_ONCE):
        some = ranks[first : first + PEAKS_AT_ONCE]
        nearest = delta[first : first + PEAKS_AT_ONCE]
        for start in range(0, int(some[-1]), ROWS_AT_ONCE):
            before = np.arange(start, min(start + ROWS_AT_ONCE, int(some[-1])))
            distances = cdist(sorted_rows[some], sorted_rows[before])
            distances[before >= some[:, None]] = np.inf
            np.minimum(nearest, distances.min(axis=1), out=nearest)
    return delta


def choose_peaks(
    belief: FloatArray,
    delta: FloatArray,
    n_clusters: int | None = None,
    *,
    min_belief: float | None = None,
    min_delta: float | None = None,
) -> IntArray:
    r"""Choose prototypes from the delta-Bel graph, by decreasing decision value.

    The decision value of a row is :math:`\delta_i \mathrm{Bel}_i`. Rows with belief zero or below the median are
    treated as outliers and come last.

    - With `n_clusters`, the rows with the largest values.
    - With a threshold, the rows that reach it in belief or delta, or both when both are given.
    - With neither, the rows before the widest gap: of the sorted values of rows that do not come last, the cut is
      where the ratio of one value to the next is largest, so that at least 2 and at most :math:`\sqrt{N}` (and
      63) rows come before it.

    Parameters
    ----------
    belief, delta : array-like of shape (n_samples,)
        Coordinates from :func:`egmm.cluster.delta_bel`.
    n_clusters : int, default=None
        Number of prototypes.
    min_belief, min_delta : float, default=None
        Thresholds.

    Returns
    -------
    peaks : ndarray of shape (n_clusters,)
        Row numbers.

    Examples
    --------
    >>> belief = np.array([0.5, 0.4, 0.3, 0.5, 0.45, 0.2])
    >>> delta = np.array([9.0, 0.5, 0.5, 8.0, 0.4, 2.0])
    >>> choose_peaks(belief, delta)
    array([0, 3])
    >>> choose_peaks(belief, delta, min_delta=1.0)
    array([0, 3, 5])
    """
    belief = check_finite_matrix("belief", belief, (None,))
    delta = check_finite_matrix("delta", delta, belief.shape)
    if n_clusters is not None:
        check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
    value = delta * belief
    is_central = _is_central(belief)
    # All but the first of duplicate rows have delta zero: two equal prototypes are never chosen. If all rows are
    # equal, so does the top one.
    is_distinct = delta > 0
    is_distinct[np.argmax(belief)] = True
    candidates = np.lexsort((-value, ~is_central))
    candidates = candidates[is_distinct[candidates]]
    if min_belief is not None or min_delta is not None:
        return _above(candidates, belief, delta, min_belief, min_delta)
    wanted = 2 if n_clusters is None else n_clusters
    if wanted > len(candidates):
        asked = f"n_clusters={n_clusters}" if n_clusters is not None else "n_clusters=None needs at least 2 clusters"
        rows = "1 distinct row" if len(candidates) == 1 else f"{len(candidates)} distinct rows"
        raise ValueError(f"{asked} but X has only {rows}; use fewer clusters.")
    if n_clusters is None:
        most = min(int(np.sqrt(len(value))), MAX_CLUSTERS)
        wanted = _before_widest_gap(value[candidates[is_central[candidates]]][: most + 1])
    return candidates[:wanted]


def _is_central(belief: FloatArray) -> BoolArray:
    """Rows that can be centres."""
    return (belief >= np.median(belief)) & (belief > 0)


def _before_widest_gap(values: FloatArray) -> int:
    """Number of the decreasing positive values before the largest ratio of neighbours, at least two."""
    if len(values) < 3:
        return 2
    return 2 + int(np.argmax(values[1:-1] / values[2:]))


def _above(
    candidates: IntArray, belief: FloatArray, delta: FloatArray, min_belief: float | None, min_delta: float | None
) -> IntArray:
    lowest_belief = check_real("min_belief", 0.0 if min_belief is None else min_belief, 0, 1)
    lowest_delta = check_real("min_delta", 0.0 if min_delta is None else min_delta, 0)
    chosen = candidates[(belief[candidates] >= lowest_belief) & (delta[candidates] >= lowest_delta)]
    if chosen.size == 0:
        raise ValueError(
            f"No row reaches min_belief={lowest_belief:g} and min_delta={lowest_delta:g}; the largest are "
            f"{belief.max():.3g} and {delta.max():.3g}."
        )
    if len(chosen) > MAX_CLUSTERS:
        raise ValueError(
            f"{len(chosen)} rows reach min_belief={lowest_belief:g} and min_delta={lowest_delta:g}, more than the "
            f"{MAX_CLUSTERS} clusters allowed; raise the thresholds or set n_clusters."
        )
    return chosen
