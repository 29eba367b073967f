"""The commands and their options; the work is done in the modules beside this one, loaded when needed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from egmm import __version__
from egmm.belief.focal import MAX_CLUSTERS
from egmm.cli import options as o
from egmm.cli.screen import guarded

# Importing an estimator takes about a second: help and completion must not wait for it.
# ruff: noqa: PLC0415

TABLES = ("parquet", "csv", "feather")

app = typer.Typer(
    name="egmm",
    help="Evidential clustering: who belongs to which cluster, and for whom the data cannot say.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"egmm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write.")] = Path("egmm-demo"),
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Cluster the paper's examples and write figures and a report to look at."""
    from egmm.cli.demo import demo as work

    work(out, force=force, as_machine=json, quiet=quiet)


@app.command()
@guarded
def fit(
    rows: o.Rows,
    model: o.Fit = None,
    clusters: o.Clusters = "auto",
    covariance: o.FitCovariance = None,
    focal_sets: o.Families = "pairs",
    columns: o.Columns = None,
    label: o.Label = None,
    header: o.Header = None,
    standardize: o.Standardize = False,
    criterion: o.Criterion = "ebic",
    starts: o.Starts = 1,
    seed: o.Seed = 0,
    certainty: o.Certainty = None,
    reg_covar: o.RegCovar = "auto",
    max_iter: o.MaxIter = o.MAX_ITER,
    rule: o.Rule = None,
    reward: o.Reward = 0.8,
    stability: o.Subsamples = 0,
    out: o.Out = None,
    table: Annotated[
        str, typer.Option("--table", help="Format of masses and labels: parquet, csv, feather.")
    ] = "parquet",
    plots: Annotated[bool, typer.Option(help="Write figures.")] = True,
    stream: o.Stream = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Cluster rows and write model, masses, labels, figures and a report.

    Without further options AutoEGMM chooses; --model paper fits the paper's EGMM. Without --out the files go to a new
    directory egmm-NAME.
    """
    only_paper = (focal_sets, criterion, starts, certainty) != ("pairs", "ebic", 1, None)
    either = (clusters, covariance) != ("auto", None)
    is_auto = o.is_automatic(model, only_paper=only_paper, either=either)
    rest: dict[str, Any] = {"verbose": not (quiet or json), "reg_covar": reg_covar, "max_iter": max_iter}
    if is_auto:
        request = o.auto_request(clusters, covariance, seed, **rest)
    else:
        request = o.request(
            clusters, covariance or "EEE", focal_sets, criterion, seed, starts, certainty=certainty, **rest
        )
    if stability and not is_auto:
        raise typer.BadParameter("only --model auto tells how stable it is.", param_hint="--stability")
    request = request._replace(decision=o.decision(rule, reward, is_auto=is_auto), n_subsamples=stability)
    source = o.Source(rows, o.names(columns), label, header)
    o.one_of("--table", table, TABLES)
    from egmm.cli import fitting

    fitting.fit(
        source,
        request,
        standardize=standardize,
        table=table,
        plots=plots,
        stream=stream,
        out=out,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command()
@guarded
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="model.json of a fit.")],
    rows: o.Rows,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=".csv, .parquet or .feather. Default: CSV on standard output.")
    ] = None,
    masses: Annotated[bool, typer.Option(help="Write the masses of all sets too.")] = True,
    rule: o.Rule = None,
    reward: o.Reward = 0.8,
    header: o.Header = None,
    stream: o.Stream = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Assign rows to the clusters of a fitted model: cluster, set, how sure, and the masses."""
    from egmm.cli import fitting

    fitting.predict(
        model,
        o.Source(rows, header=header),
        out=out,
        masses=masses,
        rule=rule,
        reward=reward,
        stream=stream,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command()
@guarded
def select(
    rows: o.Rows,
    clusters: o.Clusters = "auto",
    covariance: o.Covariance = "EEE",
    focal_sets: o.Families = "pairs",
    columns: o.Columns = None,
    label: o.LabelLeftOut = None,
    header: o.Header = None,
    standardize: o.Standardize = False,
    criterion: o.Criterion = "ebic",
    starts: o.Starts = 1,
    seed: o.Seed = 0,
    certainty: o.Certainty = None,
    reg_covar: o.RegCovar = "auto",
    max_iter: o.MaxIter = o.MAX_ITER,
    out: o.Out = None,
    stream: o.Stream = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Compare numbers of clusters and covariance models; --out writes the table and curves."""
    request = o.request(
        clusters,
        covariance,
        focal_sets,
        criterion,
        seed,
        starts,
        verbose=not (quiet or json),
        certainty=certainty,
        reg_covar=reg_covar,
        max_iter=max_iter,
    )
    source = o.Source(rows, o.names(columns), label, header)
    from egmm.cli import inspecting

    inspecting.select(
        source,
        request,
        standardize=standardize,
        stream=stream,
        out=out,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command()
@guarded
def compare(
    rows: o.Rows,
    clusters: Annotated[int, typer.Option("--clusters", "-c", min=1, max=MAX_CLUSTERS, help="Number of clusters.")] = 3,
    algorithms: Annotated[
        str | None,
        typer.Option("--algorithms", help="autoegmm, egmm, ecm, fcm, bpec, bootgmm: some, as a,b. Default: all."),
    ] = None,
    columns: o.Columns = None,
    label: o.Label = None,
    header: o.Header = None,
    standardize: o.Standardize = False,
    seed: o.Seed = 0,
    rule: o.Rule = None,
    reward: o.Reward = 0.8,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Table to write: .csv, .parquet, .feather.")] = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Fit several algorithms to the same rows; with --label, score them against the known classes."""
    from egmm.cli import comparing

    known = tuple(comparing.ALGORITHMS)
    comparing.compare(
        o.Source(rows, o.names(columns), label, header),
        known
        if algorithms is None
        else [o.one_of("--algorithms", a.lower(), known) for a in o.names(algorithms, "--algorithms") or ()],
        clusters,
        decision=None if rule is None else o.decision(rule, reward, is_auto=False),
        standardize=standardize,
        seed=seed,
        out=out,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command()
@guarded
def segment(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Picture or volume; several: modalities.")],
    clusters: Annotated[
        str, typer.Option("--clusters", "-c", help="A number, a range 2:6, a list 2,3, or auto (2:6).")
    ] = "auto",
    mask: Annotated[Path | None, typer.Option("--mask", help="Image that is not zero where to segment.")] = None,
    spatial: Annotated[bool, typer.Option("--spatial", help="Let neighbours give evidence: for noisy images.")] = False,
    seed: o.Seed = 0,
    out: o.Out = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Segment an image or volume (PNG, TIFF, NIfTI, ...) and write labels, ambiguity and approximations."""
    counts = o.cluster_counts(clusters, auto=o.AUTO_SEGMENTS)
    from egmm.cli import segmenting

    segmenting.segment(
        images, mask, counts, spatial=spatial, seed=seed, out=out, force=force, as_machine=json, quiet=quiet
    )


@app.command()
@guarded
def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="One table or figure, as table:purity; may be given several times."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two runs of small sets: two minutes.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes. Default: all cores.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write, and to go on.")] = Path("reproduction"),
    data: Annotated[
        Path | None, typer.Option("--data", help="Directory of the data files. Default: EGMM_DATA, else OpenML.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what is there.")] = False,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Compute the paper's tables and figures again, beside what it printed.

    What is done is kept in --out: stopped or killed, the same command goes on where it was.
    """
    from egmm.cli import reproducing

    reproducing.reproduce(
        only, quick=quick, jobs=jobs, out=out, data=data, fresh=fresh, force=force, as_machine=json, quiet=quiet
    )


@app.command()
@guarded
def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="model.json of a fit.")],
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Tell what a model file holds."""
    from egmm.cli import inspecting

    inspecting.info(model, as_machine=json, quiet=quiet)
