"""The numbers printed in the paper, read from a file of its tables."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_choice

LEAST_TOLERANCE = 0.02
"""Tolerance for a mean whose printed spread is 0."""


@dataclass(frozen=True, eq=False)
class Printed:
    """A printed table.

    Attributes
    ----------
    label : str
        Its label in the paper's source.
    caption : str
        Its caption.
    rows, columns : tuple of str
        Data sets and algorithms, or other things compared.
    values : ndarray of shape (n_rows, n_columns)
        The printed means; NaN if there is no entry.
    spread : ndarray of shape (n_rows, n_columns)
        The printed spreads; NaN if there is none.
    ranks : ndarray of shape (n_rows, n_columns) or None
        The ranks printed in brackets.
    average_ranks : tuple of float or None
        Their printed averages.
    friedman : float or None
        The printed statistic.

    Examples
    --------
    >>> printed("purity").entry("Wine", "EGMM")
    (0.85, 0.13)
    """

    label: str
    caption: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: FloatArray
    spread: FloatArray
    ranks: FloatArray | None = None
    average_ranks: tuple[float, ...] | None = None
    friedman: float | None = None

    def entry(self, row: str, column: str) -> tuple[float, float]:
        """Mean and spread; NaN if not printed.

        >>> printed("cpu").entry("Magic", "bootGMM")
        (nan, nan)
        """
        if row not in self.rows or column not in self.columns:
            return float("nan"), float("nan")
        at = self.rows.index(row), self.columns.index(column)
        return float(self.values[at]), float(self.spread[at])

    def rank(self, row: str, column: str) -> float:
        """Printed rank; NaN if not printed.

        >>> printed("purity").rank("Wine", "EGMM")
        3.0
        """
        if self.ranks is None or row not in self.rows or column not in self.columns:
            return float("nan")
        return float(self.ranks[self.rows.index(row), self.columns.index(column)])

    def tolerance(self, row: str, column: str) -> float:
        """Tolerance for agreement with the printed mean: the printed spread, or 0.02 if that is 0.

        >>> printed("purity").tolerance("Seeds", "EGMM"), printed("purity").tolerance("Wine", "EGMM")
        (0.02, 0.13)
        """
        return self.entry(row, column)[1] or LEAST_TOLERANCE


@dataclass(frozen=True)
class Facts:
    """Size of a real data set.

    Examples
    --------
    >>> datasets()["Iris"]
    Facts(rows=150, features=4, clusters=3)
    """

    rows: int
    features: int
    clusters: int


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((files("egmm.reproduce") / "paper.json").read_text("utf-8"))
    return content


def _matrix(values: Any, shape: tuple[int, int]) -> FloatArray:
    if values is None:
        return np.full(shape, np.nan)
    return np.array(values, dtype=np.float64)


@cache
def printed(name: str) -> Printed:
    """Return a table as the paper printed it.

    Parameters
    ----------
    name : {'ebic', 'clusters', 'nmi-unknown', 'ari-unknown', 'purity', 'nmi', 'ari', 'cpu', 'brain'}
        Name of the table.

    Returns
    -------
    Printed

    Examples
    --------
    >>> printed("ebic").values[0]
    array([ -55.9,  -63.1,  -70.6,  -91.5, -132.3])
    """
    tables = _content()["tables"]
    check_choice("name", name, tables)
    table = dict(tables[name])
    shape = (len(table["rows"]), len(table["columns"]))
    ranks = table.get("ranks")
    return Printed(
        label=table["label"],
        caption=table["caption"],
        rows=tuple(table["rows"]),
        columns=tuple(table["columns"]),
        values=_matrix(table["values"], shape),
        spread=_matrix(table.get("spread"), shape),
        ranks=None if ranks is None else _matrix(ranks, shape),
        average_ranks=tuple(table["average_ranks"]) if "average_ranks" in table else None,
        friedman=table.get("friedman"),
    )


@cache
def datasets() -> dict[str, Facts]:
    """Return the real data sets by the paper's names.

    Returns
    -------
    dict of str to Facts

    Examples
    --------
    >>> sum(facts.rows for facts in datasets().values())
    21358
    """
    return {name: Facts(**facts) for name, facts in _content()["datasets"].items()}
