"""Slow, obvious versions of the prototype clusterers' formulas: loops over rows and over sets of clusters."""

import math

import numpy as np


def set_mean(means, members):
    return sum(means[k] for k in members) / len(members)


def squared_distance(x, y, metric=None):
    gap = np.asarray(x) - np.asarray(y)
    return float(gap @ (np.eye(len(gap)) if metric is None else metric) @ gap)


def ecm_masses(x, means, sets, alpha, beta, delta, metrics=None):
    """Masses of one row on non-empty `sets`, and on the empty set last; delta None leaves that out."""
    distances = []
    for members in sets:
        metric = None if metrics is None else sum(metrics[k] for k in members) / len(members)
        distances.append(squared_distance(x, set_mean(means, members), metric))
    masses = []
    power = 1 / (beta - 1)
    for own, d_own in zip(sets, distances, strict=True):
        total = 0.0
        for other, d_other in zip(sets, distances, strict=True):
            total += (d_own / d_other) ** power * (len(own) / len(other)) ** (alpha * power)
        if delta is not None:
            total += (len(own) ** alpha * d_own / delta**2) ** power
        masses.append(1 / total)
    return masses if delta is None else [*masses, 1 - sum(masses)]


def ecm_objective(X, masses, means, sets, alpha, beta, delta, metrics=None):
    """J of masses given as `ecm_masses` returns them, row by row."""
    total = 0.0
    for x, mass in zip(X, masses, strict=True):
        for members, m in zip(sets, mass, strict=False):
            metric = None if metrics is None else sum(metrics[k] for k in members) / len(members)
            total += len(members) ** alpha * m**beta * squared_distance(x, set_mean(means, members), metric)
        if delta is not None:
            total += delta**2 * mass[-1] ** beta
    return total


def ecm_means(X, masses, n_clusters, sets, alpha, beta, weights=None):
    """Solve H V = B, entry by entry."""
    weights = np.ones(len(X)) if weights is None else weights
    H, B = np.zeros((n_clusters, n_clusters)), np.zeros((n_clusters, len(X[0])))
    for x, mass, weight in zip(X, masses, weights, strict=True):
        for members, m in zip(sets, mass, strict=False):
            for k in members:
                B[k] += weight * len(members) ** (alpha - 1) * m**beta * np.asarray(x)
                for l in members:  # noqa: E741
                    H[k, l] += weight * len(members) ** (alpha - 2) * m**beta
    return np.linalg.solve(H, B)


def bpec_metrics(X, masses, means, sets, alpha, beta):
    """S_k = det(T_k)^(1/D) T_k^-1."""
    dim = len(X[0])
    metrics = []
    for k in range(len(means)):
        T = np.zeros((dim, dim))
        for x, mass in zip(X, masses, strict=True):
            for members, m in zip(sets, mass, strict=False):
                if k in members:
                    gap = np.asarray(x) - set_mean(means, members)
                    T += len(members) ** (alpha - 1) * m**beta * np.outer(gap, gap)
        metrics.append(np.linalg.det(T) ** (1 / dim) * np.linalg.inv(T))
    return metrics


def nonspecificity(mass, sets, n_clusters):
    """Bits of one row's masses on non-empty `sets` and on the empty set last."""
    return sum(m * math.log2(len(s)) for s, m in zip(sets, mass, strict=False)) + mass[-1] * math.log2(n_clusters)


def delta_bel(X, n_neighbors, quantile):
    """Belief and delta by looking at all pairs."""
    n = len(X)
    d = [[math.dist(X[i], X[j]) for j in range(n)] for i in range(n)]
    neighbours = [sorted((j for j in range(n) if j != i), key=lambda j: d[i][j])[:n_neighbors] for i in range(n)]
    scale = [np.quantile([d[i][j] for j in neighbours[i]], quantile) for i in range(n)]
    belief = [
        1 - math.prod(1 - math.exp(-((d[i][j] / scale[j]) ** 2)) / n_neighbors for j in neighbours[i]) for i in range(n)
    ]
    # Of equal beliefs the first row counts as the larger.
    higher = [[j for j in range(n) if (belief[j], -j) > (belief[i], -i)] for i in range(n)]
    delta = [min((d[i][j] for j in higher[i]), default=-1.0) for i in range(n)]
    top = delta.index(-1.0)
    delta[top] = max(delta)
    return belief, delta
