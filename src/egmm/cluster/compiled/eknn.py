"""Sweeps of EK-NNclus: each row takes the label with the most evidence from its neighbours."""

import numpy as np

from egmm.cluster.compiled import compiled


@compiled
def sweep_labels(starts, neighbours, weights, labels, order, votes):
    """Visit the rows in `order` and return the number of changed labels. `votes` holds a zero per label.

    A row keeps its label unless another one has more evidence.
    """
    n_changed = 0
    for i in order:
        first, last = starts[i], starts[i + 1]
        for at in range(first, last):
            votes[labels[neighbours[at]]] += weights[at]
        best, most = labels[i], votes[labels[i]]
        for at in range(first, last):
            label = labels[neighbours[at]]
            if votes[label] > most:
                best, most = label, votes[label]
        for at in range(first, last):
            votes[labels[neighbours[at]]] = 0.0
        if best != labels[i]:
            labels[i] = best
            n_changed += 1
    return n_changed


@compiled
def connected_groups(starts, neighbours, labels):
    """Number the connected groups of rows with the same label, linked through neighbours.

    Links are symmetric. Groups are numbered in the order of their first rows.
    """
    n = len(labels)
    parent = np.arange(n)
    for i in range(n):
        for at in range(starts[i], starts[i + 1]):
            j = neighbours[at]
            if labels[j] != labels[i]:
                continue
            a, b = i, j
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            # The first row of a group is its root.
            parent[max(a, b)] = min(a, b)
    groups, n_groups = np.empty(n, np.int64), 0
    for i in range(n):
        root = i
        while parent[root] != root:
            root = parent[root]
        if root == i:
            groups[i] = n_groups
            n_groups += 1
        else:
            groups[i] = groups[root]
    return groups


@compiled
def evidence_within(starts, neighbours, weights, labels):
    """Half the sum of weights of neighbours in the same cluster."""
    total = 0.0
    for i in range(len(labels)):
        for at in range(starts[i], starts[i + 1]):
            if labels[neighbours[at]] == labels[i]:
                total += weights[at]
    return 0.5 * total


@compiled
def evidence_per_cluster(starts, neighbours, weights, labels, evidence):
    """Sum each row's weights by the clusters of its neighbours into `evidence` (n, C)."""
    for i in range(len(labels)):
        for at in range(starts[i], starts[i + 1]):
            evidence[i, labels[neighbours[at]]] += weights[at]
