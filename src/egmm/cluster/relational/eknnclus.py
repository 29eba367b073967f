"""EK-NNclus: clusters from the evidence of neighbours, without a given number of clusters."""

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from egmm._checks import (
    FloatArray,
    IntArray,
    all_or_nothing,
    check_choice,
    check_integer,
    check_random,
    check_real,
    check_starts,
)
from egmm.belief.focal import MAX_CLUSTERS, FocalSets
from egmm.belief.partition import CredalPartition
from egmm.cluster.base import TransductiveClusterer
from egmm.cluster.relational.base import Relational
from egmm.cluster.relational.dissimilarities import check_fewer_than_rows, nearest_dissimilarities

NEAREST = 1e-6
"""Lower bound on distances and on evidence."""

MOST_NEIGHBORS, MOST_PAIRS = 200, 50_000_000
"""Limits on the default number of neighbours, per row and in total (for memory)."""


class Graph(NamedTuple):
    """Neighbours and weights of their evidence; those of row i are at ``starts[i]:starts[i + 1]``."""

    starts: IntArray
    neighbours: IntArray
    weights: FloatArray


class EKNNClus(Relational, TransductiveClusterer):
    r"""Clusters from the evidence of neighbours; the number of clusters is estimated.

    Each of the K nearest neighbours j of a row i is evidence that i belongs to j's cluster, with degree

    .. math:: \alpha_{ij} = e^{-\gamma d_{ij}^b}, \qquad w_{ij} = -\ln(1 - \alpha_{ij}),

    where :math:`1/\gamma` is a quantile of all :math:`d_{ij}^b`. Rows are visited in random order, and each takes the
    label with the largest sum of weights among its neighbours, until no label changes. The masses of a row combine the
    evidence of its neighbours by Dempster's rule: with :math:`T_{ik}` the weights of its neighbours in cluster k,

    .. math:: m_i(\{\omega_k\}) \propto e^{T_{ik}} - 1, \qquad m_i(\Omega) \propto 1.

    Rows with the same label that are not connected through neighbours of that label form different clusters. With more
    than 63 clusters there are only labels and no masses.

    All rows count once: there are no sample weights.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        Number K of neighbours, less than the number of rows. None: twice the square root of the number of rows, at most
        200, and less than that for more than 250,000 rows.
    quantile : float, default=0.9
        Quantile, from 0 to 1, of :math:`d^b` used as :math:`1/\gamma`. Larger values give fewer clusters.
    power : float, default=1.0
        The exponent b of the distances.
    metric : str or callable, default='euclidean'
        'precomputed': X holds dissimilarities (not squared). Otherwise X holds features, and this is a metric of
        scikit-learn's neighbour search.
    symmetric : bool, default=False
        Use the mean weight of both directions between two rows. The objective then never decreases.
    init : {'rows', 'random'} or array-like of shape (n_samples,), default='rows'
        Initial labels: one per row, random among a tenth as many labels as rows, or given labels.
    n_init : int, default=1
        Number of starts, each with its own visiting order; the largest objective is kept.
    max_iter : int, default=1000
        Maximum number of sweeps over the rows.
    random_state : int, RandomState instance or None, default=None
        Seed for visiting orders and starts.
    n_jobs : int or None, default=None
        Threads of the neighbour search; None uses all cores.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters found.
    masses_ : ndarray of shape (n_samples, n_focal)
        Masses of the rows, in the order of `focal_sets_`; not available with more than 63 clusters.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest mass of each row; clusters are numbered in the order of their first rows.
    focal_sets_ : FocalSets
        The single clusters and the whole frame.
    objective_ : float
        :math:`\frac{1}{2} \sum_i \sum_j w_{ij}` over the neighbours j in the cluster of i; maximised.
    ans_ : float
        Average normalised nonspecificity of the masses, see :class:`ECM`.
    n_iter_ : int
        Number of sweeps.
    converged_ : bool
        Whether the last sweep changed no label.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Denoeux, Kanjanatarakul and Sriboonchitta (2015), EK-NNclus: a clustering procedure based on the evidential
    K-nearest neighbor rule.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
    >>> EKNNClus(2, random_state=0).fit(X).labels_
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        n_neighbors: int | None = None,
        *,
        quantile: float = 0.9,
        power: float = 1.0,
        metric: Any = "euclidean",
        symmetric: bool = False,
        init: Any = "rows",
        n_init: int = 1,
        max_iter: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.quantile = quantile
        self.power = power
        self.metric = metric
        self.symmetric = symmetric
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Find the clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
            Rows, or dissimilarities with ``metric="precomputed"``.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self : EKNNClus
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            max_iter = check_integer("max_iter", self.max_iter, 1)
            graph = self._graph(X)
            random = check_random(self.random_state)
            runs = [_settle(graph, labels, max_iter, random) for labels in self._starts(len(X), random)]
            best = max(runs, key=lambda run: run.objective)
            self.objective_, self.n_iter_, self.converged_ = best.objective, best.n_sweeps, best.converged
            self.n_clusters_ = int(best.labels.max()) + 1
            if self.n_clusters_ > MAX_CLUSTERS:
                self.labels_ = best.labels
            else:
                focal, mass = combined_evidence(graph, best.labels)
                self._set_masses(X, mass, focal)
        if not self.converged_:
            self._warn(f"labels still changed after max_iter={max_iter} sweeps; raise max_iter or set symmetric=True.")
        return self

    def partition(self, X: Any = None) -> CredalPartition:
        """Return the credal partition of the rows seen in `fit`.

        Parameters
        ----------
        X : array-like, default=None
            None, or the rows given to `fit`; other rows have no masses.

        Returns
        -------
        partition : CredalPartition
        """
        check_is_fitted(self)
        if self.n_clusters_ > MAX_CLUSTERS:
            raise ValueError(
                f"There are {self.n_clusters_} clusters, but mass functions are limited to {MAX_CLUSTERS} "
                "clusters; use labels_, or raise n_neighbors or quantile."
            )
        return super().partition(X)

    def _graph(self, X: FloatArray) -> Graph:
        n_rows = len(X)
        if self.n_neighbors is None:
            most = min(MOST_NEIGHBORS, max(20, MOST_PAIRS // n_rows), n_rows - 1)
            n_neighbors = min(round(2 * np.sqrt(n_rows)), most)
        else:
            n_neighbors = check_integer("n_neighbors", self.n_neighbors, 1)
            check_fewer_than_rows("n_neighbors", n_neighbors, n_rows)
        quantile, power = check_real("quantile", self.quantile, 0, 1), check_real("power", self.power, 0)
        distances, neighbours = nearest_dissimilarities(X, n_neighbors, metric=self.metric, n_jobs=self.n_jobs)
        weights = evidence_weights(distances, quantile, power).ravel()
        starts = np.arange(0, weights.size + 1, n_neighbors)
        if not self.symmetric:
            return Graph(starts, neighbours.ravel(), weights)
        matrix = csr_array((weights, neighbours.ravel(), starts), shape=(n_rows, n_rows))
        both = csr_array((matrix + matrix.T) / 2)
        return Graph(both.indptr.astype(np.int64), both.indices.astype(np.int64), both.data)

    def _starts(self, n_rows: int, random: np.random.RandomState) -> list[IntArray]:
        n_init = check_starts(self.n_init)
        if not isinstance(self.init, str):
            given = np.asarray(self.init)
            if given.shape != (n_rows,):
                raise ValueError(f"init must be a name or hold {n_rows} labels, got shape {given.shape}.")
            return [np.unique(given, return_inverse=True)[1].astype(np.int64) for _ in range(n_init)]
        check_choice("init", self.init, ("rows", "random"))
        if self.init == "rows":
            return [np.arange(n_rows) for _ in range(n_init)]
        return [random.randint(max(2, n_rows // 10), size=n_rows) for _ in range(n_init)]


def evidence_weights(distances: FloatArray, quantile: float, power: float) -> FloatArray:
    """Weights of the evidence of neighbours; `distances` is overwritten to save memory."""
    weights = np.maximum(distances, NEAREST, out=distances)
    weights **= power
    weights /= -np.quantile(weights, quantile)
    np.maximum(np.exp(weights, out=weights), NEAREST, out=weights)
    np.log1p(np.negative(weights, out=weights), out=weights)
    return np.negative(weights, out=weights)


class _Settled(NamedTuple):
    labels: IntArray
    objective: float
    n_sweeps: int
    converged: bool


def _settle(graph: Graph, labels: IntArray, max_iter: int, random: np.random.RandomState) -> _Settled:
    """Sweep until no label changes; each connected group of a label is a cluster."""
    from egmm.cluster.compiled import eknn  # noqa: PLC0415  Numba loads when used.

    votes, n_sweeps, n_changed = np.zeros(len(labels)), 0, 1
    while n_changed and n_sweeps < max_iter:
        n_changed = eknn.sweep_labels(*graph, labels, random.permutation(len(labels)), votes)
        n_sweeps += 1
    groups = eknn.connected_groups(graph.starts, graph.neighbours, labels)
    objective = eknn.evidence_within(*graph, groups)
    return _Settled(groups, float(objective), n_sweeps, n_changed == 0)


def combined_evidence(graph: Graph, labels: IntArray) -> tuple[FocalSets, FloatArray]:
    """Dempster's combination of the neighbours' evidence, and its focal sets."""
    from egmm.cluster.compiled import eknn  # noqa: PLC0415

    n_clusters = int(labels.max()) + 1
    evidence = np.zeros((len(labels), n_clusters))
    eknn.evidence_per_cluster(*graph, labels, evidence)
    focal = FocalSets.simple(n_clusters)
    mass = np.zeros((len(evidence), len(focal)))
    if n_clusters == 1:
        mass[:] = 1.0
        return focal, mass
    most = evidence.max(axis=1, keepdims=True)
    frame = np.exp(-most)
    for k in range(n_clusters):
        mass[:, focal.index_of({k})] = np.exp(evidence[:, k] - most[:, 0]) * -np.expm1(-evidence[:, k])
    mass[:, focal.index_of(range(n_clusters))] = frame[:, 0]
    return focal, mass / mass.sum(axis=1, keepdims=True)
