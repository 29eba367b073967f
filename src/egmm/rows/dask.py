"""Rows in a Dask array or data frame: a pass is one task per chunk and a tree of additions on the workers."""

from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from typing import Any, Self

import numpy as np

from egmm._checks import FloatArray, check_sample_weight, check_unmasked, import_optional
from egmm.rows.array import ArrayRows
from egmm.rows.source import (
    BLOCK_ROWS,
    Node,
    Sum,
    UnusableRowsError,
    bad_entry,
    first_unusable,
    merge_nodes,
    number,
    tree_sum,
)
from egmm.rows.threads import one_blas_thread

FAN_IN = 16
"""Number of sums added per task."""


class DaskRows:
    """Rows of a Dask collection; workers compute the sums, and only sums are transferred.

    Parameters
    ----------
    X : dask Array of shape (n_samples, n_features) or dask DataFrame
        Rows; each chunk must hold whole rows.
    sample_weight : dask Array, dask Series or array-like of shape (n_samples,), default=None
        Row weights.
    """

    def __init__(self, X: Any, sample_weight: Any = None) -> None:
        self._dask = import_optional("dask", "Dask collections", "dask")
        if not hasattr(type(X), "to_delayed"):  # a Delayed object has every attribute
            raise TypeError(f"X must be a Dask array or data frame (dask.array.from_delayed), got {type(X).__name__}.")
        self._is_frame = hasattr(X, "columns") and X.ndim == 2
        # As in scikit-learn, only strings are feature names.
        has_names = self._is_frame and all(isinstance(name, str) for name in X.columns)
        self.feature_names = list(X.columns) if has_names else None
        self._chunks = _frame_chunks(X) if self._is_frame else _array_chunks(X)
        self._n_features = int(X.shape[1])
        if self._n_features == 0:
            raise ValueError("X must have at least one feature, but has no columns.")
        self._known = [np.nan] * len(self._chunks) if self._is_frame else list(X.chunks[0])
        self._weights = self._row_parts("sample_weight", sample_weight)

    @cached_property
    def _lengths(self) -> list[int]:
        """Rows of each chunk, counted by the workers if unknown."""
        if not np.isnan(self._known).any():
            return [int(length) for length in self._known]
        count = self._dask.delayed(len)
        return [int(length) for length in self._dask.compute(*[count(chunk) for chunk in self._chunks])]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return sum(self._lengths), self._n_features

    @property
    def size(self) -> tuple[float, int]:
        """Numbers of rows (infinite if unknown) and features."""
        n_rows = float(np.sum(self._known))
        return np.inf if np.isnan(n_rows) else n_rows, self._n_features

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results by `tree_sum`."""
        delayed = self._dask.delayed
        parts = self._row_parts("aligned", aligned)
        sums = []
        block = row = 0
        for chunk, length, weight, part in zip(self._chunks, self._lengths, self._weights, parts, strict=True):
            if length:
                sums.append(delayed(_chunk_sums, pure=False)(chunk, weight, part, function, block, row))
            block += -(-length // BLOCK_ROWS)
            row += length
        if not sums:
            raise ValueError("X must have at least one row, but every chunk is empty.")
        while len(sums) > 1:
            sums = [delayed(_join, pure=False)(sums[at : at + FAN_IN]) for at in range(0, len(sums), FAN_IN)]
        return tree_sum(self._dask.compute(sums[0])[0])

    def apply(self, function: Callable[..., Any], names: str | list[str], out: Any = None, metadata: Any = None) -> Any:  # noqa: ARG002
        """Lazily apply a function of `em.assign` to every row.

        Returns a Dask array: one-dimensional for a single name, one column per name for a list.
        """
        if out is not None:
            raise ValueError("out= is only for scans of files; store the lazy Dask result with its own methods.")
        array = import_optional("dask.array", "Dask collections", "dask")
        delayed = self._dask.delayed
        others = () if isinstance(names, str) else (len(names),)
        dtype = np.int64 if names in ("cluster", "set") else np.float64
        compute = delayed(_chunk_result, pure=False)
        results = [
            array.from_delayed(
                compute(chunk, at, self.feature_names, function, others, dtype), shape=(length, *others), dtype=dtype
            )
            for at, (chunk, length) in enumerate(zip(self._chunks, self._known, strict=True))
        ]
        return array.concatenate(results, axis=0, allow_unknown_chunksizes=True)

    def first_unusable(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first entry that is not finite or too large."""
        look = self._dask.delayed(_first_unusable)
        found = self._dask.compute(*[look(chunk) for chunk in self._chunks])
        for first, entry in zip(accumulate(self._lengths, initial=0), found, strict=False):
            if entry is not None:
                row, column, value = entry
                return first + row, column, value
        return None

    def place(self, row: int) -> str:
        """Name a row."""
        return f"row {row}"

    def _row_parts(self, name: str, values: Any) -> list[Any]:
        """Per-row values, chunked like the rows."""
        if values is None:
            return [None] * len(self._chunks)
        if hasattr(type(values), "to_delayed"):
            if values.ndim == 1 and getattr(values.dtype, "kind", "O") not in "fiub":
                raise TypeError(f"{name} must be numeric, got a Dask {type(values).__name__} of dtype {values.dtype}.")
            if hasattr(values, "to_dask_array"):
                # Nulls of nullable columns become NaN.
                values = values.astype(np.float64).to_dask_array(lengths=True)
            if np.isnan(values.shape).any():
                values = values.compute_chunk_sizes()
            if values.shape != (self.shape[0],):
                raise ValueError(f"{name} must have shape ({self.shape[0]},), got {values.shape}.")
            return list(values.rechunk((tuple(self._lengths),)).to_delayed())
        checked = check_sample_weight(values, self.shape[0]) if name == "sample_weight" else np.asarray(values)
        assert checked is not None
        parts = np.split(checked, np.cumsum(self._lengths)[:-1])
        # Sent to the workers once, not with every pass.
        return list(self._dask.persist(*[self._dask.delayed(part) for part in parts]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing: the cluster belongs to the user."""


def _frame_chunks(X: Any) -> list[Any]:
    """Delayed partitions of a data frame of numbers."""
    for name, dtype in X.dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiub":
            raise TypeError(f"X must be numeric, but column {name!r} is {dtype}; select the numeric columns.")
    return list(X.to_delayed())


def _array_chunks(X: Any) -> list[Any]:
    """Delayed chunks of whole rows."""
    if getattr(X, "ndim", None) != 2:
        shape = getattr(X, "shape", "none")
        raise ValueError(f"X must have two dimensions, got a Dask {type(X).__name__} of shape {shape}.")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X must be numeric, got a Dask array of dtype {X.dtype}.")
    if X.numblocks[1] > 1:
        raise ValueError(
            f"X is chunked along columns (chunks {X.chunks[1]}), but each chunk must hold whole rows; "
            "use X.rechunk({0: 'auto', 1: -1})."
        )
    return list(X.to_delayed().ravel())


def _values(chunk: Any) -> FloatArray:
    """A chunk as a float array; nulls become NaN."""
    check_unmasked("A chunk of X", chunk)
    if hasattr(chunk, "dtypes") and not all(isinstance(dtype, np.dtype) for dtype in chunk.dtypes):
        values = chunk.to_numpy(np.float64, na_value=np.nan)
    else:
        values = np.asarray(chunk)
    if values.ndim != 2:
        raise TypeError(f"Chunks of X must be arrays or data frames, got {type(chunk).__name__}; make them dense.")
    _check_kind("X", values)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _check_kind(name: str, values: Any) -> None:
    """Refuse a chunk whose type differs from the declared one: a cast would convert anything to numbers."""
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} was declared numeric, but a chunk has dtype {values.dtype}; correct its metadata.")


def _chunk_sums(
    chunk: Any, weight: Any, part: Any, function: Callable[..., Sum], block: int, row: int
) -> list[Node[Sum]]:
    """Partial sums of one chunk's blocks; `block` and `row` are the numbers of its first block and row."""
    check_unmasked("A chunk of sample_weight", weight)
    own = None if weight is None else _checked_weight(np.asarray(weight), row)
    with ArrayRows(_values(chunk), own, n_jobs=1) as rows, one_blas_thread():
        return merge_nodes(number(rows.map(function, None if part is None else np.asarray(part)), block))


def _checked_weight(weight: Any, row: int) -> FloatArray:
    _check_kind("sample_weight", weight)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(f"sample_weight must be finite and >= 0, but row {row + bad[0]} has {weight[bad[0]]:g}.")
    return np.asarray(weight, dtype=np.float64)


def _join(parts: list[list[Node[Sum]]]) -> list[Node[Sum]]:
    return merge_nodes(node for part in parts for node in part)


def _chunk_result(
    chunk: Any,
    at: int,
    names: list[str] | None,
    function: Callable[..., Any],
    others: tuple[int, ...],
    dtype: Any,
) -> Any:
    values = _values(chunk)
    if len(values) == 0:
        return np.empty((0, *others), dtype=dtype)
    with ArrayRows(values, None, n_jobs=1) as rows, one_blas_thread():
        try:
            return np.concatenate(list(rows.map(function)))
        except UnusableRowsError as error:
            raise bad_entry(rows, names, f" of chunk {at}") or error from None


def _first_unusable(chunk: Any) -> tuple[int, int, float] | None:
    return first_unusable([(_values(chunk), None)])
