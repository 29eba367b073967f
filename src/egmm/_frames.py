"""Data frames of the caller's library: row names, and tables."""

import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import check_choice, import_optional

LIBRARIES = ("pandas", "polars")


class RowNames(NamedTuple):
    """Row names, and the library of their table."""

    names: Any
    """A pandas Index, or a list or array of names; None if rows are only numbered."""
    library: str
    """'pandas', 'polars', or empty for arrays."""

    def take(self, rows: Any) -> "RowNames":
        """Names of some rows, selected by any array index."""
        if self.names is None:
            return self
        chosen = np.arange(len(self.names))[rows]
        picked = self.names[np.atleast_1d(chosen)]
        return RowNames(picked, self.library)


def row_names(X: Any) -> RowNames | None:
    """Names of the rows of a data frame, without importing its library; None for anything else."""
    library = type(X).__module__.partition(".")[0]
    if library == "pandas" and "pandas" in sys.modules and hasattr(X, "index"):
        return RowNames(X.index, "pandas")
    if library == "polars" and hasattr(X, "columns"):
        return RowNames(None, "polars")
    return None


def given_names(index: Any, n_rows: int) -> RowNames | None:
    """Validate given row names, one per row."""
    if index is None:
        return None
    if isinstance(index, RowNames):
        names = index
    else:
        is_pandas = type(index).__module__.partition(".")[0] == "pandas"
        if is_pandas and hasattr(index, "index"):  # a Series: its values
            index = index.to_numpy()
        names = RowNames(index if is_pandas and hasattr(index, "get_loc") else np.asarray(index), "")
    if names.names is not None and len(names.names) != n_rows:
        raise ValueError(f"index must have {n_rows} entries, one per row, got {len(names.names)}.")
    return names


def make_frame(columns: Mapping[str, Any], names: RowNames | None, library: str | None) -> Any:
    """Make a data frame of columns; None means the library of the rows, else pandas."""
    chosen = library or (names.library if names is not None else "") or "pandas"
    check_choice("library", chosen, LIBRARIES)
    if chosen == "polars":
        polars = import_optional("polars", "Data frames of polars")
        # polars has no row names: they become a column.
        known = {} if names is None or names.names is None else {_index_name(names): np.asarray(names.names)}
        return polars.DataFrame({**known, **columns})
    pandas = import_optional("pandas", "Data frames")
    return pandas.DataFrame(dict(columns), index=None if names is None else names.names)


def _index_name(names: RowNames) -> str:
    return str(getattr(names.names, "name", None) or "row")


def joined(parts: Sequence[RowNames | None]) -> RowNames | None:
    """Names of concatenated rows; None unless all have names."""
    if any(part is None or part.names is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    first = known[0]
    if all(hasattr(part.names, "append") for part in known):  # pandas
        return RowNames(first.names.append([part.names for part in known[1:]]), first.library)
    return RowNames(np.concatenate([np.asarray(part.names) for part in known]), first.library)


def grid_html(title: str, corner: str, lines: Sequence[Any], columns: Mapping[str, Sequence[str]], notes: Any) -> str:
    """Make a small HTML table with one line per entry of `lines`, one column per name, and notes below."""
    head = "".join(f"<th>{escape(name)}</th>" for name in (corner, *columns))
    cells = zip(*columns.values(), strict=True)
    body = "".join(
        f"<tr><th>{escape(str(line))}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for line, row in zip(lines, cells, strict=True)
    )
    below = "".join(f"<br>{escape(note)}" for note in notes)
    return (
        f"<div><p>{escape(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<p>{below.removeprefix('<br>')}</p></div>"
    )
