"""The command `egmm`: `demo`, `fit`, `predict`, `select`, `compare`, `segment`, `data`, `reproduce`, `info`."""

import codecs
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect."""

UNREAD = 141
"""Exit code after a broken pipe, as shells expect."""

PLAIN = {"█": "#", "░": ".", "–": "-", "−": "-", "∅": "{}", "œ": "oe", "→": "->", "…": "..."}
"""ASCII replacements for characters that the terminal's encoding lacks."""


def main() -> None:
    """Entry point of the command ``egmm``."""
    try:
        prepare_streams()
        with handling_interrupts():
            from egmm.cli.app import app  # noqa: PLC0415 - typer and rich are an extra

            app(prog_name="egmm")
    except ModuleNotFoundError as error:
        if error.name in {"typer", "rich"}:
            sys.exit("The command line needs typer and rich: pip install 'egmm[cli]'.")
        raise
    except KeyboardInterrupt:
        # Ctrl-C during imports, before any command runs.
        sys.stderr.write("Error: Stopped; nothing was written.\n")
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        # Typer and rich exit with 1 on a broken pipe in help.
        if _is_due_to(end, BrokenPipeError):
            discard(sys.stdout)
            sys.exit(UNREAD)
        raise
    except OSError as error:
        # No room for help or version; `guarded` handles the errors of commands.
        discard(sys.stdout)
        with suppress(OSError):
            sys.stderr.write(f"Error: {error.strerror or error}.\n")
        sys.exit(1)
    finally:
        # Progress that could not be written is still in the buffer, and Python would exit with 120.
        try:
            sys.stderr.flush()
        except OSError:
            discard(sys.stderr)


@contextmanager
def handling_interrupts() -> Iterator[None]:
    """Make Ctrl-C end the command, at the latest before it writes (`check_interrupts`).

    Python ignores exceptions in finalisers, and libraries may ignore exceptions while they are imported.
    """
    _interrupts.clear()
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    is_ours = handler is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if is_ours:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _ignored
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, handler)
            sys.unraisablehook = hook


def check_interrupts() -> None:
    """Raise if the command was interrupted, before it writes."""
    if _interrupts:
        raise KeyboardInterrupt


_interrupts: list[int] = []
"""Pending interrupts of the running command."""


def _interrupt(number: int, _frame: object) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


def _ignored(what: Any) -> None:
    """Hide Python's message about an ignored interrupt, which is handled before anything is written."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)


def prepare_streams() -> None:
    """Make standard streams safe: closed streams discard output, and unencodable characters are replaced."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # Otherwise the next opened file would become standard output.
    os.close(descriptor)
    codecs.register_error("egmm.plain", _plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Python has no stream for a closed descriptor, as after `2>&-`.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="egmm.plain")


def discard(stream: Any) -> None:
    """Let a standard stream lead nowhere, so that a final flush does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace unencodable characters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    escaped = (c.encode("ascii", "backslashreplace").decode() for c in found)
    return "".join(PLAIN.get(c, text) for c, text in zip(found, escaped, strict=True)), error.end


def _is_due_to(error: BaseException, kind: type[BaseException]) -> bool:
    cause = error.__context__
    return cause is not None and (isinstance(cause, kind) or _is_due_to(cause, kind))
