"""Rule trees by loops over rows, thresholds and sets, written from the definition."""

import itertools
from math import ceil, floor, inf


def utility(assigned: frozenset[int], true: frozenset[int], caution: float) -> float:
    ratio = len(assigned & true) / len(assigned | true)
    if caution == 0:
        return floor(ratio)
    if not (true <= assigned if caution > 0 else assigned <= true):
        return 0.0
    return ceil(ratio) if abs(caution) == inf else ratio ** (1 / abs(caution))


def centroid(rows, masses, true) -> list[float]:
    total = sum(mass.get(true, 0.0) for mass in masses)
    return [
        sum(m.get(true, 0.0) * x[d] for m, x in zip(masses, rows, strict=True)) / total for d in range(len(rows[0]))
    ]


def split_cost(rows, masses, sets, centroids, feature, threshold, caution) -> float | None:
    """Cost of one split per row; None where all centroids are on one side."""
    below = [s for s in sets if centroids[s][feature] <= threshold]
    above = [s for s in sets if s not in below]
    if not below or not above:
        return None
    cost = 0.0
    for x, mass in zip(rows, masses, strict=True):
        own, other = (below, above) if x[feature] <= threshold else (above, below)
        if caution >= 0:
            cost += sum(m * utility(a, b, caution) for a in other for b, m in mass.items())
        else:
            cost += sum(m * (1 - utility(a, b, caution)) for a in own for b, m in mass.items()) / len(own)
    return cost / len(rows)


def best_cost(rows, masses, sets, caution) -> float:
    """Cheapest first split over all features and midpoints."""
    centroids = {s: centroid(rows, masses, s) for s in sets}
    costs = []
    for feature in range(len(rows[0])):
        values = sorted({x[feature] for x in rows})
        for low, high in itertools.pairwise(values):
            cost = split_cost(rows, masses, sets, centroids, feature, (low + high) / 2, caution)
            costs += [] if cost is None else [cost]
    return min(costs)
