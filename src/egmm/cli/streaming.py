"""``egmm fit``, ``select`` and ``predict`` on files larger than memory: block by block, with a sample for figures."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm import scan
from egmm._checks import FloatArray, IntArray, import_optional
from egmm.belief.storage import parquet_metadata
from egmm.cli.columns import column_notes, no_columns, parse
from egmm.cli.data import Data, classes_of, find_files, wanted_columns
from egmm.cli.models import Fitted, Scaling, checked_moments, choose_model, shown
from egmm.cli.notes import notes_on, notes_on_request, tell
from egmm.cli.output import claiming, label_columns, mass_columns
from egmm.cli.parsing import Decision, Request, Source
from egmm.cli.screen import CommandError
from egmm.em.statistics import Moments, moments
from egmm.rows.arrow import FORMATS, format_of, index_notes, open_table
from egmm.rows.source import bad_entry, number, tree_sum
from egmm.rows.threads import one_blas_thread
from egmm.rows.write import growing_parquet

STREAM_BYTES = 500_000_000
"""Larger files (in bytes) are streamed by default."""

SAMPLE_ROWS = 50_000
"""Maximum number of rows kept for figures and report."""


def is_streamed(source: Source, asked: bool | None) -> bool:
    """Whether files are read block by block: as requested, else if they are large."""
    if asked is not None:
        return asked
    return sum(path.stat().st_size for path in find_files(source.path)) > STREAM_BYTES


def open_rows(source: Source) -> tuple[Any, list[str]]:
    """Scan files without loading them, and return messages about skipped columns."""
    path, header = source.path, source.header
    files = find_files(path)
    if all(file.suffix.lower() == ".npy" for file in files):
        rows = scan(files)
        numbered = [f"x{k + 1}" for k in range(rows.shape[1])]
        wanted, _ = wanted_columns(source, numbered, [])
        if wanted != numbered or source.label is not None:
            came = f"got {', '.join(wanted)}; use --no-stream to select columns"
            raise CommandError(f"{path} is read block by block with all its columns, {', '.join(numbered)}; {came}.")
        return rows, []
    for file in files:
        if format_of(file) is None:
            raise CommandError(
                f"{file} cannot be read block by block; expected files ending in {', '.join(FORMATS)}, or only .npy "
                "files; convert it, or use --no-stream."
            )
    first = open_table(files[:1], header)
    wanted, index = wanted_columns(source, first.names, first.index_names)
    words = {} if source.columns is not None else _words(first, wanted)
    kept = [name for name in wanted if name not in words]
    if not kept:
        raise no_columns(source, words)
    return scan(files, kept, header=header), [*index_notes(index), *column_notes(kept, None, words)]


def _words(table: Any, names: Sequence[str]) -> dict[str, str]:
    """Columns of text or dates in the first rows; numeric columns with some text are an error later."""
    arrow = import_optional("pyarrow", "Files", "arrow").types
    found = {}
    for name, kind in zip(table.names, table.dataset.schema.types, strict=True):
        if name not in names:
            continue
        if arrow.is_temporal(kind):
            found[name] = "date"
        elif arrow.is_string(kind) or arrow.is_large_string(kind) or arrow.is_binary(kind):
            parsed = parse(next(table.values(name)).to_numpy(zero_copy_only=False))
            found |= {name: "date" if parsed.is_date else "text"} if parsed.is_date or parsed.is_text else {}
    return found


class Scanned(NamedTuple):
    """Prepared rows of files, with the results of one pass."""

    rows: Any
    scaling: Scaling | None
    total: Moments
    """Moments of the rows as in the files."""
    data: Data
    """A sample of the rows, without classes."""
    row_numbers: IntArray
    """Row numbers of the sample, counted from zero."""


def prepare_scan(source: Source, *, standardize: bool) -> Scanned:
    """Scan files, scaled if requested."""
    rows, notes = open_rows(source)
    names = rows.feature_names or [f"x{k + 1}" for k in range(rows.shape[1])]
    chosen = sample_numbers(rows.shape[0])
    raw, total = sample_and_moments(rows, chosen)
    if not np.isfinite(total.scatter).all():  # of missing cells, or of values too large
        with one_blas_thread():
            total = checked_moments(rows, names)
    scaling = Scaling.from_moments(total) if standardize else None
    seen = rows if scaling is None else rows.scaled(*scaling)
    return Scanned(seen, scaling, total, Data(raw, names, notes=notes), chosen)


def fit_stream(source: Source, request: Request, *, standardize: bool) -> tuple[Fitted, Any]:
    """Fit to all rows; the partition for figures and report is of a sample."""
    began = time.perf_counter()
    rows, scaling, total, data, chosen = prepare_scan(source, standardize=standardize)
    data = data._replace(labels=read_classes(source, chosen))
    notes = [*notes_on(data, total), *notes_on_request(request)]
    tell(notes, wanted=request.verbose)
    model, selection = choose_model(rows, rows.shape[0], request)
    X = data.X if scaling is None else scaling.apply(data.X)
    partition, outliers = model.partition(X), model.outliers(X)
    seconds = time.perf_counter() - began
    found = (model, selection, partition, outliers, scaling)
    return Fitted(request, data, shown(model, X), *found, seconds, rows.shape[0], notes, chosen), rows


def sample_numbers(n_rows: int) -> IntArray:
    """Row numbers of the sample, in order."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, SAMPLE_ROWS, replace=False))


def sample_and_moments(rows: Any, chosen: IntArray) -> tuple[FloatArray, Moments]:
    """Rows with the chosen numbers, and the moments of all, from one pass."""
    sums: list[Moments] = []

    def seen() -> Iterator[Any]:
        for X, weight in rows.blocks():
            sums.append(moments(X, weight))
            yield X

    with np.errstate(all="ignore"), one_blas_thread():
        sample = np.concatenate(list(picked(seen(), chosen)))
        return sample, tree_sum(number(sums))


def picked(blocks: Iterable[Any], chosen: IntArray) -> Iterator[Any]:
    """Yield the chosen rows or values of each block."""
    first = 0
    for block in blocks:
        at = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, first + len(block))]
        yield np.asarray(block)[at - first]
        first += len(block)


def read_classes(source: Source, chosen: IntArray) -> Any:
    """Known classes of the chosen rows; None without a label."""
    if source.label is None:
        return None
    table = open_table(find_files(source.path), source.header)
    arrow = import_optional("pyarrow", "Files", "arrow")
    try:
        return _picked_classes(table.values(source.label), chosen)
    except arrow.ArrowInvalid:
        # Columns that are numeric or empty at the beginning of a file may be text further on.
        return _picked_classes(table.values(source.label, as_text=True), chosen)


def _picked_classes(arrays: Iterable[Any], chosen: IntArray) -> Any:
    values = (array.to_numpy(zero_copy_only=False) for array in arrays)
    return np.concatenate([classes_of(part) for part in picked(values, chosen) if len(part)])


def write_stream(work: Path, model: Any, rows: Any, decision: Decision) -> None:
    """Write labels and masses of every row into a directory, as for rows in memory."""
    metadata = parquet_metadata(model.focal_sets_)
    with (
        growing_parquet(work / "labels.parquet") as labels,
        growing_parquet(work / "masses.parquet", metadata) as masses,
    ):
        for assigned, mass in _assigned(model, rows, decision):
            labels(assigned)
            masses(mass)


def write_predictions(path: Path, model: Any, rows: Any, decision: Decision, *, masses: bool, force: bool) -> None:
    """Write cluster, set, status and, if requested, masses of every row to one Parquet file."""
    with claiming(path, force=force), growing_parquet(path, exclusive=not force) as write:
        for assigned, mass in _assigned(model, rows, decision):
            write(assigned | mass if masses else assigned)


def _assigned(model: Any, rows: Any, decision: Decision) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Columns of labels and of masses, block by block."""
    first = 0
    for X, _ in rows.blocks():
        try:
            partition = model.partition(X)
        except ValueError as error:
            # Counted over all rows, not within the block.
            raise bad_entry(rows, rows.feature_names) or error from None
        assigned = label_columns(partition, model.outliers(X), decision)
        columns = {"row": np.arange(first + 1, first + len(X) + 1), **assigned}
        first += len(X)
        yield columns, mass_columns(partition)
