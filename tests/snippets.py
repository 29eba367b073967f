"""Snippets of the documentation: found, run, and their outputs written anew.

    python tests/snippets.py docs/start.md ...   # writes what the snippets print below them

An output that holds `...` is compared, but never rewritten.
"""

import contextlib
import doctest
import io
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NOT_RUN = re.compile(r"^(pip|conda|make|git|pre-commit|\.venv/bin/python) ")
"""Commands that install something or run the tests themselves."""

SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Snippet(NamedTuple):
    """A fenced block of code, and the output that the page shows below it."""

    language: str
    code: str
    shown: str | None
    line: int


def snippets(page: Path) -> Iterator[Snippet]:
    text = page.read_text(encoding="utf-8")
    fence = r"^```(python|shell|r)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?"
    for found in re.finditer(fence, text, re.DOTALL | re.MULTILINE):
        yield Snippet(found[1], found[2], found[3], text[: found.start()].count("\n") + 2)


def run_python(snippet: Snippet, names: dict[str, Any], page: Path) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec"), names)
    return out.getvalue()


def run_shell(snippet: Snippet, folder: Path) -> str:
    """Run the commands in a shell where `egmm` is this package's; ends at the first that fails."""
    lines = "\n".join(line for line in snippet.code.splitlines() if not NOT_RUN.match(line))
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    command = programs / "egmm"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m egmm "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", lines],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{snippet.code}\n{done.stderr}"
    return done.stdout


def run_r(snippet: Snippet, folder: Path) -> str:
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", snippet.code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{snippet.code}\n{done.stderr}"
    return done.stdout


def outputs(page: Path, folder: Path, languages: tuple[str, ...]) -> Iterator[tuple[Snippet, str]]:
    """Run the snippets of some languages in their order, all in one directory, Python's with shared names."""
    names: dict[str, Any] = {"__name__": "page"}
    for snippet in snippets(page):
        if snippet.language not in languages:
            continue
        if snippet.language == "python":
            yield snippet, run_python(snippet, names, page)
        else:
            yield snippet, (run_shell if snippet.language == "shell" else run_r)(snippet, folder)


def is_as_shown(shown: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(shown, printed, SHOWN)


def refresh(page: Path) -> None:
    """Write the outputs of a page's snippets below them."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for snippet, printed in outputs(page, Path(folder), ("python", "shell", "r")):
            if snippet.shown is None or is_as_shown(snippet.shown, printed):
                continue
            if "..." in snippet.shown:
                print(f"{page.name}, line {snippet.line} prints now:\n{printed}", file=sys.stderr)
                continue
            block = f"```{snippet.language}\n{snippet.code}```\n\n```text\n"
            clean = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
            text = text.replace(block + snippet.shown, block + clean, 1)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ.pop("EGMM_DATA", None)
    os.environ["MPLBACKEND"] = "Agg"
    for name in sys.argv[1:]:
        refresh(Path(name).resolve())
