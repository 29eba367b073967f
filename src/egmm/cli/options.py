"""Options and arguments of the commands: names, groups and help."""

from pathlib import Path
from typing import Annotated

import typer

from egmm.belief.focal import MAX_CLUSTERS

DATA, MODEL, OUTPUT = "Data", "Model", "Output"
"""Groups of options in the help."""

PAPER = "Model of the paper (with --model paper)"
PAPER_OPTIONS = ("criterion", "starts", "certainty", "tails", "semi_supervised", "reliability")
"""Options of ``egmm fit`` that AutoEGMM does not have, a separate group in the help."""

Rows = Annotated[
    str,
    typer.Argument(metavar="DATA", help="CSV, Parquet, Feather or .npy file, a directory of them, or a 'pattern*'."),
]
RowsOrNone = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, Feather or .npy file, a directory of them, or a 'pattern*'.",
        show_default=False,
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="model.json written by fit.")]
Dissimilarities = Annotated[
    str | None,
    typer.Option(
        "--dissimilarities",
        metavar="FILE",
        help="Square table of dissimilarities instead of DATA; DATA may then supply the --label.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Clusters = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-c",
        metavar="LIST",
        help="A number, a range 2:8, a list 2,3,5, or auto (2:8).",
        rich_help_panel=MODEL,
    ),
]
FitClusters = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-c",
        metavar="LIST",
        help="A number, a range 2:8, a list 2,3,5, or auto (1:9, with --model paper 2:8).",
        rich_help_panel=MODEL,
    ),
]
SegmentClusters = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-c",
        metavar="LIST",
        help="A number, a range 2:6, a list 2,3, or auto (2:6).",
        rich_help_panel=MODEL,
    ),
]
ClusterCount = Annotated[
    int,
    typer.Option(
        "--clusters",
        "-c",
        metavar="N",
        min=1,
        max=MAX_CLUSTERS,
        help="Number of clusters.",
        rich_help_panel=MODEL,
    ),
]
Covariance = Annotated[
    str,
    typer.Option(
        "--covariance",
        metavar="LIST",
        help="A model such as EEE, low-rank, a list EEE,EII, or auto (all).",
        rich_help_panel=MODEL,
    ),
]
FitCovariance = Annotated[
    str | None,
    typer.Option(
        "--covariance",
        metavar="LIST",
        help="A model such as EEE, low-rank, a list EEE,EII, or auto (all). Default: all, with --model paper EEE.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Fit = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="auto: AutoEGMM, the consensus of all sound models; paper: EGMM, the model of the paper. Default: auto.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Algorithm = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        "-a",
        metavar="NAME",
        help="An algorithm of compare, which writes masses, labels and figures, but no model and no report. "
        "autoegmm and egmm mean --model auto and paper.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        metavar="NAME",
        help="Rule for each row's set: heaviest, utility or dominance. Default: utility for AutoEGMM, else heaviest.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Reward = Annotated[
    float,
    typer.Option(
        "--reward",
        metavar="X",
        min=0.5,
        max=1.0,
        help="Utility of a correct pair, for --rule utility.",
        rich_help_panel=MODEL,
    ),
]
Subsamples = Annotated[
    int,
    typer.Option(
        "--stability",
        metavar="N",
        min=0,
        help="Number of 90 % subsamples to fit for a stability check.",
        rich_help_panel=MODEL,
    ),
]
Families = Annotated[
    str,
    typer.Option(
        "--focal-sets", metavar="NAME", help="pairs, full, singletons, simple or neighbours.", rich_help_panel=MODEL
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="LIST", help="Columns to cluster, a,b,c. Default: all numeric.", rich_help_panel=DATA
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column with row names. Default: detected.", rich_help_panel=DATA),
]
Exclude = Annotated[
    str | None, typer.Option("--exclude", metavar="LIST", help="Columns to skip, a,b,c.", rich_help_panel=DATA)
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="NAME",
        help="Rows with missing cells: em uses their other cells, drop skips them. Default: em for mixtures, drop "
        "for other algorithms.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
SemiSupervised = Annotated[
    bool,
    typer.Option(
        "--semi-supervised",
        help="Use the classes of --label as evidence in the fit; rows without a class are clustered.",
        rich_help_panel=MODEL,
    ),
]
Reliability = Annotated[
    float,
    typer.Option(
        "--reliability",
        metavar="X",
        min=0.0,
        max=1.0,
        help="Probability that a class is correct, for --semi-supervised.",
        rich_help_panel=MODEL,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="COLUMN", help="Column of known classes: not clustered, but compared.", rich_help_panel=DATA
    ),
]
LabelLeftOut = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="Column of known classes, not clustered.", rich_help_panel=DATA),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether CSV files have column names. Default: detected; a numeric first line is data.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Standardize = Annotated[
    bool,
    typer.Option("--standardize", help="Scale each column to mean 0 and standard deviation 1.", rich_help_panel=DATA),
]
Criterion = Annotated[
    str,
    typer.Option(
        "--criterion",
        metavar="NAME",
        help="Criterion for the number of clusters: ebic, bic, icl or aic.",
        rich_help_panel=MODEL,
    ),
]


def _seed(value: int) -> int:
    """Check a random seed; a range in the option would fill the help with its bounds."""
    if not 0 <= value < 2**32:
        raise typer.BadParameter(f"{value} is not in the range from 0 to {2**32 - 1}.")
    return value


Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.", callback=_seed, rich_help_panel=MODEL)]
Starts = Annotated[
    int,
    typer.Option(
        "--starts", metavar="N", help="Number of starts; the best likelihood is kept.", min=1, rich_help_panel=MODEL
    ),
]
Certainty = Annotated[
    float | None,
    typer.Option(
        "--certainty",
        metavar="X",
        min=0.0,
        help="Prior weight on single clusters, for fewer open rows. Default: 1 to compare covariances, else 0.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Noise = Annotated[
    bool, typer.Option("--noise", help="Allow rows that belong to no cluster (empty set).", rich_help_panel=MODEL)
]
Tails = Annotated[
    str,
    typer.Option(
        "--tails",
        metavar="NAME",
        help="gaussian, or t for heavy tails, with covariance EII, EEI or EEE.",
        rich_help_panel=MODEL,
    ),
]
RegCovar = Annotated[
    str, typer.Option("--reg-covar", metavar="X", help="Ridge added to every variance, or auto.", rich_help_panel=MODEL)
]
MaxIter = Annotated[
    int, typer.Option("--max-iter", metavar="N", min=1, help="Maximum number of steps of a fit.", rich_help_panel=MODEL)
]
Stream = Annotated[
    bool | None,
    typer.Option(help="Read files block by block. Default: above 500 MB.", show_default=False, rich_help_panel=DATA),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PATH", help="Output directory.", show_default=False, rich_help_panel=OUTPUT),
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="PATH",
        help=".csv, .parquet or .feather. Default: CSV on standard output.",
        rich_help_panel=OUTPUT,
    ),
]
Table = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="NAME",
        help="Format of masses and labels: csv, parquet, feather. Default: csv for text files.",
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.", rich_help_panel=OUTPUT)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no warnings, no summary.", rich_help_panel=OUTPUT)
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=OUTPUT)]
