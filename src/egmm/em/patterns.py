"""Rows by their missing cells: those with the same ones are passed over together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em.statistics import Units
from egmm.rows.array import ArrayRows
from egmm.rows.source import BLOCK_ROWS, Sum, number, tree_sum

MOST_BITS = 52
"""Features whose missing cells a floating-point number can tell apart."""


class Group(NamedTuple):
    """Rows with the same missing cells."""

    rows: IntArray
    """Positions of the rows."""
    is_missing: BoolArray
    """(D,)."""

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing."""
        return not self.is_missing.any()


def groups_of(is_missing: BoolArray) -> list[Group]:
    """Rows by their missing cells, given (n, D).

    >>> cells = np.array([[False, True], [False, False], [False, True]])
    >>> [(group.rows.tolist(), group.is_missing.tolist()) for group in groups_of(cells)]
    [([1], [False, False]), ([0, 2], [False, True])]
    """
    if not len(is_missing):
        return []
    keys = _keys(is_missing)
    # Rows sorted by pattern make few runs, and only their first rows are compared.
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    lengths = np.diff(np.append(starts, len(keys)))
    kinds, inverse = np.unique(keys[starts], return_inverse=True)
    if len(kinds) == len(starts):
        ends = starts + lengths
        order = np.argsort(inverse.reshape(-1))
        return [Group(np.arange(starts[run], ends[run]), is_missing[starts[run]]) for run in order]
    of_row = np.repeat(inverse.reshape(-1), lengths)
    order = np.argsort(of_row, kind="stable")
    places = np.split(order, np.cumsum(np.bincount(of_row, minlength=len(kinds)))[:-1])
    return [Group(rows, is_missing[rows[0]]) for rows in places]


def _keys(is_missing: BoolArray) -> np.ndarray:
    """One number, or for many features one string of bytes, for each row's missing cells."""
    n_features = is_missing.shape[1]
    if n_features <= MOST_BITS:
        return is_missing @ np.exp2(np.arange(n_features))
    packed = np.packbits(is_missing, axis=1)
    return packed.view(f"V{packed.shape[1]}")[:, 0]


def pattern_order(X: FloatArray) -> IntArray:
    """Order of rows that groups rows with the same missing cells."""
    return np.concatenate([group.rows for group in groups_of(np.isnan(X))])


@dataclass(frozen=True)
class Piece:
    """Rows with the same missing cells, as rows of the observed cells."""

    is_missing: BoolArray
    """(D,)."""
    X: FloatArray
    """(n, o)."""
    weight: FloatArray | None
    log_evidence: FloatArray | None
    units: Units
    """Units of all features."""

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing."""
        return not self.is_missing.any()

    @cached_property
    def scatter(self) -> FloatArray:
        """(o, o) sum of products of the observed cells in units, the same in every pass."""
        is_observed = ~self.is_missing
        rows = Units(self.units.centre[is_observed], self.units.scale[is_observed]).rows(self.X)
        return np.asarray(rows.T @ (rows if self.weight is None else rows * self.weight[:, None]))


def pieces_of(
    X: FloatArray, weight: FloatArray | None, log_evidence: FloatArray | None, units: Units
) -> Iterator[Piece]:
    """Pieces of at most a block of rows: the complete ones first, even if there are none, no rows without any cell."""
    groups = groups_of(np.isnan(X))
    if not any(group.is_complete for group in groups):
        groups.append(Group(np.empty(0, dtype=int), np.zeros(X.shape[1], dtype=bool)))
    for group in sorted(groups, key=lambda group: not group.is_complete):
        if group.is_missing.all():
            continue
        for first in range(0, max(len(group.rows), 1), BLOCK_ROWS):
            places = group.rows[first : first + BLOCK_ROWS]
            rows, own_weight, own_evidence = rows_at(places, X, weight, log_evidence)
            rows = rows if group.is_complete else np.ascontiguousarray(rows[:, ~group.is_missing])
            yield Piece(group.is_missing, rows, own_weight, own_evidence, units)


def rows_at(
    places: IntArray, X: FloatArray, weight: FloatArray | None, log_evidence: FloatArray | None
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """Some of the rows, with their weights and evidence; without a copy if they are contiguous."""
    is_run = len(places) > 0 and places[-1] - places[0] + 1 == len(places)
    at = slice(int(places[0]), int(places[-1]) + 1) if is_run else places
    return (
        X[at],
        None if weight is None else weight[at],
        None if log_evidence is None else log_evidence[at],
    )


class PatternRows(NamedTuple):
    """Rows in memory by their missing cells, sorted out once for all passes."""

    rows: ArrayRows
    pieces: list[Piece]

    @classmethod
    def of(cls, rows: ArrayRows, units: Units) -> "PatternRows | ArrayRows":
        """The rows in pieces; the rows as they are where pieces would need more memory."""
        pieces = list(pieces_of(rows.X, rows.sample_weight, None, units))
        return cls(rows, pieces) if len(pieces) * rows.X.shape[1] <= len(rows.X) else rows

    def reduce(self, function: Callable[[Piece], Sum]) -> Sum:
        """Apply a function to every piece and add the results by `tree_sum`."""
        return tree_sum(number(self.rows.spread(function, ((piece,) for piece in self.pieces))))
