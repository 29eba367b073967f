"""Dissimilarities, given or computed from features, and starts from them."""

from typing import Any

import numpy as np
from scipy.sparse.linalg import eigsh
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from egmm._checks import FloatArray, IntArray, check_choice, check_finite_matrix, check_integer
from egmm.cluster.prototypes import STARTS
from egmm.em.sample import Sample
from egmm.rows.threads import one_blas_thread

PRECOMPUTED = "precomputed"

ASYMMETRY = 1e-8
"""Asymmetry of a dissimilarity matrix, relative to its largest entry, that counts as rounding."""

FEW_ROWS = 500
"""Up to this number of rows, all coordinates are computed at once."""

COORDINATES = 10
"""Number of coordinates for k-means starts from dissimilarities, or twice the number of clusters if larger."""


def check_dissimilarities(D: FloatArray) -> FloatArray:
    """Validate a matrix of dissimilarities.

    >>> check_dissimilarities(np.array([[0.0, 1.0], [2.0, 0.0]]))
    Traceback (most recent call last):
    ...
    ValueError: X must be symmetric with metric='precomputed', but entry (0, 1) is 1 and entry (1, 0) is 2.
    """
    if D.shape[0] != D.shape[1]:
        raise ValueError(
            f"X must be a square matrix of dissimilarities with metric='precomputed', got shape {D.shape}; pass rows "
            "of features with another metric."
        )
    _refuse_negative(D)
    _refuse(np.diag(np.diag(D)) != 0, D, "must have a zero diagonal")
    gap = np.abs(D - D.T)
    if gap.max() > ASYMMETRY * D.max():
        row, column = first_true(gap == gap.max())
        row, column = min(row, column), max(row, column)
        raise ValueError(
            f"X must be symmetric with metric='precomputed', but entry ({row}, {column}) is {D[row, column]:g} and "
            f"entry ({column}, {row}) is {D[column, row]:g}."
        )
    return (D + D.T) / 2


def _refuse_negative(D: FloatArray) -> None:
    _refuse(D < 0, D, "must not be negative", "Negative values in data: ")  # The words scikit-learn's check expects.


def _refuse(bad: Any, D: FloatArray, rule: str, kind: str = "") -> None:
    if bad.any():
        row, column = first_true(bad)
        raise ValueError(
            f"{kind}X {rule} with metric='precomputed', but entry ({row}, {column}) is {D[row, column]:g}."
        )


def first_true(bad: Any) -> tuple[int, int]:
    """Row and column of the first entry that is true."""
    row, column = np.unravel_index(np.argmax(bad), bad.shape)
    return int(row), int(column)


def check_computed(distances: FloatArray, metric: Any, others: Any = None) -> FloatArray:
    """Raise if the values of a metric are not dissimilarities; `others` (n, k) are the numbers of the other rows."""
    if not (np.min(distances, initial=0.0) >= 0 and np.max(distances, initial=0.0) < np.inf):
        row, column = first_true(~((distances >= 0) & (distances < np.inf)))
        other = column if others is None else int(others[row, column])
        raise ValueError(
            f"metric={metric!r} must give finite dissimilarities that are not negative, but gives "
            f"{distances[row, column]:g} for rows {row} and {other}; use another metric, or drop such rows."
        )
    return distances


def dissimilarities(X: FloatArray, metric: Any, others: FloatArray | None = None) -> FloatArray:
    """Dissimilarities of rows to each other, or to `others`; X itself with metric 'precomputed'."""
    if isinstance(metric, str) and metric == PRECOMPUTED:
        if others is None:
            return check_dissimilarities(X)
        _refuse_negative(X)
        return X
    # By differences: scikit-learn expands squares, which loses precision between near rows.
    if isinstance(metric, str) and metric == "euclidean":
        return check_computed(cdist(X, X if others is None else others), metric)
    try:
        with one_blas_thread():
            found = pairwise_distances(X, others, metric=metric)
    except ValueError as error:
        if isinstance(metric, str):
            raise ValueError(
                f"metric={metric!r} cannot be used: {error}; use 'precomputed', a metric of "
                "sklearn.metrics.pairwise_distances, or a function of two rows."
            ) from None
        raise
    return check_computed(np.asarray(found, dtype=np.float64), metric)


def is_precomputed(metric: Any) -> bool:
    """Whether rows are given by dissimilarities."""
    return isinstance(metric, str) and metric == PRECOMPUTED


def count_distinct(D: FloatArray) -> int:
    """Number of distinct rows: those at positive distance from all earlier rows."""
    return int((~np.tril(D == 0, -1).any(axis=1)).sum())


def check_distinct(n_clusters: int, D: FloatArray) -> None:
    """Raise if there are more clusters than distinct rows."""
    n_distinct = count_distinct(D)
    if n_clusters > n_distinct:
        raise ValueError(f"n_clusters={n_clusters} but X has only {n_distinct} distinct rows; use fewer clusters.")


def classical_scaling(squared: FloatArray, n_coordinates: int) -> FloatArray:
    """Classical multidimensional scaling: coordinates (n, q) from the leading eigenvectors.

    >>> x = np.array([0.0, 1.0, 5.0])
    >>> coordinates = classical_scaling(np.square(x[:, None] - x), 2)
    >>> np.abs(coordinates[:, 0] - coordinates[0, 0]).round(6)
    array([0., 1., 5.])
    """
    row_means = squared.mean(axis=1)
    products = (row_means[:, None] + row_means - squared - row_means.mean()) / 2
    n_rows = len(products)
    if n_rows <= FEW_ROWS or n_coordinates >= n_rows - 1:
        roots, axes = np.linalg.eigh(products)
    else:
        roots, axes = eigsh(products, k=n_coordinates, which="LA", v0=np.random.default_rng(0).normal(size=n_rows))
    order = np.argsort(-roots)[:n_coordinates]
    return axes[:, order] * np.sqrt(np.maximum(roots[order], 0))


def starting_labels(coordinates: FloatArray, n_clusters: int, init: str, random: np.random.RandomState) -> IntArray:
    """Labels from k-means, or from the nearest of random rows, as in the starts of ECM."""
    check_choice("init", init, STARTS)
    rows, inverse, counts = np.unique(coordinates, axis=0, return_inverse=True, return_counts=True)
    with one_blas_thread():
        labels = STARTS[init](Sample(rows, counts.astype(np.float64)), n_clusters, random)
    return labels[inverse.ravel()]


def start_coordinates(X: FloatArray, metric: Any, squared: FloatArray, n_clusters: int) -> FloatArray:
    """Coordinates for starts: the features for Euclidean distances, else classical scaling."""
    if isinstance(metric, str) and metric == "euclidean":
        return X
    with one_blas_thread():
        return classical_scaling(squared, min(len(X) - 1, max(COORDINATES, 2 * n_clusters)))


def nearest_dissimilarities(
    X: Any, n_neighbors: int, *, metric: Any = "euclidean", n_jobs: int | None = None
) -> tuple[FloatArray, IntArray]:
    """Dissimilarities of each row to its nearest neighbours, without computing all pairs.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
        Rows, or dissimilarities with ``metric="precomputed"``.
    n_neighbors : int
        Number K of neighbours, less than the number of rows.
    metric : str or callable, default='euclidean'
        'precomputed', or any metric of scikit-learn's neighbour search; a function of two rows is called for all pairs.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores.

    Returns
    -------
    distances : ndarray of shape (n_samples, n_neighbors)
        Ascending in each row; a row is not its own neighbour.
    neighbours : ndarray of shape (n_samples, n_neighbors)
        Numbers of the rows.

    Examples
    --------
    >>> distances, neighbours = nearest_dissimilarities([[0.0], [1.0], [5.0]], 1)
    >>> distances.ravel(), neighbours.ravel()
    (array([1., 1., 4.]), array([1, 0, 1]))
    """
    rows = check_finite_matrix("X", X, (None, None))
    check_integer("n_neighbors", n_neighbors, 1)
    check_fewer_than_rows("n_neighbors", n_neighbors, len(rows))
    if is_precomputed(metric):
        D = check_dissimilarities(rows).copy()
        np.fill_diagonal(D, np.inf)
        nearest = np.argsort(D, axis=1, kind="stable")[:, :n_neighbors]
        return np.take_along_axis(D, nearest, axis=1), nearest
    # The brute-force search expands squares, which loses precision far from the origin.
    moved = rows - rows.mean(axis=0) if isinstance(metric, str) and metric == "euclidean" else rows
    # Trees need the triangle inequality, which a function of two rows may not obey.
    algorithm = "brute" if callable(metric) else "auto"
    n_threads = -1 if n_jobs is None else n_jobs
    search = NearestNeighbors(n_neighbors=n_neighbors, algorithm=algorithm, metric=metric, n_jobs=n_threads)
    distances, neighbours = search.fit(moved).kneighbors()
    return check_computed(distances, metric, neighbours), neighbours


def check_fewer_than_rows(name: str, value: int, n_rows: int) -> None:
    """Raise if there are as many neighbours or pairs as rows."""
    if value >= n_rows:
        raise ValueError(f"{name} must be less than the number of rows, got {name}={value} with {n_rows} rows.")
