"""Where commands write: said before any work, files of one run together, files of others kept."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

FIT = ["--label", "side", "--out", "made"]


def files_in(folder: Path) -> set[str]:
    """Names of the files that a person sees."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if not path.name.startswith(".")}


def test_a_forced_run_leaves_only_its_own_files_and_those_of_others(call: Any, rows: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    (made / "figures").mkdir(parents=True)
    (made / "figures" / "mine.png").write_text("precious")
    (made / "labels.csv").write_text("precious")  # of the name that a run with --table csv writes
    assert call("fit", rows, "-c", "2:3", "--table", "parquet", *FIT, "--force", "-q").returncode == 0
    assert {"masses.parquet", "figures/selection.png", "figures/partition.png"} <= files_in(made)
    assert call("fit", rows, "-c", "2", "--table", "feather", *FIT, "--no-plots", "--force", "-q").returncode == 0
    ours = {"model.json", "summary.txt", "report.html", "labels.feather", "masses.feather"}
    assert files_in(made) == ours | {"figures/mine.png", "labels.csv"}
    assert (made / "labels.csv").read_text() == "precious"


def test_a_directory_that_is_left_empty_goes(call: Any, rows: Path, tmp_path: Path) -> None:
    assert call("fit", rows, "-c", "2", *FIT, "-q").returncode == 0
    assert call("fit", rows, "-c", "2", *FIT, "--no-plots", "--force", "-q").returncode == 0
    assert not (tmp_path / "made" / "figures").exists()


def test_no_file_outside_the_directory_is_removed(call: Any, rows: Path, tmp_path: Path) -> None:
    assert call("fit", rows, "-c", "2", *FIT, "--no-plots", "-q").returncode == 0
    (tmp_path / "made" / ".egmm-files").write_text("../rows.csv\n")
    assert call("fit", rows, "-c", "2", *FIT, "--no-plots", "--force", "-q").returncode == 0
    assert rows.exists()


def test_the_present_directory_can_be_written_to(call: Any, rows: Path, tmp_path: Path) -> None:
    result = call("fit", rows, "-c", "2", "--label", "side", "--out", ".", "--force", "--no-plots", "-q")
    assert result.returncode == 0, result.stderr
    assert {"rows.csv", "model.json"} <= files_in(tmp_path)


@pytest.mark.parametrize("command", ["fit", "select"])
def test_a_file_is_no_place_for_a_directory(call: Any, rows: Path, command: str) -> None:
    result = call(command, rows, "-c", "2", "--label", "side", "--out", rows.name, "--force")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Error: rows.csv is a file, but a directory is written; give another --out.\n"


def test_tables_go_into_new_directories(call: Any, rows: Path, tmp_path: Path) -> None:
    options = ["-c", "2", "--label", "side", "--algorithms", "fcm"]
    assert call("compare", rows, *options, "--out", "new/deep/table.csv").returncode == 0
    assert (tmp_path / "new" / "deep" / "table.csv").is_file()
    assert call("fit", rows, "-c", "2", *FIT, "--no-plots", "-q").returncode == 0
    assert call("predict", "made/model.json", rows, "--out", "other/p.csv").returncode == 0
    assert (tmp_path / "other" / "p.csv").is_file()


@pytest.mark.parametrize("command", [["compare", "rows.csv"], ["predict", "none.json", "rows.csv"]])
def test_tables_that_cannot_be_written_are_named_before_any_work(call: Any, rows: Path, command: list[str]) -> None:
    (rows.parent / "folder.csv").mkdir()
    for out, expected in {
        "table.txt": "--out table.txt must end in .csv, .parquet or .feather.",
        "folder.csv": "folder.csv is a directory, but a file is written; give another --out.",
        "rows.csv/table.csv": "rows.csv/table.csv cannot be made: ",
    }.items():
        result = call(*command, "--out", out, "--force")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {expected}"), result.stderr  # and nothing was fitted before
