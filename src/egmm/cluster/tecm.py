"""Transfer evidential c-means."""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from egmm._checks import FloatArray, check_finite_matrix, check_real
from egmm.belief.focal import FocalSets
from egmm.cluster.base import PrototypeClusterer
from egmm.cluster.masses import (
    ZERO,
    Costs,
    EuclideanCosts,
    Pricing,
    euclidean,
    evidential_pricing,
    relative_masses,
)
from egmm.cluster.prototypes import ColumnCosts, PrototypeModel, Pull
from egmm.em.sample import Sample


class TECM(PrototypeClusterer):
    r"""Transfer evidential c-means: prototypes of a source domain help to cluster small or noisy data.

    With as many source prototypes :math:`s_k` as clusters, TECM minimises

    .. math:: J = J_{ECM}(\mu; \delta) + b_1 J_{ECM}(s; \delta_s) + b_2 \sum_k |\mu_k - s_k|^2

    over masses, shared by the first two terms, and prototypes. With another number of source prototypes, it minimises

    .. math:: J = J_{ECM}(\mu; \delta) + b_3 \sum_{l,k} r_{lk}^\eta |s_l - \mu_k|^2

    over masses, prototypes and fuzzy memberships r of the source prototypes in the clusters. With :math:`b_1 = b_2 = 0`
    (or :math:`b_3 = 0`), and without source prototypes, it is :class:`ECM`.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    source_means : array-like of shape (n_source, n_features) or None, default=None
        Prototypes of the source domain, if any.
    b1 : float, default=1.0
        Weight of the rows' costs at the source prototypes.
    b2 : float, default=1.0
        Weight of the squared distances of prototypes to their source prototypes.
    b3 : float, default=1.0
        Weight of the source prototypes if their number differs from that of the clusters.
    eta : float, default=2.0
        Exponent of the memberships of source prototypes, above 1 and up to 100.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100.
    delta : float, default=10.0
        Distance of every row to the empty set, in units of the data.
    delta_source : float, default=10.0
        Distance :math:`\delta_s` to the empty set in the term of the source prototypes.
    init : {'kmeans', 'random', 'source'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initial prototypes: as in :class:`ECM`, ordered like the nearest source prototypes; or the source prototypes.
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
        Prototypes :math:`\mu_k`; with as many source prototypes, in their order.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    objective_ : float
        J at `means_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        J at the start and after each update; it never increases.
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
    Zhou, Guo and Martin (2022), Transfer evidential c-means.

    Examples
    --------
    >>> X = [[0.0], [1.0], [6.0], [10.0], [11.0]]
    >>> tecm = TECM(2, source_means=[[0.0], [12.0]], b2=100.0).fit(X)
    >>> tecm.means_.round(1).ravel()
    array([ 0., 12.])
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        source_means: Any = None,
        b1: float = 1.0,
        b2: float = 1.0,
        b3: float = 1.0,
        eta: float = 2.0,
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
        beta: float = 2.0,
        delta: float = 10.0,
        delta_source: float = 10.0,
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.source_means = source_means
        self.b1 = b1
        self.b2 = b2
        self.b3 = b3
        self.eta = eta
        self.focal_sets = focal_sets
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
        self.delta_source = delta_source
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _make_pricing(self, n_clusters: int) -> Pricing:
        return evidential_pricing(self.focal_sets, n_clusters, self.alpha, self.beta, self.delta)

    def _make_model(self) -> PrototypeModel:
        weights = {name: check_real(name, getattr(self, name), 0) for name in ("b1", "b2", "b3")}
        eta = check_real("eta", self.eta, 1, 100, open_minimum=True)
        source = self._source()
        self._transfer: Transfer | None = None
        if source is None:
            return PrototypeModel(self._pricing)
        if len(source) != self.n_clusters:
            return Regrouped(self._pricing, source, weights["b3"], eta)
        far = evidential_pricing(self.focal_sets, self.n_clusters, self.alpha, self.beta, self.delta_source)
        self._transfer = Transfer(self._pricing, far, source, weights["b1"], weights["b2"])
        return self._transfer

    def _source(self) -> FloatArray | None:
        if self.source_means is None:
            return None
        source = check_finite_matrix("source_means", self.source_means, (None, self.n_features_in_))
        if not len(source):
            raise ValueError("source_means must hold at least one prototype, got none; pass None instead.")
        return source

    def _starts(self, sample: Sample, n_clusters: int) -> list[FloatArray]:
        source = self._source()
        is_matched = source is not None and len(source) == n_clusters
        if isinstance(self.init, str) and self.init == "source":
            if source is None or not is_matched:
                raise ValueError(
                    f"init='source' needs n_clusters={n_clusters} prototypes in source_means; use 'kmeans' instead."
                )
            return [source]
        starts = super()._starts(sample, n_clusters)
        if source is None or not is_matched or not isinstance(self.init, str):
            return starts
        return [start[linear_sum_assignment(cdist(source, start, "sqeuclidean"))[1]] for start in starts]

    def _costs(self) -> Costs:
        near, transfer = euclidean(self.means_, self._pricing), self._transfer
        if transfer is None or transfer.b1 == 0:
            return near
        far, b1 = euclidean(transfer.source, transfer.far), transfer.b1
        return lambda X: near(X) + b1 * far(X)


class Transfer(PrototypeModel):
    """Rows also have costs at the source prototypes, and each prototype is attracted to its source prototype."""

    def __init__(self, pricing: Pricing, far: Pricing, source: FloatArray, b1: float, b2: float) -> None:
        super().__init__(pricing)
        self.far, self.source, self.b1, self.b2 = far, source, b1, b2

    def about(self, centre: FloatArray) -> "Transfer":
        """Return the model in coordinates relative to `centre`."""
        return Transfer(self.pricing, self.far, self.source - centre, self.b1, self.b2)

    def costs(self, means: FloatArray) -> ColumnCosts:
        """Return the cost function of rows."""
        near = super().costs(means)
        if self.b1 == 0:
            return near
        far = EuclideanCosts(self.source, self.far)
        return lambda columns, lengths: near(columns, lengths) + self.b1 * far(columns, lengths)

    def pull(self, means: FloatArray) -> Pull | None:
        """Return the term that attracts prototypes to the source."""
        weights = np.full(len(means), self.b2)
        return Pull(weights, self.b2 * self.source, self.b2 * float(np.square(means - self.source).sum()))


class Regrouped(PrototypeModel):
    """A different number of source prototypes attracts the nearest prototypes by fuzzy memberships."""

    def __init__(self, pricing: Pricing, source: FloatArray, b3: float, eta: float) -> None:
        super().__init__(pricing)
        self._source, self._b3 = source, b3
        self._memberships = Pricing(FocalSets.singletons(pricing.focal.n_clusters), alpha=0.0, beta=eta, delta=1.0)

    def about(self, centre: FloatArray) -> "Regrouped":
        """Return the model in coordinates relative to `centre`."""
        return Regrouped(self.pricing, self._source - centre, self._b3, self._memberships.beta)

    def pull(self, means: FloatArray) -> Pull | None:
        """Return the term of the source prototypes, with optimal memberships."""
        eta = self._memberships.beta
        costs = np.maximum(euclidean(means, self._memberships)(self._source), ZERO)
        relative, total, objective = relative_masses(costs, eta)
        powers = self._b3 * (relative / total) ** eta
        return Pull(powers.sum(axis=1), powers @ self._source, self._b3 * float(objective.sum()))
