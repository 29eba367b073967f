"""Columns to cluster: text, dates, constants and identifiers are skipped unless requested."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray
from egmm.cli.parsing import Source
from egmm.cli.screen import CommandError, spaced
from egmm.rows.arrow import index_notes
from egmm.rows.text import MISSING, is_number

DATE = re.compile(r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d.*)?$")
ID_NAME = re.compile(
    r"(^|[\W_])(id|uid|uuid|index|idx|key|rownames?|rowid|row)$|^(nr|no|number|name|names)\.?$", re.IGNORECASE
)
"""Names of identifier columns."""

THOUSANDS = re.compile(r"^[+-]?\d{1,3}(,\d{3})+$")
DECIMAL_COMMA = re.compile(r"^[+-]?\d*,\d+([eE][+-]?\d+)?$")

MOST_WORDS = 0.5
"""A column with a larger share of non-numeric entries is text; with a smaller one it contains an error."""


class Parsed(NamedTuple):
    """A column parsed as numbers where possible."""

    numbers: FloatArray
    """NaN where an entry is missing or not a number."""
    is_word: BoolArray
    """Entries that are neither missing nor a number."""
    is_date: bool = False

    @property
    def is_text(self) -> bool:
        """Whether this is a text column."""
        known = self.is_word | ~np.isnan(self.numbers)
        return bool(self.is_word.sum() > MOST_WORDS * known.sum())


class Roles(NamedTuple):
    """Roles of the columns of a table.

    Attributes
    ----------
    features : dict of str to ndarray
        Columns to cluster, as numbers.
    row_names : str or None
        Column that names the rows.
    left_out : dict of str to str
        Skipped columns, and why.
    notes : list of str
        Messages about them.
    """

    features: dict[str, FloatArray]
    row_names: str | None
    left_out: dict[str, str]
    notes: list[str]


def parse(values: Any) -> Parsed:
    """Parse a column as numbers, with decimal commas; missing entries are NaN."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return Parsed(array.astype(np.float64), np.zeros(len(array), dtype=bool))
    if array.dtype.kind in "Mm":
        return Parsed(np.full(len(array), np.nan), ~np.isnat(array), is_date=True)
    texts = ["" if is_missing(value) else text_of(value).strip() for value in array]
    known = [text for text in texts if text]
    if _has_decimal_commas(known):
        texts = [text.replace(",", ".") for text in texts]
    numbers = np.array([float(text) if text and is_number(text) else np.nan for text in texts], dtype=np.float64)
    is_word = np.array([bool(text) and not is_number(text) for text in texts], dtype=bool)
    return Parsed(numbers, is_word, bool(known) and all(DATE.match(text) for text in known))


def is_missing(value: Any) -> bool:
    """Whether an entry is missing."""
    if value is None or value != value:  # noqa: PLR0124  NaN
        return True
    text = text_of(value).strip().lower()
    return not text or text == "nan" or text in MISSING


def text_of(value: Any) -> str:
    """Text of an entry; booleans are numbers, and bytes are text not in UTF-8."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _has_decimal_commas(texts: Sequence[str]) -> bool:
    """Whether numbers have decimal commas; 1,234 alone may be a thousand."""
    with_comma = [text for text in texts if "," in text]
    others = [text for text in texts if "," not in text]
    return (
        bool(with_comma)
        and all(DECIMAL_COMMA.match(text) for text in with_comma)
        and all(is_number(text) for text in others)
        and not all(THOUSANDS.match(text) for text in with_comma)
    )


def assign_roles(source: Source, table: Mapping[str, Any], index: Sequence[str]) -> Roles:
    """Decide the role of every column; options take precedence."""
    given = [name for name in (source.label, source.id) if name is not None]
    for name in (*(source.columns or ()), *given, *source.exclude):
        if name not in table:
            raise CommandError(f"{source.path} has no column {name!r}; its columns are {listing(list(table))}.")
    if source.columns is not None:
        return Roles({name: parse(table[name]).numbers for name in source.columns}, source.id, {}, [])
    others = [name for name in table if name not in (*given, *source.exclude, *index)]
    parsed = {name: parse(table[name]) for name in others}
    left_out: dict[str, str] = {}
    row_names = source.id or next((name for name in index if _names_rows(name, table[name])), None)
    for name in others:
        kind = _kind(name, table[name], parsed[name])
        if kind == "identifier" and row_names is None:
            row_names = name
        elif kind:
            left_out[name] = kind
    features = {name: parsed[name].numbers for name in others if name not in left_out and name != row_names}
    notes = [*index_notes([name for name in index if name not in (source.label, row_names)])]
    hint = "" if source.label is not None else " Use --label for known classes."
    notes += column_notes(list(features), None if source.id is not None else row_names, left_out, hint)
    if not features:
        raise no_columns(source, left_out)
    return Roles(features, row_names, left_out, notes)


def _kind(name: str, values: Any, parsed: Parsed) -> str:
    """Why a column is skipped; empty if it is clustered."""
    if parsed.is_date:
        return "date"
    if is_identifier(name, values):
        return "identifier"
    if parsed.is_text:
        return "text"
    known = parsed.numbers[~np.isnan(parsed.numbers)]
    if len(known) == 0 and not parsed.is_word.any():
        return "empty"
    if len(known) == len(parsed.numbers) and len(known) > 1 and (known == known[0]).all():
        return "constant"
    return ""


def _names_rows(name: str, values: Any) -> bool:
    """Whether an index is more than a row number: it has a name, or is text, as written by R."""
    has_name = bool(name) and not name.startswith("Unnamed: ")
    return has_name or (np.asarray(values).dtype.kind not in "fiub" and is_identifier(name, values))


def is_identifier(name: str, values: Any) -> bool:
    """Whether a column identifies rows: distinct text, or distinct integers that count or have such a name."""
    array = np.asarray(values)
    if len(array) < 3 or array.dtype.kind in "fbMm":
        return False
    if array.dtype.kind in "iu":
        if len(np.unique(array)) < len(array):
            return False
        is_count = int(array.max()) - int(array.min()) == len(array) - 1 and bool((np.diff(array) == 1).all())
        return bool(ID_NAME.search(name)) or (is_count and int(array[0]) in (0, 1))
    if any(is_missing(value) for value in array):
        return False
    texts = [text_of(value) for value in array]
    words = sum(not is_number(text.replace(",", ".")) for text in texts)
    return words > MOST_WORDS * len(texts) and len(set(texts)) == len(texts)


def no_columns(source: Source, left_out: Mapping[str, str]) -> CommandError:
    """Error if no column is left to cluster."""
    besides = "" if source.label is None else f" besides the label {source.label!r}"
    why = f": {_reasons(left_out)}; select columns with --columns" if left_out else ""
    return CommandError(f"{source.path} has no column to cluster{besides}{why}.")


def column_notes(
    features: Sequence[str], row_names: str | None, left_out: Mapping[str, str], hint: str = ""
) -> list[str]:
    """Messages about skipped columns."""
    notes = []
    if left_out:
        more = hint if "text" in left_out.values() else ""
        notes.append(f"Skipped: {_reasons(left_out)}; select columns with --columns.{more}")
    if row_names is not None:
        which = repr(row_names) if row_names else "the column without a name"
        notes.append(f"Rows are named by {which}, which is not clustered; use --id for another column.")
    if notes:
        notes.insert(0, f"Clustered: {listing(features)}.")
    return notes


def _reasons(left_out: Mapping[str, str]) -> str:
    kinds = list(dict.fromkeys(left_out.values()))
    return "; ".join(f"{listing([n for n, k in left_out.items() if k == kind])} ({kind})" for kind in kinds)


def incomplete_notes(n_cells: int, n_incomplete: int, n_rows: int) -> list[str]:
    """Message about missing cells that the fit handles."""
    cells = f"{spaced(n_cells)} missing cell{'' if n_cells == 1 else 's'}"
    rows = f"{spaced(n_incomplete)} of {spaced(n_rows)} rows"
    return [f"{cells} in {rows}: the fit uses the other cells of these rows (--missing drop skips them)."]


def missing_notes(n_dropped: int, n_rows: int) -> list[str]:
    """Message about rows dropped for missing cells."""
    if n_dropped == 0:
        return []
    verb = "has missing cells and was" if n_dropped == 1 else "have missing cells and were"
    return [f"{spaced(n_dropped)} of {spaced(n_rows)} rows {verb} dropped (--missing drop)."]


def listing(names: Sequence[str], most: int = 12) -> str:
    """Names joined by commas, shortened if there are many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
