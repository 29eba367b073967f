"""Evidential c-medoids, and the base of median evidential c-means."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from egmm._checks import FloatArray, IntArray, all_or_nothing, check_integer, check_random, check_real, check_starts
from egmm.cluster.base import CredalClusterer
from egmm.cluster.masses import Pricing, evidential_pricing, optimal_masses
from egmm.cluster.medoids import MassSums, Proposals, costs_from, search, singleton_powers
from egmm.cluster.relational.base import Relational
from egmm.cluster.relational.dissimilarities import (
    check_distinct,
    dissimilarities,
    is_precomputed,
    start_coordinates,
    starting_labels,
)
from egmm.cluster.relational.recm import delta_of


class MedoidClusterer(Relational, CredalClusterer):
    """A clusterer whose prototypes are rows; its parameters are those of all its kind."""

    medoids_: IntArray

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
        beta: float = 2.0,
        delta: float | None = 10.0,
        gamma: float = 0.5,
        eta: float = 1.0,
        metric: Any = "euclidean",
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.focal_sets = focal_sets
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
        self.gamma = gamma
        self.eta = eta
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Find the medoids.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
            Rows, or dissimilarities with ``metric="precomputed"``.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self : object
            The clusterer, fitted.
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            n_clusters = check_integer("n_clusters", self.n_clusters, 1)
            tol, max_iter = self._check_stopping()
            D = self._dissimilarities(X)
            check_distinct(n_clusters, D)
            self.delta_ = delta_of(self.delta, D)
            self._pricing = evidential_pricing(self.focal_sets, n_clusters, self.alpha, self.beta, self.delta_)
            self.focal_sets_ = self._pricing.focal
            problem = self._problem(D)
            best = search(problem, self._starts(X, D, n_clusters), tol=tol, max_iter=max_iter)
            self.medoids_ = best.state
            self._set_descent(best)
            self._keep(X, D)
            self._set_rows(X, None)
        self._warn_unless_converged()
        return self

    def _problem(self, D: FloatArray) -> Proposals:
        raise NotImplementedError

    def _keep(self, X: FloatArray, D: FloatArray) -> None:
        """Keep what is needed for distances of new rows, once the medoids are known."""
        raise NotImplementedError

    def _to_sets(self, D: FloatArray) -> FloatArray:
        """Distances (n_sets, n) of rows to the sets, from dissimilarities (n, n_kept) to the kept rows."""
        raise NotImplementedError

    def _masses(self) -> Callable[[FloatArray], FloatArray]:
        return lambda X: (
            optimal_masses(costs_from(self._to_sets(self._to_kept(X)), self._pricing), self._pricing.beta).T
        )

    def _keep_rows(self, X: FloatArray, numbers: IntArray) -> None:
        """Keep rows, or their indices for given dissimilarities, to compute distances of new rows."""
        self._kept = numbers if is_precomputed(self.metric) else X[numbers]

    def _to_kept(self, X: FloatArray) -> FloatArray:
        kept: Any = self._kept
        if is_precomputed(self.metric):
            return dissimilarities(X, self.metric, X)[:, kept]
        return dissimilarities(X, self.metric, kept)

    def _starts(self, X: FloatArray, D: FloatArray, n_clusters: int) -> list[IntArray]:
        n_init = check_starts(self.n_init)
        if not isinstance(self.init, str):
            return [check_medoids(self.init, len(D), n_clusters)]
        random = check_random(self.random_state)
        coordinates = start_coordinates(X, self.metric, np.square(D), n_clusters)
        labels = [starting_labels(coordinates, n_clusters, self.init, random) for _ in range(n_init)]
        return [group_medoids(D, groups, n_clusters) for groups in labels]


class ECMdd(MedoidClusterer):
    r"""Evidential c-medoids: prototypes are rows, so that any dissimilarity can be used.

    The medoid of a cluster is a row :math:`v_k`. The prototype of a set of several clusters is the row that is about
    equally near to its medoids,

    .. math:: p_j = \arg\min_p \operatorname{Var}_{k \in A_j} d(p, v_k) + \frac{\eta}{c_j} \sum_{k \in A_j} d(p, v_k),
        \qquad D_{ij} = \frac{d(x_i, p_j) + \frac{\gamma}{c_j} \sum_{k \in A_j} d(x_i, v_k)}{1 + \gamma},

    and :math:`D_{ij} = d(x_i, v_k)` for a single cluster. ECMdd minimises

    .. math:: J = \sum_i \sum_{A_j \ne \emptyset} c_j^\alpha m_{ij}^\beta D_{ij} + \delta^2 \sum_i m_{i\emptyset}^\beta.

    A cluster's medoid moves to the row with the least sum of dissimilarities, weighted by :math:`m_{ik}^\beta` of the
    single cluster, if that lowers J.

    All rows count once: there are no sample weights.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100.
    delta : float or None, default=10.0
        Square root of the distance of every row to the empty set; None: the 0.95 quantile of the dissimilarities.
    gamma : float, default=0.5
        Weight of the distances to the medoids in the distance to a set.
    eta : float, default=1.0
        Weight of the nearness of a set's prototype to the medoids, relative to equal distances.
    metric : str or callable, default='euclidean'
        'precomputed': X holds dissimilarities (not squared). Otherwise X holds features, and this is a metric of
        :func:`sklearn.metrics.pairwise_distances`.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters,), default='kmeans'
        Initial medoids: medoids of k-means clusters on the leading coordinates of classical scaling (on the features
        for Euclidean distances), medoids of the rows nearest to random rows, or row numbers.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given medoids are one start.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much.
    max_iter : int, default=1000
        Maximum number of updates of all medoids.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    medoids_ : ndarray of shape (n_clusters,)
        Row numbers of the medoids, all distinct.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    delta_ : float
        The `delta` used.
    objective_ : float
        The objective at `medoids_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
    n_iter_ : int
        Number of updates of all medoids.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Zhou, Martin, Pan and Liu (2016), ECMdd: evidential c-medoids clustering with multiple prototypes.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [6.0], [10.0], [11.0], [12.0], [999.0]]
    >>> ecmdd = ECMdd(2, init=[0, 6]).fit(X)
    >>> ecmdd.medoids_, ecmdd.partition(X).sets()
    (array([1, 5]), array([1, 1, 1, 3, 2, 2, 2, 0]))
    """

    def _problem(self, D: FloatArray) -> "MedoidProblem":
        self._gamma = check_real("gamma", self.gamma, 0)
        return MedoidProblem(D, self._pricing, self._gamma, check_real("eta", self.eta, 0))

    def _keep(self, X: FloatArray, D: FloatArray) -> None:
        middles = set_medoids(D, self.medoids_, self._pricing, self.eta)
        self._keep_rows(X, np.concatenate([self.medoids_, middles]))

    def _to_sets(self, D: FloatArray) -> FloatArray:
        n_clusters = self.focal_sets_.n_clusters
        return medoid_distances(D[:, :n_clusters].T, D[:, n_clusters:].T, self._pricing, self._gamma)


class MedoidProblem:
    """Distances to medoids and to the prototypes of sets."""

    def __init__(self, D: FloatArray, pricing: Pricing, gamma: float, eta: float) -> None:
        self._D, self.pricing, self._gamma, self._eta = D, pricing, gamma, eta

    def set_distances(self, state: IntArray) -> FloatArray:
        """Distances (n_sets, n) of the rows to the non-empty sets."""
        middles = set_medoids(self._D, state, self.pricing, self._eta)
        return medoid_distances(self._D[state], self._D[middles], self.pricing, self._gamma)

    def proposal(self, sums: MassSums, state: IntArray, cluster: int) -> IntArray:
        """State with the row of the smallest weighted sum of dissimilarities as the cluster's medoid."""
        weights = singleton_powers(sums.masses, self.pricing)[cluster]
        return replaced(state, cluster, self._D @ weights)


def replaced(state: IntArray, cluster: int, costs: FloatArray) -> IntArray:
    """Medoids with one replaced by the row of lowest cost; medoids stay distinct, and ties keep the old one."""
    costs = costs.copy()
    costs[np.delete(state, cluster)] = np.inf
    best = int(np.argmin(costs))
    if costs[best] == costs[state[cluster]]:
        return state
    moved = state.copy()
    moved[cluster] = best
    return moved


def set_medoids(D: FloatArray, medoids: IntArray, pricing: Pricing, eta: float) -> IntArray:
    """Row (n_sets,) about equally near to the medoids of each set; the medoid itself for a singleton."""
    to_medoids, middles = D[medoids], np.empty(len(pricing.shares), dtype=np.int64)
    for j, share in enumerate(pricing.shares):
        members = np.flatnonzero(share)
        if len(members) == 1:
            middles[j] = medoids[members[0]]
        else:
            middles[j] = np.argmin(to_medoids[members].var(axis=0) + eta * to_medoids[members].mean(axis=0))
    return middles


def medoid_distances(to_medoids: FloatArray, to_middles: FloatArray, pricing: Pricing, gamma: float) -> FloatArray:
    """Distances (n_sets, n) from those to the medoids (C, n) and to the sets' prototypes (n_sets, n)."""
    return (to_middles + gamma * (pricing.shares @ to_medoids)) / (1 + gamma)


def group_medoids(D: FloatArray, labels: IntArray, n_clusters: int) -> IntArray:
    """Row of each group with the smallest sum of dissimilarities to the group."""
    medoids = np.empty(n_clusters, dtype=np.int64)
    for k in range(n_clusters):
        members = np.flatnonzero(labels == k)
        medoids[k] = members[np.argmin(D[np.ix_(members, members)].sum(axis=1))]
    return medoids


def check_medoids(init: Any, n_rows: int, n_clusters: int) -> IntArray:
    """Validate given medoids."""
    medoids = np.asarray(init)
    if medoids.shape != (n_clusters,) or medoids.dtype.kind not in "iu":
        raise ValueError(
            f"init must be a name or hold {n_clusters} row numbers, got {medoids.dtype} of shape {medoids.shape}."
        )
    if medoids.min() < 0 or medoids.max() >= n_rows or len(np.unique(medoids)) < n_clusters:
        raise ValueError(f"init must hold distinct row numbers from 0 to {n_rows - 1}, got {medoids.tolist()}.")
    return medoids.astype(np.int64)
