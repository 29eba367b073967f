"""``egmm reproduce``: the paper's tables and figures, next to the printed values."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from egmm._progress import Progress
from egmm.cli.output import check_free
from egmm.cli.parsing import one_of
from egmm.cli.screen import CommandError, Interrupted, as_json, say, show_table
from egmm.reproduce import ITEMS, Plan, Reproduction
from egmm.reproduce import reproduce as make
from egmm.reproduce.experiments import Cell
from egmm.reproduce.run import CELLS, page_lost
from egmm.rows.threads import available_cores


def reproduce(
    only: Sequence[str] | None,
    *,
    quick: bool,
    jobs: int | None,
    out: Path,
    data: Path | None,
    sets: Sequence[str] | None,
    fresh: bool,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Run or resume a reproduction, and print which claims hold."""
    wanted = None if only is None else [one_of("--only", item, ITEMS) for item in only]
    directory = None if data is None else str(data)
    plan = Plan.quick(directory) if quick else Plan(data=directory)
    if sets is not None:
        known = {name.lower(): name for name in Plan().datasets}
        chosen = [known[one_of("--sets", name.lower(), tuple(known))] for name in sets]
        plan = replace(plan, datasets=tuple(chosen))
    check_free(out, force=force or (out / CELLS).is_file())
    lost = None if force else page_lost(out, wanted, plan)
    if lost is not None:
        raise CommandError(
            f"{out} holds the page of `{lost}`, which this run would replace; use another --out, or --force."
        )
    with Progress("reproduce", 0, enabled=not (quiet or as_machine)) as progress:

        def done(n_done: int, n_all: int, cell: Cell) -> None:
            progress.update(n_done, f"{cell.experiment}: {cell.dataset}, {cell.algorithm}", total=n_all)

        try:
            made = make(out, only=wanted, plan=plan, n_jobs=jobs or available_cores(), fresh=fresh, done=done)
        except KeyboardInterrupt:
            raise Interrupted(f"Stopped; finished results are in {out}, and the same command resumes there.") from None
    if as_machine:
        as_json(_facts(made))
    elif not quiet:
        _show(made)
        if not plan.is_full:
            say("\nPartial run: the claims may turn out differently with all runs of the paper.")


def _facts(made: Reproduction) -> dict[str, object]:
    claims = [
        {"statement": line[0].ours, "found": line[1].ours, "holds": line[2].ours == "yes"}
        for line in made.sheets["glance"].lines
    ]
    return {
        "command": "reproduce",
        "output": str(made.folder),
        "files": made.files,
        "cells": made.n_cells,
        "computed": made.n_computed,
        "seconds": round(made.seconds, 2),
        "claims": claims,
    }


def _show(made: Reproduction) -> None:
    claims = made.sheets["glance"].lines
    if claims:
        show_table(["holds", ""], [[holds.ours, f"{said.ours}\n  {found.ours}"] for said, found, holds in claims])
    kept = made.n_cells - made.n_computed
    say(f"\n{made.n_computed} cells computed, {kept} reused; {made.seconds:.0f} s. Output files:", "bold")
    for name in ("reproduction.html", "reproduction.md", "numbers.csv"):
        say(f"  {made.folder / name}")
