"""Data files that ship inside other Python packages, read without importing the package."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egmm._checks import FloatArray


class Packaged(NamedTuple):
    """Where an installed package keeps a data set."""

    distribution: str
    """Name to install."""
    module: str
    """Name of its folder."""
    files: Sequence[str]
    """Files in that folder, concatenated."""
    columns: Sequence[int] | None = None
    """Fields used as features; None means all but the last, which is the class."""


def read_packaged(place: Packaged) -> tuple[FloatArray, NDArray[np.str_]] | None:
    """Rows and labels of a data set, or None if the package is not installed.

    Fields are separated by commas or blanks, the class is the last one, and lines that begin with @ are a header.
    """
    folder = _folder(place.module)
    if folder is None or not all((folder / name).is_file() for name in place.files):
        return None
    lines = [line for name in place.files for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    fields = [re.split(r"[,\s]+", line.strip()) for line in lines if line.strip() and not line.startswith("@")]
    columns = range(len(fields[0]) - 1) if place.columns is None else place.columns
    X = np.array([[float(line[at]) for at in columns] for line in fields])
    return X, np.array([line[-1] for line in fields])


def _folder(module: str) -> Path | None:
    """Folder of an installed package, found without importing it, since its dependencies may be missing."""
    spec = find_spec(module)
    locations = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(locations[0]) if locations else None
