"""Algorithms by the names typed on the command line, and ``egmm fit --algorithm``."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

import egmm
from egmm import cluster
from egmm._checks import FloatArray
from egmm.belief.partition import CredalPartition
from egmm.belief.uncertainty import average_nonspecificity
from egmm.cli import figures
from egmm.cli.data import Data, read_data
from egmm.cli.fitting import default_table
from egmm.cli.models import Prepared, check_enough, prepare, scores
from egmm.cli.notes import tell
from egmm.cli.output import (
    check_free,
    counted_sets,
    files_below,
    label_columns,
    mass_columns,
    write_columns,
    writing_directory,
)
from egmm.cli.parsing import MAX_ITER, Decision, Request, Source, one_of
from egmm.cli.screen import CommandError, as_json, say, show_table
from egmm.plotting import plot_masses, plot_partition
from egmm.selection import Selection, select_model

ALGORITHMS: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (
        egmm.AutoEGMM,
        egmm.EGMM,
        egmm.ECM,
        egmm.FCM,
        egmm.BPEC,
        egmm.BootGMM,
        cluster.CCM,
        cluster.NNEVCLUS,
        cluster.EVCLUS,
        cluster.RECM,
        cluster.ECMdd,
        cluster.MECM,
        cluster.EKNNClus,
    )
}
"""Estimators by their name on the command line."""

FROM_DISSIMILARITIES = ("evclus", "recm", "ecmdd", "mecm", "eknnclus")
"""Estimators that accept dissimilarities."""


OWN_MODELS = {"autoegmm": "auto", "egmm": "paper"}
"""Algorithms with a model file, by their value of --model."""


def read_algorithm(algorithm: str | None, model: str | None, *, is_relational: bool) -> tuple[str | None, str | None]:
    """Resolve --algorithm and --model into an EGMM model or another algorithm."""
    name = one_of("--algorithm", (algorithm or "egmm").lower(), tuple(ALGORITHMS))
    if name not in OWN_MODELS:
        return None, name
    if is_relational:
        raise typer.BadParameter(
            f"with --dissimilarities use one of {', '.join(FROM_DISSIMILARITIES)}.", param_hint="--algorithm"
        )
    if model not in (None, OWN_MODELS[name]):
        raise typer.BadParameter(f"{model!r} contradicts --algorithm {name}; use one of the two.", param_hint="--model")
    return OWN_MODELS[name], None


def made(name: str, wanted: dict[str, Any], *, is_relational: bool) -> Any:
    """Create an estimator with those of the parameters that it has."""
    known = ALGORITHMS[name]().get_params(deep=False)
    given = {key: value for key, value in wanted.items() if key in known}
    return ALGORITHMS[name](**given, **({"metric": "precomputed"} if is_relational else {}))


def read_dissimilarities(path: str, header: bool | None) -> FloatArray:
    """Read a table of dissimilarities, one line per row."""
    D = read_data(Source(path, header=header)).X
    if D.shape[0] != D.shape[1]:
        raise CommandError(
            f"{path} must hold a dissimilarity for each pair of rows, but has {D.shape[0]} lines and {D.shape[1]} "
            "columns."
        )
    return D


def read_both(source: Source, dissimilarities: str | None) -> tuple[Data, FloatArray | None]:
    """Read rows, or dissimilarities with classes from a file of rows, if given."""
    if dissimilarities is None:
        return read_data(source), None
    D = read_dissimilarities(dissimilarities, source.header)
    if not source.path:
        return Data(D, [f"x{k + 1}" for k in range(len(D))]), D
    data = read_data(source)
    if len(data.X) != len(D):
        raise CommandError(f"{source.path} has {len(data.X)} rows, but {dissimilarities} has {len(D)}.")
    return data, D


@dataclass(frozen=True)
class Peer:
    """A fitted algorithm and its partition of the rows."""

    name: str
    model: Any
    selection: Selection | None
    partition: CredalPartition
    metrics: dict[str, float]
    seconds: float
    decision: Decision


def fit_algorithm(
    name: str,
    source: Source,
    request: Request,
    *,
    clusters: str,
    dissimilarities: str | None,
    standardize: bool,
    table: str | None,
    plots: bool,
    out: Path | None,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Fit one of the other algorithms and write its masses and labels."""
    if dissimilarities is not None and name not in FROM_DISSIMILARITIES:
        raise CommandError(
            f"--algorithm {name} needs rows of features; with --dissimilarities use one of "
            f"{', '.join(FROM_DISSIMILARITIES)}."
        )
    target = out or Path(f"egmm-{Path(source.path or dissimilarities or '').name.split('.')[0] or 'data'}")
    check_free(target, force=force)
    data, D = read_both(source, dissimilarities)
    X, _, notes = prepare(data, standardize=standardize) if D is None else Prepared(D, None, [])
    tell(notes, wanted=request.verbose)
    peer = _fitted(name, X, request, clusters, data.labels, is_relational=D is not None)
    has_features = bool(source.path)
    with writing_directory(target, force=force) as work:
        _write(work, peer, data if has_features else None, notes, table or default_table(source), plots=plots)
        files = files_below(work)
    found = _facts(peer)
    if as_machine:
        place = {"command": "fit", "source": source.path or dissimilarities, "output": str(target), "files": files}
        as_json({**place, **found, "notes": notes})
    elif not quiet:
        for sentence in _sentences(peer):
            say(sentence)
        say()
        _show_sets(found["sets"])
        if peer.metrics:
            say()
            show_table(["against the known classes", ""], [[key, f"{x:.3f}"] for key, x in peer.metrics.items()])
        say(f"\nWritten to {target}/: {', '.join(files)}")


def _fitted(name: str, X: FloatArray, request: Request, clusters: str, truth: Any, *, is_relational: bool) -> Peer:
    wanted: dict[str, Any] = {"focal_sets": request.focal_sets, "random_state": request.seed}
    wanted |= {"n_init": request.starts} | ({} if request.max_iter == MAX_ITER else {"max_iter": request.max_iter})
    model = made(name, wanted, is_relational=is_relational)
    finds_number = "n_clusters" not in model.get_params(deep=False)
    if finds_number and clusters != "auto":
        raise CommandError(f"--algorithm {name} estimates the number of clusters; omit --clusters.")
    began, selection = time.perf_counter(), None
    if finds_number:
        model.fit(X)
    else:
        check_enough(len(X), max(request.counts))
        if len(request.counts) == 1:
            model.set_params(n_clusters=request.counts[0]).fit(X)
        else:
            selection = select_model(X, request.counts, estimator=model, verbose=int(request.verbose))
            model = selection.best
    partition = model.partition(X)
    metrics = {} if truth is None else scores(truth, partition, request.decision)
    return Peer(name, model, selection, partition, metrics, time.perf_counter() - began, request.decision)


def _sentences(peer: Peer) -> list[str]:
    partition, kind = peer.partition, type(peer.model).__name__
    n_rows = len(partition)
    chosen = "" if peer.selection is None else f", chosen by {peer.selection.criterion.upper()}"
    n_open = int(partition.is_open(*peer.decision).sum())
    found = [f"{kind} with {partition.n_clusters} clusters{chosen}, fitted to {n_rows} rows."]
    found.append(f"{n_rows - n_open} rows are sure of one cluster or of none, {n_open} are open.")
    n_outliers = int(partition.outliers().sum())
    return found + (
        [f"{n_outliers} rows belong to no cluster: the empty set has most of their mass."] * bool(n_outliers)
    )


def _facts(peer: Peer) -> dict[str, Any]:
    partition = peer.partition
    found: dict[str, Any] = {
        "algorithm": peer.name,
        "n_rows": len(partition),
        "n_clusters": int(partition.n_clusters),
        "open_rows": int(partition.is_open(*peer.decision).sum()),
        "rule": peer.decision.rule,
        "reward": peer.decision.reward,
        "objective": float(getattr(peer.model, "objective_", np.nan)),
        "converged": bool(peer.model.converged_),
        "average_nonspecificity": average_nonspecificity(partition.mass, partition.focal_sets),
        "outliers": int(partition.outliers().sum()),
        "sets": counted_sets(partition, peer.decision),
        "seconds": round(peer.seconds, 4),
    }
    if peer.selection is not None:
        found["candidates"] = peer.selection.table()
    return found | ({"metrics": peer.metrics} if peer.metrics else {})


def _show_sets(sets: list[dict[str, Any]]) -> None:
    heavy = sorted(sets, key=lambda entry: -entry["mean_mass"])[:12]
    lines = [[entry["set"], str(entry["rows"]), f"{entry['mean_mass']:.4f}"] for entry in sets if entry in heavy]
    show_table(["set", "rows", "mean mass"], lines)


def _write(work: Path, peer: Peer, data: Data | None, notes: list[str], table: str, *, plots: bool) -> None:
    """Write labels, masses, the summary and figures into a directory."""
    partition = peer.partition
    write_columns(work / f"labels.{table}", label_columns(partition, partition.outliers(), peer.decision))
    if table == "parquet":
        partition.save(work / "masses.parquet")
    else:
        write_columns(work / f"masses.{table}", mass_columns(partition))
    known = [f"  {key:<21}  {value:.3f}" for key, value in peer.metrics.items()]
    known = ["", "Against the known classes", *known] if known else []
    lines = [*_sentences(peer), *notes, "", partition.summary(*peer.decision), *known, ""]
    (work / "summary.txt").write_text("\n".join(lines), encoding="utf-8")
    if not plots:
        return
    (work / "figures").mkdir()
    figures.save(plot_masses(partition, ax=figures.new_axes(size=(9.0, 3.6))), work / "figures" / "masses.png")
    if data is not None:
        of_rows = {**peer.decision._asdict(), "feature_names": data.names}
        drawn = plot_partition(data.X, partition, ax=figures.new_axes(), **of_rows)
        figures.save(drawn, work / "figures" / "partition.png")
