"""Rows in memory or in a memory map."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from types import TracebackType
from typing import Any, Self, TypeVar

from egmm._checks import FloatArray
from egmm.rows.source import BLOCK_ROWS, Sum

Result = TypeVar("Result")


class ArrayRows:
    """Rows of a two-dimensional array, read block by block; a context manager that owns the threads.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Single or double precision; memory maps are read block by block too.
    sample_weight : ndarray of shape (n_samples,), default=None
        Weights of the rows; None means one each.
    n_jobs : int, default=None
        Threads; None means all cores this process may use. The result does not depend on it.

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
        self._n_threads = min(n_jobs or available_cores(), -(-len(X) // BLOCK_ROWS))
        self._pool: ThreadPoolExecutor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features

    def blocks(self, aligned: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield (X, sample_weight) of each block, and the block's part of `aligned` where that is given."""
        for first in range(0, len(self.X), BLOCK_ROWS):
            at = slice(first, first + BLOCK_ROWS)
            weight = None if self.sample_weight is None else self.sample_weight[at]
            yield (self.X[at], weight) if aligned is None else (self.X[at], weight, aligned[at])

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results in block order."""
        return reduce(lambda total, part: total.plus(part), self.map(function, aligned))

    def map(self, function: Callable[..., Result], aligned: Any = None) -> Iterator[Result]:
        """Apply ``function(X, sample_weight[, aligned])`` to every block; results come in block order."""
        if self._n_threads > 1 and self._pool is None:
            self._pool = ThreadPoolExecutor(self._n_threads, thread_name_prefix="egmm")
        apply = map if self._pool is None else self._pool.map
        return apply(lambda block: function(*block), self.blocks(aligned))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
