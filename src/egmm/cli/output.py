"""Files that commands write: all of them or none, and never over others unasked."""

import csv
import io
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from egmm._checks import import_optional
from egmm._files import replacing
from egmm.belief.partition import CredalPartition
from egmm.cli.screen import CommandError


def check_free(path: Path, *, force: bool) -> None:
    """Say so before any work is done if the output is there already or cannot be made."""
    if path.exists() and not force and (path.is_file() or any(path.iterdir())):
        raise CommandError(f"{path} exists already; give another --out, or --force to write over it.")
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise CommandError(f"{path} cannot be made: {folder} is a file.")
    probe = folder / f".egmm-{uuid4().hex}"
    try:
        probe.touch()
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    probe.unlink()


@contextmanager
def writing_directory(path: Path, *, force: bool) -> Iterator[Path]:
    """Offer an empty directory whose files move to `path` at the end, or vanish on an error.

    With `force` files of the same name are replaced, each as a whole; others in the directory stay.
    """
    check_free(path, force=force)
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    work.mkdir()
    try:
        yield work
        if not path.exists():
            work.rename(path)
        else:
            for item in sorted(work.rglob("*")):
                target = path / item.relative_to(work)
                if item.is_dir():
                    target.mkdir(exist_ok=True)
                else:
                    item.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def label_columns(partition: CredalPartition, outliers: Any = None) -> dict[str, Any]:
    """One value per row: cluster, set and how sure they are; clusters counted from one."""
    columns = {
        "row": np.arange(1, len(partition) + 1),
        "cluster": partition.labels() + 1,
        "set": np.array(partition.focal_sets.labels)[partition.sets()],
        "probability": partition.pignistic().max(axis=1),
        "nonspecificity": partition.nonspecificity(),
    }
    return columns if outliers is None else {**columns, "outlier": np.asarray(outliers)}


def mass_columns(partition: CredalPartition) -> dict[str, Any]:
    """Masses, one column per set."""
    return dict(zip(partition.focal_sets.labels, partition.mass.T, strict=True))


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns as CSV, Parquet or Feather, by the suffix; an existing file is replaced as a whole."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet", ".feather"):
        raise CommandError(f"{path} must end in .csv, .parquet or .feather.")
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
