"""The whole reproduction once, as small as it can be."""

from pathlib import Path

import pytest

from egmm.reproduce import Plan, Reproduction, reproduce

TINY = Plan(
    runs=1,
    draws=1,
    datasets=("Iris", "Wine"),
    counts=(2, 3),
    n_bootstrap=15,
    brains=1,
    brain_shape=(48, 40),
    seconds_to_repeat=0.0,
)
"""Iris and Wine come with scikit-learn: no data files are needed."""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Everything, from the tiny plan."""
    pytest.importorskip("matplotlib")
    folder: Path = tmp_path_factory.mktemp("reproduction")
    return reproduce(folder, plan=TINY)
