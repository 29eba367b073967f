"""Files as people have them: without names, with other delimiters, with gaps; read whole and piece by piece alike."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("typer")

STREAMED = pytest.mark.parametrize("stream", ["--no-stream", "--stream"])


def lines_of(rows: Path) -> list[list[str]]:
    return [line.split(",") for line in rows.read_text().splitlines()]


def joined(lines: list[list[str]], delimiter: str = ",") -> str:
    return "".join(delimiter.join(line) + "\n" for line in lines)


def fitted(call: Any, *arguments: Any) -> dict[str, Any]:
    result = call("fit", *arguments, "--json", "--no-plots")
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def refused(call: Any, *arguments: Any) -> str:
    result = call(*arguments)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    return str(result.stderr)


@STREAMED
def test_no_row_is_taken_for_names(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    (tmp_path / "bare.csv").write_text(joined(lines_of(rows)[1:]))
    said = refused(call, "fit", "bare.csv", "-c", "2", "--label", "left", stream)
    assert "bare.csv begins with" in said
    assert "--no-header" in said
    found = fitted(call, "bare.csv", "-c", "2", "--no-header", "--label", "x3", stream, "--out", "made")
    expected = fitted(call, rows, "-c", "2", "--label", "side", "--out", "named")
    assert (found["n_rows"], found["columns"]) == (40, ["x1", "x2"])
    assert found["log_likelihood"] == pytest.approx(expected["log_likelihood"], rel=1e-10)
    assert found["metrics"] == expected["metrics"]
    assert "--no-header" in (tmp_path / "made" / "report.html").read_text()
    written = call("predict", "made/model.json", "bare.csv", "--no-header", stream, "--out", "out.parquet", "--json")
    assert json.loads(written.stdout)["n_rows"] == 40
    assert "--no-header" in refused(call, "predict", "made/model.json", "bare.csv", stream, "--out", "other.parquet")


@pytest.mark.parametrize("command", ["select", "compare"])
def test_other_commands_take_rows_without_names(call: Any, rows: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "bare.csv").write_text(joined([line[:2] for line in lines_of(rows)[1:]]))
    assert "--no-header" in refused(call, command, "bare.csv", "-c", "2")
    assert call(command, "bare.csv", "-c", "2", "--no-header", "-q").returncode == 0


def test_numbers_may_be_names(call: Any, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "years.csv").write_text(joined([["1990", "2000", "side"], *lines_of(rows)[1:]]))
    assert "--header" in refused(call, "fit", "years.csv", "-c", "2", "--label", "side")
    found = fitted(call, "years.csv", "-c", "2", "--label", "side", "--header")
    assert (found["n_rows"], found["columns"]) == (40, ["1990", "2000"])


@STREAMED
@pytest.mark.parametrize("delimiter", [";", "\t", " ", ", "])
def test_delimiters_are_seen(call: Any, rows: Path, tmp_path: Path, delimiter: str, stream: str) -> None:
    (tmp_path / "other.csv").write_text(joined(lines_of(rows), delimiter))
    found = fitted(call, "other.csv", "-c", "2", "--label", "side", "--columns", "height, width", stream)
    assert (found["n_rows"], found["columns"]) == (40, ["height", "width"])
    assert found["metrics"]["ARI"] == 1.0


def test_decimal_commas_are_named(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;y\n1,5;2\n2,5;3\n")
    assert (
        "column 'x' has '1,5', no number, at row 0 (counted from 0) of a.csv; write numbers with a decimal point"
        in (refused(call, "fit", "a.csv"))
    )


@STREAMED
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x,y\n2,1\nx,1\n6,1\n2,1\n", "column 'x' has 'x', no number, at row 1 (counted from 0) of"),
        ("x,y\n2,1\n,1\n6,1\n2,1\n", "at row 1 (counted from 0) of"),
        ("x,y\n2,1\nnan,1\n6,1\n2,1\n", "at row 1 (counted from 0) of"),
        ("x,y\n2,1\ninf,1\n6,1\n2,1\n", "at row 1 (counted from 0) of"),
        ("x,y\n,1\n,1\n,1\n,1\n", "at row 0 (counted from 0) of"),
    ],
)
def test_what_is_no_number_is_named_with_its_row_and_file(
    call: Any, tmp_path: Path, text: str, expected: str, stream: str
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.csv").write_text("x,y\n1,2\n3,4\n5,7\n")
    (tmp_path / "d" / "b.csv").write_text(text)
    said = refused(call, "fit", "d", "-c", "2", stream)
    assert f"{expected} {Path('d') / 'b.csv'}" in said
    assert "'x'" in said


def test_files_that_are_not_what_their_name_says(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_text("nothing of the kind")
    said = refused(call, "fit", "a.npy")
    assert "a.npy is no readable npy file" in said
    assert "pickle" not in said
    (tmp_path / "b.csv").write_bytes("a\n".encode("utf-16"))
    assert "b.csv must be text in UTF-8" in refused(call, "fit", "b.csv")
    (tmp_path / "c.csv.gz").write_text("x,y\n1,2\n")
    assert "cannot read c.csv.gz" in refused(call, "fit", "c.csv.gz")
    assert "c.csv.gz cannot be read piece by piece" in refused(call, "fit", "c.csv.gz", "--stream", "--label", "y")
