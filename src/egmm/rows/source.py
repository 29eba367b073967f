"""The interface of row sources: blocks of rows in a fixed order, and sums over them."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from egmm._checks import LARGEST, unusable

BLOCK_ROWS = 16_384
"""Rows per partial sum. Fixed, so that results do not depend on the number of threads."""


class ReadError(ValueError):
    """Rows cannot be read: a file is damaged, has changed, or holds non-numeric values."""


class UnusableRowsError(ValueError):
    """A row has no density: an entry is not finite, or too large."""


class Additive(Protocol):
    """Result of one block that can be added to another's."""

    def plus(self, other: Self) -> Any:
        """Return the sum of both results."""


Sum = TypeVar("Sum", bound=Additive)


class RowSource(Protocol):
    """Rows that can be read repeatedly, wherever they are stored."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""

    @property
    def size(self) -> tuple[float, int]:
        """Numbers of rows (infinite if counting would take a pass) and features."""

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results by `tree_sum`."""

    def first_unusable(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first entry that is not finite or too large."""

    def place(self, row: int) -> str:
        """Describe where a row is, for error messages."""


class Node(NamedTuple, Generic[Sum]):
    """The sum of a run of blocks."""

    first: int
    n_blocks: int
    value: Sum


def merge_nodes(nodes: Iterable[Node[Sum]]) -> list[Node[Sum]]:
    """Add neighbours that are the halves of an aligned run of blocks: 0-1, 2-3, 0-3, 4-5, ...

    The order of additions depends only on block numbers, so a worker can add up its own blocks and the total is still
    bit-identical.
    """
    stack: list[Node[Sum]] = []
    for node in nodes:
        last = node
        while stack and stack[-1].n_blocks == last.n_blocks and stack[-1].first % (2 * last.n_blocks) == 0:
            left = stack.pop()
            last = Node(left.first, 2 * left.n_blocks, left.value.plus(last.value))
        stack.append(last)
    return stack


def tree_sum(nodes: Iterable[Node[Sum]]) -> Sum:
    """Sum of all blocks, given in order."""
    *rest, last = merge_nodes(nodes)
    total = last.value
    for node in reversed(rest):
        total = node.value.plus(total)
    return total


def number(values: Iterable[Sum], first: int = 0) -> Iterable[Node[Sum]]:
    """Results of consecutive blocks as nodes."""
    return (Node(at, 1, value) for at, value in enumerate(values, first))


def first_unusable(blocks: Iterable[tuple[Any, ...]]) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry that is infinite or too large; NaN is a missing cell."""
    first = 0
    for X, _ in blocks:
        bad = np.argwhere(np.abs(X) >= LARGEST)
        if len(bad):
            row, column = (int(at) for at in bad[0])
            return first + row, column, float(X[row, column])
        first += len(X)
    return None


def bad_entry(rows: RowSource, names: Iterable[str] | None = None, within: str = "") -> ValueError | None:
    """Error that names the first entry that is not finite or too large; None if there is none."""
    found = rows.first_unusable()
    if found is None:
        return None
    row, column, value = found
    return unusable(value, f"{rows.place(row)}{within}", column, names)
