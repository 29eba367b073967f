"""bootGMM: evidential clustering calibrated by the bootstrap."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from egmm._checks import (
    FloatArray,
    all_or_nothing,
    check_choice,
    check_integer,
    check_prototypes,
    check_random,
    check_real,
    check_starts,
    listed,
)
from egmm.belief.focal import MAX_CLUSTERS, FocalSets
from egmm.cluster.base import CredalClusterer
from egmm.cluster.bootstrap import bootstrap, choose_mixture, choose_references, draw_starts
from egmm.cluster.calibration import Relation, Targets, calibrate, optimal_masses, pair_intervals
from egmm.cluster.prototypes import STARTS
from egmm.em.covariance import LOW_RANK, chosen_models, resolve_covariance
from egmm.em.replicates import Mixtures, Posteriors
from egmm.mixture import EGMM
from egmm.rows.threads import Threads, one_blas_thread

SEARCHED = range(1, 10)
"""Numbers of clusters tried for ``n_clusters=None``."""

MOST_REPLICATES = 1_000_000
"""Largest number of bootstrap replicates."""

CHUNK_ENTRIES = 2**18
"""Posterior probabilities over all replicates in a chunk of rows, sized for the cache."""


class BootGMM(CredalClusterer):
    r"""Evidential clustering with masses calibrated by the bootstrap of a Gaussian mixture.

    A Gaussian mixture is chosen by BIC and refitted to bootstrap replicates of the rows. Over the replicates, the
    probability that two rows share a cluster, :math:`\sum_k P_{ik} P_{i'k}`, has quantiles :math:`[P^l, P^u]`. The
    masses, on singletons and pairs of clusters, fit the belief and plausibility of sharing a cluster to these
    intervals:

    .. math:: J = \frac{1}{n} \sum_{i<i'} (m_i^\top S m_{i'} - P^l_{ii'})^2 + (m_i^\top E m_{i'} - 1 + P^u_{ii'})^2,

    with S marking equal singletons and E disjoint sets. The sum runs over all n pairs of *reference rows*: all rows if
    there are at most `n_references`, else a random sample stratified by cluster. Any other row gets the masses that
    best fit its intervals with the reference rows, whose masses are fixed. Time and memory are linear in the rows.

    Parameters
    ----------
    n_clusters : int, iterable of int or None, default=2
        Number of clusters C. If there are several, the one with the lowest BIC is chosen. None tries 1 to 9.
    n_bootstrap : int, default=500
        Number B of replicates.
    confidence : float, default=0.9
        Confidence level of the intervals; 0.9 uses the quantiles 5 % and 95 %.
    covariance : str or iterable of str, default='all'
        Covariance models to try, see :class:`EGMM`; 'all' means all fourteen (E and V for a single feature).
    n_references : int, default=400
        Maximum number of reference rows.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initialisation of the mixtures, see :class:`EGMM`.
    n_init : int, default=1
        Number of starts of each model.
    reg_covar : float or 'auto', default='auto'
        Ridge on the covariances, see :class:`EGMM`.
    tol : float, default=1e-7
        Stop when the objective J changes by at most this much.
    max_iter : int, default=100
        Maximum number of sweeps over the reference rows' quadratic programs.
    random_state : int, RandomState instance or None, default=None
        Seed for starts, replicates and reference rows.
    n_jobs : int or None, default=None
        Number of threads and processes; None and -1 mean all available cores. Results do not depend on it.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    mixture_ : EGMM
        The chosen mixture, with singletons only.
    covariance_ : str
        Its covariance model.
    bic_ : float
        Its BIC; lower is better.
    bic_table_ : list of dict
        One record per mixture tried: 'n_clusters', 'covariance', 'bic' and 'failure': where it could not be fitted,
        the reason, and 'bic' is None.
    means_ : ndarray of shape (n_clusters, n_features)
        Its cluster means.
    replicates_ : Mixtures
        Weights, means and covariances of the replicates, (B, C), (B, C, D) and (B, C, D, D); failed replicates are
        dropped. Means are relative to `centre_`.
    centre_ : ndarray of shape (n_features,)
        Column means of the rows.
    references_ : ndarray of shape (n_references,)
        Reference rows.
    reference_mass_ : ndarray of shape (n_references, n_focal)
        Their masses.
    pairs_ : ndarray of shape (n_pairs, 2)
        All pairs of reference rows, as indices of rows.
    intervals_ : ndarray of shape (n_pairs, 2)
        :math:`[P^l, P^u]` of each pair.
    fitted_intervals_ : ndarray of shape (n_pairs, 2)
        Belief and plausibility, by the masses, that each pair shares a cluster: fitted to `intervals_`.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        Singletons and pairs of clusters.
    objective_ : float
        :math:`J`.
    objective_history_ : ndarray
        :math:`J` at the start and after each sweep; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
    n_iter_ : int
        Number of sweeps.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Denoeux (2020), Calibrated model-based evidential clustering using bootstrapping.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(4, 1, (40, 2))])
    >>> model = BootGMM(2, n_bootstrap=50, covariance="EEE", random_state=0).fit(X)
    >>> model.focal_sets_.labels
    ('{1}', '{2}', '{1,2}')
    >>> model.intervals_.shape == model.fitted_intervals_.shape == (80 * 79 / 2, 2)
    True
    """

    mixture_: EGMM
    replicates_: Mixtures

    def __init__(
        self,
        n_clusters: Any = 2,
        *,
        n_bootstrap: int = 500,
        confidence: float = 0.9,
        covariance: Any = "all",
        n_references: int = 400,
        init: Any = "kmeans",
        n_init: int = 1,
        reg_covar: float | Literal["auto"] = "auto",
        tol: float = 1e-7,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_bootstrap = n_bootstrap
        self.confidence = confidence
        self.covariance = covariance
        self.n_references = n_references
        self.init = init
        self.n_init = n_init
        self.reg_covar = reg_covar
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Choose and refit the mixture, then fit the masses.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self : BootGMM
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            n_bootstrap = check_integer("n_bootstrap", self.n_bootstrap, 2, MOST_REPLICATES)
            n_references = check_integer("n_references", self.n_references, 2)
            tail = (1 - check_real("confidence", self.confidence, 0.0, 1.0)) / 2
            self._quantiles = (tail, 1 - tail)
            tol, max_iter = self._check_stopping()
            random = check_random(self.random_state)
            self._set_mixture(X, random)
            self._set_replicates(X, int(random.randint(2**31)), n_bootstrap)
            self.references_ = choose_references(self.mixture_.labels_, n_references, random)
            self._calibrate(X[self.references_], tol, max_iter)
            self._set_rows(X, None)
        self._warn_unless_converged()
        return self

    # Steps of fit --------------------------------------------------------------------------------------------

    def _set_mixture(self, X: FloatArray, random: np.random.RandomState) -> None:
        models = chosen_models(self.covariance, X.shape[1])
        if LOW_RANK in models:
            raise ValueError("covariance='low-rank' has no bootstrap; use 'EEE', or a diagonal model such as 'EEI'.")
        starts = self._starts(X, random)
        base = EGMM(focal_sets="singletons", reg_covar=self.reg_covar, n_jobs=self.n_jobs)
        verbose = bool(self.verbose)
        self.mixture_, candidates = choose_mixture(X, base, starts, models, n_jobs=self.n_jobs, verbose=verbose)
        self.covariance_ = self.mixture_.covariance
        self.bic_ = -2 * self.mixture_.ebic_
        self.bic_table_ = [
            {
                "n_clusters": c.n_clusters,
                "covariance": c.covariance,
                "bic": c.value("bic") if c.is_fitted else None,
                "failure": c.failure,
            }
            for c in candidates
        ]
        self.means_ = self.mixture_.means_
        if not self.mixture_.converged_:
            warnings.warn(
                f"The chosen mixture (n_clusters={len(self.means_)}, {self.covariance_}) did not converge; try fewer "
                "clusters, another start or another covariance model.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _counts(self) -> list[int]:
        if self.n_clusters is None:
            return list(SEARCHED)
        counts = [check_integer("n_clusters", count, 1, MAX_CLUSTERS) for count in listed(self.n_clusters)]
        if not counts:
            raise ValueError("n_clusters must hold at least one number of clusters, got an empty list.")
        return counts

    def _starts(self, X: FloatArray, random: np.random.RandomState) -> list[FloatArray]:
        counts, n_init = self._counts(), check_starts(self.n_init)
        if isinstance(self.init, str):
            return draw_starts(X, counts, check_choice("init", self.init, STARTS), n_init, random)
        if len(counts) > 1:
            raise ValueError("init must be 'kmeans' or 'random' if several numbers of clusters are tried.")
        return [check_prototypes(self.init, counts[0], X.shape[1])]

    def _set_replicates(self, X: FloatArray, seed: int, n_bootstrap: int) -> None:
        covariance = resolve_covariance(self.covariance_, X.shape[1])
        self.centre_ = X.mean(axis=0)
        self.replicates_, n_failed = bootstrap(
            X,
            self.mixture_,
            covariance,
            self.centre_,
            seed,
            n_bootstrap,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
        )
        if n_failed > n_bootstrap // 2:
            warnings.warn(
                f"{n_failed} of {n_bootstrap} bootstrap replicates have an empty or singular cluster and were "
                "dropped; use fewer clusters, a simpler covariance model or a larger reg_covar.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _calibrate(self, references: FloatArray, tol: float, max_iter: int) -> None:
        n_clusters, n_references = len(self.means_), len(references)
        sets = [{k, other} for k in range(n_clusters) for other in range(k + 1)]
        self.focal_sets_ = FocalSets.from_sets(sets, n_clusters)
        self._references = references
        self._relation = Relation.of(self.focal_sets_)
        with one_blas_thread():
            covariance = resolve_covariance(self.covariance_, len(self.centre_))
            self._posteriors = Posteriors.of(self.replicates_, self.centre_, covariance)
            known = self._posteriors(references)
            self._reference_posteriors = np.ascontiguousarray(np.swapaxes(known, 0, 1))
            with Threads(self.n_jobs) as threads:
                intervals = np.concatenate(list(threads.map(self._intervals, self._chunks(references))), axis=1)
            start = self._start_masses(references)
            verbose = bool(self.verbose)
            descent = calibrate(intervals, start, self._relation, tol=tol, max_iter=max_iter, verbose=verbose)
        self.reference_mass_ = descent.state
        self._set_descent(descent)
        first, second = np.triu_indices(n_references, 1)
        self.pairs_ = np.column_stack([self.references_[first], self.references_[second]])
        self.intervals_ = intervals[:, first, second].T
        self.fitted_intervals_ = self._relation.intervals(self.reference_mass_[first], self.reference_mass_[second])

    # Masses of rows ------------------------------------------------------------------------------------------

    def _masses(self) -> Callable[[FloatArray], FloatArray]:
        own = {row.tobytes(): at for at, row in reversed(list(enumerate(self._references + 0.0)))}

        def chunk_masses(X: FloatArray) -> FloatArray:
            itself = np.array([own.get(row.tobytes(), -1) for row in X + 0.0], dtype=np.int64)
            targets = Targets.between(self._intervals(X), itself)
            return optimal_masses(targets, self.reference_mass_, self._relation, self._start_masses(X))

        def masses(X: FloatArray) -> FloatArray:
            with Threads(self.n_jobs) as threads:
                return np.concatenate(list(threads.map(chunk_masses, self._chunks(X))))

        return masses

    def _chunks(self, X: FloatArray) -> Iterable[tuple[FloatArray]]:
        n_replicates, n_clusters, _ = self._posteriors.model.theta.shape
        size = max(1, CHUNK_ENTRIES // (n_clusters * n_replicates))
        return ((X[first : first + size],) for first in range(0, len(X), size))

    def _intervals(self, X: FloatArray) -> FloatArray:
        return pair_intervals(self._posteriors(X), self._reference_posteriors, self._quantiles)

    def _start_masses(self, X: FloatArray) -> FloatArray:
        """Posterior probabilities of the mixture as masses of singletons."""
        masses = np.zeros((len(X), len(self.focal_sets_)))
        singletons = [self.focal_sets_.index_of({k}) for k in range(len(self.means_))]
        masses[:, singletons] = self.mixture_.predict_proba(X)
        return masses
