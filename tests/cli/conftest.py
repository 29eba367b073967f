"""The command run as people run it: another process, 80 columns, its own directory."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egmm
from egmm.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """The caller's environment, with the package under test first on the path and a plain terminal of 80 columns."""
    source = str(Path(egmm.__file__).parents[1])
    paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run ``egmm`` with arguments in an empty directory."""

    def call(*arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "egmm", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300, check=False
        )

    return call


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the same in this process, which spares the second that imports take."""
    monkeypatch.chdir(tmp_path)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)

    def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["egmm", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        code = end.value.code
        return subprocess.CompletedProcess(sys.argv, 0 if code is None else int(code), said.out, said.err)

    return command


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two clear groups of twenty rows with their class, as CSV."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2)) + np.repeat([[0.0, 0.0], [8.0, 8.0]], 20, axis=0)
    lines = [f"{a!r},{b!r},{name}" for (a, b), name in zip(X.tolist(), ["left"] * 20 + ["right"] * 20, strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("width,height,side\n" + "\n".join(lines) + "\n")
    return path
