"""EGMM where cells are missing: published estimates, every kind of rows, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from egmm import EGMM, AutoEGMM, scan, select_model

PUBLISHED = {
    # Little and Rubin; the digits of R's mvnmle.
    "apple": {
        "means": [14.7222, 49.3333],
        "variances": [89.534, 114.695],
        "log_likelihood": -101.785632,
    },
    "missvals": {
        "means": [6.6552, 49.9653, 11.7692, 27.0471, 95.4231],
        "variances": [21.8256, 238.0124, 37.8698, 294.1830, 208.9049],
        "log_likelihood": -132.925250,
    },
}


@pytest.fixture
def gaps(rng):
    """Two groups of rows; a sixth of the cells is missing, and row 11 has none."""
    X = (
        rng.normal(size=(240, 3)) @ np.array([[1.0, 0.4, 0], [0, 1, 0.3], [0, 0, 1]])
        + 4.0 * (np.arange(240) % 2)[:, None]
    )
    X[rng.random(X.shape) < 1 / 6] = np.nan
    X[11] = np.nan
    return X


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_one_cluster_has_the_published_estimates(data_directory, name, covariance) -> None:
    path = data_directory / "field" / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"needs field/{name}.csv in the directory named by EGMM_DATA")
    X, truth = np.genfromtxt(path, delimiter=",", skip_header=1), PUBLISHED[name]
    model = EGMM(1, covariance=covariance, reg_covar=0.0, tol=1e-13).fit(X)
    within = model.covariances_.reshape(X.shape[1], -1)
    digits = 3 if name == "apple" else 4
    assert model.means_[0].round(4).tolist() == truth["means"]
    assert within.diagonal().round(digits).tolist() == truth["variances"]
    assert round(model.log_likelihood_, 6) == truth["log_likelihood"]
    if name == "apple":
        assert round(within[0, 1], 3) == -90.697


def test_rows_without_any_cell_have_the_masses_of_the_weights(gaps) -> None:
    model = EGMM(2, random_state=0).fit(gaps)
    without = EGMM(2, random_state=0).fit(np.delete(gaps, 11, axis=0))
    np.testing.assert_allclose(model.predict_mass(gaps)[11], model.weights_, rtol=1e-13)
    assert model.score_samples(gaps)[11] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(model.means_, without.means_, atol=1e-3)
    assert model.log_likelihood_ == pytest.approx(without.log_likelihood_, abs=1e-3)
    assert model.ebic_ == pytest.approx(without.ebic_, abs=1e-3)


def test_weights_may_be_small(gaps) -> None:
    model = EGMM(3, random_state=0, tol=1e-9).fit(gaps)
    small = EGMM(3, random_state=0, tol=1e-9).fit(gaps, sample_weight=np.full(len(gaps), 0.1 / len(gaps)))
    np.testing.assert_allclose(small.means_, model.means_, rtol=1e-4)


def test_complete_rows_do_not_see_that_others_lack_cells(gaps) -> None:
    is_whole = ~np.isnan(gaps).any(axis=1)
    X, weight = np.where(is_whole[:, None], gaps, np.nan), is_whole.astype(float)
    model = EGMM(2, random_state=0, tol=1e-10).fit(gaps[is_whole])
    same = EGMM(2, random_state=0, tol=1e-10, init=model.means_).fit(X, sample_weight=weight)
    np.testing.assert_allclose(same.means_, model.means_, atol=1e-5)
    assert same.log_likelihood_ == pytest.approx(model.log_likelihood_, abs=1e-6)


@pytest.mark.parametrize("kind", ["csv", "parquet", "dask", "float32"])
@pytest.mark.parametrize("covariance", ["EEE", "VVV", "VVI"])
def test_rows_may_be_anywhere(gaps, tmp_path: Path, kind, covariance) -> None:
    start = np.array([[0.0] * 3, [4.0] * 3])
    model = EGMM(2, covariance=covariance, init=start).fit(gaps)
    frame = pd.DataFrame(gaps, columns=["a", "b", "c"])
    if kind == "csv":
        frame.to_csv(tmp_path / "rows.csv", index=False)
        rows = scan(tmp_path / "rows.csv")
    elif kind == "parquet":
        frame.to_parquet(tmp_path / "rows.parquet")
        rows = scan(tmp_path / "rows.parquet")
    elif kind == "dask":
        rows = pytest.importorskip("dask.array").from_array(gaps, chunks=(100, 3))
    else:
        rows = gaps.astype(np.float32)
    other = EGMM(2, covariance=covariance, init=start).fit(rows)
    np.testing.assert_allclose(other.means_, model.means_, atol=1e-6)
    np.testing.assert_allclose(other.covariances_, model.covariances_, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(other.predict(rows)), model.predict(gaps))


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
def test_rows_may_come_in_batches(gaps, covariance) -> None:
    model = EGMM(2, covariance=covariance, random_state=0).fit(gaps)
    stream = EGMM(2, covariance=covariance, random_state=0)
    for _ in range(20):
        for batch in np.split(gaps, 2):
            stream.partial_fit(batch)
    assert stream.score(gaps) == pytest.approx(model.score(gaps), abs=0.02)


def test_searches_take_gaps(gaps) -> None:
    selection = select_model(gaps, [1, 2, 3], ["EEE", "VVI"], random_state=0)
    assert selection.n_clusters == 2
    filled = selection.best.impute(gaps)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[~np.isnan(gaps)], gaps[~np.isnan(gaps)])
    auto = AutoEGMM([1, 2, 3], covariance=["EEE", "VVI", "VVV"], random_state=0).fit(gaps)
    assert auto.n_clusters_ == 2
    np.testing.assert_array_equal(np.isnan(auto.impute(gaps)), False)
    assert (auto.labels_ == selection.best.labels_).mean() in (pytest.approx(1, abs=0.05), pytest.approx(0, abs=0.05))


def test_what_cannot_be_used_is_named(gaps) -> None:
    frame = pd.DataFrame(gaps, columns=["length", "width", "depth"])
    frame["width"] = np.nan
    with pytest.raises(
        ValueError, match=r"Column 1 \('width'\) of X has no value in rows with positive weight; drop it"
    ):
        EGMM(2).fit(frame)
    with pytest.raises(ValueError, match="tails='t' takes complete rows, but X has missing cells"):
        EGMM(2, tails="t").fit(gaps)
