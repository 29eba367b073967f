"""Files that commands write: all of them or none, and never over others unasked."""

import csv
import io
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from egmm._checks import BoolArray, import_optional
from egmm._files import replacing
from egmm.belief.partition import CredalPartition
from egmm.cli.options import Decision
from egmm.cli.screen import CommandError

TABLES = (".csv", ".parquet", ".feather")
"""Endings of tables."""

WRITTEN = ".egmm-files"
"""Lists in a directory of outputs the files of the run that wrote it: only those may be removed by the next."""


def check_free(path: Path, *, force: bool) -> None:
    """Say so before any work is done if a directory of outputs is there already or cannot be made."""
    if path.exists() and not path.is_dir():
        raise CommandError(f"{path} is a file, but a directory is written; give another --out.")
    if path.exists() and not force and any(item.name != WRITTEN for item in path.iterdir()):
        raise _taken(path)
    _check_writable(path)


def check_table(path: Path, *, force: bool) -> None:
    """Say so before any work is done if a table is there already, cannot be made or has another ending."""
    if path.suffix.lower() not in TABLES:
        raise CommandError(f"--out {path} must end in {', '.join(TABLES[:-1])} or {TABLES[-1]}.")
    if path.is_dir():
        raise CommandError(f"{path} is a directory, but a file is written; give another --out.")
    if path.exists() and not force:
        raise _taken(path)
    _check_writable(path)


def _taken(path: Path) -> CommandError:
    return CommandError(f"{path} exists already; give another --out, or --force to write over it.")


def _check_writable(path: Path) -> None:
    """Try to make a file in the nearest directory there is, and in the output itself if it is one."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise CommandError(f"{path} cannot be made: {folder} is a file.")
    for place in (folder, *([path] if path.is_dir() else [])):
        probe = place / f".egmm-{uuid4().hex}"
        try:
            probe.touch()
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        probe.unlink()


@contextmanager
def writing_directory(path: Path, *, force: bool) -> Iterator[Path]:
    """Offer an empty directory whose files move to `path` at the end, or vanish on an error.

    With `force` files of the same name are replaced, each as a whole; those that an earlier run wrote and this one did
    not are removed, so that what is there belongs together. Files of others stay.
    """
    check_free(path, force=force)
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    work.mkdir()
    try:
        yield work
        written = files_below(work)
        (work / WRITTEN).write_text("\n".join([*written, ""]), encoding="utf-8")
        if not path.exists():
            work.rename(path)
        else:
            _remove(path, set(_written_before(path)).difference(written))
            for name in (*written, WRITTEN):
                (path / name).parent.mkdir(exist_ok=True)
                (work / name).replace(path / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def files_below(folder: Path) -> list[str]:
    """Files in a directory and those below it, by their names relative to it."""
    return sorted(item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file())


def _written_before(folder: Path) -> list[str]:
    listing = folder / WRITTEN
    return listing.read_text(encoding="utf-8").splitlines() if listing.is_file() else []


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files below a directory, and the directories that this leaves empty."""
    for name in names:
        place = (folder / name).resolve()
        if place.is_relative_to(folder) and place.is_file():
            place.unlink()
            if not any(place.parent.iterdir()):
                place.parent.rmdir()


def label_columns(partition: CredalPartition, outliers: BoolArray, decision: Decision) -> dict[str, Any]:
    """One value per row: cluster, set and how sure they are; clusters counted from one."""
    return {
        "row": np.arange(1, len(partition) + 1),
        "cluster": partition.labels() + 1,
        "set": chosen_labels(partition, decision),
        "open": partition.is_open(*decision),
        "probability": partition.pignistic().max(axis=1),
        "nonspecificity": partition.nonspecificity(),
        "outlier": outliers,
    }


def chosen_labels(partition: CredalPartition, decision: Decision) -> Any:
    """Name of the set chosen for each row, such as {1,2}."""
    if decision.rule == "heaviest":
        return np.array(partition.focal_sets.labels)[partition.sets()]
    members, at = np.unique(partition.sets(*decision), axis=0, return_inverse=True)
    names = ["{" + ",".join(str(k + 1) for k in np.flatnonzero(row)) + "}" for row in members]
    return np.array(names, dtype=str)[at.ravel()]


def mass_columns(partition: CredalPartition) -> dict[str, Any]:
    """Masses, one column per set."""
    return dict(zip(partition.focal_sets.labels, partition.mass.T, strict=True))


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns as CSV, Parquet or Feather, by the suffix; an existing file is replaced as a whole."""
    kind = path.suffix.lower()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        if kind == ".csv":
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            write_csv(text, columns)
            text.flush()
            text.detach()
            return
        arrow = import_optional("pyarrow", "Parquet and Feather files", "arrow")
        table = arrow.table({name: arrow.array(np.ascontiguousarray(values)) for name, values in columns.items()})
        if kind == ".parquet":
            import_optional("pyarrow.parquet", "Parquet files", "arrow").write_table(table, stream)
        else:
            import_optional("pyarrow.feather", "Feather files", "arrow").write_feather(table, stream)


def write_csv(stream: Any, columns: Mapping[str, Any]) -> None:
    """Write columns as CSV, numbers with the fewest digits that read back the same."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
