"""What may be given as rows and parameters: our own words for what cannot be used, and other libraries' tables."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from egmm import BPEC, ECM, EGMM, FCM, BootGMM
from egmm._checks import check_integer, check_real, printable
from egmm.cluster import EVCLUS, CatECM
from egmm.rows.threads import available_cores, resolve_jobs

X = np.random.default_rng(0).normal(size=(40, 3))
NEAR = np.uint64(2**64 - 2**12) + np.arange(40, dtype=np.uint64)[:, None] * np.array([1, 2], dtype=np.uint64)

NO_ROWS = {
    "complex": (X + 1j, "Complex data not supported: X is of dtype complex128; use X.real, or"),
    "complex frame": (pd.DataFrame(X + 1j), "Complex data not supported: X is of dtype complex128"),
    "vector": (X[:, 0], "X needs rows and features, not (40,). Reshape your data: X.reshape(-1, 1) has a single"),
    "series": (pd.Series(X[:, 0]), "X needs rows and features, not (40,)"),
    "cube": (X[:, :, None], "X needs rows and features, not (40, 3, 1)"),
    "number": (3.0, "X must be an array, a data frame or a list of lists, got float."),
    "nothing": (None, "X must be an array, a data frame or a list of lists, got NoneType."),
    "dictionary": ({"a": [1, 2]}, "X must be an array, a data frame or a list of lists, got dict."),
    "generator": ((row for row in X), "X must be an array, a data frame or a list of lists, got generator."),
    "bytes": (b"12", "X must be an array, a data frame or a list of lists, got bytes."),
    "ragged": ([[1, 2], [3]], "X must have rows of equal length, got lists of unequal lengths."),
    "records": (
        np.zeros(5, [("a", float), ("b", float)]),
        "X must be a plain table, got a structured array with fields a",
    ),
    "sparse frame": (
        pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(X)),
        "Sparse data was passed for X, but dense data is required. Use X.sparse.to_dense().",
    ),
    "two columns of one name": (
        pd.DataFrame(X, columns=["a", "b", "a"]),
        "X has two columns named 'a'; rename one of them.",
    ),
    "giant": ([[10**400, 1], [2, 3]], "contains an integer of 1329 bits at row 0, column 0, too large for a float"),
    "close integers": (
        NEAR,
        f"integers in column 0 from {NEAR[0, 0]} to {NEAR[-1, 0]}, which floats cannot",
    ),
    "close integers of a frame": (pd.DataFrame(NEAR, columns=["a", "b"]), "subtract 18446744073709547520 first."),
    "close integers among floats": (
        pd.DataFrame({"a": X[:, 0], "b": NEAR[:, 1]}),
        f"integers in column 1 from {NEAR[0, 1]} to {NEAR[-1, 1]}, which floats cannot",
    ),
    "close integers, one missing": (
        pd.DataFrame({"a": X[:, 0], "b": pd.array([None, *NEAR[1:, 0].tolist()], dtype="UInt64")}),
        "integers in column 1 from",
    ),
    "close integers of Python": (NEAR.tolist(), "integers in column 0 from"),
    "close integers as objects": (NEAR.astype(object), "integers in column 0 from"),
    "tiny": (X * 1e-160, "in column 0, too little to square; rescale it first."),
}


@pytest.mark.parametrize("estimator", [EGMM(2), FCM(2), ECM(2), BPEC(2)], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(("rows", "message"), NO_ROWS.values(), ids=NO_ROWS)
def test_what_is_no_rows_gets_our_words(estimator: Any, rows: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        estimator.fit(rows)


TABLES = ("complex", "vector", "series", "cube", "number", "nothing", "dictionary", "generator", "bytes", "ragged")
TABLES += ("records", "sparse frame", "two columns of one name")


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_no_table_gets_our_words_from_catecm(kind: str) -> None:
    rows, message = NO_ROWS[kind]
    rows = (row for row in X) if kind == "generator" else rows
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        CatECM(2).fit(rows)


def test_close_integers_of_a_polars_frame_are_refused() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"integers in column 1 from .*, which floats cannot"):
        EGMM(2).fit(polars.DataFrame({"a": X[:, 0], "b": NEAR[:, 0]}))


def test_large_integers_that_differ_enough_are_rows() -> None:
    far = (np.arange(40)[:, None] * np.array([[2**57, 2**58]])).astype(np.int64)
    np.testing.assert_array_equal(
        EGMM(2, random_state=0).fit(far).labels_, EGMM(2, random_state=0).fit(far * 1.0).labels_
    )


@pytest.mark.parametrize("name", ["tol", "reg_covar", "certainty"])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_beyond_floats_is_no_number(name: str, sign: int) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be a finite number in \[0, .*\], got {sign * np.inf:g}\."):
        EGMM(2, **{name: sign * 10**400}).fit(X)


def test_an_integer_too_long_to_print_is_told_by_its_size() -> None:
    with pytest.raises(ValueError, match=r"n must be an integer from 1 to 9, got an integer of 33220 bits\."):
        check_integer("n", 10**10_000, 1, 9)
    assert check_real("x", 2) == 2.0


@pytest.mark.parametrize("estimator", [EGMM(2), FCM(2), BootGMM(2), EVCLUS(2)], ids=lambda it: type(it).__name__)
def test_starts_beyond_all_memory_are_refused(estimator: Any) -> None:
    with pytest.raises(ValueError, match=r"n_init must be an integer from 1 to 10000, got an integer of 1329 bits\."):
        estimator.set_params(n_init=10**400).fit(X)


def test_jobs_are_counted_as_by_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egmm.rows.threads.available_cores", lambda: 4)
    assert [resolve_jobs(n) for n in (None, -1, -2, -4, -9, 1, 7)] == [4, 4, 3, 1, 1, 1, 7]
    for value, error in ((0, ValueError), (1.5, TypeError), (True, TypeError), ("all", TypeError)):
        with pytest.raises(
            error, match=re.escape(f"n_jobs must be an integer >= 1, or -1 for all cores, got {value!r}.")
        ):
            resolve_jobs(value)


def test_all_cores_give_the_same_model() -> None:
    assert available_cores() >= 1
    one, all_cores = (EGMM(2, random_state=0, n_jobs=n).fit(X) for n in (1, -1))
    np.testing.assert_array_equal(one.means_, all_cores.means_)


def test_certainty_beyond_all_weights_is_refused() -> None:
    with pytest.raises(ValueError, match=r"certainty must be a finite number in \[0, 1e\+150\], got 1e\+300\."):
        EGMM(2, certainty=1e300).fit(X)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 幅", "plain é 幅"),
        ("\x1b[0m", "\\x1b[0m"),
        ("a\nb\tc\r", "a\nb\\tc\\r"),
        ("\x9b\u202e\udcff", "\\x9b\\u202e\\udcff"),
    ],
)
def test_text_for_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


# Tables of other libraries --------------------------------------------------------------------------------------------


def test_a_frame_of_polars_is_rows() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    model = EGMM(2, random_state=0).fit(frame)
    np.testing.assert_array_equal(model.means_, EGMM(2, random_state=0).fit(X).means_)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(frame), model.labels_)


def test_an_array_of_xarray_is_rows() -> None:
    xarray = pytest.importorskip("xarray")
    model = EGMM(2, random_state=0).fit(xarray.DataArray(X, dims=("row", "feature")))
    np.testing.assert_array_equal(model.means_, EGMM(2, random_state=0).fit(X).means_)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_a_tensor_of_torch_is_rows(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'egmm[torch]'")
    tensor = torch.tensor(X, dtype=getattr(torch, kind))
    model = EGMM(2, random_state=0).fit(tensor)
    np.testing.assert_array_equal(model.means_, EGMM(2, random_state=0).fit(tensor.numpy()).means_)


@pytest.mark.parametrize("estimator", [EGMM(2), ECM(2)], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", ["gradients", "bfloat16", "sparse", "meta"])
def test_tensors_that_numpy_cannot_read_are_refused(estimator: Any, kind: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X)
    kinds = {
        "gradients": tensor.requires_grad_,
        "bfloat16": tensor.bfloat16,
        "sparse": tensor.to_sparse,
        "meta": lambda: torch.empty((9, 3), device="meta"),
    }
    with pytest.raises(TypeError, match=r"X must be a dense tensor of numbers that NumPy can read \(.*\); X\.detach"):
        estimator.fit(kinds[kind]())


def test_a_lazy_frame_of_polars_is_refused() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"got a polars\.LazyFrame, which has none yet; pass X\.collect\(\)\."):
        EGMM(2).fit(polars.DataFrame({"a": [1.0, 2.0]}).lazy())
