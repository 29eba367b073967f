"""Sources of rows: arrays, files, Dask collections."""

from collections.abc import Iterable, Sequence
from glob import glob
from os import PathLike
from pathlib import Path
from typing import Any

from egmm.rows.arrow import ArrowRows, format_of
from egmm.rows.files import FileRows, NpyRows, is_hidden
from egmm.rows.source import ReadError, RowSource

__all__ = ["FileRows", "ReadError", "RowSource", "is_remote", "remote_rows", "scan"]


def scan(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    columns: Sequence[str] | None = None,
    *,
    weight: str | None = None,
    header: bool | None = None,
) -> FileRows:
    """Scan files as rows for `EGMM.fit`, `predict` and `select_model`, without loading them whole.

    Parameters
    ----------
    paths : path, glob pattern, directory, or list of paths
        CSV, TSV, Parquet, Feather or npy files of one format; text files may be compressed by gzip (.csv.gz) and
        delimited by commas, semicolons, tabs or single spaces. Directories are searched recursively, without names that
        begin with a dot or an underscore. Files are read in the order of their names.
    columns : sequence of str, default=None
        Columns to use as features: numbers, or booleans, read as 1 and 0. None means all but `weight` and index
        columns: the index of a pandas or Dask data frame, and columns without a name (or 'Unnamed: 0'), which are
        skipped with a warning. Names and types are checked immediately.
    weight : str, default=None
        Column of row weights.
    header : bool, default=None
        Whether text files begin with a line of column names; if not, columns are named x1, x2, .... None detects it: a
        numeric first line is data, and an unclear one is an error. Spaces around names are ignored.

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
    kinds = {format_of(file) for file in files}
    if len(kinds) != 1 or None in kinds:
        listed = ", ".join(sorted(suffixes))
        raise ValueError(
            f"paths must be files of one format (.csv, .csv.gz, .parquet, .feather or .npy), got {listed}."
        )
    return ArrowRows(files, columns, weight, header)


def is_remote(X: Any) -> bool:
    """Whether X is a scan or a Dask collection, which must not be loaded whole.

    Parameters
    ----------
    X : any
        Rows, as passed by the user.

    Returns
    -------
    is_remote : bool

    Examples
    --------
    >>> is_remote([[1.0, 2.0]])
    False
    """
    return isinstance(X, FileRows) or type(X).__module__.partition(".")[0] in {"dask", "dask_expr"}


def remote_rows(X: Any, sample_weight: Any, n_jobs: int | None) -> Any:
    """Row source of a scan or a Dask collection; None for anything else.

    Parameters
    ----------
    X : any
        Rows, as passed by the user.
    sample_weight : any
        Weights of the rows, or None.
    n_jobs : int or None
        Threads for reading files.

    Returns
    -------
    rows : FileRows, DaskRows or None

    Examples
    --------
    >>> remote_rows([[1.0, 2.0]], None, None) is None
    True
    """
    if not is_remote(X):
        return None
    if isinstance(X, FileRows):
        return X.using(sample_weight, n_jobs)
    from egmm.rows.dask import DaskRows  # noqa: PLC0415  Dask is loaded only for its own collections.

    return DaskRows(X, sample_weight)


def _find(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    """Files named, matched by patterns, or found in directories, in the order of their names."""
    named = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    files: list[Path] = []
    for name in named:
        if not isinstance(name, str | PathLike):
            raise TypeError(f"paths must be a path, a pattern or a list of them, got {name!r}.")
        path = Path(name)
        if path.is_file():
            found = [path]
        elif path.is_dir():
            found = _below(path)
        else:
            matches = sorted(Path(match) for match in glob(str(name), recursive=True))  # noqa: PTH207  patterns may be absolute
            found = [file for match in matches for file in ([match] if match.is_file() else _below(match))]
        if not found:
            raise FileNotFoundError(f"paths: no CSV, Parquet, Feather or npy file found at {name}.")
        files.extend(found)
    if not files:
        raise ValueError("paths must name at least one file, got an empty list.")
    return files


def _below(directory: Path) -> list[Path]:
    """Data files of a directory; hidden names are metadata or unfinished files."""
    return sorted(
        file
        for file in directory.rglob("*")
        if (format_of(file) is not None or file.suffix.lower() == ".npy")
        and file.is_file()
        and not any(map(is_hidden, file.relative_to(directory).parts))
    )
