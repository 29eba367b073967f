"""The paper's claims, checked against the numbers."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from egmm.metrics import friedman_critical_value, friedman_statistic
from egmm.reproduce.algorithms import ALGORITHMS, ONE_MODEL, PAPER_MODE
from egmm.reproduce.cells import Results
from egmm.reproduce.experiments import A_FEW_ROWS, BRAINS, EBIC_COUNTS, PRINTED_CHOICE
from egmm.reproduce.paper import datasets, printed
from egmm.reproduce.plan import Plan
from egmm.reproduce.scores import (
    GROUPS,
    MEASURES,
    WAYS,
    WAYS_BY_EXPERIMENT,
    peers_of,
    ranks_without_missing,
    scores,
    short_name,
)
from egmm.reproduce.sheets import Sheet, Text, listed, seconds, summarise, verdict

ENOUGH = 0.9
"""Share of simulated sets on which the number of clusters must be the paper's."""

FOUR_BOUNDARIES = 4


class Claim(NamedTuple):
    """A statement, the finding, and whether it holds."""

    statement: str
    found: str
    holds: bool


def _diamond(results: Results) -> Claim:
    paper = printed("ebic")
    pairs = []
    for count in (2, 3):
        value = paper.entry("Diamond", str(count))[0]
        pairs.append((summarise(results.values("ebic", "Diamond", PAPER_MODE, str(count))).mean, value))
    same = all(abs(ours - theirs) < 0.05 + 1e-9 for ours, theirs in pairs)
    return Claim(
        "Diamond has EBIC -55.9 and -63.1 for two and three clusters",
        ", ".join(f"{ours:.2f}" for ours, _ in pairs),
        same,
    )


def _diamond_choice(results: Results) -> Claim:
    highest, chosen = (results.values("ebic", "Diamond", PAPER_MODE, which) for which in ("highest", "chosen"))
    return Claim(
        "Diamond: two clusters are chosen",
        f"in {chosen.count(2)} of {len(chosen)} runs, without degenerate fits; they have the highest EBIC of "
        f"all in {highest.count(2)}",
        chosen.count(2) == len(chosen),
    )


def _simulated(results: Results, dataset: str) -> list[Claim]:
    """The number of clusters chosen over many draws, and whether the printed EBIC is within their range."""
    paper = printed("ebic")
    values = {count: paper.entry(dataset, str(count))[0] for count in EBIC_COUNTS}
    best = PRINTED_CHOICE[dataset]
    claims = []
    for way in WAYS:
        chosen = results.values("ebic", dataset, way, "chosen")
        found = f"in {chosen.count(best)} of {len(chosen)} draws"
        statement = f"{dataset}: {best} clusters are chosen in at least nine of ten draws ({short_name(way)})"
        claims.append(Claim(statement, found, chosen.count(best) >= ENOUGH * len(chosen)))
    runs = {count: results.values("ebic", dataset, PAPER_MODE, str(count)) for count in EBIC_COUNTS}
    outside = [count for count in runs if not min(runs[count]) <= values[count] <= max(runs[count])]
    low, high = min(runs[best]), max(runs[best])
    found = f"for C = {best} {values[best]} in [{low:.1f}, {high:.1f}]; outside: {listed(outside)}"
    return [*claims, Claim(f"{dataset}: the printed EBIC values are within the range of the draws", found, not outside)]


def _open_rows(results: Results) -> list[Claim]:
    """How often rows between classes are open in the paper's mode."""
    two = results.values("ebic", "Two-class", PAPER_MODE, "open")
    some = [share for share in two if share > 0]
    sets = results.values("ebic", "Four-class", PAPER_MODE, "open_sets")
    every = sum(count >= FOUR_BOUNDARIES for count in sets)
    return [
        Claim(
            "Two-class: rows between the classes are open for EGMM, in at least nine of ten draws",
            f"some row in {len(some)} of {len(two)} draws, at most {100 * max(two):.0f} % of them; none in the others",
            len(some) >= ENOUGH * len(two),
        ),
        Claim(
            "Four-class: rows at all four boundaries are open for EGMM, in at least nine of ten draws",
            f"at least four sets with {A_FEW_ROWS} rows in {every} of {len(sets)} draws; none in {sets.count(0)}",
            every >= ENOUGH * len(sets),
        ),
    ]


def _examples(results: Results, plan: Plan) -> list[Claim]:  # noqa: ARG001
    drawn = [claim for dataset in ("Two-class", "Four-class") for claim in _simulated(results, dataset)]
    return [_diamond(results), _diamond_choice(results), *drawn, *_open_rows(results)]


def _agreement(results: Results, plan: Plan) -> list[Claim]:
    """Agreement of the paper's mode with the printed scores of EGMM, known number of clusters."""
    found: dict[str, list[str]] = {"agrees": [], "better": [], "worse": []}
    for row in plan.datasets:
        for name in ("purity", "nmi", "ari"):
            mean = summarise(results.values("known", row, PAPER_MODE, name)).mean
            judgement = verdict(mean, printed(name), row, "EGMM")
            found.setdefault(judgement, []).append(f"{row} {MEASURES[name]}")
    return [
        Claim(
            "EGMM's purity, NMI and ARI with known C are within the printed ± (0.02 where that is 0)",
            f"paper mode agrees on {len(found['agrees'])}, is better on {listed(found['better'])}, worse on "
            f"{listed(found['worse'])}",
            not found["worse"],
        )
    ]


def _first(results: Results, plan: Plan, group: str) -> list[Claim]:
    claims = []
    for way in WAYS_BY_EXPERIMENT[group]:
        parts, firsts = [], []
        for name, (experiment, measure) in GROUPS.items():
            if experiment != group:
                continue
            table = scores(results, plan, name, way)
            ranks = table.average_ranks
            best = int(np.argmin(ranks))
            firsts.append(bool(ranks[-1] <= ranks.min() + 1e-9))
            others = "" if firsts[-1] else f" behind {table.algorithms[best]} ({ranks[best]:.2f})"
            fewer = ranks_without_missing(table, plan, name)
            if not firsts[-1] and fewer[-1] <= fewer.min() + 1e-9:
                others += f", but first with {fewer[-1]:.2f} without bootGMM on Magic, which the paper omits"
            parts.append(f"{MEASURES[measure]} {ranks[-1]:.2f}{others}")
        claims.append(
            Claim(
                f"EGMM has the best average rank, {group} C ({short_name(way)})",
                ", ".join(parts),
                all(firsts),
            )
        )
    return claims


def _closest(results: Results, plan: Plan) -> list[Claim]:
    """Data sets on which no algorithm's mean number of clusters is closer to the number of classes."""
    claims = []
    for way in WAYS:
        wins = []
        for row in plan.datasets:
            target = datasets()[row].clusters
            errors = {
                name: abs(summarise(results.values("unknown", row, name, "clusters")).mean - target)
                for name in (*peers_of("clusters"), way)
            }
            wins += [row] if errors[way] <= np.nanmin(list(errors.values())) + 1e-9 else []
        statement = f"EGMM's number of clusters is the closest to the classes on most data sets ({short_name(way)})"
        claims.append(Claim(statement, f"on {listed(wins)}", len(wins) > len(plan.datasets) / 2))
    return claims


def _friedman(results: Results, plan: Plan) -> list[Claim]:
    found = {}
    for name in GROUPS:
        table = scores(results, plan, name, PAPER_MODE)
        statistic = friedman_statistic(table.average_ranks, len(plan.datasets))
        found[name] = (statistic, friedman_critical_value(len(table.algorithms)))
    return [
        Claim(
            "The algorithms differ (Friedman, level 0.05) on every criterion",
            ", ".join(f"{name} {statistic:.1f}" for name, (statistic, _) in found.items()) + " (paper mode)",
            all(statistic > critical for statistic, critical in found.values()),
        )
    ]


def _fastest(results: Results, plan: Plan) -> list[Claim]:
    """Speed of each variant of EGMM among the evidential algorithms."""
    peers = [name for name, a in ALGORITHMS.items() if a.is_evidential and a.printed != "EGMM"]
    claims = []
    for way in (PAPER_MODE, ONE_MODEL):
        slower = []
        for row in plan.datasets:
            times = {name: summarise(results.values("cpu", row, name, "seconds")).mean for name in (*peers, way)}
            quicker = [name for name in peers if times[name] < times[way]]
            slower += [f"{row} ({name} {seconds(times[name])}, EGMM {seconds(times[way])})" for name in quicker]
        claims.append(
            Claim(
                f"EGMM is the fastest evidential algorithm on every data set ({short_name(way)})",
                f"not on {listed(slower)}" if slower else "on all of them",
                not slower,
            )
        )
    return claims


def _brain(results: Results, plan: Plan) -> list[Claim]:  # noqa: ARG001
    beaten = []
    for row in BRAINS:
        for measure, heading in MEASURES.items():
            means = {n: summarise(results.values("brain", row, n, measure)).mean for n in printed("brain").rows}
            best = max(means, key=lambda name: means[name])
            if best != "EGMM":
                beaten.append(f"{row} {heading} ({best} {means[best]:.4f}, EGMM {means['EGMM']:.4f})")
    return [
        Claim(
            "EGMM segments the brain best of ECM, BPEC and EGMM by purity, NMI and ARI",
            f"not on {listed(beaten)}" if beaten else "on every phantom",
            not beaten,
        )
    ]


CLAIMS: Mapping[frozenset[str], Callable[[Results, Plan], list[Claim]]] = {
    frozenset({"ebic"}): _examples,
    frozenset({"purity", "nmi", "ari"}): _agreement,
    frozenset({"clusters"}): _closest,
    frozenset({"nmi-unknown", "ari-unknown"}): lambda results, plan: _first(results, plan, "unknown"),
    frozenset({"purity", "nmi", "ari", "ranks"}): lambda results, plan: _first(results, plan, "known"),
    frozenset({"ranks"}): _friedman,
    frozenset({"cpu"}): _fastest,
    frozenset({"brain"}): _brain,
}
"""Claims by the tables they depend on."""


def glance_sheet(results: Results, plan: Plan, tables: set[str]) -> Sheet:
    """Every claim whose tables exist, and whether it holds."""
    sheet = Sheet("glance", "", "", ["the paper's claim", "reproduced here", "holds"])
    for needed, check in CLAIMS.items():
        if needed <= tables:
            for claim in check(results, plan):
                mark = "yes" if claim.holds else "no"
                sheet.lines.append([Text(claim.statement), Text(claim.found), Text(mark)])
    return sheet
