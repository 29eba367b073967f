import json
import re
import sys
import zipfile

import numpy as np
import pytest

from egmm import CredalPartition, FocalSets
from egmm.belief import storage

PARTITION = CredalPartition([[0.5, 0.1, 0.4, 0], [1 / 3, 1 / 3, 0, 1 / 3]], FocalSets.full(2, empty=True))
SUFFIXES = ["npz", "parquet"]


@pytest.fixture(params=SUFFIXES)
def path(request, tmp_path):
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return tmp_path / f"partition.{request.param}"


def test_round_trip(path):
    for partition in (PARTITION, PARTITION[:0], CredalPartition.from_labels([62, 0])):
        partition.save(path)
        assert CredalPartition.load(path) == partition
    PARTITION.save(str(path))
    assert CredalPartition.load(str(path)) == PARTITION


def test_upper_case_suffix(tmp_path):
    PARTITION.save(tmp_path / "A.NPZ")
    assert CredalPartition.load(tmp_path / "A.NPZ") == PARTITION


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    PARTITION.save(path)

    def half_written(stream, *_):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(storage, "_write_npz", half_written)
    monkeypatch.setattr(storage, "_write_parquet", half_written)
    with pytest.raises(OSError, match="disk full"):
        PARTITION[:1].save(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert CredalPartition.load(path) == PARTITION


def test_parquet_is_readable_by_others(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    PARTITION.save(tmp_path / "p.parquet")
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["∅", "{1}", "{2}", "{1,2}"]
    np.testing.assert_array_equal(table["{1,2}"].to_numpy(), [0, 1 / 3])
    header = json.loads(table.schema.metadata[b"egmm.credal_partition"])
    assert header == {"masks": [0, 1, 2, 3], "n_clusters": 2}


def test_no_pickle_is_read(tmp_path):
    bomb = np.array([object()], dtype=object)
    np.savez(tmp_path / "p.npz", mass=bomb, masks=np.array([1]), n_clusters=1)
    with pytest.raises(ValueError, match="is not a credal partition: its arrays are damaged or not numeric"):
        CredalPartition.load(tmp_path / "p.npz")


def test_broken_files(path):
    PARTITION.save(path)
    for content in (b"", b"no such thing", path.read_bytes()[:200]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(f"{path} is not a credal partition: ")) as raised:
            CredalPartition.load(path)
        assert "pickle" not in str(raised.value)


def test_any_damaged_byte_leaves_a_partition_or_a_plain_error(path):
    PARTITION.save(path)
    content = path.read_bytes()
    for at in range(0, len(content), 41):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            CredalPartition.load(path)
        except ValueError as error:
            assert str(error).startswith(f"{path} is not a credal partition: ")  # noqa: PT017 - most bytes, not all


def test_columns_of_parquet_are_found_by_name(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    PARTITION.save(tmp_path / "p.parquet")
    table = parquet.read_table(tmp_path / "p.parquet")
    parquet.write_table(table.select(["{1,2}", "{2}", "{1}", "∅"]), tmp_path / "p.parquet")
    assert CredalPartition.load(tmp_path / "p.parquet") == PARTITION
    parquet.write_table(table.select(["{2}", "{1}", "∅"]), tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=r"p\.parquet is not a credal partition: its columns lack '\{1,2\}'\."):
        CredalPartition.load(tmp_path / "p.parquet")


def test_an_array_under_the_name_of_an_archive(tmp_path):
    np.save(tmp_path / "p.npy", np.ones(3))
    (tmp_path / "p.npy").rename(tmp_path / "p.npz")
    with pytest.raises(ValueError, match=r"p\.npz is not a credal partition: it is not an npz file, or is damaged"):
        CredalPartition.load(tmp_path / "p.npz")


def test_other_files(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match=r"is not a credal partition: it has no 'mass'\."):
        CredalPartition.load(tmp_path / "other.npz")
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=re.escape("credal partition: its schema lacks 'egmm.credal_partition'.")):
        CredalPartition.load(tmp_path / "other.parquet")


def test_masses_are_validated_on_load(tmp_path):
    np.savez(tmp_path / "p.npz", mass=[[0.5]], masks=[1], n_clusters=1)
    with pytest.raises(ValueError, match=r"p\.npz is not a credal partition: mass rows must .* row 0 sums to 0\.5\."):
        CredalPartition.load(tmp_path / "p.npz")


def test_missing_file(path):
    with pytest.raises(FileNotFoundError, match="partition"):
        CredalPartition.load(path)


@pytest.mark.parametrize("name", ["p.txt", "p", "p.pkl"])
def test_other_suffixes_are_refused(tmp_path, name):
    message = re.escape(f"path must end in .npz or .parquet, got {name!r}.")
    with pytest.raises(ValueError, match=message):
        PARTITION.save(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        CredalPartition.load(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    PARTITION.save(tmp_path / "p.npz")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    message = re.escape("Parquet files need pyarrow: pip install 'egmm[arrow]'.")
    with pytest.raises(ImportError, match=message):
        PARTITION.save(tmp_path / "p.parquet")
    with pytest.raises(ImportError, match=message):
        CredalPartition.load(tmp_path / "p.parquet")
    assert CredalPartition.load(tmp_path / "p.npz") == PARTITION


def test_masses_are_read_from_the_tables_of_the_command_line(tmp_path):
    path = tmp_path / "masses.csv"
    path.write_text(
        'row,name,∅,{1},"{1,3}",{2},{3}\n1,Anna,0,0.5,0.25,0,0.25\n2,Bert,0.125,0,0,0.875,0\n', encoding="utf-8"
    )
    partition = CredalPartition.load(path)
    assert partition.n_clusters == 3
    assert partition.mass[0, partition.focal_sets.index_of({0, 2})] == 0.25
    assert partition.mass[1, partition.focal_sets.index_of({1})] == 0.875
    assert partition.mass[1, partition.focal_sets.index_of(())] == 0.125


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,name\n1,Anna\n", "it has no column named by a set"),
        ("", "it is empty or not a CSV file"),
        ("{1},{2}\n0.5,x\n", "could not convert string to float"),
        ("{1},{2}\n0.5,0.1\n", "must sum to 1"),
        ("{1},{2}\n0.5,0.5\n1\n", "its row 2 has 1 cells, expected 2"),
        ("{1},{1}\n1,0\n", "two of its columns are named by the same set"),
        ("{0},{1}\n1,0\n", "must be an integer from 0"),
        ("{99999999999999999999}\n1\n", "n_clusters must be an integer from 1 to 63"),
    ],
)
def test_tables_without_masses_are_refused(tmp_path, text, message):
    (tmp_path / "masses.csv").write_text(text)
    with pytest.raises(ValueError, match=f"masses.csv is not a credal partition: .*{message}"):
        CredalPartition.load(tmp_path / "masses.csv")


def test_members_of_sets_may_come_in_any_order(tmp_path):
    (tmp_path / "masses.csv").write_text('"{2,1}",{2},{1}\n0.5,0.25,0.25\n')
    assert CredalPartition.load(tmp_path / "masses.csv") == CredalPartition([[0.25, 0.25, 0.5]], FocalSets.full(2))


HEADERS = {
    "deep": (b"[" * 100_000, "its metadata are nested too deeply"),
    "no sets": (b'{"masks": [1, 2, 3]}', "it has no 'n_clusters'"),
    "list": (b"[]", "list indices must be integers"),
    "bytes": (b"\xff\xfe", "Expecting value"),
    "many": (b'{"masks": [1, 2, 3], "n_clusters": 1000000000}', "n_clusters must be an integer from 1 to 63"),
    "giant": (b'{"masks": [1, 2, 1' + b"0" * 30 + b'], "n_clusters": 2}', "masks must be a sequence of integers"),
    "part": (b'{"masks": [1, 2, 3], "n_clusters": 2.5}', "n_clusters must be an integer"),
    "negative": (b'{"masks": [-1, 2, 3], "n_clusters": 2}', "bit mask -1 is not a subset"),
}


@pytest.mark.parametrize(("header", "message"), HEADERS.values(), ids=HEADERS)
def test_hostile_metadata_of_parquet_are_refused(tmp_path, header, message):
    parquet = pytest.importorskip("pyarrow.parquet")
    PARTITION.save(tmp_path / "p.parquet")
    table = parquet.read_table(tmp_path / "p.parquet")
    table = table.replace_schema_metadata({b"egmm.credal_partition": header})
    parquet.write_table(table, tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=f"p.parquet is not a credal partition: .*{message}"):
        CredalPartition.load(tmp_path / "p.parquet")


def test_a_column_that_comes_twice_is_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    header = {b"egmm.credal_partition": b'{"masks": [1, 2], "n_clusters": 2}'}
    columns = [arrow.array([1.0]), arrow.array([0.0]), arrow.array([0.0])]
    table = arrow.Table.from_arrays(columns, names=["{1}", "{1}", "{2}"])
    parquet.write_table(table.replace_schema_metadata(header), tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=r"its columns repeat '\{1\}'"):
        CredalPartition.load(tmp_path / "p.parquet")


@pytest.mark.parametrize("n_clusters", [np.inf, np.nan, 1.5, 2j, "two", [1, 2]])
def test_a_number_of_clusters_that_is_none_is_refused(tmp_path, n_clusters):
    np.savez(tmp_path / "p.npz", mass=[[1.0]], masks=[1], n_clusters=n_clusters)
    with pytest.raises(ValueError, match="is not a credal partition: n_clusters must be an integer from 1 to 63, got"):
        CredalPartition.load(tmp_path / "p.npz")


def member(header: bytes) -> bytes:
    """An array file with such a header and no values."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


MEMBERS = {
    "terabytes": member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3)}\n"),
    "negative": member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3)}\n"),
    "open": member(b"(" * 3000 + b"\n"),
    "indented": member(b"if 1:\n  2\n 3\n"),
    "text": b"text",
}


@pytest.mark.parametrize("content", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("name", ["mass.npy", "mass"])
def test_hostile_headers_of_npz_are_refused(tmp_path, content, name):
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"is not a credal partition: it(s arrays are damaged| holds other files)"):
        CredalPartition.load(tmp_path / "p.npz")
