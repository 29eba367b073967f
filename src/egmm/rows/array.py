"""Rows in memory or in a memory map."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.rows.source import BLOCK_ROWS, Sum, first_unusable, number, tree_sum
from egmm.rows.threads import Result, Threads


class ArrayRows:
    """Rows of a two-dimensional array, read block by block; a context manager that owns its threads.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Single or double precision; memory maps are read block by block too.
    sample_weight : ndarray of shape (n_samples,), default=None
        Row weights; None means equal weights of one.
    n_jobs : int, default=None
        Number of threads; None means all available cores. Results do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from egmm.em.statistics import moments
    >>> with ArrayRows(np.array([[0.0], [2.0], [4.0]])) as rows:
    ...     rows.reduce(moments).centre
    array([2.])
    """

    def __init__(self, X: FloatArray, sample_weight: FloatArray | None = None, n_jobs: int | None = None) -> None:
        self.X = X
        self.sample_weight = sample_weight
        # A single block runs in the caller's thread.
        self._threads = Threads(1 if len(X) <= BLOCK_ROWS else n_jobs)

    def take(self, order: IntArray) -> Self:
        """Some of the rows, or all in another order."""
        weight = None if self.sample_weight is None else self.sample_weight[order]
        taken = type(self)(self.X[order], weight, n_jobs=1)
        taken._threads = self._threads  # Closed by the owner of the rows.
        return taken

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features

    @property
    def size(self) -> tuple[float, int]:
        """Number of rows and of features."""
        return self.shape

    def blocks(self, aligned: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield (X, sample_weight) of each block, and the block's part of `aligned` if given."""
        for first in range(0, len(self.X), BLOCK_ROWS):
            at = slice(first, first + BLOCK_ROWS)
            weight = None if self.sample_weight is None else self.sample_weight[at]
            yield (self.X[at], weight) if aligned is None else (self.X[at], weight, aligned[at])

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results by `tree_sum`."""
        return tree_sum(number(self.map(function, aligned)))

    def map(self, function: Callable[..., Result], aligned: Any = None) -> Iterator[Result]:
        """Apply ``function(X, sample_weight[, aligned])`` to every block, in order."""
        return self.spread(function, self.blocks(aligned))

    def spread(self, function: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
        """Apply ``function(*block)`` to given blocks by the threads of the rows, in order."""
        return self._threads.map(function, blocks)

    def apply(self, function: Callable[..., Any], names: str | list[str], out: Any = None, metadata: Any = None) -> Any:  # noqa: ARG002
        """Apply a function of `em.assign` to every row."""
        if out is not None:
            raise ValueError("out= is only for scans of files; results for rows in memory are returned.")
        return np.concatenate(list(self.map(function)))

    def first_unusable(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first entry that is not finite or too large."""
        return first_unusable(self.blocks())

    def place(self, row: int) -> str:
        """Name a row."""
        return f"row {row}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()
