"""Weighted k-means on few rows, compiled: many runs from k-means++ starts, of which the best is kept."""

import numba
import numpy as np

from egmm.em.compiled.block import cached
from egmm.em.compiled.plain import PART, STRICT

MAX_ROUNDS = 300
"""Most rounds of one run."""

CLOSER = 1e-12
"""Share by which a run must be better than the best one before: the same partition rounds differently."""


@cached(**STRICT)
def kmeans(X, weight, draws, labels, means, sums, distances, best):
    """Fill `best` (n,) with the labels of least inertia over all runs, whose number that of `draws` is.

    draws : (runs, C, trials)
        Numbers between 0 and 1 by which means are drawn.
    labels, means, sums, distances
        Room: (n,), (C, D), (C, D + 1) and (3, n).
    """
    least = np.inf
    for run in range(draws.shape[0]):
        _start(X, weight, draws, run, means, distances)
        for i in range(labels.shape[0]):
            labels[i] = -1
        inertia = 0.0
        for _ in range(MAX_ROUNDS):
            is_settled, inertia = _round(X, weight, labels, means, sums)
            if is_settled:
                break
        if inertia < least * (1 - CLOSER) or least == np.inf:
            least = inertia
            for i in range(labels.shape[0]):
                best[i] = labels[i]


@numba.njit(**PART)
def _start(X, weight, draws, run, means, distances):
    """Draw means by their squared distance from those there are, the best of some trials each (k-means++)."""
    n_rows, dim = X.shape
    for i in range(n_rows):
        distances[0, i] = 1.0  # The first is drawn by weight alone.
    for k in range(means.shape[0]):
        potential, lowest = 0.0, np.inf
        for i in range(n_rows):
            potential += weight[i] * distances[0, i]
        for trial in range(draws.shape[2] if k > 0 else 1):
            left, drawn = draws[run, k, trial] * potential, 0
            for i in range(n_rows):
                left -= weight[i] * distances[0, i]
                drawn = i
                if left < 0:
                    break
            total = 0.0
            for i in range(n_rows):
                distance = 0.0
                for d in range(dim):
                    distance += (X[i, d] - X[drawn, d]) ** 2
                distances[1, i] = distance if k == 0 else min(distance, distances[0, i])
                total += weight[i] * distances[1, i]
            if total < lowest:
                lowest = total
                for d in range(dim):
                    means[k, d] = X[drawn, d]
                for i in range(n_rows):
                    distances[2, i] = distances[1, i]
        for i in range(n_rows):
            distances[0, i] = distances[2, i]


@numba.njit(**PART)
def _round(X, weight, labels, means, sums):
    """Label rows by the nearest mean and move the means; returns whether no label has changed, and the inertia."""
    n_rows, dim = X.shape
    n_changed, inertia = 0, 0.0
    sums[:] = 0.0
    for i in range(n_rows):
        closest, at = np.inf, 0
        for k in range(means.shape[0]):
            distance = 0.0
            for d in range(dim):
                distance += (X[i, d] - means[k, d]) ** 2
            if distance < closest:
                closest, at = distance, k
        n_changed += labels[i] != at
        labels[i] = at
        inertia += weight[i] * closest
        sums[at, dim] += weight[i]
        for d in range(dim):
            sums[at, d] += weight[i] * X[i, d]
    for k in range(means.shape[0]):
        for d in range(dim):
            if sums[k, dim] > 0:  # One that has lost its rows stays.
                means[k, d] = sums[k, d] / sums[k, dim]
    return n_changed == 0, inertia
