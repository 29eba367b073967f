"""What to know of the data before a fit is trusted: told on the screen, and kept in its summary."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.cli.data import Data
from egmm.cli.options import Request
from egmm.cli.screen import message, spaced
from egmm.em.statistics import Moments
from egmm.selection import CERTAINTY

CONSTANT = 1e-15
"""Deviation, relative to the mean, that rounding alone leaves in a column."""

DEPENDENT = 1e-11
"""Eigenvalue of the columns' correlations that rounding alone leaves of a zero."""

SINGULAR = "a full covariance is singular, and the likelihood then comes from the ridge (--reg-covar) alone"


def notes_on(data: Data, total: Moments) -> list[str]:
    """Tell which columns are left out, for which a covariance is singular, and how many rows have no class."""
    without_class = [] if data.labels is None else _without_class(data.labels)
    return [*data.notes, *_singular(total, data.names), *without_class]


def notes_on_request(request: Request) -> list[str]:
    """Tell what is done unasked."""
    if (
        request.is_auto
        or request.certainty is not None
        or not (request.covariance == "all" or len(request.covariance) > 1)
    ):
        return []
    prior = f"a prior in favour of single clusters (--certainty {CERTAINTY:g})"
    return [f"Covariances are compared with {prior}: few rows are open; --certainty 0 keeps more open."]


def tell(notes: Sequence[str], *, wanted: bool) -> None:
    """Write notes to standard error."""
    for note in notes if wanted else ():
        message(note)


def _singular(total: Moments, names: Sequence[str]) -> list[str]:
    variances = np.diag(total.scatter) / total.weight
    if not np.isfinite(total.scatter).all():
        return []  # The fit names the entry that is too large.
    constant = variances <= (CONSTANT * total.centre) ** 2
    notes = []
    if constant.any():
        listed = _listed(names, constant)
        notes.append(f"Constant, and so no help to tell clusters apart: {listed}; leave out with --exclude.")
    if total.weight <= len(names):
        notes.append(f"There are {spaced(int(total.weight))} rows for {len(names)} columns: {SINGULAR}.")
    elif (dependent := _dependent(total.scatter, ~constant)).any():
        notes.append(f"Linearly dependent: {_listed(names, dependent)}; {SINGULAR}. Leave one out with --exclude.")
    return notes


def _dependent(scatter: FloatArray, used: Any) -> Any:
    """Return which columns take part in a linear dependency: those with an entry in a null vector."""
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
    return [
        f"{spaced(missing)} of {spaced(len(labels))} rows have no class and are left out of the comparison with it."
    ]
