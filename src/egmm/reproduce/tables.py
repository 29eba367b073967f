"""Every table of the paper's section 4, and one more: the cells it needs and how it is built."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from egmm.reproduce.algorithms import ALGORITHMS, CONTROL, DEFAULTS, ONE_MODEL, PAPER_MODE
from egmm.reproduce.cells import Results
from egmm.reproduce.experiments import BRAINS, EBIC_COUNTS, PRINTED_CHOICE, Cell
from egmm.reproduce.paper import printed
from egmm.reproduce.plan import SIMULATED, Plan
from egmm.reproduce.scores import (
    GROUPS,
    MEASURES,
    WAYS,
    clusters_sheet,
    peers_of,
    ranks_sheet,
    score_sheet,
    short_name,
    ways_of,
)
from egmm.reproduce.sheets import Number, Sheet, Text, seconds, summarise, with_spread

EVIDENTIAL = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.is_evidential)

TIMED = (*peers_of("cpu"), PAPER_MODE, ONE_MODEL, DEFAULTS)
"""Columns of the CPU times; the choice of covariance makes no difference."""

IMPRECISION = {
    "ambiguous": "open",
    "outliers": "outliers",
    "coverage": "coverage",
    "accuracy": "hard accuracy",
    "precise_accuracy": "accuracy, sure rows",
    "u65": "u65",
    "u80": "u80",
}
"""Set-valued measures and their headings."""

SHARES = ("ambiguous", "outliers")
"""Measures shown in percent."""


def ebic_sheet(results: Results, plan: Plan) -> Sheet:
    """EBIC of the examples for each number of clusters."""
    paper = printed("ebic")
    sheet = Sheet(
        "ebic",
        "EBIC of the examples",
        f"Higher is better. Diamond is fixed and run with {plan.runs} seeds; Two-class and Four-class are "
        f"drawn {plan.draws} times, since the paper's draw is not known. Mean over the runs and range; *chosen* "
        "counts how often each number of clusters has the highest EBIC, without degenerate fits. With our "
        "defaults it is the highest EBIC of the fourteen covariance models.",
        ["", "", *(f"C = {count}" for count in EBIC_COUNTS), "chosen"],
    )
    for row in SIMULATED:
        values = [paper.entry(row, str(count))[0] for count in EBIC_COUNTS]
        printed_line = [*(f"{value:.1f}" for value in values), str(PRINTED_CHOICE[row])]
        sheet.lines.append([Text(row), Text("paper"), *map(Text, printed_line)])
        for column in WAYS:
            line = [Text(""), Text(short_name(column))]
            for count, value in zip(EBIC_COUNTS, values, strict=True):
                runs = results.values("ebic", row, column, str(count))
                found = summarise(runs)
                sheet.numbers.append(Number("ebic", row, column, f"C = {count}", *found, printed=value))
                line.append(Text(_range(runs)))
            line.append(Text(_counts(results.values("ebic", row, column, "chosen"))))
            sheet.lines.append(line)
    pairs = zip(*(results.values("ebic", "Four-class", PAPER_MODE, count) for count in ("4", "2")), strict=True)
    gains = [four - two for four, two in pairs]
    theirs = paper.entry("Four-class", "4")[0] - paper.entry("Four-class", "2")[0]
    sheet.notes.append(
        f"Four-class: four clusters are printed {theirs:.1f} above two. In paper mode the difference is "
        f"{np.mean(gains):.1f} on average, positive in {sum(gain > 0 for gain in gains)} of {len(gains)} draws and as "
        f"large as the printed one in {sum(gain >= theirs for gain in gains)}."
    )
    return sheet


def _range(values: Sequence[float]) -> str:
    if not values:
        return "--"
    low, mean, high = min(values), float(np.mean(values)), max(values)
    return f"{mean:.1f}" if high - low < 0.05 else f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def _counts(chosen: Sequence[int]) -> str:
    found, times = np.unique(np.asarray(chosen, dtype=int), return_counts=True)
    order = np.argsort(-times, kind="stable")
    return ", ".join(f"{found[at]} ({times[at]} of {len(chosen)})" for at in order) or "--"


def cpu_sheet(results: Results, plan: Plan) -> Sheet:
    """CPU seconds, and their ratio to those of EGMM on the same machine."""
    paper = printed("cpu")
    columns = TIMED
    sheet = Sheet(
        "cpu",
        "CPU time",
        "Seconds of one fit with known C on one thread, with nothing else running, and their ratio to EGMM in paper "
        "mode; below it the paper's seconds and ratio. Compare ratios, since machine and languages differ. All "
        "evidential algorithms here are implemented in this package.",
        ["", *columns],
    )
    for row in plan.datasets:
        base, their_base = _cpu_time(results, row, PAPER_MODE), paper.entry(row, "EGMM")[0]
        line = [Text(row)]
        for column in columns:
            value = _cpu_time(results, row, column)
            is_printed = column not in (ONE_MODEL, DEFAULTS)
            theirs = paper.entry(row, ALGORITHMS[column].printed)[0] if is_printed else np.nan
            sheet.numbers.append(Number("cpu", row, column, "seconds", value, printed=theirs))
            line.append(Text(_time(value, base), _time(theirs, their_base) if is_printed else ""))
        sheet.lines.append(line)
    return sheet


def _cpu_time(results: Results, dataset: str, algorithm: str) -> float:
    return summarise(results.values("cpu", dataset, algorithm, "seconds")).mean


def _time(value: float, base: float) -> str:
    ratio = value / base
    return "--" if np.isnan(value) else f"{seconds(value)}, {f'{ratio:.0f}' if ratio >= 10 else f'{ratio:.2g}'}x"


def brain_sheet(results: Results, plan: Plan) -> Sheet:
    """Agreement of fused brain segmentations with the truth."""
    paper = printed("brain")
    sheet = Sheet(
        "brain",
        "Agreement of the fused segmentation",
        "T1 and T2 are clustered into two, refined to the three areas and combined by Dempster's rule. The paper's "
        "BrainWeb images are not identified exactly, so these are phantoms with the contrasts it describes, of three "
        f"degrees of difficulty; means over {plan.brains}. Open pixels are those whose heaviest set has two areas or "
        "more.",
        ["", "algorithm", *MEASURES.values(), "open in T1, T2", "after fusion"],
    )
    for at, name in enumerate(paper.rows):
        cells = [Text(f"{value:.4f}") for value in paper.values[at]]
        sheet.lines.append([Text("paper, BrainWeb" if at == 0 else ""), Text(name), *cells, Text(""), Text("")])
    for row in BRAINS:
        for at, name in enumerate(paper.rows):
            line = [Text(row if at == 0 else ""), Text(name)]
            for measure, heading in MEASURES.items():
                found = summarise(results.values("brain", row, name, measure))
                value = paper.entry(name, heading)[0]
                sheet.numbers.append(Number("brain", row, name, measure, *found, printed=value))
                line.append(Text("--" if np.isnan(found.mean) else f"{found.mean:.4f}"))
            shares = [_share(results, row, name, where) for where in ("t1", "t2", "fused")]
            sheet.lines.append([*line, Text(f"{shares[0]}, {shares[1]}"), Text(shares[2])])
    sheet.notes.append(
        "In the paper EBIC chooses two clusters for both images; here two are given. On the phantom EBIC counts "
        "border pixels as further clusters where the noise is low."
    )
    return sheet


def _share(results: Results, dataset: str, algorithm: str, where: str) -> str:
    counts = results.values("brain", dataset, algorithm, where)
    pixels = results.values("brain", dataset, algorithm, "pixels")
    return f"{100 * sum(counts) / sum(pixels):.1f} %" if pixels else "--"


def imprecision_sheet(results: Results, plan: Plan) -> Sheet:
    """Shares of open rows, and the accuracy of sure rows."""
    sheet = Sheet(
        "imprecision",
        "Open rows, and the accuracy of sure rows",
        "Not in the paper. Known C. *Open*: share of rows whose heaviest set has two clusters or more. "
        "*Outliers*: share of rows whose heaviest set is empty, which ECM and BPEC have; their distance to it is 10 "
        "in units of the data. *Coverage*: share of rows whose class is in the heaviest set. *Hard accuracy*: every "
        "row gets one cluster. *Accuracy, sure rows*: of the rows whose heaviest set is one cluster. *u65, u80*: "
        "mean utility of the sets; a correct pair is worth 0.65 or 0.80, a correct single cluster 1, so they exceed "
        "the hard accuracy where open rows pay. The sets of `AutoEGMM` are chosen by expected utility. *Control*: "
        "accuracy of the sure rows of a Gaussian mixture that rejects as many rows, the least probable ones.",
        ["", "algorithm", *IMPRECISION.values(), "control"],
    )
    for row in plan.datasets:
        for at, name in enumerate(EVIDENTIAL):
            line = [Text(row if at == 0 else ""), Text(name)]
            not_sure = 0.0
            for measure in IMPRECISION:
                found = summarise(
                    [value for value in results.values("known", row, name, measure) if not np.isnan(value)]
                )
                sheet.numbers.append(Number("imprecision", row, name, measure, *found))
                not_sure += found.mean if measure in SHARES else 0.0
                line.append(
                    Text(_as_share(found.mean) if measure in SHARES else with_spread(found.mean, np.nan, digits=3))
                )
            control = control_accuracy(results, row, not_sure)
            sheet.numbers.append(Number("imprecision", row, name, "control", control))
            sheet.lines.append([*line, Text(with_spread(control, np.nan, digits=3))])
    return sheet


def control_accuracy(results: Results, dataset: str, open_share: float) -> float:
    """Accuracy of a Gaussian mixture's sure rows where this share of rows is open, mean over the runs."""
    curves = results.values("known", dataset, CONTROL, "by_percent")
    if not curves or np.isnan(open_share):
        return float("nan")
    return float(np.mean(curves, axis=0)[min(round(100 * open_share), 99)])


def _as_share(value: float) -> str:
    return "--" if np.isnan(value) else f"{100 * value:.0f} %"


@dataclass(frozen=True)
class Table:
    """A table and the cells it is made of.

    Attributes
    ----------
    experiments : tuple of str
        Experiments of its cells.
    algorithms : tuple of str
        Its columns.
    make : callable
        Function that makes the sheet.
    """

    experiments: tuple[str, ...]
    algorithms: tuple[str, ...]
    make: Callable[[Results, Plan], Sheet]


TABLES: Mapping[str, Table] = {
    "ebic": Table(("ebic",), WAYS, ebic_sheet),
    "clusters": Table(("unknown",), (*peers_of("clusters"), *WAYS), clusters_sheet),
    **{
        name: Table((experiment,), (*peers_of(name), *ways_of(name)), partial(score_sheet, name))
        for name, (experiment, _) in GROUPS.items()
    },
    "ranks": Table(("unknown", "known"), (*peers_of("purity"), *ways_of("purity")), ranks_sheet),
    "imprecision": Table(("known",), (*EVIDENTIAL, CONTROL), imprecision_sheet),
    "cpu": Table(("cpu",), TIMED, cpu_sheet),
    "brain": Table(("brain",), ("ECM", "BPEC", "EGMM"), brain_sheet),
}
"""Tables by name, in page order."""


def cells_of(name: str, plan: Plan) -> list[Cell]:
    """Cells that a table needs."""
    table = TABLES[name]
    return [
        Cell(experiment, dataset, algorithm, run)
        for experiment in table.experiments
        for dataset in _datasets(experiment, plan)
        for algorithm in table.algorithms
        if experiment != "unknown" or ALGORITHMS[algorithm].chooses
        for run in range(_runs(experiment, dataset, algorithm, plan))
    ]


def _datasets(experiment: str, plan: Plan) -> Sequence[str]:
    return {"ebic": SIMULATED, "brain": tuple(BRAINS)}.get(experiment, plan.datasets)


def _runs(experiment: str, dataset: str, algorithm: str, plan: Plan) -> int:
    if experiment == "brain":
        return plan.brains
    if experiment == "cpu":
        return 1
    if experiment == "unknown" and dataset == "Magic" and algorithm == "bootGMM":
        return min(plan.runs, plan.slow_runs)
    if experiment == "ebic":
        return plan.runs if dataset == "Diamond" else plan.draws
    return plan.runs if ALGORITHMS[algorithm].is_random else 1
