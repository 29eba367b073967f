"""Cells that are done survive: cut-off lines, other plans, kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import environment
from egmm.reproduce.cells import Results, Store, key_of, run_cells
from egmm.reproduce.experiments import Cell, compute
from egmm.reproduce.plan import Plan

CELL = Cell("known", "Iris", "ECM", 0)


def test_a_line_that_was_cut_off_is_left_out_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    Store(path).add("a", CELL, {"purity": 0.5})
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    store = Store(path)
    assert store["a"] == {"purity": 0.5}
    assert path.read_bytes() == whole
    store.add("b", CELL, {"purity": float("nan")})
    assert np.isnan(Store(path)["b"]["purity"])


def test_lines_of_something_else_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_text('[1, 2]\n"text"\n{"key": 1}\n\n{"key": "k", "numbers": {"x": 1}}\n')
    store = Store(path)
    assert "k" in store
    assert path.read_text() == '{"key": "k", "numbers": {"x": 1}}\n'


def test_a_key_depends_on_what_changes_the_cell_and_on_nothing_else() -> None:
    full, quick = Plan(), Plan.quick()
    assert key_of(CELL, full) != key_of(CELL, quick)  # other bootstrap
    assert key_of(CELL, full) == key_of(CELL, Plan(runs=3, data="elsewhere"))
    ebic = Cell("ebic", "Diamond", "ECM", 0)
    assert key_of(ebic, full) == key_of(ebic, quick)
    assert key_of(ebic, full) != key_of(ebic._replace(run=1), full)


def test_results_leave_failed_runs_out() -> None:
    results = Results([(CELL, {"purity": 0.8}), (CELL._replace(run=1), {"failure": "no"})])
    assert results.values("known", "Iris", "ECM", "purity") == [0.8]
    assert results.values("known", "Iris", "FCM", "purity") == []


def test_a_fit_that_fails_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr("egmm.reproduce.experiments.fit", fail)
    assert compute(CELL, Plan()) == (CELL, {"failure": "singular"})


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egmm._parallel.SECONDS_ALONE", 1e-9)
    monkeypatch.setattr("egmm._parallel.SECONDS_TO_START", 0.0)
    cells = [Cell("known", "Iris", "EGMM, one covariance", run) for run in range(3)]
    alone = run_cells(cells, Plan(), Store(tmp_path / "a.jsonl"), 1, lambda *_: None)
    both = run_cells(cells, Plan(), Store(tmp_path / "b.jsonl"), 2, lambda *_: None)
    strip = lambda results: [(cell, {k: v for k, v in n.items() if k != "spent"}) for cell, n in results.items()]  # noqa: E731
    assert strip(alone) == strip(both)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    out, cells = tmp_path / "out", tmp_path / "out" / "cells.jsonl"
    command = [sys.executable, "-m", "egmm", "reproduce", "--quick", "--only", "table:brain"]
    command += ["--jobs", "1", "--out", str(out)]
    running = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while (not cells.exists() or cells.read_bytes().count(b"\n") < 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert not (out / "reproduction.md").exists()
    kept = [line for line in cells.read_bytes().split(b"\n") if line.endswith(b"}}")]
    assert len(kept) >= 3
    again = subprocess.run([*command, "--json"], env=environment(), capture_output=True, text=True, check=True)
    result = json.loads(again.stdout)
    assert result["computed"] == result["cells"] - len(kept)
    assert cells.read_bytes().split(b"\n")[: len(kept)] == kept
    assert (out / "reproduction.html").exists()
