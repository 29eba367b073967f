"""Relational evidential c-means."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import eigsh

from egmm._checks import FloatArray, all_or_nothing, check_integer, check_prototypes, check_random, check_starts
from egmm.cluster.base import CredalClusterer
from egmm.cluster.descent import Descent, descend
from egmm.cluster.masses import Pricing, costs_of_sets, evidential_pricing, optimal_masses, relative_masses
from egmm.cluster.prototypes import PrototypeSums, update_means
from egmm.cluster.relational.base import Relational
from egmm.cluster.relational.dissimilarities import (
    check_distinct,
    dissimilarities,
    start_coordinates,
    starting_labels,
)

NEGATIVE = 1e-9
"""Negative squared distances up to this fraction of the largest squared dissimilarity are rounding."""

SPARE = 1.5
"""Factor by which a shift exceeds what the lowest squared distance requires."""

DELTA_QUANTILE = 0.95
"""Quantile of the dissimilarities that is the default distance to the empty set."""


class RECM(Relational, CredalClusterer):
    r"""Relational evidential c-means: ECM for rows given by dissimilarities.

    A prototype is a weighted mean of the rows, :math:`v_k = \sum_i a_{ki} x_i`, so that its distances follow from the
    squared dissimilarities :math:`\Delta`, :math:`|x_i - v_k|^2 = (\Delta a_k)_i - \frac{1}{2} a_k^\top \Delta a_k`.
    Objective, masses and prototypes are those of :class:`ECM`; for Euclidean distances both agree.

    Other dissimilarities may give a negative squared distance. A constant is then added to the squared dissimilarities
    of different rows (`shift_`), no larger than needed, and the fit restarts.

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
    metric : str or callable, default='euclidean'
        'precomputed': X holds dissimilarities (not squared). Otherwise X holds features, and this is a metric of
        :func:`sklearn.metrics.pairwise_distances`.
    init : {'kmeans', 'random'} or array-like, default='kmeans'
        Initial clusters, whose means are the first prototypes: those of k-means on the leading coordinates of classical
        scaling (on the features for Euclidean distances), the rows nearest to random rows, or labels (n_samples,). Or
        prototypes: their features (n_clusters, n_features) for Euclidean distances, else their coefficients
        (n_clusters, n_samples), which sum to one.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. A given start is the only one.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much.
    max_iter : int, default=1000
        Maximum number of updates of the prototypes.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_clusters, n_samples)
        The weights :math:`a_{ki}` of the rows in the prototypes; they sum to one, and may be negative.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    delta_ : float
        The `delta` used.
    shift_ : float
        Constant added to the squared dissimilarities of different rows; 0 unless distances became negative.
    objective_ : float
        J at `coefficients_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        J at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
    n_iter_ : int
        Number of updates of the prototypes.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Masson and Denoeux (2009), RECM: relational evidential c-means algorithm.

    Examples
    --------
    >>> from sklearn.metrics import pairwise_distances
    >>> X = [[0.0], [1.0], [2.0], [6.0], [10.0], [11.0], [12.0], [99.0]]
    >>> D = pairwise_distances(X)
    >>> recm = RECM(2, metric="precomputed", init=np.eye(8)[[1, 5]]).fit(D)
    >>> recm.partition(D).sets()
    array([1, 1, 1, 3, 2, 2, 2, 0])
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
        beta: float = 2.0,
        delta: float | None = 10.0,
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
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Find the prototypes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
            Rows, or dissimilarities with ``metric="precomputed"``.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self : RECM
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            n_clusters = check_integer("n_clusters", self.n_clusters, 1)
            D = self._dissimilarities(X)
            check_distinct(n_clusters, D)
            self.delta_ = delta_of(self.delta, D)
            self._pricing = evidential_pricing(self.focal_sets, n_clusters, self.alpha, self.beta, self.delta_)
            self.focal_sets_ = self._pricing.focal
            squared = np.square(D)
            starts = self._starts(X, squared, n_clusters)
            best, self.shift_ = self._descend_shifted(squared, starts)
            squared = shifted(squared, self.shift_)
            self.coefficients_ = best.state
            self._own = relational_lengths(squared, best.state)
            self._set_descent(best)
            self._rows = X
            self._set_rows(X, None)
        self._warn_unless_converged()
        return self

    def _starts(self, X: FloatArray, squared: FloatArray, n_clusters: int) -> list[FloatArray]:
        n_init = check_starts(self.n_init)
        if not isinstance(self.init, str):
            return [self._given_start(X, n_clusters)]
        random = check_random(self.random_state)
        coordinates = start_coordinates(X, self.metric, squared, n_clusters)
        labels = [starting_labels(coordinates, n_clusters, self.init, random) for _ in range(n_init)]
        return [group_means(groups, n_clusters) for groups in labels]

    def _given_start(self, X: FloatArray, n_clusters: int) -> FloatArray:
        if np.ndim(self.init) < 2:
            return group_means(check_groups(self.init, len(X), n_clusters), n_clusters)
        if isinstance(self.metric, str) and self.metric == "euclidean":
            return coefficients_of(check_prototypes(self.init, n_clusters, X.shape[1]), X)
        coefficients = check_prototypes(self.init, n_clusters, len(X))
        sums = coefficients.sum(axis=1)
        if not np.allclose(sums, 1):
            k = int(np.argmax(np.abs(sums - 1)))
            raise ValueError(
                f"init must hold coefficients that sum to one, but those of prototype {k} give {sums[k]:g}."
            )
        return coefficients

    def _descend_shifted(self, squared: FloatArray, starts: list[FloatArray]) -> tuple[Descent[FloatArray], float]:
        """Minimise, increasing the shift until no squared distance is negative; also returns the shift."""
        shift, tolerance = 0.0, NEGATIVE * float(squared.max())
        while True:
            best, lowest = self._descend(shifted(squared, shift), starts)
            # With the shift that makes the dissimilarities Euclidean, negative values are rounding.
            if lowest >= -tolerance or (shift > 0 and shift >= least_shift(squared)):
                return best, shift
            # A shift adds about half its value to every squared distance.
            shift = min(shift - 2 * SPARE * lowest, least_shift(squared))

    def _descend(self, squared: FloatArray, starts: list[FloatArray]) -> tuple[Descent[FloatArray], float]:
        """Minimise from each start; the second value is the lowest squared distance to a prototype encountered."""
        tol, max_iter = self._check_stopping()
        problem = RelationalProblem(squared, self._pricing)
        runs = [descend(start, problem.evaluate, problem.update, tol=tol, max_iter=max_iter) for start in starts]
        return min(runs, key=lambda run: run.history[-1]), problem.lowest

    def _masses(self) -> Callable[[FloatArray], FloatArray]:
        def masses(X: FloatArray) -> FloatArray:
            squared = shifted(np.square(dissimilarities(X, self.metric, self._rows)), self.shift_)
            to_clusters = np.maximum(self.coefficients_ @ squared.T - self._own.lengths[:, None], 0)
            costs = costs_of_sets(to_clusters, self._own.spread(self._pricing), self._pricing)
            return optimal_masses(costs, self._pricing.beta).T

        return masses


class Lengths:
    """Row-independent part of the squared distances to prototypes with coefficients a (C, n)."""

    def __init__(self, to_rows: FloatArray, coefficients: FloatArray) -> None:
        products = to_rows @ coefficients.T
        self.lengths: FloatArray = np.diag(products) / 2
        """(C,) :math:`a_k^T Delta a_k / 2`."""
        self.between = products - self.lengths[:, None] - self.lengths
        """(C, C) squared distances of the prototypes."""

    def spread(self, pricing: Pricing) -> FloatArray:
        """Variance of each set's prototypes about their mean: half their mean squared distance."""
        spread: FloatArray = np.einsum("jk,kl,jl->j", pricing.shares, self.between, pricing.shares) / 2
        return spread


def relational_lengths(squared: FloatArray, coefficients: FloatArray) -> Lengths:
    """Return the lengths of prototypes, from squared dissimilarities (n, n)."""
    return Lengths(coefficients @ squared, coefficients)


class RelationalProblem:
    """Passes and updates on squared dissimilarities; prototypes are given by their coefficients."""

    def __init__(self, squared: FloatArray, pricing: Pricing) -> None:
        self._squared, self._pricing = squared, pricing
        self.lowest = np.inf
        """Lowest squared distance to a prototype so far; negative if dissimilarities are not Euclidean."""

    def evaluate(self, coefficients: FloatArray) -> PrototypeSums:
        """Masses of all rows, as sums."""
        pricing = self._pricing
        to_rows = coefficients @ self._squared
        own = Lengths(to_rows, coefficients)
        spread = own.spread(pricing)
        to_clusters = to_rows - own.lengths[:, None]
        self.lowest = min(self.lowest, float((pricing.shares @ to_clusters - spread[:, None]).min()))
        costs = costs_of_sets(np.maximum(to_clusters, 0), spread, pricing)
        relative, total, objective = relative_masses(costs, pricing.beta)
        powers = (relative[pricing.n_empty :] / total) ** pricing.beta
        return PrototypeSums(
            pricing.sizes[:, 0] * powers.sum(axis=1), pricing.priced_shares.T @ powers, float(objective.sum())
        )

    def update(self, sums: PrototypeSums, coefficients: FloatArray) -> FloatArray:
        """Optimal coefficients."""
        return update_means(sums, coefficients, self._pricing)


def shifted(squared: FloatArray, shift: float) -> FloatArray:
    """Squared dissimilarities with a constant added between different rows."""
    return squared if shift == 0 else np.where(squared > 0, squared + shift, 0)


def least_shift(squared: FloatArray) -> float:
    """Smallest shift that makes dissimilarities Euclidean: -2 times the smallest eigenvalue of the Gram matrix."""
    row_means = squared.mean(axis=1)
    products = (row_means[:, None] + row_means - squared - row_means.mean()) / 2
    if len(products) <= 500:
        return max(0.0, -2 * float(np.linalg.eigvalsh(products)[0]))
    start = np.random.default_rng(0).normal(size=len(products))
    return max(0.0, -2 * float(eigsh(products, k=1, which="SA", v0=start, return_eigenvectors=False)[0]))


def delta_of(delta: Any, D: FloatArray) -> Any:
    """Distance to the empty set; None: a quantile of the dissimilarities."""
    return float(np.quantile(D[np.triu_indices(len(D), 1)], DELTA_QUANTILE)) if delta is None else delta


def check_groups(init: Any, n_rows: int, n_clusters: int) -> Any:
    """Validate labels 0 to C - 1, each of which must occur."""
    labels = np.asarray(init)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"init must be a name or hold {n_rows} labels from 0 to {n_clusters - 1}, got {labels.dtype} of shape "
            f"{labels.shape}."
        )
    if not np.array_equal(np.unique(labels), np.arange(n_clusters)):
        raise ValueError(f"init must hold the labels 0 to {n_clusters - 1}, each at least once.")
    return labels


def coefficients_of(means: FloatArray, X: FloatArray) -> FloatArray:
    """Minimum-norm coefficients (C, n) of rows that give the points (C, D) and sum to one."""
    centre = X.mean(axis=0)
    system = np.vstack([(X - centre).T, np.ones(len(X))])
    target = np.vstack([(means - centre).T, np.ones(len(means))])
    found = np.linalg.lstsq(system, target, rcond=None)[0]
    if not np.allclose(system @ found, target, rtol=1e-8, atol=1e-8 * np.abs(target).max()):
        raise ValueError("init holds prototypes that are not weighted means of the rows; pass labels instead.")
    return np.ascontiguousarray(found.T)


def group_means(labels: Any, n_clusters: int) -> FloatArray:
    """Coefficients of the means of groups, (C, n)."""
    members = np.equal.outer(np.arange(n_clusters), labels).astype(np.float64)
    return members / members.sum(axis=1, keepdims=True)
