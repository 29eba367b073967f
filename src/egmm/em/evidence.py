r"""Additional evidence about rows: labels and links.

A label of row i is a mass function :math:`\mu_i` on sets of clusters. It multiplies the density of focal set
:math:`A_j` by the plausibility :math:`Pl_i(A_j) = \sum_{B \cap A_j \ne \emptyset} \mu_i(B)`, so that

.. math:: m_{ij} \propto \pi_j N_j(x_i) Pl_i(A_j)

and the log-likelihood is that of the rows and the labels (Come et al. 2009; Denœux 2013).

Rows that must be together have one mass function, :math:`q_j \propto \prod_i \pi_j N_j(x_i) Pl_i(A_j)`: the likelihood
is that of the rows and the links. Rows that must be apart pay for the plausibility of being together. Their mass
functions maximise the bound

.. math:: \sum_s \Big( \sum_j q_{sj} \log \frac{\prod_i \pi_j N_j(x_i) Pl_i(A_j)}{q_{sj}} \Big)
          - \xi \sum_{(s, t)} \sum_{A_j \cap A_l \ne \emptyset} q_{sj} q_{tl}

over groups s of rows, one group after another (mean field).
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import entr, log_softmax

from egmm._checks import FloatArray, IntArray
from egmm.rows.array import ArrayRows
from egmm.rows.source import RowSource

PENALTY = 5.0
"""Nats that a pair of rows pays for being together although they must be apart."""

MAX_SWEEPS, SWEEP_TOL = 100, 1e-8
"""Sweeps over the groups of a mean field, which ends where masses change by less."""

UNLABELLED, LINKED = 0, -1
"""Codes of rows without evidence, and of linked rows, which are handled by `Links`."""


class Links(NamedTuple):
    """Rows that share a mass function or must be apart, held in memory."""

    rows: FloatArray
    """(n, D)."""
    weight: FloatArray
    """(n,)."""
    codes: IntArray
    """(n,) their labels."""
    group: IntArray
    """(n,) number of the group each is in."""
    apart: IntArray
    """(P, 2) pairs of groups."""
    meets: FloatArray
    """(M, M) whether two focal sets have a cluster in common, 1 or 0."""


class Evidence(NamedTuple):
    """Labels of all rows, and links between some."""

    codes: IntArray
    """(N,) place of each row's label in `log_plausibility`, `UNLABELLED` or `LINKED`."""
    log_plausibility: FloatArray
    """(L, M) of the distinct labels; the first is of rows without label, all zeros."""
    crisp: IntArray
    """(N,) cluster that the label of each row makes likely, for starts, or -1."""
    links: Links | None = None

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label that starts can use."""
        return bool((self.crisp >= 0).any())

    def of_rows(self, codes: IntArray) -> FloatArray:
        """(n, M) of rows with these codes."""
        return self.log_plausibility[np.maximum(codes, 0)]

    def ordered(self, order: IntArray | None) -> "Evidence":
        """The evidence for rows in another order."""
        return self if order is None else self._replace(codes=self.codes[order], crisp=self.crisp[order])


class _Rows(NamedTuple):
    """Requested rows with positions and weights; a result that adds."""

    places: IntArray
    rows: FloatArray
    weight: FloatArray

    def plus(self, other: Self) -> "_Rows":
        return _Rows(*(np.concatenate(both) for both in zip(self, other, strict=True)))


def gather(rows: RowSource, places: IntArray, n_rows: int) -> tuple[FloatArray, FloatArray]:
    """The rows at `places` and their weights, in this order, from any row source."""
    if isinstance(rows, ArrayRows):
        found = np.asarray(rows.X[places], dtype=np.float64)
        return found, np.ones(len(found)) if rows.sample_weight is None else rows.sample_weight[places]
    wanted = np.full(n_rows, -1)
    wanted[places] = np.arange(len(places))
    read = rows.reduce(_wanted_rows, wanted)
    order = np.argsort(read.places)
    return read.rows[order], read.weight[order]


def _wanted_rows(X: FloatArray, sample_weight: FloatArray | None, wanted: IntArray) -> _Rows:
    is_wanted = wanted >= 0
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    return _Rows(wanted[is_wanted], np.asarray(X[is_wanted], dtype=np.float64), np.asarray(weight[is_wanted]))


class GroupMasses(NamedTuple):
    """Mass functions of groups of linked rows, under one fit."""

    mass: FloatArray
    """(S, M)."""
    bound: float
    """Contribution of labels and links to the log-likelihood."""


def group_masses(links: Links, scores: FloatArray) -> GroupMasses:
    """Masses of groups, from the logarithms (n, M) of pi_j N_j(x_i) Pl_i(A_j)."""
    n_groups = int(links.group.max()) + 1
    weighted = np.where(links.weight[:, None] > 0, scores * np.maximum(links.weight, 1e-300)[:, None], 0.0)
    joint = np.zeros((n_groups, scores.shape[1]))
    np.add.at(joint, links.group, weighted)
    mass = np.exp(log_softmax(joint, axis=1))
    if len(links.apart):
        mass = _mean_field(links, joint, mass)
    with np.errstate(invalid="ignore"):
        expected = np.where(mass > 0, mass * joint, 0.0).sum()
    first, second = mass[links.apart[:, 0]], mass[links.apart[:, 1]]
    together = float(np.einsum("pj,jl,pl->", first, links.meets, second)) if len(links.apart) else 0.0
    return GroupMasses(mass, float(expected + entr(mass).sum()) - PENALTY * together)


def _mean_field(links: Links, joint: FloatArray, mass: FloatArray) -> FloatArray:
    """Masses of groups given the groups they must be apart from, updated in turn until they converge."""
    partners: dict[int, list[int]] = {}
    for one, two in links.apart.tolist():
        partners.setdefault(one, []).append(two)
        partners.setdefault(two, []).append(one)
    mass = mass.copy()
    for _ in range(MAX_SWEEPS):
        change = 0.0
        for group, others in partners.items():
            cost = links.meets @ mass[others].sum(axis=0)
            found = np.exp(log_softmax(joint[group] - PENALTY * cost))
            change = max(change, float(np.abs(found - mass[group]).max()))
            mass[group] = found
        if change < SWEEP_TOL:
            break
    return mass


def evidence_for(masses: FloatArray, scores: FloatArray) -> FloatArray:
    """Log-evidence (n, M) under which rows with these scores have given masses, and log-likelihood zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(masses > 0, np.log(masses) - scores, -np.inf)


def seeds(labelled: FloatArray, labels: IntArray, others: FloatArray, n_clusters: int) -> FloatArray:
    """Means (C, D) to start from: of labelled rows; of k-means where a cluster has none.

    Rows are in units. `others` have no label; labelled rows keep theirs.

    >>> seeds(np.array([[0.0], [1.0]]), np.array([0, 0]), np.array([[0.5], [9.0], [10.0]]), 2)
    array([[0.5], [9.5]])
    """
    rows, known = np.concatenate([labelled, others]), np.unique(labels)
    means = np.zeros((n_clusters, rows.shape[1]))
    for k in known:
        means[k] = labelled[labels == k].mean(axis=0)
    placed = list(known)
    for k in np.setdiff1d(np.arange(n_clusters), known):
        # The row farthest from all means so far.
        means[k] = rows[_squares(rows, means[placed]).min(axis=1).argmax()]
        placed.append(k)
    if len(known) == n_clusters:
        return means
    for _ in range(MAX_SWEEPS):
        nearest = _squares(rows, means).argmin(axis=1)
        nearest[: len(labels)] = labels
        moved = np.stack([rows[nearest == k].mean(axis=0) if k in nearest else means[k] for k in range(n_clusters)])
        if np.abs(moved - means).max() < SWEEP_TOL:
            break
        means = moved
    return means


def matched_seeds(
    labelled: FloatArray, labels: IntArray, others: FloatArray, found: IntArray, n_clusters: int
) -> FloatArray:
    """Means (C, D) of groups `found` among the others, numbered such that most labelled rows are nearest to theirs."""
    means = np.stack([others[found == k].mean(axis=0) for k in range(n_clusters)])
    table = np.zeros((n_clusters, n_clusters))
    np.add.at(table, (labels, _squares(labelled, means).argmin(axis=1)), 1.0)
    return means[linear_sum_assignment(table, maximize=True)[1]]


def _squares(rows: FloatArray, means: FloatArray) -> FloatArray:
    """Squared distances (n, C)."""
    return np.asarray(((rows[:, None] - means) ** 2).sum(axis=-1))
