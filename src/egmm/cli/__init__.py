"""The command `egmm`: `demo`, `fit`, `predict`, `select`, `compare`, `segment`, `data`, `reproduce`, `info`."""

import codecs
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect."""

UNREAD = 141
"""Exit code where the reader of the output has gone, as shells expect."""

PLAIN = {"█": "#", "░": ".", "–": "-", "−": "-", "∅": "{}", "œ": "oe", "→": "->", "…": "..."}
"""What stands for characters of ours where the terminal's encoding has none of them."""


def main() -> None:
    """Run the command line; what the installed command ``egmm`` calls."""
    try:
        prepare_streams()
        with heeding_interrupts():
            from egmm.cli.app import app  # noqa: PLC0415 - typer and rich are an extra

            app(prog_name="egmm")
    except ModuleNotFoundError as error:
        if error.name in {"typer", "rich"}:
            sys.exit("The command line needs typer and rich: pip install 'egmm[cli]'.")
        raise
    except KeyboardInterrupt:
        # Imports take half a second, before any command can tell.
        sys.stderr.write("Error: Stopped; nothing was written.\n")
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        # Typer and rich end the help with 1 where nobody reads it.
        if _is_due_to(end, BrokenPipeError):
            forget_output()
            sys.exit(UNREAD)
        raise


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Have Ctrl-C end the command wherever it strikes, at the latest before it writes (`check_interrupts`).

    Python ignores what is raised while an object is being removed, and libraries may ignore what is raised while they
    are imported.
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
    """End a command that is about to write although it was interrupted."""
    if _interrupts:
        raise KeyboardInterrupt


_interrupts: list[int] = []
"""Interrupts of the command that is running."""


def _interrupt(number: int, _frame: object) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


def _ignored(what: Any) -> None:
    """Say nothing of an interrupt that Python ignores: it is known, and heeded before anything is written."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)


def prepare_streams() -> None:
    """Make standard streams that take anything: closed ones lead nowhere, and no character is beyond the encoding."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # Else the next file that is opened would be taken for standard output.
    os.close(descriptor)
    codecs.register_error("egmm.plain", _plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Python has no stream where the descriptor was closed, as by `2>&-`.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="egmm.plain")


def forget_output() -> None:
    """Lead standard output nowhere: what is still to be written must not fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace what cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    escaped = (c.encode("ascii", "backslashreplace").decode() for c in found)
    return "".join(PLAIN.get(c, text) for c, text in zip(found, escaped, strict=True)), error.end


def _is_due_to(error: BaseException, kind: type[BaseException]) -> bool:
    cause = error.__context__
    return cause is not None and (isinstance(cause, kind) or _is_due_to(cause, kind))
