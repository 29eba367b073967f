"""The guide to the command line is true: its examples run one after the other, and its files are those written."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import pairwise_distances

from egmm import EGMM, CredalPartition

parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("matplotlib")
pytest.importorskip("typer")

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "command_line.md").read_text("utf-8")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_examples_run_in_sequence(call: Any, tmp_path: Path) -> None:
    iris = load_iris()
    lines = [",".join(map(str, row)) for row in iris.data]
    species = [str(iris.target_names[k]) for k in iris.target]
    (tmp_path / "new.csv").write_text("\n".join(["a,b,c,d", *lines[:9]]))
    (tmp_path / "flowers.csv").write_text(
        "\n".join(["a,b,c,d,species", *(f"{line},{name}" for line, name in zip(lines, species, strict=True))])
    )
    commands = re.findall(r"^    egmm ((?:fit|predict|info|compare) [^>\n]*)", GUIDE, re.MULTILINE)
    assert len(commands) == 8
    np.savetxt(tmp_path / "proteins.csv", pairwise_distances(iris.data), delimiter=",")
    for command in commands:
        result = call(*shlex.split(command))
        assert result.returncode == 0, f"{command}\n{result.stderr}"

    made = tmp_path / "flowers"
    named = re.findall(r"^\| `([\w/*.]+\.\w+)` \|", GUIDE, re.MULTILINE)
    found = {path.relative_to(made).as_posix() for path in made.rglob("[!.]*") if path.is_file()}
    found = {re.sub(r"^figures/.*", "figures/*.png", name).replace(".parquet", ".csv") for name in found}
    assert found == set(named)
    labels = parquet.read_table(made / "labels.parquet")
    assert labels.column_names == re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)
    assert 'CredalPartition.load("flowers/masses.parquet")' in GUIDE
    assert len(CredalPartition.load("flowers/masses.parquet")) == 150
    assert 'EGMM.load("flowers/model.json")' in GUIDE
    assert EGMM.load("flowers/model.json").n_clusters == 3
