"""Masses in files: npz or Parquet (CSV for reading only), never pickle, replaced atomically."""

import csv
import json
import os
import re
from pathlib import Path
from typing import IO

import numpy as np

from egmm._checks import FloatArray, import_optional
from egmm._files import read_npz, replacing
from egmm.belief.focal import FocalSets
from egmm.belief.masses import Masses, check_source

_KEY = b"egmm.credal_partition"

EMPTY = "∅"
SET_NAME = re.compile(r"^\{\d+(,\d+)*\}$")
"""Names of sets; clusters count from one."""


def write_masses(path: str | os.PathLike[str], mass: FloatArray, focal: FocalSets) -> None:
    """Write masses and their sets to ``.npz`` or ``.parquet``, by the suffix of `path`."""
    path = Path(path)
    write = _write_parquet if _is_parquet(path) else _write_npz
    with replacing(path) as stream:
        write(stream, mass, focal)


def read_masses(path: str | os.PathLike[str]) -> Masses:
    """Read what :func:`write_masses` wrote, or a table of masses as the command line writes it."""
    path = Path(path)
    read = _read_csv if path.suffix.lower() == ".csv" else _read_parquet if _is_parquet(path) else _read_npz
    try:
        return check_source(read(path))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ValueError(f"{path} is not a credal partition: {why}.") from error


def parquet_metadata(focal: FocalSets) -> dict[bytes, bytes]:
    """Parquet metadata that describes the columns, one per set."""
    return {_KEY: json.dumps({"masks": focal.masks.tolist(), "n_clusters": focal.n_clusters}).encode()}


def _is_parquet(path: Path) -> bool:
    if path.suffix.lower() not in (".npz", ".parquet"):
        raise ValueError(f"path must end in .npz or .parquet, got {path.name!r}.")
    return path.suffix.lower() == ".parquet"


def _write_npz(stream: IO[bytes], mass: FloatArray, focal: FocalSets) -> None:
    np.savez(stream, mass=mass, masks=focal.masks, n_clusters=np.int64(focal.n_clusters))


def _read_npz(path: Path) -> Masses:
    arrays = read_npz(path)
    return arrays["mass"], FocalSets(arrays["masks"], arrays["n_clusters"].tolist())


def _read_csv(path: Path) -> Masses:
    """Masses of a table whose columns are named by sets, such as ``{1,2}``; other columns are left out."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        try:
            names, *lines = [line for line in csv.reader(stream) if line]
        except (ValueError, csv.Error) as error:
            raise ValueError("it is empty or not a CSV file") from error
    columns = [at for at, name in enumerate(names) if name == EMPTY or SET_NAME.match(name)]
    if not columns:
        raise ValueError("it has no column named by a set, such as {1} or {1,2}")
    sets = [frozenset(int(part) - 1 for part in re.findall(r"\d+", names[at])) for at in columns]
    if len(set(sets)) < len(sets):
        raise ValueError("two of its columns are named by the same set")
    for number, line in enumerate(lines, 1):
        if len(line) != len(names):
            raise ValueError(f"its row {number} has {len(line)} cells, expected {len(names)}")
    mass = np.array([[float(line[at]) for at in columns] for line in lines]).reshape(len(lines), len(columns))
    focal = FocalSets.from_sets(sets, max((max(members) for members in sets if members), default=0) + 1)
    return mass[:, [sets.index(members) for members in focal]], focal


def _write_parquet(stream: IO[bytes], mass: FloatArray, focal: FocalSets) -> None:
    arrow = import_optional("pyarrow", "Parquet files", "arrow")
    parquet = import_optional("pyarrow.parquet", "Parquet files", "arrow")
    columns = [arrow.array(np.ascontiguousarray(column)) for column in mass.T]
    table = arrow.Table.from_arrays(columns, names=list(focal.labels))
    parquet.write_table(table.replace_schema_metadata(parquet_metadata(focal)), stream)


def _read_parquet(path: Path) -> Masses:
    parquet = import_optional("pyarrow.parquet", "Parquet files", "arrow")
    with path.open("rb") as stream:
        try:
            table = parquet.ParquetFile(stream).read()
        except OSError as error:
            # Arrow reports damaged files as OSError without errno.
            if error.errno is not None:
                raise
            raise ValueError(f"it is damaged ({error})") from error
    metadata = table.schema.metadata or {}
    if _KEY not in metadata:
        raise ValueError(f"its schema lacks {_KEY.decode()!r}.")
    try:
        header = json.loads(metadata[_KEY])
    except RecursionError:
        raise ValueError("its metadata are nested too deeply") from None
    focal = FocalSets(header["masks"], header["n_clusters"])
    for label in focal.labels:
        if table.column_names.count(label) != 1:
            found = "lack" if label not in table.column_names else "repeat"
            raise ValueError(f"its columns {found} {label!r}")
    # By name: selecting columns of a table may reorder them but keeps the schema's metadata.
    return np.column_stack([table[label].to_numpy() for label in focal.labels]), focal
