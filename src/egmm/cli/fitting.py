"""``egmm fit`` and ``egmm predict``."""

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from egmm import __version__
from egmm.auto import AutoEGMM
from egmm.belief.partition import CredalPartition
from egmm.belief.uncertainty import average_nonspecificity
from egmm.cli import figures
from egmm.cli.data import TEXT, column_names, find_files, read_data
from egmm.cli.models import Fitted, fit_data, load_model, save_model
from egmm.cli.notes import tell
from egmm.cli.output import (
    check_free,
    check_table,
    chosen_labels,
    counted_sets,
    files_below,
    label_columns,
    mass_columns,
    row_columns,
    write_columns,
    write_csv,
    writing_directory,
)
from egmm.cli.parsing import MAX_ITER, MISSING_CELLS, Decision, Request, Source
from egmm.cli.parsing import decision as read_decision
from egmm.cli.screen import (
    CommandError,
    as_json,
    bar,
    check_output_for_rows,
    counted,
    output_for_text,
    say,
    show_table,
    spaced,
)
from egmm.cli.streaming import fit_stream, is_streamed, open_rows, write_predictions, write_stream
from egmm.report import describe, write_report
from egmm.report.clusters import cross_table

MOST_SETS = 12
"""Maximum number of sets on the screen, those with the most mass."""

MOST_MEANS, MOST_LETTERS = 4, 16
"""Maximum number of columns with printed means, and length of their names, to fit the screen."""

MOST_COLUMNS = 9
"""Maximum number of clusters in the table of known classes on the screen."""

SURE_BY_CLUSTER = "sure rows by cluster and open rows"


def fit(
    source: Source,
    request: Request,
    *,
    standardize: bool,
    table: str | None,
    plots: bool,
    stream: bool | None,
    out: Path | None,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Fit a file's rows and write the model, the masses, the figures and the report."""
    target = out or Path(f"egmm-{_stem(source.path)}")
    inputs = find_files(source.path)
    check_free(target, force=force, inputs=inputs)
    rows = None
    if is_streamed(source, stream):
        if request.reliability is not None:
            raise CommandError("--semi-supervised needs rows in memory; add --no-stream.")
        if table not in (None, "parquet"):
            raise CommandError(f"results of streamed rows are written as Parquet, not {table}; omit --table.")
        fitted, rows = fit_stream(source, request, standardize=standardize)
    else:
        fitted = fit_data(read_data(source), request, standardize=standardize)
    with writing_directory(target, force=force, inputs=inputs) as work:
        if rows is None:
            write_rows(work, fitted, table or default_table(source))
        else:
            write_stream(work, fitted.model, rows, request.decision)
        write_outputs(work, fitted, source, plots=plots)
        files = files_below(work)
    result = {"command": "fit", "source": source.path, "output": str(target), "files": files, **facts(fitted)}
    if as_machine:
        as_json(result)
    elif not quiet:
        show(fitted)
        drawn = sum(name.startswith("figures/") for name in files)
        named = [name for name in files if not name.startswith("figures/")] + [f"{drawn} figures"] * bool(drawn)
        say(f"\nWritten to {target}/: {', '.join(named)}")


def default_table(source: Source) -> str:
    """Default format of tables: CSV if the rows came as text."""
    return "csv" if find_files(source.path)[0].name.lower().endswith(TEXT) else "parquet"


def write_rows(work: Path, fitted: Fitted, table: str) -> None:
    """Write labels and masses of each row."""
    named = row_columns(fitted.data, len(fitted.partition))
    assigned = label_columns(fitted.partition, fitted.outliers, fitted.request.decision)
    if fitted.conflict is not None:
        assigned["label_conflict"] = fitted.conflict
    write_columns(work / f"labels.{table}", named | assigned)
    if table == "parquet":
        fitted.partition.save(work / "masses.parquet")
    else:
        write_columns(work / f"masses.{table}", named | mass_columns(fitted.partition))


def write_outputs(work: Path, fitted: Fitted, source: Source, *, plots: bool) -> None:
    """Write the model, its summary, figures and report into a directory."""
    save_model(work / "model.json", fitted.model, fitted.data, source.missing, fitted.scaling)
    is_auto = isinstance(fitted.model, AutoEGMM)
    sentences = [*sentences_of(fitted), *fitted.notes]
    clusters = [f"Cluster {p.cluster + 1}, {counted(p.n_rows, 'row')}: {p.words}" for p in fitted.profiles]
    summary = "\n".join(
        [*sentences, "", *clusters, "", fitted.partition.summary(*fitted.request.decision), *_compared(fitted), ""]
    )
    (work / "summary.txt").write_text(summary, encoding="utf-8")
    if plots:
        figures.write_figures(work / "figures", fitted)
    write_report(
        work / "report.html",
        fitted.mixture,
        fitted.X,
        partition=fitted.partition if is_auto else None,
        sentences=sentences_of(fitted),
        rule=fitted.request.decision.rule,
        reward=fitted.request.decision.reward,
        feature_names=fitted.data.names,
        title=f"{'Auto' * is_auto}EGMM of {Path(source.path).name}",
        selection=fitted.selection,
        reproduce=_reproduce(source, fitted),
        scaling=fitted.scaling,
        n_total=fitted.n_rows,
        row_numbers=fitted.row_numbers,
        row_names=fitted.data.row_names,
        classes=fitted.data.labels,
    )


def _compared(fitted: Fitted) -> list[str]:
    """Lines on the agreement with known classes, if any."""
    if not fitted.metrics:
        return []
    table = _class_table(fitted)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  "
        + "  ".join([name.ljust(widths[0]), *(n.rjust(width) for n, width in zip(numbers, widths[1:], strict=True))])
        for name, *numbers in table
    ]
    scores = [f"  {name:<21}  {value:.3f}" for name, value in fitted.metrics.items()]
    return ["", f"Known classes, {SURE_BY_CLUSTER}", *lines, "", "Against the known classes", *scores]


def _class_table(fitted: Fitted) -> list[list[str]]:
    """Cells of the table of known classes and clusters, the heading first."""
    found = cross_table(fitted.partition, np.asarray(fitted.data.labels), *fitted.request.decision)
    heading = ["class", *(str(k + 1) for k in range(fitted.partition.n_clusters)), "open", "all"]
    names = [name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 1] + "…" for name in found.classes]
    return [heading, *([name, *map(str, row)] for name, row in zip(names, found.counts, strict=True))]


def _reproduce(source: Source, fitted: Fitted) -> str:
    """Command that reproduces this model and its files."""
    request, (rule, reward) = fitted.request, fitted.request.decision
    parts = ["egmm", "fit", source.path, "--model", "auto" if request.is_auto else "paper"]
    parts += ["--clusters", ",".join(map(str, request.counts or [fitted.partition.n_clusters]))]
    parts += ["--covariance", "auto" if request.covariance == "all" else ",".join(request.covariance)]
    parts += ["--columns", ",".join(name.replace(",", ",,") for name in fitted.data.names), "--seed", str(request.seed)]
    parts += ["--focal-sets", request.focal_sets]
    if not request.is_auto:
        parts += ["--criterion", request.criterion, "--starts", str(request.starts)]
        parts += [] if request.certainty is None else ["--certainty", f"{request.certainty}"]
    parts += ["--noise"] * request.noise
    parts += [] if request.tails == "gaussian" else ["--tails", request.tails]
    parts += [] if request.reg_covar == "auto" else ["--reg-covar", str(request.reg_covar)]
    parts += [] if request.max_iter == MAX_ITER else ["--max-iter", str(request.max_iter)]
    parts += ["--rule", rule, *(["--reward", f"{reward}"] if rule == "utility" else [])]
    parts += ["--stability", str(request.n_subsamples)] if request.n_subsamples else []
    parts += ["--standardize"] * (fitted.scaling is not None)
    parts += ["--id", fitted.data.id] if fitted.data.id else []
    parts += [] if source.label is None else ["--label", source.label]
    parts += [] if source.missing == MISSING_CELLS[0] else ["--missing", source.missing]
    if fitted.request.reliability is not None:
        parts += ["--semi-supervised", "--reliability", str(fitted.request.reliability)]
    if source.header is not None:
        parts.append("--header" if source.header else "--no-header")
    return f"{shlex.join(parts)}\n\n# egmm {__version__}"


def facts(fitted: Fitted) -> dict[str, Any]:
    """Numbers of a fit for JSON."""
    model, partition = fitted.mixture, fitted.partition
    is_auto, decision = isinstance(fitted.model, AutoEGMM), fitted.request.decision
    found = {
        "n_rows": fitted.n_rows,
        "n_shown": len(partition),
        "n_features": int(model.n_features_in_),
        "columns": fitted.data.names,
        "left_out": dict(fitted.data.left_out),
        "id": fitted.data.id,
        "standardized": fitted.scaling is not None,
        "model": "auto" if is_auto else "egmm",
        "n_clusters": int(partition.n_clusters),
        "covariance": model.covariance,
        "open_rows": int(partition.is_open(*decision).sum()),
        "rule": decision.rule,
        "reward": decision.reward,
        "ebic": float(model.ebic_),
        "log_likelihood": float(model.log_likelihood_),
        "n_parameters": int(model.n_parameters_),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "degenerate": bool(model.degenerate_),
        "average_nonspecificity": average_nonspecificity(partition.mass, partition.focal_sets),
        "outliers": int(fitted.outliers.sum()),
        "clusters": [
            {
                "cluster": profile.cluster + 1,
                "rows": profile.n_rows,
                "sure": profile.n_rows - fitted.open_counts[profile.cluster],
                "words": profile.words,
                "means": dict(zip(fitted.data.names, profile.means.tolist(), strict=True)),
            }
            for profile in fitted.profiles
        ],
        "sets": counted_sets(partition, decision),
        "notes": list(fitted.notes),
        "seconds": round(fitted.seconds, 4),
    }
    if is_auto:
        found["model_weights"] = fitted.model.model_weights_
        found["notes"] = [*fitted.model.notes_, *fitted.notes]
    if fitted.selection is not None:
        found["candidates"] = fitted.selection.table()
    if fitted.data.labels is not None:
        found["metrics"] = fitted.metrics
    return found


def sentences_of(fitted: Fitted) -> list[str]:
    """Sentences on the result and its rows."""
    is_auto, decision = isinstance(fitted.model, AutoEGMM), fitted.request.decision
    found = describe(
        fitted.mixture,
        fitted.partition,
        outliers=fitted.outliers,
        selection=None if is_auto else fitted.selection,
        rule=decision.rule,
        reward=decision.reward,
    )
    if is_auto:
        found = [f"Auto{found[0]}", *fitted.model.summary_lines()[1:], *found[1:]]
    if not fitted.is_sample:
        return found
    note = (
        f"Fitted to {spaced(fitted.n_rows)} rows; the following describes a sample of {spaced(len(fitted.partition))}."
    )
    return [note, *found]


def show(fitted: Fitted) -> None:
    """Print a fit."""
    first, *others = sentences_of(fitted)
    say(first)
    say()
    show_clusters(fitted)
    if fitted.metrics and fitted.partition.n_clusters <= MOST_COLUMNS:
        heading, *lines = _class_table(fitted)
        say()
        show_table(heading, lines, title=f"known classes, {SURE_BY_CLUSTER}")
    say()
    for sentence in others:
        say(sentence)
    say()
    show_sets(fitted.partition, fitted.request.decision)
    if fitted.metrics:
        lines = [[name, f"{value:.3f}"] for name, value in fitted.metrics.items()]
        say()
        show_table(["against the known classes", ""], lines)


def show_clusters(fitted: Fitted) -> None:
    """Print the size, distinctive features and means of each cluster."""
    found, names = fitted.profiles, fitted.data.names
    lines = [[str(p.cluster + 1), spaced(p.n_rows), spaced(fitted.open_counts[p.cluster]), p.words] for p in found]
    show_table(["cluster", "rows", "open", ""], lines)
    largest = np.abs([profile.differences for profile in found]).max(axis=0)
    some = np.sort(np.argsort(-largest, kind="stable")[:MOST_MEANS])
    say()
    means = [[str(p.cluster + 1), *(f"{p.means[d]:.4g}" for d in some)] for p in found]
    dots = "" if len(some) == len(names) else f", the {len(some)} most distinctive of {len(names)} columns"
    show_table(["cluster", *(names[d][:MOST_LETTERS] for d in some)], means, title=f"means{dots}")


def show_sets(partition: CredalPartition, decision: Decision) -> None:
    """Print the sets with the most mass, and their numbers of rows."""
    focal, mean = partition.focal_sets, partition.mass.mean(axis=0)
    rows = Counter(chosen_labels(partition, decision).tolist())
    shown = np.sort(np.argsort(-mean, kind="stable")[:MOST_SETS])
    shown = shown[np.argsort(focal.cardinalities[shown], kind="stable")]
    lines = [[focal.labels[j], spaced(rows.pop(focal.labels[j], 0)), f"{mean[j]:.4f}", bar(mean[j])] for j in shown]
    # The set with the largest utility need not be focal.
    lines += [[name, spaced(count), "", ""] for name, count in sorted(rows.items()) if name not in focal.labels]
    more = len(focal) - len(shown)
    show_table(["set", "rows", "mean mass", ""], lines)
    if more:
        say(f"and {more} lighter sets")


def predict(
    model_path: Path,
    source: Source,
    *,
    out: Path | None,
    masses: bool,
    rule: str | None,
    reward: float,
    stream: bool | None,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Assign the rows of a file to a model's clusters."""
    if out is not None:
        check_table(out, force=force, inputs=[model_path, *find_files(source.path)])
    else:
        check_output_for_rows(as_machine=as_machine)
    streamed_to = None
    if is_streamed(source, stream):
        streamed_to = _check_streamed(source.path, out, asked=stream is not None)
    model, preparation = load_model(model_path)
    decision = read_decision(rule, reward, is_auto=isinstance(model, AutoEGMM))
    scaling = preparation.scaling
    source = preparation.of(source, column_names(source))
    if streamed_to is not None:
        rows, _ = open_rows(source)
        scaled = rows if scaling is None else rows.scaled(*scaling)
        write_predictions(streamed_to, model, scaled, decision, masses=masses, force=force)
        n_rows = int(rows.shape[0])
        if as_machine:
            as_json(_predicted(model_path, source.path, out, n_rows))
        elif not quiet:
            say(f"Written to {out}: {spaced(n_rows)} rows.")
        return
    data = read_data(source, least_rows=1)
    if data.X.shape[1] != model.n_features_in_:
        raise CommandError(
            f"{source.path} has {data.X.shape[1]} columns, but the model expects {model.n_features_in_}."
        )
    X = data.X if scaling is None else scaling.apply(data.X)
    partition = model.partition(X)
    if not (quiet or as_machine):
        tell(data.notes, wanted=True)
    columns = row_columns(data, len(X)) | label_columns(partition, model.outliers(X), decision)
    if masses:
        columns |= mass_columns(partition)
    if out is None:
        write_csv(output_for_text(), columns)
        return
    write_columns(out, columns, force=force)
    if as_machine:
        as_json(_predicted(model_path, source.path, out, len(X)))
    elif not quiet:
        show_sets(partition, decision)
        say(f"\nWritten to {out}: {spaced(len(X))} rows.")


def _check_streamed(source: str, out: Path | None, *, asked: bool) -> Path:
    if out is None or out.suffix.lower() != ".parquet":
        why = "with --stream" if asked else f"{source} is large and read block by block;"
        got = "" if out is None else f", not {out}"
        raise CommandError(f"{why} rows are written as Parquet; use --out with a .parquet file{got}, or --no-stream.")
    return out


def _predicted(model_path: Path, source: str, out: Path | None, n_rows: int) -> dict[str, Any]:
    return {"command": "predict", "model": str(model_path), "source": source, "output": str(out), "n_rows": n_rows}


def _stem(source: str) -> str:
    first = find_files(source)[0]
    chosen = Path(source).name if Path(source).is_dir() else first.name
    return chosen.split(".")[0] or "data"
