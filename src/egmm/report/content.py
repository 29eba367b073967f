"""Content of the page as plain data: a sample of rows to draw, and exact numbers for all rows."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.belief.decisions import REWARD, choose_sets
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition
from egmm.plotting.style import cluster_colours
from egmm.plotting.view import view_of

MOST_ROWS = 20_000
"""Maximum number of rows drawn; a canvas can redraw them while a slider moves."""

MOST_BYTES = 3_000_000
"""Size of the rows drawn, before encoding."""

MOST_LISTED = 200
"""Maximum number of least sure rows and of outliers listed."""

ORDINARY = (1e-30, 1e38)
"""Range of column maxima that single precision represents with full precision."""

LEVELS = 100
"""Steps of the doubt slider."""

HIDDEN_PARAMETERS = ("verbose", "n_jobs", "warm_start", "checkpoint")
"""Parameters of how a fit was run, not of the model."""


@dataclass(frozen=True)
class Shown:
    """Rows as shown on the page, in the units of the file.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Values.
    means : ndarray of shape (n_clusters, n_features)
        Cluster means.
    covariances : ndarray of shape (1 or n_clusters, n_features, n_features)
        Cluster covariances.
    names : list of str
        Names of the features.
    """

    X: FloatArray
    means: FloatArray
    covariances: FloatArray
    names: list[str]


class _Chosen(NamedTuple):
    """The set chosen for each row: a column of the focal sets, followed by other sets that the rule chooses."""

    columns: IntArray
    labels: list[str]
    members: list[list[int]]


def content(
    shown: Shown,
    model: Any,
    partition: CredalPartition,
    outliers: BoolArray,
    numbers: IntArray,
    selection: Any = None,
    *,
    rule: str = "heaviest",
    reward: float = REWARD,
    is_own: bool = True,
) -> dict[str, Any]:
    """Collect the page's data as text, numbers and lists, and `drawn`, the rows to draw.

    A partition that is not the model's own, such as a consensus, has no mixing weights.
    """
    chosen = _chosen(partition, rule, reward)
    # Not the same as being open, which depends on the rule that chooses a row's set.
    doubt = 1.0 - partition.pignistic().max(axis=1)
    listed = _listed(doubt, outliers)
    # Centred: single precision, and the seven digits of means, would blur rows far from the origin.
    centre = np.median(shown.X, axis=0)
    units = _units(shown.X - centre)
    drawn = _sample(len(partition), listed, 4 * shown.X.shape[1] + 2 * len(partition.focal_sets))
    return {
        "columns": shown.names,
        "centre": centre.tolist(),
        "axes": _axes(shown, partition, centre),
        "nRows": len(partition),
        "drawn": drawn,
        "rows": _encode(numbers[drawn].astype(np.uint32)),
        "units": units.tolist(),
        "values": _encode(((shown.X[drawn] - centre) / units).T.astype(np.float32)),
        "masses": _encode(np.round(partition.mass[drawn].T * 65535).astype(np.uint16)),
        "outliers": _encode(outliers[drawn].astype(np.uint8)),
        "chosen": _encode(chosen.columns[drawn].astype(np.uint16)),
        "sets": _sets(model.weights_ if is_own else None, partition, chosen),
        "colours": [_hex(colour) for colour in cluster_colours(partition.n_clusters)],
        "means": _rounded(shown.means - centre),
        "covariances": _rounded(shown.covariances),
        "doubtfulRows": _counts_above(doubt, partition.n_clusters),
        "objects": _objects(listed, drawn, numbers, doubt, outliers, partition, chosen),
        "history": _rounded(_thinned(model.log_likelihood_history_), 12),
        "historySteps": _thinned(np.arange(len(model.log_likelihood_history_))).tolist(),
        "selection": None if selection is None else _selection(selection),
        "parameters": _parameters(model),
    }


def _listed(doubt: FloatArray, outliers: BoolArray) -> IntArray:
    """Rows in the table: the least sure ones, then other outliers."""
    most = np.argsort(-doubt, kind="stable")[:MOST_LISTED]
    far = np.flatnonzero(outliers)
    return np.concatenate([most, np.setdiff1d(far, most)[:MOST_LISTED]])


def _sample(n_rows: int, listed: IntArray, bytes_per_row: int) -> IntArray:
    """Rows to draw, ascending: all, or a random sample that includes every listed row."""
    most = max(len(listed), min(MOST_ROWS, MOST_BYTES // bytes_per_row))
    if n_rows <= most:
        return np.arange(n_rows)
    others = np.setdiff1d(np.arange(n_rows), listed)
    chosen = np.random.default_rng(0).choice(others, size=most - len(listed), replace=False)
    return np.sort(np.concatenate([listed, chosen]))


def _units(offsets: FloatArray) -> FloatArray:
    """Units of columns outside the range of single precision, 1 for all others."""
    largest = np.abs(offsets).max(axis=0)
    is_ordinary = (largest == 0) | ((largest > ORDINARY[0]) & (largest < ORDINARY[1]))
    return np.where(is_ordinary, 1.0, largest)


def _axes(shown: Shown, partition: CredalPartition, centre: FloatArray) -> list[dict[str, Any]]:
    """Features as axes, and projections if there are more than two: direction and position of the centre."""
    n_features = len(shown.names)
    identity = np.eye(n_features)
    axes = [{"name": name, "d": identity[k].tolist(), "o": float(centre[k])} for k, name in enumerate(shown.names)]
    if n_features > 2:
        for kind in ("discriminant", "pca") if partition.n_clusters > 1 else ("pca",):
            view = view_of(shown.X, partition, kind)
            for direction, label in zip(view.directions.T, view.labels, strict=True):
                axes.append({"name": label, "d": _rounded(direction), "o": float((centre - view.origin) @ direction)})
    return axes


def _chosen(partition: CredalPartition, rule: str, reward: float) -> _Chosen:
    focal = partition.focal_sets
    members = choose_sets(partition.mass, focal, rule, reward)
    masks = members @ (1 << np.arange(focal.n_clusters))
    columns = focal.columns_of(masks)
    others = np.unique(masks[columns < 0])
    columns = np.where(columns < 0, len(focal) + np.searchsorted(others, masks), columns)
    extra = FocalSets(others, focal.n_clusters) if len(others) else ()
    labels = [*focal.labels, *(extra.labels if extra else ())]
    return _Chosen(columns, labels, [sorted(int(k) for k in clusters) for clusters in (*focal, *extra)])


def _sets(weights: Sequence[float] | None, partition: CredalPartition, chosen: _Chosen) -> list[dict[str, Any]]:
    rows = np.bincount(chosen.columns, minlength=len(chosen.labels))
    nothing = np.zeros(len(chosen.labels) - len(partition.focal_sets))
    mass = np.append(partition.mass.mean(axis=0), nothing)
    weight = [None] * len(chosen.labels) if weights is None else np.append(weights, nothing).tolist()
    return [
        {"label": label, "members": members, "rows": int(rows[j]), "mass": float(mass[j]), "weight": weight[j]}
        for j, (label, members) in enumerate(zip(chosen.labels, chosen.members, strict=True))
    ]


def _counts_above(doubt: FloatArray, n_clusters: int) -> list[int]:
    """Number of rows with at least the doubt of each slider step; the last step is the largest possible."""
    largest = 1.0 - 1.0 / n_clusters
    thresholds = np.linspace(0.0, largest, LEVELS + 1)
    # Rows exactly on a step count: one half is the largest doubt between two clusters.
    return [int(count) for count in len(doubt) - np.searchsorted(np.sort(doubt) + 1e-9, thresholds)]


def _objects(
    listed: IntArray,
    drawn: IntArray,
    numbers: IntArray,
    doubt: FloatArray,
    outliers: BoolArray,
    partition: CredalPartition,
    chosen: _Chosen,
) -> list[dict[str, Any]]:
    some = partition[listed]
    labels, bits = some.labels(), some.nonspecificity()
    return [
        {
            "row": int(numbers[row]),
            "at": int(at),
            "set": chosen.labels[chosen.columns[row]],
            "cluster": int(labels[i]) + 1,
            "doubt": round(float(doubt[row]), 4),
            "bits": round(float(bits[i]), 4),
            "outlier": bool(outliers[row]),
        }
        for i, (row, at) in enumerate(zip(listed, np.searchsorted(drawn, listed), strict=True))
    ]


def _selection(selection: Any) -> dict[str, Any]:
    table = selection.table()
    counts = sorted({record["n_clusters"] for record in table})
    lines: dict[str, list[float | None]] = {}
    for record in table:
        line = lines.setdefault(record["covariance"], [None] * len(counts))
        value = record[selection.criterion]
        line[counts.index(record["n_clusters"])] = float(value) if np.isfinite(value) else None
    return {
        "criterion": selection.criterion.upper(),
        "higher": selection.higher_is_better,
        "counts": counts,
        "lines": [{"name": name, "values": values} for name, values in lines.items()],
        "degenerate": [[r["n_clusters"], r["covariance"]] for r in table if r["degenerate"]],
        "best": [selection.n_clusters, selection.covariance],
    }


def _parameters(model: Any) -> list[list[str]]:
    given = {name: value for name, value in model.get_params(deep=False).items() if name not in HIDDEN_PARAMETERS}
    given |= {"focal_sets": ", ".join(model.focal_sets_.labels[:40]) + (" …" if len(model.focal_sets_) > 40 else "")}
    found = {
        "log-likelihood": f"{model.log_likelihood_:.4f}",
        "EBIC (higher is better)": f"{model.ebic_:.4f}",
        "free parameters": str(model.n_parameters_),
        "steps": f"{model.n_iter_} ({'converged' if model.converged_ else 'not converged'})",
    }
    texts = {name: _short(value) for name, value in given.items()}
    return [[name, text] for name, text in (found | texts).items()]


def _short(value: Any) -> str:
    if np.ndim(value) > 0 and hasattr(value, "shape"):
        return f"array of shape {value.shape}"
    return str(value)


def _thinned(values: Any, most: int = 500) -> Any:
    """Thin out a long series, keeping its first and last values."""
    series = np.asarray(values)
    return series if len(series) <= most else series[np.unique(np.linspace(0, len(series) - 1, most).astype(int))]


def _rounded(values: Any, digits: int = 7) -> Any:
    """Round to the seven digits of single precision, enough for a plot."""
    array = np.asarray(values, dtype=np.float64)
    return np.array([float(f"{value:.{digits}g}") for value in array.ravel()]).reshape(array.shape).tolist()


def _encode(array: Any) -> str:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")


def _hex(colour: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
