"""Rows on a device: blocks of fixed size, where they are for those who can read them there, on the host for others."""

from functools import partial

import numpy as np
import pytest

from egmm._arrays import Place
from egmm.em.statistics import moments
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.source import BLOCK_ROWS

pytest.importorskip("sklearn", minversion="1.9", reason="needs the array helpers of scikit-learn 1.9")
strict = pytest.importorskip("array_api_strict", reason="needs array-api-strict, which is in the extra 'dev'")
DEVICE = strict.Device("device1")


@pytest.fixture
def X(rng) -> np.ndarray:
    return rng.normal(size=(2 * BLOCK_ROWS + 5, 2))


def rows_of(X: np.ndarray, weight: np.ndarray | None = None) -> DeviceRows:
    return DeviceRows(strict.asarray(X, device=DEVICE), weight, Place(strict, DEVICE))


class Looker:
    """Notes what it is given."""

    def __init__(self, seen: list, precision: list, can_stay: bool = True) -> None:
        self.seen, self.precision, self.can_stay = seen, precision, can_stay

    def on(self, where: Place, dtype: object) -> "Looker | None":
        assert where.device == DEVICE
        self.precision.append(dtype)
        return self if self.can_stay else None

    def look(self, X, weight, *aligned):
        self.seen.append((type(X), X.shape, None if weight is None else type(weight), *map(type, aligned)))
        return X


def test_a_method_that_can_stay_is_carried_once_and_given_blocks_there(X) -> None:
    seen, precision = [], []
    result = rows_of(X, np.ones(len(X))).apply(Looker(seen, precision).look, "x")
    there = type(result)
    assert there is not np.ndarray
    lengths = (BLOCK_ROWS, BLOCK_ROWS, 5)
    assert seen == [(there, (length, 2), there) for length in lengths]
    assert precision == [strict.float64]
    np.testing.assert_array_equal(np.asarray(strict.asarray(result, device=strict.Device("CPU_DEVICE"))), X)


def test_others_are_given_numpy_s_blocks(X) -> None:
    looker = Looker([], [], can_stay=False)
    for function in (looker.look, partial(Looker.look, looker)):
        looker.seen.clear()
        np.testing.assert_array_equal(rows_of(X).apply(function, "x"), X)
        assert looker.seen == [(np.ndarray, (length, 2), None) for length in (BLOCK_ROWS, BLOCK_ROWS, 5)]


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_rows_in_memory(X, rng, weighted) -> None:
    weight = rng.uniform(size=len(X)) if weighted else None
    with ArrayRows(X, weight) as here, rows_of(X, weight) as there:
        assert there.shape == there.size == here.shape
        for mine, theirs in zip(there.reduce(moments), here.reduce(moments), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_few_single_rows_are_read_in_double(X) -> None:
    for n_rows, dtype in ((BLOCK_ROWS, strict.float64), (BLOCK_ROWS + 1, strict.float32)):
        precision: list = []
        rows_of(X[:n_rows].astype(np.float32)).apply(Looker([], precision).look, "x")
        assert precision == [dtype]


def test_the_first_bad_entry_is_found_in_any_block(X) -> None:
    assert rows_of(X).first_unusable() is None
    X[BLOCK_ROWS + 3, 1] = np.inf
    assert rows_of(X).first_unusable() == (BLOCK_ROWS + 3, 1, np.inf)
