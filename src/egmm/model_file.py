"""Files of fitted mixtures, validated when read, since JSON may be edited or untrusted."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_finite_matrix, check_integer, check_real
from egmm.belief.focal import FocalSets
from egmm.em.assign import in_units
from egmm.em.covariance import LOW_RANK, SHARED, is_diagonal, resolve_covariance
from egmm.em.factors import dense, most_factors
from egmm.em.factors import variances as diagonals
from egmm.em.noise import Box, check_box
from egmm.em.parameters import focal_parameters, precision_factors

FORMAT = "egmm.EGMM/1"

FITTED = (
    "weights_",
    "means_",
    "covariances_",
    "focal_means_",
    "focal_covariances_",
    "log_likelihood_",
    "log_likelihood_history_",
    "entropy_",
    "ebic_",
    "n_parameters_",
    "n_iter_",
    "converged_",
    "degenerate_",
    "n_features_in_",
    "feature_names_in_",
    "noise_box_",
    "degrees_of_freedom_",
)
"""Fitted attributes kept in a file."""

OPTIONAL = ("feature_names_in_", "noise_box_", "degrees_of_freedom_")
"""Entries that only some models have."""

STORED = {"covariances_": "stored_covariances_", "focal_covariances_": "stored_focal_covariances_"}
"""Attributes stored as diagonals by diagonal models, in memory and in files."""

ALIKE = 1e-6
"""Tolerance for derived entries, in standard deviations of the rows."""


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn whatever a damaged document raises into one sentence that begins with `what`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, UnicodeDecodeError, ValueError, OverflowError) as error:
        why = f"it has no entry {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{what}: {why}") from error


def read_json(path: Path) -> Any:
    """Read a JSON file; NaN and infinity are not numbers there."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_document(document: Any, form: str, *objects: str) -> dict[str, Any]:
    """Return a document of this form, in which the entries `objects` are objects."""
    if not isinstance(document, dict):
        raise TypeError(f"it must be a JSON object, got a {type(document).__name__}")
    if document["format"] != form:
        raise ValueError(f"its format is {document['format']!r}, expected {form!r}")
    for name in objects:
        if not isinstance(document[name], dict):
            raise TypeError(f"its entry {name!r} must be an object, got a {type(document[name]).__name__}")
    return document


def _no_number(name: str) -> float:
    raise ValueError(f"it contains {name}, which is not a valid number")


def read_fitted(entries: Mapping[str, Any], focal: FocalSets, covariance: str) -> dict[str, Any]:
    """Read and validate the fitted attributes of a mixture with these focal sets."""
    n_features = check_integer("n_features_in_", entries["n_features_in_"], 1)
    code = resolve_covariance(covariance, n_features)
    found: dict[str, Any] = {name: entries[name] for name in FITTED if name not in OPTIONAL}
    with np.errstate(all="ignore"):  # Numbers of a damaged file may overflow: the checks say what is wrong with them.
        found |= _arrays(entries, focal, code, n_features)
    if "feature_names_in_" in entries:
        found["feature_names_in_"] = read_names("feature_names_in_", entries["feature_names_in_"], n_features)
    for name in ("log_likelihood_", "ebic_", "entropy_"):
        found[name] = check_real(name, entries[name])
    if "degrees_of_freedom_" in entries:
        degrees = check_real("degrees_of_freedom_", entries["degrees_of_freedom_"], 0.0, open_minimum=True)
        found["degrees_of_freedom_"] = degrees
    check_integer("n_parameters_", entries["n_parameters_"], 1)
    check_integer("n_iter_", entries["n_iter_"], 0)
    for name in ("converged_", "degenerate_"):
        if not isinstance(entries[name], bool):
            raise TypeError(f"{name} must be true or false, got {entries[name]!r}")
    history = check_finite_matrix("log_likelihood_history_", entries["log_likelihood_history_"], (None,))
    if len(history) != entries["n_iter_"] + 1:
        raise ValueError(f"log_likelihood_history_ must have {entries['n_iter_'] + 1} values, got {len(history)}")
    weight = 2.0 * (found["log_likelihood_"] - found["ebic_"]) / entries["n_parameters_"]
    if not (isfinite(weight) and weight < np.log(np.finfo(float).max)):
        raise ValueError("log_likelihood_, ebic_ and n_parameters_ are inconsistent")
    return found | {"log_likelihood_history_": history}


def _arrays(entries: Mapping[str, Any], focal: FocalSets, code: str, n_features: int) -> dict[str, FloatArray]:
    """Weights, means and covariances, and the derived ones of the focal sets."""
    diagonal, is_shared = is_diagonal(code), code in SHARED
    square = (n_features,) if diagonal else (n_features, _n_columns(entries, code, n_features))
    shapes: dict[str, tuple[int | None, ...]] = {
        "weights_": (len(focal),),
        "means_": (focal.n_clusters, n_features),
        "covariances_": square if is_shared else (focal.n_clusters, *square),
        "focal_means_": (len(focal), n_features),
        "focal_covariances_": square if is_shared else (len(focal), *square),
    }
    found = {name: check_finite_matrix(name, entries[name], shape) for name, shape in shapes.items()}
    weights, means, covariances = found["weights_"], found["means_"], found["covariances_"]
    if (weights < 0).any() or abs(weights.sum() - 1) > ALIKE:
        raise ValueError(f"weights_ must be at least 0 and sum to 1, got a sum of {weights.sum():.6g}")
    if focal.has_empty:
        found["noise_box_"] = check_finite_matrix("noise_box_", entries["noise_box_"], (2, n_features))
        check_box(Box(*found["noise_box_"]))
    variances = covariances if diagonal else diagonals(covariances)
    least = covariances[:, 0] if code == LOW_RANK else variances
    if not (least > 0).all():
        raise ValueError(f"covariances_ must have variances above 0, got {least.min():.6g}")
    deviations = np.sqrt(variances)
    if not (diagonal or code == LOW_RANK):
        scaled = covariances / (deviations[..., :, None] * deviations[..., None, :])
        if np.abs(scaled - np.swapaxes(scaled, -1, -2)).max() > ALIKE:
            raise ValueError("covariances_ must be symmetric")
    params, units = in_units(weights, means, covariances, code)
    if not precision_factors(params.covariances, diagonal=diagonal).is_definite[0]:
        smallest = variances.min() if diagonal else np.linalg.eigvalsh(dense(covariances)).min()
        raise ValueError(f"covariances_ must be positive definite (smallest eigenvalue {smallest:.3g})")
    noise = Box(*found["noise_box_"]) if focal.has_empty else None
    follows = focal_parameters(params, focal.shares, units, is_shared=is_shared, noise=noise)
    unit = deviations.reshape(-1, n_features).max(axis=0)
    is_alike = (np.abs(follows[0] - found["focal_means_"]) <= ALIKE * (unit + np.abs(units.centre))).all()
    squares = unit**2 if diagonal else np.multiply.outer(unit, unit)
    stated = found["focal_covariances_"]
    apart = np.abs(follows[1] - stated if diagonal else dense(follows[1]) - dense(stated))
    is_alike &= (apart <= ALIKE * squares).all()
    if not is_alike:
        raise ValueError("focal_means_ and focal_covariances_ do not follow from means_ and covariances_")
    return found


def _n_columns(entries: Mapping[str, Any], code: str, n_features: int) -> int:
    """Columns of a covariance: the features, or of a low-rank one the noise and the factors."""
    if code != LOW_RANK:
        return n_features
    n_factors = len(entries["covariances_"][0]) - 1
    return 1 + check_integer("the number of factors in covariances_", n_factors, 1, most_factors(n_features))


def read_names(name: str, names: Any, n_features: int) -> Any:
    """Names of the features, validated."""
    if not (isinstance(names, list) and len(names) == n_features and all(isinstance(one, str) for one in names)):
        raise ValueError(f"{name} must be {n_features} names")
    return np.array(names, dtype=object)
