"""What every source of rows offers: blocks of rows in a fixed order, and sums over them."""

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

BLOCK_ROWS = 16_384
"""Rows per partial sum. Fixed, so that the number of threads never changes a result."""


class Additive(Protocol):
    """A result of one block that adds to another's."""

    def plus(self, other: Self) -> Any:
        """Return the result of both blocks together."""


Sum = TypeVar("Sum", bound=Additive)


class RowSource(Protocol):
    """Rows that can be read as often as needed, wherever they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""

    def reduce(self, function: Callable[..., Sum], aligned: Any = None) -> Sum:
        """Apply ``function(X, sample_weight[, aligned])`` to every block and add the results in block order."""
