"""Median evidential c-means."""

import numpy as np

from egmm._checks import FloatArray, IntArray, check_real
from egmm.belief.moebius import row_blocks
from egmm.cluster.masses import Pricing
from egmm.cluster.medoids import MassSums
from egmm.cluster.relational.ecmdd import MedoidClusterer, replaced


class MECM(MedoidClusterer):
    r"""Median evidential c-means: prototypes are rows, and sets of clusters have none.

    The squared distance of a row to a set of clusters follows from those to its clusters' medoids,

    .. math:: D_{ij} = \frac{1}{\gamma + 1} \Bigl( \frac{\gamma}{c_j} \sum_{k \in A_j} d_{ik}^2
        + \rho_{ij} \min_{k \in A_j} d_{ik}^2 \Bigr), \qquad
        \rho_{ij} = \frac{\sum_{k, l \in A_j} |d_{ik} - d_{il}|}{\eta \sum_{k, l \in A_j} d(v_k, v_l)},

    so that rows at about equal distances from several medoids are near to their set. MECM minimises the objective of
    :class:`ECM` with these distances. Given the masses, a cluster's medoid is the row of lowest cost, with the other
    medoids fixed: time is quadratic in the rows.

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
        Distance of every row to the empty set, in units of the dissimilarities; None: their 0.95 quantile.
    gamma : float, default=0.5
        Weight of the mean squared distance to the medoids in the distance to a set.
    eta : float, default=1.0
        Divisor of the nearest medoid's part in the distance to a set; above 0.
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

    Notes
    -----
    The formulas of the distance are taken from accounts of the paper and its published code, not checked against its
    text, and no published numbers were there to compare with.

    References
    ----------
    Zhou, Martin, Pan and Liu (2015), Median evidential c-means algorithm and its application to community detection.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [6.0], [10.0], [11.0], [12.0], [99.0]]
    >>> mecm = MECM(2, init=[0, 6]).fit(X)
    >>> mecm.medoids_, mecm.partition(X).sets()
    (array([1, 5]), array([1, 1, 1, 3, 2, 2, 2, 0]))
    """

    def _problem(self, D: FloatArray) -> "MedianProblem":
        self._gamma = check_real("gamma", self.gamma, 0)
        self._eta = check_real("eta", self.eta, 0, open_minimum=True)
        return MedianProblem(D, self._pricing, self._gamma, self._eta)

    def _keep(self, X: FloatArray, D: FloatArray) -> None:
        self._keep_rows(X, self.medoids_)
        self._between = D[np.ix_(self.medoids_, self.medoids_)]

    def _to_sets(self, D: FloatArray) -> FloatArray:
        return median_distances(D.T, self._between, self._pricing, self._gamma, self._eta)


class MedianProblem:
    """Distances to medoids, and to sets of them."""

    def __init__(self, D: FloatArray, pricing: Pricing, gamma: float, eta: float) -> None:
        self._D, self.pricing, self._gamma, self._eta = D, pricing, gamma, eta

    def set_distances(self, state: IntArray) -> FloatArray:
        """Distances (n_sets, n) of the rows to the non-empty sets."""
        between = self._D[np.ix_(state, state)]
        return median_distances(self._D[state], between, self.pricing, self._gamma, self._eta)

    def proposal(self, sums: MassSums, state: IntArray, cluster: int) -> IntArray:
        """State with the row of lowest cost as the cluster's medoid, masses and other medoids fixed."""
        return replaced(state, cluster, self.medoid_costs(sums, state, cluster))

    def medoid_costs(self, sums: MassSums, state: IntArray, cluster: int) -> FloatArray:
        """Cost (n,) on the sets of one cluster for each row as its medoid."""
        pricing, D = self.pricing, self._D
        weights = pricing.sizes * sums.masses[pricing.n_empty :] ** pricing.beta
        costs = np.zeros(len(D))
        for j in np.flatnonzero(pricing.shares[:, cluster]):
            others = np.setdiff1d(np.flatnonzero(pricing.shares[j]), cluster)
            for block in row_blocks(len(D), len(D)):
                costs[block] += self._candidate_costs(D[block], D[state[others]], state[others], weights[j], block)
        return costs

    def _candidate_costs(
        self, to_candidates: FloatArray, to_others: FloatArray, others: IntArray, weights: FloatArray, block: slice
    ) -> FloatArray:
        """Cost of the rows (n,) on one set, for each candidate of a block with dissimilarities (n_block, n)."""
        squared = np.square(to_candidates)
        if not len(others):
            return squared @ weights
        mean = (squared + np.square(to_others).sum(axis=0)) / (len(others) + 1)
        least = np.minimum(squared, np.square(to_others).min(axis=0))
        gaps = np.abs(to_others[:, None] - to_others).sum(axis=(0, 1)) + 2 * np.abs(
            to_candidates[:, None] - to_others
        ).sum(axis=1)
        apart = self._D[np.ix_(others, others)].sum() + 2 * self._D[block][:, others].sum(axis=1)
        # A candidate that coincides with all other medoids cannot be a medoid.
        usable = apart > 0
        gaps /= self._eta * np.where(usable, apart, 1.0)[:, None]
        costs = (self._gamma * mean + gaps * least) @ weights / (self._gamma + 1)
        return np.where(usable, costs, np.inf)


def median_distances(
    to_medoids: FloatArray, between: FloatArray, pricing: Pricing, gamma: float, eta: float
) -> FloatArray:
    """Squared distances (n_sets, n) to sets, from dissimilarities to medoids (C, n) and between these (C, C)."""
    squared = np.square(to_medoids)
    found = pricing.shares @ squared
    for j, share in enumerate(pricing.shares):
        members = np.flatnonzero(share)
        if len(members) == 1:
            continue
        gaps = np.abs(to_medoids[members, None] - to_medoids[members]).sum(axis=(0, 1))
        apart = float(between[np.ix_(members, members)].sum())
        # Coinciding medoids cannot be distinguished.
        share_of_nearest = gaps / (eta * apart) if apart > 0 else np.zeros_like(gaps)
        found[j] = (gamma * found[j] + share_of_nearest * squared[members].min(axis=0)) / (gamma + 1)
    return found
