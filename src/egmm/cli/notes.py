"""Messages about the data, for the screen and the summary."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.cli.data import Data
from egmm.cli.parsing import Request
from egmm.cli.screen import message, spaced
from egmm.em.statistics import Moments
from egmm.selection import CERTAINTY

CONSTANT = 1e-15
"""Standard deviation, relative to the mean, that counts as rounding."""

DEPENDENT = 1e-11
"""Eigenvalue of the correlation matrix that counts as zero."""

SINGULAR = "a full covariance is singular, and its likelihood depends on the ridge (--reg-covar)"


def notes_on(data: Data, total: Moments) -> list[str]:
    """Messages about skipped columns, singular covariances and rows without a class."""
    without_class = [] if data.labels is None else _without_class(data.labels)
    return [*data.notes, *_singular(total, data.names), *without_class]


def notes_on_request(request: Request) -> list[str]:
    """Messages about defaults in effect."""
    if request.is_implied:
        return ["This is EGMM, the model of the paper: AutoEGMM, the default, does not use classes in its fit."]
    has_one_covariance = request.covariance != "all" and len(request.covariance) == 1
    if has_one_covariance and len(request.counts) > 1:
        which = f"Only covariance {request.covariance[0]} is tried, and more clusters may make up for its shape"
        return [] if request.is_auto else [f"{which}; egmm fit without --model and --covariance compares fourteen."]
    if request.is_auto or request.certainty is not None or has_one_covariance:
        return []
    prior = f"a prior for single clusters (--certainty {CERTAINTY:g})"
    return [f"Covariances are compared with {prior}, so few rows are open; use --certainty 0 for more."]


def tell(notes: Sequence[str], *, wanted: bool) -> None:
    """Write notes to standard error."""
    for note in notes if wanted else ():
        message(note)


def _singular(total: Moments, names: Sequence[str]) -> list[str]:
    variances = np.diag(total.scatter) / total.weight
    if not np.isfinite(total.scatter).all():
        return []  # The fit reports the entry that is too large.
    constant = variances <= (CONSTANT * total.centre) ** 2
    notes = []
    if constant.any():
        listed = _listed(names, constant)
        notes.append(f"Constant and not informative: {listed}; drop with --exclude.")
    if total.weight <= len(names):
        notes.append(f"There are {spaced(int(total.weight))} rows for {len(names)} columns: {SINGULAR}.")
    elif (dependent := _dependent(total.scatter, ~constant)).any():
        notes.append(f"Linearly dependent: {_listed(names, dependent)}; {SINGULAR}. Drop one with --exclude.")
    return notes


def _dependent(scatter: FloatArray, used: Any) -> Any:
    """Columns in a linear dependency: those with an entry in a null vector."""
    kept = np.flatnonzero(used)
    deviations = np.sqrt(np.diag(scatter)[kept])
    values, vectors = np.linalg.eigh(scatter[np.ix_(kept, kept)] / np.outer(deviations, deviations))
    found = np.zeros(len(scatter), dtype=bool)
    found[kept] = (np.abs(vectors[:, values < DEPENDENT]) > 1e-4).any(axis=1)
    return found


def _listed(names: Sequence[str], chosen: Any, most: int = 12) -> str:
    found = [repr(name) for name, is_chosen in zip(names, chosen, strict=True) if is_chosen]
    more = len(found) - most
    return f"column{'' if len(found) == 1 else 's'} " + ", ".join(found[:most]) + (f" and {more} more" * (more > 0))


def _without_class(labels: Any) -> list[str]:
    missing = int((labels == "").sum())
    if missing == 0:
        return []
    return [f"{spaced(missing)} of {spaced(len(labels))} rows have no class and are ignored in the comparison."]
