"""Progress line on standard error."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

SECONDS_BETWEEN = {True: 0.1, False: 5.0}
"""Update intervals: a terminal redraws the line, a log file gets a new line."""


class Progress:
    """Report progress in steps, with a note; silent unless `enabled`.

    Parameters
    ----------
    title : str
        Title of the work.
    total : int
        Maximum number of steps.
    enabled : bool
        Whether to write.
    """

    def __init__(self, title: str, total: int, *, enabled: bool) -> None:
        self._title, self._total = title, total
        self._stream: TextIO = sys.stderr
        # Standard error may be missing or closed.
        self._enabled = enabled and sys.stderr is not None and not self._stream.closed
        self._is_terminal = self._enabled and self._stream.isatty()
        self._blocks = _blocks(self._stream) if self._enabled else ""
        self._written = 0.0
        self._done, self._note = 0, ""

    def update(self, done: int, note: str = "", *, total: int | None = None, title: str | None = None) -> None:
        """Show that `done` steps are done; `total` and `title` may be updated."""
        self._total = self._total if total is None else total
        self._title = self._title if title is None else title
        self._done, self._note = done, note
        now = time.monotonic()
        if self._enabled and now - self._written >= SECONDS_BETWEEN[self._is_terminal]:
            self._written = now
            text = self._line(done)
            self._write(f"\r\x1b[K{text}" if self._is_terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        """Write to the stream; one that is closed, full or no longer read ends the progress, not the work."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._enabled = False

    def _line(self, filled: int) -> str:
        bar = _bar(filled, self._total, self._blocks)
        return f"{self._title} {bar} {self._done}/{self._total} {self._note}".rstrip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._enabled and (self._done or self._note):
            # A successful end is complete, even with fewer steps than the maximum.
            text = self._line(self._total if kind is None else self._done)
            self._write(f"\r\x1b[K{text}\n" if self._is_terminal else f"{text}\n")


def _bar(done: int, total: int, blocks: str, width: int = 20) -> str:
    filled = min(width, width * done // max(total, 1))
    return blocks[0] * filled + blocks[1] * (width - filled)


def _blocks(stream: TextIO) -> str:
    """Characters of the bar: done and to do."""
    try:
        "█░".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#."
    return "█░"
