"""Other algorithms than EGMM on the command line, and dissimilarities instead of rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from egmm import CredalPartition
from egmm.cli.algorithms import ALGORITHMS, FROM_DISSIMILARITIES


@pytest.fixture
def distances(rows: Path, tmp_path: Path) -> Path:
    """Distances of the rows, as CSV without names."""
    X = np.loadtxt(rows, delimiter=",", skiprows=1, usecols=(0, 1))
    np.savetxt(tmp_path / "distances.csv", pairwise_distances(X), delimiter=",", fmt="%.17g")
    return tmp_path / "distances.csv"


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("autoegmm", "egmm", "bootgmm")])
def test_every_algorithm_fits_and_writes(call: Any, rows: Path, tmp_path: Path, name: str) -> None:
    number = [] if name == "eknnclus" else ["-c", "2"]
    result = call("fit", rows, "--algorithm", name, *number, "--label", "side", "--out", "made", "--json", "--no-plots")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["algorithm"] == name
    assert found["n_rows"] == 40
    assert found["files"] == ["labels.csv", "masses.csv", "summary.txt"]
    if name != "eknnclus":
        assert found["metrics"]["ARI"] == 1.0
    partition = CredalPartition.load(tmp_path / "made" / "masses.csv")
    assert partition.n_clusters == found["n_clusters"]
    assert "Against the known classes" in (tmp_path / "made" / "summary.txt").read_text()


@pytest.mark.parametrize(("name", "model", "rule"), [("autoegmm", "auto", "utility"), ("egmm", "egmm", "heaviest")])
def test_models_of_our_own_may_be_named_as_algorithms(call: Any, rows: Path, name: str, model: str, rule: str) -> None:
    result = call("fit", rows, "-a", name, "-c", "2", "--label", "side", "--out", "made", "--json", "--no-plots")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["model"], found["rule"]) == (model, rule)
    assert "model.json" in found["files"]


def test_other_algorithms_choose_sets_by_the_rule(call: Any, rows: Path, tmp_path: Path) -> None:
    options = ("--rule", "utility", "--reward", "1", "--json", "--no-plots", "--out", "made")
    result = call("fit", rows, "-a", "fcm", "-c", "2", "--label", "side", *options)
    assert result.returncode == 0, result.stderr
    # A pair costs nothing: no row is sure, whatever FCM says.
    assert json.loads(result.stdout)["open_rows"] == 40
    lines = (tmp_path / "made" / "labels.csv").read_text().splitlines()
    assert all(",True," in line for line in lines[1:])


def test_the_number_of_clusters_is_chosen(call: Any, rows: Path, tmp_path: Path) -> None:
    result = call("fit", rows, "-a", "ecm", "-c", "2:4", "--label", "side", "--table", "csv", "--out", "made")
    assert result.returncode == 0, result.stderr
    assert "ECM with 2 clusters, chosen by ANS, fitted to 40 rows." in result.stdout
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 100
    written = sorted(path.relative_to(tmp_path / "made").as_posix() for path in (tmp_path / "made").rglob("*.*"))
    names = ["figures/masses.png", "figures/partition.png", "labels.csv", "masses.csv", "summary.txt"]
    assert [name for name in written if not name.startswith(".")] == names


@pytest.mark.parametrize("name", FROM_DISSIMILARITIES)
def test_dissimilarities_stand_for_rows(call: Any, rows: Path, distances: Path, tmp_path: Path, name: str) -> None:
    number = [] if name == "eknnclus" else ["-c", "2"]
    result = call("fit", "--dissimilarities", distances, "-a", name, *number, "--out", "alone", "--json")
    assert result.returncode == 0, result.stderr
    assert "figures/masses.png" in json.loads(result.stdout)["files"]
    known = call("fit", rows, "--dissimilarities", distances, "-a", name, *number, "--label", "side", "--out", "known")
    assert known.returncode == 0, known.stderr
    assert "ARI" in known.stdout
    both = [(tmp_path / folder / "masses.csv").read_bytes() for folder in ("alone", "known")]
    assert both[0] == both[1]


def test_compare_takes_all_and_dissimilarities(call: Any, rows: Path, distances: Path) -> None:
    several = call("compare", rows, "-c", "2", "--label", "side", "--algorithms", "evclus,ccm", "--json")
    assert [record["algorithm"] for record in json.loads(several.stdout)["results"]] == ["evclus", "ccm"]
    relational = call("compare", "--dissimilarities", distances, "-c", "2", "--json")
    found = json.loads(relational.stdout)["results"]
    assert [record["algorithm"] for record in found] == list(FROM_DISSIMILARITIES)
    assert not any(record["failure"] for record in found)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit"], 2, "pass a file of rows, or --dissimilarities"),
        (["compare"], 2, "pass a file of rows, or --dissimilarities"),
        (["fit", "rows.csv", "-a", "magic"], 2, "'magic' is not one of autoegmm, egmm, ecm"),
        (["fit", "--dissimilarities", "distances.csv"], 2, "with --dissimilarities use one of evclus, recm"),
        (["fit", "--dissimilarities", "distances.csv", "-a", "ecm"], 1, "--algorithm ecm needs rows of features"),
        (["fit", "rows.csv", "-a", "ecm", "--covariance", "VVV"], 2, "applies only to egmm, not to ecm"),
        (["fit", "rows.csv", "-a", "ecm", "--model", "auto"], 2, "applies only to egmm, not to ecm"),
        (
            ["fit", "rows.csv", "-a", "egmm", "--model", "auto"],
            2,
            "'auto' contradicts --algorithm egmm; use one of the two",
        ),
        (["fit", "rows.csv", "-a", "ecm", "--stability", "2"], 2, "only for AutoEGMM"),
        (
            ["fit", "rows.csv", "-a", "eknnclus", "-c", "3", "--label", "side"],
            1,
            "estimates the number of clusters",
        ),
        (["fit", "--dissimilarities", "half.csv", "-a", "recm"], 1, "half.csv must hold a dissimilarity for each pair"),
        (["fit", "short.csv", "--dissimilarities", "distances.csv", "-a", "recm"], 1, "has 3 rows, but"),
        (["compare", "--dissimilarities", "distances.csv", "--algorithms", "ecm"], 2, "'ecm' is not one of evclus"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_requests_that_cannot_be_met(call: Any, rows: Path, distances: Path, arguments: Any, code: int, message: str):
    D = np.loadtxt(distances, delimiter=",")
    np.savetxt(distances.with_name("half.csv"), D[:20], delimiter=",")
    np.savetxt(distances.with_name("short.csv"), D[:3, :2], delimiter=",")
    result = call(*arguments)
    assert result.returncode == code
    assert message in " ".join(result.stderr.replace("│", "").split())
