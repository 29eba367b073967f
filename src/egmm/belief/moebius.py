r"""Fast Moebius transforms on the power set: sums over subsets or supersets in :math:`C 2^{C-1}` additions per row.

Columns are indexed by bit mask, the empty set first, so there are :math:`2^C` of them.
"""

from collections.abc import Callable, Iterator

import numpy as np

from egmm._checks import FloatArray, check_finite_matrix

_BLOCK_BYTES = 1 << 19


def row_blocks(n_rows: int, n_columns: int, at_least: int = 16) -> Iterator[slice]:
    """Slices of rows that fit in the second-level cache, of at least `at_least` rows."""
    size = max(at_least, _BLOCK_BYTES // (8 * max(n_columns, 1)))
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def subset_sums(values: FloatArray) -> FloatArray:
    r"""Sum over subsets: :math:`g(A) = \sum_{B \subseteq A} f(B)`, row by row.

    Parameters
    ----------
    values : array-like of shape (n_samples, 2**n_clusters)
        :math:`f`, with columns indexed by bit mask.

    Returns
    -------
    sums : ndarray of shape (n_samples, 2**n_clusters)

    Examples
    --------
    >>> subset_sums([[0, 0.5, 0.1, 0.4]])
    array([[0. , 0.5, 0.1, 1. ]])
    """
    return _transform(values, lambda lower, upper: np.add(upper, lower, out=upper))


def subset_differences(sums: FloatArray) -> FloatArray:
    r"""Undo :func:`subset_sums`: :math:`f(A) = \sum_{B \subseteq A} (-1)^{|A| - |B|} g(B)`.

    Parameters
    ----------
    sums : array-like of shape (n_samples, 2**n_clusters)
        :math:`g`, with columns indexed by bit mask.

    Returns
    -------
    values : ndarray of shape (n_samples, 2**n_clusters)

    Examples
    --------
    >>> subset_differences([[0, 0.5, 0.25, 1]])
    array([[0.  , 0.5 , 0.25, 0.25]])
    """
    return _transform(sums, lambda lower, upper: np.subtract(upper, lower, out=upper))


def superset_sums(values: FloatArray) -> FloatArray:
    r"""Sum over supersets: :math:`g(A) = \sum_{B \supseteq A} f(B)`, row by row.

    Parameters
    ----------
    values : array-like of shape (n_samples, 2**n_clusters)
        :math:`f`, with columns indexed by bit mask.

    Returns
    -------
    sums : ndarray of shape (n_samples, 2**n_clusters)

    Examples
    --------
    >>> superset_sums([[0, 0.5, 0.1, 0.4]])
    array([[1. , 0.9, 0.5, 0.4]])
    """
    return _transform(values, lambda lower, upper: np.add(lower, upper, out=lower))


def superset_differences(sums: FloatArray) -> FloatArray:
    r"""Undo :func:`superset_sums`: :math:`f(A) = \sum_{B \supseteq A} (-1)^{|B| - |A|} g(B)`.

    Parameters
    ----------
    sums : array-like of shape (n_samples, 2**n_clusters)
        :math:`g`, with columns indexed by bit mask.

    Returns
    -------
    values : ndarray of shape (n_samples, 2**n_clusters)

    Examples
    --------
    >>> superset_differences([[1, 0.75, 0.5, 0.25]])
    array([[0.  , 0.5 , 0.25, 0.25]])
    """
    return _transform(sums, lambda lower, upper: np.subtract(lower, upper, out=lower))


def meeting_sums(values: FloatArray) -> FloatArray:
    r"""Sum over sets that meet: :math:`g(A) = \sum_{B \cap A \ne \emptyset} f(B)`, row by row, without subtraction.

    Parameters
    ----------
    values : array-like of shape (n_samples, 2**n_clusters)
        :math:`f`, with columns indexed by bit mask.

    Returns
    -------
    sums : ndarray of shape (n_samples, 2**n_clusters)

    Examples
    --------
    >>> meeting_sums([[0, 0.5, 0.1, 0.4]])
    array([[0. , 0.9, 0.5, 1. ]])
    """
    return _by_blocks(values, _met)


def _met(apart: FloatArray) -> FloatArray:
    """Sums (2**n_clusters, rows) over sets that meet in the clusters seen so far, and over those that do not (`apart`).

    Bits of clusters not yet seen are those of B. Seen bits are those of A in `met`, and of its complement in `apart`,
    whose sums are then sums over subsets.
    """
    met = np.zeros_like(apart)
    for step in _steps(len(met)):
        halves, missed = _halves(met, step), _halves(apart, step)
        np.add(halves[:, 0], halves[:, 1], out=halves[:, 0])
        np.add(halves[:, 0], missed[:, 1, ::-1], out=halves[:, 1])
        np.add(missed[:, 1], missed[:, 0], out=missed[:, 1])
    return met


def _transform(values: FloatArray, butterfly: Callable[[FloatArray, FloatArray], FloatArray]) -> FloatArray:
    """Apply the butterfly to every pair of sets differing by one cluster."""

    def sweep(sets_by_rows: FloatArray) -> FloatArray:
        for step in _steps(len(sets_by_rows)):
            halves = _halves(sets_by_rows, step)
            butterfly(halves[:, 0], halves[:, 1])
        return sets_by_rows

    return _by_blocks(values, sweep)


def _by_blocks(values: FloatArray, transform: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Apply a transform of (2**n_clusters, rows), which it may overwrite, block by block with rows contiguous."""
    array = check_finite_matrix("values", values, (None, None))
    n_rows, n_columns = array.shape
    if n_columns == 0 or n_columns & (n_columns - 1):
        raise ValueError(f"values must have 2**n_clusters columns, the empty set first, got {n_columns}.")
    out = np.empty(array.shape)
    for block in row_blocks(n_rows, n_columns):
        out[block] = transform(array[block].T.copy(order="C")).T
    return out


def _steps(n_sets: int) -> Iterator[int]:
    """Bit masks of the clusters."""
    return (1 << cluster for cluster in range(n_sets.bit_length() - 1))


def _halves(sets_by_rows: FloatArray, step: int) -> FloatArray:
    """View with a second axis of two: sets without the cluster of this bit mask, and the same sets with it."""
    return sets_by_rows.reshape(len(sets_by_rows) // (2 * step), 2, step, -1)
