"""Pairs of rows of a credal partition, set by set: slow, obvious, and without any code of the package."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import sqrt

Sets = Sequence[frozenset[int]]

EMPTY, SAME, DIFFERENT = frozenset[str](), frozenset({"same"}), frozenset({"different"})
ANY = SAME | DIFFERENT


def pair_mass(row: Sequence[float], other: Sequence[float], sets: Sets) -> dict[frozenset[str], float]:
    """Mass function on {same, different} of two rows."""
    mass = dict.fromkeys([EMPTY, SAME, DIFFERENT, ANY], 0.0)
    for a, weight in zip(sets, row, strict=True):
        for b, other_weight in zip(sets, other, strict=True):
            mass[_meaning(a, b)] += weight * other_weight
    return mass


def _meaning(a: frozenset[int], b: frozenset[int]) -> frozenset[str]:
    if not a or not b:
        return EMPTY
    if not a & b:
        return DIFFERENT
    return SAME if a == b and len(a) == 1 else ANY


def conflict(one: dict, other: dict) -> float:
    """Mass of the empty set after the conjunctive rule."""
    return sum(one[a] * other[b] for a in one for b in other if not a & b)


def jousselme(one: dict, other: dict) -> float:
    """Jousselme's distance with the Jaccard index of sets, of the empty set with itself 1."""
    change = {a: mass - other[a] for a, mass in one.items()}
    total = sum(x * y * _jaccard(a, b) for a, x in change.items() for b, y in change.items())
    return sqrt(max(total, 0.0) / 2)


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def belief(one: dict, other: dict) -> float:
    """Half the L1 distance of belief functions."""
    return sum(abs(_belief(one, a) - _belief(other, a)) for a in one) / 2


def _belief(mass: dict, a: frozenset[str]) -> float:
    return sum(mass[b] for b in mass if b and b <= a)


DISTANCES = {"conflict": conflict, "jousselme": jousselme, "belief": belief}


def credal_rand(one: Sequence, sets: Iterable, other: Sequence, other_sets: Iterable, distance: str) -> float:
    """One minus the mean distance over the pairs of rows."""
    sets, other_sets = list(sets), list(other_sets)
    values = [
        DISTANCES[distance](pair_mass(one[i], one[j], sets), pair_mass(other[i], other[j], other_sets))
        for i, j in combinations(range(len(one)), 2)
    ]
    return 1 - sum(values) / len(values)


def nonspecificity(masses: Sequence, sets: Iterable) -> float:
    """Mean over the pairs of m(any) log2 2 + m(empty) log2 2."""
    sets = list(sets)
    pairs = [pair_mass(a, b, sets) for a, b in combinations(masses, 2)]
    return sum(pair[ANY] + pair[EMPTY] for pair in pairs) / len(pairs)
