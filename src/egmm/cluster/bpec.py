"""Belief-peaks evidential clustering."""

from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray, all_or_nothing, check_choice, check_integer, check_prototypes, check_real
from egmm.belief.focal import MAX_CLUSTERS
from egmm.belief.moebius import row_blocks
from egmm.cluster.adaptive import adapted_metrics, cluster_scatters
from egmm.cluster.base import CredalClusterer
from egmm.cluster.descent import Descent, descend
from egmm.cluster.masses import Costs, Pricing, euclidean, evidential_pricing, mahalanobis, relative_masses
from egmm.cluster.peaks import DecisionGraph, choose_peaks, delta_bel
from egmm.rows.array import ArrayRows

MOST_NEIGHBORS = 50
"""Default number of neighbours, if there are enough rows."""


class BPEC(CredalClusterer):
    r"""Belief-peaks evidential clustering: prototypes are fixed density peaks; masses are those of ECM.

    The prototypes are peaks of the delta-Bel graph (:func:`egmm.cluster.delta_bel`): rows with a high degree of belief
    to be a centre that are far from any row with a higher one. Given the prototypes, the masses minimise the objective
    of :class:`ECM`. With ``distance='mahalanobis'`` each cluster has a metric of determinant one that adapts to its
    shape:

    .. math:: S_k = \det(T_k)^{1/D} T_k^{-1}, \qquad
        T_k = \sum_i \sum_{j \ni k} c_j^{\alpha-1} m_{ij}^\beta (x_i - \nu_j)(x_i - \nu_j)^\top,

    a set of clusters has the mean of its clusters' metrics. Masses and metrics alternate, from Euclidean masses on.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters C. None: chosen from the delta-Bel graph, see :func:`egmm.cluster.choose_peaks` for the rule.
    n_neighbors : int or None, default=None
        Number K of neighbours, less than the number of rows. None: 50, or a third of the rows if there are fewer than
        150.
    quantile : float, default=0.9
        Quantile of a row's K distances that is used as its scale.
    distance : {'mahalanobis', 'euclidean'}, default='mahalanobis'
        Adaptive metrics, or Euclidean distances.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100.
    delta : float, default=10.0
        Distance of every row to the empty set, in units of the data.
    init : 'peaks' or array-like of shape (n_clusters, n_features), default='peaks'
        Peaks of the delta-Bel graph, or given prototypes.
    min_belief, min_delta : float, default=None
        Choose as prototypes all rows that reach these thresholds of belief and of delta, instead of a given or an
        automatic number.
    reg_covar : float, default=0.0
        Ridge on the diagonal of each cluster's mean scatter, relative to the features' mean variance; needed if
        features are constant or collinear.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much. J is in squared units of the data and grows with the rows.
    max_iter : int, default=1000
        Maximum number of updates of the metrics.
    random_state : int, RandomState instance or None, default=None
        Not used, present for API consistency.
    n_jobs : int, default=None
        Threads of the neighbour search; None uses all cores.

    Attributes
    ----------
    means_ : ndarray of shape (n_clusters, n_features)
        Prototypes :math:`\mu_k`.
    metrics_ : ndarray of shape (n_clusters, n_features, n_features) or None
        Metrics :math:`S_k`; None for Euclidean distances.
    decision_graph_ : DecisionGraph or None
        Belief and delta of each row, and the chosen rows; None with given prototypes.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets :math:`A_j`, the empty set first.
    objective_ : float
        :math:`J` with the final masses, including the term :math:`\sum_k \mathrm{tr}(S_k R)` of a ridge R.
    objective_history_ : ndarray
        :math:`J` with the Euclidean masses and after each update of the metrics; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
    n_iter_ : int
        Number of updates of the metrics; 1 with Euclidean distances.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Su and Denoeux (2019), BPEC: belief-peaks evidential clustering.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [5.5], [9.0], [10.0], [11.0]]
    >>> bpec = BPEC(n_neighbors=2).fit(X)
    >>> bpec.means_
    array([[ 1.],
           [10.]])
    >>> [bpec.focal_sets_.labels[j] for j in bpec.partition(X).sets()]
    ['{1}', '{1}', '{1}', '{1,2}', '{2}', '{2}', '{2}']
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        n_neighbors: int | None = None,
        quantile: float = 0.9,
        distance: str = "mahalanobis",
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
        beta: float = 2.0,
        delta: float = 10.0,
        init: Any = "peaks",
        min_belief: float | None = None,
        min_delta: float | None = None,
        reg_covar: float = 0.0,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.quantile = quantile
        self.distance = distance
        self.focal_sets = focal_sets
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
        self.init = init
        self.min_belief = min_belief
        self.min_delta = min_delta
        self.reg_covar = reg_covar
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Choose the prototypes and fit the masses.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self : BPEC
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            check_choice("distance", self.distance, ("mahalanobis", "euclidean"))
            ridge = check_real("reg_covar", self.reg_covar, 0) * len(X) * float(X.var(axis=0).mean())
            tol, max_iter = self._check_stopping()
            self.means_, self.decision_graph_ = self._choose_prototypes(X)
            self._pricing = evidential_pricing(self.focal_sets, len(self.means_), self.alpha, self.beta, self.delta)
            self.focal_sets_ = self._pricing.focal
            with ArrayRows(X) as rows:
                descent = self._adapt(rows, ridge, tol, max_iter)
            self.metrics_ = descent.state
            self._set_descent(descent)
            self._set_rows(X, None)
        self._warn_unless_converged()
        return self

    def _adapt(self, rows: ArrayRows, ridge: float, tol: float, max_iter: int) -> Descent[FloatArray | None]:
        """Alternate masses and metrics, starting with Euclidean masses, which are final for Euclidean distances."""

        def evaluate(metrics: FloatArray | None) -> ScatterSums:
            return rows.reduce(partial(scatter_sums, means=self.means_, metrics=metrics, pricing=self._pricing))

        if self.distance == "euclidean":
            return Descent(None, [evaluate(None).objective], True)

        def evaluate_with_ridge(metrics: FloatArray | None) -> ScatterSums:
            sums = evaluate(metrics)
            trace = float(self.means_.size if metrics is None else np.trace(metrics, axis1=1, axis2=2).sum())
            return ScatterSums(sums.scatters + ridge * np.eye(rows.shape[1]), sums.objective + ridge * trace)

        return descend(
            None,
            evaluate_with_ridge,
            lambda sums, _: adapted_metrics(sums.scatters),
            tol=tol,
            max_iter=max_iter,
        )

    def _choose_prototypes(self, X: FloatArray) -> tuple[FloatArray, DecisionGraph | None]:
        if self.n_clusters is not None:
            check_integer("n_clusters", self.n_clusters, 1, MAX_CLUSTERS)
        has_threshold = self.min_belief is not None or self.min_delta is not None
        if has_threshold and self.n_clusters is not None:
            raise ValueError("n_clusters cannot be combined with min_belief and min_delta; set one of them to None.")
        if not isinstance(self.init, str):
            prototypes = check_prototypes(self.init, self.n_clusters, X.shape[1])
            check_integer("the number of prototypes in init", len(prototypes), 1, MAX_CLUSTERS)
            return prototypes.copy(), None
        check_choice("init", self.init, ("peaks",))
        n_neighbors = max(1, min(MOST_NEIGHBORS, len(X) // 3)) if self.n_neighbors is None else self.n_neighbors
        belief, delta = delta_bel(X, n_neighbors, self.quantile, n_jobs=self.n_jobs)
        peaks = choose_peaks(belief, delta, self.n_clusters, min_belief=self.min_belief, min_delta=self.min_delta)
        return X[peaks], DecisionGraph(belief, delta, peaks)

    def _costs(self) -> Costs:
        return _costs(self.means_, self.metrics_, self._pricing)


def _costs(means: FloatArray, metrics: FloatArray | None, pricing: Pricing) -> Costs:
    return euclidean(means, pricing) if metrics is None else mahalanobis(means, metrics, pricing)


class ScatterSums(NamedTuple):
    """Sums over rows for an update of the metrics, and the objective."""

    scatters: FloatArray
    """(C, D, D) the clusters' scatters T_k about the sets' prototypes."""
    objective: float

    def plus(self, other: Self) -> "ScatterSums":
        """Return the sums over both sets of rows."""
        return ScatterSums(self.scatters + other.scatters, self.objective + other.objective)


def scatter_sums(
    X: FloatArray, _: None, means: FloatArray, metrics: FloatArray | None, pricing: Pricing
) -> ScatterSums:
    """Masses of a block of rows, reduced to sums."""
    costs = _costs(means, metrics, pricing)
    scatters, objective = np.zeros((len(means), X.shape[1], X.shape[1])), 0.0
    for block in row_blocks(len(X), len(pricing.focal)):
        relative, total, terms = relative_masses(costs(X[block]), pricing.beta)
        objective += float(terms.sum())
        scatters += cluster_scatters(X[block], (relative[pricing.n_empty :] / total) ** pricing.beta, means, pricing)
    return ScatterSums(scatters, objective)
