"""Numbers become text as the paper writes them, and are judged by its spreads."""

import numpy as np
import pytest

from egmm.reproduce import Number, Sheet, printed
from egmm.reproduce.algorithms import PAPER_MODE
from egmm.reproduce.cells import Results
from egmm.reproduce.experiments import Cell
from egmm.reproduce.plan import Plan
from egmm.reproduce.scores import ranks_without_missing, scores, significant
from egmm.reproduce.sheets import verdict
from egmm.reproduce.words import explain


@pytest.mark.parametrize(
    ("mean", "row", "expected"),
    [
        (0.931, "Seeds", "agrees"),  # 0.95 ± 0: within 0.02 as printed, two digits
        (0.924, "Seeds", "worse"),
        (0.974, "Seeds", "agrees"),
        (0.98, "Seeds", "better"),
        (0.73, "Wine", "agrees"),  # 0.85 ± 0.13
        (0.71, "Wine", "worse"),
        (float("nan"), "Wine", "missing"),
        (0.5, "Zoo", "new"),
    ],
)
def test_verdicts_on_purity(mean: float, row: str, expected: str) -> None:
    assert verdict(mean, printed("purity"), row, "EGMM") == expected


def test_verdicts_on_the_number_of_clusters_look_at_the_true_one() -> None:
    paper = printed("clusters")  # Iris: EGMM 3.4 ± 0.52, three classes
    assert verdict(3.0, paper, "Iris", "EGMM", target=3) == "agrees"
    assert verdict(2.8, paper, "Iris", "EGMM", target=3) == "better"
    assert verdict(4.0, paper, "Iris", "EGMM", target=3) == "worse"


def test_ranks_are_of_rounded_means_and_missing_ones_are_last() -> None:
    values = {"HCM": 0.801, "FCM": 0.799, "ECM": 0.9, "BPEC": 0.5, "GMM": 0.6, "CGMM": 0.4, PAPER_MODE: 0.95}
    results = Results((Cell("known", "Iris", name, 0), {"purity": value}) for name, value in values.items())
    table = scores(results, Plan(datasets=("Iris",)), "purity", PAPER_MODE)
    assert dict(zip(table.algorithms, table.ranks[0].tolist(), strict=True)) == {
        "HCM": 3.5,
        "FCM": 3.5,
        "ECM": 2.0,
        "BPEC": 6.0,
        "GMM": 5.0,
        "CGMM": 7.0,
        "bootGMM": 8.0,
        PAPER_MODE: 1.0,
    }


def test_ranks_with_the_papers_missing_entries_are_the_printed_ones() -> None:
    paper = printed("purity")
    names = [PAPER_MODE if name == "EGMM" else name for name in paper.columns]
    filled = np.nan_to_num(paper.values, nan=0.99)  # bootGMM on Magic, better than all
    results = Results(
        (Cell("known", row, name, 0), {"purity": float(value)})
        for row, line in zip(paper.rows, filled, strict=True)
        for name, value in zip(names, line, strict=True)
    )
    table = scores(results, Plan(), "purity", PAPER_MODE)
    assert table.average_ranks[names.index("bootGMM")] == pytest.approx(3.0)  # (31 - 8 + 1) / 8
    np.testing.assert_allclose(ranks_without_missing(table, Plan(), "purity"), paper.average_ranks, atol=0.011)


def test_significance_of_the_printed_ranks() -> None:
    paper = printed("purity")
    assert significant(paper.columns, paper.average_ranks or (), 8, 0.05) == ["ECM", "BPEC"]
    assert significant(paper.columns, paper.average_ranks or (), 8, 0.10) == ["HCM", "FCM", "ECM", "BPEC"]


def test_known_deviations_are_explained() -> None:
    sheet = Sheet("purity", "", "", [])
    sheet.numbers = [
        Number("purity", "Magic", PAPER_MODE, "purity", 0.692, 0.0, 10, 1.0, 0.75, 0.0, 1.0, "worse"),
        Number("purity", "Wine", "ECM", "purity", 0.73, 0.0, 10, 4.0, 0.69, 0.0, 6.0, "better"),
        Number("purity", "Seeds", PAPER_MODE, "purity", 0.948, 0.0, 10, 1.0, 0.95, 0.0, 1.0, "agrees"),
    ]
    explain(sheet)
    assert len(sheet.notes) == 1
    assert sheet.notes[0].startswith("Paper mode: ▼ Magic 0.692 (printed 0.75 ± 0): not reached from k-means")


def test_a_printed_entry_that_is_missing_is_never_judged() -> None:
    assert verdict(0.65, printed("purity"), "Magic", "bootGMM") == "new"
    assert np.isnan(printed("purity").tolerance("Magic", "bootGMM"))
