"""Rows in CSV, Parquet and Feather files, through Arrow's dataset reader."""

import csv
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray, import_optional
from egmm.rows.files import FileRows, place_in
from egmm.rows.source import BLOCK_ROWS, ReadError
from egmm.rows.text import Layout, is_number, layout_of

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
}
"""Arrow's formats by suffix."""

BATCH_ROWS = 4 * BLOCK_ROWS
BATCHES_AHEAD = 8
FILES_AHEAD = 2

BUFFER_BYTES = 32 * 1024
"""Read of a Parquet column at a time: it stays in the processor's cache until it is decoded, as whole groups do not."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the rows of a block: columns of features, weights."""

    columns: list[FloatArray]
    weight: FloatArray | None

    def part(self, first: int, last: int) -> "Piece":
        """Return rows from `first` to `last`."""
        weight = None if self.weight is None else self.weight[first:last]
        return Piece([column[first:last] for column in self.columns], weight)

    def __len__(self) -> int:
        return len(self.columns[0])


class ArrowRows(FileRows):
    """Rows of CSV, Parquet or Feather files.

    Columns are copied into blocks by the threads that work on them, each into a block of its own that it fills again
    and again: the copy is then found in the processor's cache.
    """

    def __init__(
        self,
        files: Sequence[Path],
        columns: Sequence[str] | None,
        weight: str | None,
        header: bool | None = None,
    ) -> None:
        table = open_table(files, header)
        self._dataset, self._layout = table.dataset, table.layout
        schema = self._dataset.schema
        names, self._columns = _choose(files[0], table.names, columns, weight)
        self._stored = [table.stored(name) for name in self._columns]
        self._weight = weight
        self._check_schemas(files)
        if self._layout is not None:
            self._dataset = _open_dataset(files, self._layout, self._stored)
        pa = import_optional("pyarrow", "Files", "arrow")
        single = self._layout is None and all(pa.types.is_float32(schema.field(name).type) for name in names)
        self._fragments = list(self._dataset.get_fragments())
        self._counts: dict[int, int] = {}
        self._own = threading.local()
        n_rows = sum(self._count_or_name(at, file) for at, file in enumerate(files))
        super().__init__(files, names, (n_rows, len(names)), np.float32 if single else np.float64)

    def using(self, sample_weight: Any, n_jobs: int | None) -> Self:
        """Return the same rows with weights (instead of a column of weights) and a number of threads."""
        rows = super().using(sample_weight, n_jobs)
        rows._own = threading.local()
        return rows

    def runs(self) -> Iterator[list[Piece]]:
        """Yield each block as the pieces it consists of."""
        parts: list[Piece] = []
        missing = BLOCK_ROWS
        for piece in self._pieces():
            first = 0
            while first < len(piece):
                part = piece.part(first, first + missing)
                parts.append(part)
                first += len(part)
                missing -= len(part)
                if missing == 0:
                    yield parts
                    parts, missing = [], BLOCK_ROWS
        if parts:
            yield parts

    def load(self, run: list[Piece]) -> tuple[FloatArray, FloatArray | None]:
        """Copy a run's columns into the calling thread's block."""
        if not hasattr(self._own, "block"):
            self._own.block = np.empty((self.shape[1], BLOCK_ROWS), dtype=self.dtype)
        block: FloatArray = self._own.block
        filled = 0
        for piece in run:
            last = filled + len(piece)
            for d, column in enumerate(piece.columns):
                block[d, filled:last] = column
            filled = last
        weights = [piece.weight for piece in run if piece.weight is not None]
        return block[:, :filled].T, np.concatenate(weights) if weights else None

    def blocks(self, aligned: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield (X, sample_weight) of each block, each a new array."""
        for X, *others in super().blocks(aligned):
            yield X.copy(order="F"), *others

    def count_rows(self, at: int) -> int:
        """Number of rows of one of the files."""
        if at not in self._counts:
            self._counts[at] = int(self._fragments[at].count_rows())
        return self._counts[at]

    def _pieces(self) -> Iterator[Piece]:
        pa = import_optional("pyarrow", "Files", "arrow")
        try:
            yield from self._batches()
        except (pa.ArrowException, OSError) as error:
            self.check_unchanged()
            raise ReadError(self._diagnosis(error)) from error

    def _batches(self) -> Iterator[Piece]:
        scanner = self._dataset.scanner(
            columns=self._stored,
            batch_size=BATCH_ROWS,
            batch_readahead=BATCHES_AHEAD,
            fragment_readahead=FILES_AHEAD,
            use_threads=True,
        )
        first = 0
        for batch in scanner.to_batches():
            self._check_nulls(batch, first)
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            weight = None if self._weight is None else np.asarray(columns.pop(), dtype=np.float64)
            if weight is not None:
                self._check_weight(weight, first)
            yield Piece(columns, weight)
            first += len(batch)

    def _check_nulls(self, batch: Any, first: int) -> None:
        rows = {
            name: int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            for name, column in zip(self._columns, batch.columns, strict=True)
            if column.null_count
        }
        if rows:
            name = min(rows, key=rows.__getitem__)
            where = self.place(first + rows[name])
            raise ReadError(f"column {name!r} has no value (null) at {where}; drop or impute such rows.")

    def _check_weight(self, weight: FloatArray, first: int) -> None:
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if len(bad):
            where, value = self.place(first + int(bad[0])), weight[bad[0]]
            raise ReadError(f"column {self._weight!r} must hold weights >= 0, but has {value:g} at {where}.")

    def _check_schemas(self, files: Sequence[Path]) -> None:
        """Every file has the columns, and they are numbers of one type."""
        pa = import_optional("pyarrow", "Files", "arrow")
        for file, fragment in zip(files, self._dataset.get_fragments(), strict=True):
            try:
                schema = fragment.physical_schema
            except (pa.ArrowException, OSError) as error:
                raise ReadError(f"cannot read {file}: {error}") from error
            for name, stored in zip(self._columns, self._stored, strict=True):
                if stored not in schema.names:
                    raise ReadError(f"{file} has no column {name!r}, but {files[0]} has; it has {schema.names}.")
                kind, expected = schema.field(stored).type, self._dataset.schema.field(stored).type
                is_numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind)
                is_csv = self._layout is not None
                if is_csv and not is_numeric and not pa.types.is_null(kind):
                    where = self._first_text([file], {name: stored})
                    raise ReadError(where or f"column {name!r} of {file} is {kind}, no number.")
                if not is_csv and not is_numeric:
                    raise ReadError(f"column {name!r} of {file} is {kind}, no number; choose others with columns.")
                # In CSV, where types are guessed, all numbers are read as float64.
                if not is_csv and kind != expected:
                    raise ReadError(f"column {name!r} of {file} is {kind}, but {expected} in {files[0]}.")

    def _count_or_name(self, at: int, file: Path) -> int:
        pa = import_optional("pyarrow", "Files", "arrow")
        try:
            return self.count_rows(at)
        except (pa.ArrowException, OSError) as error:
            raise ReadError(f"cannot read {file}: {error}") from error

    def _diagnosis(self, error: Exception) -> str:
        """Say what Arrow could not read and where, at the cost of reading it once more."""
        pa = import_optional("pyarrow", "Files", "arrow")
        found = self._first_text(self.files, dict(zip(self._columns, self._stored, strict=True)))
        if found is not None:
            return found
        for file, fragment in zip(self.files, self._fragments, strict=True):
            try:
                for _ in fragment.scanner(columns=self._stored, batch_size=BATCH_ROWS).to_batches():
                    pass
            except (pa.ArrowException, OSError) as own:
                return f"cannot read {file}: {own}"
        return f"cannot read {', '.join(map(str, self.files[:3]))}: {error}"

    def _first_text(self, files: Sequence[Path], columns: dict[str, str]) -> str | None:
        """Find the first entry of CSV columns, given by name and by Arrow's name, that is no number."""
        if self._layout is None:
            return None
        names = None if self._layout.header else self._dataset.schema.names
        for file in files:
            with file.open(newline="", encoding="utf-8-sig", errors="replace") as stream, suppress(csv.Error):
                for row, record in enumerate(csv.DictReader(stream, names, delimiter=self._layout.delimiter)):
                    for name, stored in columns.items():
                        text = record.get(stored)
                        if text and not is_number(text):
                            where = f"column {name!r} has {text!r}, no number, at {place_in(file, row)}"
                            return f"{where}; choose others with columns (--columns)."
        return None


def _choose(
    file: Path, present: Sequence[str], columns: Sequence[str] | None, weight: str | None
) -> tuple[list[str], list[str]]:
    """Return the features' columns, and all columns to read."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got the string {columns!r}.")
    names = [name for name in present if name != weight] if columns is None else list(columns)
    if not names:
        raise ValueError(f"columns must name at least one column; {file} has {list(present)}.")
    wanted = [*names, *([] if weight is None else [weight])]
    for name in wanted:
        if name not in present:
            raise ValueError(f"{file} has no column {name!r}; it has {list(present)}.")
        if wanted.count(name) > 1 or list(present).count(name) > 1:
            raise ValueError(f"columns must be distinct, and weight none of them, but {name!r} is there twice.")
    return names, wanted


class Table(NamedTuple):
    """Files opened as one data set, all columns and types."""

    dataset: Any
    names: list[str]
    """Names of the columns, in the data set's order."""
    layout: Layout | None
    """Of CSV files."""

    def stored(self, name: str) -> str:
        """Return Arrow's name of a column."""
        return str(self.dataset.schema.names[self.names.index(name)])


def open_table(files: Sequence[Path], header: bool | None = None) -> Table:
    """Open files; nothing but names and types is read. CSV files are laid out as the first of them."""
    layout = layout_of(files[0], header) if FORMATS.get(files[0].suffix.lower()) == "csv" else None
    dataset = _open_dataset(files, layout)
    stored = dataset.schema.names
    return Table(dataset, stored if layout is None else layout.names(stored), layout)


def _open_dataset(files: Sequence[Path], layout: Layout | None, numbers: Sequence[str] = ()) -> Any:
    """Open files as one data set; columns of CSV files named in `numbers` are read as float64."""
    pa = import_optional("pyarrow", "Files", "arrow")
    dataset = import_optional("pyarrow.dataset", "Files", "arrow")
    kind: Any = FORMATS.get(files[0].suffix.lower())
    if layout is not None:
        options = import_optional("pyarrow.csv", "Files", "arrow").ConvertOptions
        convert = options(column_types=dict.fromkeys(numbers, pa.float64()))
        kind = dataset.CsvFileFormat(convert_options=convert, **layout.arrow_options())
    elif kind == "parquet":
        reads = dataset.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True, buffer_size=BUFFER_BYTES)
        kind = dataset.ParquetFileFormat(default_fragment_scan_options=reads)
    try:
        return dataset.dataset([str(file) for file in files], format=kind)
    except (pa.ArrowException, OSError) as error:
        raise ReadError(f"cannot read {files[0]}: {error}") from error
