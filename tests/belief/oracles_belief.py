"""Belief functions the slow and obvious way: dicts from frozensets to masses, and loops."""

from itertools import chain, combinations, product
from math import log2, prod, sqrt

Mass = dict[frozenset[int], float]
EMPTY: frozenset[int] = frozenset()


def powerset(n_clusters: int) -> list[frozenset[int]]:
    clusters = range(n_clusters)
    return [frozenset(s) for s in chain.from_iterable(combinations(clusters, r) for r in range(n_clusters + 1))]


def belief(m: Mass, a: frozenset[int]) -> float:
    return sum(v for b, v in m.items() if b and b <= a)


def plausibility(m: Mass, a: frozenset[int]) -> float:
    return sum(v for b, v in m.items() if b & a)


def commonality(m: Mass, a: frozenset[int]) -> float:
    return sum(v for b, v in m.items() if a <= b)


def pignistic(m: Mass, k: int, n_clusters: int) -> float:
    left = 1 - m.get(EMPTY, 0.0)
    if left <= 0:
        return 1 / n_clusters
    return sum(v / len(b) for b, v in m.items() if k in b) / left


def _add(m: Mass, a: frozenset[int], value: float) -> None:
    m[a] = m.get(a, 0.0) + value


def _choices(sources: list[Mass]):
    for choice in product(*(m.items() for m in sources)):
        sets = [a for a, _ in choice]
        yield sets, [v for _, v in choice], frozenset.intersection(*sets), frozenset.union(*sets)


def conjunctive(sources: list[Mass], _frame: frozenset[int]) -> Mass:
    out: Mass = {}
    for _, values, common, _ in _choices(sources):
        _add(out, common, prod(values))
    return out


def dempster(sources: list[Mass], frame: frozenset[int]) -> Mass:
    """Total conflict gives the vacuous mass function; the frame is listed wherever conflict is possible."""
    out = conjunctive(sources, frame)
    if EMPTY not in out:
        return out
    del out[EMPTY]
    total = sum(out.values())
    _add(out, frame, 0.0 if total else 1.0)
    return {a: v / (total or 1.0) for a, v in out.items()}


def disjunctive(sources: list[Mass], _frame: frozenset[int]) -> Mass:
    out: Mass = {}
    for _, values, _, union in _choices(sources):
        _add(out, union, prod(values))
    return out


def yager(sources: list[Mass], frame: frozenset[int]) -> Mass:
    out: Mass = {}
    for _, values, common, _ in _choices(sources):
        _add(out, common or frame, prod(values))
    return out


def dubois_prade(sources: list[Mass], _frame: frozenset[int]) -> Mass:
    out: Mass = {}
    for _, values, common, union in _choices(sources):
        _add(out, common or union, prod(values))
    return out


def pcr6(sources: list[Mass], _frame: frozenset[int]) -> Mass:
    out: Mass = {}
    for sets, values, common, _ in _choices(sources):
        if common:
            _add(out, common, prod(values))
            continue
        for a, v in zip(sets, values, strict=True):
            _add(out, a, prod(values) * v / sum(values) if sum(values) else 0.0)
    return out


def mean(sources: list[Mass], _frame: frozenset[int]) -> Mass:
    out: Mass = {}
    for m in sources:
        for a, v in m.items():
            _add(out, a, v / len(sources))
    return out


def canonical_weight(m: Mass, a: frozenset[int], frame: frozenset[int]) -> float:
    weight = 1.0
    for b in powerset(len(frame)):
        if a <= b:
            weight *= commonality(m, b) ** ((-1) ** (len(b) - len(a) + 1))
    return weight


def cautious(sources: list[Mass], frame: frozenset[int]) -> Mass:
    out: Mass = {frame: 1.0}
    for a in powerset(len(frame)):
        if a != frame:
            w = min(canonical_weight(m, a, frame) for m in sources)
            # A weight above one is a signed mass: the products are the same.
            out = conjunctive([out, {a: 1 - w, frame: w}], frame)
    return out


RULES = {
    "conjunctive": conjunctive,
    "dempster": dempster,
    "disjunctive": disjunctive,
    "yager": yager,
    "dubois-prade": dubois_prade,
    "pcr6": pcr6,
    "mean": mean,
}


def nonspecificity(m: Mass, n_clusters: int) -> float:
    return sum(v * log2(len(a) or n_clusters) for a, v in m.items())


def dissonance(m: Mass) -> float:
    return -sum(v * log2(plausibility(m, a)) for a, v in m.items() if a and v)


def deng(m: Mass) -> float:
    return -sum(v * log2(v / (2 ** len(a) - 1)) for a, v in m.items() if a and v)


def jirousek_shenoy(m: Mass, n_clusters: int) -> float:
    pl = [plausibility(m, frozenset({k})) for k in range(n_clusters)]
    p = [x / sum(pl) if sum(pl) else 1 / n_clusters for x in pl]
    return -sum(x * log2(x) for x in p if x) + nonspecificity(m, n_clusters)


def conflict(m1: Mass, m2: Mass) -> float:
    return sum(v * w for a, v in m1.items() for b, w in m2.items() if not a & b)


def jousselme(m1: Mass, m2: Mass) -> float:
    sets = set(m1) | set(m2)
    gap = {a: m1.get(a, 0.0) - m2.get(a, 0.0) for a in sets}
    overlap = {(a, b): len(a & b) / len(a | b) if a | b else 1.0 for a in sets for b in sets}
    return sqrt(max(0.0, sum(gap[a] * gap[b] * overlap[a, b] for a in sets for b in sets) / 2))


def belief_distance(m1: Mass, m2: Mass, n_clusters: int) -> float:
    gaps = [abs(belief(m1, a) - belief(m2, a)) for a in powerset(n_clusters) if a]
    # Two certain rows on different clusters differ by one on half of the power set.
    return sum(gaps) / 2 ** (n_clusters - 1)
