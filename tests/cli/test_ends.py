"""How commands end: output nobody reads, Ctrl-C while still loading, progress, silence."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import environment
from egmm.cli.screen import UNREAD

pytest.importorskip("pyarrow")
pytest.importorskip("typer")


@pytest.fixture
def model(call: Any, rows: Path) -> str:
    """A model file."""
    assert call("fit", rows, "-c", "2", "--label", "side", "--out", "made", "--no-plots", "-q").returncode == 0
    return "made/model.json"


def start(folder: Path, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, *options, "-m", "egmm", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment(), stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("command", ["predict", "info"])
def test_a_reader_that_has_enough_ends_the_command_quietly(tmp_path: Path, model: str, command: str) -> None:
    (tmp_path / "many.csv").write_text("width,height\n" + "1.5,2.5\n" * 20_000)
    with start(tmp_path, command, model, *(["many.csv"] if command == "predict" else [])) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(60) == UNREAD


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("module", ["numpy", "typer", "sklearn.base"])
def test_ctrl_c_while_loading_is_clean(tmp_path: Path, rows: Path, module: str) -> None:
    # A library may swallow an interrupt of its own import, and the command then goes on.
    for _ in range(3):
        code, out, err = interrupted_after(module, tmp_path, "fit", rows.name, "-c", "2:8", "--force")
        if code != 0:
            break
    # Python itself ends by the signal where it struck code compiled from a string, as that of named tuples.
    assert code in {130, -signal.SIGINT}
    assert out == ""
    assert "Stopped; nothing was written." in err
    assert "Traceback" not in err


def interrupted_after(module: str, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that gets Ctrl-C when a module has been imported."""
    # Python tells of each import when it is done.
    with start(folder, *arguments, options=("-X", "importtime")) as running:
        assert running.stderr is not None
        while running.stderr.readline().split("|")[-1].strip() != module:
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    return running.returncode, out, err


def test_progress_of_a_converged_fit_ends_full(call: Any, rows: Path) -> None:
    result = call("fit", rows, "--model", "paper", "-c", "2", "--label", "side", "--no-plots")
    last = [line for line in result.stderr.splitlines() if line.startswith("EGMM")][-1]
    assert "█" * 20 in last
    assert "/1000" in last


def test_info_can_be_quiet(call: Any, model: str) -> None:
    result = call("info", model, "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_compare_shows_that_long_fits_go_on(call: Any, rows: Path) -> None:
    options = ["-c", "2", "--label", "side", "--algorithms", "bootgmm"]
    assert "BootGMM: masses" in call("compare", rows, *options).stderr
    assert call("compare", rows, *options, "--json").stderr == ""


SWALLOWED = """
import os, signal, sys, weakref

class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

import egmm.cli.figures as figures
write = figures.write_figures

def swallowing(*args):
    if sys.argv.pop(1) == "while removing":
        Thing()
        for _ in range(1000):
            pass
    else:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass
        except BaseException:
            pass
    write(*args)

figures.write_figures = swallowing
from egmm.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("way", ["while removing", "by a library"])
def test_ctrl_c_is_never_swallowed(tmp_path: Path, rows: Path, way: str) -> None:
    arguments = ["fit", rows.name, "-c", "2", "--label", "side", "-q"]
    command = [sys.executable, "-c", SWALLOWED.replace("sys.argv.pop(1)", repr(way)), *arguments]
    result = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr == "Error: Stopped; nothing was written.\n"
    assert [item.name for item in tmp_path.iterdir()] == ["rows.csv"]
