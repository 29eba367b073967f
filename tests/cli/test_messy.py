"""Tables as people have them: words, dates, identifiers, constants and gaps beside the numbers."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
columns = pytest.importorskip("egmm.cli.columns")


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Two groups of birds in a table with everything that is not clustered, and two rows with gaps."""
    rng = np.random.default_rng(0)
    lines = [["id", "species", "island", "bill", "mass", "day", "study", "note"]]
    for at in range(60):
        kind = at % 2
        bill, mass = rng.normal([38, 47][kind], 1), rng.normal([3700, 5000][kind], 100)
        day = f"2007-11-{at % 28 + 1:02d}"
        species, island = ["Adelie", "Gentoo"][kind], ["Dream", "Biscoe", "Torgersen"][at % 3]
        lines.append([f"N{at}A1", species, island, f"{bill:.1f}", f"{mass:.0f}", day, "1", ""])
    lines[4][3] = "NA"
    lines[9][4] = ""
    path = tmp_path / "birds.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_messy_table_is_fitted_at_once_and_every_decision_is_told(call: Any, birds: Path, tmp_path: Path) -> None:
    result = call("fit", birds, "-c", "2", "--no-plots")
    assert result.returncode == 0, result.stderr
    assert "Clustered: bill, mass." in result.stderr
    assert "Skipped: species, island (text); day (date); study (constant); note (empty);" in result.stderr
    assert "Rows are named by 'id', which is not clustered; use --id for another column." in result.stderr
    assert "2 of 60 rows have missing cells and were dropped (--missing drop)." in result.stderr
    made = tmp_path / "egmm-birds"
    kept = json.loads((made / "model.json").read_text())["preparation"]
    assert (kept["columns"], kept["id"], kept["missing"]) == (["bill", "mass"], "id", "drop")
    assert kept["left_out"] == {
        "species": "text",
        "island": "text",
        "day": "date",
        "study": "constant",
        "note": "empty",
    }
    assert "Skipped" in (made / "summary.txt").read_text()
    labels, masses = read(made / "labels.csv"), read(made / "masses.csv")
    assert len(labels) == len(masses) == 58
    assert [line["id"] for line in labels] == [line["id"] for line in masses]
    # Row numbers are those of the file: the fourth and the ninth are not there.
    assert [int(line["row"]) for line in labels[:8]] == [1, 2, 3, 5, 6, 7, 8, 10]
    assert labels[3]["id"] == "N4A1"


def test_prediction_does_the_same(call: Any, birds: Path, tmp_path: Path) -> None:
    assert call("fit", birds, "-c", "2", "--no-plots", "-q").returncode == 0
    predicted = call("predict", "egmm-birds/model.json", birds, "--no-masses")
    assert predicted.returncode == 0
    assert "2 of 60 rows have missing cells" in predicted.stderr
    assert predicted.stdout == (tmp_path / "egmm-birds" / "labels.csv").read_text()
    (tmp_path / "new.csv").write_text("mass,bill\n5000,47\n3700,38\n")  # no names of rows
    lines = call("predict", "egmm-birds/model.json", "new.csv", "--no-masses", "-q").stdout.splitlines()
    assert lines[0].startswith("row,cluster,")
    assert len(lines) == 3


def test_options_override_what_is_seen(call: Any, birds: Path, tmp_path: Path) -> None:
    named = json.loads(call("fit", birds, "-c", "2", "--no-plots", "--json", "--id", "day", "--exclude", "mass").stdout)
    assert (named["columns"], named["id"]) == (["bill"], "day")
    assert named["left_out"]["id"] == "identifier"
    chosen = call("fit", birds, "-c", "2", "--no-plots", "--json", "--columns", "mass,study", "--force")
    assert json.loads(chosen.stdout)["columns"] == ["mass", "study"]
    report = (tmp_path / "egmm-birds" / "report.html").read_text("utf-8")
    assert "--columns mass,study" in report


def test_known_classes_are_compared_with(call: Any, birds: Path) -> None:
    found = json.loads(call("fit", birds, "-c", "2", "--no-plots", "--json", "--label", "species").stdout)
    assert (found["n_rows"], found["metrics"]["ARI"]) == (58, 1.0)
    assert "species" not in found["left_out"]


def test_row_names_of_r_are_kept(call: Any, tmp_path: Path) -> None:
    lines = ['"","mpg","hp"', *(f'"car {k}",{20 + k % 7},{100 + k % 5}' for k in range(20))]
    (tmp_path / "cars.csv").write_text("\n".join(lines) + "\n")
    result = call("fit", "cars.csv", "-c", "1", "--no-plots")
    assert "Rows are named by the column without a name" in result.stderr
    assert read(tmp_path / "egmm-cars" / "labels.csv")[2]["name"] == "car 2"


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("id", np.array([5, 9, 2]), True),
        ("customer_id", np.array([5, 9, 2]), True),
        ("row", np.array([5, 5, 2]), False),
        ("x", np.array([1, 2, 3, 4]), True),
        ("x", np.array([3, 1, 2, 4]), False),
        ("age", np.array([31, 45, 27]), False),
        ("x", np.array([1.0, 2.0, 3.0]), False),
        ("width", np.array([4, 5, 6]), False),
        ("who", np.array(["a", "b", "c"], dtype=object), True),
        ("who", np.array(["a", "b", "b"], dtype=object), False),
        ("who", np.array(["a", "b", None], dtype=object), False),
        ("x", np.array(["1,5", "2,5", "3,5"], dtype=object), False),
    ],
)
def test_identifiers(name: str, values: Any, expected: bool) -> None:
    assert columns.is_identifier(name, values) is expected


@pytest.mark.parametrize(
    ("values", "numbers", "words"),
    [
        (["1,5", "2", "?"], [1.5, 2.0, np.nan], 0),
        (["1,234", "2,345"], [np.nan, np.nan], 2),  # thousands or decimals: not guessed
        (["1,234", "2,5"], [1.234, 2.5], 0),
        (["1.5", " NA ", "-", None], [1.5, np.nan, np.nan, np.nan], 0),
        (["1", "two", "3"], [1.0, np.nan, 3.0], 1),
        ([True, None, False], [1.0, np.nan, 0.0], 0),
    ],
)
def test_columns_are_read_as_numbers(values: list[Any], numbers: list[float], words: int) -> None:
    parsed = columns.parse(np.array(values, dtype=object))
    np.testing.assert_array_equal(parsed.numbers, numbers)
    assert parsed.is_word.sum() == words


@pytest.mark.parametrize("text", ["2020-01-31", "31.12.2020", "1/2/2020", "2020-01-31 12:30:00"])
def test_dates_are_seen(text: str) -> None:
    assert columns.parse(np.array([text, None], dtype=object)).is_date
    assert not columns.parse(np.array([text, "soon"], dtype=object)).is_date
