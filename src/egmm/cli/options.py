"""Options shared by several commands, and their parsing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.markup import escape

from egmm.belief.focal import FAMILIES, MAX_CLUSTERS
from egmm.em.covariance import LOW_RANK, MODELS
from egmm.em.tails import TAILS

CRITERIA = ("ebic", "bic", "icl", "aic")
AUTO_CLUSTERS = range(2, 9)
AUTO_ALL = range(1, 10)
"""Numbers of clusters tried by the automatic model."""

FITS = ("auto", "paper")
RULES = ("heaviest", "utility", "dominance")
AUTO_SEGMENTS = range(2, 7)
MAX_ITER = 1000
COLOURS = ("lab", "rgb", "grey")
DATA, MODEL, OUTPUT = "Data", "Model", "Output"
"""Groups of options in the help."""

PAPER = "Model of the paper (with --model paper)"
PAPER_OPTIONS = ("criterion", "starts", "certainty", "tails", "semi_supervised", "reliability")
"""Options of ``egmm fit`` that AutoEGMM does not have, a separate group in the help."""

MISSING_CELLS = ("em", "drop")
"""Treatments of missing cells, the default first: use the other cells, or drop the rows."""

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
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.", rich_help_panel=OUTPUT)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no warnings, no summary.", rich_help_panel=OUTPUT)
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=OUTPUT)]


def examples(*commands: str) -> str:
    """Examples below the help, one per line."""
    return "\n\n".join(["[bold]Examples[/bold]", *(escape(command) for command in commands)])


def cluster_counts(text: str, auto: Sequence[int] = AUTO_CLUSTERS) -> list[int]:
    """Parse ``3``, ``2:8``, ``2,3,5`` or ``auto`` as numbers of clusters.

    >>> cluster_counts("2:4"), cluster_counts("5,5"), cluster_counts("2,6")
    ([2, 3, 4], [5], [2, 6])
    """
    if text == "auto":
        return list(auto)
    is_range = ":" in text
    try:
        numbers = [int(part) for part in text.split(":" if is_range else ",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1 or (is_range and len(numbers) != 2):
        raise _bad_clusters(f"{text!r} is not a number, a range 2:8, a list 2,3,5 or auto.")
    if max(numbers) > MAX_CLUSTERS:
        raise _bad_clusters(f"{text!r} exceeds the maximum of {MAX_CLUSTERS} clusters.")
    if not is_range:
        return list(dict.fromkeys(numbers))
    first, last = numbers
    if first > last:
        raise _bad_clusters(f"the range {text!r} is reversed; use {last}:{first}.")
    return list(range(first, last + 1))


def _bad_clusters(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint="--clusters")


def ridge(text: str) -> float | str:
    """Parse ``auto`` or a number.

    >>> ridge("auto"), ridge("0.01")
    ('auto', 0.01)
    """
    try:
        value = text if text == "auto" else float(text)
    except ValueError:
        value = -1.0
    if isinstance(value, float) and not 0 <= value < float("inf"):
        raise typer.BadParameter(f"{text!r} is neither auto nor a number >= 0.", param_hint="--reg-covar")
    return value


def names(text: str | None, option: str = "--columns") -> list[str] | None:
    """Parse names separated by commas; a comma inside a name is written twice.

    >>> names("a,b c"), names("a,,b")
    (['a', 'b c'], ['a,b'])
    """
    if text is None:
        return None
    parts = [part.replace("\0", ",").strip() for part in text.replace(",,", "\0").split(",")]
    if not all(parts):
        raise typer.BadParameter(f"{text!r} contains an empty name.", param_hint=option)
    for name in parts:
        if parts.count(name) > 1:
            raise typer.BadParameter(f"{text!r} contains {name!r} twice.", param_hint=option)
    return parts


def one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Validate a choice."""
    if value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.", param_hint=option)
    return value


class Decision(NamedTuple):
    """Rule for choosing the set of a row."""

    rule: str = "heaviest"
    reward: float = 0.8

    @property
    def words(self) -> str:
        """The rule in words."""
        if self.rule == "utility":
            return f"by expected utility (reward {self.reward:g})"
        return {"heaviest": "by heaviest set", "dominance": "by interval dominance"}[self.rule]


def decision(rule: str | None, reward: float, *, is_auto: bool) -> Decision:
    """Parse --rule and --reward.

    >>> decision(None, 0.8, is_auto=True).words
    'by expected utility (reward 0.8)'
    """
    return Decision(one_of("--rule", rule or ("utility" if is_auto else "heaviest"), RULES), reward)


def one_source(rows: str | None, dissimilarities: str | None) -> str:
    """File of rows; empty if there are only dissimilarities."""
    if rows is None and dissimilarities is None:
        raise typer.BadParameter("Missing argument: pass a file of rows, or --dissimilarities.", param_hint="DATA")
    return rows or ""


def refuse_egmm_options(algorithm: str, changed: dict[str, bool]) -> None:
    """Raise on options that another algorithm does not have."""
    for option, is_changed in changed.items():
        if is_changed:
            raise typer.BadParameter(f"applies only to egmm, not to {algorithm}.", param_hint=option)


def missing_cells(value: str | None, other: str | None = None) -> str:
    """Treatment of missing cells, by option or default; `other` names an algorithm that is not a mixture."""
    if value is not None:
        one_of("--missing", value, MISSING_CELLS)
    if value == "em" and other is not None:
        raise typer.BadParameter(f"em is for mixtures; {other} needs complete rows; use drop.", param_hint="--missing")
    return value or ("em" if other is None else "drop")


class Source(NamedTuple):
    """Files of rows, and the columns to use."""

    path: str
    """A file, a directory of files or a pattern."""
    columns: Sequence[str] | None = None
    """Columns to cluster, in this order; None means all but the label."""
    label: str | None = None
    """Column of known classes."""
    header: bool | None = None
    """Whether text files have column names; None detects it, and an unclear first line is an error."""
    id: str | None = None
    """Column with row names; None means detected."""
    exclude: Sequence[str] = ()
    """Columns that are not clustered."""
    missing: str = MISSING_CELLS[0]
    """Treatment of missing cells."""


def source(
    path: str,
    columns: str | None,
    label: str | None,
    header: bool | None,
    row_names: str | None,
    exclude: str | None,
    missing: str,
) -> Source:
    """Parse the options for rows and columns; a column can have only one role."""
    wanted, unwanted = names(columns), names(exclude, "--exclude") or []
    uses: dict[str, Sequence[str | None]] = {
        "--columns": wanted or [],
        "--exclude": unwanted,
        "--label": [label],
        "--id": [row_names],
    }
    for name in [name for listed in uses.values() for name in listed if name is not None]:
        named_by = [option for option, listed in uses.items() if name in listed]
        if len(named_by) > 1 and named_by != ["--columns", "--label"]:
            raise typer.BadParameter(f"{name!r} is also used by {named_by[0]}.", param_hint=named_by[1])
    if wanted is not None and unwanted:
        raise typer.BadParameter("cannot be combined with --columns.", param_hint="--exclude")
    return Source(path, wanted, label, header, row_names, unwanted, missing)


class Request(NamedTuple):
    """Models to fit: one, or several to choose from by a criterion."""

    counts: Sequence[int]
    covariance: str | Sequence[str]
    focal_sets: str
    criterion: str
    seed: int
    starts: int
    verbose: bool
    certainty: float | None = None
    reg_covar: float | str = "auto"
    max_iter: int = MAX_ITER
    is_auto: bool = False
    """Whether AutoEGMM chooses."""
    decision: Decision = Decision()
    n_subsamples: int = 0
    """Number of subsamples for the stability check; 0 for none."""
    reliability: float | None = None
    """Reliability of known classes that are used in the fit; None if they are not used."""
    noise: bool = False
    tails: str = "gaussian"
    is_implied: bool = False
    """Whether the paper's model is fitted without being requested, for an option that AutoEGMM does not have."""

    @property
    def is_single(self) -> bool:
        """Whether there is a single model."""
        return len(self.counts) == 1 and self.covariance != "all" and len(self.covariance) == 1

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of every requested model, without those that a search decides."""
        given = {} if self.certainty is None else {"certainty": self.certainty}
        return {
            "focal_sets": self.focal_sets,
            "n_init": self.starts,
            "random_state": self.seed,
            "reg_covar": self.reg_covar,
            "max_iter": self.max_iter,
            "verbose": int(self.verbose),
            "noise": self.noise,
            "tails": self.tails,
            **given,
        }

    @property
    def auto_parameters(self) -> dict[str, Any]:
        """Parameters of AutoEGMM."""
        known = ("focal_sets", "random_state", "reg_covar", "max_iter", "verbose", "noise")
        return {"covariance": self.covariance, **{name: self.parameters[name] for name in known}}


def auto_request(clusters: str, covariance: str | None, focal_sets: str, seed: int, **rest: Any) -> Request:
    """Read the options of AutoEGMM.

    >>> auto_request("auto", None, "pairs", 0, verbose=False).counts
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    found = request("2", covariance or "all", focal_sets, "ebic", seed, 1, **rest)
    return found._replace(counts=cluster_counts(clusters, auto=AUTO_ALL), is_auto=True)


def fit_request(
    model: str | None,
    clusters: str,
    covariance: str | None,
    focal_sets: str,
    criterion: str,
    seed: int,
    starts: int,
    *,
    certainty: float | None,
    tails: str = "gaussian",
    **rest: Any,
) -> Request:
    """Read the options of ``egmm fit``: AutoEGMM, or the paper's model if it is requested.

    >>> fit_request(None, "auto", None, "pairs", "ebic", 0, 1, certainty=None, verbose=False).counts
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    if model is not None:
        one_of("--model", model, FITS)
    if model == "paper":
        rest |= {"certainty": certainty, "tails": tails}
        return request(clusters, covariance or "EEE", focal_sets, criterion, seed, starts, **rest)
    given = {
        "--criterion": criterion != "ebic",
        "--starts": starts != 1,
        "--certainty": certainty is not None,
        "--tails": tails != "gaussian",
    }
    for option, is_given in given.items():
        if is_given:
            raise typer.BadParameter("AutoEGMM has no such option; add --model paper.", param_hint=option)
    return auto_request(clusters, covariance, focal_sets, seed, **rest)


def semi_supervised(plain: Request, clusters: str, label: str | None, reliability: float) -> Request:
    """A request whose fit uses the known classes; by default with one cluster per class."""
    if label is None:
        raise typer.BadParameter("needs the column of known classes, --label.", param_hint="--semi-supervised")
    if plain.is_auto:
        raise typer.BadParameter("AutoEGMM does not use classes; use --model paper.", param_hint="--semi-supervised")
    if plain.covariance == "all" or len(plain.covariance) > 1:
        raise typer.BadParameter("fits one model; choose it with --covariance.", param_hint="--semi-supervised")
    if clusters != "auto" and len(plain.counts) > 1:
        raise typer.BadParameter("needs one number of clusters, --clusters.", param_hint="--semi-supervised")
    counts = [] if clusters == "auto" else plain.counts
    return plain._replace(counts=counts, reliability=reliability)


def request(
    clusters: str,
    covariance: str,
    focal_sets: str,
    criterion: str,
    seed: int,
    starts: int,
    *,
    verbose: bool,
    certainty: float | None = None,
    reg_covar: str = "auto",
    max_iter: int = MAX_ITER,
    noise: bool = False,
    tails: str = "gaussian",
) -> Request:
    """Parse the options for the models to fit.

    >>> request("3", "EEE,VVV", "pairs", "ebic", 0, 1, verbose=False).covariance
    ['EEE', 'VVV']
    """
    known = (*MODELS, LOW_RANK, "E", "V", "auto", "all")
    models = list(dict.fromkeys(one_of("--covariance", part.strip(), known) for part in covariance.split(",")))
    return Request(
        cluster_counts(clusters),
        "all" if {"auto", "all"} & set(models) else models,
        one_of("--focal-sets", focal_sets, FAMILIES),
        one_of("--criterion", criterion, CRITERIA),
        seed,
        starts,
        verbose,
        certainty,
        ridge(reg_covar),
        max_iter,
        noise=noise,
        tails=one_of("--tails", tails, TAILS),
    )
