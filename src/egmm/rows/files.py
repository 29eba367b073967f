"""Rows in files larger than memory, read block by block in every pass; includes npy files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from egmm._checks import FloatArray, check_sample_weight
from egmm.rows.source import BLOCK_ROWS, ReadError, Sum, first_unusable, number, tree_sum
from egmm.rows.threads import Result, Threads
from egmm.rows.write import check_out, write_parquet

SUMS_AHEAD = 8
"""Sums per thread that may queue behind an earlier one; they are small, and the reader must not block."""


class Stamp(NamedTuple):
    """Identifies the scanned version of a file."""

    size: int
    modified: int


class FileRows:
    """Rows of files, in blocks of fixed size that do not depend on the files' own chunks.

    Created by `scan`. A context manager that owns its threads.

    Attributes
    ----------
    files : list of Path
        The files, in reading order.
    feature_names : list of str or None
        Names of the columns, or None if the files have none.
    shape : tuple of int
        Numbers of rows and features.
    """

    def __init__(self, files: Sequence[Path], names: list[str] | None, shape: tuple[int, int], dtype: Any) -> None:
        if 0 in shape:
            listed = ", ".join(map(str, files[:3]))
            raise ValueError(f"paths must hold at least one row and column, but {listed} has shape {shape}.")
        self.files = list(files)
        self.feature_names = names
        self.shape = shape
        self.dtype = dtype
        self._stamps = [_stamp(file) for file in self.files]
        self._sample_weight: FloatArray | None = None
        self._scaling: tuple[FloatArray, FloatArray] | None = None
        self._threads = Threads(1)

    @property
    def size(self) -> tuple[float, int]:
        """Number of rows and of features."""
        return self.shape

    def using(self, sample_weight: Any, n_jobs: int | None) -> Self:
        """Return the same rows with the given weights (instead of a weight column) and number of threads."""
        rows = copy(self)
        rows._sample_weight = check_sample_weight(sample_weight, self.shape[0])
        rows._threads = Threads(n_jobs)
        return rows

    def scaled(self, centre: FloatArray, scale: FloatArray) -> Self:
        """Return the same rows, standardised by `centre` and `scale` as they are read."""
        rows = copy(self)
        rows._scaling = centre, scale
        return rows

    def pieces(self) -> Iterable[Any]:
        """Rows of the files in order, in sliceable pieces of any length."""
        raise NotImplementedError

    def load(self, run: Any) -> tuple[FloatArray, FloatArray | None]:
        """Rows and weights of a run; the arrays are valid until the calling thread loads the next run."""
        raise NotImplementedError

    def count_rows(self, at: int) -> int:
        """Number of rows of one of the files."""
        raise NotImplementedError

    def blocks(self, aligned: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield (X, sample_weight) of each block, and the block's part of `aligned` if given."""
        return (self._loaded(run, first, aligned) for run, first in self._checked_runs())

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results by `tree_sum`."""
        return tree_sum(number(self.map(function, aligned, SUMS_AHEAD)))

    def map(self, function: Callable[..., Result], aligned: Any = None, ahead: int = 2) -> Iterator[Result]:
        """Apply ``function(X, sample_weight[, aligned])`` to every block, in order."""
        return self._threads.map(partial(self._apply_to_run, function, aligned), self._checked_runs(), ahead)

    def apply(
        self,
        function: Callable[..., Any],
        names: str | list[str],
        out: str | PathLike[str] | None = None,
        metadata: dict[bytes, bytes] | None = None,
    ) -> Any:
        """Apply a function of `em.assign` to every row, into a Parquet file, or into memory for one number per row.

        A single name gives one number per row, a list of names one column each.
        """
        columns = [names] if isinstance(names, str) else names
        if out is not None:
            return write_parquet(check_out(out, self.files), self.map(function), columns, metadata)
        if len(columns) > 1:
            raise ValueError(f"The result has {len(columns)} columns per row; pass out= with a Parquet file name.")
        return np.concatenate(list(self.map(function)))

    def first_unusable(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first entry that is not finite or too large."""
        return first_unusable(self.blocks())

    def place(self, row: int) -> str:
        """Name the file, and the row within it, of a row counted over all files."""
        for at, file in enumerate(self.files):
            count = self.count_rows(at)
            if row < count:
                return place_in(file, row)
            row -= count
        raise IndexError(row)

    def runs(self) -> Iterator[list[Any]]:
        """Yield blocks of BLOCK_ROWS rows (the last may be shorter) as pieces for `load` to join."""
        parts: list[Any] = []
        missing = BLOCK_ROWS
        for piece in self.pieces():
            first = 0
            while first < len(piece):
                part = piece[first : first + missing]
                parts.append(part)
                first += len(part)
                missing -= len(part)
                if missing == 0:
                    yield parts
                    parts, missing = [], BLOCK_ROWS
        if parts:
            yield parts

    def check_unchanged(self) -> None:
        """Raise if a file has changed since it was scanned."""
        for file, stamp in zip(self.files, self._stamps, strict=True):
            if _stamp(file) != stamp:
                raise ReadError(f"{file} has changed since it was scanned; scan it again and refit.")

    def _checked_runs(self) -> Iterator[tuple[Any, int]]:
        """Yield runs with the number of their first row; check before and after that files are unchanged."""
        self.check_unchanged()
        first = 0
        for run in self.runs():
            yield run, first
            first += sum(map(len, run))
        self.check_unchanged()
        if first != self.shape[0]:
            raise ReadError(f"{self.files[0]} and others had {self.shape[0]} rows when scanned, but have {first} now.")

    def _loaded(self, run: Any, first: int, aligned: Any) -> tuple[Any, ...]:
        X, weight = self.load(run)
        if self._scaling is not None:
            centre, scale = self._scaling
            X = (X - centre) / scale
        at = slice(first, first + len(X))
        own = weight if self._sample_weight is None else self._sample_weight[at]
        return (X, own) if aligned is None else (X, own, aligned[at])

    def _apply_to_run(self, function: Callable[..., Result], aligned: Any, run: Any, first: int) -> Result:
        return function(*self._loaded(run, first, aligned))

    def __repr__(self) -> str:
        return f"scan of {len(self.files)} file(s): {self.shape[0]} rows, {self.shape[1]} features"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()


class NpyRows(FileRows):
    """Rows of npy files, memory mapped."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str] | None, weight: str | None) -> None:
        if columns is not None or weight is not None:
            raise ValueError("npy files have no column names; columns and weight must be None.")
        self._arrays = [open_npy(file) for file in files]
        n_features = self._arrays[0].shape[1]
        for file, array in zip(files, self._arrays, strict=True):
            if array.shape[1] != n_features:
                raise ReadError(f"{file} has {array.shape[1]} columns, but {files[0]} has {n_features}.")
        single = all(array.dtype == np.float32 for array in self._arrays)
        shape = (sum(len(array) for array in self._arrays), n_features)
        super().__init__(files, None, shape, np.float32 if single else np.float64)

    def pieces(self) -> list[FloatArray]:
        """Return the files' arrays."""
        return self._arrays

    def load(self, run: list[FloatArray]) -> tuple[FloatArray, None]:
        """Return the rows as a view, or joined if they cross files."""
        rows = run[0] if len(run) == 1 else np.concatenate(run)
        return np.asarray(rows, dtype=self.dtype), None

    def count_rows(self, at: int) -> int:
        """Number of rows of one of the files."""
        return len(self._arrays[at])


def is_hidden(name: str) -> bool:
    """Whether a name in a directory is of metadata or an unfinished file."""
    return name.startswith((".", "_"))


def place_in(file: Path, row: int) -> str:
    """Name a row of a file, counted from one as in the files that commands write."""
    return f"row {row + 1} (counted from 1) of {file}"


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError as error:
        raise ReadError(f"{file} can no longer be read: {error.strerror}.") from error
    return Stamp(status.st_size, status.st_mtime_ns)


def open_npy(file: Path) -> FloatArray:
    """Memory-map the matrix of an npy file."""
    try:
        with file.open("rb") as stream:
            # numpy.load takes any other file for a pickle and suggests allow_pickle.
            if stream.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                raise ReadError(f"{file} is not a valid npy file; write it with numpy.save.")
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except ReadError:
        raise
    except (ValueError, OSError, EOFError) as error:
        raise ReadError(f"{file} is not a valid npy file: {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ReadError(f"{file} must hold a two-dimensional array of numbers, got shape {array.shape}, {array.dtype}.")
    return array
