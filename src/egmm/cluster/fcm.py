"""Fuzzy c-means and its validity index, the modified partition coefficient."""

from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_finite_matrix, check_sample_weight
from egmm.belief.decisions import best_cluster
from egmm.belief.focal import FocalSets
from egmm.cluster.base import PrototypeClusterer
from egmm.cluster.masses import Pricing, check_beta


def modified_partition_coefficient(membership: Any, sample_weight: Any = None) -> float:
    r"""Modified partition coefficient: 0 if all memberships are equal, 1 if they are hard.

    .. math:: \mathrm{MPC} = 1 - \frac{C}{C - 1} (1 - \mathrm{PC}), \qquad
        \mathrm{PC} = \frac{1}{N} \sum_{i,k} u_{ik}^2

    Maximised over the number of clusters. It is 0 for one cluster.

    Parameters
    ----------
    membership : array-like of shape (n_samples, n_clusters)
        Memberships :math:`u_{ik}`, rows summing to one.
    sample_weight : array-like of shape (n_samples,), default=None
        Row weights.

    Returns
    -------
    mpc : float

    References
    ----------
    Dave (1996), Validating fuzzy partitions obtained through c-shells clustering.

    Examples
    --------
    >>> modified_partition_coefficient([[0.5, 0.5], [1.0, 0.0]])
    0.5
    """
    membership = check_finite_matrix("membership", membership, (None, None))
    if membership.size == 0:
        raise ValueError(f"membership must have at least one row and one cluster, got shape {membership.shape}.")
    weight = check_sample_weight(sample_weight, len(membership))
    return _modified(np.einsum("nk,nk->n", membership, membership), weight, membership.shape[1])


def _modified(squares: FloatArray, sample_weight: FloatArray | None, n_clusters: int) -> float:
    """MPC from the rows' sums of squared memberships."""
    if n_clusters == 1:
        return 0.0
    coefficient = float(np.average(squares, weights=sample_weight))
    return 1 - n_clusters / (n_clusters - 1) * (1 - coefficient)


class FCM(PrototypeClusterer):
    r"""Fuzzy c-means: every row has a degree of membership in every cluster.

    Minimises :math:`J = \sum_i \sum_k u_{ik}^\beta |x_i - \mu_k|^2` over memberships that sum to one by alternating

    .. math:: u_{ik} = \Bigl( \sum_l (|x_i - \mu_k| / |x_i - \mu_l|)^{2/(\beta-1)} \Bigr)^{-1}, \qquad
        \mu_k = \frac{\sum_i u_{ik}^\beta x_i}{\sum_i u_{ik}^\beta}.

    It is evidential c-means restricted to singletons, without the empty set, so it has the methods of :class:`ECM`; the
    masses are the memberships. A row on a prototype has membership 1 there.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    beta : float, default=2.0
        Fuzziness, above 1 and up to 100; memberships become hard as it approaches 1.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initial prototypes: means of k-means clusters, means of the rows nearest to random rows, or given prototypes.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given prototypes are one start.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much. J is in squared units of the data and grows with the
        rows.
    max_iter : int, default=1000
        Maximum number of updates of the prototypes.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    means_ : ndarray of shape (n_clusters, n_features)
        Prototypes :math:`\mu_k`.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest membership of each row.
    objective_ : float
        :math:`J` at `means_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        :math:`J` at the start and after each update; it never increases.
    mpc_ : float
        Modified partition coefficient of the rows, see :func:`egmm.cluster.modified_partition_coefficient`.
    focal_sets_ : FocalSets
        The single clusters.
    n_iter_ : int
        Number of updates of the prototypes.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Bezdek (1981), Pattern Recognition with Fuzzy Objective Function Algorithms.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
    >>> fcm = FCM(2, random_state=0).fit(X)
    >>> np.sort(fcm.means_, axis=0).round(2)
    array([[ 1.],
           [11.]])
    >>> fcm.predict_proba([[6.0]]).round(2)
    array([[0.5, 0.5]])
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        beta: float = 2.0,
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.beta = beta
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def _make_pricing(self, n_clusters: int) -> Pricing:
        return Pricing(FocalSets.singletons(n_clusters), alpha=0.0, beta=check_beta(self.beta), delta=1.0)

    def _set_rows(self, X: FloatArray, sample_weight: FloatArray | None) -> None:
        self.labels_, squares = self._read(X, best_cluster, lambda mass, _: np.einsum("nk,nk->n", mass, mass))
        self.mpc_ = _modified(squares, sample_weight, self.n_clusters)
