"""Options that several commands share, and how their text is read."""

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
"""Numbers of clusters that the automatic model tries."""

FITS = ("auto", "paper")
RULES = ("heaviest", "utility", "dominance")
AUTO_SEGMENTS = range(2, 7)
MAX_ITER = 1000
COLOURS = ("lab", "rgb", "grey")
DATA, MODEL, OUTPUT = "Data", "Model", "Output"
"""Groups of options on a screen of help."""

MISSING_CELLS = ("em", "drop")
"""What may be done with rows that have missing cells, the default first: use what they have, or leave them out."""

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
        help="Square table of dissimilarities between rows, instead of DATA, which may then name the --label.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Clusters = Annotated[
    str,
    typer.Option("--clusters", "-c", help="A number, a range 2:8, a list 2,3,5, or auto (2:8).", rich_help_panel=MODEL),
]
Covariance = Annotated[
    str,
    typer.Option(
        "--covariance", help="A model such as EEE, low-rank, a list EEE,EII, or auto (all).", rich_help_panel=MODEL
    ),
]
FitCovariance = Annotated[
    str | None,
    typer.Option(
        "--covariance",
        help="A model such as EEE, low-rank, a list EEE,EII, or auto (all). Default: all for --model auto, else EEE.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Fit = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="auto: AutoEGMM, the consensus of all sound models; paper: EGMM. Default: auto, unless an option of EGMM "
        "(--clusters, --covariance, --focal-sets, --criterion, --starts, --certainty, --noise, --tails) is given.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Chooses each row's set: heaviest, utility or dominance. Default: utility for auto, else heaviest.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Reward = Annotated[
    float,
    typer.Option(
        "--reward", min=0.5, max=1.0, help="Utility of a right pair, for --rule utility.", rich_help_panel=MODEL
    ),
]
Subsamples = Annotated[
    int,
    typer.Option(
        "--stability",
        min=0,
        help="Fit so many subsamples of 90 % too, and tell how stable the result is.",
        rich_help_panel=MODEL,
    ),
]
Families = Annotated[
    str, typer.Option("--focal-sets", help="pairs, full, singletons, simple or neighbours.", rich_help_panel=MODEL)
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="Columns to cluster, a,b,c. Default: all that hold numbers.", rich_help_panel=DATA),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column that names the rows. Default: one that looks like it.", rich_help_panel=DATA),
]
Exclude = Annotated[str | None, typer.Option("--exclude", help="Columns to leave out, a,b,c.", rich_help_panel=DATA)]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="Rows with missing cells: em uses what they have, drop leaves them out. Default: em for mixtures, drop "
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
        min=0.0,
        max=1.0,
        help="With --semi-supervised: probability that a class is right.",
        rich_help_panel=MODEL,
    ),
]
Label = Annotated[
    str | None,
    typer.Option("--label", help="Column of known classes: left out, and compared with.", rich_help_panel=DATA),
]
LabelLeftOut = Annotated[
    str | None, typer.Option("--label", help="Column of known classes: left out.", rich_help_panel=DATA)
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether CSV files begin with names. Default: detected; a numeric first line is data.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Centre each column and divide by its deviation.", rich_help_panel=DATA)
]
Criterion = Annotated[
    str,
    typer.Option("--criterion", help="Chooses the number of clusters: ebic, bic, icl or aic.", rich_help_panel=MODEL),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of the starts.", min=0, max=2**32 - 1, rich_help_panel=MODEL)
]
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
        help="Prior weight on single clusters: fewer rows are open. Default: 1 to compare covariances, else 0.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Noise = Annotated[
    bool, typer.Option("--noise", help="Rows may belong to no cluster, but to the empty set.", rich_help_panel=MODEL)
]
Tails = Annotated[
    str,
    typer.Option(
        "--tails",
        help="gaussian, or t for heavy tails; t is for the covariances EII, EEI and EEE.",
        rich_help_panel=MODEL,
    ),
]
RegCovar = Annotated[
    str, typer.Option("--reg-covar", help="Ridge: added to every variance, or auto.", rich_help_panel=MODEL)
]
MaxIter = Annotated[
    int, typer.Option("--max-iter", metavar="N", min=1, help="Most steps of a fit.", rich_help_panel=MODEL)
]
Stream = Annotated[
    bool | None,
    typer.Option(
        help="Read files piece by piece. Default: where they exceed 500 MB.", show_default=False, rich_help_panel=DATA
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Where to write.", show_default=False, rich_help_panel=OUTPUT)
]
Force = Annotated[bool, typer.Option("--force", help="Write over files that exist.", rich_help_panel=OUTPUT)]
Json = Annotated[bool, typer.Option("--json", help="Write the result as JSON for machines.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no warnings, no summary.", rich_help_panel=OUTPUT)
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.", rich_help_panel=OUTPUT)]


def examples(*commands: str) -> str:
    """Commands to show below a screen of help, one in a line."""
    return "\n\n".join(["[bold]Examples[/bold]", *(escape(command) for command in commands)])


def cluster_counts(text: str, auto: Sequence[int] = AUTO_CLUSTERS) -> list[int]:
    """Numbers of clusters meant by ``3``, ``2:8``, ``2,3,5`` or ``auto``.

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
        raise _bad_clusters(f"{text!r} is no number, range 2:8, list 2,3,5 or auto.")
    if max(numbers) > MAX_CLUSTERS:
        raise _bad_clusters(f"{text!r} goes beyond {MAX_CLUSTERS} clusters, the most there can be.")
    if not is_range:
        return list(dict.fromkeys(numbers))
    first, last = numbers
    if first > last:
        raise _bad_clusters(f"the range {text!r} runs backwards: write {last}:{first}.")
    return list(range(first, last + 1))


def _bad_clusters(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint="--clusters")


def ridge(text: str) -> float | str:
    """Read ``auto`` or a number.

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
    """Read names with commas between them; a comma inside a name is written twice.

    >>> names("a,b c"), names("a,,b")
    (['a', 'b c'], ['a,b'])
    """
    if text is None:
        return None
    parts = [part.replace("\0", ",").strip() for part in text.replace(",,", "\0").split(",")]
    if not all(parts):
        raise typer.BadParameter(f"{text!r} has an empty name in it.", param_hint=option)
    for name in parts:
        if parts.count(name) > 1:
            raise typer.BadParameter(f"{text!r} has {name!r} twice; name it once.", param_hint=option)
    return parts


def one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Return a value that is among the choices, or tell them."""
    if value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.", param_hint=option)
    return value


class Decision(NamedTuple):
    """How the set of a row is chosen."""

    rule: str = "heaviest"
    reward: float = 0.8

    @property
    def words(self) -> str:
        """The rule in words."""
        if self.rule == "utility":
            return f"by expected utility, reward {self.reward:g}"
        return {"heaviest": "by heaviest set", "dominance": "by interval dominance"}[self.rule]


def decision(rule: str | None, reward: float, *, is_auto: bool) -> Decision:
    """Read --rule and --reward.

    >>> decision(None, 0.8, is_auto=True).words
    'by expected utility, reward 0.8'
    """
    return Decision(one_of("--rule", rule or ("utility" if is_auto else "heaviest"), RULES), reward)


def one_source(rows: str | None, dissimilarities: str | None) -> str:
    """Return the file of rows, empty where there are dissimilarities alone."""
    if rows is None and dissimilarities is None:
        raise typer.BadParameter(
            "Missing argument: name a file of rows, or one of --dissimilarities.", param_hint="DATA"
        )
    return rows or ""


def of_egmm_alone(algorithm: str, changed: dict[str, bool]) -> None:
    """Refuse options that another algorithm does not have."""
    for option, is_changed in changed.items():
        if is_changed:
            raise typer.BadParameter(f"is of egmm alone, not of {algorithm}.", param_hint=option)


def missing_cells(value: str | None, other: str | None = None) -> str:
    """What is done with missing cells, by option or default; `other` names an algorithm that is no mixture."""
    if value is not None:
        one_of("--missing", value, MISSING_CELLS)
    if value == "em" and other is not None:
        raise typer.BadParameter(f"em is for mixtures; {other} takes complete rows: use drop.", param_hint="--missing")
    return value or ("em" if other is None else "drop")


class Source(NamedTuple):
    """Where rows are read from, and which of their columns."""

    path: str
    """A file, a directory of files or a pattern."""
    columns: Sequence[str] | None = None
    """Columns to cluster, in this order; None means all but the label."""
    label: str | None = None
    """Column of known classes."""
    header: bool | None = None
    """Whether text files begin with names; None means unless they begin with numbers, and doubtful ones are refused."""
    id: str | None = None
    """Column that names the rows; None means one that looks like it."""
    exclude: Sequence[str] = ()
    """Columns that are not clustered."""
    missing: str = MISSING_CELLS[0]
    """What is done with missing cells."""


def source(
    path: str,
    columns: str | None,
    label: str | None,
    header: bool | None,
    row_names: str | None,
    exclude: str | None,
    missing: str,
) -> Source:
    """Read the options that say which rows and columns; one column cannot be two things."""
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
            raise typer.BadParameter(f"{name!r} is also named by {named_by[0]}.", param_hint=named_by[1])
    if wanted is not None and unwanted:
        raise typer.BadParameter(
            "--columns already chooses the columns; leave one of the two out.", param_hint="--exclude"
        )
    return Source(path, wanted, label, header, row_names, unwanted, missing)


class Request(NamedTuple):
    """What to fit: one model, or several to choose among by a criterion."""

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
    """Fits to subsamples that tell how stable the automatic model is; 0 for none."""
    reliability: float | None = None
    """Of known classes that are used in the fit; None where they are not."""
    noise: bool = False
    tails: str = "gaussian"

    @property
    def is_single(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.counts) == 1 and self.covariance != "all" and len(self.covariance) == 1

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that every model of the request has; what a search should decide itself is left out."""
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
        known = ("focal_sets", "random_state", "reg_covar", "max_iter", "verbose")
        return {"covariance": self.covariance, **{name: self.parameters[name] for name in known}}


def auto_request(clusters: str, covariance: str | None, seed: int, *, verbose: bool, **rest: Any) -> Request:
    """Read the options of the automatic model.

    >>> auto_request("auto", None, 0, verbose=False).counts
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    counts = cluster_counts(clusters, auto=AUTO_ALL)
    plain = request("2", covariance or "all", "pairs", "ebic", seed, 1, verbose=verbose, **rest)
    return plain._replace(counts=counts, is_auto=True)


def is_automatic(model: str | None, *, only_paper: bool, either: bool) -> bool:
    """Whether AutoEGMM is meant: it is asked for, or no option of EGMM is given.

    >>> is_automatic(None, only_paper=False, either=True), is_automatic("auto", only_paper=False, either=True)
    (False, True)
    """
    if model is not None:
        one_of("--model", model, FITS)
    if model == "auto" and only_paper:
        raise typer.BadParameter(
            "auto chooses the sets, the criterion, the starts and the certainty itself, and has Gaussians without "
            "noise; leave out --focal-sets, --criterion, --starts, --certainty, --noise and --tails, or use "
            "--model paper.",
            param_hint="--model",
        )
    return model == "auto" or (model is None and not (only_paper or either))


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
    noise: bool = False,
    tails: str = "gaussian",
    **rest: Any,
) -> Request:
    """Read the options of ``egmm fit``: those of AutoEGMM or of EGMM."""
    own = (focal_sets, criterion, starts, certainty, noise, tails)
    only_paper = own != ("pairs", "ebic", 1, None, False, "gaussian")
    either = (clusters, covariance) != ("auto", None)
    if is_automatic(model, only_paper=only_paper, either=either):
        return auto_request(clusters, covariance, seed, **rest)
    rest |= {"certainty": certainty, "noise": noise, "tails": tails}
    return request(clusters, covariance or "EEE", focal_sets, criterion, seed, starts, **rest)


def semi_supervised(plain: Request, clusters: str, label: str | None, reliability: float) -> Request:
    """A request whose fit uses the known classes; unless --clusters is given there are as many clusters as classes."""
    if label is None:
        raise typer.BadParameter("name the column of known classes with --label.", param_hint="--semi-supervised")
    if plain.is_auto or not (plain.covariance != "all" and len(plain.covariance) == 1):
        raise typer.BadParameter("fits one model; name one with --covariance.", param_hint="--semi-supervised")
    if clusters != "auto" and len(plain.counts) > 1:
        raise typer.BadParameter(
            "fits one number of clusters; name it with --clusters.", param_hint="--semi-supervised"
        )
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
    """Read the options that say what to fit.

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
