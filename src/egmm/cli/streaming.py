"""``egmm fit`` and ``egmm predict`` on files larger than memory: block by block, with a sample to look at."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egmm import scan
from egmm._checks import IntArray, import_optional
from egmm._files import replacing
from egmm.cli.data import Data, classes_of, find_files
from egmm.cli.models import Fitted, Scaling, choose_model
from egmm.cli.notes import notes_on, notes_on_request, tell
from egmm.cli.options import Request
from egmm.cli.output import label_columns, mass_columns
from egmm.cli.screen import CommandError
from egmm.em.statistics import moments
from egmm.rows.arrow import FORMATS, open_table

STREAM_BYTES = 500_000_000
"""Files of more bytes are streamed unless asked otherwise."""

SAMPLE_ROWS = 50_000
"""Rows kept for figures and report."""


def is_large(source: str) -> bool:
    """Whether files are too large to be read as a whole without asking."""
    return sum(path.stat().st_size for path in find_files(source)) > STREAM_BYTES


def open_rows(
    source: str, columns: Sequence[str] | None, label: str | None = None, *, header: bool | None = None
) -> Any:
    """Scan files; columns are checked, nothing is loaded."""
    files = find_files(source)
    if all(path.suffix == ".npy" for path in files):
        if label is not None:
            raise CommandError(f"{source} has no column names, so no column {label!r}.")
        rows = scan(files)
        numbered = [f"x{k + 1}" for k in range(rows.shape[1])]
        if columns is not None and list(columns) != numbered:
            came = f"got {', '.join(columns)}; use --no-stream to choose among them"
            raise CommandError(f"{source} is read piece by piece with all its columns, {', '.join(numbered)}: {came}.")
        return rows
    for path in files:
        if path.suffix.lower() not in FORMATS:
            kinds = ", ".join([*FORMATS, ".npy"])
            raise CommandError(f"{path} cannot be read piece by piece, as {kinds} can: convert it, or use --no-stream.")
    if label is not None:
        names = open_table(files[:1], header).names
        if label not in names:
            raise CommandError(f"{source} has no column {label!r}; its columns are {', '.join(names)}.")
        columns = [name for name in names if name != label] if columns is None else columns
    return scan(files, columns, header=header)


def fit_stream(
    source: str,
    request: Request,
    columns: Sequence[str] | None,
    label: str | None,
    *,
    header: bool | None,
    standardize: bool,
) -> tuple[Fitted, Any]:
    """Fit to all rows; what is returned for figures and report is of a sample of them."""
    began = time.perf_counter()
    rows = open_rows(source, columns, label, header=header)
    names = rows.feature_names or [f"x{k + 1}" for k in range(rows.shape[1])]
    chosen = sample_numbers(rows.shape[0])
    raw = np.concatenate(list(picked((X for X, _ in rows.blocks()), chosen)))
    classes = None if label is None else read_classes(source, label, chosen, header)
    total = rows.reduce(moments)
    notes = [*notes_on(total, names, classes), *notes_on_request(request)]
    tell(notes, wanted=request.verbose)
    scaling = None
    if standardize:
        scaling = Scaling.from_moments(total.centre, np.diag(total.scatter) / total.weight)
        rows = rows.scaled(*scaling)
    model, selection = choose_model(rows, rows.shape[0], request)
    X = raw if scaling is None else scaling.apply(raw)
    partition, outliers = model.partition(X), model.outliers(X)
    data, seconds = Data(raw, names, classes, header), time.perf_counter() - began
    return Fitted(
        request, data, X, model, selection, partition, outliers, scaling, seconds, rows.shape[0], notes=notes
    ), rows


def sample_numbers(n_rows: int) -> IntArray:
    """Numbers of the rows to look at, in order."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, SAMPLE_ROWS, replace=False))


def picked(blocks: Iterable[Any], chosen: IntArray) -> Iterator[Any]:
    """Yield of each block of rows or values those with the chosen numbers."""
    first = 0
    for block in blocks:
        at = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, first + len(block))]
        yield np.asarray(block)[at - first]
        first += len(block)


def read_classes(source: str, label: str, chosen: IntArray, header: bool | None) -> Any:
    """Known classes of the chosen rows."""
    table = open_table(find_files(source), header)
    batches = table.dataset.scanner(columns=[table.stored(label)]).to_batches()
    values = (batch.column(0).to_numpy(zero_copy_only=False) for batch in batches)
    return np.concatenate([classes_of(part) for part in picked(values, chosen) if len(part)])


def write_stream(path: Path, model: Any, rows: Any, *, masses: bool) -> None:
    """Write cluster, set, sureness and masses of every row to a Parquet file, block by block."""
    if path.suffix.lower() != ".parquet":
        raise CommandError(f"rows that are streamed are written as Parquet: let {path} end in .parquet.")
    arrow = import_optional("pyarrow", "Parquet files", "arrow")
    parquet = import_optional("pyarrow.parquet", "Parquet files", "arrow")
    writer = None
    with replacing(path) as stream:
        for columns in _assigned(model, rows, masses=masses):
            table = arrow.table({name: arrow.array(np.ascontiguousarray(part)) for name, part in columns.items()})
            writer = writer or parquet.ParquetWriter(stream, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def _assigned(model: Any, rows: Any, *, masses: bool) -> Iterator[dict[str, Any]]:
    first = 0
    for X, _ in rows.blocks():
        partition = model.partition(X)
        columns = label_columns(partition, model.outliers(X))
        columns["row"] = columns["row"] + first
        first += len(X)
        yield columns | (mass_columns(partition) if masses else {})
