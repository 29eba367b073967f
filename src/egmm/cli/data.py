"""Rows and columns from files: CSV, Parquet, Feather and NumPy, one file or many."""

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, import_optional
from egmm.cli.screen import CommandError

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
        Known classes, where a column was named.
    """

    X: FloatArray
    names: list[str]
    labels: Any = None


def read_data(
    source: str, columns: Sequence[str] | None = None, label: str | None = None, *, least_rows: int = 2
) -> Data:
    """Read a file, a directory of files or a glob pattern.

    Parameters
    ----------
    source : str
        Path or pattern.
    columns : sequence of str, default=None
        Columns to cluster, in this order; None means all but the label.
    label : str, default=None
        Column of known classes.
    least_rows : int, default=2
        Fewest rows to do anything with.

    Returns
    -------
    Data
    """
    parts = [_read(path) for path in find_files(source)]
    names = parts[0][0]
    for (others, _), path in zip(parts, find_files(source), strict=True):
        if others != names:
            raise CommandError(f"{path} has the columns {_listing(others)}, but the first file {_listing(names)}.")
    table = {name: np.concatenate([values[at] for _, values in parts]) for at, name in enumerate(names)}
    wanted = [name for name in names if name != label] if columns is None else list(columns)
    for name in [*wanted, *([] if label is None else [label])]:
        if name not in table:
            raise no_column(source, name, names)
    if not wanted:
        raise CommandError(f"{source} has no column to cluster besides the label {label!r}.")
    X = np.column_stack([_numbers(source, name, table[name]) for name in wanted])
    if len(X) < least_rows:
        raise CommandError(f"{source} has {len(X)} row{'' if len(X) == 1 else 's'}; at least {least_rows} are needed.")
    return Data(X, wanted, None if label is None else _classes(table[label]))


def find_files(source: str) -> list[Path]:
    """Return the files meant by a path, a directory or a pattern, sorted by name."""
    path = Path(source)
    if path.is_dir():
        found = sorted(item for item in path.iterdir() if item.name.lower().endswith(KINDS) and item.is_file())
        if not found:
            raise CommandError(f"{source} has no data file in it ({', '.join(KINDS)}).")
        return found
    if path.exists():
        return [path]
    found = sorted(Path(item) for item in glob(source, recursive=True))  # noqa: PTH207 - patterns may be absolute
    if not found:
        raise CommandError(f"{source} does not exist.")
    return found


def _read(path: Path) -> tuple[list[str], list[Any]]:
    """Names and values of the columns of one file."""
    name = path.name.lower()
    if not name.endswith(KINDS):
        raise CommandError(f"{path} has an unknown ending; expected one of {', '.join(KINDS)}.")
    if path.stat().st_size == 0:
        raise CommandError(f"{path} is empty.")
    try:
        if name.endswith(NUMPY):
            return _from_array(path, np.load(path, allow_pickle=False))
        return _from_arrow(path, _read_arrow(path, name))
    except ValueError as error:  # Arrow's errors are ValueErrors too
        if isinstance(error, CommandError):
            raise
        raise CommandError(f"{path} cannot be read: {error}") from error


def _read_arrow(path: Path, name: str) -> Any:
    purpose = "CSV, Parquet and Feather files"
    if name.endswith(PARQUET):
        return import_optional("pyarrow.parquet", purpose, "arrow").read_table(path)
    if name.endswith(FEATHER):
        return import_optional("pyarrow.feather", purpose, "arrow").read_table(path)
    csv = import_optional("pyarrow.csv", purpose, "arrow")
    parse = csv.ParseOptions(delimiter="\t" if ".tsv" in name else ",")
    table = csv.read_csv(path, parse_options=parse)
    if all(_is_number(column) for column in table.column_names):
        # The first line is numbers: the file has no line of names.
        unnamed = csv.ReadOptions(autogenerate_column_names=True)
        table = csv.read_csv(path, parse_options=parse, read_options=unnamed)
        return table.rename_columns([f"x{k + 1}" for k in range(table.num_columns)])
    return table


def _from_arrow(path: Path, table: Any) -> tuple[list[str], list[Any]]:
    names = list(table.column_names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CommandError(f"{path} has two columns named {twice!r}.")
    if table.num_rows == 0:
        raise CommandError(f"{path} has column names but no rows.")
    return names, [column.to_numpy() for column in table.columns]


def _from_array(path: Path, array: Any) -> tuple[list[str], list[Any]]:
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise CommandError(f"{path} must hold a two-dimensional array of numbers, got {array.dtype} of {array.shape}.")
    return [f"x{k + 1}" for k in range(array.shape[1])], list(array.T)


def _numbers(source: str, name: str, values: Any) -> FloatArray:
    if values.dtype.kind not in "fiub":
        first = next((value for value in values if isinstance(value, str)), values[0] if len(values) else "")
        raise not_numeric(source, name, f"it holds {str(first)!r}")
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        bad = np.flatnonzero(~np.isfinite(numbers))
        raise CommandError(
            f"column {name!r} of {source} has no finite number in row {bad[0] + 1} ({len(bad)} such rows in all); "
            "drop or impute them first."
        )
    return numbers


def no_column(source: str, name: str, names: Sequence[str]) -> CommandError:
    """Error of a column that is not there, with those that are."""
    return CommandError(f"{source} has no column {name!r}; its columns are {_listing(names)}.")


def not_numeric(source: str, name: str, found: str) -> CommandError:
    """Error of a column that is not numbers."""
    return CommandError(
        f"column {name!r} of {source} is not numeric ({found}); choose others with --columns, "
        "or name it with --label if it is the known class."
    )


def _classes(values: Any) -> Any:
    return np.array([str(value) for value in values])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listing(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
