"""``egmm compare``: several algorithms on the same rows."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture

from egmm.belief.uncertainty import average_nonspecificity
from egmm.cli.algorithms import ALGORITHMS, FROM_DISSIMILARITIES, made, read_both
from egmm.cli.data import find_files
from egmm.cli.models import Prepared, check_enough, prepare, scores
from egmm.cli.notes import tell
from egmm.cli.output import check_table, write_columns
from egmm.cli.parsing import Decision, Source
from egmm.cli.screen import CommandError, as_json, message, say, show_table
from egmm.metrics import aurc, expected_calibration_error, risk_coverage_curve

DEFAULT = ("autoegmm", "egmm", "ecm", "fcm", "bpec", "bootgmm")
"""The automatic model, and those of the paper."""

HEADINGS = {
    "seconds": "seconds",
    "clusters": "clusters",
    "open rows": "open\nrows",
    "NMI": "NMI",
    "ARI": "ARI",
    "coverage": "coverage",
    "accuracy of sure rows": "accuracy\nsure",
    "control accuracy": "\ncontrol",
    "AURC": "AURC",
    "ECE": "ECE",
}
"""Headings on the screen; two lines keep the table within 80 columns."""

CONTROL = "control: scikit-learn's GaussianMixture with as many open rows, the least probable ones"


def usable(*, is_relational: bool) -> tuple[str, ...]:
    """Names of the algorithms for rows, or for dissimilarities."""
    return FROM_DISSIMILARITIES if is_relational else tuple(ALGORITHMS)


def default(*, is_relational: bool) -> tuple[str, ...]:
    """Names of the default algorithms."""
    return FROM_DISSIMILARITIES if is_relational else DEFAULT


def compare(
    source: Source,
    algorithms: Sequence[str],
    n_clusters: int,
    *,
    dissimilarities: str | None,
    decision: Decision | None,
    standardize: bool,
    seed: int,
    out: Path | None,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Fit each algorithm and show its scores in one table."""
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
    control = None if data.labels is None or D is not None else fit_control(X, n_clusters, seed)
    for name in algorithms:
        if is_talking:
            message(f"fitting {name} ...")
        records.append(_measure(name, X, wanted, data.labels, decision, control, is_relational=D is not None))
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
        raise CommandError(f"No algorithm could be fitted: {records[0]['failure']}")


def fit_control(X: Any, n_clusters: int, seed: int) -> Any:
    """Probabilities of a classical Gaussian mixture, or None if it cannot be fitted."""
    try:
        plain = GaussianMixture(n_clusters, n_init=5, random_state=seed).fit(X)
    except ValueError:
        return None
    return plain.predict_proba(X)


def _confidence(truth: Any, partition: Any, n_open: int, control: Any) -> dict[str, float]:
    """Quality of confidence, and accuracy of a classical mixture with as many open rows."""
    known = truth != ""
    if not known.any() or len(np.unique(truth[known])) > partition.n_clusters:
        return {}
    found = {
        "AURC": aurc(truth[known], partition[known]),
        "ECE": expected_calibration_error(truth[known], partition[known]),
    }
    if control is not None:
        found["control accuracy"] = control_accuracy(truth[known], control[known], n_open / len(partition))
    return found


def control_accuracy(truth: Any, control: Any, open_share: float) -> float:
    """Accuracy of the control on its sure rows, if this share of rows is open, the least probable first."""
    curve = risk_coverage_curve(truth, control)
    answered = max(1, round(len(truth) * (1 - open_share)))
    return float(1 - curve.risk[answered - 1])


def _measure(
    name: str,
    X: Any,
    wanted: dict[str, Any],
    truth: Any,
    decision: Decision | None,
    control: Any,
    *,
    is_relational: bool,
) -> dict[str, Any]:
    """Fit one algorithm with those of the parameters that it has; a failure is also a result."""
    began = time.perf_counter()
    try:
        model = made(name, wanted, is_relational=is_relational).fit(X)
        partition = model.partition(X)
    except (ValueError, np.linalg.LinAlgError, MemoryError) as error:
        return {"algorithm": name, "failure": str(error), "seconds": round(time.perf_counter() - began, 4)}
    focal = partition.focal_sets
    chosen = decision or Decision("utility" if name == "autoegmm" else "heaviest")
    n_open = int(partition.is_open(*chosen).sum())
    known = {} if truth is None else scores(truth, partition, chosen)
    return {
        "algorithm": name,
        "failure": "",
        "seconds": round(time.perf_counter() - began, 4),
        "clusters": int(partition.n_clusters),
        "sets": len(focal),
        "open rows": n_open,
        "rule": chosen.rule,
        "nonspecificity": average_nonspecificity(partition.mass, focal),
        **known,
        **({} if truth is None else _confidence(truth, partition, n_open, control)),
    }


def _show(records: Sequence[dict[str, Any]]) -> None:
    keys = [key for key in HEADINGS if any(key in record for record in records)]
    lines = []
    for record in records:
        cells = [_cell(record.get(key)) for key in keys]
        lines.append([record["algorithm"], *(cells if not record["failure"] else ["failed", *[""] * (len(keys) - 1)])])
    show_table(["", *(HEADINGS[key] for key in keys)], lines)
    if "control accuracy" in keys:
        say(f"AURC, ECE: lower is better; {CONTROL}.")
    for record in records:
        if record["failure"]:
            say(f"{record['algorithm']} failed: {record['failure']}")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
