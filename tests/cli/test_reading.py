"""Files as people have them: without names, with other delimiters, with gaps; read whole and piece by piece alike."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")
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
    numbers = [line[:2] for line in lines_of(rows)[1:]]
    (tmp_path / "bare.csv").write_text(joined(numbers))
    assert call(command, "bare.csv", "-c", "2", "-q").returncode == 0
    (tmp_path / "counted.csv").write_text(joined([["0", "1"], *numbers]))
    assert "--no-header" in refused(call, command, "counted.csv", "-c", "2")
    assert call(command, "counted.csv", "-c", "2", "--header", "-q").returncode == 0


@STREAMED
def test_an_unknown_label_is_named_first(call: Any, rows: Path, stream: str) -> None:
    for more in ([], ["--columns", "width"]):
        said = refused(call, "fit", rows, "-c", "2", "--label", "class", stream, *more)
        assert "no column 'class'; its columns are width, height, side" in said
    found = fitted(call, rows, "-c", "2", stream)
    assert found["columns"] == ["width", "height"]
    assert any("Skipped: side (text)" in note for note in found["notes"])


def test_streamed_arrays_are_taken_whole(call: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(30, 3)))
    said = refused(call, "fit", "rows.npy", "-c", "1", "--columns", "x1,x3", "--stream")
    assert "all its columns, x1, x2, x3; got x1, x3; use --no-stream" in said
    assert fitted(call, "rows.npy", "-c", "1", "--columns", "x1,x3", "--out", "two")["columns"] == ["x1", "x3"]
    assert fitted(call, "rows.npy", "-c", "1", "--stream", "--out", "made")["columns"] == ["x1", "x2", "x3"]
    assert call("predict", "made/model.json", "rows.npy", "--stream", "--out", "out.parquet").returncode == 0
    assert "use --no-stream" in refused(call, "predict", "two/model.json", "rows.npy", "--stream", "--out", "o.parquet")


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


def test_decimal_commas_are_read(call: Any, rows: Path, tmp_path: Path) -> None:
    lines = [line[:2] for line in lines_of(rows)]
    (tmp_path / "comma.csv").write_text(joined(lines, ";").replace(".", ","))
    (tmp_path / "point.csv").write_text(joined(lines))
    found, expected = (fitted(call, f"{name}.csv", "-c", "2") for name in ("comma", "point"))
    assert found["log_likelihood"] == expected["log_likelihood"]
    (tmp_path / "bare.csv").write_text("1,5;2,5\n2,5;3,5\n0,5;1\n")
    assert "--no-header" in refused(call, "fit", "bare.csv")
    assert fitted(call, "bare.csv", "--no-header", "-c", "1")["n_rows"] == 3


@STREAMED
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x,y\n2,1\nx,1\n6,1\n2,1\n", "column 'x' has 'x', not a number, at row 2 (counted from 1) of"),
        ("x,y\n2,1\ninf,1\n6,1\n2,1\n", "at row 2 (counted from 1) of"),
    ],
)
def test_what_is_no_number_is_named_with_its_row_and_file(
    call: Any, tmp_path: Path, text: str, expected: str, stream: str
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.csv").write_text("x,y\n1,2\n3,4\n5,7\n")
    (tmp_path / "d" / "b.csv").write_text(text)
    is_missing = not any(word in text for word in ("x,1", "inf"))
    if stream == "--no-stream" and is_missing:
        left = 3 if "2,1" not in text else 6
        assert fitted(call, "d", "-c", "2", stream)["n_rows"] == left
        return
    said = refused(call, "fit", "d", "-c", "2", stream)
    assert f"{expected} {Path('d') / 'b.csv'}" in said
    assert "'x'" in said


def test_files_that_are_not_what_their_name_says(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_text("nothing of the kind")
    said = refused(call, "fit", "a.npy")
    assert "a.npy is not a valid npy file" in said
    assert "pickle" not in said
    (tmp_path / "b.csv").write_bytes("a\n".encode("utf-16"))
    assert "b.csv must be UTF-8 text" in refused(call, "fit", "b.csv")


@STREAMED
def test_packed_files_that_are_damaged(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    path = tmp_path / "c.csv.gz"
    path.write_text("x,y\n1,2\n")
    assert "cannot read c.csv.gz: Not a gzipped file" in refused(call, "fit", "c.csv.gz", stream)
    packed = gzip.compress(rows.read_bytes())
    path.write_bytes(packed[:-100])
    assert "cannot read c.csv.gz: Compressed file ended" in refused(call, "fit", "c.csv.gz", stream)
    path.write_bytes(packed[:10] + b"\xff" + packed[11:])  # a block of no known type
    assert "cannot read c.csv.gz: Error" in refused(call, "fit", "c.csv.gz", stream)


@STREAMED
@pytest.mark.parametrize("name", ["", '""', "Unnamed: 0"])
def test_an_index_that_pandas_or_r_has_written_is_no_feature(
    call: Any, rows: Path, tmp_path: Path, name: str, stream: str
) -> None:
    names, *lines = lines_of(rows)
    numbered = [[f'"{row}"' if name == '""' else f"{row}", *line] for row, line in enumerate(lines, 1)]
    (tmp_path / "numbered.csv").write_text(joined([[name, *names], *numbered]))
    options = ["-c", "2", "--label", "side", stream, "--out"]
    found, expected = fitted(call, "numbered.csv", *options, "made"), fitted(call, rows, *options, "plain")
    assert found["columns"] == ["width", "height"]
    assert found["log_likelihood"] == expected["log_likelihood"]
    (note,) = found["notes"]
    left_out = name.strip('"')
    assert f"Skipped as an index written by pandas or R: column {left_out!r};" in note
    assert note in (tmp_path / "made" / "summary.txt").read_text()
    written = call("predict", "made/model.json", "numbered.csv", stream, "--out", "out.parquet")
    assert written.returncode == 0
    assert (
        "Skipped as an index"
        in call("compare", "numbered.csv", "-c", "2", "--label", "side", "--algorithms", "fcm").stderr
    )
    assert "Skipped as an index" in call("select", "numbered.csv", "-c", "2", "--label", "side").stderr


@STREAMED
def test_an_index_can_be_asked_for(call: Any, tmp_path: Path, stream: str) -> None:
    lines = [[f"{row % 7}", f"{row % 5}"] for row in range(40)]
    (tmp_path / "rows.csv").write_text(joined([["Unnamed: 0", "a"], *lines]))
    found = fitted(call, "rows.csv", "-c", "2", "--columns", "a,Unnamed: 0", stream)
    assert (found["columns"], found["notes"]) == (["a", "Unnamed: 0"], [])
    said = refused(call, "fit", "rows.csv", "--label", "a", stream, "--force")
    assert "rows.csv has no column to cluster besides the label 'a'" in said


@STREAMED
def test_the_index_of_a_data_frame_in_parquet_is_no_feature(call: Any, tmp_path: Path, stream: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [9.0]], 20, axis=0)
    frame = pandas.DataFrame(X, columns=["a", "b"], index=pandas.Index(np.arange(40) ** 2, name="number"))
    frame.to_parquet(tmp_path / "frame.parquet")
    frame.to_parquet(tmp_path / "plain.parquet", index=False)
    found = fitted(call, "frame.parquet", "-c", "2", stream)
    expected = fitted(call, "plain.parquet", "-c", "2", stream)
    assert (found["columns"], found["log_likelihood"]) == (["a", "b"], expected["log_likelihood"])
    said = "column 'number';" if stream == "--stream" else "Rows are named by 'number', which is not clustered"
    assert any(said in note for note in found["notes"])
    assert expected["notes"] == []


@STREAMED
def test_rows_without_a_class_are_not_compared(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    lines = lines_of(rows)
    lines[1][2] = lines[40][2] = ""
    (tmp_path / "gaps.csv").write_text(joined(lines))
    result = call("fit", "gaps.csv", "-c", "2", "--label", "side", "--no-plots", stream)
    note = "2 of 40 rows have no class and are ignored in the comparison"
    assert note in result.stderr
    assert "purity" in result.stdout
    assert note in (tmp_path / "egmm-gaps" / "summary.txt").read_text()
    found = fitted(call, "gaps.csv", "-c", "2", "--label", "side", stream, "--out", "made")
    assert (found["n_rows"], found["metrics"]["ARI"]) == (40, 1.0)
    assert note in found["notes"][0]


def test_classes_that_are_all_missing(call: Any, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text(
        joined([[*line[:2], "side" * (at == 0)] for at, line in enumerate(lines_of(rows))])
    )
    result = call("fit", "gaps.csv", "-c", "2", "--label", "side", "--no-plots")
    assert result.returncode == 0
    assert "40 of 40 rows have no class" in result.stderr
    assert "known classes" not in result.stdout
    assert call("compare", "gaps.csv", "-c", "2", "--label", "side", "--algorithms", "egmm").returncode == 0


def test_numbers_as_classes_with_gaps(call: Any, rows: Path, tmp_path: Path) -> None:
    codes = {"side": "side", "left": "0", "right": "1"}
    lines = [[*line[:2], codes[line[2]]] for line in lines_of(rows)]
    lines[7][2] = ""
    (tmp_path / "codes.csv").write_text(joined(lines))
    found = fitted(call, "codes.csv", "-c", "2", "--label", "side")
    assert found["metrics"]["ARI"] == 1.0
    assert "1 of 40 rows have no class" in found["notes"][0]


@STREAMED
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_categories_with_gaps(call: Any, rows: Path, tmp_path: Path, suffix: str, stream: str) -> None:
    X = np.loadtxt(rows, delimiter=",", skiprows=1, usecols=(0, 1))
    sides = pyarrow.array(["left"] * 19 + [None] + ["right"] * 20).dictionary_encode()
    columns = pyarrow.table({"width": X[:, 0], "height": X[:, 1], "side": sides})
    write = {"parquet": parquet.write_table, "feather": feather.write_feather}[suffix]
    write(columns, str(tmp_path / f"gaps.{suffix}"))
    found = fitted(call, f"gaps.{suffix}", "-c", "2", "--label", "side", stream)
    assert "1 of 40 rows have no class" in found["notes"][0]
    sizes = pyarrow.array([1.5] * 19 + [None] + [2.5] * 20).dictionary_encode()
    write(columns.set_column(2, "size", sizes), str(tmp_path / f"sizes.{suffix}"))
    assert fitted(call, f"sizes.{suffix}", "-c", "2", "--out", "sizes", stream)["n_rows"] == 40


@STREAMED
def test_text_that_is_not_in_utf_8(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    text = rows.read_text().replace("left", "l\u00e9ft").replace("right", "l\u00e8ft")
    (tmp_path / "latin.csv").write_bytes(text.encode("latin-1"))
    found = fitted(call, "latin.csv", "-c", "2", "--label", "side", stream)
    assert found["metrics"]["ARI"] == 1.0
    lines = lines_of(rows)
    lines[8][1] += "\u00b5"
    (tmp_path / "unit.csv").write_bytes(joined([line[:2] for line in lines]).encode("latin-1"))
    said = refused(call, "fit", "unit.csv", "-c", "2", stream)
    assert f"column 'height' has '{lines[8][1][:5]}" in said
    assert "not a number, at row 8 (counted from 1) of unit.csv" in said


@STREAMED
def test_numbers_as_others_write_them(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    lines = [line[:2] for line in lines_of(rows)]
    if stream == "--stream":
        (tmp_path / "comma.csv").write_text(joined(lines, ";").replace(".", ","))
        assert "write numbers with a decimal point" in refused(call, "fit", "comma.csv", "-c", "2", stream)
    lines[8][1] = "1_000"
    (tmp_path / "under.csv").write_text(joined(lines))
    assert "column 'height' has '1_000', not a number, at row 8" in refused(call, "fit", "under.csv", "-c", "2", stream)
    lines[8][1] = "\u0661\u0662"  # twelve, in digits of another script
    (tmp_path / "script.csv").write_text(joined(lines), encoding="utf-8")
    assert "not a number, at row 8" in refused(call, "fit", "script.csv", "-c", "2", stream)


def test_the_damaged_one_of_several_files_is_named(call: Any, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in "ab":
        columns = pyarrow.table({"x": np.random.default_rng(0).normal(size=500)})
        parquet.write_table(columns, tmp_path / "parts" / f"{name}.parquet")
    whole = (tmp_path / "parts" / "b.parquet").read_bytes()
    (tmp_path / "parts" / "b.parquet").write_bytes(whole[:4] + bytes(60) + whole[64:])  # the head of a page
    assert "b.parquet cannot be read: " in refused(call, "fit", "parts", "-c", "2", "--no-stream")


def test_packed_files_may_have_endings_in_capitals(call: Any, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "ROWS.CSV.GZ").write_bytes(gzip.compress(rows.read_bytes()))
    assert fitted(call, "ROWS.CSV.GZ", "-c", "2", "--label", "side")["n_rows"] == 40
    assert "ROWS.CSV.GZ cannot be read block by block" in refused(call, "fit", "ROWS.CSV.GZ", "--stream", "--force")


@STREAMED
def test_packed_files_are_read_as_the_text_in_them(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(rows.read_bytes()))
    options = ["-c", "2", "--label", "side", stream, "--out"]
    found, expected = fitted(call, "packed.csv.gz", *options, "made"), fitted(call, rows, *options, "plain")
    for name in ("n_rows", "columns", "log_likelihood", "metrics"):
        assert found[name] == expected[name]
    (tmp_path / "text.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n3,4\n5,many\n"))
    said = refused(call, "fit", "text.csv.gz", "-c", "2", stream)
    assert "column 'y' has 'many', not a number, at row 3 (counted from 1) of text.csv.gz" in said


def test_columns_of_one_name(call: Any, tmp_path: Path) -> None:
    twice = pyarrow.Table.from_arrays([pyarrow.array([1.0, 2.0]), pyarrow.array([3.0, 4.0])], names=["x", "x"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    assert "twice.parquet has two columns named 'x'" in refused(call, "fit", "twice.parquet", "--no-stream")


@STREAMED
def test_hidden_files_of_a_directory_are_no_data(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.csv").write_bytes(rows.read_bytes())
    (tmp_path / "parts" / "._a.csv").write_bytes(b"\x00\x05\x16\x07Mac OS X")
    (tmp_path / "parts" / "_b.csv").write_text("unfinished")
    assert fitted(call, "parts", "-c", "2", "--label", "side", stream)["n_rows"] == 40


@STREAMED
def test_classes_of_files_that_write_their_name_otherwise(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    names, *lines = lines_of(rows)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.csv").write_text(joined([names, *lines[:15]]))
    (tmp_path / "parts" / "b.csv").write_text(joined([[f" {name} " for name in names], *lines[15:]]))
    found = fitted(call, "parts", "-c", "2", "--label", "side", stream)
    assert found["notes"] == []
    assert found["metrics"]["ARI"] == 1.0
    (tmp_path / "parts" / "b.csv").write_text(joined([["width", "height", "class"], *lines[15:]]))
    assert "b.csv has" in refused(call, "fit", "parts", "-c", "2", "--label", "side", "--force", stream)


@STREAMED
def test_a_class_is_the_same_number_in_files_with_and_without_gaps(
    call: Any, rows: Path, tmp_path: Path, stream: str
) -> None:
    codes = {"side": "side", "left": "0", "right": "1"}
    lines = [[*line[:2], codes[line[2]]] for line in lines_of(rows)]
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.csv").write_text(joined(lines[:31]))
    lines[35][2] = "NA"
    (tmp_path / "parts" / "b.csv").write_text(joined([lines[0], *lines[31:]]))
    found = fitted(call, "parts", "-c", "2", "--label", "side", stream)
    assert found["metrics"]["ARI"] == 1.0
    assert "1 of 40 rows have no class" in found["notes"][0]


@STREAMED
@pytest.mark.parametrize("first", ["1", ""], ids=["a number", "nothing"])
def test_classes_that_only_later_are_text(call: Any, tmp_path: Path, stream: str, first: str) -> None:
    X = np.random.default_rng(0).normal(size=(60_000, 2)) + np.repeat([[0.0], [40.0]], 30_000, axis=0)
    lines = [[f"{a:.17f}", f"{b:.17f}", first if at < 30_000 else "right"] for at, (a, b) in enumerate(X)]
    (tmp_path / "long.csv").write_text(joined([["width", "height", "side"], *lines]))
    found = fitted(call, "long.csv", "-c", "2", "--label", "side", stream)
    assert found["metrics"]["purity"] == 1.0
    assert len(found["notes"]) == (first == "")


@STREAMED
def test_true_and_false_are_numbers(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    flags = ["TRUE" if at % 3 else "false" for at in range(40)]
    for name, written in (("flags", flags), ("numbers", [str(int(flag == "TRUE")) for flag in flags])):
        lines = [[*line[:2], flag] for line, flag in zip(lines_of(rows), ["flag", *written], strict=True)]
        (tmp_path / f"{name}.csv").write_text(joined(lines))
    found, expected = (fitted(call, f"{name}.csv", "-c", "2", stream, "--out", name) for name in ("flags", "numbers"))
    assert found["log_likelihood"] == expected["log_likelihood"]
    text = (tmp_path / "flags.csv").read_text()
    (tmp_path / "gap.csv").write_text(text[: text.rindex(",") + 1] + "\n")
    assert fitted(call, "gap.csv", "-c", "2", stream)["n_rows"] == 40


@STREAMED
def test_columns_that_make_a_covariance_singular_are_named(call: Any, rows: Path, tmp_path: Path, stream: str) -> None:
    lines = [[a, b, repr(float(a) + float(b)), a + "1", "0.1"] for a, b, _ in lines_of(rows)[1:]]
    lines = [["a", "b", "sum", "free", "still"], *lines]
    for at, line in enumerate(lines[1:]):
        line[3] = str(at * at % 17)
    (tmp_path / "odd.csv").write_text(joined(lines))
    result = call("fit", "odd.csv", "-c", "2", "--no-plots", stream)
    assert result.returncode == 0, result.stderr
    summary = (tmp_path / "egmm-odd" / "summary.txt").read_text()
    for said in (result.stderr, summary):
        assert ("not informative: column 'still'; drop" if stream == "--stream" else "still (constant)") in said
        assert "Linearly dependent: columns 'a', 'b', 'sum'; a full covariance is singular" in said
    notes = fitted(call, "odd.csv", "-c", "2", "--columns", "a,b,free", stream, "--out", "made")["notes"]
    assert notes == []


@pytest.mark.parametrize("command", ["select", "compare"])
def test_other_commands_name_them_too(call: Any, rows: Path, tmp_path: Path, command: str) -> None:
    lines = [[a, b, a] for a, b, _ in lines_of(rows)]
    (tmp_path / "odd.csv").write_text(joined([["a", "b", "c"], *lines[1:]]))
    result = call(command, "odd.csv", "-c", "2", *(["--algorithms", "egmm"] if command == "compare" else []))
    assert "Linearly dependent: columns 'a', 'c';" in result.stderr


def test_fewer_rows_than_columns(call: Any, tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("a,b,c\n1,2,4\n5,1,3\n2,8,1\n")
    notes = fitted(call, "wide.csv", "-c", "1")["notes"]
    assert len(notes) == 1
    assert notes[0].startswith("There are 3 rows for 3 columns: a full covariance is singular")


def test_a_search_with_one_covariance_is_told(call: Any, rows: Path) -> None:
    said = "Only covariance EEE is tried, and more clusters may make up for its shape"
    options = [rows, "--label", "side", "-c"]
    assert said in call("select", *options, "2:3").stderr
    assert "is tried" not in call("select", *options, "2").stderr
    assert fitted(call, *options, "2:3", "--model", "paper")["notes"][-1].startswith(said)


def test_certainty_is_told_and_can_be_chosen(call: Any, rows: Path, tmp_path: Path) -> None:
    options = [rows, "-c", "2", "--label", "side", "--covariance", "EEE,EII"]
    assert "--certainty 1" in call("select", *options).stderr
    assert "certainty" not in call("select", *options, "--certainty", "0").stderr
    options += ["--model", "paper"]
    model = json.loads(call("fit", *options, "--json", "--no-plots", "--out", "made").stdout)
    assert "--certainty 1" in model["notes"][0]
    assert "--certainty 1" in (tmp_path / "made" / "summary.txt").read_text()
    other = fitted(call, *options, "--certainty", "0.5", "--reg-covar", "0.25", "--max-iter", "900", "--out", "other")
    assert other["notes"] == []
    saved = json.loads((tmp_path / "other" / "model.json").read_text())["parameters"]
    assert (saved["certainty"], saved["reg_covar"], saved["max_iter"]) == (0.5, 0.25, 900)
    report = (tmp_path / "other" / "report.html").read_text()
    assert "--certainty 0.5 --reg-covar 0.25 --max-iter 900" in report


def test_one_model_has_the_ridge_and_certainty_asked_for(call: Any, rows: Path, tmp_path: Path) -> None:
    options = ["--model", "paper", "-c", "2", "--label", "side", "--certainty", "0.5", "--reg-covar", "0.25"]
    fitted(call, rows, *options, "--out", "made")
    saved = json.loads((tmp_path / "made" / "model.json").read_text())["parameters"]
    assert (saved["certainty"], saved["reg_covar"]) == (0.5, 0.25)


def test_help_says_what_is_done(call: Any) -> None:
    assert "compared with" not in call("select", "--help").stdout
    assert "auto (2:6)" in " ".join(call("segment", "--help").stdout.replace("│", "").split())
    from egmm.cli.comparing import ALGORITHMS  # noqa: PLC0415

    assert ", ".join(ALGORITHMS) in " ".join(call("compare", "--help").stdout.replace("│", "").split())


@pytest.mark.parametrize("name", ["auto", "all"])
def test_all_covariances_have_two_names(call: Any, rows: Path, name: str) -> None:
    said = json.loads(call("select", rows, "-c", "2", "--label", "side", "--covariance", name, "--json").stdout)
    assert len(said["candidates"]) == 14


@pytest.mark.parametrize("options", [["--noise"], ["--tails", "t", "--model", "paper"]])
def test_noise_and_tails_are_fitted_told_and_made_again(call: Any, tmp_path: Path, options: list[str]) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(at, 1, (60, 2)) for at in (0, 9)] + [rng.uniform(-30, 40, (6, 2))])
    path = tmp_path / "rows.csv"
    np.savetxt(path, X, delimiter=",", header="a,b", comments="")
    done = call("fit", str(path), "--clusters", "2", *options, "--out", str(tmp_path / "out"))
    told = {"--noise": "to no cluster: the empty set", "--tails": "t distributions with"}[options[0]]
    assert told in " ".join(done.stdout.split())
    assert (
        " ".join(options[:2])
        in (tmp_path / "out" / "summary.txt").read_text() + (tmp_path / "out" / "report.html").read_text()
    )
