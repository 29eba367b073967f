"""``egmm data``: data sets as CSV for the other commands."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

pytest.importorskip("typer")


def test_iris_is_printed_with_names_and_classes(call: Any) -> None:
    printed = call("data", "iris")
    assert (printed.returncode, printed.stderr) == (0, "")
    lines = printed.stdout.splitlines()
    assert lines[0] == "sepal_length,sepal_width,petal_length,petal_width,label"
    iris = load_iris()
    np.testing.assert_array_equal([[float(v) for v in line.split(",")[:4]] for line in lines[1:]], iris.data)
    assert [line.split(",")[4] for line in lines[1:]] == list(iris.target_names[iris.target])


def test_what_is_printed_can_be_fitted(call: Any, tmp_path: Path) -> None:
    (tmp_path / "diamond.csv").write_text(call("data", "diamond").stdout)
    fitted = call("fit", "diamond.csv", "-c", "2", "--label", "label", "--no-plots", "--json")
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["n_rows"] == 11


def test_simulated_sets_have_the_rows_asked_for_and_depend_on_the_seed(call: Any) -> None:
    first, again = (call("data", "four-class", "--rows", "40").stdout for _ in range(2))
    other = call("data", "four-class", "--rows", "40", "--seed", "1").stdout
    assert first == again != other
    assert first.count("\n") == 41
    assert {line.split(",")[2] for line in first.splitlines()[1:]} == {f"class_{k}" for k in range(1, 5)}


def test_a_file_is_written_and_not_overwritten(call: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    made = call("data", "wine", "--out", "wine.parquet", "--json")
    assert json.loads(made.stdout)["n_rows"] == 178
    assert parquet.read_table(tmp_path / "wine.parquet").column_names[-1] == "label"
    assert "already exists" in call("data", "wine", "--out", "wine.parquet").stderr


def test_without_a_name_the_names_are_listed_within_80_columns(call: Any) -> None:
    listed = call("data").stdout
    assert all(name in listed for name in ("iris", "wine", "diamond", "two-class", "four-class", "seeds"))
    assert max(map(len, listed.splitlines())) <= 80
    assert "iris" in json.loads(call("data", "--json").stdout)["names"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["mnist"], 2, "'mnist' is not one of ecoli, iris"),
        (["iris", "--rows", "5"], 1, "iris has 150 rows; --rows is for simulated sets."),
        (["diamond", "--rows", "5"], 1, "diamond always has 11 rows"),
        (["iris", "--json"], 1, "--json needs --out"),
    ],
)
def test_bad_requests(call: Any, arguments: list[str], code: int, message: str) -> None:
    refused = call("data", *arguments)
    assert refused.returncode == code
    assert message in " ".join(refused.stderr.replace("│", " ").split())
