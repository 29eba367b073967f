"""Storage of finished cells, so that a killed run can resume."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from egmm import __version__
from egmm._files import replacing
from egmm._parallel import in_order
from egmm.reproduce.experiments import Cell, Numbers, compute
from egmm.reproduce.plan import Plan

ALONE = "cpu"
"""The experiment that runs alone, because it measures times."""

MATTERS: dict[str, tuple[str, ...]] = {
    "ebic": (),
    "unknown": ("counts", "n_bootstrap"),
    "known": ("n_bootstrap",),
    "brain": ("brain_shape",),
    "cpu": ("n_bootstrap", "runs", "seconds_to_repeat"),
}
"""Settings of a plan that affect the cells of an experiment; other cells are shared between plans."""


def key_of(cell: Cell, plan: Plan) -> str:
    """Key of a cell: its place, what it depends on, and the package version."""
    settings = plan.settings()
    matters: dict[str, Any] = {name: settings[name] for name in MATTERS[cell.experiment]}
    text = json.dumps([*cell, matters, __version__], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """Finished cells, one JSON line each, written as soon as they are computed.

    Parameters
    ----------
    path : path
        The file; an incomplete last line is ignored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Numbers] = {}
        self._keep(self._read)

    def _read(self, line: str) -> bool:
        try:
            record = json.loads(line)
            self._found[record["key"]] = record["numbers"]
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _keep(self, wanted: Callable[[str], bool]) -> None:
        """Drop unwanted lines."""
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        kept = [line for line in lines if wanted(line)]
        if len(kept) < len(lines):
            with replacing(self._path) as stream:
                stream.write("".join(f"{line}\n" for line in kept).encode())

    def forget(self, keys: set[str]) -> None:
        """Drop some cells, so that they are computed again."""
        self._keep(lambda line: json.loads(line)["key"] not in keys)
        self._found = {key: numbers for key, numbers in self._found.items() if key not in keys}

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __getitem__(self, key: str) -> Numbers:
        return self._found[key]

    def add(self, key: str, cell: Cell, numbers: Numbers) -> None:
        """Store a cell."""
        line = json.dumps({"key": key, **cell._asdict(), "numbers": numbers})
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._found[key] = numbers


class Results:
    """Numbers of all finished cells of a plan."""

    def __init__(self, numbers: Iterable[tuple[Cell, Numbers]]) -> None:
        self._numbers = dict(numbers)

    def items(self) -> Iterator[tuple[Cell, Numbers]]:
        """Cells with their numbers."""
        yield from self._numbers.items()

    def values(self, experiment: str, dataset: str, algorithm: str, measure: str) -> list[Any]:
        """Values of a measure over the successful runs."""
        where = (experiment, dataset, algorithm)
        return [n[measure] for cell, n in self._numbers.items() if cell[:3] == where and measure in n]


def run_cells(
    cells: Sequence[Cell], plan: Plan, store: Store, n_jobs: int, done: Callable[[int, int, Cell], None]
) -> Results:
    """Compute the missing cells, times last and one at a time; `done` is called after each cell."""
    keys = {cell: key_of(cell, plan) for cell in cells}
    missing = [cell for cell in keys if keys[cell] not in store]
    n_done = len(keys) - len(missing)
    together = [cell for cell in missing if cell.experiment != ALONE]
    alone = [cell for cell in missing if cell.experiment == ALONE]
    for group, jobs in ((together, n_jobs), (alone, 1)):
        for cell, numbers in in_order(compute, [(cell, plan) for cell in group], jobs):
            store.add(keys[cell], cell, numbers)
            n_done += 1
            done(n_done, len(keys), cell)
    return Results((cell, store[key]) for cell, key in keys.items())
