"""Rows in a Dask array or data frame: every pass is one task per chunk and a tree of additions where the chunks are."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np

from egmm._checks import FloatArray, check_sample_weight, import_optional
from egmm.rows.array import ArrayRows
from egmm.rows.source import BLOCK_ROWS, Node, Sum, first_not_finite, merge_nodes, number, tree_sum
from egmm.rows.threads import one_blas_thread

FAN_IN = 16
"""Chunks' sums added per task."""


class DaskRows:
    """Rows of a Dask collection; the sums are made by its workers, only they travel.

    Parameters
    ----------
    X : dask Array of shape (n_samples, n_features) or dask DataFrame
        Rows; a chunk holds whole rows.
    sample_weight : dask Array, dask Series or array-like of shape (n_samples,), default=None
        Weights of the rows.
    """

    def __init__(self, X: Any, sample_weight: Any = None) -> None:
        self._dask = import_optional("dask", "Dask collections", "dask")
        self.feature_names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        self.X = X
        self._chunks = _chunks(X)
        lengths = self._dask.compute(*[self._dask.delayed(len)(chunk) for chunk in self._chunks])
        self._lengths = [int(length) for length in lengths]
        self.shape = (sum(self._lengths), int(X.shape[1]))
        self._weights = self._row_parts("sample_weight", sample_weight)

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results by `tree_sum`."""
        delayed = self._dask.delayed
        parts = self._row_parts("aligned", aligned)
        sums = []
        first = 0
        for chunk, length, weight, part in zip(self._chunks, self._lengths, self._weights, parts, strict=True):
            sums.append(delayed(_chunk_sums, pure=False)(chunk, weight, part, function, first))
            first += -(-length // BLOCK_ROWS)
        while len(sums) > 1:
            sums = [delayed(_join, pure=False)(sums[at : at + FAN_IN]) for at in range(0, len(sums), FAN_IN)]
        return tree_sum(self._dask.compute(sums[0])[0])

    def apply(self, function: Callable[..., Any], names: list[str], out: Any = None) -> Any:
        """Lazily apply a function of `em.assign` to every row: a Dask array of one column per name."""
        if out is not None:
            raise ValueError("out= is for scans of files; a Dask result is lazy: store it with its own methods.")
        array = import_optional("dask.array", "Dask collections", "dask")
        delayed = self._dask.delayed
        is_flat = len(names) == 1
        dtype = np.int64 if is_flat and names[0] in {"cluster", "set"} else np.float64
        results = [
            array.from_delayed(
                delayed(_chunk_result, pure=False)(chunk, function),
                shape=(length,) if is_flat else (length, len(names)),
                dtype=dtype,
            )
            for chunk, length in zip(self._chunks, self._lengths, strict=True)
        ]
        return array.concatenate(results, axis=0)

    def first_not_finite(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first entry that is not finite."""
        return first_not_finite((_values(chunk.compute()), None) for chunk in self._chunks)

    def _row_parts(self, name: str, values: Any) -> list[Any]:
        """Values that belong to rows, cut as the rows are."""
        if values is None:
            return [None] * len(self._chunks)
        if hasattr(values, "to_dask_array"):
            values = values.to_dask_array(lengths=True)
        if hasattr(values, "rechunk"):
            if values.shape != (self.shape[0],):
                raise ValueError(f"{name} must have shape ({self.shape[0]},), got {values.shape}.")
            return list(values.rechunk((tuple(self._lengths),)).to_delayed())
        checked = check_sample_weight(values, self.shape[0]) if name == "sample_weight" else np.asarray(values)
        assert checked is not None
        return np.split(checked, np.cumsum(self._lengths)[:-1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close: the cluster is the user's."""


def _chunks(X: Any) -> list[Any]:
    """Delayed chunks of whole rows."""
    if hasattr(X, "partitions") and hasattr(X, "columns"):
        return list(X.to_delayed())
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got a Dask array of shape {X.shape}.")
    if X.numblocks[1] > 1:
        raise ValueError(
            f"X is cut between columns (chunks {X.chunks[1]}), but a chunk must hold whole rows: "
            "use X.rechunk({0: 'auto', 1: -1})."
        )
    return list(X.to_delayed().ravel())


def _values(chunk: Any) -> FloatArray:
    values = np.asarray(chunk)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"X must be numeric, but a chunk has dtype {values.dtype}; select the numeric columns.")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _chunk_sums(chunk: Any, weight: Any, part: Any, function: Callable[..., Sum], first: int) -> list[Node[Sum]]:
    """Sums of one chunk's blocks, numbered from `first`, as far as they can be added."""
    values = _values(chunk)
    if len(values) == 0:
        return []
    own = None if weight is None else np.asarray(weight, dtype=np.float64)
    with ArrayRows(values, own, n_jobs=1) as rows, one_blas_thread():
        return merge_nodes(number(rows.map(function, None if part is None else np.asarray(part)), first))


def _join(parts: list[list[Node[Sum]]]) -> list[Node[Sum]]:
    return merge_nodes(node for part in parts for node in part)


def _chunk_result(chunk: Any, function: Callable[..., Any]) -> Any:
    with ArrayRows(_values(chunk), None, n_jobs=1) as rows, one_blas_thread():
        return rows.apply(function, [])
