"""``egmm reproduce``: good runs, bad requests, Ctrl-C."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import environment
from egmm.reproduce import experiments
from egmm.reproduce.plan import Plan

pytest.importorskip("typer")
pytest.importorskip("matplotlib")


@pytest.fixture
def one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a quick reproduction have one run and one draw instead of two, and a draw a quarter of its rows."""
    draw = experiments.simulated
    monkeypatch.setattr(experiments, "simulated", lambda name, run: draw(name, run)[:: 1 if name == "Diamond" else 4])
    quick = dataclasses.replace(Plan.quick(), runs=1, draws=1)
    monkeypatch.setattr(Plan, "quick", lambda data=None: dataclasses.replace(quick, data=data))


@pytest.mark.usefixtures("one_run")
def test_one_table_is_made_shown_and_not_computed_twice(call: Any, tmp_path: Path) -> None:
    asked = ["reproduce", "--quick", "--only", "table:ebic", "--jobs", "1"]
    first = call(*asked)
    assert first.returncode == 0, first.stderr
    assert "-55.90, -63.08" in first.stdout
    assert "reproduction/reproduction.html" in first.stdout
    assert "Partial run" in first.stdout
    assert max(len(line) for line in first.stdout.splitlines()) <= 80
    assert "reproduce" in first.stderr  # progress
    again = call(*asked, "--json")
    result = json.loads(again.stdout)
    assert again.stderr == ""
    assert (result["cells"], result["computed"]) == (6, 0)
    assert result["claims"][0]["holds"] is True
    assert all((tmp_path / result["output"] / name).is_file() for name in result["files"])
    silent = call(*asked, "--quiet")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")


def test_bad_requests(call: Any, tmp_path: Path) -> None:
    unknown = call("reproduce", "--only", "table:speed")
    assert unknown.returncode == 2
    assert "'table:speed' is not one of table:ebic" in " ".join(unknown.stderr.replace("│", " ").split())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    taken = call("reproduce", "--only", "figure:diamond", "--out", "mine")
    assert (taken.returncode, taken.stdout) == (1, "")
    assert "mine already exists; use another --out" in taken.stderr
    assert call("reproduce", "--jobs", "0").returncode == 2


@pytest.mark.usefixtures("one_run")
def test_real_data_sets_are_chosen_by_name(call: Any, tmp_path: Path) -> None:
    made = call("reproduce", "--quick", "--only", "table:purity", "--sets", "wine", "--jobs", "1", "--json")
    assert made.returncode == 0, made.stderr
    cells = (tmp_path / "reproduction" / "cells.csv").read_text("utf-8").splitlines()
    assert {line.split(",")[1] for line in cells[1:]} == {"Wine"}
    page = (tmp_path / "reproduction" / "reproduction.md").read_text("utf-8")
    assert "`egmm reproduce --quick --sets Wine --only table:purity`" in page
    unknown = call("reproduce", "--sets", "Wine,Mnist")
    assert unknown.returncode == 2
    assert "'mnist' is not one of ecoli, iris" in " ".join(unknown.stderr.replace("│", " ").split())


def test_bad_data_directory_in_its_own_process(run: Any, tmp_path: Path) -> None:
    missing = run("reproduce", "--quick", "--only", "table:purity", "--data", "nowhere")
    assert missing.returncode == 1
    assert "iris.csv exists" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_a_run_that_fails_does_not_stand_in_the_way_of_the_next(call: Any, tmp_path: Path) -> None:
    asked = ["reproduce", "--quick", "--out", "made", "--jobs", "1"]
    assert call(*asked, "--only", "table:purity", "--data", "nowhere").returncode == 1
    assert not (tmp_path / "made").exists()
    assert call(*asked, "--only", "table:brain").returncode == 0
    cells = (tmp_path / "made" / "cells.jsonl").read_text()
    assert call(*asked, "--only", "table:purity", "--data", "nowhere", "--fresh", "--force").returncode == 1
    assert (tmp_path / "made" / "cells.jsonl").read_text() == cells


def test_a_page_is_not_replaced_by_one_that_shows_less(call: Any, tmp_path: Path) -> None:
    both = ["--only", "table:brain", "--only", "figure:diamond"]
    assert call("reproduce", "--quick", "--only", "table:brain", "--jobs", "1").returncode == 0
    assert call("reproduce", "--quick", *both, "--jobs", "1").returncode == 0  # shows more
    page = (tmp_path / "reproduction" / "reproduction.md").read_text("utf-8")
    for less in (["--quick", "--only", "figure:diamond"], both):  # a part, and another plan
        refused = call("reproduce", *less)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert (
            "reproduction holds the page of `egmm reproduce --quick --only table:brain --only figure:diamond`, "
            "which this run would replace; use another --out, or --force." in refused.stderr
        )
        assert (tmp_path / "reproduction" / "reproduction.md").read_text("utf-8") == page
    assert call("reproduce", "--quick", "--only", "figure:diamond", "--force").returncode == 0
    assert (tmp_path / "reproduction" / "reproduction.md").read_text("utf-8") != page


def test_a_figure_alone_goes_beside_other_files_with_force(call: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    made = call("reproduce", "--only", "figure:diamond", "--out", "mine", "--force")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "mine" / "figures" / "reproduction-diamond.png").is_file()
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    assert "figures/reproduction-diamond.png" in (tmp_path / "mine" / "reproduction.md").read_text("utf-8")


@pytest.mark.slow
def test_ctrl_c_says_what_is_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "egmm", "reproduce", "--only", "table:purity", "--sets", "Iris", "--jobs", "1"]
    running = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    cells, deadline = tmp_path / "reproduction" / "cells.jsonl", time.monotonic() + 120
    while not cells.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "finished results are in reproduction, and the same command resumes there" in " ".join(err.split())
    assert "Traceback" not in err
