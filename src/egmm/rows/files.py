"""Rows in files larger than memory: CSV, Parquet, Feather and npy, read block by block as often as needed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from egmm._checks import FloatArray, check_sample_weight, import_optional
from egmm._files import replacing
from egmm.rows.source import BLOCK_ROWS, Sum, first_not_finite, number, tree_sum
from egmm.rows.threads import Result, Threads

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
"""Arrow's formats by suffix; .npy is read by NumPy."""

BATCH_ROWS = 4 * BLOCK_ROWS
BATCHES_AHEAD = 4

Piece: TypeAlias = tuple[Sequence[FloatArray] | FloatArray, FloatArray | None]
"""Columns of a run of rows, and the rows' weights."""


class Stamp(NamedTuple):
    """What tells that a file is still the one that was scanned."""

    size: int
    modified: int


def scan(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    columns: Sequence[str] | None = None,
    *,
    weight: str | None = None,
) -> "FileRows":
    """Rows in files, for `EGMM.fit`, `predict` and `select_model`; the files are never loaded whole.

    Parameters
    ----------
    paths : path, glob pattern, directory, or list of paths
        CSV, Parquet, Feather or npy files of one format. A directory is searched for them, subdirectories too; files
        are read in the order of their names.
    columns : sequence of str, default=None
        Columns to use as features; None means all (but `weight`). Names and types are checked at once.
    weight : str, default=None
        Column with the rows' weights.

    Returns
    -------
    rows : FileRows

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.npy")
    >>> np.save(path, np.arange(12.0).reshape(6, 2))
    >>> scan(path).shape
    (6, 2)
    """
    files = _find(paths)
    suffixes = {file.suffix.lower() for file in files}
    if suffixes == {".npy"}:
        return NpyRows(files, columns, weight)
    kinds = {FORMATS.get(suffix) for suffix in suffixes}
    if len(kinds) != 1 or None in kinds:
        listed = ", ".join(sorted(suffixes))
        raise ValueError(f"paths must be files of one format (.csv, .parquet, .feather or .npy), got {listed}.")
    return ArrowRows(files, columns, weight)


class FileRows:
    """Rows of files, in blocks of fixed size whatever the files' own pieces are.

    Use `scan` to make one. It is a context manager that owns its threads.
    """

    def __init__(self, files: Sequence[Path], names: list[str] | None, shape: tuple[int, int], dtype: Any) -> None:
        self.files = list(files)
        self.feature_names = names
        self.shape = shape
        self.dtype = dtype
        self._stamps = [_stamp(file) for file in self.files]
        self._sample_weight: FloatArray | None = None
        self._threads = Threads(1)

    def using(self, sample_weight: Any, n_jobs: int | None) -> Self:
        """Set weights of the rows (instead of a column of weights) and the number of threads."""
        self._sample_weight = check_sample_weight(sample_weight, self.shape[0])
        self._threads = Threads(n_jobs)
        return self

    def pieces(self) -> Iterator[Piece]:
        """Yield rows, column by column as (n_features, n), and weights of consecutive runs of rows of any length."""
        raise NotImplementedError

    def blocks(self, aligned: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield (X, sample_weight) of each block, and the block's part of `aligned` where that is given."""
        first = 0
        for X, weight in _regrouped(self._unchanged_pieces(), self.shape[1], self.dtype):
            at = slice(first, first + len(X))
            first += len(X)
            own = weight if self._sample_weight is None else self._sample_weight[at]
            yield (X, own) if aligned is None else (X, own, aligned[at])
        if first != self.shape[0]:
            raise ValueError(f"the files held {self.shape[0]} rows when scanned and {first} now; scan them again.")

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results by `tree_sum`."""
        return tree_sum(number(self.map(function, aligned)))

    def map(self, function: Callable[..., Result], aligned: Any = None) -> Iterator[Result]:
        """Apply ``function(X, sample_weight[, aligned])`` to every block; results come in block order."""
        return self._threads.map(function, self.blocks(aligned))

    def apply(self, function: Callable[..., Any], names: list[str], out: str | PathLike[str] | None = None) -> Any:
        """Apply a function of `em.assign` to every row, to a Parquet file, or in memory where it gives one number."""
        if out is not None:
            return write_parquet(Path(out), self.map(function), names)
        if len(names) > 1:
            raise ValueError(f"{len(names)} numbers for each of {self.shape[0]} rows: name a Parquet file with out=.")
        return np.concatenate(list(self.map(function)))

    def first_not_finite(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first entry that is not finite."""
        return first_not_finite(self.blocks())

    def _unchanged_pieces(self) -> Iterator[Piece]:
        for file, stamp in zip(self.files, self._stamps, strict=True):
            if _stamp(file) != stamp:
                raise ValueError(f"{file} has changed since it was scanned; scan it again and refit.")
        return self.pieces()

    def __repr__(self) -> str:
        return f"scan of {len(self.files)} file(s): {self.shape[0]} rows, {self.shape[1]} features"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.__exit__(kind, error, trace)


class NpyRows(FileRows):
    """Rows of npy files, memory mapped."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str] | None, weight: str | None) -> None:
        if columns is not None or weight is not None:
            raise ValueError("npy files have no column names: columns and weight must be None.")
        self._arrays = [_open_npy(file) for file in files]
        n_features = self._arrays[0].shape[1]
        for file, array in zip(files, self._arrays, strict=True):
            if array.shape[1] != n_features:
                raise ValueError(f"{file} has {array.shape[1]} columns, but {files[0]} has {n_features}.")
        single = all(array.dtype == np.float32 for array in self._arrays)
        shape = (sum(len(array) for array in self._arrays), n_features)
        super().__init__(files, None, shape, np.float32 if single else np.float64)

    def pieces(self) -> Iterator[Piece]:
        """Yield rows, column by column."""
        for array in self._arrays:
            for first in range(0, len(array), BATCH_ROWS):
                yield array[first : first + BATCH_ROWS].T, None


class ArrowRows(FileRows):
    """Rows of CSV, Parquet or Feather files, through Arrow's dataset reader."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str] | None, weight: str | None) -> None:
        self._dataset = _open_dataset(files)
        schema = self._dataset.schema
        present = list(schema.names)
        names = [name for name in present if name != weight] if columns is None else list(columns)
        wanted = [*names, *([] if weight is None else [weight])]
        if not names:
            raise ValueError(f"columns must name at least one column; {files[0]} has {present}.")
        for name in wanted:
            if name not in present:
                raise ValueError(f"{files[0]} has no column {name!r}; it has {present}.")
        _check_schemas(self._dataset, files, wanted)
        self._columns, self._weight = wanted, weight
        pa = import_optional("pyarrow", "Files", "arrow")
        single = all(pa.types.is_float32(schema.field(name).type) for name in names)
        with _naming(files):
            shape = (self._dataset.count_rows(), len(names))
        if shape[0] == 0:
            raise ValueError(f"{', '.join(map(str, files[:3]))} hold no rows.")
        super().__init__(files, names, shape, np.float32 if single else np.float64)

    def pieces(self) -> Iterator[Piece]:
        """Yield rows, column by column."""
        with _naming(self.files):
            scanner = self._dataset.scanner(
                columns=self._columns,
                batch_size=BATCH_ROWS,
                batch_readahead=BATCHES_AHEAD,
                fragment_readahead=1,
                use_threads=True,
            )
            first = 0
            for batch in scanner.to_batches():
                columns = [self._numbers(batch, at, first) for at in range(len(self._columns))]
                first += len(batch)
                weight = None if self._weight is None else np.asarray(columns.pop(), dtype=np.float64)
                if weight is not None:
                    check_sample_weight(weight, len(weight))
                yield columns, weight

    def _numbers(self, batch: Any, at: int, first: int) -> FloatArray:
        column = batch.column(at)
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            where = self._locate(row)
            raise ValueError(f"column {self._columns[at]!r} has no value (null) at {where}; drop or impute such rows.")
        return column.to_numpy(zero_copy_only=False)

    def _locate(self, row: int) -> str:
        """Name the file and the row within it of a row counted over all files."""
        for fragment in self._dataset.get_fragments():
            count = fragment.count_rows()
            if row < count:
                return f"row {row} of {fragment.path}"
            row -= count
        return f"row {row}"


def write_parquet(path: Path, parts: Iterable[Any], names: list[str]) -> Path:
    """Write results block by block to a Parquet file that appears only when it is whole."""
    pa = import_optional("pyarrow", "Files", "arrow")
    parquet = import_optional("pyarrow.parquet", "Files", "arrow")
    writer = None
    try:
        with replacing(path) as stream:
            for part in parts:
                columns = part[:, None] if part.ndim == 1 else part
                table = pa.table({name: np.ascontiguousarray(columns[:, at]) for at, name in enumerate(names)})
                writer = writer or parquet.ParquetWriter(stream, table.schema)
                writer.write_table(table)
            if writer is not None:
                writer.close()
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}; nothing was left there") from error
    return path


def _find(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    """Files named, matched by patterns, or below directories, in the order of their names."""
    named = [paths] if isinstance(paths, str | PathLike) else list(paths)
    files: list[Path] = []
    for name in named:
        path = Path(name)
        if path.is_dir():
            below = (file for file in path.rglob("*") if file.suffix.lower() in {*FORMATS, ".npy"} and file.is_file())
            found = sorted(below)
        elif path.is_file():
            found = [path]
        else:
            found = sorted(Path(match) for match in glob(str(name), recursive=True))  # noqa: PTH207  patterns may be absolute
        if not found:
            raise FileNotFoundError(f"paths: no CSV, Parquet, Feather or npy file at {name}.")
        files.extend(found)
    if not files:
        raise ValueError("paths must name at least one file, got an empty list.")
    return files


def _stamp(file: Path) -> Stamp:
    status = file.stat()
    return Stamp(status.st_size, status.st_mtime_ns)


def _open_npy(file: Path) -> FloatArray:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{file} is no readable npy file: {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{file} must hold a two-dimensional array of numbers, got shape {array.shape}, {array.dtype}."
        )
    return array


def _open_dataset(files: Sequence[Path]) -> Any:
    dataset = import_optional("pyarrow.dataset", "Files", "arrow")
    with _naming(files):
        return dataset.dataset([str(file) for file in files], format=FORMATS[files[0].suffix.lower()])


def _check_schemas(dataset: Any, files: Sequence[Path], names: Sequence[str]) -> None:
    """Every file has the columns, and they are numbers of one type."""
    pa = import_optional("pyarrow", "Files", "arrow")
    for fragment in dataset.get_fragments():
        with _naming([fragment.path]):
            schema = fragment.physical_schema
        for name in names:
            if name not in schema.names:
                raise ValueError(f"{fragment.path} has no column {name!r}, but {files[0]} has.")
            kind, expected = schema.field(name).type, dataset.schema.field(name).type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
                raise ValueError(f"column {name!r} of {fragment.path} is {kind}, not a number; name others in columns.")
            if kind != expected:
                raise ValueError(f"column {name!r} of {fragment.path} is {kind}, but {expected} in {files[0]}.")


@contextmanager
def _naming(files: Sequence[Path | str]) -> Iterator[None]:
    """Turn Arrow's errors into ones that name the files."""
    pa = import_optional("pyarrow", "Files", "arrow")
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        shown = ", ".join(str(file) for file in files[:3]) + (", ..." if len(files) > 3 else "")
        raise ValueError(f"cannot read {shown}: {error}") from error


def _regrouped(pieces: Iterable[Piece], n_features: int, dtype: Any) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    """Runs of rows as blocks of BLOCK_ROWS, each a new array whose columns are contiguous."""
    block = np.empty((n_features, BLOCK_ROWS), dtype=dtype)
    weights: FloatArray | None = None
    filled = 0
    for columns, weight in pieces:
        n = len(columns[0])
        taken = 0
        while taken < n:
            now = min(n - taken, BLOCK_ROWS - filled)
            for d in range(n_features):
                block[d, filled : filled + now] = columns[d][taken : taken + now]
            if weight is not None:
                weights = np.empty(BLOCK_ROWS) if weights is None else weights
                weights[filled : filled + now] = weight[taken : taken + now]
            taken += now
            filled += now
            if filled == BLOCK_ROWS:
                yield block.T, weights
                block, weights, filled = np.empty_like(block), None, 0
    if filled:
        yield block[:, :filled].T, None if weights is None else weights[:filled]
