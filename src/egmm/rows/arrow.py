"""Rows in CSV, Parquet and Feather files, through Arrow's dataset reader."""

import csv
import io
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray, import_optional
from egmm.rows.files import FileRows, place_in
from egmm.rows.source import BLOCK_ROWS, ReadError
from egmm.rows.text import TRUTHS, UNPACKING, Layout, is_number, layout_of, open_text

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
}
"""Arrow's formats by file suffix."""

BATCH_ROWS = 4 * BLOCK_ROWS
BATCH_NUMBERS = 10 * BATCH_ROWS
"""Limits on rows and on values per batch."""

BATCHES_AHEAD = 8
FILES_AHEAD = 2

BUFFER_BYTES = 32 * 1024
"""Bytes of a Parquet column read at a time: they stay in the CPU cache until decoded."""


def format_of(file: Path) -> str | None:
    """Arrow's format of a file by its name; None if unknown."""
    if file.suffix == ".GZ":  # Arrow does not decompress it
        return None
    return next((kind for end, kind in FORMATS.items() if file.name.lower().endswith(end)), None)


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of the rows of a block: feature columns and weights."""

    columns: list[FloatArray]
    weight: FloatArray | None

    def __getitem__(self, rows: slice) -> "Piece":
        return Piece([column[rows] for column in self.columns], None if self.weight is None else self.weight[rows])

    def __len__(self) -> int:
        return len(self.columns[0])


class ArrowRows(FileRows):
    """Rows of CSV, Parquet or Feather files.

    Each thread copies columns into its own reusable block, which stays in the CPU cache.
    """

    def __init__(
        self,
        files: Sequence[Path],
        columns: Sequence[str] | None,
        weight: str | None,
        header: bool | None = None,
    ) -> None:
        pa = import_optional("pyarrow", "Files", "arrow")
        table = open_table(files, header)
        self._dataset, self._layout = table.dataset, table.layout
        self._is_feather = format_of(files[0]) == "feather"
        schema = self._dataset.schema
        names, self._columns = _choose(files[0], table, columns, weight)
        self._weight = None if weight is None else self._columns[-1]
        self._stored = self._check_schemas(files, table)
        single = self._layout is None and all(pa.types.is_float32(schema.field(name).type) for name in names)
        self._is_uniform = all(stored == self._stored[0] for stored in self._stored)
        opened = [self._dataset]
        if self._layout is not None:
            # Files with differently written column names are separate data sets, read in sequence.
            parts = [list(files)] if self._is_uniform else [[file] for file in files]
            types = zip(parts, self._stored, strict=False)
            opened = [_open_dataset(part, self._layout, stored) for part, stored in types]
        self._dataset = opened[0]
        self._fragments = [fragment for dataset in opened for fragment in dataset.get_fragments()]
        self._counts: dict[int, int] = {}
        self._own = threading.local()
        n_rows = sum(self._count_or_name(at, file) for at, file in enumerate(files))
        super().__init__(files, names, (n_rows, len(names)), np.float32 if single else np.float64)

    def using(self, sample_weight: Any, n_jobs: int | None) -> Self:
        """Return the same rows with the given weights (instead of a weight column) and number of threads."""
        rows = super().using(sample_weight, n_jobs)
        rows._own = threading.local()
        return rows

    def pieces(self) -> Iterator[Piece]:
        """Yield Arrow's batches as columns."""
        pa = import_optional("pyarrow", "Files", "arrow")
        try:
            yield from self._batches()
        except (pa.ArrowException, OSError) as error:
            self.check_unchanged()
            raise ReadError(self._diagnosis(error)) from error

    def load(self, run: list[Piece]) -> tuple[FloatArray, FloatArray | None]:
        """Copy a run's columns into the calling thread's block."""
        if not hasattr(self._own, "block"):
            n_rows, n_columns = self.shape
            self._own.block = np.empty((n_columns, min(n_rows, BLOCK_ROWS)), dtype=self.dtype)
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

    def _batches(self) -> Iterator[Piece]:
        first = 0
        for batch in self._record_batches():
            columns = [_numbers(column) for column in batch.columns]
            weight = None if self._weight is None else np.asarray(columns.pop(), dtype=np.float64)
            if weight is not None:
                self._check_weight(weight, first)
            yield Piece(columns, weight)
            first += len(batch)

    def _record_batches(self) -> Iterator[Any]:
        """Arrow's batches of all files, in order."""
        if self._is_feather or not self._is_uniform:
            return chain.from_iterable(map(self._file_batches, range(len(self._fragments))))
        return _scanned(self._dataset, list(self._stored[0]))

    def _file_batches(self, at: int) -> Iterator[Any]:
        """Arrow's batches of one of the files."""
        stored = list(self._stored[at])
        if not self._is_feather:
            yield from _scanned(self._fragments[at], stored)
            return
        # Arrow's scan of a Feather file keeps everything it has read in memory.
        pa = import_optional("pyarrow", "Files", "arrow")
        ipc = import_optional("pyarrow.ipc", "Files", "arrow")
        with pa.OSFile(str(self.files[at])) as stream:
            schema = self._fragments[at].physical_schema
            fields = [schema.get_field_index(name) for name in stored]
            reader = ipc.open_file(stream, options=ipc.IpcReadOptions(included_fields=fields))
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).select(stored)

    def _check_weight(self, weight: FloatArray, first: int) -> None:
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if len(bad):
            where, value = self.place(first + int(bad[0])), weight[bad[0]]
            raise ReadError(f"column {self._weight!r} must hold weights >= 0, but has {value:g} at {where}.")

    def _check_schemas(self, files: Sequence[Path], table: "Table") -> list[dict[str, Any]]:
        """Stored names of the columns in each file, and the types to read; every file must have them as numbers."""
        pa = import_optional("pyarrow", "Files", "arrow")
        all_stored: list[dict[str, Any]] = []
        for file, fragment in zip(files, table.dataset.get_fragments(), strict=True):
            try:
                schema = fragment.physical_schema
            except (pa.ArrowException, OSError) as error:
                raise ReadError(f"cannot read {file}: {error}") from error
            stored = _stored(self._columns, file, schema, table)
            check = self._check_stored if self._layout is None else self._check_guessed
            kinds = [
                check(name, file, schema.field(written).type)
                for name, written in zip(self._columns, stored, strict=True)
            ]
            all_stored.append(dict(zip(stored, kinds, strict=True)))
        return all_stored

    def _check_stored(self, name: str, file: Path, kind: Any) -> Any:
        """Type of a column, which must be numeric and the same in all files."""
        pa = import_optional("pyarrow", "Files", "arrow")
        entry = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (_is_number(entry) or pa.types.is_decimal(entry)):
            raise ReadError(f"column {name!r} of {file} is {kind}, not numeric; select others with columns.")
        expected = self._dataset.schema.field(name).type
        if kind != expected:
            raise ReadError(f"column {name!r} of {file} is {kind}, but {expected} in {self._dataset.files[0]}.")
        return kind

    def _check_guessed(self, name: str, file: Path, kind: Any) -> Any:
        """Type for reading a CSV column: boolean or float, whatever the first values look like."""
        pa = import_optional("pyarrow", "Files", "arrow")
        if not (_is_number(kind) or pa.types.is_null(kind)):
            where = self._first_text(file, {name: pa.float64()})
            raise ReadError(where or f"column {name!r} of {file} is {kind}, not numeric.")
        return kind if pa.types.is_boolean(kind) else pa.float64()

    def _count_or_name(self, at: int, file: Path) -> int:
        pa = import_optional("pyarrow", "Files", "arrow")
        try:
            return self.count_rows(at)
        except (pa.ArrowException, OSError) as error:
            raise ReadError(f"cannot read {file}: {error}") from error

    def _diagnosis(self, error: Exception) -> str:
        """Locate what Arrow could not read, by reading it again."""
        pa = import_optional("pyarrow", "Files", "arrow")
        for file, stored in zip(self.files, self._stored, strict=True):
            found = self._first_text(file, dict(zip(self._columns, stored.values(), strict=True)))
            if found is not None:
                return found
        for at, file in enumerate(self.files):
            try:
                for _ in self._file_batches(at):
                    pass
            except (pa.ArrowException, OSError) as own:
                return f"cannot read {file}: {own}"
        return f"cannot read {', '.join(map(str, self.files[:3]))}: {error}"

    def _first_text(self, file: Path, kinds: Mapping[str, Any]) -> str | None:
        """Find the first entry of a CSV file that is not a number, or not a boolean in a boolean column."""
        if self._layout is None:
            return None
        pa = import_optional("pyarrow", "Files", "arrow")
        unnamed = None if self._layout.header else self._dataset.schema.names
        with open_text(file) as stream, suppress(csv.Error, *UNPACKING):
            lines = io.TextIOWrapper(stream, newline="", encoding="utf-8-sig", errors="replace")
            records = csv.DictReader(lines, unnamed, delimiter=self._layout.delimiter)
            records.fieldnames = self._layout.names(records.fieldnames or [])
            for row, record in enumerate(records):
                for name, kind in kinds.items():
                    text = record.get(name)
                    is_truth = pa.types.is_boolean(kind)
                    if text and not (text in TRUTHS if is_truth else is_number(text)):
                        wanted = "neither true nor false" if is_truth else "not a number"
                        where = f"column {name!r} has {text!r}, {wanted}, at {place_in(file, row)}"
                        if is_number(text.replace(",", ".")):
                            return f"{where}; write numbers with a decimal point."
                        return f"{where}; select other columns with columns (--columns)."
        return None


def _is_number(kind: Any) -> bool:
    """Whether an Arrow type is numeric; booleans count as 1 and 0."""
    types = import_optional("pyarrow", "Files", "arrow").types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def decoded(column: Any) -> Any:
    """Decode a dictionary column: Arrow's NumPy conversion would turn nulls into the last category."""
    types = import_optional("pyarrow", "Files", "arrow").types
    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _numbers(column: Any) -> Any:
    """A column as a NumPy array; nulls are NaN."""
    values = _plain(column).to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _plain(column: Any) -> Any:
    """Convert to a NumPy type; decimals become the nearest doubles."""
    pa = import_optional("pyarrow", "Files", "arrow")
    column = decoded(column)
    # Arrow's cast of decimals is off in the last digit.
    return column.cast(pa.string()).cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def _choose(
    file: Path, table: "Table", columns: Sequence[str] | None, weight: str | None
) -> tuple[list[str], list[str]]:
    """Feature columns, and all columns to read."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got the string {columns!r}.")
    present = table.names
    if table.layout is not None:
        # As in text files, spaces around names are ignored.
        columns, weight = None if columns is None else [*map(_stripped, columns)], _stripped(weight)
    index = [name for name in table.index_names if name != weight] if columns is None else []
    for note in index_notes(index):
        warnings.warn(note, stacklevel=4)
    names = [name for name in present if name not in (weight, *index)] if columns is None else list(columns)
    if not names:
        raise ValueError(f"columns must name at least one column; {file} has {list(present)}.")
    wanted = [*names, *([] if weight is None else [weight])]
    times_present, times_wanted = Counter(present), Counter(wanted)
    for name in wanted:
        if name not in times_present:
            raise ValueError(f"{file} has no column {name!r}; it has {list(present)}.")
        if max(times_wanted[name], times_present[name]) > 1:
            raise ValueError(f"columns and weight must be distinct, but {name!r} appears twice.")
    return names, wanted


class Table(NamedTuple):
    """Files opened as one data set, with all columns and types."""

    dataset: Any
    names: list[str]
    """Names of the columns, in the data set's order."""
    layout: Layout | None
    """For CSV files."""

    @property
    def index_names(self) -> list[str]:
        """Names of the index columns."""
        return index_of(self.dataset.schema, self.names)

    def values(self, name: str, *, as_text: bool = False) -> Iterator[Any]:
        """Yield Arrow's arrays of a column, file by file; for CSV files as bytes if `as_text`."""
        pa = import_optional("pyarrow", "Files", "arrow")
        files, dataset = [Path(file) for file in self.dataset.files], self.dataset
        schemas = [fragment.physical_schema for fragment in dataset.get_fragments()]
        stored = [_stored([name], file, schema, self)[0] for file, schema in zip(files, schemas, strict=True)]
        if as_text and self.layout is not None:
            dataset = _open_dataset(files, self.layout, dict.fromkeys(stored, pa.binary()))
        for fragment, written in zip(dataset.get_fragments(), stored, strict=True):
            for batch in _scanned(fragment, [written]):
                yield batch.column(0)


def open_table(files: Sequence[Path], header: bool | None = None) -> Table:
    """Open files, reading only names and types. All CSV files share the layout of the first."""
    layout = layout_of(files[0], header) if format_of(files[0]) == "csv" else None
    dataset = _open_dataset(files, layout)
    return Table(dataset, _names(dataset.schema, layout), layout)


def _stored(wanted: Sequence[str], file: Path, schema: Any, table: Table) -> list[str]:
    """Stored column names in one of the files."""
    names = _names(schema, table.layout)
    times = Counter(names)
    for name in wanted:
        if name not in times:
            raise ReadError(f"{file} has no column {name!r}, but {table.dataset.files[0]} has; it has {names}.")
        if times[name] > 1:
            raise ReadError(f"{file} has two columns {name!r}; spaces around names are ignored.")
    stored = dict(zip(names, schema.names, strict=True))
    return [stored[name] for name in wanted]


def _names(schema: Any, layout: Layout | None) -> list[str]:
    """Names of a schema's columns."""
    return list(schema.names) if layout is None else layout.names(schema.names)


def index_of(schema: Any, names: Sequence[str]) -> list[str]:
    """Index columns: those declared by pandas metadata, and those without a name.

    Text files store an index without a name, which pandas reads as 'Unnamed: 0'.
    """
    declared = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in names if name in declared or not name or name.startswith("Unnamed: ")]


def index_notes(index: Sequence[str]) -> list[str]:
    """Warning about index columns that are skipped, if any."""
    if not index:
        return []
    listed = f"column{'' if len(index) == 1 else 's'} {', '.join(map(repr, index))}"
    what = f"Skipped as an index written by pandas or R: {listed}"
    return [f"{what}; a named column can be selected with columns (--columns)."]


def _stripped(name: Any) -> Any:
    return name.strip() if isinstance(name, str) else name


def _scanned(part: Any, stored: Sequence[str]) -> Iterator[Any]:
    """Batches of a data set or a file, with read-ahead."""
    batches: Iterator[Any] = part.scanner(
        columns=list(stored),
        batch_size=max(1, min(BATCH_ROWS, BATCH_NUMBERS // len(stored))),
        batch_readahead=BATCHES_AHEAD,
        fragment_readahead=FILES_AHEAD,
        use_threads=True,
    ).to_batches()
    return batches


def _open_dataset(files: Sequence[Path], layout: Layout | None, types: Mapping[str, Any] | None = None) -> Any:
    """Open files as one data set; `types` sets the types of CSV columns."""
    pa = import_optional("pyarrow", "Files", "arrow")
    dataset = import_optional("pyarrow.dataset", "Files", "arrow")
    kind: Any = format_of(files[0])
    if layout is not None:
        options = import_optional("pyarrow.csv", "Files", "arrow").ConvertOptions
        convert = options(column_types=types)
        kind = dataset.CsvFileFormat(convert_options=convert, **layout.arrow_options())
    elif kind == "parquet":
        reads = dataset.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True, buffer_size=BUFFER_BYTES)
        kind = dataset.ParquetFileFormat(default_fragment_scan_options=reads)
    try:
        return dataset.dataset([str(file) for file in files], format=kind)
    except (pa.ArrowException, OSError) as error:
        raise ReadError(f"cannot read {files[0]}: {error}") from error
