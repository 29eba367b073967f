"""The commands and their options; the other modules do the work and are imported on demand."""

from pathlib import Path
from typing import Annotated

import typer

from egmm import __version__
from egmm.cli import options as o
from egmm.cli import parsing
from egmm.cli.help import Command, Commands, FitCommand, examples
from egmm.cli.screen import guarded

# Importing an estimator takes about a second, too long for help and completion.
# ruff: noqa: PLC0415

TABLES = ("parquet", "csv", "feather")


app = typer.Typer(
    name="egmm",
    cls=Commands,
    help="Evidential clustering: which cluster each row belongs to, and which rows are open.",
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(cls=Command, epilog=examples("egmm demo", "egmm demo --out somewhere --force"))
@guarded
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="PATH", help="Output directory.", rich_help_panel=o.OUTPUT)
    ] = Path("egmm-demo"),
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Cluster three small examples and write figures and a report."""
    from egmm.cli.demo import demo as work

    work(out, force=force, as_machine=json, quiet=quiet)


@app.command(
    cls=FitCommand,
    epilog=examples("egmm fit penguins.csv", "egmm fit flowers.csv -c 2:6 --label species --out flowers"),
)
@guarded
def fit(
    rows: o.RowsOrNone = None,
    dissimilarities: o.Dissimilarities = None,
    columns: o.Columns = None,
    exclude: o.Exclude = None,
    label: o.Label = None,
    id: o.Id = None,
    missing: o.Missing = None,
    header: o.Header = None,
    standardize: o.Standardize = False,
    clusters: o.FitClusters = "auto",
    model: o.Fit = None,
    algorithm: o.Algorithm = None,
    covariance: o.FitCovariance = None,
    focal_sets: o.Families = "pairs",
    criterion: o.Criterion = "ebic",
    starts: o.Starts = 1,
    seed: o.Seed = 0,
    certainty: o.Certainty = None,
    noise: o.Noise = False,
    tails: o.Tails = "gaussian",
    reg_covar: o.RegCovar = "auto",
    max_iter: o.MaxIter = parsing.MAX_ITER,
    semi_supervised: o.SemiSupervised = False,
    reliability: o.Reliability = 1.0,
    rule: o.Rule = None,
    reward: o.Reward = 0.8,
    stability: o.Subsamples = 0,
    out: o.Out = None,
    table: o.Table = None,
    plots: Annotated[bool, typer.Option(help="Write figures.", rich_help_panel=o.OUTPUT)] = True,
    stream: o.Stream = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Cluster rows and write model, masses, labels, figures and a report.

    By default, AutoEGMM compares models for all numbers of --clusters and combines the sound ones.
    --model paper fits EGMM, the model of the paper, instead.
    Without --out, files go to a new directory egmm-NAME.
    """
    if table is not None:
        parsing.one_of("--table", table, TABLES)
    own, name = model, None
    if algorithm is not None or dissimilarities is not None:
        from egmm.cli import algorithms

        own, name = algorithms.read_algorithm(algorithm, model, is_relational=dissimilarities is not None)
    cells = parsing.missing_cells(missing, name)
    source = parsing.source(parsing.one_source(rows, dissimilarities), columns, label, header, id, exclude, cells)
    is_implied = semi_supervised and own is None and name is None
    request = parsing.fit_request(
        "paper" if name or is_implied else own,
        clusters,
        covariance,
        focal_sets,
        criterion,
        seed,
        starts,
        verbose=not (quiet or json),
        certainty=certainty,
        noise=noise,
        tails=tails,
        reg_covar=reg_covar,
        max_iter=max_iter,
    )
    if semi_supervised:
        request = parsing.semi_supervised(request, clusters, label, reliability)._replace(is_implied=is_implied)
    if stability and not request.is_auto:
        raise typer.BadParameter("only for AutoEGMM; omit --model and --algorithm.", param_hint="--stability")
    request = request._replace(decision=parsing.decision(rule, reward, is_auto=request.is_auto), n_subsamples=stability)
    if name is not None:
        parsing.refuse_egmm_options(
            name,
            {
                "--model": model is not None,
                "--covariance": covariance is not None,
                "--criterion": criterion != "ebic",
                "--certainty": certainty is not None,
                "--noise": noise,
                "--tails": tails != "gaussian",
                "--reg-covar": reg_covar != "auto",
                "--semi-supervised": semi_supervised,
                "--stream": stream is not None,
            },
        )
        algorithms.fit_algorithm(
            name,
            source,
            request,
            clusters=clusters,
            dissimilarities=dissimilarities,
            standardize=standardize,
            table=table,
            plots=plots,
            out=out,
            force=force,
            as_machine=json,
            quiet=quiet,
        )
        return
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


@app.command(
    cls=Command,
    epilog=examples(
        "egmm predict flowers/model.json new.csv > assigned.csv",
        "egmm predict flowers/model.json new.csv --out assigned.parquet",
    ),
)
@guarded
def predict(
    model: o.ModelFile,
    rows: o.Rows,
    id: o.Id = None,
    header: o.Header = None,
    stream: o.Stream = None,
    rule: o.Rule = None,
    reward: o.Reward = 0.8,
    out: o.OutFile = None,
    masses: Annotated[bool, typer.Option(help="Also write the masses of all sets.", rich_help_panel=o.OUTPUT)] = True,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Assign rows to the clusters of a fitted model: cluster, set, doubt and masses."""
    from egmm.cli import fitting

    fitting.predict(
        model,
        parsing.Source(rows, header=header, id=id),
        out=out,
        masses=masses,
        rule=rule,
        reward=reward,
        stream=stream,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command(
    cls=Command,
    epilog=examples(
        "egmm select flowers.csv -c 1:9 --label species", "egmm select flowers.csv --covariance auto --out choice"
    ),
)
@guarded
def select(
    rows: o.Rows,
    columns: o.Columns = None,
    exclude: o.Exclude = None,
    label: o.LabelLeftOut = None,
    id: o.Id = None,
    missing: o.Missing = None,
    header: o.Header = None,
    standardize: o.Standardize = False,
    clusters: o.Clusters = "auto",
    covariance: o.Covariance = "EEE",
    focal_sets: o.Families = "pairs",
    criterion: o.Criterion = "ebic",
    starts: o.Starts = 1,
    seed: o.Seed = 0,
    certainty: o.Certainty = None,
    noise: o.Noise = False,
    tails: o.Tails = "gaussian",
    reg_covar: o.RegCovar = "auto",
    max_iter: o.MaxIter = parsing.MAX_ITER,
    out: o.Out = None,
    stream: o.Stream = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Compare numbers of clusters and covariance models; --out writes the table and curves."""
    request = parsing.request(
        clusters,
        covariance,
        focal_sets,
        criterion,
        seed,
        starts,
        verbose=not (quiet or json),
        certainty=certainty,
        noise=noise,
        tails=tails,
        reg_covar=reg_covar,
        max_iter=max_iter,
    )
    source = parsing.source(rows, columns, label, header, id, exclude, parsing.missing_cells(missing))
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


@app.command(
    cls=Command,
    epilog=examples(
        "egmm compare flowers.csv -c 3 --label species", "egmm compare flowers.csv -c 3 --algorithms egmm,ecm"
    ),
)
@guarded
def compare(
    rows: o.RowsOrNone = None,
    dissimilarities: o.Dissimilarities = None,
    columns: o.Columns = None,
    exclude: o.Exclude = None,
    label: o.Label = None,
    id: o.Id = None,
    missing: o.Missing = None,
    header: o.Header = None,
    standardize: o.Standardize = False,
    clusters: o.ClusterCount = 3,
    algorithms: Annotated[
        str | None,
        typer.Option(
            "--algorithms",
            metavar="LIST",
            help="Names a,b from autoegmm, egmm, ecm, fcm, bpec, bootgmm, ccm, nnevclus, evclus, recm, ecmdd, mecm, "
            "eknnclus, or all. Default: the first six, with --dissimilarities the last five.",
            rich_help_panel=o.MODEL,
        ),
    ] = None,
    seed: o.Seed = 0,
    rule: o.Rule = None,
    reward: o.Reward = 0.8,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="PATH", help="Table to write: .csv, .parquet or .feather.", rich_help_panel=o.OUTPUT
        ),
    ] = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Fit several algorithms to the same rows; --label scores them against known classes."""
    cells = parsing.missing_cells(missing, "compare")
    source = parsing.source(parsing.one_source(rows, dissimilarities), columns, label, header, id, exclude, cells)
    from egmm.cli import comparing

    known = comparing.usable(is_relational=dissimilarities is not None)
    named = parsing.names(algorithms, "--algorithms")
    if named is None:
        chosen = list(comparing.default(is_relational=dissimilarities is not None))
    else:
        chosen = list(known) if named == ["all"] else [parsing.one_of("--algorithms", a.lower(), known) for a in named]
    comparing.compare(
        source,
        chosen,
        clusters,
        dissimilarities=dissimilarities,
        decision=None if rule is None else parsing.decision(rule, reward, is_auto=False),
        standardize=standardize,
        seed=seed,
        out=out,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command(
    cls=Command,
    epilog=examples("egmm segment photo.jpg -c 4", "egmm segment t1.nii.gz t2.nii.gz --mask brain.nii.gz -c 3"),
)
@guarded
def segment(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE", help="Image or volume; several images show one scene in several modalities."),
    ],
    mask: Annotated[
        Path | None,
        typer.Option(
            "--mask", metavar="FILE", help="Image that is non-zero in the region to segment.", rich_help_panel=o.DATA
        ),
    ] = None,
    clusters: o.SegmentClusters = "auto",
    colour: Annotated[
        str,
        typer.Option(
            "--colour", metavar="NAME", help="Features of a colour picture: lab, rgb or grey.", rich_help_panel=o.MODEL
        ),
    ] = "lab",
    spatial: Annotated[
        bool, typer.Option("--spatial", help="Use evidence of neighbours, for noisy images.", rich_help_panel=o.MODEL)
    ] = False,
    seed: o.Seed = 0,
    out: o.Out = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Segment an image or volume (PNG, TIFF, NIfTI, ...) and write label and uncertainty maps."""
    counts = parsing.cluster_counts(clusters, auto=parsing.AUTO_SEGMENTS)
    from egmm.cli import segmenting

    segmenting.segment(
        images,
        mask,
        counts,
        spatial=spatial,
        colour=parsing.one_of("--colour", colour, parsing.COLOURS),
        seed=seed,
        out=out,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command(
    cls=Command, epilog=examples("egmm data iris > iris.csv", "egmm data four-class --rows 2000 --out four.parquet")
)
@guarded
def data(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Data set. Default: list the names.")] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", min=1, help="Number of rows of a simulated set.", rich_help_panel=o.DATA),
    ] = None,
    seed: o.Seed = 0,
    out: o.OutFile = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Print a data set as CSV, for trying the other commands."""
    from egmm.cli import embedded

    chosen = None if name is None else parsing.one_of("NAME", name.lower(), embedded.NAMES)
    embedded.data(chosen, rows=rows, seed=seed, out=out, force=force, as_machine=json, quiet=quiet)


@app.command(
    cls=Command,
    epilog=examples("egmm reproduce --quick --out quick", "egmm reproduce --only table:purity --sets Iris,Wine"),
)
@guarded
def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="A table or figure, such as table:purity; repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two runs of small sets, in two minutes.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Number of processes. Default: all cores.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="PATH", help="Output directory, resumed if it exists.", rich_help_panel=o.OUTPUT
        ),
    ] = Path("reproduction"),
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="PATH", help="Directory of the data files. Default: EGMM_DATA, packages, OpenML."
        ),
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option("--sets", metavar="LIST", help="Real data sets, such as Iris,Seeds. Default: all eight."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Recompute existing results.")] = False,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Regenerate the paper's tables and figures, next to the printed values.

    Results are stored in --out: after a stop, the same command resumes.
    """
    from egmm.cli import reproducing

    reproducing.reproduce(
        only,
        quick=quick,
        jobs=jobs,
        out=out,
        data=data,
        sets=parsing.names(sets, "--sets"),
        fresh=fresh,
        force=force,
        as_machine=json,
        quiet=quiet,
    )


@app.command(cls=Command, epilog=examples("egmm info flowers/model.json", "egmm info flowers/model.json --json"))
@guarded
def info(
    model: o.ModelFile,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,  # noqa: ARG001
) -> None:
    """Show the contents of a model file."""
    from egmm.cli import inspecting

    inspecting.info(model, as_machine=json, quiet=quiet)
