"""``egmm compare``: the same rows, several algorithms."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egmm.belief.uncertainty import average_nonspecificity
from egmm.cli.algorithms import ALGORITHMS, FROM_DISSIMILARITIES, made, read_both
from egmm.cli.data import find_files
from egmm.cli.models import Prepared, check_enough, prepare, scores
from egmm.cli.notes import tell
from egmm.cli.options import Source
from egmm.cli.output import check_table, write_columns
from egmm.cli.screen import CommandError, as_json, message, say, show_table

DEFAULT = ("egmm", "ecm", "fcm", "bpec", "bootgmm")
"""Those of the paper."""

HEADINGS = {
    "seconds": "seconds",
    "clusters": "clusters",
    "open rows": "open\nrows",
    "nonspecificity": "non-\nspecific",
    "purity": "purity",
    "NMI": "NMI",
    "ARI": "ARI",
    "coverage": "cover-\nage",
    "sure accuracy": "sure\naccuracy",
}
"""Columns on the screen; two lines of heading keep the table within 80 columns."""


def usable(*, is_relational: bool) -> tuple[str, ...]:
    """Names of the algorithms that take rows, or dissimilarities."""
    return FROM_DISSIMILARITIES if is_relational else tuple(ALGORITHMS)


def default(*, is_relational: bool) -> tuple[str, ...]:
    """Names of the algorithms compared where none are named."""
    return FROM_DISSIMILARITIES if is_relational else DEFAULT


def compare(
    source: Source,
    algorithms: Sequence[str],
    n_clusters: int,
    *,
    dissimilarities: str | None,
    standardize: bool,
    seed: int,
    out: Path | None,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Fit each algorithm and put its numbers in one table."""
    if out is not None:
        files = [path for path in (source.path, dissimilarities) if path]
        check_table(out, force=force, inputs=[found for path in files for found in find_files(path)])
    data, D = read_both(source, dissimilarities)
    check_enough(len(data.X), n_clusters)
    X, _, notes = prepare(data, standardize=standardize) if D is None else Prepared(D, None, [])
    is_talking = not (quiet or as_machine)
    tell(notes, wanted=is_talking)
    records = []
    wanted = {"n_clusters": n_clusters, "random_state": seed, "verbose": int(is_talking)}
    for name in algorithms:
        if is_talking:
            message(f"fitting {name} ...")
        records.append(_measure(name, X, wanted, data.labels, is_relational=D is not None))
    if out is not None:
        keys = list(dict.fromkeys(key for record in records for key in record))
        write_columns(out, {key: [record.get(key) for record in records] for key in keys}, force=force)
    if as_machine:
        as_json(
            {
                "command": "compare",
                "source": source.path or dissimilarities,
                "n_clusters": n_clusters,
                "notes": notes,
                "results": records,
            }
        )
    elif not quiet:
        _show(records)
        if out is not None:
            say(f"\nWritten to {out}")
    if all(record["failure"] for record in records):
        raise CommandError(f"no algorithm could be fitted: {records[0]['failure']}")


def _measure(name: str, X: Any, wanted: dict[str, Any], truth: Any, *, is_relational: bool) -> dict[str, Any]:
    """Fit one algorithm with what it knows of the parameters wanted; a failure is a result too."""
    began = time.perf_counter()
    try:
        model = made(name, wanted, is_relational=is_relational).fit(X)
        partition = model.partition(X)
    except (ValueError, np.linalg.LinAlgError, MemoryError) as error:
        return {"algorithm": name, "failure": str(error), "seconds": round(time.perf_counter() - began, 4)}
    focal = partition.focal_sets
    return {
        "algorithm": name,
        "failure": "",
        "seconds": round(time.perf_counter() - began, 4),
        "clusters": int(partition.n_clusters),
        "sets": len(focal),
        "open rows": int((focal.cardinalities[partition.sets()] > 1).sum()),
        "nonspecificity": average_nonspecificity(partition.mass, focal),
        **({} if truth is None else scores(truth, partition)),
    }


def _show(records: Sequence[dict[str, Any]]) -> None:
    keys = [key for key in HEADINGS if any(key in record for record in records)]
    lines = []
    for record in records:
        cells = [_cell(record.get(key)) for key in keys]
        lines.append([record["algorithm"], *(cells if not record["failure"] else ["failed", *[""] * (len(keys) - 1)])])
    show_table(["", *(HEADINGS[key] for key in keys)], lines)
    for record in records:
        if record["failure"]:
            say(f"{record['algorithm']} failed: {record['failure']}")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
