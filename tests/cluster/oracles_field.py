"""Slow, obvious versions of the wider field's formulas: loops over rows, pairs and sets of clusters."""

import itertools
import math

import numpy as np
from scipy.optimize import minimize


def conflict(m, n, sets):
    """Mass that the conjunctive rule puts on disjoint sets."""
    return sum(m[a] * n[b] for a, A in enumerate(sets) for b, B in enumerate(sets) if not (A & B))


def evclus_loss(masses, D, d0, sets, pairs):
    """Squared differences of conflict and target over ordered pairs, by the sum of squared targets."""
    total = weight = 0.0
    for i, j in pairs:
        target = 1 - math.exp(math.log(0.05) * (D[i][j] / d0) ** 2)
        total += (conflict(masses[i], masses[j], sets) - target) ** 2
        weight += target**2
    return total / weight


def pair_plausibilities(m, n, sets):
    """Plausibility that two rows share a cluster, and that they do not."""
    same = sum(m[a] * n[b] for a, A in enumerate(sets) for b, B in enumerate(sets) if A & B)
    different = sum(
        m[a] * n[b] for a, A in enumerate(sets) for b, B in enumerate(sets) if A and B and not (A == B and len(A) == 1)
    )
    return same, different


def link_penalty(masses, sets, must, cannot, xi):
    """What links add to the loss of EVCLUS."""
    total = 0.0
    for i, j in must:
        same, different = pair_plausibilities(masses[i], masses[j], sets)
        total += 1 - same + different
    for i, j in cannot:
        same, different = pair_plausibilities(masses[i], masses[j], sets)
        total += same + 1 - different
    return 2 * xi / (len(must) + len(cannot)) * total


def least_on_simplex(value, n):
    """Minimise a convex function of masses by a general method."""
    found = minimize(
        value,
        np.full(n, 1 / n),
        method="SLSQP",
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda m: m.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return found.x, float(found.fun)


def eknn_weights(D, n_neighbors, quantile, power):
    """Neighbours of each row and the weights of their evidence."""
    n = len(D)
    nearest = [sorted((j for j in range(n) if j != i), key=lambda j: D[i][j])[:n_neighbors] for i in range(n)]
    scale = np.quantile([D[i][j] ** power for i in range(n) for j in nearest[i]], quantile)
    return nearest, [[-math.log(1 - math.exp(-(D[i][j] ** power) / scale)) for j in nearest[i]] for i in range(n)]


def dempster_of_neighbours(weights, labels, n_clusters):
    """Combine simple mass functions one by one: mass 1 - exp(-w) on the neighbour's cluster, the rest on the frame."""
    singles, frame = [0.0] * n_clusters, 1.0
    for w, label in zip(weights, labels, strict=True):
        sure = 1 - math.exp(-w)
        joined = [m * (1 - sure) for m in singles]
        joined[label] = singles[label] + frame * sure
        # What the others lose meets another cluster: conflict, removed at the end.
        singles, frame = joined, frame * (1 - sure)
    total = sum(singles) + frame
    return [m / total for m in singles], frame / total


def ccm_distance(x, means, members, gamma):
    """Squared distance of a row to a set of clusters in credal c-means."""
    to_each = sum(np.sum((x - means[k]) ** 2) for k in members)
    middle = sum(means[k] for k in members) / len(members)
    if len(members) == 1:
        return to_each
    return (to_each + gamma * np.sum((x - middle) ** 2)) / (len(members) + gamma)


def masses_of_costs(costs, beta):
    """Masses of least sum of m^beta times cost."""
    parts = [cost ** (-1 / (beta - 1)) for cost in costs]
    return [part / sum(parts) for part in parts]


def ecmdd_distances(D, medoids, members, gamma, eta):
    """Distances of all rows to a set of medoids."""
    n = len(D)
    if len(members) == 1:
        return [D[i][medoids[members[0]]] for i in range(n)]
    prices = []
    for p in range(n):
        to_medoids = [D[p][medoids[k]] for k in members]
        mean = sum(to_medoids) / len(members)
        prices.append(sum((d - mean) ** 2 for d in to_medoids) / len(members) + eta * mean)
    middle = prices.index(min(prices))
    return [
        (D[i][middle] + gamma * sum(D[i][medoids[k]] for k in members) / len(members)) / (1 + gamma) for i in range(n)
    ]


def mecm_distances(D, medoids, members, gamma, eta):
    """Squared distances of all rows to a set of medoids."""
    found = []
    for i in range(len(D)):
        d = [D[i][medoids[k]] for k in members]
        if len(members) == 1:
            found.append(d[0] ** 2)
            continue
        gaps = sum(abs(a - b) for a, b in itertools.product(d, d))
        apart = sum(D[medoids[k]][medoids[q]] for k, q in itertools.product(members, members))
        mean = sum(a * a for a in d) / len(d)
        found.append((gamma * mean + gaps / (eta * apart) * min(d) ** 2) / (gamma + 1))
    return found
