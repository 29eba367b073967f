"""Figures of commands: what is written in them, looked at without a file."""

from pathlib import Path
from typing import Any

import pytest

from egmm.cli import demo, figures


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Figures by name of their file, kept instead of written."""
    kept: dict[str, Any] = {}
    monkeypatch.setattr(figures, "save", lambda axes, path: kept.update({path.name: axes}))
    return kept


def test_the_diamonds_curve_says_which_fits_are_degenerate(drawn: dict[str, Any], tmp_path: Path) -> None:
    # Four clusters have a higher criterion than the two chosen.
    demo._diamond(tmp_path)
    assert drawn["diamond.png"].get_title() == "how many clusters\nhollow: degenerate, not to be chosen"
