"""Rules of combination on arrays of masses, row by row, across families over one frame."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray, check_choice
from egmm.belief.cautious import cautious
from egmm.belief.focal import FocalSets
from egmm.belief.masses import Masses, check_source, embed, joint_family
from egmm.belief.pcr6 import pcr6
from egmm.belief.products import Operation, Step, fold, plan_step, plan_union_step

RULES = ("conjunctive", "dempster", "disjunctive", "yager", "dubois-prade", "pcr6", "cautious", "mean")

MAX_PRODUCTS = {False: 2**22, True: 2**25}
"""Limit on products of sets whose intersections and unions are both tracked."""

ON_CONFLICT = ("raise", "vacuous", "empty")


def combine_masses(*sources: Masses, rule: str = "dempster", on_conflict: str = "raise") -> Masses:
    r"""Combine mass functions given as arrays; see :func:`egmm.belief.combine` for the rules.

    Parameters
    ----------
    *sources : tuple of (array-like of shape (n_samples, n_focal), FocalSets)
        Masses and the sets of their columns.
    rule, on_conflict : str
        As for :func:`egmm.belief.combine`.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_out)
    focal : FocalSets
        The sets that the rule can produce.

    Examples
    --------
    >>> mass, focal = combine_masses(
    ...     ([[0.6, 0.4]], FocalSets.from_sets([{0}, {0, 1}], 2)),
    ...     ([[0.5, 0.5]], FocalSets.from_sets([{1}, {0, 1}], 2)),
    ...     rule="conjunctive",
    ... )
    >>> dict(zip(focal.labels, mass[0].round(3).tolist()))
    {'∅': 0.3, '{1}': 0.3, '{2}': 0.2, '{1,2}': 0.2}
    """
    return combine_trusted([check_source(source) for source in sources], rule, on_conflict)


def combine_trusted(sources: Sequence[Masses], rule: str, on_conflict: str) -> Masses:
    """Combine masses that are known to be valid; see :func:`combine_masses`."""
    check_choice("rule", rule, RULES)
    check_choice("on_conflict", on_conflict, ON_CONFLICT)
    _check_sources(sources)
    if rule == "mean":
        return _mean(sources)
    if rule == "cautious":
        return cautious(sources)
    if rule == "pcr6":
        return pcr6(sources)
    return _folded(sources, rule, on_conflict)


def _check_sources(sources: Sequence[Masses]) -> None:
    if not sources:
        raise ValueError("combine needs at least one source.")
    first_mass, first_focal = sources[0]
    for number, (mass, focal) in enumerate(sources):
        focal.on_frame_of(first_focal)
        if len(mass) != len(first_mass):
            raise ValueError(
                f"Sources must have the same number of rows, but source 0 has {len(first_mass)} and "
                f"source {number} has {len(mass)}."
            )


class _Rule(NamedTuple):
    """A rule that sums products: the tracked set operations, and where products go between and after steps."""

    operations: tuple[Operation, ...]
    between: Callable[[int, IntArray], IntArray]
    last: Callable[[int, IntArray], IntArray] | None
    """None if the union replaces an empty intersection."""


def _as_is(_frame: int, states: IntArray) -> IntArray:
    return states


def _drop_empty(_frame: int, states: IntArray) -> IntArray:
    return np.where(states == 0, -1, states)


def _empty_to_frame(frame: int, states: IntArray) -> IntArray:
    return np.where(states == 0, frame, states)


_PRODUCT_RULES = {
    "conjunctive": _Rule((np.bitwise_and,), _as_is, _as_is),
    "dempster": _Rule((np.bitwise_and,), _drop_empty, _drop_empty),
    "disjunctive": _Rule((np.bitwise_or,), _as_is, _as_is),
    "yager": _Rule((np.bitwise_and,), _as_is, _empty_to_frame),
    "dubois-prade": _Rule((np.bitwise_and, np.bitwise_or), _as_is, None),
}


@lru_cache(maxsize=64)
def _plan(families: tuple[FocalSets, ...], rule: str) -> tuple[Step, ...]:
    """One step per source after the first (a single source meets the neutral element); fewer if nothing is left."""
    operations, between, last = _PRODUCT_RULES[rule]
    frame = families[0].frame_mask
    states = [np.repeat(family.masks[:, None], len(operations), axis=1) for family in families]
    if len(states) == 1:
        states.insert(0, np.array([[frame if op is np.bitwise_and else 0 for op in operations]], dtype=np.int64))
    steps: list[Step] = []
    left = states[0]
    for number, right in enumerate(states[1:], start=2):
        is_last = number == len(states)
        if last is None:
            _check_size(rule, len(left) * len(right), is_last=is_last)
        if is_last and last is None:
            steps.append(plan_union_step(left, right[:, 0]))
        else:
            land = partial(last if is_last and last is not None else between, frame)
            steps.append(plan_step(left, right, operations, land))
        left = steps[-1].states
        if len(left) == 0:
            break
    return tuple(steps)


def _check_size(rule: str, n_products: int, *, is_last: bool) -> None:
    """Refuse a plan that would take minutes, whatever the number of rows."""
    if n_products > MAX_PRODUCTS[is_last]:
        raise ValueError(
            f"rule={rule!r} would track {n_products} products of sets; combine fewer sources at a time, use "
            "smaller families, or a rule such as 'yager', which needs no unions."
        )


def _folded(sources: Sequence[Masses], rule: str, on_conflict: str) -> Masses:
    """Combine by a rule that sums products."""
    n_clusters, frame = sources[0][1].n_clusters, sources[0][1].frame_mask
    masses = [mass for mass, _ in sources]
    n_rows = len(masses[0])
    if len(masses) == 1:
        masses.insert(0, np.ones((n_rows, 1)))
    steps = _plan(tuple(focal for _, focal in sources), rule)
    if len(steps[-1].states) == 0:
        nothing = np.zeros((n_rows, 1)), FocalSets([frame], n_clusters)
        return _settle_conflict(*nothing, np.ones(n_rows, dtype=bool), on_conflict)
    mass, is_lost = fold(masses, steps)
    focal = FocalSets(steps[-1].states[:, 0], n_clusters)
    can_conflict = any(step.has_dropped for step in steps)
    return _settle_conflict(mass, focal, is_lost, on_conflict) if can_conflict else (mass, focal)


def _settle_conflict(mass: FloatArray, focal: FocalSets, is_lost: BoolArray, on_conflict: str) -> Masses:
    """Apply `on_conflict` to the rows in total conflict, which have no mass left."""
    if on_conflict == "raise":
        if is_lost.any():
            raise ValueError(
                f"{is_lost.sum()} of {len(is_lost)} rows are in total conflict, the first is row "
                f"{np.argmax(is_lost)}; use on_conflict='vacuous' or 'empty', "
                "or discount first."
            )
        return mass, focal
    target = FocalSets([focal.frame_mask if on_conflict == "vacuous" else 0], focal.n_clusters)
    family = joint_family(focal, target)
    mass = mass if family == focal else embed(mass, focal, family)
    mass[is_lost, family.columns_of(target.masks)[0]] = 1.0
    return mass, family


def _mean(sources: Sequence[Masses]) -> Masses:
    family = joint_family(*(focal for _, focal in sources))
    total = np.zeros((len(sources[0][0]), len(family)))
    for mass, focal in sources:
        total[:, family.columns_of(focal.masks)] += mass
    total /= len(sources)
    return total, family
