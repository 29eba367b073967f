"""Layout of text files: delimiter, and whether the first line has column names."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from egmm._checks import import_optional
from egmm.rows.source import ReadError

DELIMITERS = (";", ",", "\t", " ")
"""Delimiters; semicolons first, because commas may then be decimal."""

MISSING = ("na", "n/a", "null", "none", "?", "-")
"""Spellings of missing values."""

TRUTHS = ("true", "True", "TRUE", "1", "false", "False", "FALSE", "0")
"""Spellings of booleans in Arrow."""

UNPACKING = (OSError, EOFError, zlib.error)
"""Errors raised by damaged compressed files."""

LOOK_BYTES = 1_000_000
"""Bytes read to find the first two lines."""


class Layout(NamedTuple):
    """Layout of a text file."""

    delimiter: str
    header: bool

    def arrow_options(self) -> dict[str, Any]:
        """Options for Arrow's CSV readers."""
        arrow = import_optional("pyarrow.csv", "CSV files", "arrow")
        return {
            "parse_options": arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            "read_options": arrow.ReadOptions(autogenerate_column_names=not self.header),
        }

    def names(self, stored: Sequence[str]) -> list[str]:
        """Column names without surrounding spaces; x1, x2, ... if there is no header."""
        return [name.strip() for name in stored] if self.header else [f"x{k + 1}" for k in range(len(stored))]


def layout_of(file: Path, header: bool | None = None) -> Layout:
    """Detect the layout from the first two lines.

    If `header` is None, a numeric first line is data unless it only counts the columns; an unclear one is refused.
    """
    lines = _first_lines(file)
    delimiter = _delimiter(file, lines)
    first, *rest = _records(lines, delimiter)
    if header is None and all(map(is_number, first)) and not _is_count(first):
        header = False
    if header is None and rest and _are_alike(first, rest[0]):
        raise ReadError(
            f"{file} begins with {_short(delimiter.join(first))!r}, which looks like the row below it; "
            "pass header=True (--header) if these are column names, or header=False (--no-header) if not."
        )
    return Layout(delimiter, header is not False)


def open_text(file: Path) -> IO[bytes]:
    """Open a text file, compressed by gzip if its name ends in .gz."""
    return cast("IO[bytes]", gzip.open(file)) if file.suffix.lower() == ".gz" else file.open("rb")


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # Python also accepts other digits and underscores


def _first_lines(file: Path) -> list[str]:
    try:
        with open_text(file) as stream:
            start = stream.read(LOOK_BYTES)
    except UNPACKING as error:
        raise ReadError(f"cannot read {file}: {error}.") from error
    # Incremental, because the part may end within a character.
    text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(start)
    lines = [line for line in io.StringIO(text, newline=None) if line != "\n"]
    if not lines:
        raise ReadError(f"{file} is empty.")
    if "\0" in text or "\ufffd" in lines[0]:
        raise ReadError(f"{file} must be UTF-8 text, but its first line is not; save it as UTF-8.")
    if len(start) == LOOK_BYTES:
        return lines[:-1] if len(lines) > 1 else lines
    if len(lines) == 1 and not lines[0].endswith("\n"):
        # Arrow would treat it as empty.
        raise ReadError(f"{file} is a single line without a line break; add one at the end.")
    return lines


def _delimiter(file: Path, lines: Sequence[str]) -> str:
    """Delimiter that splits the first two lines into the same number of columns; else by file suffix."""
    is_tsv = ".tsv" in file.name.lower()
    for delimiter in ("\t", *DELIMITERS) if is_tsv else DELIMITERS:
        records = _records(lines, delimiter)
        widths = {len(record) for record in records}
        # Spaces also occur in names and as padding.
        is_clear = delimiter != " " or all(map(all, records))
        if len(widths) == 1 and widths != {1} and is_clear:
            return delimiter
    words = [line.split() for line in lines[:2]]
    if len({len(line) for line in words}) == 1 and len(words[-1]) > 1 and all(map(is_number, words[-1])):
        raise ReadError(f"{file} has several spaces between columns; expected a comma, semicolon, tab or single space.")
    return "\t" if is_tsv else ","


def _records(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    try:
        return list(islice(csv.reader(lines, delimiter=delimiter), 2))
    except csv.Error:  # a field too long for Python, but not for Arrow
        return [line.split(delimiter) for line in lines[:2]]


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _are_alike(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two lines have numbers (at least one) and text in the same places; empty fields match both."""
    known = [(_is_like_number(a), _is_like_number(b)) for a, b in zip(first, second, strict=False) if a and b]
    return (True, True) in known and all(a == b for a, b in known)


def _is_count(line: Sequence[str]) -> bool:
    """Whether a line numbers the columns from 0 or 1, as exported tables without names often do."""
    return list(line) in ([str(k + first) for k in range(len(line))] for first in (0, 1))


def _is_like_number(text: str) -> bool:
    return is_number(text.replace(",", ".")) or text.strip().lower() in MISSING
