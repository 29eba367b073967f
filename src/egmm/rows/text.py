"""How a text file of rows is laid out: what stands between its columns, and whether it begins with their names."""

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
"""What may stand between columns; semicolons first, because commas between them are decimal."""

MISSING = ("na", "n/a", "null", "none", "?", "-")
"""What stands in place of a number that is not known."""

TRUTHS = ("true", "True", "TRUE", "1", "false", "False", "FALSE", "0")
"""What Arrow takes for true and false."""

UNPACKING = (OSError, EOFError, zlib.error)
"""What reading a damaged packed file raises."""

LOOK_BYTES = 1_000_000
"""Read of a file to see its first two lines."""


class Layout(NamedTuple):
    """What must be known of a text file to read it."""

    delimiter: str
    header: bool

    def arrow_options(self) -> dict[str, Any]:
        """Return options of Arrow's readers of CSV files."""
        arrow = import_optional("pyarrow.csv", "CSV files", "arrow")
        return {
            "parse_options": arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            "read_options": arrow.ReadOptions(autogenerate_column_names=not self.header),
        }

    def names(self, stored: Sequence[str]) -> list[str]:
        """Return the columns' names as people write them, without blanks around them; x1, x2, ... if they have none."""
        return [name.strip() for name in stored] if self.header else [f"x{k + 1}" for k in range(len(stored))]


def layout_of(file: Path, header: bool | None = None) -> Layout:
    """Look at a file's first two lines.

    Where `header` is None, a first line of numbers is a row, unless they only count the columns; one that may as well
    be a row as names is refused.
    """
    lines = _first_lines(file)
    delimiter = _delimiter(file, lines)
    first, *rest = _records(lines, delimiter)
    if header is None and all(map(is_number, first)) and not _is_count(first):
        header = False
    if header is None and rest and _are_alike(first, rest[0]):
        raise ReadError(
            f"{file} begins with {_short(delimiter.join(first))!r}, which looks like the row below it: "
            "are these the columns' names, or a row? Say header=True (--header) or header=False (--no-header)."
        )
    return Layout(delimiter, header is not False)


def open_text(file: Path) -> IO[bytes]:
    """Open a text file, packed by gzip if its name says so."""
    return cast("IO[bytes]", gzip.open(file)) if file.suffix.lower() == ".gz" else file.open("rb")


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # Python takes other digits, too, and underscores between them


def _first_lines(file: Path) -> list[str]:
    try:
        with open_text(file) as stream:
            start = stream.read(LOOK_BYTES)
    except UNPACKING as error:
        raise ReadError(f"cannot read {file}: {error}.") from error
    # Incremental, because the part may end within a letter.
    text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(start)
    lines = [line for line in io.StringIO(text, newline=None) if line != "\n"]
    if not lines:
        raise ReadError(f"{file} is empty.")
    if "\0" in text or "\ufffd" in lines[0]:
        raise ReadError(f"{file} must be text in UTF-8, but its first line is not; save it as UTF-8.")
    if len(start) == LOOK_BYTES:
        return lines[:-1] if len(lines) > 1 else lines
    if len(lines) == 1 and not lines[0].endswith("\n"):
        # Arrow would call it empty.
        raise ReadError(f"{file} is a single line without a line break; write one at its end.")
    return lines


def _delimiter(file: Path, lines: Sequence[str]) -> str:
    """What divides the first two lines into equally many columns; where nothing does, what the file's name says."""
    is_tsv = ".tsv" in file.name.lower()
    for delimiter in ("\t", *DELIMITERS) if is_tsv else DELIMITERS:
        records = _records(lines, delimiter)
        widths = {len(record) for record in records}
        # Blanks are also part of names and fill up columns.
        is_clear = delimiter != " " or all(map(all, records))
        if len(widths) == 1 and widths != {1} and is_clear:
            return delimiter
    words = [line.split() for line in lines[:2]]
    if len({len(line) for line in words}) == 1 and len(words[-1]) > 1 and all(map(is_number, words[-1])):
        raise ReadError(f"{file} has several blanks between columns; expected a comma, semicolon, tab or one blank.")
    return "\t" if is_tsv else ","


def _records(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    try:
        return list(islice(csv.reader(lines, delimiter=delimiter), 2))
    except csv.Error:  # a field longer than Python reads: Arrow does
        return [line.split(delimiter) for line in lines[:2]]


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _are_alike(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two lines have numbers, at least one, and text in the same places; a place left empty may be either."""
    known = [(_is_like_number(a), _is_like_number(b)) for a, b in zip(first, second, strict=False) if a and b]
    return (True, True) in known and all(a == b for a, b in known)


def _is_count(line: Sequence[str]) -> bool:
    """Whether a line counts the columns from 0 or 1, as a table without names is often written."""
    return list(line) in ([str(k + first) for k in range(len(line))] for first in (0, 1))


def _is_like_number(text: str) -> bool:
    return is_number(text.replace(",", ".")) or text.strip().lower() in MISSING
