"""Scans of files: what they read, and how they refuse what they cannot."""

import errno
import io
import os
import time
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.base import clone

import row_sources
from egmm import BPEC, ECM, EGMM, FCM, BootGMM, scan, select_model
from egmm.rows import ReadError
from egmm.rows.arrow import open_table
from egmm.rows.write import write_parquet
from row_sources import BLOCK_ROWS, FILES, table, two_groups


class FullDisk(io.FileIO):
    """Takes a few bytes, then fails as a full disk does."""

    left = 1000

    def write(self, data: Any) -> int:
        self.left -= len(data)
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


def all_rows(rows: Any) -> np.ndarray:
    return np.concatenate([X for X, _ in rows.blocks()])


def parquet(path: Path, X: np.ndarray, **more: Any) -> Path:
    pa.parquet.write_table(table(X, **more), path, row_group_size=1000)
    return path


@pytest.fixture
def X() -> np.ndarray:
    return two_groups(2 * BLOCK_ROWS + 100)


@pytest.fixture
def small() -> np.ndarray:
    return two_groups(50)


# What is read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_blocks_of_fixed_size_whatever_the_files_pieces(name: str, X: np.ndarray, tmp_path: Path) -> None:
    rows = scan(FILES[name](X, tmp_path))
    assert rows.shape == X.shape
    blocks = [block for block, weight in rows.blocks() if weight is None]
    assert [len(block) for block in blocks] == [BLOCK_ROWS, BLOCK_ROWS, 100]
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    np.testing.assert_array_equal(all_rows(rows), X)  # a second pass


@pytest.mark.parametrize("name", FILES)
def test_threads_see_each_block_once(name: str, X: np.ndarray, tmp_path: Path) -> None:
    rows = scan(FILES[name](X, tmp_path))
    with rows.using(None, 3) as open_rows:
        sums = list(open_rows.map(lambda block, _, part: (block.sum(axis=0), part.sum()), np.arange(len(X))))
    cuts = [0, BLOCK_ROWS, 2 * BLOCK_ROWS, len(X)]
    for (total, numbers), first, last in zip(sums, cuts, cuts[1:], strict=False):
        np.testing.assert_allclose(total, X[first:last].sum(axis=0), rtol=1e-12)
        assert numbers == sum(range(first, last))


def test_of_many_columns_fewer_rows_are_held_at_a_time(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 100))
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table(dict(zip(map(str, range(100)), X.T, strict=True))), path)
    rows = scan(path)
    # As many numbers as 65536 rows of ten columns have.
    assert max(len(piece) for run in rows.runs() for piece in run) <= 6_553
    np.testing.assert_array_equal(all_rows(rows), X)


@pytest.mark.parametrize("write", [pa.parquet.write_table, pa.feather.write_feather], ids=["parquet", "feather"])
def test_many_columns_of_few_rows(write: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 4000))
    path = str(tmp_path / f"rows.{write.__name__.removeprefix('write_').replace('table', 'parquet')}")
    write(pa.table({f"gene {at}": X[:, at] for at in range(4000)}), path)
    tracemalloc.start()
    began = time.process_time()
    found = all_rows(scan(path))
    assert time.process_time() - began < 3.0  # not a look through all names for each of them
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * X.nbytes  # a block of 16 384 rows would be 800 times as large
    np.testing.assert_array_equal(found, X)


def test_a_feather_file_is_not_kept_while_it_is_read(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40 * BLOCK_ROWS, 4))
    path = tmp_path / "rows.feather"
    pa.feather.write_feather(table(X), str(path), chunksize=BLOCK_ROWS)
    rows = scan(path, ["d", "a"])
    before, held = pa.total_allocated_bytes(), []
    for first, (block, _) in enumerate(rows.blocks()):
        np.testing.assert_array_equal(block, X[first * BLOCK_ROWS :][:BLOCK_ROWS, [3, 0]])
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == 40
    assert max(held) < 0.25 * X.nbytes


def test_columns_by_name_in_the_order_asked_for(small: np.ndarray, tmp_path: Path) -> None:
    rows = scan(parquet(tmp_path / "a.parquet", small, note=["text"] * 50), ["c", "a"])
    assert rows.feature_names == ["c", "a"]
    np.testing.assert_array_equal(all_rows(rows), small[:, [2, 0]])


def test_a_column_of_weights_is_no_feature(small: np.ndarray, tmp_path: Path) -> None:
    weights = np.arange(50)
    rows = scan(parquet(tmp_path / "a.parquet", small, w=weights), weight="w")
    assert rows.feature_names == ["a", "b", "c"]
    np.testing.assert_array_equal(np.concatenate([weight for _, weight in rows.blocks()]), weights)


def test_given_weights_take_the_place_of_a_column(small: np.ndarray, tmp_path: Path) -> None:
    rows = scan(parquet(tmp_path / "a.parquet", small, w=np.arange(50)), weight="w")
    ((_, given),) = rows.using(np.full(50, 3.0), 1).blocks()
    assert set(given) == {3.0}
    ((_, own),) = rows.blocks()  # the scan itself stays as it was
    assert own[1] == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint64])
@pytest.mark.parametrize("name", ["parquet", "npy", "csv", "feather"])
def test_numbers_of_other_types(name: str, dtype: Any, tmp_path: Path) -> None:
    X = np.arange(30).reshape(10, 3).astype(dtype)
    rows = scan(FILES[name](X, tmp_path))
    assert all_rows(rows).dtype == (np.float32 if dtype == np.float32 and name != "csv" else np.float64)
    np.testing.assert_array_equal(all_rows(rows), X)


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_booleans_decimals_and_categories_of_numbers_are_numbers(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{suffix}"
    columns = pa.table(
        {
            "flag": [True, False, True],
            "price": pa.array([Decimal("1.25"), Decimal("-2.50"), Decimal("1000.75")]),
            "half": pa.array(np.array([0.5, 1.5, 2.5], dtype=np.float16)),
            "size": pa.array([0.1, 0.2, 0.1]).dictionary_encode(),
            "w": [True, True, False],
        }
    )
    {"parquet": pa.parquet.write_table, "feather": pa.feather.write_feather}[suffix](columns, str(path))
    ((X, weight),) = scan(path, weight="w").blocks()
    np.testing.assert_array_equal(X, [[1, 1.25, 0.5, 0.1], [0, -2.5, 1.5, 0.2], [1, 1000.75, 2.5, 0.1]])
    np.testing.assert_array_equal(weight, [1, 1, 0])


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_decimals_become_the_nearest_number(suffix: str, tmp_path: Path) -> None:
    texts = [f"{value:.6f}" for value in np.random.default_rng(0).normal(size=200)] + ["123456789012345678.123457"]
    path, columns = tmp_path / f"rows.{suffix}", pa.table({"x": pa.array([Decimal(text) for text in texts])})
    {"parquet": pa.parquet.write_table, "feather": pa.feather.write_feather}[suffix](columns, str(path))
    np.testing.assert_array_equal(all_rows(scan(path))[:, 0], [float(text) for text in texts])


def test_true_and_false_in_csv_are_one_and_zero(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("flag,x,w\ntrue,1.5,True\nFALSE,2,False\n0,3,true\n")
    ((X, weight),) = scan(tmp_path / "a.csv", weight="w").blocks()
    np.testing.assert_array_equal(X, [[1, 1.5], [0, 2], [0, 3]])
    np.testing.assert_array_equal(weight, [1, 0, 1])
    (tmp_path / "b.csv").write_text("flag,x,w\n0.25,4,2\n")  # numbers here
    ((X, weight),) = scan(tmp_path, weight="w").blocks()
    np.testing.assert_array_equal(X, [[1, 1.5], [0, 2], [0, 3], [0.25, 4]])
    np.testing.assert_array_equal(weight, [1, 0, 1, 2])


def test_a_csv_whose_true_and_false_turn_into_something_else(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    long = "x,flag\n" + "0.5,true\n1.5,false\n" * 100_000  # more than Arrow guesses types from
    path.write_text(f"{long}2.5,maybe\n")
    message = r"column 'flag' has 'maybe', neither true nor false, at row 200001 .* of .*a\.csv"
    with pytest.raises(ReadError, match=message):
        all_rows(scan(path))
    path.write_text(f"{long}2.5,\n")
    assert np.isnan(all_rows(scan(path))).sum() == 1


def test_whole_numbers_at_the_top_of_a_csv_do_not_make_a_column_of_them(tmp_path: Path) -> None:
    for name, value in [("a.csv", "1"), ("b.csv", "2.5")]:
        (tmp_path / name).write_text("x,y\n" + f"{value},2\n" * 3)
    long = tmp_path / "c.csv"
    long.write_text("x,y\n" + "1,2\n" * 500_000 + "0.5,2\n")  # beyond the part that types are guessed from
    rows = scan(tmp_path)
    assert rows.shape == (500_007, 2)
    assert sum(float(X[:, 0].sum()) for X, _ in rows.blocks()) == 3 + 7.5 + 500_000.5


def test_files_come_in_the_order_of_their_names(small: np.ndarray, tmp_path: Path) -> None:
    for at in (2, 0, 1):
        parquet(tmp_path / f"part-{at}.parquet", small[10 * at : 10 * (at + 1)])
    for paths in (tmp_path, str(tmp_path / "part-*.parquet"), sorted(tmp_path.iterdir())):
        np.testing.assert_array_equal(all_rows(scan(paths)), small[:30])
    given = [tmp_path / "part-2.parquet", tmp_path / "part-0.parquet"]
    np.testing.assert_array_equal(all_rows(scan(given)), np.concatenate([small[20:30], small[:10]]))


def test_a_row_is_named_by_its_file(small: np.ndarray, tmp_path: Path) -> None:
    for name in ("a", "b"):
        parquet(tmp_path / f"{name}.parquet", small)
    assert scan(tmp_path).place(53) == f"row 4 (counted from 1) of {tmp_path / 'b.parquet'}"


# What is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "message"),
    [("none.parquet", "no CSV, Parquet, Feather or npy file found at .*none.parquet"), ("*.csv", "at .*\\*.csv")],
)
def test_no_such_file(paths: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=message):
        scan(tmp_path / paths)


def test_files_are_found_by_name_by_pattern_and_below_directories(tmp_path: Path) -> None:
    names = (
        "rows[1].npy",
        "part[2]/rows.npy",
        "part[2]/deep/er.npy",
        "part[2]/.old/rows.npy",
        "part[2]/_tmp/0/rows.npy",
    )
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / name, np.full((2, 1), float(number)))
    for paths, found in (
        (tmp_path / "rows[1].npy", [0]),
        (tmp_path / "part[2]", [2, 1]),
        ([tmp_path / "part[2]", tmp_path / "rows[1].npy"], [2, 1, 0]),
        (str(tmp_path / "**/er.npy"), [2]),
        (str(tmp_path / "**/dee?"), [2]),
        (str(tmp_path / "*.npy"), [0]),
    ):
        assert all_rows(scan(paths))[::2, 0].tolist() == found


def test_an_empty_directory_or_list(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no CSV, Parquet, Feather or npy file found at"):
        scan(tmp_path)
    with pytest.raises(ValueError, match="at least one file, got an empty list"):
        scan([])


def test_what_is_no_path(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones((3, 2)))
    for paths, came in ((None, "None"), (5, "5"), ([tmp_path / "rows.npy", 5], "5")):
        with pytest.raises(TypeError, match=f"paths must be a path, a pattern or a list of them, got {came}"):
            scan(paths)


def test_mixed_or_unknown_formats(small: np.ndarray, tmp_path: Path) -> None:
    row_sources.in_csv(small, tmp_path)
    row_sources.in_npy(small, tmp_path)
    with pytest.raises(ValueError, match=r"files of one format .* got \.csv, \.npy"):
        scan(tmp_path)
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(ValueError, match=r"files of one format .* got \.xlsx"):
        scan(tmp_path / "rows.xlsx")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "npy"])
def test_an_empty_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"empty.{suffix}"
    path.touch()
    with pytest.raises(ReadError, match=f"empty.{suffix}"):
        scan(path)


@pytest.mark.parametrize("name", ["parquet", "npy", "csv", "feather"])
def test_no_rows(name: str, small: np.ndarray, tmp_path: Path) -> None:
    path = FILES[name](small[:0], tmp_path)
    with pytest.raises(ValueError, match=rf"must hold at least one row .*, but .*{path.name} has shape \(0, 3\)"):
        scan(path)


@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_a_truncated_parquet_file(keep: float, small: np.ndarray, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", small)
    path = parquet(tmp_path / "b.parquet", small)
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    with pytest.raises(ReadError, match=r"cannot read .*b\.parquet"):
        scan(tmp_path)


def test_a_parquet_file_damaged_in_the_middle(X: np.ndarray, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", X)
    path = parquet(tmp_path / "b.parquet", X)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 60_000] = b"\xff" * 60_000
    path.write_bytes(content)
    with pytest.raises(ReadError, match=r"cannot read .*b\.parquet"):
        EGMM(2, random_state=0).fit(scan(tmp_path))


def test_a_truncated_npy_file(small: np.ndarray, tmp_path: Path) -> None:
    path = row_sources.in_npy(small, tmp_path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ReadError, match=r"rows\.npy is not a valid npy file"):
        scan(path)


def test_npy_files_that_are_no_table(small: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", small[:, 0])
    with pytest.raises(ReadError, match=r"flat\.npy must hold a two-dimensional array of numbers, got shape \(50,\)"):
        scan(tmp_path / "flat.npy")
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    with pytest.raises(ReadError, match=r"array of numbers, got shape .*<U1"):
        scan(tmp_path / "text.npy")
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(ReadError, match=r"objects\.npy is not a valid npy file: .*Python objects"):
        scan(tmp_path / "objects.npy")
    (tmp_path / "other.npy").write_text("nothing of the kind")
    with pytest.raises(ReadError, match=r"other\.npy is not a valid npy file; write it with numpy\.save"):
        scan(tmp_path / "other.npy")
    row_sources.in_npy(small, tmp_path)
    np.save(tmp_path / "wide.npy", small[:, :2])
    with pytest.raises(ReadError, match=r"wide\.npy has 2 columns, but .*rows\.npy has 3"):
        scan([tmp_path / "rows.npy", tmp_path / "wide.npy"])
    with pytest.raises(ValueError, match="npy files have no column names; columns and weight must be None"):
        scan(tmp_path / "rows.npy", ["a"])


@pytest.mark.parametrize("name", ["parquet", "csv", "feather"])
def test_a_missing_column(name: str, small: np.ndarray, tmp_path: Path) -> None:
    path = FILES[name](small, tmp_path)
    with pytest.raises(ValueError, match=rf"{path.name} has no column 'd'; it has \['a', 'b', 'c'\]"):
        scan(path, ["a", "d"])
    with pytest.raises(ValueError, match=rf"{path.name} has no column 'w'"):
        scan(path, weight="w")


def test_columns_that_make_no_sense(small: np.ndarray, tmp_path: Path) -> None:
    path = row_sources.in_parquet(small, tmp_path)
    with pytest.raises(TypeError, match="columns must be a list of names, got the string 'abc'"):
        scan(path, "abc")
    with pytest.raises(ValueError, match="columns must name at least one column"):
        scan(path, [])
    with pytest.raises(ValueError, match="'a' appears twice"):
        scan(path, ["a", "a"])
    with pytest.raises(ValueError, match="'c' appears twice"):
        scan(path, ["a", "c"], weight="c")


def test_a_column_that_one_file_lacks(small: np.ndarray, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", small)
    parquet(tmp_path / "b.parquet", small[:, :2])
    with pytest.raises(ReadError, match=r"b\.parquet has no column 'c', but .*a\.parquet has"):
        scan(tmp_path)
    assert scan(tmp_path, ["a", "b"]).shape == (100, 2)


def test_a_column_of_another_type_in_one_file(small: np.ndarray, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", small)
    parquet(tmp_path / "b.parquet", small.astype(np.float32))
    with pytest.raises(ReadError, match=r"column 'a' of .*b\.parquet is float, but double in .*a\.parquet"):
        scan(tmp_path)


def test_text_columns(small: np.ndarray, tmp_path: Path) -> None:
    parquet(tmp_path / "rows.parquet", small, note=["x"] * 50)
    with pytest.raises(ReadError, match=r"column 'note' of .*rows\.parquet is string, not numeric; select others"):
        scan(tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("a,note\n1,2\n3,4\n5,many\n")
    with pytest.raises(ReadError, match=r"column 'note' has 'many', not a number, at row 3 .* of .*rows\.csv"):
        scan(tmp_path / "rows.csv")


def test_text_far_down_a_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "b.csv").write_text("x,y\n" + "1,2\n3,4\n" * 200_000 + "5,?\n")
    rows = scan(tmp_path)
    with pytest.raises(ReadError, match=r"column 'y' has '\?', not a number, at row 400001 .* of .*b\.csv"):
        EGMM(2).fit(rows)


@pytest.mark.parametrize(
    "text",
    [
        "0,1\n3,4\n",
        "1,2\n3,4\n",
        "NA,1.5\n2,3\n",
        "5.1,3.5,red\n4.9,,blue\n",
        "year,1990\nrain,12\n",
        "1,5;2,5\n1,7;3,5\n",
    ],
)
def test_a_first_line_that_may_be_a_row_is_asked_about(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    first = text.splitlines()[0]
    with pytest.raises(ReadError, match=rf"rows\.csv begins with '{first}'.* header=True .* header=False"):
        scan(path)
    with pytest.raises(ReadError, match="begins with"):
        scan(path, columns=["2"])


def test_a_csv_without_names_has_numbered_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("1.5,2\n3,4\n")
    assert scan(path).feature_names == ["x1", "x2"]
    np.testing.assert_array_equal(all_rows(scan(path)), [[1.5, 2], [3, 4]])
    path.write_text("5.1,red,2\n4.9,blue,4\n")
    rows = scan(path, ["x3", "x1"], header=False)
    assert rows.feature_names == ["x3", "x1"]
    np.testing.assert_array_equal(all_rows(rows), [[2, 5.1], [4, 4.9]])
    with pytest.raises(ReadError, match=r"column 'x2' has 'red', not a number, at row 1 .* of .*rows\.csv"):
        scan(path, header=False)
    assert scan(path, ["5.1"], header=True).shape == (1, 1)


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4\n", "1,b\n1,2\n3,4\n", "a\n1\n3\n", "a,b\n1,2"])
def test_names_are_not_taken_for_a_row(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    assert scan(tmp_path / "rows.csv").shape[0] == len(text.splitlines()) - 1


def test_columns_without_a_name_are_the_rows_index(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(",b,Unnamed: 0,w\n7,2,0,1\n8,4,1,1\n")
    with pytest.warns(UserWarning, match="index written by pandas or R: columns '', 'Unnamed: 0';") as warned:
        rows = scan(path, weight="w")
    assert warned[0].filename == __file__
    assert rows.feature_names == ["b"]
    np.testing.assert_array_equal(all_rows(rows), [[2], [4]])
    np.testing.assert_array_equal(all_rows(scan(path, ["b", ""])), [[2, 7], [4, 8]])
    assert scan(path, ["b"], weight="").shape == (2, 1)


def test_the_index_of_a_data_frame_is_no_feature(small: np.ndarray, tmp_path: Path) -> None:
    # As Dask writes it, whatever the index.
    index = pd.Index(np.arange(len(small)), name="__null_dask_index__")
    pd.DataFrame(small, index, columns=["a", "b", "c"]).to_parquet(tmp_path / "rows.parquet")
    with pytest.warns(UserWarning, match="Skipped as an index written by pandas or R: column '__null_dask_index__';"):
        rows = scan(tmp_path / "rows.parquet")
    assert rows.feature_names == ["a", "b", "c"]
    np.testing.assert_array_equal(all_rows(rows), small)


def test_a_column_is_read_file_by_file_and_as_written(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, text in zip(paths, ["x,name\n1.50,p\n2,q\n", "x,name\n03,r\n"], strict=True):
        path.write_text(text)
    opened = open_table(paths)
    assert [value for part in opened.values("name") for value in part.to_pylist()] == ["p", "q", "r"]
    assert [value for part in opened.values("x", as_text=True) for value in part.to_pylist()] == [b"1.50", b"2", b"03"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", ", "])
def test_the_delimiter_is_seen_in_the_first_lines(name: str, delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / name
    lines = [["height", "width"], ["1.5", "2"], ["3", "4"]]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(delimiter.join(line) for line in lines).encode())
    rows = scan(path, ["width", "height"])
    assert rows.feature_names == ["width", "height"]
    np.testing.assert_array_equal(all_rows(rows), [[2, 1.5], [4, 3]])
    path.write_text("\n".join(delimiter.join(line) for line in [*lines, ["5", "?"]]))
    with pytest.raises(ReadError, match=r"column 'width' has ' ?\?', not a number, at row 3 .* of .*rows"):
        list(scan(path, ["width"]).blocks())


def test_blanks_around_names_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("length, width,w \n1.5,2,1\n3,4,1\n")
    (tmp_path / "b.csv").write_text(" w,width ,note,length\n1,6,x,5\n2,8,y,7.5\n")
    (tmp_path / "c.csv").write_text("length, width,w \n9,10,3\n")
    rows = scan(tmp_path, [" width", "length"], weight="w ")
    assert rows.feature_names == ["width", "length"]
    assert rows.shape == (5, 2)
    for _ in range(2):
        ((X, weight),) = rows.blocks()
        np.testing.assert_array_equal(X, [[2, 1.5], [4, 3], [6, 5], [8, 7.5], [10, 9]])
        np.testing.assert_array_equal(weight, [1, 1, 1, 2, 3])
    assert rows.place(3) == f"row 2 (counted from 1) of {tmp_path / 'b.csv'}"
    (tmp_path / "b.csv").write_text(" w,width ,note,length\n1,6,x,5\n2,8,y,7.5\n3,9,z,?\n")
    with pytest.raises(ReadError, match=r"column 'length' has '\?', not a number, at row 3 .* of .*b\.csv"):
        scan(tmp_path, ["width", "length"])
    (tmp_path / "b.csv").write_text("w,width, width,length\n1,6,7,5\n")
    with pytest.raises(ReadError, match=r"b\.csv has two columns 'width'; spaces around names are ignored"):
        scan(tmp_path, ["width", "length"])


def test_names_of_parquet_columns_are_as_stored(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({" a": [1.0, 2.0], "a ": [3.0, 4.0], "a.b": [5.0, 6.0]}), tmp_path / "rows.parquet")
    rows = scan(tmp_path / "rows.parquet", ["a.b", "a "])
    assert rows.feature_names == ["a.b", "a "]
    np.testing.assert_array_equal(all_rows(rows), [[5, 3], [6, 4]])


def test_text_of_several_lines_beside_the_columns_asked_for(tmp_path: Path) -> None:
    lines = "".join(f'{at}.5,"first, line\nsecond line {at}",{at % 7}\n' for at in range(60_000))
    (tmp_path / "rows.csv").write_text(f"x,note,y\n{lines}")  # more than Arrow parses at a time
    rows = scan(tmp_path / "rows.csv", ["x", "y"])
    assert rows.shape == (60_000, 2)
    np.testing.assert_array_equal(all_rows(rows)[:, 0], np.arange(60_000) + 0.5)


def test_text_that_cannot_be_divided(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("height  width\n1.5        2\n")
    with pytest.raises(ReadError, match=r"rows\.csv has several spaces between columns; expected a comma"):
        scan(path)
    path.write_bytes("a\nb\n".encode("utf-16"))
    with pytest.raises(ReadError, match=r"rows\.csv must be UTF-8 text"):
        scan(path)
    path.write_text("a;b\n" + "x" * 200_000 + ";2\n")
    assert scan(path, ["b"]).shape == (1, 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_csv_of_one_row(end: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(f"1.5,2{end}".encode())
    np.testing.assert_array_equal(all_rows(scan(path)), [[1.5, 2]])
    path.write_bytes(f"a,b{end}1.5,2".encode())
    np.testing.assert_array_equal(all_rows(scan(path)), [[1.5, 2]])
    path.write_bytes(b"1.5,2")
    with pytest.raises(ReadError, match=r"rows\.csv is a single line without a line break; add one at the end"):
        scan(path)


def test_a_csv_whose_lines_differ_in_length(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(ReadError, match=r"cannot read .*rows\.csv: .*Expected 2 columns"):
        scan(tmp_path / "rows.csv")


@pytest.mark.parametrize("name", ["parquet", "feather", "csv"])
def test_nulls(name: str, X: np.ndarray, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    FILES[name](X, first)
    values = X[:100].astype(object)
    values[40, 2] = values[41, 0] = None
    columns = table(X[:100])
    for at, column in enumerate("abc"):
        columns = columns.set_column(at, column, pa.array(values[:, at].tolist(), pa.float64()))
    path = second / f"rows.{name}"
    {"parquet": pa.parquet.write_table, "feather": pa.feather.write_feather, "csv": pa.csv.write_csv}[name](
        columns, str(path)
    )
    with_holes = np.concatenate([X, values.astype(float)])
    np.testing.assert_array_equal(all_rows(scan(tmp_path)), with_holes)
    streamed, in_memory = (EGMM(2, random_state=0).fit(rows) for rows in (scan(tmp_path), with_holes))
    np.testing.assert_allclose(streamed.means_, in_memory.means_, rtol=0, atol=1e-10)
    assert streamed.log_likelihood_ == pytest.approx(in_memory.log_likelihood_, rel=1e-12)
    assert scan(tmp_path, ["b"]).shape == (len(X) + 100, 1)


def test_values_that_are_not_finite(X: np.ndarray, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", X)
    X = X.copy()
    X[30, 1] = np.inf
    parquet(tmp_path / "b.parquet", X)
    with pytest.raises(ValueError, match=r"contains infinity at row 31 .* of .*b\.parquet, column 1 \('b'\)"):
        EGMM(2).fit(scan(tmp_path))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_weights_that_are_none(value: float, X: np.ndarray, tmp_path: Path) -> None:
    weights = np.ones(len(X))
    weights[BLOCK_ROWS + 5] = value
    rows = scan(parquet(tmp_path / "a.parquet", X, w=weights), weight="w")
    message = rf"column 'w' must hold weights >= 0, but has {value:g} at row {BLOCK_ROWS + 6} .* of .*a\.parquet"
    with pytest.raises(ReadError, match=message):
        EGMM(2).fit(rows)


def test_weights_may_be_zero_but_not_all(X: np.ndarray, tmp_path: Path) -> None:
    weights = np.r_[np.zeros(BLOCK_ROWS + 10), np.ones(len(X) - BLOCK_ROWS - 10)]
    estimator = EGMM(2, init=[[0, 0, 0], [2, 2, 2]])
    model = clone(estimator).fit(scan(parquet(tmp_path / "a.parquet", X, w=weights), weight="w"))
    alone = clone(estimator).fit(X[weights > 0])
    np.testing.assert_allclose(model.means_, alone.means_, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="sample_weight must not be all zero"):
        EGMM(2).fit(scan(parquet(tmp_path / "b.parquet", X, w=np.zeros(len(X))), weight="w"))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(32868,?\), got \(3,\)"):
        EGMM(2).fit(scan(tmp_path / "a.parquet"), sample_weight=np.ones(3))


@pytest.mark.parametrize("estimator", [FCM(2), ECM(2), BPEC(2), BootGMM(2)], ids=lambda it: type(it).__name__)
def test_peers_need_rows_in_memory(estimator: Any, small: np.ndarray, tmp_path: Path) -> None:
    rows, name = scan(row_sources.in_parquet(small, tmp_path)), type(estimator).__name__
    for fit in (estimator.fit, lambda rows: select_model(rows, [2], estimator=estimator)):
        with pytest.raises(TypeError, match=f"in memory for {name}, got a scan of 1 file.*; load them into an array"):
            fit(rows)


# Files that change ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["parquet", "csv", "npy"])
def test_a_file_that_changes_between_passes(name: str, X: np.ndarray, tmp_path: Path) -> None:
    path = FILES[name](X, tmp_path)
    rows = scan(path)
    list(rows.blocks())
    FILES[name](X[:-1], tmp_path)
    with pytest.raises(ReadError, match=rf"rows\.{name} has changed since it was scanned; scan it again"):
        EGMM(2).fit(rows)


def test_a_file_that_changes_within_a_pass_and_keeps_its_size(X: np.ndarray, tmp_path: Path) -> None:
    path = row_sources.in_npy(X, tmp_path)
    rows = scan(path)
    blocks = rows.blocks()
    next(blocks)
    row_sources.in_npy(X[::-1], tmp_path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(ReadError, match="has changed since it was scanned"):
        list(blocks)


def test_a_file_that_is_gone(X: np.ndarray, tmp_path: Path) -> None:
    path = row_sources.in_parquet(X, tmp_path)
    rows = scan(path)
    path.unlink()
    with pytest.raises(ReadError, match=r"rows\.parquet can no longer be read: No such file"):
        EGMM(2).fit(rows)


# Writing ----------------------------------------------------------------------------------------------------


def test_out_must_be_a_new_parquet_file(small: np.ndarray, tmp_path: Path) -> None:
    path = row_sources.in_parquet(small, tmp_path)
    model = EGMM(2, random_state=0).fit(scan(path))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"out must not be one of the scanned files, got .*rows\.parquet"):
        model.predict(scan(path), out=path)
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match=r"out must end in \.parquet, got 'labels\.csv'"):
        model.predict(scan(path), out=tmp_path / "labels.csv")
    with pytest.raises(OSError, match=r"cannot write .*nowhere/labels\.parquet: No such file or directory"):
        model.predict(scan(path), out=tmp_path / "nowhere" / "labels.parquet")


def test_a_disk_that_fills_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def opened(path: Path, *_: Any) -> Any:
        return FullDisk(path, "xb")

    monkeypatch.setattr(Path, "open", opened)
    parts = (np.random.default_rng(at).normal(size=(1000, 2)) for at in range(100))
    out = tmp_path / "out.parquet"
    with pytest.raises(OSError, match=r"cannot write .*out\.parquet: No space left"):
        write_parquet(out, parts, ["a", "b"], None)
    assert list(tmp_path.iterdir()) == []


def test_results_are_written_in_large_groups(tmp_path: Path) -> None:
    parts = [np.full((BLOCK_ROWS, 4), at, dtype=float) for at in range(100)]
    path = write_parquet(tmp_path / "out.parquet", parts, ["a", "b", "c", "d"], {b"key": b"value"})
    file = pa.parquet.ParquetFile(path)
    assert file.metadata.num_rows == 100 * BLOCK_ROWS
    assert file.metadata.num_row_groups == 2
    assert file.schema_arrow.metadata[b"key"] == b"value"
    np.testing.assert_array_equal(file.read()["d"].to_numpy(), np.repeat(np.arange(100.0), BLOCK_ROWS))


@pytest.mark.parametrize("name", FILES)
def test_scaled_rows_are_scaled_as_they_are_read(name: str, tmp_path: Path) -> None:
    X = two_groups(BLOCK_ROWS + 10)
    centre, scale = X.mean(axis=0), X.std(axis=0)
    source = scan(FILES[name](X, tmp_path))
    np.testing.assert_allclose(all_rows(source.scaled(centre, scale)), (X - centre) / scale, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(all_rows(source), X)
