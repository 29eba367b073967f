"""``egmm fit`` and ``egmm predict`` on files larger than memory: block by block, with a sample to look at."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egmm import scan
from egmm._checks import IntArray, import_optional
from egmm._files import replacing
from egmm.cli.data import Data, find_files
from egmm.cli.models import Fitted, Scaling, choose_model
from egmm.cli.options import Request
from egmm.cli.output import label_columns, mass_columns
from egmm.cli.screen import CommandError
from egmm.em.statistics import moments
from egmm.rows.arrow import FORMATS

STREAM_BYTES = 500_000_000
"""Files of more bytes are streamed unless asked otherwise."""

SAMPLE_ROWS = 50_000
"""Rows kept for figures and report."""


def is_large(source: str) -> bool:
    """Whether files are too large to be read as a whole without asking."""
    return sum(path.stat().st_size for path in find_files(source)) > STREAM_BYTES


def open_rows(source: str, columns: Sequence[str] | None, label: str | None = None) -> Any:
    """Scan files; columns are checked, nothing is loaded."""
    files = find_files(source)
    if all(path.suffix == ".npy" for path in files):
        if label is not None:
            raise CommandError(f"{source} has no column names, so no column {label!r}.")
        return scan(files)
    if columns is None and label is not None:
        columns = [name for name in open_dataset(files[:1]).schema.names if name != label]
    return scan(files, columns)


def fit_stream(
    source: str, request: Request, columns: Sequence[str] | None, label: str | None, *, standardize: bool
) -> tuple[Fitted, Any]:
    """Fit to all rows; what is returned for figures and report is of a sample of them."""
    began = time.perf_counter()
    rows = open_rows(source, columns, label)
    names = rows.feature_names or [f"x{k + 1}" for k in range(rows.shape[1])]
    chosen = sample_numbers(rows.shape[0])
    raw = np.concatenate(list(picked((X for X, _ in rows.blocks()), chosen)))
    classes = None if label is None else read_classes(source, label, chosen)
    scaling = None
    if standardize:
        total = rows.reduce(moments)
        scaling = Scaling.from_moments(total.centre, np.diag(total.scatter) / total.weight)
        rows = rows.scaled(*scaling)
    model, selection = choose_model(rows, rows.shape[0], request)
    X = raw if scaling is None else scaling.apply(raw)
    partition, outliers = model.partition(X), model.outliers(X)
    data, seconds = Data(raw, names, classes), time.perf_counter() - began
    return Fitted(request, data, X, model, selection, partition, outliers, scaling, seconds, rows.shape[0]), rows


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


def read_classes(source: str, label: str, chosen: IntArray) -> Any:
    """Known classes of the chosen rows."""
    dataset = open_dataset(find_files(source))
    if label not in dataset.schema.names:
        raise CommandError(f"{source} has no column {label!r}; its columns are {', '.join(dataset.schema.names)}.")
    batches = dataset.scanner(columns=[label]).to_batches()
    values = (batch.column(0).to_numpy(zero_copy_only=False) for batch in batches)
    return np.concatenate([[str(value) for value in part] for part in picked(values, chosen) if len(part)])


def open_dataset(files: Sequence[Path]) -> Any:
    """Open files as Arrow does, all columns and types."""
    dataset = import_optional("pyarrow.dataset", "Files", "arrow")
    return dataset.dataset([str(file) for file in files], format=FORMATS.get(files[0].suffix.lower()))


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
