"""Description of a fit in sentences."""

from typing import Any

import numpy as np

from egmm._checks import BoolArray
from egmm.belief.partition import CredalPartition, check_partition
from egmm.belief.uncertainty import average_nonspecificity
from egmm.sources import CLOSE


def describe(
    model: Any,
    partition: CredalPartition,
    *,
    outliers: BoolArray | None = None,
    selection: Any = None,
    rule: str = "heaviest",
    reward: float = 0.8,
) -> list[str]:
    """Describe in a few sentences what a model found and how sure it is.

    Parameters
    ----------
    model : EGMM
        Fitted model.
    partition : CredalPartition
        Masses of the rows it was fitted to.
    outliers : ndarray of bool of shape (n_samples,), default=None
        Rows far from every cluster, as from ``model.outliers(X)``.
    selection : Selection, default=None
        Candidates that the model was chosen from.
    rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
        What makes a row open, see :meth:`egmm.CredalPartition.is_open`.
    reward : float, default=0.8
        Utility of a pair that contains the right cluster, for ``rule="utility"``.

    Returns
    -------
    sentences : list of str

    Examples
    --------
    >>> from egmm import EGMM
    >>> from egmm.datasets import make_diamond
    >>> X, _ = make_diamond()
    >>> model = EGMM(2, reg_covar=0.01, random_state=0).fit(X)
    >>> describe(model, model.partition(X))[0]
    'EGMM found 2 clusters in 11 rows of 2 features.'
    """
    n_rows = len(check_partition("partition", partition))
    sentences = [
        (
            f"EGMM found {_count(partition.n_clusters, 'cluster')} in {_count(n_rows, 'row')} "
            f"of {_count(model.n_features_in_, 'feature')}."
        )
    ]
    sentences += _sureness(partition, rule, reward)
    if outliers is not None:
        sentences.append(_outlying(int(outliers.sum()), n_rows, is_noise=partition.focal_sets.has_empty))
    if selection is not None:
        sentences.append(_choice(selection))
        sentences += [f"{selection.advice}."] if selection.advice else []
    sentences += _fit(model)
    return sentences


def _sureness(partition: CredalPartition, rule: str, reward: float) -> list[str]:
    focal, chosen = partition.focal_sets, partition.sets()
    n_rows = len(partition)
    n_open = int(partition.is_open(rule, reward).sum())
    average = average_nonspecificity(partition.mass, focal)
    sentences = [
        _open(n_open, n_rows, rule, reward),
        f"Average nonspecificity is {average:.3f} (0: every row certain, 1: nothing known).",
    ]
    empty = [k for k in range(focal.n_clusters) if not (focal.masks[chosen] == 1 << k).any()]
    if empty:
        names = ", ".join(str(k + 1) for k in empty)
        which, are = (f"cluster {names}", "it is") if len(empty) == 1 else (f"clusters {names}", "they are")
        sentences.append(
            f"No row has its largest mass on {which} alone: {are} supported only by sets with other clusters; "
            "try fewer clusters."
        )
    metas = np.flatnonzero(focal.is_meta)
    if len(metas):
        mean = partition.mass[:, metas].mean(axis=0)
        heaviest = int(mean.argmax())
        if mean[heaviest] >= 0.005:
            sentences.append(
                f"The clusters that overlap most are {focal.labels[metas[heaviest]]}, "
                f"with {100 * mean[heaviest]:.1f} % of all mass on this set."
            )
    return sentences


def rule_words(rule: str, reward: float) -> str:
    """Name of the rule that chooses the set of a row.

    >>> rule_words("utility", 0.8)
    'expected utility (reward 0.8)'
    """
    names = {"heaviest": "heaviest set", "dominance": "interval dominance"}
    return names.get(rule, f"expected utility (reward {reward:g})")


def _open(number: int, total: int, rule: str, reward: float) -> str:
    how = rule_words(rule, reward)
    if number == 0:
        return f"Every row is sure by {how}."
    verb, whose = ("is", "its") if number == 1 else ("are", "their")
    return f"{_share(number, total)} {verb} open by {how}: {whose} set has several clusters."


def _choice(selection: Any) -> str:
    name = selection.criterion.upper()
    fitted = [c for c in selection.candidates if c.is_fitted]
    if not selection.is_top:
        return (
            f"{name} chose {_count(selection.n_clusters, 'cluster')} among "
            f"{_count(len(selection.candidates), 'candidate')}; among its covariance models, the partition of "
            f"{selection.covariance} agrees most with the others."
        )
    sentence = (
        f"{name} chose {_count(selection.n_clusters, 'cluster')} with covariance {selection.covariance} "
        f"among {_count(len(selection.candidates), 'candidate')}"
    )
    chosen = next(c for c in fitted if (c.n_clusters, c.covariance) == (selection.n_clusters, selection.covariance))
    others = [c for c in fitted if c is not chosen]
    # Degenerate fits are not compared; if the chosen one is degenerate, all are.
    sound = [c for c in others if not c.is_degenerate or chosen.is_degenerate]
    if not others:
        return sentence + "."
    if not sound:
        return sentence + f"; {'the other is' if len(others) == 1 else 'all others are'} degenerate."
    second = min(sound, key=lambda c: abs(c.value(selection.criterion) - chosen.value(selection.criterion)))
    gap = abs(second.value(selection.criterion) - chosen.value(selection.criterion))
    is_close = selection.criterion == "ebic" and gap < CLOSE
    which = f"; the next best, {second.n_clusters} with {second.covariance}, differs by {gap:.1f}"
    return sentence + which + (", too little to tell which is better." if is_close else ".")


def _outlying(found: int, n_rows: int, *, is_noise: bool) -> str:
    """How many rows are outliers, and what makes them so."""
    one, several, what = (
        ("belongs", "belong", "to no cluster: the empty set is the heaviest")
        if is_noise
        else ("lies", "lie", "far from every cluster")
    )
    if not found:
        return f"No row {one} {what}."
    return f"{_share(found, n_rows)} {one if found == 1 else several} {what} (outliers)."


def _fit(model: Any) -> list[str]:
    steps = _count(model.n_iter_, "step")
    sentences = [
        f"The fit converged after {steps}."
        if model.converged_
        else f"The fit did NOT converge in {steps}; raise max_iter."
    ]
    degrees = getattr(model, "degrees_of_freedom_", None)
    if degrees is not None:
        sentences.append(f"Its tails are those of t distributions with {degrees:.3g} degrees of freedom.")
    if model.degenerate_:
        sentences.append(
            "The fit is degenerate (a cluster with too few rows, a collapsed covariance, or a diverged cluster); try "
            "fewer clusters, another start or a larger reg_covar."
        )
    return sentences


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def _share(number: int, total: int) -> str:
    return f"{_count(number, 'row')} ({100 * number / max(total, 1):.1f} %)"
