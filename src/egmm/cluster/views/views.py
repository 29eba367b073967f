"""Several views of the same rows, side by side."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, check_integer, reading_numbers


class Views(NamedTuple):
    """Views joined into one table."""

    X: Any
    """All columns side by side; a single table unchanged."""
    widths: list[int]
    """Columns of each view."""

    @property
    def slices(self) -> list[slice]:
        """Columns of each view."""
        ends = np.cumsum(self.widths)
        return [slice(int(end) - width, int(end)) for end, width in zip(ends, self.widths, strict=True)]


def is_listed(X: Any) -> bool:
    """Whether X is a list of tables rather than of rows."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(hasattr(view, "shape") and view.ndim == 2 for view in X)


def joined(X: Any, widths: Sequence[int] | None) -> Views:
    """Join views side by side, or split a table by widths."""
    if is_listed(X):
        return _side_by_side(X)
    if widths is None:
        return Views(X, [-1])
    sizes = [check_integer(f"views[{at}]", width, 1) for at, width in enumerate(widths)]
    return Views(X, sizes)


def _side_by_side(views: Sequence[Any]) -> Views:
    lengths = [len(view) for view in views]
    if len(set(lengths)) > 1:
        raise ValueError(f"All views in X must have the same number of rows, got {', '.join(map(str, lengths))}.")
    tables: list[FloatArray] = []
    for view in views:
        with reading_numbers(view):
            tables.append(np.asarray(view, dtype=np.float64))
    return Views(np.hstack(tables), [table.shape[1] for table in tables])


def checked_widths(widths: list[int], n_columns: int) -> list[int]:
    """Validate the widths of the views, which must add up to all columns."""
    if widths == [-1]:
        return [n_columns]
    if sum(widths) != n_columns:
        raise ValueError(f"views={widths} must add up to the {n_columns} columns of X, but give {sum(widths)}.")
    return widths
