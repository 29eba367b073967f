"""CatECM: categories of any kind, modes, distances by columns that differ."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.oracles_field import masses_of_costs
from egmm.cluster import CatECM
from egmm.metrics import ari

BLOCKS = np.repeat([["a", "x", "p"], ["b", "y", "q"], ["c", "z", "r"]], 20, axis=0)
TRUTH = np.repeat([0, 1, 2], 20)


def noisy_blocks(seed=0, n_columns=6):
    """Three blocks of rows, a fifth of their entries of another block."""
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random((60, n_columns)) < 0.2, rng.integers(3, size=(60, n_columns)), TRUTH[:, None])
    return np.array(["low", "middle", "high"])[codes]


@pytest.mark.parametrize("family", ["full", "pairs", "simple", "singletons"])
@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_blocks_of_equal_rows_are_found(family, init):
    fitted = CatECM(3, focal_sets=family, init=init, random_state=0).fit(BLOCKS)
    assert ari(TRUTH, fitted.labels_) == 1
    assert sorted(fitted.modes_[:, 0]) == ["a", "b", "c"]


def test_masses_and_objective_follow_the_formulas():
    X = noisy_blocks()
    fitted = CatECM(3, focal_sets="full", alpha=0.7, beta=1.6, delta=2.5, random_state=0).fit(X)
    sets, objective = [sorted(s) for s in fitted.focal_sets_ if s], 0.0
    for x, mass in zip(X, fitted.predict_mass(X), strict=True):
        to_modes = [sum(a != b for a, b in zip(x, mode, strict=True)) for mode in fitted.modes_]
        costs = [2.5**2]
        costs += [len(s) ** 0.7 * (sum(to_modes[k] for k in s) / len(s) ** 2) ** 2 for s in sets]
        if min(costs) > 0:
            np.testing.assert_allclose(mass, masses_of_costs(costs, 1.6), rtol=1e-9)
            objective += sum(m**1.6 * c for m, c in zip(mass, costs, strict=True))
    assert fitted.objective_ == pytest.approx(objective, rel=1e-9)
    assert ari(TRUTH, fitted.labels_) > 0.9


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_objective_never_rises(seed):
    X = np.random.default_rng(seed).integers(4, size=(40, 5))
    fitted = CatECM(3, init="random", random_state=seed).fit(X)
    assert np.diff(fitted.objective_history_).max() <= 0
    assert len({tuple(mode) for mode in fitted.modes_.tolist()}) == 3


def test_kinds_of_columns_may_differ():
    frame = pd.DataFrame({"colour": BLOCKS[:, 0], "count": TRUTH, "ok": TRUTH > 0, "size": TRUTH + 0.1})
    fitted = CatECM(3, random_state=0).fit(frame)
    assert ari(TRUTH, fitted.labels_) == 1
    assert list(fitted.feature_names_in_) == ["colour", "count", "ok", "size"]
    np.testing.assert_array_equal(fitted.predict(frame), fitted.labels_)
    assert fitted.categories_[0].tolist() == ["a", "b", "c"]


def test_a_new_category_agrees_with_no_mode():
    fitted = CatECM(3, random_state=0).fit(BLOCKS)
    mass = fitted.predict_mass([["new", "new", "new"], ["a", "x", "new"]])
    singles = [fitted.focal_sets_.index_of({k}) for k in range(3)]
    assert np.ptp(mass[0, singles]) == pytest.approx(0)
    assert fitted.predict([["a", "x", "new"]])[0] == fitted.labels_[0]


def test_real_numbers_are_cut_into_bins():
    rng = np.random.default_rng(0)
    X = TRUTH[:, None] * 10 + rng.normal(size=(60, 3))
    fitted = CatECM(3, random_state=0).fit(X)
    assert [len(edges) for edges in fitted.categories_] == [2, 2, 2]
    assert ari(TRUTH, fitted.labels_) == 1
    assert len(CatECM(3, n_bins=None, random_state=0).fit(X.round()).categories_[0]) == len(np.unique(X.round()[:, 0]))


@pytest.mark.parametrize(
    ("entry", "message"),
    [(None, "NaN at row 7, column 1"), (np.nan, "NaN at row 7, column 1"), (pd.NA, "NaN at row 7")],
)
def test_missing_entries_are_named(entry, message):
    X = BLOCKS.astype(object)
    X[7, 1] = entry
    with pytest.raises(
        ValueError, match=f"Input X contains {message}.*; drop, impute or encode it as a category first"
    ):
        CatECM(3).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 4}, "n_clusters=4 but X has only 3 distinct rows"),
        ({"n_bins": 1}, "n_bins must be an integer >= 2, got 1"),
        ({"init": [["a", "x"]]}, r"init must be a name or have shape \(3, 3\), got \(1, 2\)"),
        ({"init": BLOCKS[:3]}, "init must hold distinct modes, but some rows are identical"),
        ({"init": "modes"}, "init must be one of .*got 'modes'"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CatECM(3).set_params(**parameters).fit(BLOCKS)
