"""Multi-view evidential c-means, with weights per view and per feature."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import entr, softmax

from egmm._checks import FloatArray, all_or_nothing, check_integer, check_real, check_sample_weight
from egmm.cluster.base import PrototypeClusterer
from egmm.cluster.descent import descend
from egmm.cluster.masses import Costs, EuclideanCosts, Pricing, euclidean, evidential_pricing
from egmm.cluster.prototypes import PrototypeSums, prototype_sums, prototype_system, update_means
from egmm.cluster.views.views import Views, checked_widths, joined
from egmm.em.sample import Sample, draw_sample
from egmm.rows.array import ArrayRows


class MultiViewECM(PrototypeClusterer):
    r"""Multi-view evidential c-means: informative views and features get larger weights.

    With weights :math:`R_l` of the views, which sum to one, and :math:`W_q` of the features, which sum to one per view,

    .. math:: J = \sum_i \sum_{A_j \ne \emptyset} c_j^\alpha m_{ij}^\beta \sum_l R_l \sum_{q \in l} W_q
        (x_{iq} - \nu_{jq})^2 + \delta^2 \sum_i m_{i\emptyset}^\beta + \lambda \sum_l R_l \ln R_l
        + \gamma \sum_q W_q \ln W_q

    is minimised alternately over masses, prototypes and weights. Without `feature_entropy` all features have weight 1
    and the last term is omitted. The variants are known as WMVEC (without) and WMVEC-FP (with).

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    views : list of int or None, default=None
        Number of columns of each view, if X is one table; None: all columns are one view.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100.
    delta : float, default=10.0
        Distance of every row to the empty set, in units of the data.
    view_entropy : float, default=403.43
        :math:`\lambda`: larger values give more equal weights of the views. Its scale is that of the views' total
        costs, which grow with the rows.
    feature_entropy : float or None, default=None
        :math:`\gamma`: larger values give more equal weights of a view's features; None: features have no weights.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initial prototypes: means of k-means clusters, means of the rows nearest to random rows, or given prototypes,
        all views side by side.
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
        Prototypes, all views side by side.
    view_weights_ : ndarray of shape (n_views,)
        Weights :math:`R_l`.
    feature_weights_ : list of ndarray
        Weights :math:`W_q` of each view's features; all 1 without `feature_entropy`.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    objective_ : float
        J at the end.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        J at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
    n_iter_ : int
        Number of updates of prototypes and weights.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns of all views.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X is one table with string names.

    References
    ----------
    Liu, Huang, Deng and others (2024), Weighted multi-view evidential clustering with feature preference.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shown, hidden = np.repeat([[0.0], [5.0]], 20, axis=0) + rng.normal(0, 0.3, (40, 1)), rng.normal(0, 3, (40, 2))
    >>> model = MultiViewECM(2, view_entropy=20.0, random_state=0).fit([shown, hidden])
    >>> bool(model.view_weights_[0] > 0.99), [len(set(part.tolist())) for part in np.split(model.labels_, 2)]
    (True, [1, 1])
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        views: Sequence[int] | None = None,
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
        beta: float = 2.0,
        delta: float = 10.0,
        view_entropy: float = 403.43,
        feature_entropy: float | None = None,
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.views = views
        self.focal_sets = focal_sets
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
        self.view_entropy = view_entropy
        self.feature_entropy = feature_entropy
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Fit prototypes and weights.

        Parameters
        ----------
        X : list of array-like of shape (n_samples, n_features_of_view), or array-like of shape (n_samples, n_features)
            The views, or one table split by `views`.
        y : None
            Not used, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self : MultiViewECM
        """
        with all_or_nothing(self):
            table, widths = joined(X, self.views)
            table = self._validated(table, ensure_min_samples=2)
            weight = check_sample_weight(sample_weight, len(table))
            self._fit_views(table, Views(table, checked_widths(widths, table.shape[1])), weight)
            self._set_rows(table, weight)
        self._warn_unless_converged()
        return self

    def _make_pricing(self, n_clusters: int) -> Pricing:
        return evidential_pricing(self.focal_sets, n_clusters, self.alpha, self.beta, self.delta)

    def _fit_views(self, X: FloatArray, views: Views, sample_weight: FloatArray | None) -> None:
        n_clusters = check_integer("n_clusters", self.n_clusters, 1)
        tol, max_iter = self._check_stopping()
        self._pricing = self._make_pricing(n_clusters)
        self.focal_sets_ = self._pricing.focal
        view_entropy = check_real("view_entropy", self.view_entropy, 0, open_minimum=True)
        feature_entropy = self.feature_entropy
        if feature_entropy is not None:
            feature_entropy = check_real("feature_entropy", feature_entropy, 0, open_minimum=True)
        with ArrayRows(X, sample_weight) as rows:
            sample = draw_sample(rows, seed=0, size=len(X))
        self._check_distinct(sample, n_clusters)
        problem = WeightedViews(sample, self._pricing, views.slices, view_entropy, feature_entropy)
        runs = [
            descend(problem.start(means), problem.evaluate, problem.update, tol=tol, max_iter=max_iter)
            for means in self._starts(sample, n_clusters)
        ]
        best = min(runs, key=lambda run: run.history[-1])
        self.means_ = best.state.means + problem.centre
        self.view_weights_ = best.state.views
        self.feature_weights_ = [best.state.features[columns] for columns in views.slices]
        self._scales = problem.scales(best.state)
        self._set_descent(best)

    def _check_new(self, X: Any) -> FloatArray:
        table, _ = joined(X, self.views)
        return super()._check_new(table)

    def _costs(self) -> Costs:
        costs = euclidean(self.means_ * self._scales, self._pricing)
        return lambda X: costs(X * self._scales)


class ViewState(NamedTuple):
    """Prototypes relative to the centre, and weights."""

    means: FloatArray
    views: FloatArray
    features: FloatArray


class ViewSums(NamedTuple):
    """Sums over rows, and the objective with the entropies."""

    sums: PrototypeSums
    objective: float


class WeightedViews:
    """Masses, prototypes and weights of views and features, each optimal given the others."""

    def __init__(
        self,
        sample: Sample,
        pricing: Pricing,
        slices: list[slice],
        view_entropy: float,
        feature_entropy: float | None,
    ) -> None:
        self.centre = np.average(sample.rows, axis=0, weights=sample.weights)
        self._rows, self._weights = np.asfortranarray(sample.rows - self.centre), sample.weights
        self._pricing, self._slices = pricing, slices
        self._view_entropy, self._feature_entropy = view_entropy, feature_entropy

    def start(self, means: FloatArray) -> ViewState:
        """Equal weights."""
        features = np.ones(means.shape[1])
        if self._feature_entropy is not None:
            for columns in self._slices:
                features[columns] = 1 / len(features[columns])
        return ViewState(means - self.centre, np.full(len(self._slices), 1 / len(self._slices)), features)

    def scales(self, state: ViewState) -> FloatArray:
        """Square roots of the weights (n_features,): distances are Euclidean after scaling by these."""
        widths = [len(state.features[columns]) for columns in self._slices]
        return np.sqrt(np.repeat(state.views, widths) * state.features)

    def evaluate(self, state: ViewState) -> ViewSums:
        """Masses of all rows, as sums."""
        scales = self.scales(state)
        priced = EuclideanCosts(state.means * scales, self._pricing)

        def costs(columns: FloatArray, _: FloatArray) -> FloatArray:
            scaled = columns * scales[:, None]
            return priced(scaled, np.einsum("dn,dn->n", scaled, scaled))

        sums = prototype_sums(self._rows, self._weights, self._weights, costs, self._pricing, with_squares=True)
        disorder = self._view_entropy * float(entr(state.views).sum())
        if self._feature_entropy is not None:
            disorder += self._feature_entropy * float(entr(state.features).sum())
        return ViewSums(sums, sums.objective - disorder)

    def update(self, passed: ViewSums, state: ViewState) -> ViewState:
        """Optimal prototypes, then weights of features, then of views, given the masses."""
        means = update_means(passed.sums, state.means, self._pricing)
        costs = feature_costs(passed.sums, means, self._pricing)
        features = state.features
        if self._feature_entropy is not None:
            # Costs of a view's features are multiplied by the weight of the view.
            parts = zip(self._slices, state.views, strict=True)
            features = np.concatenate([softmax(-view * costs[at] / self._feature_entropy) for at, view in parts])
        totals = np.array([float(costs[columns] @ features[columns]) for columns in self._slices])
        return ViewState(means, softmax(-totals / self._view_entropy), features)


def feature_costs(sums: PrototypeSums, means: FloatArray, pricing: Pricing) -> FloatArray:
    r"""Costs (D,) by feature, :math:`T_q = \sum_{ij} c_j^\alpha m_{ij}^\beta (x_{iq} - \nu_{jq})^2`."""
    system = prototype_system(sums.set_weights, pricing)
    cross = np.einsum("kd,kd->d", means, sums.cluster_sums)
    return np.maximum(sums.squares - 2 * cross + np.einsum("kd,kl,ld->d", means, system, means), 0)
