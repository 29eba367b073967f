"""Multi-view evidential c-medoids, with weights."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

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
from egmm.cluster.base import TransductiveClusterer
from egmm.cluster.descent import descend
from egmm.cluster.masses import ZERO, Pricing, evidential_pricing
from egmm.cluster.medoids import masses_from, singleton_powers
from egmm.cluster.relational.dissimilarities import (
    check_distinct,
    dissimilarities,
    is_precomputed,
    start_coordinates,
    starting_labels,
)
from egmm.cluster.relational.ecmdd import check_medoids, group_medoids, medoid_distances, replaced, set_medoids
from egmm.cluster.relational.recm import delta_of
from egmm.cluster.views.views import checked_widths, is_listed, joined


class MultiViewECMdd(TransductiveClusterer, BaseEstimator):
    r"""Multi-view evidential c-medoids: views are dissimilarities or features, with learned weights.

    With :math:`D^l_{ij}` the distances of :class:`ECMdd` in view l, the objective is

    .. math:: J = \sum_i \sum_{A_j \ne \emptyset} c_j^\alpha m_{ij}^\beta \sum_l \lambda_{jl}^s D^l_{ij}
        + \delta^2 \sum_i m_{i\emptyset}^\beta.

    The weights :math:`\lambda` are shared by all sets ('global', known as MECMdd-RWG) or specific to each set ('local',
    MECMdd-RWL). They sum to one over the views with an exponent s above 1 ('sum'), or their product is one and s = 1
    ('prod'). Masses and weights are optimal given the others; a medoid moves to the row with the smallest weighted sum
    of dissimilarities over all views, if that lowers the objective.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    views : list of int or None, default=None
        Number of columns of each view, if X is one table; None: all columns are one view.
    weights : {'global', 'local'}, default='global'
        Weights per view, or per view and set.
    constraint : {'prod', 'sum'}, default='prod'
        Whether the weights of the views have product one or sum one.
    exponent : float, default=2.0
        The exponent s with 'sum', above 1.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100.
    delta : float or None, default=10.0
        Square root of the distance of every row to the empty set; None: the 0.95 quantile of the dissimilarities,
        averaged over the views.
    gamma : float, default=0.5
        Weight of the distances to the medoids in the distance to a set.
    eta : float, default=1.0
        Weight of the nearness of a set's prototype to the medoids, relative to equal distances.
    metric : str or callable, default='euclidean'
        'precomputed': each view holds dissimilarities (not squared). Otherwise a metric of
        :func:`sklearn.metrics.pairwise_distances`.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters,), default='kmeans'
        Initial medoids, as in :class:`ECMdd`, from the mean of the views' dissimilarities.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given medoids are one start.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much.
    max_iter : int, default=1000
        Maximum number of updates of medoids and weights.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    medoids_ : ndarray of shape (n_clusters,)
        Row numbers of the medoids, all distinct.
    view_weights_ : ndarray of shape (n_views,) or (n_focal - 1, n_views)
        Weights; with 'local', one row per non-empty set.
    masses_ : ndarray of shape (n_samples, n_focal)
        Masses of the rows, in the order of `focal_sets_`.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    delta_ : float
        The `delta` used.
    objective_ : float
        J at the end.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        J at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the masses, see :class:`ECM`.
    n_iter_ : int
        Number of updates of medoids and weights.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns of all views.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X is one table with string names.

    References
    ----------
    Soubeiga, Antoine, Corteval, Kerckhove and Moreno (2024), Clustering and interpretation of time series with multiple
    dissimilarities by evidential c-medoids.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shown, hidden = np.repeat([[0.0], [5.0]], 20, axis=0) + rng.normal(0, 0.3, (40, 1)), rng.normal(0, 3, (40, 2))
    >>> model = MultiViewECMdd(2, random_state=0).fit([shown, hidden])
    >>> bool(model.view_weights_[0] > 1 > model.view_weights_[1])
    True
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        views: Sequence[int] | None = None,
        weights: str = "global",
        constraint: str = "prod",
        exponent: float = 2.0,
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
        self.views = views
        self.weights = weights
        self.constraint = constraint
        self.exponent = exponent
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

    def __sklearn_tags__(self) -> Any:
        """Declare pairwise input if X is one table of dissimilarities."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = is_precomputed(self.metric)
        tags.input_tags.pairwise = is_precomputed(self.metric) and self.views is None
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit medoids and weights.

        Parameters
        ----------
        X : list of array-like of shape (n_samples, n_columns_of_view), or array-like of shape (n_samples, n_columns)
            The views, or one table split by `views`. With ``metric="precomputed"`` each has a column per row.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self : MultiViewECMdd
        """
        with all_or_nothing(self):
            table, widths = joined(X, self.views)
            table = self._validated(table, ensure_min_samples=2)
            ends = np.cumsum(checked_widths(widths, table.shape[1]))[:-1]
            tables = [dissimilarities(view, self.metric) for view in np.split(table, ends, axis=1)]
            self._fit_tables(table, tables)
        self._warn_unless_converged()
        return self

    def partition(self, X: Any = None) -> Any:
        """Return the credal partition of the rows seen in `fit`.

        Parameters
        ----------
        X : array-like or list of array-like, default=None
            None, or the rows given to `fit`; other rows have no masses.

        Returns
        -------
        partition : CredalPartition
        """
        return super().partition(joined(X, self.views).X if is_listed(X) else X)

    def _fit_tables(self, table: FloatArray, tables: list[FloatArray]) -> None:
        n_clusters = check_integer("n_clusters", self.n_clusters, 1)
        tol, max_iter = self._check_stopping()
        D = np.stack(tables)
        mean = D.mean(axis=0)
        check_distinct(n_clusters, mean)
        self.delta_ = self.delta if self.delta is not None else float(np.mean([delta_of(None, view) for view in D]))
        pricing = evidential_pricing(self.focal_sets, n_clusters, self.alpha, self.beta, self.delta_)
        problem = self._problem(D, pricing)
        runs = [
            descend(problem.start(medoids), problem.evaluate, problem.update, tol=tol, max_iter=max_iter)
            for medoids in self._starts(table, mean, n_clusters)
        ]
        best = min(runs, key=lambda run: run.history[-1])
        self.medoids_, weights = best.state
        self.view_weights_ = weights if self.weights == "local" else weights[0]
        self._set_descent(best)
        self._set_masses(table, np.ascontiguousarray(problem.evaluate(best.state).masses.T), pricing.focal)

    def _problem(self, D: FloatArray, pricing: Pricing) -> "WeightedMedoids":
        check_choice("weights", self.weights, ("global", "local"))
        check_choice("constraint", self.constraint, ("prod", "sum"))
        exponent = check_real("exponent", self.exponent, 1, 100, open_minimum=True)
        shape = Shape(check_real("gamma", self.gamma, 0), check_real("eta", self.eta, 0))
        rule = WeightRule(self.weights == "local", exponent if self.constraint == "sum" else None)
        return WeightedMedoids(D, pricing, shape, rule)

    def _starts(self, table: FloatArray, mean: FloatArray, n_clusters: int) -> list[IntArray]:
        n_init = check_starts(self.n_init)
        if not isinstance(self.init, str):
            return [check_medoids(self.init, len(mean), n_clusters)]
        random = check_random(self.random_state)
        coordinates = start_coordinates(table, self.metric, np.square(mean), n_clusters)
        labels = [starting_labels(coordinates, n_clusters, self.init, random) for _ in range(n_init)]
        return [group_medoids(mean, groups, n_clusters) for groups in labels]


class Shape(NamedTuple):
    """Parameters of the distance to a set; see ECMdd."""

    gamma: float
    eta: float


class WeightRule(NamedTuple):
    """Rule for the weights of views from their costs."""

    is_local: bool
    exponent: float | None
    """None: the weights have product one."""

    def weights(self, costs: FloatArray) -> FloatArray:
        """Optimal weights (n_sets, n_views) from costs (n_sets, n_views)."""
        costs = costs if self.is_local else np.broadcast_to(costs.sum(axis=0), costs.shape)
        logs = np.log(np.maximum(costs, ZERO))
        if self.exponent is None:
            return np.exp(logs.mean(axis=1, keepdims=True) - logs)
        relative = np.exp(-(logs - logs.min(axis=1, keepdims=True)) / (self.exponent - 1))
        return relative / relative.sum(axis=1, keepdims=True)

    def powers(self, weights: FloatArray) -> FloatArray:
        """Weights as used in the objective."""
        return weights if self.exponent is None else weights**self.exponent


class MedoidState(NamedTuple):
    """Medoids, and weights of the views for each set."""

    medoids: IntArray
    weights: FloatArray


class ViewMasses(NamedTuple):
    """Masses (n_focal, n) of all rows at a state, the views' distances (n_views, n_sets, n), and the objective."""

    masses: FloatArray
    to_sets: FloatArray
    objective: float


class WeightedMedoids:
    """Masses and weights, optimal given the others, and medoids that lower the cost."""

    def __init__(self, D: FloatArray, pricing: Pricing, shape: Shape, rule: WeightRule) -> None:
        self._D, self._pricing, self._shape, self._rule = D, pricing, shape, rule

    def start(self, medoids: IntArray) -> MedoidState:
        """Equal weights."""
        n_views = len(self._D)
        equal = 1.0 if self._rule.exponent is None else 1 / n_views
        return MedoidState(medoids, np.full((len(self._pricing.shares), n_views), equal))

    def evaluate(self, state: MedoidState) -> ViewMasses:
        """Optimal masses."""
        pricing, D = self._pricing, self._D
        middles = set_medoids(D.sum(axis=0), state.medoids, pricing, self._shape.eta)
        to_sets = np.stack(
            [medoid_distances(view[state.medoids], view[middles], pricing, self._shape.gamma) for view in D]
        )
        found = masses_from(np.einsum("jl,ljn->jn", self._rule.powers(state.weights), to_sets), pricing)
        return ViewMasses(found.masses, to_sets, found.objective)

    def update(self, passed: ViewMasses, state: MedoidState) -> MedoidState:
        """Update medoids in turn, then weights."""
        for cluster in range(len(state.medoids)):
            proposed = MedoidState(self._proposal(passed, state, cluster), state.weights)
            if not np.array_equal(proposed.medoids, state.medoids):
                found = self.evaluate(proposed)
                if found.objective < passed.objective:
                    passed, state = found, proposed
        pricing = self._pricing
        powers = pricing.sizes * passed.masses[pricing.n_empty :] ** pricing.beta
        return MedoidState(state.medoids, self._rule.weights(np.einsum("jn,ljn->jl", powers, passed.to_sets)))

    def _proposal(self, passed: ViewMasses, state: MedoidState, cluster: int) -> IntArray:
        """Medoids with that of one cluster replaced by the row with the smallest weighted sum over all views."""
        pricing = self._pricing
        own = int(pricing.focal.columns_of(np.array([1 << cluster]))[0]) - pricing.n_empty
        weights = singleton_powers(passed.masses, pricing)[cluster]
        views = self._rule.powers(state.weights)[own]
        return replaced(state.medoids, cluster, np.einsum("l,lnm,m->n", views, self._D, weights, optimize=True))
