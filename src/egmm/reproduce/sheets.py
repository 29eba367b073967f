"""Tables as data: reproduced and printed values, before formatting."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from egmm.reproduce.paper import Printed

BETTER, WORSE = "▲", "▼"
"""Marks of means outside the printed spread."""


class Summary(NamedTuple):
    """Mean and standard deviation over runs; NaN without runs."""

    mean: float
    sd: float
    n: int


def summarise(values: Sequence[float]) -> Summary:
    """Mean and standard deviation (divisor n - 1) of runs.

    >>> summarise([1.0, 3.0])
    Summary(mean=2.0, sd=1.4142135623730951, n=2)
    """
    if not values:
        return Summary(float("nan"), float("nan"), 0)
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Summary(float(np.mean(values)), sd, len(values))


class Text(NamedTuple):
    """A cell: the reproduced value and the printed one below; either may be empty."""

    ours: str
    paper: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Number:
    """A number of a table, for the file of all numbers."""

    table: str
    row: str
    column: str
    measure: str
    value: float
    sd: float = float("nan")
    runs: int = 1
    rank: float = float("nan")
    printed: float = float("nan")
    printed_sd: float = float("nan")
    printed_rank: float = float("nan")
    verdict: str = ""


@dataclass
class Sheet:
    """A table with its texts.

    Attributes
    ----------
    name : str
        As in ``--only table:name``.
    title : str
        Heading.
    intro : str
        Introduction.
    head : list of str
        Names of the columns.
    lines : list of list of Text
        The cells.
    notes : list of str
        Remarks on single numbers.
    numbers : list of Number
        The numbers behind the cells.
    """

    name: str
    title: str
    intro: str
    head: list[str]
    lines: list[list[Text]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)


def verdict(mean: float, paper: Printed, row: str, column: str, *, target: float | None = None) -> str:
    """Compare a mean, rounded like the printed one, with it: agrees, better, worse, or new.

    Higher is better, or closer to `target` if given.
    """
    value = paper.entry(row, column)[0]
    if np.isnan(value):
        return "new"
    if np.isnan(mean):
        return "missing"
    difference = round(mean, 2) - value
    if abs(difference) <= paper.tolerance(row, column) + 1e-9:
        return "agrees"
    gain = difference if target is None else abs(value - target) - abs(mean - target)
    return "better" if gain > 0 else "worse"


def mark_of(judgement: str) -> str:
    """Mark a deviation.

    >>> mark_of("better"), mark_of("agrees")
    ('▲', '')
    """
    return {"better": BETTER, "worse": WORSE}.get(judgement, "")


def with_spread(mean: float, sd: float, rank: float = float("nan"), digits: int = 2) -> str:
    """Format a mean as in the paper, with its rank in brackets.

    >>> with_spread(0.8213, 0.013, 2.5), with_spread(4.0, 0.0, digits=1), with_spread(float("nan"), 0.0)
    ('0.82 ± 0.01 (2.5)', '4.0 ± 0', '--')
    """
    if np.isnan(mean):
        return "--"
    spread = "" if np.isnan(sd) else " ± 0" if round(sd, 2) == 0 else f" ± {sd:.2f}"
    # Adding zero removes the sign of a rounded -0.0.
    return f"{round(mean, digits) + 0.0:.{digits}f}{spread}{'' if np.isnan(rank) else f' ({rank:g})'}"


def seconds(value: float) -> str:
    """Format a time with three digits.

    >>> seconds(0.01234), seconds(2.3456), seconds(239.8)
    ('12.3 ms', '2.35 s', '240 s')
    """
    if np.isnan(value):
        return "--"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s"


def listed(names: Sequence[Any]) -> str:
    """Join names with commas, or "none".

    >>> listed(["FCM", "ECM"]), listed([])
    ('FCM, ECM', 'none')
    """
    return ", ".join(str(name) for name in names) or "none"
