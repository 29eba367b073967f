"""A whole reproduction: every table and figure is there, every number is kept, and nothing is computed twice."""

import csv
import json
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from egmm.reproduce import ITEMS, Plan, Reproduction, printed, reproduce
from egmm.reproduce.algorithms import ALGORITHMS, BY_EBIC, DEFAULTS, PAPER_MODE
from egmm.reproduce.cells import Store
from egmm.reproduce.experiments import Cell
from egmm.reproduce.tables import EVIDENTIAL, TABLES, cells_of
from reproduce.conftest import TINY

PEERS = ["HCM", "FCM", "ECM", "BPEC", "GMM", "CGMM", "bootGMM"]


def test_everything_of_section_four_is_an_item() -> None:
    assert {item.partition(":")[2] for item in ITEMS if item.startswith("table:")} == set(TABLES)
    assert {*TABLES} >= {
        "ebic",
        "clusters",
        "nmi-unknown",
        "ari-unknown",
        "purity",
        "nmi",
        "ari",
        "ranks",
        "cpu",
        "brain",
    }
    figures = {item.partition(":")[2] for item in ITEMS if item.startswith("figure:")}
    assert figures == {"diamond", "two-class", "four-class", "ranks-unknown", "ranks-known", "imprecision", "brain"}


def test_full_plan_has_ten_runs_and_bootgmm_on_magic() -> None:
    cells = [cell for name in TABLES for cell in cells_of(name, Plan())]
    known = {(cell.dataset, cell.algorithm, cell.run) for cell in cells if cell.experiment == "known"}
    assert {("Magic", "bootGMM", run) for run in range(10)} <= known
    for name, algorithm in ALGORITHMS.items():
        runs = {run for dataset, column, run in known if (dataset, column) == ("Wine", name)}
        assert runs == set(range(10 if algorithm.is_random else 1)), name
    assert not any(cell.algorithm == "HCM" for cell in cells if cell.experiment == "unknown")  # it needs C


@pytest.mark.parametrize("name", ["purity", "nmi", "ari", "nmi-unknown", "ari-unknown"])
def test_score_tables_have_the_printed_columns_and_egmm_in_its_ways(made: Reproduction, name: str) -> None:
    sheet = made.sheets[name]
    peers = [column for column in PEERS if column in printed(name).columns]
    ways = [PAPER_MODE, DEFAULTS] if name.endswith("unknown") else [PAPER_MODE, DEFAULTS, BY_EBIC]
    assert sheet.head == ["", *peers, *ways]
    averages = [f"Average rank, {way.removeprefix('EGMM, ')}" for way in ways]
    assert [line[0].ours for line in sheet.lines] == ["Iris", "Wine", *averages]
    assert {len(line) for line in sheet.lines} == {len(sheet.head)}
    # Beside ours the paper's mean, spread and rank.
    expected = {"purity": "0.93 ± 0.09 (2)", "nmi": "0.87 ± 0.05 (2)", "ari": "0.85 ± 0.10 (2)"}
    assert sheet.lines[0][-1].paper == expected.get(name, sheet.lines[0][-2].paper)
    ranks = [number.rank for number in sheet.numbers if number.row == "Iris" and number.column not in ways[1:]]
    assert sum(ranks) == sum(range(1, len(peers) + 2))


def test_scores_are_of_the_size_the_paper_has(made: Reproduction) -> None:
    found = {(n.row, n.column): n for n in made.sheets["purity"].numbers}
    assert found["Iris", PAPER_MODE].value == pytest.approx(0.98, abs=0.01)  # better than printed, as from ten starts
    assert found["Iris", "FCM"].value == pytest.approx(0.89, abs=0.005)
    assert found["Iris", "FCM"].verdict == "agrees"
    assert found["Iris", "FCM"].printed_rank == 4.0


def test_diamond_has_the_printed_ebic(made: Reproduction) -> None:
    lines = made.sheets["ebic"].lines
    assert [cell.ours for cell in lines[0]] == ["Diamond", "paper", "-55.9", "-63.1", "-70.6", "-91.5", "-132.3", "2"]
    assert [cell.ours for cell in lines[1]][:4] == ["", "paper mode", "-55.9", "-63.1"]
    assert lines[1][-1].ours == "2 (1 of 1)"


def test_ranks_table_says_what_holds_at_which_level(made: Reproduction) -> None:
    sheet = made.sheets["ranks"]
    assert len(sheet.lines) == 2 * 3 + 3 * 4
    by_title = {line[0].ours: line for line in sheet.lines if line[0].ours}
    assert by_title["Purity, known C"][5].ours == "3.29"
    assert by_title["Purity, known C"][6].ours == "ECM, BPEC"
    assert by_title["Purity, known C"][8].ours == "HCM, FCM"
    assert by_title["ARI, known C"][8].ours == "CGMM"
    assert "3.295" in sheet.notes[0]


def test_imprecision_table_covers_every_evidential_algorithm(made: Reproduction) -> None:
    sheet = made.sheets["imprecision"]
    assert [line[1].ours for line in sheet.lines] == list(EVIDENTIAL) * 2
    found = {(n.row, n.column, n.measure): n.value for n in sheet.numbers}
    # The prototype's numbers: standardised, one covariance.
    assert found["Iris", "EGMM, one covariance", "ambiguous"] == pytest.approx(0.17, abs=0.01)
    assert found["Iris", "EGMM, one covariance", "accuracy"] == pytest.approx(0.960, abs=0.001)
    assert found["Iris", "EGMM, one covariance", "precise_accuracy"] == 1.0
    assert found["Wine", "EGMM, one covariance", "ambiguous"] == pytest.approx(0.09, abs=0.01)
    assert found["Wine", "EGMM, one covariance", "accuracy"] == pytest.approx(0.983, abs=0.001)
    # README: the consensus, and the control beside it.
    assert found["Iris", "AutoEGMM", "ambiguous"] == pytest.approx(0.113, abs=0.01)
    assert found["Iris", "AutoEGMM", "precise_accuracy"] == 1.0
    assert found["Iris", "AutoEGMM", "control"] == pytest.approx(0.985, abs=0.004)
    for row in ("Iris", "Wine"):
        for column in EVIDENTIAL:
            assert 0.5 <= found[row, column, "control"] <= 1
            assert found[row, column, "u65"] <= found[row, column, "u80"] + 1e-12
            assert 0 <= found[row, column, "coverage"] <= 1


def test_times_are_beside_the_papers_with_ratios(made: Reproduction) -> None:
    sheet = made.sheets["cpu"]
    iris = dict(zip(sheet.head, sheet.lines[0], strict=True))
    assert iris["bootGMM"].paper == "7.61 s, 262x"
    assert iris[PAPER_MODE].paper == "29 ms, 1x"
    assert iris[PAPER_MODE].ours.endswith(", 1x")
    assert all(number.value > 0 for number in sheet.numbers)


def test_brain_table_has_the_papers_rows_and_ours(made: Reproduction) -> None:
    sheet = made.sheets["brain"]
    assert [line[1].ours for line in sheet.lines] == ["ECM", "BPEC", "EGMM"] * 4
    assert sheet.lines[2][2].ours == "0.9844"
    assert all(0.5 < number.value <= 1 for number in sheet.numbers if number.measure == "purity")


def test_glance_tells_what_holds(made: Reproduction) -> None:
    sheet = made.sheets["glance"]
    assert {line[2].ours for line in sheet.lines} <= {"yes", "no"}
    first = sheet.lines[0]
    assert first[1].ours == "-55.90, -63.08"
    assert first[2].ours == "yes"
    assert sheet.lines[1][1].ours.startswith("in 1 of 1 runs, without degenerate fits")


def test_how_often_rows_are_left_open_is_told(made: Reproduction) -> None:
    told = {line[0].ours: line[1].ours for line in made.sheets["glance"].lines}
    two = next(found for said, found in told.items() if said.startswith("Two-class: rows between the classes are open"))
    assert (
        two == "some row in 0 of 1 draws, at most 0 % of them; none in the others"
    )  # draw 0 has none, unlike the paper
    with (made.folder / "cells.csv").open(encoding="utf-8", newline="") as stream:
        measures = {(c["dataset"], c["measure"]) for c in csv.DictReader(stream) if c["experiment"] == "ebic"}
    assert {("Two-class", "open"), ("Four-class", "open_sets")} <= measures


def test_files_hold_every_number(made: Reproduction) -> None:
    assert sorted(made.files) == sorted(
        path.relative_to(made.folder).as_posix() for path in made.folder.rglob("*") if path.is_file()
    )
    with (made.folder / "numbers.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["table"] for row in rows} == set(TABLES)
    entry = next(r for r in rows if (r["table"], r["row"], r["column"]) == ("purity", "Wine", PAPER_MODE))
    assert (entry["printed"], entry["printed_sd"], entry["printed_rank"]) == ("0.85", "0.13", "3.0")
    with (made.folder / "cells.csv").open(encoding="utf-8", newline="") as stream:
        cells = list(csv.DictReader(stream))
    purity = [
        float(c["value"])
        for c in cells
        if (c["experiment"], c["dataset"], c["algorithm"], c["measure"]) == ("known", "Wine", PAPER_MODE, "purity")
    ]
    assert np.mean(purity) == pytest.approx(float(entry["value"]))
    settings = json.loads((made.folder / "settings.json").read_text("utf-8"))
    assert settings["versions"]["egmm"]
    assert settings["settings"]["n_bootstrap"] == TINY.n_bootstrap


def test_figures_are_pictures_of_a_page_size(made: Reproduction) -> None:
    image = pytest.importorskip("matplotlib.image")
    paths = [made.folder / name for name in made.files if name.endswith(".png")]
    assert len(paths) == 7
    for path in paths:
        pixels = image.imread(path)
        assert 200 < pixels.shape[0] < 1200, path
        assert 600 < pixels.shape[1] < 1600, path
        assert pixels[..., :3].std() > 0.01, path


def test_a_second_run_computes_nothing(made: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a copy: others look at the whole page.
    folder = copytree(made.folder, tmp_path / "again")
    monkeypatch.setattr("egmm.reproduce.cells.compute", _refuse)
    again = reproduce(folder, plan=TINY, only=["table:purity", "table:ebic", "figure:imprecision"])
    assert again.n_computed == 0
    assert set(again.sheets) == {"glance", "purity", "ebic"}
    assert again.sheets["purity"].lines == made.sheets["purity"].lines


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("a cell was computed again")


def test_fresh_computes_again(tmp_path: Path) -> None:
    plan, only = Plan(runs=1, datasets=("Iris",), n_bootstrap=15), ["table:imprecision"]
    first = reproduce(tmp_path, plan=plan, only=only)
    assert first.n_computed == first.n_cells == 9
    assert reproduce(tmp_path, plan=plan, only=only).n_computed == 0
    # Cells of other tables, perhaps hours of work, are not asked for.
    Store(tmp_path / "cells.jsonl").add("of another table", Cell("cpu", "Magic", "BPEC", 0), {"seconds": 791.6})
    told: list[int] = []
    again = reproduce(tmp_path, plan=plan, only=only, fresh=True, done=lambda done, *_: told.append(done))
    assert again.n_computed == 9
    assert told == list(range(1, 10))
    assert Store(tmp_path / "cells.jsonl")["of another table"] == {"seconds": 791.6}
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 10


def test_an_unknown_item_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'table:speed' is not one of table:ebic, .*figure:brain"):
        reproduce(tmp_path, only=["table:speed"])


def test_missing_data_are_told_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"iris\.csv nor .*iris\.csv exists"):
        reproduce(tmp_path / "out", only=["table:purity"], plan=Plan.quick(str(tmp_path)))
    assert not (tmp_path / "out" / "cells.jsonl").exists()
