"""The guide to the command line names the files that a fit writes, and their columns."""

import re
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_iris

from egmm import AutoEGMM, CredalPartition

parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("matplotlib")
pytest.importorskip("typer")

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "command_line.md").read_text("utf-8")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_files_and_columns_are_those_of_a_fit(call: Any, tmp_path: Path) -> None:
    iris = load_iris(as_frame=True)
    iris.data.to_parquet(tmp_path / "iris.parquet")
    assert call("fit", "iris.parquet", "--clusters", "3", "--out", "flowers").returncode == 0

    made = tmp_path / "flowers"
    named = re.findall(r"^\| `([\w/*.]+\.\w+)` \|", GUIDE, re.MULTILINE)
    found = {path.relative_to(made).as_posix() for path in made.rglob("[!.]*") if path.is_file()}
    found = {re.sub(r"^figures/.*", "figures/*.png", name).replace(".parquet", ".csv") for name in found}
    assert found == set(named)
    labels = parquet.read_table(made / "labels.parquet")
    assert labels.column_names == re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)
    assert 'CredalPartition.load("flowers/masses.parquet")' in GUIDE
    assert len(CredalPartition.load("flowers/masses.parquet")) == 150
    assert '`AutoEGMM.load("flowers/model.json")`' in GUIDE
    assert AutoEGMM.load("flowers/model.json").n_clusters_ == 3
