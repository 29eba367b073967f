"""Checks that every clusterer passes, and the table of clusterers.

A new estimator joins by a row in a table; ``test_checks.py`` runs every check on every row. Those that minimise an
objective by turns (`PROTOTYPE_CLUSTERERS`) also pass `OBJECTIVE_CHECKS`.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import get_tags

from egmm import BPEC, ECM, EGMM, FCM, BootGMM, CredalPartition
from egmm.cluster import CCM, CECM, TECM, MultiViewECM

PROTOTYPE_CLUSTERERS: dict[str, Callable[[], Any]] = {
    "FCM": lambda: FCM(3, random_state=0),
    "FCM, random starts": lambda: FCM(3, beta=1.5, init="random", n_init=4, random_state=0),
    "ECM": lambda: ECM(3, random_state=0),
    "ECM, simple sets": lambda: ECM(3, focal_sets="simple", alpha=2, beta=1.6, delta=4, random_state=0),
    "BPEC": lambda: BPEC(3, n_neighbors=20),
    "BPEC, automatic": lambda: BPEC(n_neighbors=20),
    "BPEC, Euclidean": lambda: BPEC(3, n_neighbors=20, distance="euclidean"),
    "CCM": lambda: CCM(3, random_state=0),
    "CCM, all sets": lambda: CCM(3, focal_sets="full", gamma=0.3, beta=1.5, delta=4, random_state=0),
    "CECM": lambda: CECM(3, random_state=0),
    "CECM, adaptive": lambda: CECM(3, distance="mahalanobis", objective="paper", random_state=0),
    "TECM": lambda: TECM(3, random_state=0),
    "MultiViewECM": lambda: MultiViewECM(3, views=[1, 1], random_state=0),
    "MultiViewECM, features": lambda: MultiViewECM(3, feature_entropy=50.0, random_state=0),
    "BootGMM": lambda: BootGMM(3, n_bootstrap=30, covariance=["EII", "EEE", "VVV"], random_state=0),
    "BootGMM, some pairs": lambda: BootGMM(3, n_bootstrap=30, covariance="VEI", n_references=50, random_state=0),
}

CLUSTERERS: dict[str, Callable[[], Any]] = {
    **PROTOTYPE_CLUSTERERS,
    "EGMM": lambda: EGMM(3, random_state=0),
    "EGMM-VVI-prior": lambda: EGMM(3, covariance="VVI", prior="default", random_state=0),
}

CHECKS: list[Callable[[Any], None]] = []
OBJECTIVE_CHECKS: list[Callable[[Any], None]] = []


def check(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Add a function to the checks of all clusterers."""
    CHECKS.append(function)
    return function


def check_objective(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Add a function to the checks of the clusterers with an objective."""
    OBJECTIVE_CHECKS.append(function)
    return function


def three_groups(n_per_group: int = 40, seed: int = 0) -> np.ndarray:
    """Rows of three round groups with a few rows between."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
    groups = [centre + rng.normal(scale=0.8, size=(n_per_group, 2)) for centre in centres]
    return np.vstack([*groups, [[3.0, 0.1], [4.4, 2.6], [1.6, 2.4]]])


def same_results(one: Any, other: Any, X: Any) -> None:
    np.testing.assert_array_equal(one.means_, other.means_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.predict_mass(X), other.predict_mass(X))


@check
def parameters_survive_fit_and_clone(estimator: Any) -> None:
    before = estimator.get_params()
    estimator.fit(three_groups())
    assert estimator.get_params() == before
    assert clone(estimator).get_params() == before
    with pytest.raises(NotFittedError, match="not fitted"):
        clone(estimator).predict(three_groups())


@check
def a_seed_fixes_the_result(estimator: Any) -> None:
    X = three_groups()
    same_results(clone(estimator).fit(X), clone(estimator).fit(X), X)


@check
def sets_follow_the_rule(estimator: Any) -> None:
    X = three_groups()
    partition = estimator.fit(X).partition(X)
    np.testing.assert_array_equal(estimator.predict_sets(X), partition.sets())
    for rule, reward in (("utility", 0.65), ("utility", 0.8), ("dominance", 0.8)):
        chosen = estimator.predict_sets(X, rule=rule, reward=reward)
        assert chosen.dtype == np.bool_
        np.testing.assert_array_equal(chosen, partition.sets(rule, reward))
    with pytest.raises(ValueError, match="rule must be one of 'heaviest', 'utility', 'dominance'; got 'best'"):
        estimator.predict_sets(X, rule="best")


@check
def masses_are_masses_and_agree_with_the_partition(estimator: Any) -> None:
    X, new = three_groups(), three_groups(30, seed=1)
    estimator.fit(X)
    for rows in (X, new, new[:1]):
        mass = estimator.predict_mass(rows)
        assert mass.shape == (len(rows), len(estimator.focal_sets_))
        assert (mass >= 0).all()
        np.testing.assert_allclose(mass.sum(axis=1), 1.0, rtol=1e-12)
        partition = estimator.partition(rows)
        assert isinstance(partition, CredalPartition)
        assert partition.focal_sets == estimator.focal_sets_
        np.testing.assert_array_equal(partition.mass, mass)
        np.testing.assert_allclose(partition.pignistic(), estimator.predict_proba(rows), rtol=1e-12)
        np.testing.assert_array_equal(partition.labels(), estimator.predict(rows))
        np.testing.assert_array_equal(partition.sets(), estimator.predict_sets(rows))


@check
def fit_predict_labels_and_predict_agree(estimator: Any) -> None:
    X = three_groups()
    labels = clone(estimator).fit_predict(X)
    estimator.fit(X)
    np.testing.assert_array_equal(labels, estimator.labels_)
    np.testing.assert_array_equal(labels, estimator.predict(X))


@check
def well_separated_groups_are_found(estimator: Any) -> None:
    labels = estimator.fit(three_groups()).labels_
    groups = [labels[first : first + 40] for first in (0, 40, 80)]
    assert sorted(group[0] for group in groups) == [0, 1, 2]
    assert all((group == group[0]).all() for group in groups)


@check
def report_of_the_fit_is_complete(estimator: Any) -> None:
    X = three_groups()
    estimator.fit(X)
    assert estimator.means_.shape == (3, 2)
    assert estimator.labels_.shape == (len(X),)
    assert estimator.labels_.dtype.kind == "i"
    assert estimator.converged_
    assert estimator.n_iter_ >= 1
    assert estimator.n_features_in_ == 2


@check_objective
def objective_is_the_last_of_its_history(estimator: Any) -> None:
    estimator.fit(three_groups())
    assert estimator.objective_ == estimator.objective_history_[-1]
    assert len(estimator.objective_history_) in {1, estimator.n_iter_ + 1}


@check_objective
def objective_never_rises(estimator: Any) -> None:
    history = estimator.set_params(tol=1e-10).fit(three_groups()).objective_history_
    assert np.all(np.diff(history) <= 1e-12 * abs(history[0]))


@check
def column_names_are_kept(estimator: Any) -> None:
    X = pd.DataFrame(three_groups(), columns=["length", "width"])
    estimator.fit(X)
    assert list(estimator.feature_names_in_) == ["length", "width"]
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    with pytest.raises(ValueError, match="feature names should match those that were passed"):
        estimator.predict(X[["width", "length"]])


@check
def single_precision_is_taken(estimator: Any) -> None:
    X = three_groups().astype(np.float32)
    np.testing.assert_array_equal(clone(estimator).fit(X).labels_, clone(estimator).fit(X.astype(float)).labels_)


@check
def result_does_not_depend_on_the_block_of_rows_predicted(estimator: Any) -> None:
    X = three_groups()
    estimator.fit(X)
    one_by_one = np.vstack([estimator.predict_mass(row[None]) for row in X])
    np.testing.assert_allclose(one_by_one, estimator.predict_mass(X), rtol=1e-9, atol=1e-14)


@check
def shifting_the_rows_shifts_the_prototypes(estimator: Any) -> None:
    X = three_groups()
    here, there = clone(estimator).fit(X), clone(estimator).fit(X + 1000.0)
    np.testing.assert_allclose(there.means_, here.means_ + 1000.0, rtol=1e-9)
    np.testing.assert_allclose(there.predict_mass(X + 1000.0), here.predict_mass(X), atol=1e-7)


@check
def too_few_iterations_are_reported(estimator: Any) -> None:
    X = three_groups()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.set_params(max_iter=1, tol=0.0).fit(X)
    if not estimator.converged_:
        assert [w.category for w in caught] == [ConvergenceWarning]
        assert "did not converge in max_iter=1" in str(caught[0].message)


@check
def missing_values_are_named_by_row_and_column(estimator: Any) -> None:
    X = three_groups()
    fitted = clone(estimator).fit(X)
    X[7, 1] = np.nan
    takes_missing = get_tags(estimator).input_tags.allow_nan
    for use in (clone(estimator).fit, fitted.predict, fitted.partition):
        if takes_missing:
            use(X)
            continue
        with pytest.raises(ValueError, match=r"Input X contains NaN at row 7, column 1[;( ]"):
            use(X)
    X[7, 1] = -np.inf
    with pytest.raises(ValueError, match=r"Input X contains infinity at row 7, column 1[;( ]"):
        clone(estimator).fit(X)
    with pytest.raises(ValueError, match=r"infinity at row 7, column 1 \('width'\)"):
        clone(estimator).fit(pd.DataFrame(X, columns=["length", "width"]))


@check
def masked_entries_are_no_values(estimator: Any) -> None:
    X = three_groups()
    fitted = clone(estimator).fit(X)
    np.testing.assert_array_equal(clone(estimator).fit(np.ma.masked_array(X)).means_, fitted.means_)
    masked = np.ma.masked_greater(X, np.sort(X, axis=None)[-4])
    for use in (clone(estimator).fit, fitted.predict, fitted.partition):
        with pytest.raises(ValueError, match=f"X has 3 entries of {X.size} masked; drop or impute the rows"):
            use(masked)


@check
def entries_that_are_no_numbers_are_named(estimator: Any) -> None:
    X = pd.DataFrame(three_groups(), columns=["length", "width"]).astype({"width": object})
    for entry, shown in (("wide", "'wide'"), (pd.NA, "<NA>"), (pd.Timestamp("2020-01-01"), r"Timestamp\(.*\)")):
        X.loc[7, "width"] = entry
        message = rf"Input X contains {shown} at row 7, column 1 \('width'\): .*; drop, impute or encode it first"
        with pytest.raises((TypeError, ValueError), match=message):
            clone(estimator).fit(X)
    table = pa.table({"length": [1.5, 2.0, 3.0], "width": ["1", "2", "wide"]})
    with pytest.raises(ValueError, match=r"Input X contains 'wide' at row 2, column 1: could not convert"):
        clone(estimator).fit(table)
    days = np.datetime64("2020-01-01") + np.arange(40).reshape(20, 2)
    for times in (days, days - days[0, 0], pd.DataFrame(days, columns=["from", "to"])):
        with pytest.raises(TypeError, match="X must be numeric, got dates or times; convert them to numbers"):
            clone(estimator).fit(times)


@check
def wrong_shapes_are_refused(estimator: Any) -> None:
    X = three_groups()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        clone(estimator).fit(X[:, 0])
    with pytest.raises(ValueError, match=r"Found array with 1 sample\(s\)"):
        clone(estimator).fit(X[:1])
    with pytest.raises(ValueError, match=r"X has 1 features, but .* is expecting 2 features"):
        clone(estimator).fit(X).predict(X[:, :1])


@check
def too_many_clusters_are_refused(estimator: Any) -> None:
    X = np.repeat(three_groups()[[0, 50]], 30, axis=0)
    with pytest.raises(ValueError, match=r"n_clusters=3 but X has only 2 distinct rows"):
        estimator.set_params(n_clusters=3).fit(X)


def nearly_equal_rows() -> np.ndarray:
    """Four distinct values of which k-means can tell three apart: about the mean, two of them round to one."""
    return np.r_[np.full(50, -1000.0), 0.0, np.ones(50), 1 + 2.0**-52][:, None]


@check
def bad_parameters_are_refused(estimator: Any) -> None:
    X = three_groups()
    for name, value, error, message in [
        ("n_clusters", 0, ValueError, "n_clusters must be an integer .*got 0"),
        ("n_clusters", 2.0, TypeError, "n_clusters must be an integer .*got 2.0"),
        ("tol", -1.0, ValueError, r"tol must be a finite number in \[0, inf\], got -1"),
        ("max_iter", 0, ValueError, "max_iter must be an integer >= 1, got 0"),
        ("init", "nearest", ValueError, "init must be one of .*got 'nearest'"),
        ("init", np.zeros((2, 5)), ValueError, r"init.* must have shape \(3, 2\), got \(2, 5\)"),
        ("init", [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]], ValueError, "rows 0 and 2 are identical"),
        ("init", [[0.0, 0.0], [1.0, np.nan], [2.0, 0.0]], ValueError, r"init.* must be finite, but entry \(1, 1\)"),
    ]:
        changed = {"n_clusters": 3} | {name: value}
        with pytest.raises(error, match=message):
            clone(estimator).set_params(**changed).fit(X)


@check
def given_prototypes_are_the_start(estimator: Any) -> None:
    X = three_groups()
    prototypes = np.array([[3.0, 5.0], [0.0, 0.0], [6.0, 0.0]])
    fitted = estimator.set_params(n_clusters=3, init=prototypes).fit(X)
    assert list(fitted.predict(prototypes)) == [0, 1, 2]
    np.testing.assert_array_equal(prototypes, [[3.0, 5.0], [0.0, 0.0], [6.0, 0.0]])
