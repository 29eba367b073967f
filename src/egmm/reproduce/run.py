"""Run a reproduction: cells, tables, figures, pages and files of numbers."""

import csv
import importlib.metadata
import io
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from egmm import __version__
from egmm._checks import import_optional
from egmm._files import replacing
from egmm.reproduce.algorithms import ALGORITHMS
from egmm.reproduce.cells import Results, Store, key_of, run_cells
from egmm.reproduce.claims import glance_sheet
from egmm.reproduce.experiments import Cell, real
from egmm.reproduce.figures import FIGURES
from egmm.reproduce.page import Block, Bullets, Heading, Image, Paragraph, to_html, to_markdown
from egmm.reproduce.plan import Plan
from egmm.reproduce.sheets import BETTER, WORSE, Number, Sheet
from egmm.reproduce.tables import TABLES, cells_of
from egmm.reproduce.words import PEERS_DIFFER, STARTS_CHOSEN, explain

CELLS = "cells.jsonl"
"""File of finished cells; a directory that holds it can be resumed."""

SETTINGS = "settings.json"
"""File that records how the page was made."""

DOTS_PER_INCH = 100
COLOURS = 256

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")

SECTIONS: dict[str, Sequence[str]] = {
    "Examples": ("table:ebic", "figure:diamond", "figure:two-class", "figure:four-class"),
    "Real data, unknown number of clusters": (
        "table:clusters",
        "table:nmi-unknown",
        "table:ari-unknown",
        "figure:ranks-unknown",
    ),
    "Real data, known number of clusters": ("table:purity", "table:nmi", "table:ari", "figure:ranks-known"),
    "Tests on ranks": ("table:ranks",),
    "Accuracy of sure rows": ("figure:imprecision", "table:imprecision"),
    "Computation time": ("table:cpu",),
    "Brain segmentation": ("table:brain", "figure:brain"),
}
"""Sections of the page and their contents."""

ITEMS = tuple(item for section in SECTIONS.values() for item in section)
"""Everything that `only` may select."""


@dataclass(frozen=True)
class Reproduction:
    """Result of a run.

    Attributes
    ----------
    folder : path
        Output folder.
    sheets : dict of str to Sheet
        Tables by name; the claims are 'glance'.
    files : list of str
        Names of the files, relative to `folder`.
    n_cells : int
        Number of cells the tables use.
    n_computed : int
        Number of those computed in this run.
    seconds : float
        Duration.
    """

    folder: Path
    sheets: dict[str, Sheet]
    files: list[str]
    n_cells: int
    n_computed: int
    seconds: float


def reproduce(
    folder: str | os.PathLike[str] = "reproduction",
    *,
    only: Iterable[str] | None = None,
    plan: Plan | None = None,
    n_jobs: int = 1,
    fresh: bool = False,
    done: Callable[[int, int, Cell], None] | None = None,
) -> Reproduction:
    """Regenerate the tables and figures of the paper's experiments, next to the printed values.

    Each cell, the result of one run of one algorithm on one data set, is stored in the folder once computed, so that a
    stopped run can resume.

    Parameters
    ----------
    folder : path, default='reproduction'
        Output folder, created if missing.
    only : iterable of str, default=None
        Items to make, such as 'table:purity' or 'figure:diamond'; None makes everything.
    plan : Plan, default=None
        Extent of the run; None means everything, ``Plan.quick()`` small sets.
    n_jobs : int, default=1
        Number of processes. Times are measured with nothing else running.
    fresh : bool, default=False
        Whether to recompute existing cells; those of other tables are kept.
    done : callable, default=None
        Called after each cell with the number done, the total, and the cell.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = reproduce(folder, only=["table:imprecision"], plan=Plan(runs=1, datasets=("Iris",), n_bootstrap=15))
    >>> made.n_computed, list(made.sheets)
    (9, ['glance', 'imprecision'])
    """
    began = time.monotonic()
    wanted = _check_items(ITEMS if only is None else list(only))
    plan = plan or Plan()
    place = Path(folder)
    computed: list[Cell] = []

    def tell(n_done: int, n_all: int, cell: Cell) -> None:
        computed.append(cell)
        if done is not None:
            done(n_done, n_all, cell)

    cells = _cells(wanted, plan)
    # First, so that missing data end a long run at its start.
    for name in plan.datasets:
        if any(cell.dataset == name for cell in cells):
            real(name, plan.data)
    place.mkdir(parents=True, exist_ok=True)
    store = Store(place / CELLS)
    if fresh:
        store.forget({key_of(cell, plan) for cell in cells})
    results = run_cells(cells, plan, store, n_jobs, tell)
    sheets = {name: TABLES[name].make(results, plan) for kind, name in wanted if kind == "table"}
    for sheet in sheets.values():
        explain(sheet)
    images = {name: _draw(name, place, results, plan) for kind, name in wanted if kind == "figure"}
    glance = glance_sheet(results, plan, set(sheets))
    seconds = time.monotonic() - began
    facts = _facts(plan, wanted, len(cells), len(computed), seconds)
    blocks = _page(sheets, images, glance, facts, plan)
    texts = {
        "reproduction.md": to_markdown(blocks, place),
        "reproduction.html": to_html(blocks),
        "numbers.csv": _numbers_csv(sheets.values()),
        "cells.csv": _cells_csv(results),
        SETTINGS: json.dumps(facts, indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        with replacing(place / name) as stream:
            stream.write(text.encode())
    names = [*texts, *(path.relative_to(place).as_posix() for path in images.values()), CELLS]
    return Reproduction(place, {"glance": glance, **sheets}, names, len(cells), len(computed), seconds)


def page_lost(folder: Path, only: Iterable[str] | None, plan: Plan) -> str | None:
    """Command of the existing page, if a run would replace it by one with fewer items or another plan."""
    try:
        facts = json.loads((folder / SETTINGS).read_text("utf-8"))
        kept = set(facts["items"]) <= set(ITEMS if only is None else only)
        return None if kept and facts["settings"] == json.loads(json.dumps(plan.settings())) else facts["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _check_items(items: Sequence[str]) -> list[tuple[str, str]]:
    for item in items:
        if item not in ITEMS:
            raise ValueError(f"{item!r} is not one of {', '.join(ITEMS)}.")
    kinds = [item.partition(":") for item in items]
    return [(kind, name) for kind, _, name in kinds]


def _cells(wanted: Sequence[tuple[str, str]], plan: Plan) -> list[Cell]:
    """Distinct cells of all requested tables, and of the tables that requested figures draw."""
    tables = [name for kind, name in wanted if kind == "table"]
    tables += [table for kind, name in wanted if kind == "figure" for table in FIGURES[name].tables]
    return list(dict.fromkeys(cell for name in tables for cell in cells_of(name, plan)))


def _draw(name: str, place: Path, results: Results, plan: Plan) -> Path:
    path = place / "figures" / f"reproduction-{name}.png"
    path.parent.mkdir(exist_ok=True)
    drawn = io.BytesIO()
    FIGURES[name].make(results, plan).savefig(drawn, format="png", dpi=DOTS_PER_INCH)
    # The page embeds every picture: a palette makes them a third as large, and they have few colours.
    picture = import_optional("PIL.Image", "Figures", "plot").open(drawn).convert("RGB").quantize(COLOURS)
    with replacing(path) as stream:
        picture.save(stream, format="png", optimize=True)
    return path


def _facts(
    plan: Plan, wanted: Sequence[tuple[str, str]], n_cells: int, n_computed: int, seconds: float
) -> dict[str, Any]:
    """Facts needed to repeat the run."""
    items = [f"{kind}:{name}" for kind, name in wanted]
    is_quick, default = plan.runs < Plan().runs, Plan.quick() if plan.runs < Plan().runs else Plan()
    command = ["egmm reproduce", *(["--quick"] if is_quick else [])]
    command += [] if plan.datasets == default.datasets else ["--sets", ",".join(plan.datasets)]
    command += [] if set(items) == set(ITEMS) else [f"--only {item}" for item in items]
    versions = {"egmm": __version__, "Python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "command": " ".join(command),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {sys.platform}",
        "seeds": f"run r has seed r, r = 0 to {plan.runs - 1}",
        "items": items,
        "settings": plan.settings(),
        "cells": n_cells,
        "cells computed in this run": n_computed,
        "seconds of this run": round(seconds, 1),
    }


def _page(
    sheets: dict[str, Sheet], images: dict[str, Path], glance: Sheet, facts: dict[str, Any], plan: Plan
) -> list[Block]:
    blocks: list[Block] = [
        Heading("The paper, reproduced", 1),
        Paragraph(
            "Section 4 of L. Jiao, T. Denœux, Z. Liu, Q. Pan, *EGMM: An evidential version of the Gaussian mixture "
            "model for clustering*, Applied Soft Computing 129 (2022) 109619, reproduced: every number next to "
            "the printed one."
        ),
        *_made(facts, plan),
    ]
    if glance.lines:
        blocks += [Heading("At a glance"), glance]
    blocks += [
        Heading("How the algorithms are run"),
        Bullets([f"{name}: {algorithm.how}." for name, algorithm in ALGORITHMS.items()]),
        Paragraph(PEERS_DIFFER),
        Paragraph(STARTS_CHOSEN),
    ]
    for section, items in SECTIONS.items():
        found = [block for item in items for block in _item(item, sheets, images)]
        if found:
            blocks += [Heading(section), *found]
    return blocks


def _made(facts: dict[str, Any], plan: Plan) -> list[Block]:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    made = f"Made by `{facts['command']}` on {facts['date']} with {versions} ({facts['machine']}); {facts['seeds']}."
    if not plan.is_full:
        made += " *Partial: fewer runs than in the paper, or fewer or smaller sets.*"
    return [
        Paragraph(made),
        Paragraph(
            f"{BETTER} and {WORSE} mark means outside the printed ± (0.02 where that is 0), better or worse "
            "than printed."
        ),
    ]


def _item(item: str, sheets: dict[str, Sheet], images: dict[str, Path]) -> list[Block]:
    kind, _, name = item.partition(":")
    if kind == "table" and name in sheets:
        return [sheets[name]]
    if kind == "figure" and name in images:
        return [Image(images[name], FIGURES[name].title, FIGURES[name].caption)]
    return []


def _numbers_csv(sheets: Iterable[Sheet]) -> str:
    numbers = [asdict(number) for sheet in sheets for number in sheet.numbers]
    return _csv([field.name for field in fields(Number)], [list(number.values()) for number in numbers])


def _cells_csv(results: Results) -> str:
    rows = [[*cell, measure, value] for cell, numbers in results.items() for measure, value in numbers.items()]
    return _csv([*Cell._fields, "measure", "value"], rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write CSV; NaN is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([["" if value != value else value for value in row] for row in rows])  # noqa: PLR0124
    return stream.getvalue()
