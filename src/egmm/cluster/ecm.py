"""Evidential c-means."""

from typing import Any

from egmm.cluster.base import PrototypeClusterer
from egmm.cluster.masses import Pricing, evidential_pricing


class ECM(PrototypeClusterer):
    r"""Evidential c-means: a mass function over sets of clusters for every row; the empty set holds outliers.

    The prototype of a set :math:`A_j` of :math:`c_j` clusters is the mean of its clusters' prototypes,
    :math:`\nu_j = \frac{1}{c_j} \sum_{k \in A_j} \mu_k`. With :math:`D_{ij} = |x_i - \nu_j|^2`, ECM minimises

    .. math:: J = \sum_i \sum_{A_j \ne \emptyset} c_j^\alpha m_{ij}^\beta D_{ij}
        + \delta^2 \sum_i m_{i\emptyset}^\beta

    alternately over masses that sum to one and over prototypes. A row on a prototype has mass 1 there.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100; masses become hard as it approaches 1.
    delta : float, default=10.0
        Distance of every row to the empty set, in units of the data: rows farther from all prototypes are outliers.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initial prototypes: means of k-means clusters, means of the rows nearest to random rows, or given prototypes.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given prototypes are one start.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much. J is in squared units of the data and grows with the
        rows. Masses are those of `means_`; R's evclust, which stops likewise, returns prototypes updated once more.
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
        :math:`J` at `means_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        :math:`J` at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, :math:`\frac{1}{N \log_2 C} \sum_i \bigl(
        \sum_{A \ne \emptyset} m_i(A) \log_2 |A| + m_i(\emptyset) \log_2 C \bigr)`: minimised over the number of
        clusters.
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
    Masson and Denoeux (2008), ECM: an evidential version of the fuzzy c-means algorithm.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [6.0], [10.0], [11.0], [12.0], [99.0]]
    >>> ecm = ECM(2, init=[[1.0], [11.0]]).fit(X)
    >>> ecm.focal_sets_.labels
    ('∅', '{1}', '{2}', '{1,2}')
    >>> ecm.partition(X).sets()
    array([1, 1, 1, 3, 2, 2, 2, 0])
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
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
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
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
        return evidential_pricing(self.focal_sets, n_clusters, self.alpha, self.beta, self.delta)
