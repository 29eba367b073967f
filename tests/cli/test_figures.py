"""Figures of commands: what is written in them, looked at without a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egmm.cli import demo, figures
from egmm.cli.data import Data
from egmm.cli.fitting import facts
from egmm.cli.models import fit_data
from egmm.cli.parsing import Decision, Request


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Figures by name of their file, kept instead of written."""
    kept: dict[str, Any] = {}
    monkeypatch.setattr(figures, "save", lambda axes, path: kept.update({path.name: axes}))
    return kept


def test_the_diamonds_curve_says_which_fits_are_degenerate(drawn: dict[str, Any], tmp_path: Path) -> None:
    # Four clusters have a higher criterion than the two chosen.
    demo._diamond(tmp_path)
    assert drawn["diamond.png"].get_title() == "number of clusters\nhollow: degenerate, chosen only if all are"


def test_figures_show_the_sets_that_the_screen_counts(
    drawn: dict[str, Any], tmp_path: Path, rng: np.random.Generator
) -> None:
    X = rng.normal(size=(90, 2)) + 2.6 * (np.arange(90) % 2)[:, None]
    request = Request([2], ["EEE"], "pairs", "ebic", 0, 1, verbose=False)
    n_open = {}
    for rule in ("heaviest", "utility"):
        fitted = fit_data(Data(X, ["a", "b"], None), request._replace(decision=Decision(rule, 0.9)))
        figures.write_figures(tmp_path / rule, fitted)
        n_open[rule] = facts(fitted)["open_rows"]
        listed = [text.get_text().split() for text in drawn["partition.png"].get_legend().get_texts()]
        assert sum(int(rows) for name, rows in listed if "," in name) == n_open[rule]
        assert sum(entry["rows"] for entry in facts(fitted)["sets"] if "," in entry["set"]) == n_open[rule]
        grey = drawn["approximations.png"][0].collections[0].get_offsets()
        assert len(grey) == n_open[rule]
    assert n_open["utility"] > n_open["heaviest"] > 0


def test_standardised_columns_are_drawn_in_the_units_of_the_file(
    drawn: dict[str, Any], tmp_path: Path, rng: np.random.Generator
) -> None:
    X = (rng.normal(size=(60, 3)) + 5.0 * (np.arange(60) % 2)[:, None]) * [1.0, 10.0, 100.0] + 1000.0
    data = Data(X, ["a", "b", "c"], None)
    fitted = fit_data(data, Request([2], ["EEE"], "pairs", "ebic", 0, 1, verbose=False), standardize=True)
    figures.write_figures(tmp_path / "figures", fitted)
    panel = drawn["pairs.png"][2, 1]  # c against b
    points = np.concatenate([dots.get_offsets() for dots in panel.collections])
    np.testing.assert_allclose(sorted(points[:, 1]), sorted(X[:, 2]))
    ellipses = [line.get_xydata() for line in panel.lines if len(line.get_xydata()) > 100]
    height = max(np.ptp(ellipse[:, 1]) for ellipse in ellipses)
    assert 200 < height < 1000  # four deviations of 100, or of one where left standardised
