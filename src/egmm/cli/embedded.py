"""``egmm data``: data sets for trying the other commands."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm.cli.output import check_table, write_columns, write_csv
from egmm.cli.screen import CommandError, as_json, check_output_for_rows, say, show_table, spaced
from egmm.datasets import UCI_NAMES, Dataset, load_uci, make_blobs_with_overlap, make_four_class, make_two_class
from egmm.datasets.generators import make_diamond

LABEL = "label"
"""Name of the column of classes."""


class Generator(NamedTuple):
    """Generator of simulated rows, and their default number."""

    make: Callable[..., Any]
    rows: int
    about: str


GENERATORS: Mapping[str, Generator] = {
    "diamond": Generator(make_diamond, 11, "the paper's eleven points, one of them between two clusters"),
    "two-class": Generator(make_two_class, 800, "the paper's two long Gaussian classes"),
    "four-class": Generator(make_four_class, 800, "the paper's four round Gaussian classes"),
    "blobs": Generator(make_blobs_with_overlap, 300, "three round clusters that overlap by 10 %"),
}
ABOUT = {
    "ecoli": "protein localisation sites, eight classes",
    "iris": "Fisher's irises, three species",
    "knowledge": "students' knowledge, four levels",
    "magic": "gamma telescope events, two classes",
    "newthyroid": "thyroid tests, three classes",
    "seeds": "kernels of wheat, three varieties",
    "vehicle": "silhouettes of four vehicles",
    "wine": "Italian wines, three cultivars",
}
NAMES = (*UCI_NAMES, *GENERATORS)
SHIPPED = ("iris", "wine", *GENERATORS)
"""Data sets that need neither another package nor a network."""


def embedded(name: str, rows: int | None, seed: int) -> dict[str, Any]:
    """Columns of a data set, classes in the last."""
    data = load_uci(name) if name in UCI_NAMES else _simulated(name, rows, seed)
    if name in UCI_NAMES and rows is not None:
        raise CommandError(f"{name} has {spaced(len(data.X))} rows; --rows is for simulated sets.")
    columns = dict(zip(data.feature_names, data.X.T, strict=True))
    return {**columns, LABEL: np.array([data.class_names[k] for k in data.y])}


def _simulated(name: str, rows: int | None, seed: int) -> Dataset:
    generator = GENERATORS[name]
    if name == "diamond":
        if rows is not None:
            raise CommandError("diamond always has 11 rows; omit --rows.")
        X, y = generator.make()
        # The point in the middle has its own class name.
        return Dataset(X, np.where(y < 0, 2, y), ("x1", "x2"), ("left", "right", "either"))
    X, y = generator.make(rows or generator.rows, random_state=seed)
    names = tuple(f"class_{k + 1}" for k in range(int(y.max()) + 1))
    return Dataset(X, y, tuple(f"x{k + 1}" for k in range(X.shape[1])), names)


def data(
    name: str | None, *, rows: int | None, seed: int, out: Path | None, force: bool, as_machine: bool, quiet: bool
) -> None:
    """Write a data set as CSV to standard output or a file, or list the names."""
    if name is None:
        _list(as_machine=as_machine)
        return
    if out is not None:
        check_table(out, force=force)
    else:
        check_output_for_rows(as_machine=as_machine)
    columns = embedded(name, rows, seed)
    if out is None:
        write_csv(sys.stdout, columns)
        return
    write_columns(out, columns)
    n_rows = len(columns[LABEL])
    if as_machine:
        result = {"command": "data", "name": name, "output": str(out), "n_rows": n_rows, "columns": list(columns)}
        as_json(result)
    elif not quiet:
        say(f"Written to {out}: {spaced(n_rows)} rows, classes in the column {LABEL!r}.")


def _list(*, as_machine: bool) -> None:
    about = {**ABOUT, **{name: generator.about for name, generator in GENERATORS.items()}}
    listed = {name: about[name] for name in (*SHIPPED, *(name for name in NAMES if name not in SHIPPED))}
    if as_machine:
        as_json({"command": "data", "names": listed})
        return
    show_table(["name", ""], [[name, text] for name, text in listed.items()])
    others = [name for name in listed if name not in SHIPPED]
    say(f"\n{', '.join(others)} need EGMM_DATA, a package that contains them, or a network.", "dim")
    say("Example: egmm data iris > iris.csv", "dim")
