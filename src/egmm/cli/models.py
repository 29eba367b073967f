"""Fitting, saving, loading and scoring of models for the commands."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm._files import replacing
from egmm.auto import FORMAT as AUTO_FORMAT
from egmm.auto import AutoEGMM
from egmm.belief.decisions import choose_sets
from egmm.belief.partition import CredalPartition
from egmm.cli.data import Data
from egmm.cli.notes import notes_on, notes_on_request, tell
from egmm.cli.parsing import MISSING_CELLS, Decision, Request, Source
from egmm.cli.screen import CommandError
from egmm.em.completion import EmptyColumnError, data_moments
from egmm.em.statistics import Moments
from egmm.explanation import Profile, profiles
from egmm.metrics import ari, nmi, purity, set_scores
from egmm.mixture import EGMM
from egmm.model_file import read_json
from egmm.rows.array import ArrayRows
from egmm.rows.source import UnusableRowsError, bad_entry
from egmm.rows.threads import one_blas_thread
from egmm.selection import Selection, select_model

PREPARATION = "preparation"
"""Entry of model.json with the columns and, if standardised, their centre and scale."""


class Scaling(NamedTuple):
    """Centre and scale of the columns."""

    centre: FloatArray
    scale: FloatArray

    @classmethod
    def from_moments(cls, total: Moments) -> Self:
        """Centre and scale of columns; a constant column is only centred."""
        variances = np.diag(total.scatter) / total.weight
        return cls(total.centre, np.where(variances > 0, np.sqrt(variances), 1.0))

    def apply(self, X: FloatArray) -> FloatArray:
        """Standardise columns."""
        return (X - self.centre) / self.scale

    def undo(self, X: FloatArray) -> FloatArray:
        """Restore the units of columns."""
        return X * self.scale + self.centre


@dataclass(frozen=True)
class Fitted:
    """A fitted model and its partition of the rows, or of a sample if they were streamed."""

    request: Request
    data: Data
    X: FloatArray
    model: Any
    selection: Selection | None
    partition: CredalPartition
    outliers: BoolArray
    scaling: Scaling | None
    seconds: float
    n_rows: int
    notes: Sequence[str] = ()
    row_numbers: IntArray | None = None
    """Row numbers in the file, counted from zero, if the rows are a sample or some were dropped."""
    conflict: FloatArray | None = None
    """Conflict of the rows' classes with the mixture, if classes were used in the fit."""

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Agreement with the known classes; empty without classes, or if they were used in the fit."""
        if self.data.labels is None or self.conflict is not None:
            return {}
        return scores(self.data.labels, self.partition, self.request.decision)

    @property
    def rows(self) -> FloatArray:
        """Rows in the units of the files, with missing cells replaced by their expectation."""
        X = self.data.X
        if not np.isnan(X).any():
            return X
        return np.where(np.isnan(X), self.X if self.scaling is None else self.scaling.undo(self.X), X)

    @property
    def mixture(self) -> Any:
        """The mixture whose means and covariances are shown; the selected one of a consensus."""
        return self.model.best_ if isinstance(self.model, AutoEGMM) else self.model

    @cached_property
    def profiles(self) -> list[Profile]:
        """Profile of each cluster, in the units of the files."""
        return profiles(self.partition, self.data.X, self.data.names)

    @property
    def open_counts(self) -> list[int]:
        """Number of open rows of each cluster."""
        is_open = self.partition.is_open(*self.request.decision)
        return np.bincount(self.partition.labels()[is_open], minlength=self.partition.n_clusters).tolist()

    @property
    def is_sample(self) -> bool:
        """Whether the partition is of a sample of the rows."""
        return self.n_rows > len(self.partition)


class Prepared(NamedTuple):
    """Prepared rows in memory, and messages about them."""

    X: FloatArray
    scaling: Scaling | None
    notes: list[str]


def prepare(data: Data, *, standardize: bool) -> Prepared:
    """Scale rows in memory if requested, bit-identical to streamed rows."""
    with ArrayRows(data.X, None, n_jobs=1) as rows, one_blas_thread():
        total = checked_moments(rows, data.names)
        notes = notes_on(data, total)
        if not standardize:
            return Prepared(data.X, None, notes)
        scaling = Scaling.from_moments(total)
    return Prepared(scaling.apply(data.X), scaling, notes)


def checked_moments(rows: Any, names: Sequence[str]) -> Moments:
    """Moments of the rows; raise on entries that are infinite or too large to square."""
    try:
        return data_moments(rows, diagonal=False).whole
    except UnusableRowsError as error:
        raise bad_entry(rows, names) or error from None
    except EmptyColumnError as error:
        raise error.named(names[error.column]) from None


def fit_data(data: Data, request: Request, *, standardize: bool = False) -> Fitted:
    """Fit one model, or several and choose."""
    began = time.perf_counter()
    X, scaling, notes = prepare(data, standardize=standardize)
    notes += notes_on_request(request)
    tell(notes, wanted=request.verbose)
    conflict = None
    if request.reliability is None:
        model, selection = choose_model(X, len(X), request)
        partition = model.partition(X)
    else:
        selection = None
        model, partition, told = fit_labelled(X, data.labels, request)
        notes, conflict = [*notes, *told], model.label_conflict_
        tell(told, wanted=request.verbose)
    partition, outliers = named_rows(partition, data), model.outliers(X)
    seconds = time.perf_counter() - began
    found = (model, selection, partition, outliers, scaling)
    return Fitted(request, data, shown(model, X), *found, seconds, len(X), notes, data.numbers, conflict)


def shown(model: Any, X: FloatArray) -> FloatArray:
    """Rows for figures and the report, with missing cells replaced by their expectation."""
    return np.asarray(model.impute(X)) if np.isnan(X).any() else X


def fit_labelled(X: FloatArray, classes: Any, request: Request) -> tuple[EGMM, CredalPartition, list[str]]:
    """Fit a mixture to rows, some of which have known classes; one cluster per class."""
    names = sorted(set(classes.tolist()) - {""})
    n_clusters = request.counts[0] if request.counts else len(names)
    if not names:
        raise CommandError("no row has a class, but --semi-supervised needs some.")
    if n_clusters < len(names):
        raise CommandError(
            f"there are {len(names)} classes but --clusters {n_clusters}; use at least as many clusters."
        )
    labels = np.array([names.index(name) if name else -1 for name in classes.tolist()])
    known: dict[str, Any] = {"labels": labels, "reliability": request.reliability}
    model = EGMM(n_clusters, covariance=request.covariance[0], **request.parameters).fit(X, **known)
    listed = ", ".join(f"{k + 1} is {name!r}" for k, name in enumerate(names))
    told = [f"Classes of {int((labels >= 0).sum())} of {len(X)} rows are used in the fit. Cluster {listed}."]
    return _nameless(model), model.partition(X, **known), told


def named_rows(partition: CredalPartition, data: Data) -> CredalPartition:
    """Partition with the names of its rows, if any."""
    if data.row_names is None:
        return partition
    return CredalPartition(partition.mass, partition.focal_sets, index=data.row_names)


def choose_model(X: Any, n_rows: int, request: Request) -> tuple[Any, Selection | None]:
    """Fit the requested models to rows or a scan; the selection is None for a single model."""
    if request.is_auto:
        check_enough(n_rows, min(request.counts))
        model = AutoEGMM([count for count in request.counts if count <= n_rows], **request.auto_parameters).fit(X)
        if request.n_subsamples:
            rule, reward = request.decision
            model.stability(X, request.n_subsamples, rule=rule, reward=reward)
        for fitted in (model, model.best_):
            _nameless(fitted)
        return model, model.selection_
    check_enough(n_rows, max(request.counts))
    if not request.is_single:
        selection = run_selection(X, request)
        return _nameless(selection.best), selection
    single = EGMM(request.counts[0], covariance=request.covariance[0], **request.parameters)
    return _nameless(single.fit(X)), None


def _nameless(model: Any) -> Any:
    """Remove feature names from a model, which would warn about arrays without names; columns are checked earlier."""
    vars(model).pop("feature_names_in_", None)
    return model


def run_selection(X: Any, request: Request) -> Selection:
    """Fit every requested candidate."""
    return select_model(X, request.counts, request.covariance, request.criterion, **request.parameters)


def check_enough(n_rows: int, n_clusters: int) -> None:
    """Raise if there are fewer rows than clusters."""
    if n_rows < n_clusters:
        raise CommandError(f"there are {n_rows} rows, too few for {n_clusters} clusters; use fewer with --clusters.")


def save_model(path: Path, model: Any, data: Data, missing: str, scaling: Scaling | None) -> None:
    """Save the model with the preparation of its columns."""
    model.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document[PREPARATION] = {
        "columns": list(data.names),
        "left_out": dict(data.left_out),
        "id": data.id,
        "missing": missing,
        "centre": None if scaling is None else scaling.centre.tolist(),
        "scale": None if scaling is None else scaling.scale.tolist(),
    }
    with replacing(path) as stream:
        stream.write(json.dumps(document, indent=1).encode())


class Preparation(NamedTuple):
    """Preparation of a table for a model."""

    names: list[str] | None = None
    """Columns used by the model; None means all."""
    scaling: Scaling | None = None
    id: str | None = None
    """Column that names the rows."""
    missing: str = MISSING_CELLS[0]

    def of(self, source: Source, names: Sequence[str]) -> Source:
        """Source of rows for the model, with row names if available."""
        known = self.id if self.id in names else None
        return source._replace(columns=self.names, id=source.id or known, missing=self.missing)


def load_model(path: Path) -> tuple[Any, Preparation]:
    """Load a model and its preparation; a model saved from Python has only column names."""
    if path.is_dir():
        raise CommandError(f"{path} is a directory; pass the model file, such as {path / 'model.json'}.")
    if not path.is_file():
        raise CommandError(f"{path} does not exist.")
    model = _load(path)
    names = getattr(model, "feature_names_in_", None)
    preparation = json.loads(path.read_text(encoding="utf-8")).get(PREPARATION)
    if preparation is None:
        return _nameless(model), Preparation(None if names is None else [str(name) for name in names])
    return _nameless(model), _preparation(path, preparation, model.n_features_in_)


def _load(path: Path) -> Any:
    """Load a model of either kind; other files raise EGMM's error."""
    try:
        is_auto = read_json(path)["format"] == AUTO_FORMAT
    except (KeyError, TypeError, ValueError):
        is_auto = False
    return AutoEGMM.load(path) if is_auto else EGMM.load(path)


def _preparation(path: Path, entry: Any, n_features: int) -> Preparation:
    """Columns and scaling of a model file, validated, since JSON may be edited."""
    try:
        names, centre, scale = entry["columns"], entry["centre"], entry["scale"]
        scaling = None if centre is None and scale is None else Scaling(np.array(centre, float), np.array(scale, float))
        is_whole = all(np.shape(part) == (n_features,) for part in (names, *(scaling or ())))
        is_whole &= scaling is None or bool(np.isfinite(scaling).all() and (scaling.scale > 0).all())
        row_names, missing = entry.get("id"), entry.get("missing", MISSING_CELLS[0])
        is_whole = is_whole and (row_names is None or isinstance(row_names, str)) and missing in MISSING_CELLS
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        is_whole = False
    if not is_whole:
        raise CommandError(
            f"{path} is damaged: its entry {PREPARATION!r} must hold columns ({n_features} names), centre and scale "
            f"({n_features} numbers each, scales above 0, or null); fit again to rewrite it."
        )
    return Preparation([str(name) for name in names], scaling, row_names, missing)


def scores(truth: Any, partition: CredalPartition, decision: Decision) -> dict[str, float]:
    """Agreement with known classes, over the rows that have one."""
    known = truth != ""
    if not known.any():
        return {}
    truth, partition = truth[known], partition[known]
    labels = partition.labels()
    found = {"purity": purity(truth, labels), "NMI": nmi(truth, labels), "ARI": ari(truth, labels)}
    if len(np.unique(truth)) <= partition.n_clusters:
        sets = set_scores(truth, choose_sets(partition.mass, partition.focal_sets, *decision))
        found |= {
            "coverage": sets.coverage,
            "accuracy of sure rows": sets.precise_accuracy,
            "share of open rows": sets.ambiguous,
        }
    return found
