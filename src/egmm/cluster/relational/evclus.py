"""EVCLUS, k-EVCLUS and k-CEVCLUS: masses whose conflict matches dissimilarities."""

from typing import Any, NamedTuple, Self

import numpy as np

from egmm._checks import (
    FloatArray,
    all_or_nothing,
    check_choice,
    check_finite_matrix,
    check_integer,
    check_random,
    check_real,
    check_starts,
)
from egmm.belief.focal import FocalSets
from egmm.belief.masses import check_mass
from egmm.belief.partition import CredalPartition
from egmm.cluster.base import TransductiveClusterer
from egmm.cluster.descent import Descent, descend
from egmm.cluster.relational.base import Relational
from egmm.cluster.relational.dissimilarities import check_distinct, check_fewer_than_rows
from egmm.cluster.relational.pairs import AllPairs, ListedPairs, all_pairs, sampled_pairs
from egmm.links import LinkLists, Links, PairForms, check_links, listed_links


class EVCLUS(Relational, TransductiveClusterer):
    r"""Evidential clustering of dissimilarities: the conflict of two rows' masses grows with their dissimilarity.

    The degree of conflict :math:`\kappa_{ij} = \sum_{A \cap B = \emptyset} m_i(A) m_j(B)` of two rows is one minus the
    plausibility that they share a cluster. EVCLUS fits it to a function of their dissimilarity:

    .. math:: J = \frac{\sum_{(i,j)} (\kappa_{ij} - \varphi(d_{ij}))^2}{\sum_{(i,j)} \varphi(d_{ij})^2}, \qquad
        \varphi(d) = 1 - e^{\ln(0.05)\, d^2 / d_0^2}.

    The sums run over all pairs, or over `n_pairs` random partners of each row (k-EVCLUS). Rows are visited in turn;
    given the others, the masses of a row solve a small quadratic program, so J never increases. Links add

    .. math:: \frac{2 \xi}{|M| + |C|} \Bigl( \sum_{(i,j) \in M} \bigl( 1 - Pl_{ij}(s) + Pl_{ij}(\bar s) \bigr)
        + \sum_{(i,j) \in C} \bigl( 1 + Pl_{ij}(s) - Pl_{ij}(\bar s) \bigr) \Bigr)

    for must-links M and cannot-links C, with s the event of a shared cluster (k-CEVCLUS).

    All rows count once: there are no sample weights.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='simple'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    metric : str or callable, default='euclidean'
        'precomputed': X holds dissimilarities (not squared). Otherwise X holds features, and this is a metric of
        :func:`sklearn.metrics.pairwise_distances`.
    d0 : float or None, default=None
        Dissimilarity at which two rows belong to different clusters with degree 0.95; None: the 0.9 quantile of the
        dissimilarities used.
    n_pairs : int or None, default=None
        Number of random partners of each row; None: all.
    xi : float, default=0.5
        Weight of the links, 0 to 1.
    init : 'random', CredalPartition or array-like of shape (n_samples, n_focal), default='random'
        Masses to start from.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given masses are one start.
    tol : float, default=1e-9
        Stop when J decreases by at most this much. J lies between 0 and about 1 for any number of rows.
    max_iter : int, default=1000
        Maximum number of sweeps over the rows.
    random_state : int, RandomState instance or None, default=None
        Seed for starts and pairs.

    Attributes
    ----------
    masses_ : ndarray of shape (n_samples, n_focal)
        Masses of the rows, in the order of `focal_sets_`.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    d0_ : float
        The `d0` used.
    objective_ : float
        J at `masses_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        J at the start and after each sweep; it never increases.
    ans_ : float
        Average normalised nonspecificity of the masses, see :class:`ECM`.
    n_iter_ : int
        Number of sweeps.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Denoeux and Masson (2004), EVCLUS: evidential clustering of proximity data. Denoeux, Sriboonchitta and
    Kanjanatarakul (2016), Evidential clustering of large dissimilarity data. Li, Li and Denoeux (2018), k-CEVCLUS:
    constrained evidential clustering of large dissimilarity data.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [6.0], [10.0], [11.0], [12.0]]
    >>> evclus = EVCLUS(2, random_state=0).fit(X)
    >>> evclus.partition().pignistic()[3].round(3)
    array([0.5, 0.5])
    >>> bool(evclus.labels_[0] != evclus.labels_[-1])
    True
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "simple",
        metric: Any = "euclidean",
        d0: float | None = None,
        n_pairs: int | None = None,
        xi: float = 0.5,
        init: Any = "random",
        n_init: int = 1,
        tol: float = 1e-9,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.focal_sets = focal_sets
        self.metric = metric
        self.d0 = d0
        self.n_pairs = n_pairs
        self.xi = xi
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, must_link: Any = None, cannot_link: Any = None) -> Self:  # noqa: ARG002
        """Find the masses.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
            Rows, or dissimilarities with ``metric="precomputed"``.
        y : None
            Not used, present for API consistency.
        must_link, cannot_link : array-like of shape (n_links, 2), default=None
            Pairs of row numbers known to share a cluster, or not to.

        Returns
        -------
        self : EVCLUS
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            n_clusters = check_integer("n_clusters", self.n_clusters, 1)
            focal = FocalSets.of(self.focal_sets, n_clusters, empty=True)
            links = check_links(must_link, cannot_link, len(X))
            xi = check_real("xi", self.xi, 0, 1)
            tol, max_iter = self._check_stopping()
            random = check_random(self.random_state)
            pairs = self._pairs(X, n_clusters, random)
            loss = ConflictLoss(pairs, focal, links, xi, len(X))
            starts = self._starts(len(X), focal, random)
            best = min((loss.descend(m, tol, max_iter) for m in starts), key=lambda run: run.history[-1])
            self._set_descent(best)
            self._set_masses(X, best.state, focal)
        self._warn_unless_converged()
        return self

    def _pairs(self, X: FloatArray, n_clusters: int, random: np.random.RandomState) -> AllPairs | ListedPairs:
        if self.n_pairs is not None:
            n_pairs = check_integer("n_pairs", self.n_pairs, 1)
            check_fewer_than_rows("n_pairs", n_pairs, len(X))
            if n_pairs < len(X) - 1:
                listed, self.d0_ = sampled_pairs(X, n_pairs, self.metric, self.d0, random)
                return listed
        D = self._dissimilarities(X)
        check_distinct(n_clusters, D)
        pairs, self.d0_ = all_pairs(D, self.d0)
        return pairs

    def _starts(self, n_rows: int, focal: FocalSets, random: np.random.RandomState) -> list[FloatArray]:
        n_init = check_starts(self.n_init)
        return starting_masses(self.init, n_init, n_rows, focal, random)


def starting_masses(
    init: Any, n_init: int, n_rows: int, focal: FocalSets, random: np.random.RandomState
) -> list[FloatArray]:
    """Random masses, or given ones from an array or a credal partition."""
    if isinstance(init, str):
        check_choice("init", init, ("random",))
        # Uniform numbers, normalised to sum 1, as in the original code.
        drawn = [random.random_sample((n_rows, len(focal))) for _ in range(n_init)]
        return [mass / mass.sum(axis=1, keepdims=True) for mass in drawn]
    if isinstance(init, CredalPartition):
        init = init.over(focal).mass
    mass = check_finite_matrix("init", init, (n_rows, len(focal)))
    return [np.array(check_mass(mass, focal))]


class _Loss(NamedTuple):
    objective: float


class ConflictLoss:
    """J as a function of the masses of all rows, and the sweeps that lower it."""

    def __init__(self, pairs: AllPairs | ListedPairs, focal: FocalSets, links: Links, xi: float, n_rows: int) -> None:
        self._pairs, self._links = pairs, links
        forms = PairForms.of(focal)
        self._disjoint = forms.disjoint
        # Costs of a pair in terms of its conflict, 1 - Pl(same).
        together = forms.disjoint + forms.plausibly_apart
        self._lists: LinkLists = listed_links(links, np.stack([together, 2 - together]), n_rows)
        self._scale = 1 / pairs.size if pairs.size > 0 else 1.0
        self._link_weight = xi / max(1, links.n_links)

    def objective(self, mass: FloatArray, apart: FloatArray) -> float:
        """J."""
        must, cannot = self._links
        price = sum(
            float(np.einsum("nf,fg,ng->", mass[ends[:, 0]], form, mass[ends[:, 1]]))
            for ends, form in zip((must, cannot), self._lists.prices, strict=True)
        )
        return self._scale * self._pairs.loss(mass, apart) + 2 * self._link_weight * price

    def descend(self, mass: FloatArray, tol: float, max_iter: int) -> Descent[FloatArray]:
        """Sweep from the given masses, which are overwritten, until J settles."""
        apart = mass @ self._disjoint
        strength = self._link_weight / (self._pairs.often * self._scale)

        def update(_: _Loss, mass: FloatArray) -> FloatArray:
            self._pairs.sweep(self._disjoint, mass, apart, self._lists, strength)
            return mass

        run = descend(mass, lambda m: _Loss(self.objective(m, apart)), update, tol=tol, max_iter=max_iter)
        return run._replace(state=mass / mass.sum(axis=1, keepdims=True))
