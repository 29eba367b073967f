"""Rows in an array of another library, on the device where it is."""

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from egmm._arrays import Place, namespace, to_host
from egmm._checks import FloatArray
from egmm.rows.source import BLOCK_ROWS, Sum, first_unusable, number, tree_sum


class DeviceRows:
    """Rows of an array API array, read block by block; a context manager for symmetry with other row sources.

    A method of an object that has a method ``on(where, dtype)`` is given blocks where they are; that method returns
    the object as it is there, or None if it cannot be. Any other function is given NumPy blocks.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Single or double precision.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights of the rows, of NumPy.
    where : Place
        Where X is.
    """

    def __init__(self, X: Any, sample_weight: FloatArray | None, where: Place) -> None:
        self.X, self.where = X, where
        self.sample_weight = None if sample_weight is None else where.array(sample_weight, X.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features

    @property
    def size(self) -> tuple[float, int]:
        """Number of rows and of features."""
        return self.shape

    def map(self, function: Callable[..., Any], aligned: Any = None) -> Iterator[Any]:
        """Apply ``function(X, sample_weight[, aligned])`` to every block; results come in block order."""
        owner: Any = getattr(function, "__self__", None)
        there = owner.on(self.where, self._precision()) if hasattr(owner, "on") else None
        for block in self.blocks(aligned):
            yield function(*map(to_host, block)) if there is None else getattr(there, function.__name__)(*block)

    def _precision(self) -> Any:
        """Precision of the rows; double for few rows, because single precision hides the gain of a step of EM."""
        is_few = self.X.shape[0] <= BLOCK_ROWS
        return self.where.widest if is_few else self.X.dtype

    def blocks(self, aligned: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield (X, sample_weight) of each block, and the block's part of `aligned` where that is given."""
        n_rows = self.X.shape[0]
        for first in range(0, n_rows, BLOCK_ROWS):
            at = slice(first, min(first + BLOCK_ROWS, n_rows))
            weight = None if self.sample_weight is None else self.sample_weight[at]
            block = (self.X[at, ...], weight)
            yield block if aligned is None else (*block, aligned[at])

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results by `tree_sum`."""
        return tree_sum(number(self.map(function, aligned)))

    def apply(self, function: Callable[..., Any], names: str | list[str], out: Any = None, metadata: Any = None) -> Any:  # noqa: ARG002
        """Apply a function of `em.assign` to every row; its results stay where it makes them."""
        if out is not None:
            raise ValueError("out= is for scans of files; the result for an array is returned.")
        parts = list(self.map(function))
        return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else namespace(parts[0]).concat(parts)

    def first_unusable(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first entry that is not finite or too large."""
        return first_unusable(tuple(map(to_host, block)) for block in self.blocks())

    def place(self, row: int) -> str:
        """Name a row."""
        return f"row {row}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""
