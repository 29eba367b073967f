"""Output of commands: results on standard output, everything else on standard error."""

import codecs
import functools
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from egmm._checks import printable
from egmm.cli import INTERRUPTED, UNREAD, discard

FAILED = 1

RISKY = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters to escape for a terminal although JSON does not: control, bidirectional and surrogate characters."""

EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)
"""Errors of bad data, failed fits, unwritable files and missing extras; any other is a bug."""

Command = TypeVar("Command", bound=Callable[..., None])


class CommandError(ValueError):
    """A user error, with a full sentence as message."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a command that has stored results; the message tells where."""


def message(text: str, kind: str = "") -> None:
    """Write a line to standard error."""
    styles = {"error": "bold red", "warning": "yellow", "": "dim"}
    prefix = {"error": "Error: ", "warning": "Warning: ", "": ""}[kind]
    try:
        _Screen(stderr=True).print(
            Text(prefix, style=styles[kind]) + Text(printable(text), style="" if kind else "dim"), soft_wrap=True
        )
    except OSError:  # Nobody reads it, or the disk is full: results do not depend on it.
        discard(sys.stderr)


def guarded(command: Command) -> Command:
    """End a command with an exit code and a message; ``--debug`` shows the traceback."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            with _warnings_as_messages(quiet=bool(options.get("quiet"))):
                command(*args, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            # As with `| head`.
            discard(sys.stdout)
            raise typer.Exit(UNREAD) from None
        except KeyboardInterrupt as error:
            message(str(error) if isinstance(error, Interrupted) else "Stopped; nothing was written.", "error")
            raise typer.Exit(INTERRUPTED) from None
        except EXPECTED as error:
            if options.get("debug"):
                traceback.print_exc()
            message(_sentence(error), "error")
            raise typer.Exit(FAILED) from None

    return run  # type: ignore[return-value]


@contextmanager
def _warnings_as_messages(*, quiet: bool) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # from an import interrupted by Ctrl-C
        seen: set[str] = set()

        def show(text: Warning | str, *_: Any) -> None:
            if not quiet and str(text) not in seen:
                seen.add(str(text))
                message(str(text), "warning")

        warnings.showwarning = show  # type: ignore[assignment]
        # Worker processes would print raw warnings; their results hold the same information.
        os.environ["PYTHONWARNINGS"] = "ignore"
        yield


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError):
        return "Not enough memory."
    return str(error) or type(error).__name__


class _Terminal:
    """Standard output that escapes control characters of names."""

    def write(self, text: str) -> None:
        sys.stdout.write(printable(text))


def check_output_for_rows(*, as_machine: bool) -> None:
    """Raise if rows cannot go to standard output."""
    if as_machine:
        raise CommandError("--json needs --out; otherwise the rows go to standard output.")
    if getattr(sys.stdout, "name", None) == os.devnull:
        raise CommandError("Standard output is closed; use --out to write to a file.")


def output_for_text() -> Any:
    """Standard output for tables; only files and pipes get names as they are."""
    return _Terminal() if sys.stdout.isatty() else sys.stdout


def as_json(result: dict[str, Any]) -> None:
    """Write the result as one JSON object; NaN becomes null."""
    is_unicode = codecs.lookup(sys.stdout.encoding or "ascii").name.startswith("utf")
    text = json.dumps(_plain(result), indent=2, ensure_ascii=not is_unicode, allow_nan=False)
    sys.stdout.write(RISKY.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value.item() if hasattr(value, "item") else value


class _Screen(Console):
    """Console for standard output or standard error."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(highlight=False, stderr=stderr)

    def on_broken_pipe(self) -> None:
        """Let the command handle a broken pipe, since it also writes without this class."""
        raise BrokenPipeError


def say(text: str = "", style: str = "") -> None:
    """Write a paragraph to standard output."""
    _Screen().print(Text(printable(text), style=style))


def show_table(columns: Sequence[str], lines: Sequence[Sequence[str]], *, title: str = "", marked: int = -1) -> None:
    """Write a table to standard output; the first column and unnamed ones are text, the rest numbers."""
    if title:
        say(title, "bold")
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for at, name in enumerate(columns):
        table.add_column(
            escape(printable(name)), justify="left" if at == 0 or not name else "right", header_style="bold"
        )
    for at, line in enumerate(lines):
        table.add_row(*(escape(printable(cell)) for cell in line), style="bold green" if at == marked else "")
    _Screen().print(table)


def bar(share: float, width: int = 20) -> str:
    """Draw a share of one as blocks."""
    return "█" * round(width * min(max(share, 0.0), 1.0))


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "cluster"), counted(1200, "row")
    ('1 cluster', '1 200 rows')
    """
    return f"{spaced(number)} {noun}{'' if number == 1 else 's'}"


def spaced(count: int) -> str:
    """Group the digits of a count by threes."""
    return f"{count:,}".replace(",", " ")
