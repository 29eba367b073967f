"""Where commands write: said before any work, files of one run together, files of others kept."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import environment
from egmm.cli import output
from egmm.cli.screen import CommandError

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
    assert result.stderr == "Error: rows.csv is a file, but the output is a directory; use another --out.\n"


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
        "folder.csv": "folder.csv is a directory, but the output is a file; use another --out.",
        "rows.csv/table.csv": "rows.csv/table.csv cannot be created: ",
    }.items():
        result = call(*command, "--out", out, "--force")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {expected}"), result.stderr  # and nothing was fitted before


# Inputs are never outputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["itself", "a link to it", "the model"])
@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_predict_does_not_replace_what_it_reads(call: Any, rows: Path, tmp_path: Path, way: str, stream: str) -> None:
    assert call("fit", rows, "-c", "2", *FIT, "--no-plots", "-q").returncode == 0
    own = tmp_path / "own.parquet"
    output.write_columns(own, {"width": [0.0, 8.0], "height": [0.0, 8.0]})
    model = tmp_path / "made" / "model.json"
    if way == "the model":
        model = model.rename(tmp_path / "model.parquet")
    (tmp_path / "link.parquet").symlink_to(own)
    out = {"itself": "own.parquet", "a link to it": "link.parquet", "the model": "model.parquet"}[way]
    before = own.read_bytes(), model.read_bytes()
    result = call("predict", model, own, "--out", out, "--force", stream)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Error: {out} is an input of this command and would be replaced; use another --out.\n"
    assert (own.read_bytes(), model.read_bytes()) == before


def test_a_fit_does_not_remove_what_it_reads(call: Any, rows: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert call("fit", rows, "-c", "2", "--table", "csv", *FIT, "--no-plots", "-q").returncode == 0
    rows.replace(made / "labels.csv")
    for table in ("feather", "csv"):  # without and with a file of this name
        for source in ("made/labels.csv", "made/labels*.csv"):
            result = call("fit", source, "-c", "2", "--table", table, *FIT, "--no-plots", "--force")
            assert result.returncode == 1
            assert "made/labels.csv is an input of this command and would be replaced" in result.stderr
    (made / ".egmm-files").unlink()  # Nobody knows now whose it is.
    result = call("fit", "made/labels.csv", "-c", "2", "--table", "csv", *FIT, "--no-plots", "--force")
    assert "labels.csv is an input of this command" in result.stderr
    assert (made / "labels.csv").read_text().startswith("width,height,side\n")


# Runs at the same time, and runs that are killed ------------------------------------------------------------------


def test_of_two_runs_with_one_directory_one_succeeds(tmp_path: Path) -> None:
    ready = threading.Barrier(2)
    ends: list[str] = []
    errors: list[str] = []

    def write(text: str) -> None:
        try:
            with output.writing_directory(tmp_path / "race", force=False) as work:
                (work / "a.txt").write_text(text)
                (work / f"{text}.txt").write_text(text)
                ready.wait(30)
            ends.append(text)
        except CommandError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=write, args=(text,)) for text in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 1
    assert errors == [f"{tmp_path / 'race'} already exists; use another --out, or --force to overwrite it."]
    assert files_in(tmp_path) == {"race/a.txt", f"race/{ends[0]}.txt"}
    assert (tmp_path / "race" / "a.txt").read_text() == ends[0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_a_table_written_meanwhile_is_kept(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    output.check_table(path, force=False)
    path.write_text("of another run")
    with pytest.raises(CommandError, match=f"table{suffix} already exists; use another --out, or --force"):
        output.write_columns(path, {"a": [1.0]}, force=False)
    assert path.read_text() == "of another run"
    output.write_columns(path, {"a": [1.0]}, force=True)
    assert path.read_bytes() != b"of another run"
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


KILLED = """
import os, sys
from pathlib import Path
from egmm.cli import output

n_left = int(sys.argv[1])
rename, replace = Path.rename, Path.replace

def counted(move):
    def moved(self, target):
        global n_left
        if n_left == 0:
            os._exit(9)
        n_left -= 1
        return move(self, target)
    return moved

Path.rename, Path.replace = counted(rename), counted(replace)
with output.writing_directory(Path("made"), force=True) as work:
    (work / "a.txt").write_text("second")
    (work / "b.txt").write_text("second")
"""


@pytest.mark.parametrize("n_moves", [0, 1])
def test_a_forced_run_killed_between_moves_mixes_nothing(tmp_path: Path, n_moves: int) -> None:
    made = tmp_path / "made"
    with output.writing_directory(made, force=False) as work:
        (work / "a.txt").write_text("first")
        (work / "b.txt").write_text("first")
    (made / "own").mkdir()
    (made / "own" / "mine.txt").write_text("precious")
    (made / "broken link").symlink_to("nowhere")
    code = [sys.executable, "-c", KILLED, str(n_moves)]
    assert subprocess.run(code, cwd=tmp_path, env=environment(), check=False).returncode == 9
    output.check_free(made, force=True)  # as the next run does
    assert {(made / name).read_text() for name in ("a.txt", "b.txt")} == {["first", "second"][n_moves]}
    assert (made / "own" / "mine.txt").read_text() == "precious"
    assert (made / "broken link").is_symlink()
    assert subprocess.run([*code[:-1], "99"], cwd=tmp_path, env=environment(), check=False).returncode == 0
    assert {(made / name).read_text() for name in ("a.txt", "b.txt")} == {"second"}
    assert [item.name for item in tmp_path.iterdir()] == ["made"]  # nothing is left of the killed run


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom egmm.cli import output\n"
        "with output.writing_directory(Path('made'), force=False) as work:\n"
        "    (work / 'large').write_bytes(bytes(10**6)); print(flush=True); input()"
    )
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment(), stdin=pipe, stdout=pipe)
        for _ in range(2)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    killed, other = running
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert len(list(tmp_path.iterdir())) == 2
    output.check_free(tmp_path / "made", force=False)
    with output.writing_directory(tmp_path / "made", force=False):
        assert len(list(tmp_path.iterdir())) == 2  # its own, and that of the run that goes on
    other.communicate(b"\n")
    assert [item.name for item in tmp_path.iterdir()] == ["made"]


# Places that cannot be written ------------------------------------------------------------------------------------


def test_places_that_are_none_are_refused_before_the_fit(call: Any, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "t.csv").symlink_to("t.csv")
    long = "x" * 300
    for arguments, expected in {
        ("fit", "a"): "a cannot be written: Too many levels of symbolic links.",
        ("fit", "a/below"): "a/below cannot be written: Too many levels of symbolic links.",
        ("fit", long): f"{long} cannot be written: File name too long.",
        ("fit", f"new/{long}"): f"{tmp_path}/{long} cannot be written: File name too long.",
        ("fit", "/"): "/ is the root directory; use a directory below it as --out.",
        ("compare", "t.csv"): "t.csv cannot be written: Too many levels of symbolic links.",
        ("compare", f"{long}.csv"): f"{long}.csv cannot be written: File name too long.",
    }.items():
        command, out = arguments
        result = call(command, rows, "-c", "2", "--label", "side", "--out", out, "--force")
        assert (result.returncode, result.stdout, result.stderr) == (1, "", f"Error: {expected}\n")


def test_an_input_behind_a_directory_that_does_not_exist_yet_is_kept(call: Any, rows: Path, tmp_path: Path) -> None:
    fit = ["fit", rows, "-c", "2", "--label", "side", "--no-plots", "-q", "--out", "made"]
    assert call(*fit).returncode == 0
    before = rows.read_text()
    result = call("predict", "made/model.json", rows, "--out", "new/../rows.csv", "--force")
    taken = "new/../rows.csv is an input of this command and would be replaced; use another --out."
    assert (result.returncode, result.stderr) == (1, f"Error: {taken}\n")
    for command, out in {("compare", "new/../rows.csv"), ("fit", "new/../made")}:
        result = call(command, rows, "-c", "2", "--label", "side", "--out", out)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == f"Error: {out} already exists; use another --out, or --force to overwrite it.\n"
    assert rows.read_text() == before
    assert not (tmp_path / "new").exists()
    (tmp_path / "link.csv").symlink_to("nowhere.csv")
    result = call("compare", rows, "-c", "2", "--label", "side", "--out", "link.csv")
    assert (result.returncode, "link.csv already exists" in result.stderr) == (1, True)


def test_the_longest_name_there_can_be_is_written(call: Any, rows: Path, tmp_path: Path) -> None:
    name = "x" * os.pathconf(tmp_path, "PC_NAME_MAX")
    result = call("fit", rows, "-c", "2", "--label", "side", "--out", name, "--no-plots", "-q")
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / name / "model.json").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="no limits to set")
@pytest.mark.parametrize(("limit", "expected"), [(0, "made cannot be written: "), (100_000, "{}/made: ")])
def test_a_full_disk_names_the_directory(tmp_path: Path, rows: Path, limit: int, expected: str) -> None:
    # A limit on the size of files stands for the disk: without room at all, and with room for less than the report.
    # SciPy 1.12 writes a temporary file when it is imported.
    code = f"import resource, scipy.stats; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    arguments = ["fit", rows.name, "-c", "2", "--label", "side", "--out", "made", "-q"]
    result = subprocess.run(
        [sys.executable, "-B", "-c", f"{code}; from egmm.cli import main; main()", *arguments],
        cwd=tmp_path,
        env=environment() | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Error: {expected.format(tmp_path)}File too large.\n"
    assert [item.name for item in tmp_path.iterdir()] == ["rows.csv"]
