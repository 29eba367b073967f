"""Output files of commands: written all or none, and never overwritten without --force."""

import csv
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import EEXIST, ENOTDIR, ENOTEMPTY
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from egmm._checks import BoolArray, import_optional
from egmm._files import claim, leftovers, naming, replacing, working_place
from egmm.belief.decisions import chosen_columns
from egmm.belief.partition import CredalPartition
from egmm.belief.tables import set_names
from egmm.cli import check_interrupts
from egmm.cli.data import Data
from egmm.cli.parsing import Decision
from egmm.cli.screen import CommandError

TABLES = (".csv", ".parquet", ".feather")
"""Suffixes of tables."""

OURS = ("row", "cluster", "set", "open", "probability", "nonspecificity", "outlier")
"""Columns of a table of labels."""

WRITTEN = ".egmm-files"
"""File in an output directory that lists the files of the run; the next run may remove only those."""

NEW, OLD = "new", "old"
"""Names in the working directory: the new output directory, and the replaced one."""

PROBE = bytes(2**16)
"""Test file for free disk space."""


def check_free(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise early if an output directory exists, cannot be created or holds an input."""
    place = _real(path)
    _restore(place)
    is_there = place.exists()
    if is_there and not place.is_dir():
        raise CommandError(f"{path} is a file, but the output is a directory; use another --out.")
    if not place.name:
        raise CommandError(f"{path} is the root directory; use a directory below it as --out.")
    if is_there and not force and any(item.name != WRITTEN for item in place.iterdir()):
        raise _taken(path)
    if is_there:
        _check_inputs(path, _written_before(place), inputs)
    _check_writable(path)


def check_table(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise early if a table exists, cannot be created, has another suffix or is an input."""
    if path.suffix.lower() not in TABLES:
        raise CommandError(f"--out {path} must end in {', '.join(TABLES[:-1])} or {TABLES[-1]}.")
    place = _real(path)
    if place.is_dir():
        raise CommandError(f"{path} is a directory, but the output is a file; use another --out.")
    if (place.exists() or path.is_symlink()) and not force:
        raise _taken(path)
    _check_inputs(path.parent, [path.name], inputs)
    _check_writable(path)


def _taken(path: Path) -> CommandError:
    return CommandError(f"{path} already exists; use another --out, or --force to overwrite it.")


def _real(path: Path) -> Path:
    """Path without links and `..`; raise on an invalid name.

    ``new/../old`` does not exist yet, and is ``old`` as soon as ``new`` has been created.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # too long, or circular links
        raise _unwritable(path, error) from error
    return Path(os.path.realpath(path))


def _check_inputs(folder: Path, names: Iterable[str], inputs: Iterable[Path]) -> None:
    """Raise if an input file would be overwritten or removed."""
    read = {(found.st_dev, found.st_ino): source for source in inputs if (found := _status(source))}
    for name in names if read else ():
        found = _status(folder / name)
        if found and (found.st_dev, found.st_ino) in read:
            raise CommandError(f"{folder / name} is an input of this command and would be replaced; use another --out.")


def _status(path: Path) -> os.stat_result | None:
    try:
        return Path(os.path.realpath(path)).stat()
    except OSError:
        return None


def _unwritable(path: Path, error: OSError) -> CommandError:
    return CommandError(f"{path} cannot be written: {error.strerror}.")


def _check_writable(path: Path) -> None:
    """Try to write a file in the nearest existing directory, and in the output directory itself."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise CommandError(f"{path} cannot be created: {folder} is a file.")
    for name in path.absolute().relative_to(folder).parts:
        _real(folder / name)  # Its length can be checked only in an existing directory.
    for place in (folder, *([path] if path.is_dir() else [])):
        probe = place / f".egmm-{uuid4().hex}"
        try:
            probe.write_bytes(PROBE)
        except OSError as error:
            raise _unwritable(path, error) from error
        finally:
            probe.unlink(missing_ok=True)


@contextmanager
def writing_directory(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield an empty directory that becomes `path` at the end, or is removed on an error.

    Without `force`, only one of two runs with the same `path` succeeds. With `force`, the directory of an earlier run
    is replaced: its output files are removed, other files are kept. A directory that cannot be moved, such as the
    current one, gets the files one by one.
    """
    inputs = list(inputs)
    check_free(path, force=force, inputs=inputs)
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), working_place(path) as place:
        work = place / NEW
        work.mkdir()
        yield work
        check_interrupts()
        written = files_below(work)
        if path.exists():
            _check_inputs(path, written, inputs)
        (work / WRITTEN).write_text("\n".join([*written, ""]), encoding="utf-8")
        if not force:
            _take(work, path, [*written, WRITTEN])
        elif not path.exists():
            work.rename(path)
        else:
            _exchange(work, path, written)


def _take(work: Path, path: Path, written: Iterable[str]) -> None:
    """Move the new directory to an unused name; raise if it is taken."""
    try:
        if _is_fixed(path):
            for name in written:
                (path / name).parent.mkdir(exist_ok=True)
                claim(work / name, path / name)
            return
        if path.exists():  # Empty, except perhaps for a list of files removed since.
            (path / WRITTEN).unlink(missing_ok=True)
            path.rmdir()
        work.rename(path)
    except OSError as error:
        if error.errno in (EEXIST, ENOTEMPTY, ENOTDIR):
            raise _taken(path) from error
        raise


def _exchange(work: Path, path: Path, written: Sequence[str]) -> None:
    """Replace an old directory by the new one, keeping other files."""
    before = _written_before(path)
    if not _is_fixed(path):
        _keep_others(path, work, {*before, *written, WRITTEN})
        try:
            path.rename(work.parent / OLD)
        except OSError:  # for example a mounted directory
            pass
        else:
            work.rename(path)
            return
    _remove(path, set(before).difference(written))
    for name in (*written, WRITTEN):
        (path / name).parent.mkdir(exist_ok=True)
        (work / name).replace(path / name)


def _restore(path: Path) -> None:
    """Finish the exchange of a run that was killed when neither directory was in place."""
    for left in () if path.exists() else leftovers(path):
        if (left / OLD).is_dir() and (left / NEW).is_dir():
            (left / NEW).rename(path)
            return


def _keep_others(path: Path, work: Path, ours: set[str]) -> None:
    """Link the other files of a directory into the new one, creating subdirectories."""
    for folder, folders, files in os.walk(path):
        here = Path(folder).relative_to(path)
        links = [name for name in folders if (path / here / name).is_symlink()]
        others = [name for name in (*files, *links) if (here / name).as_posix() not in ours]
        if others or not (files or folders) or here == Path():
            (work / here).mkdir(parents=True, exist_ok=True)
            shutil.copystat(path / here, work / here)
        for name in others:
            _second(path / here / name, work / here / name)


def _is_fixed(path: Path) -> bool:
    """Whether a directory must stay in place, such as the current one."""
    return path.is_dir() and Path.cwd().is_relative_to(path)


def _second(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if links are not supported."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def files_below(folder: Path) -> list[str]:
    """Files in a directory tree, relative to it."""
    return sorted(item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file())


def _written_before(folder: Path) -> list[str]:
    listing = folder / WRITTEN
    if not listing.is_file():
        return []
    names = listing.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [name for name in names if not (Path(name).is_absolute() or ".." in Path(name).parts)]


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files in a directory tree, and directories that become empty."""
    for name in names:
        place = (folder / name).resolve()
        if place.is_relative_to(folder) and place.is_file():
            place.unlink()
            if not any(place.parent.iterdir()):
                place.parent.rmdir()


def row_columns(data: Data, n_rows: int) -> dict[str, Any]:
    """Row number in the files, counted from one, and row name, if any."""
    numbers = np.arange(n_rows) if data.numbers is None else data.numbers
    # A column with the name of an output column would be lost.
    name = f"{data.id}_" if data.id in OURS else data.id or "name"
    return {"row": numbers + 1, **({} if data.row_names is None else {name: data.row_names})}


def label_columns(partition: CredalPartition, outliers: BoolArray, decision: Decision) -> dict[str, Any]:
    """One value per row: cluster, set, status and doubt; clusters counted from one."""
    return {
        "cluster": partition.labels() + 1,
        "set": chosen_labels(partition, decision),
        "open": partition.is_open(*decision),
        "probability": partition.pignistic().max(axis=1),
        "nonspecificity": partition.nonspecificity(),
        "outlier": outliers,
    }


def chosen_labels(partition: CredalPartition, decision: Decision) -> Any:
    """Name of the set chosen for each row, such as {1,2}."""
    return set_names(partition.mass, partition.focal_sets, *decision).astype(str)


def counted_sets(partition: CredalPartition, decision: Decision) -> list[dict[str, Any]]:
    """Name, number of rows and mean mass of every set: the focal sets and the others that the rule chooses."""
    columns, family = chosen_columns(partition.mass, partition.focal_sets, *decision)
    rows, mean = np.bincount(columns, minlength=len(family)), partition.over(family).mass.mean(axis=0)
    return [
        {"set": name, "rows": int(count), "mean_mass": float(mass)}
        for name, count, mass in zip(family.labels, rows, mean, strict=True)
    ]


def mass_columns(partition: CredalPartition) -> dict[str, Any]:
    """Masses, one column per set."""
    return dict(zip(partition.focal_sets.labels, partition.mass.T, strict=True))


@contextmanager
def claiming(path: Path, *, force: bool) -> Iterator[None]:
    """Raise if another run has written the table in the meantime."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_interrupts()
        yield
    except FileExistsError as error:
        if force:
            raise
        raise _taken(path) from error


def write_columns(path: Path, columns: Mapping[str, Any], *, force: bool = True) -> None:
    """Write columns as CSV, Parquet or Feather, by suffix, atomically; with `force`, replace an existing file."""
    kind = path.suffix.lower()
    with claiming(path, force=force), replacing(path, exclusive=not force) as stream:
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
    """Write columns as CSV, with the shortest numbers that round-trip."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
