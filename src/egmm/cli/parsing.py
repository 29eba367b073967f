"""Values of options, checked: the rows to read, the models to fit, the rule for sets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import typer

from egmm.belief.focal import FAMILIES, MAX_CLUSTERS
from egmm.em.covariance import LOW_RANK, MODELS

CRITERIA = ("ebic", "bic", "icl", "aic")
AUTO_CLUSTERS = range(2, 9)
AUTO_ALL = range(1, 10)
"""Numbers of clusters tried by the automatic model."""

FITS = ("auto", "paper")
RULES = ("heaviest", "utility", "dominance")
AUTO_SEGMENTS = range(2, 7)
MAX_ITER = 1000
COLOURS = ("lab", "rgb", "grey")

MISSING_CELLS = ("em", "drop")
"""Treatments of missing cells, the default first: use the other cells, or drop the rows."""


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
    from egmm.em.tails import TAILS  # noqa: PLC0415  Slow to import, too long for help.

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
