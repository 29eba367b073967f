"""Constrained evidential c-means."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray, IntArray, all_or_nothing, check_choice, check_integer, check_real
from egmm.belief.focal import FocalSets
from egmm.belief.moebius import row_blocks
from egmm.cluster.adaptive import adapted_metrics, cluster_scatters
from egmm.cluster.base import PrototypeClusterer, digest_of
from egmm.cluster.descent import descend
from egmm.cluster.masses import Costs, Pricing, euclidean, evidential_pricing, mahalanobis, optimal_masses
from egmm.cluster.prototypes import PrototypeSums, update_means
from egmm.em.sample import draw_sample
from egmm.links import LinkLists, Links, PairForms, check_links, listed_links
from egmm.rows.array import ArrayRows

SWEEPS = 5
"""Sweeps over the linked rows between two updates of the prototypes."""

SMALLEST = 1e-12
"""Smallest cost of a set relative to the largest, so that links still affect a row on a prototype."""


class CECM(PrototypeClusterer):
    r"""Constrained evidential c-means: ECM with must-links and cannot-links.

    With must-links M and cannot-links C between rows, CECM minimises

    .. math:: \frac{1 - \xi}{N F} \Bigl( \sum_i \sum_{A_j \ne \emptyset} c_j^\alpha m_{ij}^2 D_{ij}
        + \delta^2 \sum_i m_{i\emptyset}^2 \Bigr) + \xi \Bigl( \frac{1}{|M|} \sum_M Pl_{il}(\bar s)
        + \frac{1}{|C|} \sum_C Pl_{il}(s) \Bigr),

    with F the number of sets including the empty set, and s the event that both rows share a cluster. Rows without
    links have the masses of :class:`ECM`; the masses of a linked row, given its partners', solve a small quadratic
    program exactly. Masses, prototypes and metrics are updated in turn, and the objective never increases.

    All rows count once: there are no sample weights.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    delta : float, default=10.0
        Distance of every row to the empty set, in units of the data.
    xi : float, default=0.5
        Weight of the links, from 0 (ignored) to below 1.
    distance : {'euclidean', 'mahalanobis'}, default='euclidean'
        Euclidean distances, or a metric per cluster that adapts to its shape, as in :class:`BPEC`.
    objective : {'reference', 'paper'}, default='reference'
        'paper' minimises the formula above. 'reference', like the authors' code, replaces :math:`Pl(\bar s)` of a
        must-link by one minus the mass of a common single cluster, and keeps linked rows off the empty set by a cost of
        2 for each must-link.
    reg_covar : float, default=0.0
        Ridge on the diagonal of each cluster's mean scatter, relative to the features' mean variance; needed if
        features are constant or collinear.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initial prototypes: means of k-means clusters, means of the rows nearest to random rows, or given prototypes.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given prototypes are one start.
    tol : float, default=1e-9
        Stop when the objective, a mean over rows and sets, changes by at most this much.
    max_iter : int, default=1000
        Maximum number of updates of the prototypes.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    means_ : ndarray of shape (n_clusters, n_features)
        Prototypes.
    metrics_ : ndarray of shape (n_clusters, n_features, n_features) or None
        Metrics of the clusters; None for Euclidean distances.
    masses_ : ndarray of shape (n_samples, n_focal)
        Masses of the training rows, which use the links. `predict_mass` and related methods return them for the same
        rows; other rows have the masses of ECM.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    objective_ : float
        The objective at `masses_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the masses, see :class:`ECM`.
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
    Antoine, Quost, Masson and Denoeux (2012), CECM: constrained evidential c-means algorithm.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [6.0], [10.0], [11.0], [12.0]]
    >>> cecm = CECM(2, init=[[1.0], [11.0]], xi=0.9).fit(X, must_link=[[3, 0]])
    >>> cecm.labels_
    array([0, 0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
        delta: float = 10.0,
        xi: float = 0.5,
        distance: str = "euclidean",
        objective: str = "reference",
        reg_covar: float = 0.0,
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-9,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.focal_sets = focal_sets
        self.alpha = alpha
        self.delta = delta
        self.xi = xi
        self.distance = distance
        self.objective = objective
        self.reg_covar = reg_covar
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, must_link: Any = None, cannot_link: Any = None) -> Self:  # noqa: ARG002
        """Find the prototypes and the masses.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Not used, present for API consistency.
        must_link, cannot_link : array-like of shape (n_links, 2), default=None
            Pairs of row numbers known to share a cluster, or not to. Implied links are not added, since all links of a
            kind share one weight.

        Returns
        -------
        self : CECM
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            self._fit_linked(X, check_links(must_link, cannot_link, len(X)))
        self._warn_unless_converged()
        return self

    def _make_pricing(self, n_clusters: int) -> Pricing:
        return evidential_pricing(self.focal_sets, n_clusters, self.alpha, 2.0, self.delta)

    def _fit_linked(self, X: FloatArray, links: Links) -> None:
        n_clusters = check_integer("n_clusters", self.n_clusters, 1)
        tol, max_iter = self._check_stopping()
        check_choice("distance", self.distance, ("euclidean", "mahalanobis"))
        check_choice("objective", self.objective, ("reference", "paper"))
        ridge = check_real("reg_covar", self.reg_covar, 0) * len(X) * float(X.var(axis=0).mean())
        xi = check_real("xi", self.xi, 0, 1 - 1e-9)
        self._pricing = self._make_pricing(n_clusters)
        self.focal_sets_ = self._pricing.focal
        problem = LinkedProblem(X, self._pricing, LinkPrices.of(links, self.focal_sets_, xi, self.objective, len(X)))
        problem.ridge, problem.is_adaptive = ridge, self.distance == "mahalanobis"
        with ArrayRows(X) as rows:
            sample = draw_sample(rows, seed=0, size=len(X))
        self._check_distinct(sample, n_clusters)
        runs = [
            descend(State(start, None), problem.evaluate, problem.update, tol=tol, max_iter=max_iter)
            for start in self._starts(sample, n_clusters)
        ]
        best = min(runs, key=lambda run: run.history[-1])
        self.means_, self.metrics_ = best.state.means, best.state.metrics
        self._set_descent(best)
        self.masses_ = problem.masses_of(best.state)
        self._digest = digest_of(X)
        self._set_rows(X, None)

    def _costs(self) -> Costs:
        return costs_of(self.means_, self.metrics_, self._pricing)

    def _read(self, X: FloatArray, *readers: Callable[[FloatArray, FocalSets], Any]) -> list[Any]:
        if digest_of(X) != self._digest:
            return super()._read(X, *readers)
        return [read(self.masses_.copy(), self.focal_sets_) for read in readers]


def costs_of(means: FloatArray, metrics: FloatArray | None, pricing: Pricing) -> Costs:
    """Costs of rows by Euclidean distances, or by the clusters' metrics."""
    return euclidean(means, pricing) if metrics is None else mahalanobis(means, metrics, pricing)


class LinkPrices(NamedTuple):
    """Costs of linked rows in the objective."""

    lists: LinkLists
    rows: IntArray
    """Rows with links."""
    offsets: FloatArray
    """(n, f) cost of a unit of mass."""
    distance_weight: float
    """Factor of the objective of ECM."""
    constant: float

    @classmethod
    def of(cls, links: Links, focal: FocalSets, xi: float, objective: str, n_rows: int) -> "LinkPrices":
        """Build the costs of the paper's objective, or of the reference code."""
        forms, (must, cannot) = PairForms.of(focal), links
        is_paper = objective == "paper"
        together = forms.plausibly_apart if is_paper else -forms.same
        prices = np.stack([xi / max(1, len(must)) * together, xi / max(1, len(cannot)) * (1 - forms.disjoint)])
        offsets = np.zeros((n_rows, len(focal)))
        if not is_paper and xi > 0:
            offsets[:, 0] = 2.0 * np.bincount(must.ravel(), minlength=n_rows)
        rows = np.unique(np.concatenate([must.ravel(), cannot.ravel()])) if xi > 0 else np.empty(0, dtype=np.int64)
        constant = xi if len(must) and not is_paper else 0.0
        return cls(listed_links(links, prices, n_rows), rows, offsets, (1 - xi) / (n_rows * len(focal)), constant)

    def total(self, mass: FloatArray) -> float:
        """Contribution of the links to the objective."""
        starts, partners, kinds, prices = self.lists
        owners = np.repeat(np.arange(len(mass)), np.diff(starts))
        pairs = 0.0
        for kind, price in enumerate(prices):
            at = np.flatnonzero(kinds == kind)
            # Every link is listed under both rows.
            pairs += 0.5 * float(np.einsum("nf,fg,ng->", mass[owners[at]], price, mass[partners[at]], optimize=True))
        return pairs + float(np.vdot(self.offsets, mass)) + self.constant


class State(NamedTuple):
    """Prototypes and metrics, and the masses they come from."""

    means: FloatArray
    metrics: FloatArray | None
    masses: FloatArray | None = None


class Passed(NamedTuple):
    """Masses of all rows at a state, and the objective."""

    masses: FloatArray
    objective: float


class LinkedProblem:
    """Masses, prototypes and metrics of linked rows, each of least cost given the others."""

    ridge = 0.0
    is_adaptive = False

    def __init__(self, X: FloatArray, pricing: Pricing, links: LinkPrices) -> None:
        self._X, self._pricing, self._links = X, pricing, links

    def evaluate(self, state: State) -> Passed:
        """Optimal masses, by a few sweeps over the linked rows."""
        costs = self._costs(state)
        mass = np.empty_like(costs)
        for block in row_blocks(*costs.shape):
            mass[block] = optimal_masses(costs[block].T.copy(), 2.0).T
        links = self._links
        if links.rows.size:
            from egmm.cluster.compiled import cecm  # noqa: PLC0415  Numba loads when used.

            if state.masses is not None:
                mass[links.rows] = state.masses[links.rows]
            prices = np.maximum(costs, SMALLEST * costs.max(axis=1, keepdims=True)) * links.distance_weight
            for _ in range(SWEEPS):
                cecm.sweep_linked_rows(links.rows, *links.lists, prices, links.offsets, mass)
        objective = links.distance_weight * (float(np.vdot(costs, mass * mass)) + self._ridge_term(state))
        return Passed(mass, objective + links.total(mass))

    def masses_of(self, state: State) -> FloatArray:
        """Masses of all rows at the end."""
        return self.evaluate(state).masses

    def update(self, passed: Passed, state: State) -> State:
        """Prototypes, then metrics, of least cost given the masses."""
        pricing, X = self._pricing, self._X
        powers = np.ascontiguousarray(np.square(passed.masses[:, pricing.n_empty :]).T)
        counts = pricing.sizes[:, 0] * powers.sum(axis=1)
        if state.metrics is None:
            sums = PrototypeSums(counts, pricing.priced_shares.T @ (powers @ X), passed.objective)
            means = update_means(sums, state.means, pricing)
        else:
            means = update_with_metrics(counts, powers @ X, state.metrics, pricing)
        if not self.is_adaptive:
            return State(means, None, passed.masses)
        scatters = cluster_scatters(X, powers, means, pricing) + self.ridge * np.eye(X.shape[1])
        return State(means, adapted_metrics(scatters), passed.masses)

    def _costs(self, state: State) -> FloatArray:
        costs = costs_of(state.means, state.metrics, self._pricing)
        return np.concatenate([costs(self._X[block]).T for block in row_blocks(len(self._X), len(self._pricing.focal))])

    def _ridge_term(self, state: State) -> float:
        metrics = state.metrics
        return self.ridge * float(state.means.size if metrics is None else np.trace(metrics, axis1=1, axis2=2).sum())


def update_with_metrics(counts: FloatArray, set_sums: FloatArray, metrics: FloatArray, pricing: Pricing) -> FloatArray:
    r"""Prototypes of least cost given masses and metrics: a system of C D unknowns.

    .. math:: \sum_l \Bigl( \sum_{j \ni k, l} c_j^{\alpha-2} n_j \bar S_j \Bigr) \mu_l
        = \sum_{j \ni k} c_j^{\alpha-1} \bar S_j \sum_i m_{ij}^2 x_i, \qquad n_j = \sum_i m_{ij}^2

    `counts` are :math:`c_j^\alpha n_j` (n_sets,), `set_sums` :math:`\sum_i m_{ij}^2 x_i` (n_sets, D).
    """
    shares = pricing.shares
    set_metrics = np.tensordot(shares, metrics, axes=1)
    n_clusters, dim = len(metrics), metrics.shape[1]
    system = np.einsum("j,jk,jl,jde->kdle", counts, shares, shares, set_metrics).reshape(n_clusters * dim, -1)
    target = np.einsum("jk,jde,je->kd", pricing.priced_shares, set_metrics, set_sums).ravel()
    means: FloatArray = np.linalg.lstsq(system, target, rcond=None)[0].reshape(n_clusters, dim)
    return means
