"""Nasty data, files, models and options: either a sound result, or an error in a sentence; never anything else.

A short run is part of every test run; ``--fuzz=N`` tries N examples of each kind, with other random numbers.
"""

import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egmm import BPEC, ECM, EGMM, FCM, CredalPartition, FocalSets, scan
from egmm.belief import combine
from egmm.belief.rules import RULES
from egmm.cli import main
from fuzz import strategies as nasty
from fuzz.attempts import assert_sound, attempt, examples


@examples("rows")
@given(X=nasty.rows(), parameters=nasty.options())
def test_egmm_fits_or_says_why_not(X: np.ndarray, parameters: dict[str, Any]) -> None:
    model = attempt(lambda: EGMM(**{"max_iter": 60, "random_state": 0, **parameters}).fit(X))
    if model is not None:
        assert_sound(model, X)
        history = model.log_likelihood_history_
        if (
            model.reg_covar == "auto" and model.prior is None and not model.certainty
        ):  # The others raise something else.
            assert model.log_likelihood_ >= history[0] - 1e-6 * (1 + abs(history[0])) - _most_of_ridge(model, X)
        attempt(model.partial_fit, X[:3])


def _most_of_ridge(model: EGMM, X: np.ndarray) -> float:
    """Most that the ridge's part of the objective, N tr(P R) / 2, can take from the likelihood while EM raises both.

    It moves only along directions without variance, in which missing cells have only the ridge.
    """
    if not np.isnan(X).any():
        return 0.0
    deviations = np.sqrt(np.diagonal(model.covariances_, axis1=-2, axis2=-1))
    correlations = model.covariances_ / deviations[..., :, None] / deviations[..., None, :]
    return X.size / 2 if np.linalg.eigvalsh(correlations).min() < 1e-6 else 0.0


@examples("peers")
@given(X=nasty.rows(), estimator=st.sampled_from([FCM, ECM, BPEC]), n_clusters=st.sampled_from([1, 2, 3, 0, None]))
def test_peers_fit_or_say_why_not(X: np.ndarray, estimator: Any, n_clusters: Any) -> None:
    model = attempt(lambda: estimator(n_clusters=n_clusters, random_state=0, max_iter=30).fit(X))
    if model is not None:
        assert_sound(model, X)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "varying": {"covariance": "VVV", "focal_sets": [[0], [1]]},
    "diagonal": {"covariance": "VEI", "prior": "default"},
    "noise": {"noise": True},
    "tails": {"tails": "t"},
    "low-rank": {"covariance": "low-rank", "n_factors": 1},
}
"""Models of which files are damaged."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A place for model files, and the text of a whole one of each kind."""
    X = np.random.default_rng(0).normal(size=(60, 4)) + 6.0 * (np.arange(60) % 2)[:, None]
    path = tmp_path_factory.mktemp("models") / "model.json"
    texts = {}
    for kind, options in KINDS.items():
        EGMM(2, random_state=0, **options).fit(X).save(path)
        texts[kind] = path.read_text()
    return path, texts


@examples("models")
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)))
def test_model_files_are_loaded_or_refused(data: Any, kind: str, whole: tuple[Path, dict[str, str]]) -> None:
    path, texts = whole
    path.write_text(data.draw(nasty.damaged_models(texts[kind])), encoding="utf-8")
    model = attempt(EGMM.load, path)
    if model is not None:
        assert_sound(model, np.zeros((2, model.n_features_in_)))
        assert model.weights_.sum() == pytest.approx(1)
        assert model.checkpoint is None
        model.save(path)
        np.testing.assert_array_equal(EGMM.load(path).means_, model.means_)


@examples("files")
@given(content=nasty.files(), header=st.sampled_from([None, True, False]))
def test_files_are_scanned_or_refused(content: bytes, header: bool | None, tmp_path_factory: Any) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("scan") / "rows.csv"
    path.write_bytes(content)
    rows = attempt(scan, path, header=header)
    if rows is not None:
        model = attempt(EGMM(1, max_iter=5, random_state=0).fit, rows)
        if model is not None:
            assert math.isfinite(model.log_likelihood_)


@examples("commands")
@given(content=nasty.files(), arguments=nasty.arguments)
def test_commands_end_with_a_sentence(content: bytes, arguments: list[str], tmp_path_factory: Any) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("typer")
    folder = tmp_path_factory.mktemp("command")
    (folder / "rows.csv").write_bytes(content)
    before, here = sys.argv, Path.cwd()
    sys.argv = ["egmm", "fit", "rows.csv", "--max-iter", "5", "--no-plots", *arguments]
    os.chdir(folder)
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        os.chdir(here)
        sys.argv = before
    assert end.value.code in (None, 0, 1, 2)
    assert (folder / "rows.csv").read_bytes() == content
    assert not list(folder.rglob(".egmm-*.tmp"))


@examples("partitions")
@given(
    n_clusters=st.integers(1, 4),
    rule=st.sampled_from(RULES),
    on_conflict=st.sampled_from(["raise", "vacuous", "empty"]),
    entries=st.lists(st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1 - 1e-16, -1e-17, np.nan]), min_size=30, max_size=30),
)
def test_partitions_combine_or_say_why_not(n_clusters: int, rule: str, on_conflict: str, entries: list[float]) -> None:
    focal = FocalSets.full(n_clusters)
    raw = np.resize(entries, (2, 2, len(focal)))
    with np.errstate(all="ignore"):
        scaled = raw / raw.sum(axis=2, keepdims=True)
    sources = [attempt(CredalPartition, mass, focal) for mass in scaled]
    if all(source is not None for source in sources):
        found = attempt(lambda: combine(*sources, rule=rule, on_conflict=on_conflict))
        if found is not None:
            np.testing.assert_allclose(found.mass.sum(axis=1), 1, atol=1e-8)
            assert (found.mass >= 0).all()
