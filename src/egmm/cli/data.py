"""Rows and columns from files: CSV, Parquet, Feather and NumPy, one file or many."""

from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import LARGEST, FloatArray, IntArray, import_optional, lost_as_floats, what_is_unusable
from egmm.cli.columns import assign_roles, incomplete_notes, listing, missing_notes, parse, text_of
from egmm.cli.parsing import Source
from egmm.cli.screen import CommandError
from egmm.rows.arrow import decoded, format_of, index_of, open_table
from egmm.rows.files import is_hidden, open_npy, place_in
from egmm.rows.source import ReadError
from egmm.rows.text import is_number, layout_of

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow", ".ipc")
NUMPY = (".npy",)
KINDS = (*TEXT, *PARQUET, *FEATHER, *NUMPY)


class Data(NamedTuple):
    """Numbers to cluster.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    names : list of str
        Names of the columns.
    labels : ndarray of shape (n_samples,) or None
        Known classes, if a column was named; empty text for rows without one.
    left_out : mapping of str to str
        Skipped columns, and why.
    row_names : ndarray of shape (n_samples,) or None
        Names of the rows, if a column has them.
    id : str or None
        Name of that column.
    numbers : ndarray of int of shape (n_samples,) or None
        Row numbers in the files, counted from zero; None means all rows.
    notes : sequence of str
        Messages about columns and rows.
    """

    X: FloatArray
    names: list[str]
    labels: Any = None
    left_out: Mapping[str, str] = {}
    row_names: Any = None
    id: str | None = None
    numbers: IntArray | None = None
    notes: Sequence[str] = ()


class Table(NamedTuple):
    """Columns of one file, and the names of index columns."""

    names: list[str]
    values: list[Any]
    index_names: Sequence[str] = ()


def read_data(source: Source, *, least_rows: int = 2) -> Data:
    """Read the files of a source; fewer than `least_rows` rows are an error."""
    check_label(source)
    files = find_files(source.path)
    parts = [_read(path, source.header) for path in files]
    names = parts[0].names
    for part, path in zip(parts, files, strict=True):
        if part.names != names:
            raise CommandError(f"{path} has the columns {listing(part.names)}, but the first file {listing(names)}.")
    table = {name: np.concatenate([part.values[at] for part in parts]) for at, name in enumerate(names)}
    places = Places(files, [len(part.values[0]) for part in parts])
    roles = assign_roles(source, table, parts[0].index_names)
    columns = [_checked(name, numbers, table[name], places) for name, numbers in roles.features.items()]
    X, kept, notes = _complete(np.column_stack(columns), source, list(roles.features))
    if len(X) < least_rows:
        rows = f"{len(X)} row{'' if len(X) == 1 else 's'}"
        raise CommandError(f"{source.path} has {rows}, but at least {least_rows} are needed.")
    some = slice(None) if kept is None else kept
    return Data(
        X,
        list(roles.features),
        None if source.label is None else classes_of(table[source.label])[some],
        roles.left_out,
        None if roles.row_names is None else classes_of(table[roles.row_names])[some],
        roles.row_names,
        kept,
        [*roles.notes, *notes],
    )


def _complete(X: FloatArray, source: Source, names: Sequence[str]) -> tuple[FloatArray, IntArray | None, list[str]]:
    """Rows to fit, their numbers and a message; missing cells are handled here."""
    is_whole = ~np.isnan(X).any(axis=1)
    if is_whole.all():
        return X, None, []
    if source.missing == "em":
        return X, None, incomplete_notes(int(np.isnan(X).sum()), int((~is_whole).sum()), len(X))
    if not is_whole.any():
        worst = names[int(np.isnan(X).sum(axis=0).argmax())]
        raise CommandError(
            f"every row of {source.path} has a missing cell, most of them in column {worst!r}; drop it with --exclude."
        )
    return X[is_whole], np.flatnonzero(is_whole), missing_notes(int((~is_whole).sum()), len(X))


def column_names(source: Source) -> list[str]:
    """Names of the columns of a source, from its first file."""
    first = find_files(source.path)[0]
    if first.name.lower().endswith(NUMPY):
        return _read(first, source.header).names
    return list(open_table([first], source.header).names) if format_of(first) else _read(first, source.header).names


def check_label(source: Source) -> None:
    """Raise if the label is also to be clustered."""
    if source.label is not None and source.label in (source.columns or ()):
        raise CommandError(
            f"--label {source.label!r} is also in --columns, but known classes are not clustered; remove it there."
        )


def wanted_columns(source: Source, names: Sequence[str], index: Sequence[str]) -> tuple[list[str], list[str]]:
    """Columns to cluster, and skipped index columns.

    They are the requested columns, or all but label and index; all of them and the label must exist.
    """
    path, columns, label = source.path, source.columns, source.label
    left_out = [name for name in index if name != label] if columns is None else []
    unused = (label, source.id, *source.exclude, *left_out)
    wanted = [name for name in names if name not in unused] if columns is None else list(columns)
    check_label(source)
    for name in [*wanted, *source.exclude, *(name for name in (label, source.id) if name is not None)]:
        if name not in names:
            raise CommandError(f"{path} has no column {name!r}; its columns are {listing(names)}.")
    if not wanted:
        besides = "" if label is None else f" besides the label {label!r}"
        raise CommandError(f"{path} has no column to cluster{besides}.")
    return wanted, left_out


def find_files(source: str) -> list[Path]:
    """Files of a path, a directory or a pattern, sorted by name, without hidden ones."""
    path = Path(source)
    if path.is_dir():
        named = (item for item in path.iterdir() if not is_hidden(item.name))
        found = sorted(item for item in named if item.name.lower().endswith(KINDS) and item.is_file())
        if not found:
            raise CommandError(f"{source} contains no data file ({', '.join(KINDS)}).")
        return found
    if path.exists():
        return [path]
    found = sorted(Path(item) for item in glob(source, recursive=True))  # noqa: PTH207 - patterns may be absolute
    if not found:
        raise CommandError(f"{source} does not exist.")
    return found


def classes_of(values: Any) -> Any:
    """Classes as text, empty if missing."""
    return np.array([_class_of(value) for value in values])


def _class_of(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124  NaN
        return ""
    # Integers are read as floats if some are missing.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else text_of(value).strip()


class Places(NamedTuple):
    """Places of the rows of several concatenated files."""

    files: Sequence[Path]
    lengths: Sequence[int]

    def of(self, row: int) -> str:
        """Name the file and the row within it."""
        ends = np.cumsum(self.lengths)
        at = int(np.searchsorted(ends, row, side="right"))
        return place_in(self.files[at], row - int(ends[at] - self.lengths[at]))


def _read(path: Path, header: bool | None) -> Table:
    """Columns of one file."""
    name = path.name.lower()
    if not name.endswith(KINDS):
        raise CommandError(f"{path} has an unknown suffix; expected one of {', '.join(KINDS)}.")
    if path.stat().st_size == 0:
        raise CommandError(f"{path} is empty.")
    try:
        if name.endswith(NUMPY):
            array = open_npy(path)
            return Table([f"x{k + 1}" for k in range(array.shape[1])], list(array.T))
        return _from_arrow(path, _read_arrow(path, name, header))
    except (CommandError, ReadError):
        raise
    except (ValueError, OSError) as error:  # Arrow raises either, without the file name
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise CommandError(f"{path} cannot be read: {error}") from error


def _read_arrow(path: Path, name: str, header: bool | None) -> Any:
    purpose = "CSV, Parquet and Feather files"
    if name.endswith(PARQUET):
        return import_optional("pyarrow.parquet", purpose, "arrow").ParquetFile(path).read()
    if name.endswith(FEATHER):
        return import_optional("pyarrow.feather", purpose, "arrow").read_table(path)
    csv = import_optional("pyarrow.csv", purpose, "arrow")
    layout = layout_of(path, header)
    packed = "gzip" if name.endswith(".gz") else None
    with import_optional("pyarrow", purpose, "arrow").input_stream(str(path), packed) as stream:
        table = csv.read_csv(stream, **layout.arrow_options())
    return table.rename_columns(layout.names(table.column_names))


def _from_arrow(path: Path, table: Any) -> Table:
    names = list(table.column_names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CommandError(f"{path} has two columns named {twice!r}.")
    if table.num_rows == 0:
        raise CommandError(f"{path} has column names but no rows.")
    return Table(names, [decoded(column).to_numpy() for column in table.columns], index_of(table.schema, names))


def _checked(name: str, numbers: FloatArray, values: Any, places: Places) -> FloatArray:
    """Column of numbers; raise on the first entry that is infinite, too large or not a number."""
    if values.dtype.kind in "iu" and (why := lost_as_floats(values)):
        raise CommandError(f"column {name!r} has integers {why}")
    is_word = parse(values).is_word if np.isnan(numbers).any() else np.zeros(len(numbers), dtype=bool)
    if is_word.any():
        row = int(is_word.argmax())
        text = text_of(values[row])
        way_out = "drop the column with --exclude, or use --label if it holds known classes."
        if is_number(text.replace(",", "")):
            way_out = "write numbers without a comma between thousands."
        raise CommandError(f"column {name!r} has {text!r}, not a number, at {places.of(row)}; {way_out}")
    bad = np.flatnonzero(np.abs(numbers) >= LARGEST)
    if bad.size:
        found = what_is_unusable(float(numbers[bad[0]]))
        raise CommandError(
            f"column {name!r} has {found} at {places.of(int(bad[0]))} ({len(bad)} such rows in all); drop, impute or "
            "rescale them first."
        )
    return numbers
