"""``egmm fit`` and ``egmm predict`` on files larger than memory: block by block, with a sample to look at."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egmm import scan
from egmm._checks import FloatArray, import_optional
from egmm._files import replacing
from egmm.cli.data import Data, find_files
from egmm.cli.models import Fitted, Scaling, choose_model
from egmm.cli.options import Request
from egmm.cli.output import label_columns, mass_columns
from egmm.cli.screen import CommandError

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
    is_array = all(path.suffix == ".npy" for path in files)
    if is_array:
        return scan(files)
    if columns is None and label is not None:
        dataset = import_optional("pyarrow.dataset", "Files", "arrow")
        kind = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}.get(files[0].suffix.lower(), "feather")
        columns = [name for name in dataset.dataset(str(files[0]), format=kind).schema.names if name != label]
    return scan(files, columns)


def fit_stream(source: str, request: Request, columns: Sequence[str] | None, label: str | None) -> tuple[Fitted, Any]:
    """Fit to all rows; what is returned for figures and report is of a sample of them."""
    began = time.perf_counter()
    rows = open_rows(source, columns, label)
    names = rows.feature_names or [f"x{k + 1}" for k in range(rows.shape[1])]
    model, selection = choose_model(rows, rows.shape[0], request)
    X = sample_rows(rows)
    partition, outliers = model.partition(X), model.outliers(X)
    seconds = time.perf_counter() - began
    return Fitted(request, Data(X, names), X, model, selection, partition, outliers, None, seconds, rows.shape[0]), rows


def sample_rows(rows: Any) -> FloatArray:
    """Draw rows evenly from all blocks, in their order."""
    n_rows = rows.shape[0]
    chosen = np.arange(n_rows)
    if n_rows > SAMPLE_ROWS:
        chosen = np.sort(np.random.default_rng(0).choice(n_rows, SAMPLE_ROWS, replace=False))
    parts, first = [], 0
    for X, _ in rows.blocks():
        at = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, first + len(X))]
        parts.append(np.asarray(X[at - first], dtype=np.float64))
        first += len(X)
    return np.concatenate(parts)


def write_stream(path: Path, model: Any, rows: Any, scaling: Scaling | None, *, masses: bool) -> None:
    """Write cluster, set, sureness and masses of every row to a Parquet file, block by block."""
    if path.suffix.lower() != ".parquet":
        raise CommandError(f"rows that are streamed are written as Parquet: let {path} end in .parquet.")
    arrow = import_optional("pyarrow", "Parquet files", "arrow")
    parquet = import_optional("pyarrow.parquet", "Parquet files", "arrow")
    writer = None
    with replacing(path) as stream:
        for columns in _assigned(model, rows, scaling, masses=masses):
            table = arrow.table({name: arrow.array(np.ascontiguousarray(part)) for name, part in columns.items()})
            writer = writer or parquet.ParquetWriter(stream, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def _assigned(model: Any, rows: Any, scaling: Scaling | None, *, masses: bool) -> Iterator[dict[str, Any]]:
    first = 0
    for block, _ in rows.blocks():
        X = block if scaling is None else scaling.apply(np.asarray(block, dtype=np.float64))
        partition = model.partition(X)
        columns = label_columns(partition, model.outliers(X))
        columns["row"] = columns["row"] + first
        first += len(X)
        yield columns | (mass_columns(partition) if masses else {})
