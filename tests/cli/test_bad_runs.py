"""Commands that cannot do what they were asked: a sentence, an exit code, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.conftest import environment

pytest.importorskip("pyarrow")
pytest.importorskip("typer")

# Files to write, the arguments, and what the message must say.
BAD_DATA = {
    "missing file": ({}, ["fit", "none.csv"], "none.csv does not exist"),
    "empty file": ({"a.csv": ""}, ["fit", "a.csv"], "a.csv is empty"),
    "names alone": ({"a.csv": "x,y\n"}, ["fit", "a.csv"], "column names but no rows"),
    "a column of text": (
        {"a.csv": "x,y\n1,red\n2,blue\n"},
        ["fit", "a.csv", "--columns", "x,y"],
        "column 'y' has 'red', not a number, at row 1",
    ),
    "a word among numbers": (
        {"a.csv": "x,y\n1,3\n2,4\n5,six\n"},
        ["fit", "a.csv"],
        "column 'y' has 'six', not a number, at row 3 (counted from 1) of a.csv; drop the column with --exclude",
    ),
    "thousands": (
        {"a.csv": 'x,y\n1,"1,234"\n2,"2,345"\n'},
        ["fit", "a.csv", "--columns", "x,y"],
        "column 'y' has '1,234', not a number, at row 1 (counted from 1) of a.csv; write numbers without a comma",
    ),
    "only text": (
        {"a.csv": "y\nred\nblue\nred\n"},
        ["fit", "a.csv"],
        "a.csv has no column to cluster: y (text); select columns with --columns",
    ),
    "all rows with gaps": (
        {"a.csv": "x,y\n1,\n3,\n,5\n"},
        ["fit", "a.csv", "--missing", "drop"],
        "every row of a.csv has a missing cell, most of them in column 'y'; drop it with --exclude",
    ),
    "one row without gaps": (
        {"a.csv": "x,y\n1,\n3,4\n"},
        ["fit", "a.csv", "--missing", "drop"],
        "a.csv has 1 row, but at least 2 are needed",
    ),
    "infinity": ({"a.csv": "x,y\n1,2\ninf,2\n4,5\n"}, ["fit", "a.csv"], "column 'x' has infinity at row 2"),
    "one row": ({"a.csv": "x,y\n1,2\n"}, ["fit", "a.csv"], "a.csv has 1 row, but at least 2 are needed"),
    "too few rows": (
        {"a.csv": "x,y\n1,2\n3,4\n2,2\n"},
        ["fit", "a.csv", "-c", "5"],
        "too few for 5 clusters; use fewer with",
    ),
    "equal rows": (
        {"a.csv": "x,y\n1,2\n1,2\n1,2\n"},
        ["fit", "a.csv", "-c", "2", "--columns", "x,y"],
        "distinct rows",
    ),
    "constant columns": ({"a.csv": "x,y\n1,2\n1,2\n"}, ["fit", "a.csv"], "no column to cluster: x, y (constant)"),
    "unknown id": ({"a.csv": "x\n1\n2\n"}, ["fit", "a.csv", "--id", "z"], "no column 'z'; its columns are x"),
    "unknown column left out": ({"a.csv": "x\n1\n2\n"}, ["fit", "a.csv", "--exclude", "z"], "no column 'z'"),
    "unknown column": ({"a.csv": "x\n1\n2\n"}, ["fit", "a.csv", "--columns", "z"], "no column 'z'; its columns are x"),
    "unknown label": ({"a.csv": "x\n1\n2\n"}, ["fit", "a.csv", "--label", "z"], "no column 'z'"),
    "only the label": ({"a.csv": "x\n1\n2\n"}, ["fit", "a.csv", "--label", "x"], "no column to cluster"),
    "the label clustered": (
        {"a.csv": "x,k\n1,0\n2,1\n3,1\n"},
        ["fit", "a.csv", "--columns", "x,k", "--label", "k"],
        "--label 'k' is also in --columns, but known classes are not clustered; remove it there.",
    ),
    "the label clustered piece by piece": (
        {"a.csv": "x,k\n1,0\n2,1\n3,1\n"},
        ["fit", "a.csv", "--columns", "x,k", "--label", "k", "--stream"],
        "--label 'k' is also in --columns",
    ),
    "two equal names": ({"a.csv": "x,x\n1,2\n3,4\n"}, ["fit", "a.csv"], "two columns named 'x'"),
    "unknown ending": ({"a.xlsx": "zip"}, ["fit", "a.xlsx"], "unknown suffix"),
    "damaged Parquet": ({"a.parquet": "abc"}, ["fit", "a.parquet"], "a.parquet cannot be read"),
    "ragged lines": ({"a.csv": "x,y\n1,2\n3\n"}, ["fit", "a.csv"], "a.csv cannot be read"),
    "files that differ": ({"d/a.csv": "x\n1\n2\n", "d/b.csv": "z\n1\n"}, ["fit", "d"], "has the columns z"),
    "an empty directory": ({"d/readme.md": ""}, ["fit", "d"], "d contains no data file"),
    "no model": ({"m.json": "{}"}, ["info", "m.json"], "m.json holds no EGMM model: it has no entry"),
    "missing model": ({}, ["info", "m.json"], "m.json does not exist"),
    "directory for a model": ({}, ["info", "."], ". is a directory; pass the model file, such as model.json"),
    "json without a file": ({}, ["predict", "m.json", "a.csv", "--json"], "--json needs --out"),
}


IN_ITS_OWN_PROCESS = {"missing file", "empty file", "a column of text", "too few rows", "unknown option"}


@pytest.fixture
def run_or_call(run: Any, call: Any, request: pytest.FixtureRequest) -> Any:
    """The command in its own process for the commonest mistakes, in this one for the rest."""
    return run if request.node.callspec.id in IN_ITS_OWN_PROCESS else call


@pytest.mark.parametrize(("files", "arguments", "expected"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_end_with_one_and_a_sentence(
    run_or_call: Any, tmp_path: Path, files: dict[str, str], arguments: list[str], expected: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    result = run_or_call(*arguments)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert expected in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


BAD_USAGE = {
    "unknown command": (["cluster"], "No such command"),
    "unknown option": (["fit", "rows.csv", "--speed"], "No such option"),
    "no data": (["fit"], "Missing argument"),
    "clusters in words": (["fit", "rows.csv", "--clusters", "few"], "'few' is not a number"),
    "a backward range": (["fit", "rows.csv", "--clusters", "8:2"], "'8:2' is reversed; use 2:8"),
    "half a range": (["fit", "rows.csv", "--clusters", "2:"], "'2:' is not a number"),
    "a range of three": (["fit", "rows.csv", "--clusters", "2:4:8"], "'2:4:8' is not a number"),
    "too many clusters": (["fit", "rows.csv", "--clusters", "1:200000000"], "exceeds the maximum of 63"),
    "too many to compare": (["compare", "rows.csv", "--clusters", "64"], "63"),
    "too many segments": (["segment", "rows.png", "--clusters", "64"], "'64' exceeds the maximum of 63"),
    "no way with gaps": (["fit", "rows.csv", "--missing", "mean"], "'mean' is not one of em, drop"),
    "two choices": (["fit", "rows.csv", "--columns", "a", "--exclude", "b"], "cannot be combined with --columns"),
    "two uses": (["fit", "rows.csv", "--label", "a", "--id", "a"], "'a' is also used by --label"),
    "a column twice": (
        ["fit", "rows.csv", "--columns", "width,width"],
        "--columns: 'width,width' contains 'width' twice",
    ),
    "a ridge in words": (["fit", "rows.csv", "--reg-covar", "some"], "'some' is neither auto nor a number >= 0"),
    "a ridge below zero": (["select", "rows.csv", "--reg-covar", "-1"], "'-1' is neither auto nor a number >= 0"),
    "certainty below zero": (["fit", "rows.csv", "--certainty", "-1"], "--certainty"),
    "unknown tails": (["fit", "rows.csv", "--tails", "heavy"], "--tails"),
    "tails for auto": (["fit", "rows.csv", "-c", "2", "--tails", "t"], "--tails: AutoEGMM has no such option"),
    "no steps": (["fit", "rows.csv", "--max-iter", "0"], "--max-iter"),
    "zero clusters": (["fit", "rows.csv", "--clusters", "0"], "'0' is not a number"),
    "unknown covariance": (["fit", "rows.csv", "--covariance", "XXX"], "'XXX' is not one of"),
    "unknown model": (["fit", "rows.csv", "--model", "best"], "--model: 'best' is not one of auto, paper"),
    "an option auto has not": (["fit", "rows.csv", "-c", "2", "--starts", "3"], "add --model paper"),
    "classes for auto": (
        ["fit", "rows.csv", "--model", "auto", "--label", "side", "--semi-supervised"],
        "AutoEGMM does not use classes",
    ),
    "stability of EGMM": (
        ["fit", "rows.csv", "-c", "2", "--model", "paper", "--stability", "3"],
        "only for AutoEGMM",
    ),
    "unknown rule": (["fit", "rows.csv", "--rule", "best"], "'best' is not one of heaviest, utility, dominance"),
    "unknown sets": (["fit", "rows.csv", "--focal-sets", "some"], "'some' is not one of"),
    "unknown criterion": (["select", "rows.csv", "--criterion", "mdl"], "'mdl' is not one of"),
    "unknown table": (["fit", "rows.csv", "--table", "xls"], "'xls' is not one of"),
    "unknown algorithm": (["compare", "rows.csv", "--algorithms", "magic"], "'magic' is not one of"),
    "no starts": (["fit", "rows.csv", "--starts", "0"], "--starts"),
    "a seed below zero": (["fit", "rows.csv", "--seed", "-1"], "--seed"),
}


@pytest.mark.parametrize(("arguments", "expected"), BAD_USAGE.values(), ids=BAD_USAGE)
def test_bad_usage_ends_with_two(run_or_call: Any, rows: Path, arguments: list[str], expected: str) -> None:
    result = run_or_call(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert expected in result.stderr.replace("\n", " ")


def test_without_a_command_help_is_shown(call: Any) -> None:
    result = call()
    assert result.returncode in {0, 2}  # an error since Click 8.2
    assert "Usage: egmm [OPTIONS] COMMAND" in result.stdout + result.stderr


def test_debug_shows_where_an_error_came_from(call: Any) -> None:
    result = call("fit", "none.csv", "--debug")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "find_files" in result.stderr


def test_existing_output_is_kept_without_force(run: Any, rows: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "mine.txt").write_text("precious")
    (made / "model.json").write_text("old")
    arguments = ["fit", rows, "-c", "2", "--label", "side", "--out", "made", "--no-plots"]
    result = run(*arguments)
    assert result.returncode == 1
    assert "made already exists" in result.stderr
    assert (made / "model.json").read_text() == "old"
    assert run(*arguments, "--force").returncode == 0
    assert (made / "model.json").read_text() != "old"
    assert (made / "mine.txt").read_text() == "precious"


def test_predict_keeps_an_existing_file(call: Any, rows: Path, tmp_path: Path) -> None:
    assert call("fit", rows, "-c", "2", "--label", "side", "--out", "made", "-q", "--no-plots").returncode == 0
    (tmp_path / "out.csv").write_text("old")
    result = call("predict", "made/model.json", rows, "--out", "out.csv")
    assert result.returncode == 1
    assert (tmp_path / "out.csv").read_text() == "old"
    assert call("predict", "made/model.json", rows, "--out", "out.csv", "--force").returncode == 0
    assert (tmp_path / "out.csv").read_text() != "old"


def test_a_place_that_cannot_be_written_is_named_before_the_fit(call: Any, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = call("fit", rows, "-c", "2", "--label", "side", "--out", "file/below")
    assert result.returncode == 1
    assert "file is a file" in result.stderr


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a directory nobody can write to, such as /proc")
def test_an_unwritable_directory_is_named(run: Any, rows: Path) -> None:
    result = run("fit", rows, "-c", "2", "--label", "side", "--out", "/proc/made")
    assert result.returncode == 1
    assert "/proc/made cannot be written" in result.stderr


def test_wrong_columns_for_a_model_are_named(call: Any, rows: Path, tmp_path: Path) -> None:
    assert call("fit", rows, "-c", "2", "--label", "side", "--out", "made", "-q", "--no-plots").returncode == 0
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    result = call("predict", "made/model.json", "other.csv")
    assert result.returncode == 1
    assert "no column 'width'; its columns are a, b" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("options", [["--model", "paper", "--clusters", "12"], ["--clusters", "1,12"]])
def test_ctrl_c_is_clean(tmp_path: Path, options: list[str]) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(30_000, 6)))
    arguments = ["fit", "rows.npy", *options, "--covariance", "VVV", "--focal-sets", "pairs"]
    process = subprocess.Popen(
        [sys.executable, "-m", "egmm", *arguments],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        while not process.stderr.readline().startswith(("EGMM", "select_model")):
            assert process.poll() is None
        time.sleep(2)  # let the workers start
        os.killpg(process.pid, signal.SIGINT)  # what a terminal sends: to the command and its workers
        out, err = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130
    assert "Stopped; nothing was written." in err
    assert "Traceback" not in err
    assert out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


BAD_PREPARATIONS = {
    "incomplete": {"columns": ["width"]},
    "no dictionary": ["width", "height"],
    "too few columns": {"columns": ["width"], "centre": None, "scale": None},
    "half a scaling": {"columns": ["width", "height"], "centre": [0, 0], "scale": None},
    "scale of zero": {"columns": ["width", "height"], "centre": [0, 0], "scale": [1, 0]},
    "scale below zero": {"columns": ["width", "height"], "centre": [0, 0], "scale": [1, -1]},
    "giant centre": {"columns": ["width", "height"], "centre": [10**400, 0], "scale": [1, 1]},
    "text for numbers": {"columns": ["width", "height"], "centre": [0, "a"], "scale": [1, 1]},
}


@pytest.mark.parametrize("entry", BAD_PREPARATIONS.values(), ids=BAD_PREPARATIONS)
def test_a_damaged_preparation_is_named(call: Any, rows: Path, tmp_path: Path, entry: Any) -> None:
    assert call("fit", rows, "-c", "2", "--label", "side", "--out", "made", "-q", "--no-plots").returncode == 0
    path = tmp_path / "made" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"preparation": entry}))
    for arguments in (["info", path], ["predict", path, rows]):
        result = call(*arguments)
        assert result.returncode == 1
        assert "model.json is damaged: its entry 'preparation' must hold columns (2 names)" in result.stderr
