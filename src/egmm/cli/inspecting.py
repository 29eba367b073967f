"""``egmm select`` and ``egmm info``."""

from pathlib import Path
from typing import Any

from egmm.auto import AutoEGMM
from egmm.cli import figures
from egmm.cli.data import find_files, read_data
from egmm.cli.models import check_enough, load_model, prepare, run_selection
from egmm.cli.notes import notes_on, notes_on_request, tell
from egmm.cli.output import check_free, write_columns, writing_directory
from egmm.cli.parsing import Request, Source
from egmm.cli.screen import as_json, bar, counted, say, show_table
from egmm.cli.streaming import is_streamed, prepare_scan
from egmm.em.criteria import CRITERIA
from egmm.selection import Selection

MOST_SETS = 12
"""Maximum number of sets listed, those with the most weight."""


def select(
    source: Source,
    request: Request,
    *,
    standardize: bool,
    stream: bool | None,
    out: Path | None,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Compare numbers of clusters and covariance models."""
    inputs = find_files(source.path)
    if out is not None:
        check_free(out, force=force, inputs=inputs)
    if is_streamed(source, stream):
        X, _, total, sample, _ = prepare_scan(source, standardize=standardize)
        notes = notes_on(sample, total)
    else:
        X, _, notes = prepare(read_data(source)._replace(labels=None), standardize=standardize)
    check_enough(X.shape[0], max(request.counts))
    notes += notes_on_request(request)
    tell(notes, wanted=request.verbose)
    selection = run_selection(X, request)
    files: list[str] = []
    if out is not None:
        with writing_directory(out, force=force, inputs=inputs) as work:
            table = selection.table()
            names = dict.fromkeys(name for record in table for name in record)
            write_columns(work / "selection.csv", {name: [record.get(name) for record in table] for name in names})
            figures.write_selection(work, selection)
            files = sorted(path.name for path in work.iterdir())
    other = selection.alternative
    chosen = {
        "n_clusters": selection.n_clusters,
        "covariance": selection.covariance,
        "has_best_criterion": selection.is_top,
        "alternative": None if other is None else other.covariance,
    }
    if as_machine:
        output = {"output": None if out is None else str(out), "files": files}
        as_json(
            {
                "command": "select",
                "source": source.path,
                **chosen,
                **output,
                "notes": notes,
                "candidates": selection.table(),
            }
        )
    elif not quiet:
        show_selection(selection)
        if out is not None:
            say(f"\nWritten to {out}/: {', '.join(files)}")


def show_selection(selection: Selection) -> None:
    """Print the best candidates, with the chosen one marked."""
    sign = -1.0 if selection.higher_is_better else 1.0
    chosen = (selection.n_clusters, selection.covariance)

    def rank(record: dict[str, Any]) -> tuple[bool, bool, bool, float]:
        is_other = (record["n_clusters"], record["covariance"]) != chosen  # Others may tie.
        return is_other, bool(record["failure"]), record["degenerate"], sign * record[selection.criterion]

    table = sorted(selection.table(), key=rank)
    lines = []
    for record in table[:20]:
        note = record["failure"][:30] or ("degenerate" if record["degenerate"] else "")
        note = note or ("" if record["converged"] else "not converged")
        values = ["–" if record["failure"] else f"{record[name]:.1f}" for name in CRITERIA]
        lines.append([f"{record['n_clusters']}  {record['covariance']}", *values, f"{record['seconds']:.2f}", note])
    lines[0][-1] = ", ".join(["chosen"] + [lines[0][-1]] * bool(lines[0][-1]))
    better = "higher" if selection.higher_is_better else "lower"
    heading = f"{counted(len(table), 'candidate')} by {selection.criterion.upper()} ({better} is better)"
    heading += "" if selection.is_top else "; the first one agrees most with the others"
    signs = [f"{name.upper()} {'↑' if higher else '↓'}" for name, higher in CRITERIA.items()]
    show_table(["model", *signs, "seconds", ""], lines, title=heading, marked=0)
    say("↑ higher is better, ↓ lower is better", "dim")
    if len(table) > len(lines):
        say(f"and {len(table) - len(lines)} more")
    if selection.advice:
        say(f"{selection.advice}.")


def info(model_path: Path, *, as_machine: bool, quiet: bool) -> None:
    """Print the contents of a model file; with quiet, only check that it can be read."""
    loaded, preparation = load_model(model_path)
    model = loaded.best_ if isinstance(loaded, AutoEGMM) else loaded
    scaling = preparation.scaling
    names = preparation.names or [f"x{k + 1}" for k in range(model.n_features_in_)]
    found = {
        "model": "auto" if isinstance(loaded, AutoEGMM) else "egmm",
        "n_clusters": int(model.focal_sets_.n_clusters),
        "n_features": int(model.n_features_in_),
        "columns": names,
        "row_names": preparation.id or "",
        "missing": preparation.missing,
        "standardized": scaling is not None,
        "covariance": model.covariance,
        "n_sets": len(model.focal_sets_),
        "log_likelihood": float(model.log_likelihood_),
        "ebic": float(model.ebic_),
        "n_parameters": int(model.n_parameters_),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "degenerate": bool(model.degenerate_),
    }
    means = model.means_ if scaling is None else scaling.undo(model.means_)
    weights = dict(zip(model.focal_sets_.labels, model.weights_.tolist(), strict=True))
    if isinstance(loaded, AutoEGMM):
        found["model_weights"] = loaded.model_weights_
    if as_machine:
        as_json({"command": "info", "model": str(model_path), **found, "weights": weights, "means": means.tolist()})
        return
    if quiet:
        return
    if isinstance(loaded, AutoEGMM):
        say(loaded.summary())
        say("\nThe selected model")
    lines = [[name, _text(value)] for name, value in found.items() if name != "model_weights"]
    show_table(["EGMM", ""], lines)
    say()
    some = list(range(min(len(names), 5)))
    shown = [[str(k + 1), *(f"{means[k, d]:.4g}" for d in some)] for k in range(len(means))]
    dots = "" if len(names) == len(some) else f"  (first {len(some)} of {len(names)} columns)"
    show_table(["cluster", *(names[d][:14] for d in some)], shown, title=f"means{dots}")
    say()
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:MOST_SETS]
    show_table(["set", "weight", ""], [[name, f"{weight:.4f}", bar(weight)] for name, weight in heaviest])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value[:6]) + (", ..." if len(value) > 6 else "")
    return f"{value:.4f}" if isinstance(value, float) else str(value) or "none"
