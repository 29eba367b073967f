"""Standard streams that are closed, unread, full or of an old encoding; names that would command a terminal."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.conftest import environment
from egmm import EGMM
from egmm.cli import UNREAD

pytest.importorskip("pyarrow")
pytest.importorskip("typer")

FIT = ["fit", "rows.csv", "-c", "2", "--label", "side", "--out", "made", "--no-plots"]
ESCAPE = "\x1b[31m"


def shell(folder: Path, redirection: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a shell, with streams as the redirection makes them."""
    command = f'"$0" -m egmm "$@" {redirection}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command, sys.executable, *arguments],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        timeout=120,
        check=False,
    )


posix = pytest.mark.skipif(sys.platform == "win32", reason="redirections of a POSIX shell")


@posix
@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_keep_a_fit_from_being_written(tmp_path: Path, rows: Path, closed: str) -> None:
    result = shell(tmp_path, closed, *FIT)
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr
    assert json.loads((tmp_path / "made" / "model.json").read_text())["format"] == "egmm.AutoEGMM/1"
    assert rows.read_text().startswith("width,height,side\n")


@posix
def test_rows_for_a_closed_output_are_refused(tmp_path: Path, rows: Path) -> None:
    assert shell(tmp_path, "", *FIT, "-q").returncode == 0
    result = shell(tmp_path, ">&-", "predict", "made/model.json", "rows.csv")
    assert (result.returncode, result.stderr) == (
        1,
        b"Error: Standard output is closed; use --out to write to a file.\n",
    )


@posix
@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"]])
def test_help_that_nobody_reads_ends_as_documented(tmp_path: Path, arguments: list[str]) -> None:
    # The reader is gone before the help is written: `exec` closes the pipe at once.
    result = shell(tmp_path, "| exec true; exit ${PIPESTATUS[0]}", *arguments)
    assert (result.returncode, result.stderr) == (UNREAD, b"")


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_output_without_room_is_an_error(tmp_path: Path, rows: Path, options: list[str]) -> None:
    result = shell(tmp_path, "> /dev/full", *FIT, *options)
    assert result.returncode == 1
    assert b"Error: " in result.stderr
    assert b"No space left on device" in result.stderr
    assert b"Traceback" not in result.stderr
    assert b"Exception ignored" not in result.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_an_encoding_without_blocks_gets_plain_characters(tmp_path: Path, rows: Path, encoding: str) -> None:
    result = shell(tmp_path, "", *FIT, PYTHONIOENCODING=encoding)
    assert result.returncode == 0, result.stderr
    shown = result.stdout.decode(encoding)
    assert "{1}" in shown
    assert "####" in shown  # the bars of the sets' masses
    assert b"#" * 20 in result.stderr  # progress
    assert "\\u" not in shown


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_holds_names_of_any_script(tmp_path: Path, rows: Path, encoding: str) -> None:
    rows.write_text(rows.read_text().replace("width", "Größe 𝛼 幅"), encoding="utf-8")
    result = shell(tmp_path, "", *FIT, "--json", PYTHONIOENCODING=encoding)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.decode(encoding))["columns"] == ["Größe 𝛼 幅", "height"]


def test_names_of_columns_do_not_command_the_terminal(call: Any, rows: Path, tmp_path: Path) -> None:
    name = f"wi{ESCAPE}d\x9bth"
    rows.write_text(rows.read_text().replace("width", name), encoding="utf-8")
    for arguments in (
        ["fit", rows, "-c", "2", "--label", "side", "--out", "made"],  # with figures, of which Matplotlib warns
        ["info", "made/model.json"],
        ["info", "made/model.json", "--json"],
        ["fit", rows, "--columns", "none"],
        ["fit", rows, "--label", "height"],  # `side` is no number
        ["predict", "made/model.json", rows, "--out", "p.csv"],
    ):
        said = call(*arguments)
        shown = said.stdout + said.stderr
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert "Traceback" not in shown
    assert "wi\\x1b[31md\\x9bth" in call("info", "made/model.json").stdout
    assert json.loads(call("info", "made/model.json", "--json").stdout)["columns"] == [name, "height"]


@posix
def test_names_of_rows_do_not_command_the_terminal(call: Any, rows: Path, tmp_path: Path) -> None:
    assert call(*FIT, "-q").returncode == 0
    (tmp_path / "named.csv").write_text(f"who,width,height\n{ESCAPE}Anna,1,2\nBert{ESCAPE},3,4\n")
    command = ["predict", "made/model.json", "named.csv", "--id", "who"]
    assert f"\n1,{ESCAPE}Anna," in call(*command).stdout  # a file gets the names as they are
    ours, terminal = os.openpty()
    try:
        line = [sys.executable, "-m", "egmm", *command]
        done = subprocess.run(
            line, cwd=tmp_path, env=environment(), stdout=terminal, stderr=subprocess.PIPE, check=False
        )
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(terminal)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert "\x1b" not in shown
    assert "1,\\x1b[31mAnna," in shown


def test_names_of_files_do_not_command_the_terminal(call: Any, rows: Path, tmp_path: Path) -> None:
    odd = tmp_path / f"a{ESCAPE}b.csv"
    said = call("fit", odd)
    assert said.stderr == "Error: " + str(odd).replace("\x1b", "\\x1b") + " does not exist.\n"
    rows.rename(odd)
    assert "\x1b" not in call("fit", odd, "-c", "2", "--label", "side", "--no-plots").stdout


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names of files are not bytes here")
def test_names_that_are_no_text_can_be_shown(tmp_path: Path) -> None:
    result = shell(tmp_path, "", "fit", os.fsdecode(b"a\xff.csv"))
    assert (result.returncode, result.stderr) == (1, b"Error: a\\udcff.csv does not exist.\n")


def test_a_fit_needs_no_error_stream(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    X = rng.normal(size=(50, 2))
    monkeypatch.setattr(sys, "stderr", None)
    assert EGMM(2, random_state=0, verbose=1).fit(X).converged_


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"], ["data"]])
def test_help_without_room_is_an_error(tmp_path: Path, arguments: list[str]) -> None:
    result = shell(tmp_path, "> /dev/full", *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith(b"Error: ")
    assert b"No space left on device" in result.stderr
    assert result.stderr.count(b"\n") == 1


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("redirection", ["2> /dev/full", "2> >(exec true)"])
def test_progress_that_cannot_be_written_does_not_end_the_work(tmp_path: Path, rows: Path, redirection: str) -> None:
    result = shell(tmp_path, redirection, *FIT)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"{1}" in result.stdout
    assert (tmp_path / "made" / "model.json").is_file()


@posix
def test_a_data_set_for_a_closed_output_is_refused(tmp_path: Path) -> None:
    result = shell(tmp_path, ">&-", "data", "diamond")
    assert (result.returncode, result.stderr) == (
        1,
        b"Error: Standard output is closed; use --out to write to a file.\n",
    )


class Full(io.StringIO):
    """A stream that takes `room` writes."""

    def __init__(self, room: int, error: type[Exception]) -> None:
        super().__init__()
        self._room, self._error = room, error

    def write(self, text: str) -> int:
        self._room -= 1
        if self._room < 0:
            raise self._error("no room")
        return super().write(text)


@pytest.mark.parametrize("error", [OSError, BrokenPipeError, ValueError])
@pytest.mark.parametrize("room", [0, 1])
def test_a_fit_needs_no_room_for_progress(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, room: int, error: type[Exception]
) -> None:
    monkeypatch.setattr(sys, "stderr", Full(room, error))
    assert EGMM(2, random_state=0, verbose=1).fit(rng.normal(size=(50, 2))).converged_
