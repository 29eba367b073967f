"""Credal c-means."""

from typing import Any

from egmm._checks import check_real
from egmm.cluster.base import PrototypeClusterer
from egmm.cluster.masses import Pricing, evidential_pricing


class CCM(PrototypeClusterer):
    r"""Credal c-means: a row is open if it is close to several clusters, not to the mean of their prototypes.

    The squared distance to a set of clusters includes those to its clusters:

    .. math:: D_{ij} = \frac{\sum_{k \in A_j} |x_i - \mu_k|^2 + \gamma |x_i - \nu_j|^2}{c_j + \gamma}
        = |x_i - \nu_j|^2 + \frac{1}{c_j + \gamma} \sum_{k \in A_j} |\mu_k - \nu_j|^2,

    which is the distance of :class:`ECM` plus a constant per set, so that a set of distant clusters is costly for every
    row. CCM minimises
    :math:`\sum_i \sum_{A_j \ne \emptyset} m_{ij}^\beta D_{ij} + \delta^2 \sum_i m_{i\emptyset}^\beta` alternately over
    masses and prototypes.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    gamma : float, default=1.0
        Weight of the distance to the set's mean relative to those to its clusters.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100.
    delta : float, default=10.0
        Distance of every row to the empty set, in units of the data.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initial prototypes: means of k-means clusters, means of the rows nearest to random rows, or given prototypes.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given prototypes are one start.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much.
    max_iter : int, default=1000
        Maximum number of updates of the prototypes.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    means_ : ndarray of shape (n_clusters, n_features)
        Prototypes :math:`\mu_k`.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets :math:`A_j`, the empty set first.
    objective_ : float
        The objective at `means_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
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
    Liu, Pan, Dezert and Mercier (2015), Credal c-means clustering method based on belief functions.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [6.0], [10.0], [11.0], [12.0], [99.0]]
    >>> ccm = CCM(2, init=[[1.0], [11.0]]).fit(X)
    >>> [ccm.focal_sets_.labels[j] for j in ccm.predict_sets(X)][2:]
    ['{1}', '{1,2}', '{2}', '{2}', '{2}', '∅']
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "pairs",
        gamma: float = 1.0,
        beta: float = 2.0,
        delta: float = 10.0,
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.focal_sets = focal_sets
        self.gamma = gamma
        self.beta = beta
        self.delta = delta
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _make_pricing(self, n_clusters: int) -> Pricing:
        gamma = check_real("gamma", self.gamma, 0)
        return evidential_pricing(
            self.focal_sets, n_clusters, 0.0, self.beta, self.delta, credit=lambda sizes: gamma / (sizes + gamma)
        )
