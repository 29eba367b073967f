"""Masses of linked rows, one row at a time with the others fixed."""

import numpy as np

from egmm.cluster.compiled import compiled


@compiled
def least_on_simplex(a, b, m):
    """Minimise ``sum_j a_j m_j^2 + b_j m_j`` over the simplex, all a_j > 0, into `m`.

    The solution is ``m_j = max(0, (t - b_j) / (2 a_j))``, with t such that the masses sum to one: sets enter in the
    order of b_j until the next b_j exceeds t.
    """
    order = np.argsort(b)
    weights, moments, level = 0.0, 0.0, 0.0
    for place in range(len(order)):
        j = order[place]
        if place > 0 and b[j] >= level:
            break
        weights += 0.5 / a[j]
        moments += 0.5 * b[j] / a[j]
        level = (1.0 + moments) / weights
    total = 0.0
    for j in range(len(b)):
        m[j] = max(0.0, 0.5 * (level - b[j]) / a[j])
        total += m[j]
    for j in range(len(b)):
        m[j] /= total


@compiled
def sweep_linked_rows(rows, starts, partners, kinds, prices, costs, offsets, mass):
    """Visit the linked rows: optimal masses given those of their partners.

    costs : (n, f) of a squared unit of mass; offsets : (n, f) of a unit; prices : (2, f, f) of a link of each kind.
    """
    f = mass.shape[1]
    b = np.empty(f)
    for i in rows:
        for j in range(f):
            b[j] = offsets[i, j]
        for at in range(starts[i], starts[i + 1]):
            price, other = prices[kinds[at]], partners[at]
            for j in range(f):
                for q in range(f):
                    b[j] += price[j, q] * mass[other, q]
        least_on_simplex(costs[i], b, mass[i])
