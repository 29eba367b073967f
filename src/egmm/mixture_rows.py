"""Rows of a mixture: opened and checked against its features, and passes of the fitted mixture over them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from egmm._arrays import check_on_host, place_of, to_host
from egmm._checks import check_sample_weight, reading_rows
from egmm.belief.partition import CredalPartition
from egmm.em import assign
from egmm.em.completion import EmptyColumnError
from egmm.em.covariance import LOW_RANK
from egmm.em.engine import EXPECTED_PASSES, choose_engine, seconds_in_numpy
from egmm.em.kernel import is_compiled
from egmm.knowledge import Knowledge
from egmm.mixture_state import MixtureState, degrees_of, noise_of
from egmm.rows import RowSource, remote_rows
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.source import UnusableRowsError, bad_entry


def open_rows(model: MixtureState, X: Any, sample_weight: Any = None, *, reset: bool = False) -> Any:
    """Row source of X, checked against (or, with `reset`, setting) the model's features."""
    least = 2 if reset else 1
    rows = remote_rows(X, sample_weight, model.n_jobs)
    if rows is not None:
        _check_features(model, rows.size[1], rows.feature_names, reset)
        if reset and rows.shape[0] < least:
            raise ValueError(f"X has {rows.shape[0]} row(s), but a fit needs at least {least}.")
        return rows
    where = place_of(X)
    check_for_device(model, X)
    with reading_rows(X) as kinds:
        X = validate_data(
            model,
            X,
            reset=reset,
            dtype=kinds,
            ensure_min_samples=least,
            ensure_all_finite=False,  # Checked in the first pass; `naming_entries` names the entry.
        )
    weight = check_sample_weight(to_host(sample_weight), X.shape[0])
    return ArrayRows(X, weight, model.n_jobs) if where is None else DeviceRows(X, weight, where)


def check_for_device(model: MixtureState, X: Any) -> None:
    """Refuse, for rows on a device, parameters that only NumPy's passes know."""
    for name, value in (("engine", "numba"), ("noise", True), ("tails", "t"), ("covariance", LOW_RANK)):
        if getattr(model, name) == value:
            check_on_host(f"{name}={value!r}", X)


@contextmanager
def naming_entries(model: MixtureState, rows: RowSource) -> Iterator[None]:
    """Name the first entry that is not finite or too large, if a row has one.

    This is found while reading: there is no separate pass for checking.
    """
    try:
        yield
    except UnusableRowsError as error:
        raise bad_entry(rows, getattr(model, "feature_names_in_", None)) or error from None
    except EmptyColumnError as error:
        names = getattr(model, "feature_names_in_", None)
        raise error if names is None else error.named(str(names[error.column])) from None


def assign_rows(
    model: MixtureState,
    rows: Any,
    function: Callable[..., Any],
    names: str | list[str],
    out: Any = None,
    metadata: dict[bytes, bytes] | None = None,
) -> Any:
    """Apply one of `em.assign`'s functions to every row."""
    with naming_entries(model, rows):
        return rows.apply(bound_to(model, function, rows), names, out, metadata)


def bound_to(model: MixtureState, function: Callable[..., Any], rows: RowSource) -> Callable[..., Any]:
    """One of `em.assign`'s functions with the fitted model and the engine that suits the rows."""
    shares = model.focal_sets_.shares
    # Use the compiled engine only if it is compiled already; one pass seldom pays for compiling.
    n_passes = EXPECTED_PASSES if is_compiled() else 1
    one_pass = seconds_in_numpy(rows.size, shares, model.covariance_)
    engine = choose_engine(model.engine, n_passes * one_pass)
    return assign.Reader(function, as_mixture(model), engine).read


def known_partition(model: MixtureState, rows: ArrayRows, knowledge: Knowledge, index: Any = None) -> CredalPartition:
    """Masses of rows in memory with labels or links."""
    evidence = knowledge.evidence(model.focal_sets_, rows)
    mass = assign.masses_with(rows.X, as_mixture(model), evidence)
    return CredalPartition(*knowledge.combined(mass, model.focal_sets_), index=index)


def as_mixture(model: MixtureState) -> assign.Mixture:
    """The fitted model as passes read it."""
    parameters = (model.weights_, model.means_, model.stored_covariances_, model.focal_sets_.shares, model.covariance_)
    return assign.Mixture.of(*parameters, noise_of(model), degrees_of(model))


def _check_features(model: MixtureState, n_features: int, names: list[str] | None, reset: bool) -> None:
    """scikit-learn's rules on features, for rows it must not load."""
    if reset:
        model.n_features_in_ = n_features
        model.__dict__.pop("feature_names_in_", None)
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        return
    if n_features != model.n_features_in_:
        raise ValueError(f"X has {n_features} features, but EGMM is expecting {model.n_features_in_} features.")
    expected = getattr(model, "feature_names_in_", None)
    if expected is not None and names is not None and list(expected) != names:
        raise ValueError(
            f"X has the columns {names}, but EGMM was fitted on {list(expected)}; select these in this order, "
            "by scan(..., columns) or X[columns] of a data frame."
        )
