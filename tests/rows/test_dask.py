"""Dask collections: what is computed where, and how those that cannot be fitted are refused."""

import re
from pathlib import Path
from typing import Any

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import scipy.sparse

from egmm import EGMM, select_model
from row_sources import BLOCK_ROWS, assert_close, assert_same_bits, table, two_groups

# Other blocks round otherwise. Plain EM keeps that at the last digits, quasi-Newton's memory of steps magnifies it.
PLAIN: dict[str, Any] = {"random_state": 0, "accelerate": False, "tol": 1e-4}

# pandas deprecates what Dask does with Parquet files.
reads_parquet = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")


@pytest.fixture(autouse=True)
def threads() -> Any:
    """Dask's local default, threads in this process, even where another test has left a cluster behind."""
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture
def X() -> np.ndarray:
    return two_groups(2 * BLOCK_ROWS + 100)


def counted(X: np.ndarray, counter: list[int], **options: Any) -> Any:
    """A Dask array that counts how often its chunks are made."""

    def make(block: np.ndarray) -> np.ndarray:
        counter.append(len(block))
        return block

    chunks = dask.array.from_array(X, chunks=(BLOCK_ROWS, -1))
    return chunks.map_blocks(make, dtype=X.dtype, meta=np.empty((0, 0)), **options)


def frame(X: np.ndarray, n_partitions: int = 3) -> Any:
    columns = pd.DataFrame(X, columns=list("abc"))
    return dask.dataframe.from_pandas(columns, npartitions=n_partitions, sort=False)


def test_chunks_of_any_size_agree(X: np.ndarray) -> None:
    alone = EGMM(2, **PLAIN).fit(X)
    whole = EGMM(2, **PLAIN).fit(dask.array.from_array(X, chunks=(BLOCK_ROWS, 3)))
    assert_same_bits(whole, alone)
    for chunks in (1000, (7, BLOCK_ROWS + 1, BLOCK_ROWS + 92), len(X)):
        other = EGMM(2, **PLAIN).fit(dask.array.from_array(X, chunks=(chunks, 3)))
        assert_close(other, alone, 1e-12)


def test_frames_agree_with_arrays_and_keep_their_names(X: np.ndarray) -> None:
    alone = EGMM(2, **PLAIN).fit(X)
    model = EGMM(2, **PLAIN).fit(frame(X))
    assert_close(model, alone, 1e-12)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    said = r"X has the columns \['c', 'b', 'a'\], but EGMM was fitted on \['a', 'b', 'c'\]; .* of a data frame"
    with pytest.raises(ValueError, match=said):
        model.predict(frame(X)[["c", "b", "a"]])


def test_unknown_chunk_sizes_and_empty_chunks(X: np.ndarray) -> None:
    kept = frame(X, 5).map_partitions(lambda part: part[(part.index < 10) | (part.index > 20_000)])
    selected = X[(np.arange(len(X)) < 10) | (np.arange(len(X)) > 20_000)]
    alone = EGMM(2, **PLAIN).fit(selected)
    for rows in (kept, kept.to_dask_array()):
        model = EGMM(2, **PLAIN).fit(rows)
        assert_close(model, alone, 1e-12)
        labels = model.predict(rows)
        assert np.isnan(labels.shape[0])
        np.testing.assert_array_equal(labels.compute(), model.predict(rows.compute()))
        assert model.predict_mass(rows).compute().shape == (len(selected), 3)


def test_the_rows_of_known_chunks_are_not_read_to_count_them(X: np.ndarray) -> None:
    counter: list[int] = []
    model = EGMM(2, random_state=0, accelerate=False, tol=1e-3, init=[[0, 0, 0], [2, 2, 2]]).fit(counted(X, counter))
    # One pass for the moments, one for the start's groups, one per E-step.
    assert sum(counter) == (2 + 1 + model.n_iter_) * len(X)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_mass", "predict_sets", "score_samples"])
def test_predictions_are_lazy(method: str, X: np.ndarray) -> None:
    model = EGMM(2, random_state=0).fit(X)
    counter: list[int] = []
    rows = counted(X, counter)
    result = getattr(model, method)(rows)
    assert counter == []
    assert isinstance(result, dask.array.Array)
    expected = getattr(model, method)(X)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(result.compute(), expected)
    np.testing.assert_array_equal(result[5:9].compute(), expected[5:9])


@pytest.mark.parametrize("method", ["predict_proba", "predict_mass", "score_samples", "predict"])
def test_one_cluster_has_one_column(method: str, X: np.ndarray) -> None:
    model = EGMM(1).fit(X)
    got, expected = getattr(model, method)(dask.array.from_array(X, chunks=(5000, 3))), getattr(model, method)(X)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.compute(), expected)
    assert model.partition(dask.array.from_array(X, chunks=(5000, 3))).mass.shape == (len(X), 1)


@pytest.mark.parametrize("method", ["predict", "predict_mass", "score_samples", "outliers"])
def test_predictions_name_an_entry_that_is_not_finite(method: str, X: np.ndarray) -> None:
    spoiled = X.copy()
    spoiled[5007, 1] = np.inf
    result = getattr(EGMM(2, random_state=0).fit(X), method)(dask.array.from_array(spoiled, chunks=(5000, 3)))
    with pytest.raises(ValueError, match="Input X contains infinity at row 7 of chunk 1, column 1"):
        result.compute()


@reads_parquet
def test_predictions_of_a_frame_are_lazy(X: np.ndarray, tmp_path: Path) -> None:
    model = EGMM(2, random_state=0).fit(frame(X))
    frame(X).to_parquet(tmp_path / "rows")
    rows = dask.dataframe.read_parquet(tmp_path / "rows")
    result = model.predict_proba(rows)
    for file in (tmp_path / "rows").glob("*.parquet"):
        file.unlink()
    with pytest.raises(FileNotFoundError):
        result.compute()


def test_scores_and_partitions(X: np.ndarray) -> None:
    model = EGMM(2, random_state=0).fit(X)
    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, 3))
    assert model.score(rows) == model.score(X)
    assert model.icl(rows) == model.icl(X)
    np.testing.assert_array_equal(model.partition(rows).mass, model.partition(X).mass)
    np.testing.assert_array_equal(model.outliers(rows).compute(), model.outliers(X))
    with pytest.raises(ValueError, match="out= is only for scans of files; store the lazy Dask result"):
        model.predict(rows, out="labels.parquet")


@pytest.mark.parametrize("kind", ["array", "dask array", "series", "list"])
def test_weights(kind: str, X: np.ndarray) -> None:
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    alone = EGMM(2, **PLAIN).fit(X, sample_weight=weights)
    rows: Any = dask.array.from_array(X, chunks=(BLOCK_ROWS, 3))
    given: Any = weights
    if kind == "dask array":
        given = dask.array.from_array(weights, chunks=1111)
    elif kind == "list":
        given = weights.tolist()
    elif kind == "series":
        columns = pd.DataFrame({**dict(zip("abc", X.T, strict=True)), "w": weights})
        whole = dask.dataframe.from_pandas(columns, npartitions=3)
        rows, given = whole[["a", "b", "c"]], whole["w"]
    model = EGMM(2, **PLAIN).fit(rows, sample_weight=given)
    if kind == "series":
        assert_close(model, alone, 1e-12)
    else:
        assert_same_bits(model, alone)
    assert model.score(rows, sample_weight=given) == pytest.approx(alone.score(X, sample_weight=weights), rel=1e-12)


@pytest.mark.parametrize("value", [-1.0, np.nan])
@pytest.mark.parametrize("is_lazy", [False, True])
def test_weights_that_are_none(is_lazy: bool, value: float, X: np.ndarray) -> None:
    weights = np.ones(len(X))
    weights[20_000] = value
    given = dask.array.from_array(weights, chunks=5000) if is_lazy else weights
    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, 3))
    with pytest.raises(ValueError, match=r"sample_weight must .*20000"):
        EGMM(2).fit(rows, sample_weight=given)


def test_weights_that_are_no_numbers(X: np.ndarray) -> None:
    rows, columns = dask.array.from_array(X, chunks=(BLOCK_ROWS, 3)), pd.DataFrame(X, columns=list("abc"))
    with pytest.raises(TypeError, match="sample_weight must be numeric, got a Dask Array of dtype <U1"):
        EGMM(2).fit(rows, sample_weight=dask.array.from_array(np.full(len(X), "a"), chunks=5000))
    columns["w"] = pd.array(np.ones(len(X)), dtype="Int64")
    columns["note"] = "text"
    columns.loc[7, "w"] = pd.NA
    whole = dask.dataframe.from_pandas(columns, npartitions=3)
    with pytest.raises(ValueError, match="sample_weight must be finite and >= 0, but row 7 has nan"):
        EGMM(2).fit(whole[["a", "b", "c"]], sample_weight=whole["w"])
    with pytest.raises(TypeError, match="sample_weight must be numeric, got a Dask Series of dtype str"):
        EGMM(2).fit(whole[["a", "b", "c"]], sample_weight=whole["note"])
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(32868,\), got \(32868, 1\)"):
        EGMM(2).fit(whole[["a", "b", "c"]], sample_weight=whole[["w"]])


def test_columns_without_names_are_as_scikit_learn_has_them(X: np.ndarray) -> None:
    numbered = pd.DataFrame(X)
    model = EGMM(2, random_state=0).fit(dask.dataframe.from_pandas(numbered, npartitions=3))
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(numbered).shape == (len(X),)  # without a warning about names


def test_weights_of_another_length_or_all_zero(X: np.ndarray) -> None:
    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, 3))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(32868,\), got \(5,\)"):
        EGMM(2).fit(rows, sample_weight=dask.array.ones(5))
    with pytest.raises(ValueError, match="sample_weight must not be all zero"):
        EGMM(2).fit(rows, sample_weight=dask.array.zeros(len(X)))


def test_given_labels(X: np.ndarray) -> None:
    labels = (X.sum(axis=1) > 3.5).astype(int)
    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, 3))
    assert_same_bits(EGMM(2, init=labels).fit(rows), EGMM(2, init=labels).fit(X))


def test_columns_cut_apart_are_refused_with_the_call_that_mends_it(X: np.ndarray) -> None:
    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, 2))
    with pytest.raises(ValueError, match=r"chunked along columns \(chunks \(2, 1\)\).*use X\.rechunk\(") as caught:
        EGMM(2).fit(rows)
    call = str(caught.value).partition("use ")[2].rstrip(".")
    mended = eval(call, {"X": rows})
    assert_close(EGMM(2, **PLAIN).fit(mended), EGMM(2, **PLAIN).fit(X), 1e-12)


def test_collections_that_are_no_table_of_numbers(X: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"two dimensions, got a Dask Array of shape \(5,\)"):
        EGMM(2).fit(dask.array.ones(5))
    with pytest.raises(TypeError, match="numeric, got a Dask array of dtype <U1"):
        EGMM(2).fit(dask.array.from_array(np.array([["a"], ["b"]])))
    named = frame(X).assign(note="text")
    with pytest.raises(TypeError, match=r"column 'note' is .*; select the numeric columns"):
        EGMM(2).fit(named)
    with pytest.raises(ValueError, match="two dimensions, got a Dask Series"):
        EGMM(2).fit(named["a"])
    with pytest.raises(TypeError, match=r"X must be a Dask array or data frame .*, got Delayed"):
        EGMM(2).fit(dask.delayed(X))
    with pytest.raises(TypeError, match="Chunks of X must be arrays or data frames, got csr_matrix; make them dense"):
        EGMM(2).fit(dask.array.from_array(X, chunks=(BLOCK_ROWS, 3)).map_blocks(scipy.sparse.csr_matrix))
    with pytest.raises(ValueError, match="X must have at least one feature"):
        EGMM(2).fit(dask.array.ones((5, 0)))
    with pytest.raises(ValueError, match=r"X has 1 row\(s\), but a fit needs at least 2"):
        EGMM(2).fit(dask.array.ones((1, 3)))
    model = EGMM(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but EGMM is expecting 3"):
        model.predict(dask.array.ones((5, 2)))
    with pytest.raises(ValueError, match="at least one row, but every chunk is empty"):
        model.score(dask.array.ones((0, 3)))


def test_values_that_are_not_finite(X: np.ndarray) -> None:
    X = X.copy()
    X[20_000, 1] = np.inf
    with pytest.raises(ValueError, match="contains infinity at row 20000, column 1;"):
        EGMM(2).fit(dask.array.from_array(X, chunks=(3000, 3)))
    with pytest.raises(ValueError, match=r"contains infinity at row 20000, column 1 \('b'\);"):
        EGMM(2).fit(frame(X))


def test_masked_values(X: np.ndarray) -> None:
    rows = dask.array.ma.masked_greater(dask.array.from_array(X, chunks=(BLOCK_ROWS, 3)), np.sort(X, axis=None)[-2])
    with pytest.raises(ValueError, match=r"A chunk of X has 1 entry of \d+ masked;  drop"):
        EGMM(2).fit(rows)
    weights = dask.array.ma.masked_equal(dask.array.ones(len(X), chunks=BLOCK_ROWS), 1)
    with pytest.raises(ValueError, match=r"A chunk of sample_weight has \d+ entries of \d+ masked"):
        EGMM(2).fit(dask.array.from_array(X, chunks=(BLOCK_ROWS, 3)), sample_weight=weights)


def test_nullable_and_whole_numbers(X: np.ndarray) -> None:
    whole = np.round(10 * X)
    columns = pd.DataFrame(whole, columns=list("abc")).astype("Int64")
    rows = dask.dataframe.from_pandas(columns, npartitions=1)
    assert_same_bits(EGMM(2, random_state=0).fit(rows), EGMM(2, random_state=0).fit(whole))
    columns.loc[7, "b"] = pd.NA
    whole[7, 1] = np.nan
    found = EGMM(2, random_state=0).fit(dask.dataframe.from_pandas(columns, npartitions=2))
    expected = EGMM(2, random_state=0).fit(whole)
    np.testing.assert_allclose(found.means_, expected.means_, rtol=1e-9)
    np.testing.assert_array_equal(np.asarray(found.predict(dask.array.from_array(whole))), expected.labels_)


def test_selection(X: np.ndarray) -> None:
    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, 3))
    chosen = select_model(rows, range(1, 4), random_state=0)
    alone = select_model(X, range(1, 4), random_state=0, n_jobs=1)
    assert chosen.n_clusters == alone.n_clusters == 2
    assert_same_bits(chosen.best, alone.best)


@reads_parquet
def test_read_from_files(X: np.ndarray, tmp_path: Path) -> None:
    for at in range(2):
        part = table(X[at * BLOCK_ROWS : (at + 1) * BLOCK_ROWS if at == 0 else None])
        pyarrow.parquet.write_table(part, tmp_path / f"{at}.parquet")
    rows = dask.dataframe.read_parquet(tmp_path)
    assert_same_bits(EGMM(2, random_state=0).fit(rows), EGMM(2, random_state=0).fit(X))


@pytest.mark.parametrize("what", ["X", "sample_weight"])
@pytest.mark.parametrize(
    "part",
    [lambda X: X + 1j, lambda X: X.astype(str), lambda X: X.astype(object)],
    ids=["complex", "text", "objects"],
)
def test_chunks_of_another_kind_than_declared_are_refused(what: str, part: Any) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    given = {"X": dask.array.from_array(X, chunks=20), "sample_weight": dask.array.ones(40, chunks=20)}
    rows = part(X if what == "X" else np.ones(40).round(1))
    chunks = [dask.delayed(rows[:20]), dask.delayed(rows[20:])]
    shape = (20, 2) if what == "X" else (20,)
    given[what] = dask.array.concatenate([dask.array.from_delayed(chunk, shape, dtype=float) for chunk in chunks])
    expected = f"{what} was declared numeric, but a chunk has dtype {np.asarray(rows).dtype}; correct its metadata."
    with pytest.raises(TypeError, match=re.escape(expected)):
        EGMM(2, random_state=0).fit(**given)
