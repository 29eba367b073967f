"""Sweeps of EVCLUS: the masses of each row in turn, the others fixed.

Throughout, `mass` has a row per object and `apart` the products ``z_i = Xi m_i``, with Xi marking disjoint sets: the
conflict of two rows is ``z_i . m_j``. `links` are what `egmm.links.LinkLists` holds.
"""

import numpy as np

from egmm.cluster.compiled import compiled
from egmm.cluster.compiled.simplex import minimise_on_simplex


@compiled
def _set_apart(disjoint, mass, apart, i):
    f = mass.shape[1]
    for j in range(f):
        total = 0.0
        for q in range(f):
            total += disjoint[j, q] * mass[i, q]
        apart[i, j] = total


@compiled
def _pull_of_links(i, starts, partners, kinds, prices, mass, b, strength):
    """Subtract from `b` the terms of row i's links: partners[starts[i]:starts[i + 1]], of kind 0 (must) or 1."""
    f = mass.shape[1]
    for at in range(starts[i], starts[i + 1]):
        other, price = partners[at], prices[kinds[at]]
        for j in range(f):
            total = 0.0
            for q in range(f):
                total += price[j, q] * mass[other, q]
            b[j] -= strength * total


@compiled
def sweep_all_pairs(target, disjoint, mass, apart, links, strength):
    """Visit each row, with targets for all other rows (n, n)."""
    n, f = mass.shape
    starts, partners, kinds, prices = links
    gram = apart.T @ apart
    Q, b, gradient = np.empty((f, f)), np.empty(f), np.empty(f)
    for i in range(len(mass)):
        for j in range(f):
            b[j] = 0.0
            for q in range(f):
                gram[j, q] -= apart[i, j] * apart[i, q]
                Q[j, q] = gram[j, q]
        for other in range(n):
            if other != i:
                for j in range(f):
                    b[j] += target[i, other] * apart[other, j]
        _pull_of_links(i, starts, partners, kinds, prices, mass, b, strength)
        minimise_on_simplex(Q, b, mass[i], gradient)
        _set_apart(disjoint, mass, apart, i)
        for j in range(f):
            for q in range(f):
                gram[j, q] += apart[i, j] * apart[i, q]


@compiled
def sweep_listed_pairs(starts, others, targets, disjoint, mass, apart, links, strength):
    """Visit each row, with pairs ``others[starts[i]:starts[i + 1]]`` and their targets."""
    f = mass.shape[1]
    link_starts, partners, kinds, prices = links
    Q, b, gradient = np.empty((f, f)), np.empty(f), np.empty(f)
    for i in range(len(mass)):
        Q[:] = 0.0
        b[:] = 0.0
        for at in range(starts[i], starts[i + 1]):
            other, target = others[at], targets[at]
            for j in range(f):
                z = apart[other, j]
                b[j] += target * z
                for q in range(j + 1):
                    Q[j, q] += z * apart[other, q]
        for j in range(f):
            for q in range(j):
                Q[q, j] = Q[j, q]
        _pull_of_links(i, link_starts, partners, kinds, prices, mass, b, strength)
        minimise_on_simplex(Q, b, mass[i], gradient)
        _set_apart(disjoint, mass, apart, i)


@compiled
def loss_of_all_pairs(target, mass, apart):
    """Sum of squared differences of conflict and target over all ordered pairs."""
    n, f = mass.shape
    total = 0.0
    for i in range(n):
        for other in range(i):
            gap = -target[i, other]
            for j in range(f):
                gap += apart[i, j] * mass[other, j]
            total += gap * gap
    return 2.0 * total


@compiled
def loss_of_listed_pairs(starts, others, targets, mass, apart):
    """Sum of squared differences of conflict and target over the listed pairs, each listed under both rows."""
    n, f = mass.shape
    total = 0.0
    for i in range(n):
        for at in range(starts[i], starts[i + 1]):
            gap = -float(targets[at])
            for j in range(f):
                gap += apart[i, j] * mass[others[at], j]
            total += gap * gap
    return 0.5 * total


@compiled
def both_ways(others, targets):
    """List the pairs (i, others[i]) under both rows, with their targets."""
    n, k = others.shape
    starts = np.zeros(n + 1, np.int64)
    for i in range(n):
        starts[i + 1] += k
        for at in range(k):
            starts[others[i, at] + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
    place = starts[:-1].copy()
    listed, values = np.empty(2 * n * k, others.dtype), np.empty(2 * n * k)
    for i in range(n):
        for at in range(k):
            j = others[i, at]
            listed[place[i]], values[place[i]] = j, targets[i, at]
            place[i] += 1
            listed[place[j]], values[place[j]] = i, targets[i, at]
            place[j] += 1
    return starts, listed, values


@compiled
def conflict_gradient(starts, others, targets, mass, apart, gradient):
    """Loss of the listed pairs, as `loss_of_listed_pairs`, and its gradient by the masses (n, f) into `gradient`."""
    n, f = mass.shape
    total = 0.0
    for i in range(n):
        for j in range(f):
            gradient[i, j] = 0.0
        for at in range(starts[i], starts[i + 1]):
            other, gap = others[at], -targets[at]
            for j in range(f):
                gap += apart[other, j] * mass[i, j]
            total += gap * gap
            for j in range(f):
                gradient[i, j] += 2.0 * gap * apart[other, j]
    return 0.5 * total
