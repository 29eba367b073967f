"""Options that several commands share, and how their text is read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.markup import escape

from egmm.belief.focal import FAMILIES, MAX_CLUSTERS
from egmm.em.covariance import MODELS

CRITERIA = ("ebic", "bic", "icl", "aic")
AUTO_CLUSTERS = range(2, 9)
AUTO_SEGMENTS = range(2, 7)
MAX_ITER = 1000
COLOURS = ("lab", "rgb", "grey")
DATA, MODEL, OUTPUT = "Data", "Model", "Output"
"""Groups of options on a screen of help."""

MISSING_CELLS = ("drop", "em")
"""What may be done with rows that have missing cells, the default first: leave them out, or pass NaN to the fit."""

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
    str, typer.Option("--covariance", help="A model such as EEE, a list EEE,EII, or auto (all).", rich_help_panel=MODEL)
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
    str,
    typer.Option(
        "--missing",
        help="Rows with missing cells: drop leaves them out, em passes them to the fit.",
        rich_help_panel=DATA,
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
    one_of("--missing", missing, MISSING_CELLS)
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
            **given,
        }


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
) -> Request:
    """Read the options that say what to fit.

    >>> request("3", "EEE,VVV", "pairs", "ebic", 0, 1, verbose=False).covariance
    ['EEE', 'VVV']
    """
    known = (*MODELS, "E", "V", "auto", "all")
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
    )
