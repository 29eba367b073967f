"""Files read piece by piece: the same words, files and numbers as of files read whole."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egmm import CredalPartition
from egmm.cli import streaming
from egmm.report import content
from report.test_content import data_of, decode

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("typer")

OPTIONS = ["-c", "2", "--label", "side", "--no-plots"]


def test_rows_of_the_report_have_the_numbers_of_the_file(
    call: Any, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "SAMPLE_ROWS", 15)
    monkeypatch.setattr(content, "MOST_LISTED", 5)
    monkeypatch.setattr(content, "MOST_ROWS", 8)
    assert call("fit", rows, *OPTIONS, "--stream", "--out", "made").returncode == 0
    data = data_of((tmp_path / "made" / "report.html").read_text("utf-8"))
    width = np.loadtxt(rows, delimiter=",", skiprows=1, usecols=0)
    assert (data["nTotal"], data["nRows"]) == (40, 15)
    drawn = decode(data["rows"], "<u4")
    assert len(drawn) == 8
    shown = decode(data["values"], "<f4")[:8] + data["centre"][0]
    np.testing.assert_allclose(shown, width[drawn], rtol=1e-6)
    labels = parquet.read_table(tmp_path / "made" / "labels.parquet").to_pylist()
    for listed in data["objects"]:
        said = labels[listed["row"]]
        assert (listed["row"] + 1, listed["set"], listed["cluster"]) == (said["row"], said["set"], said["cluster"])
        assert listed["bits"] == pytest.approx(said["nonspecificity"], abs=1e-4)


def test_streamed_fits_write_the_same_files(call: Any, rows: Path, tmp_path: Path) -> None:
    for name in ("stream", "no-stream"):
        result = call("fit", rows, *OPTIONS, f"--{name}", "--out", name, "--table", "parquet")
        assert result.returncode == 0
        assert "Warning" not in result.stderr
    streamed, whole = tmp_path / "stream", tmp_path / "no-stream"
    assert {path.name for path in streamed.iterdir()} == {path.name for path in whole.iterdir()}
    tables = [parquet.read_table(folder / "labels.parquet") for folder in (streamed, whole)]
    assert tables[0].schema == tables[1].schema
    found, expected = (CredalPartition.load(folder / "masses.parquet") for folder in (streamed, whole))
    assert found.focal_sets == expected.focal_sets
    np.testing.assert_allclose(found.mass, expected.mass, atol=1e-9)


def test_candidates_are_compared_on_streams_as_on_whole_files(call: Any, rows: Path) -> None:
    options = ["-c", "1:2", "--covariance", "EEE,VVI", "--label", "side", "--standardize", "--json"]
    found, expected = (
        json.loads(call("select", rows, *options, f"--{name}").stdout) for name in ("stream", "no-stream")
    )
    assert found["notes"] == expected["notes"]
    assert (found["n_clusters"], found["covariance"]) == (expected["n_clusters"], expected["covariance"])
    assert len(found["candidates"]) == 4
    for one, other in zip(found["candidates"], expected["candidates"], strict=True):
        assert one["ebic"] == pytest.approx(other["ebic"], rel=1e-9)
        assert one["agreement"] == pytest.approx(other["agreement"], rel=1e-9)


def test_a_stream_of_fewer_rows_than_clusters_is_told_so(call: Any, rows: Path) -> None:
    result = call("select", rows, "-c", "41", "--label", "side", "--stream")
    assert result.returncode == 1
    assert "there are 40 rows, too few for 41 clusters" in result.stderr


def test_standardised_columns_have_the_same_bits(call: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 2)) * [1.0, 100.0] + np.repeat([[0.0], [900.0]], 10_000, axis=0)
    np.save(tmp_path / "rows.npy", X)
    models = []
    for name in ("stream", "no-stream"):
        options = ["-c", "2", "--model", "paper", "--standardize", "--no-plots", "-q"]
        assert call("fit", "rows.npy", *options, f"--{name}", "--out", name).returncode == 0
        models.append(json.loads((tmp_path / name / "model.json").read_text()))
    np.testing.assert_allclose(models[0]["preparation"]["centre"], X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(models[0]["preparation"]["scale"], X.std(axis=0), rtol=1e-12)
    assert models[0] == models[1]


@pytest.mark.parametrize("command", [["fit"], ["fit", "--stream"], ["select"], ["compare"]], ids=" ".join)
def test_an_entry_too_large_to_standardise_is_named(call: Any, rows: Path, tmp_path: Path, command: list[str]) -> None:
    lines = [line.rpartition(",")[0] for line in rows.read_text().splitlines()]
    (tmp_path / "large.csv").write_text("\n".join([*lines, "1.5,1e200"]) + "\n")
    result = call(*command, "large.csv", "-c", "2", "--standardize")
    assert result.returncode == 1
    assert "the value 1e+200, too large to square, at row 41 (counted from 1) of large.csv" in result.stderr
    assert "'height'" in result.stderr


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_predict_needs_no_names(call: Any, rows: Path, how: str) -> None:
    assert call("fit", rows, *OPTIONS, "--stream", "--out", "made", "-q").returncode == 0
    result = call("predict", "made/model.json", rows, how, "--out", "new/assigned.parquet")
    assert (result.returncode, result.stderr) == (0, "")
    assert "Written to new/assigned.parquet" in result.stdout


BAD = {
    "unknown label": (["--label", "nope"], "no column 'nope'; its columns are width, height, side"),
    "text": (
        ["--columns", "width,side"],
        "column 'side' has 'left', not a number, at row 1 (counted from 1) of rows.csv; select other columns with",
    ),
    "unknown column": (["--columns", "width,depth"], "rows.csv has no column 'depth'; its columns are width"),
}


@pytest.mark.parametrize(("options", "expected"), BAD.values(), ids=BAD)
def test_columns_are_spoken_of_as_options(call: Any, rows: Path, options: list[str], expected: str) -> None:
    result = call("fit", rows.name, "-c", "2", "--stream", *options)
    assert result.returncode == 1
    assert expected in result.stderr


def test_formats_that_cannot_be_streamed_are_named(call: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[[1, 2], [3, 4]]")
    result = call("fit", "rows.json", "-c", "2", "--stream")
    assert result.returncode == 1
    assert "rows.json cannot be read block by block; expected files ending in .csv, .tsv" in result.stderr


def test_columns_of_npy_files_are_not_chosen_among(call: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(40, 3)))
    way_out = "all its columns, x1, x2, x3; got x1, x2; use --no-stream"
    for options in (["--label", "x3"], ["--columns", "x1,x2"]):
        assert way_out in call("fit", "rows.npy", "-c", "2", "--stream", *options).stderr
        assert call("fit", "rows.npy", "-c", "2", "--no-plots", "--out", options[1], *options).returncode == 0
    said = call("fit", "rows.npy", "--stream", "--columns", "x1,x2,x3", "--label", "x3").stderr
    assert "--label 'x3' is also in --columns" in said
    for options in (["--label", "side"], ["--columns", "width"]):
        said = call("fit", "rows.npy", "-c", "2", "--stream", *options).stderr
        assert f"rows.npy has no column {options[1]!r}; its columns are x1, x2, x3" in said


def test_small_files_are_not_called_large(call: Any, rows: Path) -> None:
    assert call("fit", rows, *OPTIONS, "--out", "made", "-q").returncode == 0
    for out in ([], ["--out", "a.csv"]):
        result = call("predict", "made/model.json", rows, "--stream", *out)
        assert result.returncode == 1
        assert "with --stream rows are written as Parquet; use --out with a .parquet file" in result.stderr


def test_machines_are_told_the_files(call: Any, rows: Path) -> None:
    result = json.loads(call("fit", rows, *OPTIONS, "--stream", "--json").stdout)
    assert result["files"] == ["labels.parquet", "masses.parquet", "model.json", "report.html", "summary.txt"]


@pytest.mark.parametrize("options", [[], ["--standardize"]], ids=["as it is", "standardised"])
def test_an_infinite_entry_is_found_where_it_is(call: Any, tmp_path: Path, options: list[str]) -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "whole.parquet")
    X[17_000, 1] = np.inf
    parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "gap.parquet")
    expected = "infinity at row 17001 (counted from 1) of gap.parquet, column 1 ('b')"
    fitted = call("fit", "gap.parquet", "-c", "2", "--stream", *options)
    assert expected in fitted.stderr
    assert call("fit", "whole.parquet", "-c", "2", "--no-plots", "-q", "--out", "made", *options).returncode == 0
    predicted = call("predict", "made/model.json", "gap.parquet", "--stream", "--out", "p.parquet")
    assert expected in predicted.stderr
    assert predicted.stderr.count("\n") == 1
    assert not (tmp_path / "p.parquet").exists()
