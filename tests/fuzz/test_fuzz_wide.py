"""Labels, links, consensus models, the clusterers of the field and files of partitions, as `test_fuzz` tries EGMM."""

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egmm import EGMM, AutoEGMM, CredalPartition, FocalSets, cluster
from egmm.cli import main
from fuzz import strategies as nasty
from fuzz.attempts import assert_sound, attempt, examples

FIELD = ["CCM", "CECM", "TECM", "CatECM", "RECM", "MECM", "ECMdd", "EVCLUS", "EKNNClus", "NNEVCLUS", "BootGMM"]
FIELD += ["MultiViewECM", "MultiViewECMdd", "BPEC"]


def assert_masses(partition: CredalPartition) -> None:
    assert np.isfinite(partition.mass).all()
    assert (partition.mass >= 0).all()
    np.testing.assert_allclose(partition.mass.sum(axis=1), 1, atol=1e-8)


@examples("knowledge")
@given(data=st.data(), X=nasty.rows(max_rows=15), n_clusters=st.integers(1, 3), noise=st.booleans())
def test_labels_and_links_are_used_or_refused(data: Any, X: np.ndarray, n_clusters: int, noise: bool) -> None:
    known = data.draw(nasty.knowledge(len(X), n_clusters))
    model = EGMM(n_clusters, max_iter=40, random_state=0, noise=noise)
    if attempt(lambda: model.fit(X, **known)) is not None:
        assert_sound(model, X)
        assert_masses(model.partition(X, **known))
        assert_masses(model.partition(X))


@examples("field")
@given(X=nasty.rows(max_rows=20), name=st.sampled_from(FIELD), parameters=nasty.field(), links=st.booleans())
def test_the_field_fits_or_says_why_not(X: np.ndarray, name: str, parameters: dict[str, Any], links: bool) -> None:
    kind = getattr(cluster, name)
    takes = inspect.signature(kind.__init__).parameters
    given_to = {"n_clusters": 2, "random_state": 0, "max_iter": 20, "n_bootstrap": 5, "covariance": "EII", **parameters}
    pairs = {"must_link": [[0, 1]], "cannot_link": [[0, len(X) - 1]]} if links else {}
    if "must_link" not in inspect.signature(kind.fit).parameters:
        pairs = {}
    rows = [X, X[:, ::-1]] if name == "MultiViewECMdd" else X
    model = attempt(lambda: kind(**{key: given_to[key] for key in given_to if key in takes}).fit(rows, **pairs))
    if model is not None:
        partition = attempt(model.partition, rows) if hasattr(model, "partition") else None
        assert_masses(partition if partition is not None else model.partition_)


@examples("auto")
@given(
    X=nasty.rows(),
    n_clusters=st.sampled_from([[1, 2, 3], [2], 2, [], [0], "12", [1, 10**400], None, [3, 3]]),
    covariance=st.sampled_from([["EII", "EEE"], "VVI", "all", ["EVE", "VVV"], ["low-rank"], "none", [], 3]),
    noise=st.sampled_from([False, False, True, "auto", "yes"]),
    focal_sets=st.sampled_from(["pairs", "pairs", "singletons", "neighbours", "none"]),
)
def test_a_consensus_is_found_or_refused(
    X: np.ndarray, n_clusters: Any, covariance: Any, noise: Any, focal_sets: str, tmp_path_factory: Any
) -> None:
    options = {"covariance": covariance, "noise": noise, "focal_sets": focal_sets, "max_iter": 60, "random_state": 0}
    model = attempt(lambda: AutoEGMM(n_clusters, **options).fit(X))
    if model is not None:
        assert_masses(model.partition(X))
        path = tmp_path_factory.mktemp("auto") / "model.json"
        model.save(path)
        np.testing.assert_array_equal(AutoEGMM.load(path).predict_mass(X), model.predict_mass(X))


@pytest.fixture(scope="module")
def consensus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A place for model files, and the text of a whole one."""
    X = np.random.default_rng(0).normal(size=(60, 2)) + 6.0 * (np.arange(60) % 2)[:, None]
    path = tmp_path_factory.mktemp("models") / "model.json"
    AutoEGMM([1, 2, 3], covariance=["EII", "EEE", "VVI"], random_state=0).fit(X).save(path)
    return path, path.read_text()


@examples("auto files")
@given(data=st.data())
def test_files_of_a_consensus_are_loaded_or_refused(data: Any, consensus: tuple[Path, str]) -> None:
    path, text = consensus
    path.write_text(data.draw(nasty.damaged_models(text)), encoding="utf-8")
    model = attempt(AutoEGMM.load, path)
    if model is not None:
        assert_masses(model.partition(np.zeros((2, 2))))
        assert model.summary()
        assert all(member.checkpoint is None for member in model._sources.models)


@examples("partition files")
@given(data=st.data(), suffix=st.sampled_from(["npz", "parquet", "csv"]))
def test_files_of_partitions_are_loaded_or_refused(data: Any, suffix: str, tmp_path_factory: Any) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("partition") / f"masses.{suffix}"
    if suffix == "csv":
        content = b'{1},{2},"{1,2}"\n0.5,0.25,0.25\n1,0,0\n'
    else:
        CredalPartition([[0.5, 0.25, 0.25], [1, 0, 0]], FocalSets.full(2)).save(path)
        content = path.read_bytes()
    path.write_bytes(data.draw(nasty.damaged_bytes(content)))
    partition = attempt(CredalPartition.load, path)
    if partition is not None:
        assert_masses(partition)


PREPARED = {
    "columns": ["a", "b"],
    "left_out": {"c": "text"},
    "id": "row",
    "missing": "em",
    "centre": [0, 0],
    "scale": [1, 2],
}
TABLE = "row,a,b,c\nx,1,2,u\ny,,5,v\nz,3,1e3,w\n"


@examples("predictions")
@given(data=st.data(), command=st.sampled_from(["predict", "info"]), damages_rows=st.booleans())
def test_predictions_end_with_a_sentence(
    data: Any, command: str, damages_rows: bool, tmp_path_factory: Any, consensus: tuple[Path, str]
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("typer")
    folder = tmp_path_factory.mktemp("predict")
    text = json.dumps({**json.loads(consensus[1]), "preparation": PREPARED})
    (folder / "rows.csv").write_bytes(data.draw(nasty.files()) if damages_rows else TABLE.encode())
    (folder / "m.json").write_text(text if damages_rows else data.draw(nasty.damaged_models(text)), encoding="utf-8")
    before, here = sys.argv, Path.cwd()
    sys.argv = ["egmm", command, "m.json", *(["rows.csv"] if command == "predict" else [])]
    os.chdir(folder)
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        os.chdir(here)
        sys.argv = before
    assert end.value.code in (None, 0, 1, 2)
