"""EGMM: the evidential Gaussian mixture as a scikit-learn estimator."""

import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from egmm._arrays import check_on_host
from egmm._checks import (
    all_or_nothing,
    check_spread,
    check_weight,
)
from egmm.belief.focal import FocalSets
from egmm.em.completion import DataMoments, data_moments
from egmm.em.covariance import LOW_RANK, is_diagonal, resolve_covariance, warn_of_many_features
from egmm.em.engine import choose_engine, seconds_in_numpy
from egmm.em.factors import variances as diagonals
from egmm.em.prior import make_prior
from egmm.em.problem import Problem
from egmm.em.specification import FitResult
from egmm.em.start import LOW_RANK_RIDGE, RIDGE, make_ridge
from egmm.em.statistics import Moments, Units
from egmm.em.stream import Stream
from egmm.fitted import FittedMixture
from egmm.knowledge import NOTHING, Given, read_knowledge
from egmm.mixture_fit import (
    adopt,
    check_parameters,
    fit_model,
    last_parameters,
    set_labels,
    set_log_likelihood,
    set_parameters,
    summary_of,
)
from egmm.mixture_rows import naming_entries, open_rows
from egmm.mixture_state import degrees_of, model_parameters, noise_of
from egmm.rows import RowSource
from egmm.rows.array import ArrayRows
from egmm.rows.threads import one_blas_thread

STREAM_STARTS = 5

FAR_BATCH = 1e6
"""Deviations between a batch and all clusters beyond which squares hide what is within clusters."""


class EGMM(ClusterMixin, FittedMixture):
    r"""Evidential Gaussian mixture: a Gaussian on every allowed set of clusters, fitted by EM.

    Each row gets a mass function: mass on {1} means cluster 1, mass on {1,2} means one of the two.

    .. math:: p(x) = \sum_{j=1}^{M} \pi_j \, \mathcal N\!\Big(x;\ \frac{1}{|A_j|} \sum_{k \in A_j} \mu_k,\ \Sigma\Big)

    Parameters
    ----------
    n_clusters : int, default=2
        Number C of clusters.
    focal_sets : {'pairs', 'full', 'singletons', 'simple', 'neighbours'}, FocalSets or list of sets, default='pairs'
        The sets of clusters that may carry mass: singletons, pairs and the whole frame ('pairs'); all
        :math:`2^C - 1` sets ('full'); the classical mixture ('singletons'); singletons and the frame ('simple');
        singletons, pairs of mutually close clusters and the frame ('neighbours', linear in C); or a list of sets of
        cluster numbers counted from zero.
    covariance : str, default='EEE'
        Covariance model: EII VII EEI VEI EVI VVI EEE VEE EVE VVE EEV VEV EVV VVV, for equal (E) or varying (V) volume,
        shape and orientation of the clusters, or identity (I); scikit-learn's 'tied' (EEE), 'full' (VVV), 'diag' (VVI)
        and 'spherical' (VII); for a single feature also 'E' and 'V'. 'EEE' is the paper's. A meta-cluster's precision
        and natural mean are the averages of its members'. 'low-rank' is for many features: one covariance
        :math:`\Lambda \Lambda^\top + \Psi` of a few factors and noise, which needs no more rows than features.
    n_factors : int or 'auto', default='auto'
        Number of factors of the low-rank covariance; 'auto' tries 1, 2, ... until EBIC falls. Other models have none.
    init : {'kmeans', 'random', 'mixture'}, labels or means, default='kmeans'
        Start: 'kmeans'; 'random', random rows as means; 'mixture', a classical mixture fitted first (the best from
        k-means on principal components in three scalings), to which meta-clusters are added with one percent of the
        weight; an array (n_samples,) of labels 0 to C-1, with `noise` also -1; or an array (n_clusters, n_features) of
        means. An array is used once and `n_init` is ignored.
    n_init : int, default=1
        Number of starts. The best likelihood among non-degenerate fits is kept; on large data, starts are compared on
        the sample (see `accelerate`).
    tol : float, default=1e-6
        Tolerance on the mean log-likelihood per row: on the predicted remaining gain or, with ``accelerate=False``, on
        the last gain. The paper's 1e-3 on the total is ``tol=1e-3 / n_samples``.
    max_iter : int, default=1000
        Maximum number of steps.
    reg_covar : float or 'auto', default='auto'
        Ridge on the covariance. A number is added to every variance; 0.01 is what the authors' code does. 'auto' is
        1e-9 of each feature's variance within the start's clusters, whatever its unit; for 'low-rank' 0.005 of it,
        and at least as much of each feature is noise.
    prior : {None, 'default'} or mapping, default=None
        Conjugate prior of means and covariances, which prevents small clusters from collapsing. 'default' has Fraley
        and Raftery's hyperparameters; a mapping may set 'kappa', 'mean', 'degrees' and 'scale'.
    certainty : float, default=0.0
        Prior in favour of single clusters: adds certainty * N * log(total weight of single clusters) to the
        log-likelihood. Meta-clusters then replace clusters less often. 0 is the paper's model.
    noise : bool, default=False
        Whether rows may belong to no cluster. The empty set is then a focal set too, the first one, with a uniform
        density over the bounding box of all rows; its mass is the degree to which a row is noise. The starts 'kmeans',
        'random' and 'mixture' are made twice, from all rows and from the rows with close neighbours, and meta-clusters
        start with one percent of the weight; ``init='mixture'`` is the safest.
    tails : {'gaussian', 't'}, default='gaussian'
        't' replaces Gaussians by multivariate t distributions with estimated degrees of freedom, the same for all sets:
        distant rows then affect means and covariance less. For the shared covariances EII, EEI and EEE; not together
        with `noise`.
    accelerate : bool, default=True
        Whether to accelerate slow EM steps by Anderson extrapolation. Large data are also fitted on a sample first; the
        full fit starts there. False is the paper's plain EM.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    engine : {'auto', 'numpy', 'numba'}, default='auto'
        Implementation of passes over the rows; results agree. 'numba' compiles at first use, in about six seconds, and
        is far faster on large data; 'auto' compiles if NumPy would take longer than ten seconds.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean all available cores. Results do not depend on it.
    warm_start : bool, default=False
        Continue from the last fit, if it was of the same model, instead of a new start.
    checkpoint : path, default=None
        File for the state of a long fit, replaced every few steps. If the process is killed, the same fit resumes
        from it and gives identical results. The file is removed at the end of the fit.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    weights_ : ndarray of shape (n_focal,)
        Mixing probability of each focal set.
    means_ : ndarray of shape (n_clusters, n_features)
        Cluster means.
    covariances_ : ndarray of shape (n_features, n_features) or (n_clusters, n_features, n_features)
        Covariances of the clusters, ridge included; a single matrix if the model shares it (EII, EEI, EEE, low-rank).
        With ``tails='t'`` it is the scale matrix, and the covariance is dof / (dof - 2) times this matrix.
    loadings_ : ndarray of shape (n_features, n_factors_)
        :math:`\Lambda` of the low-rank covariance; not present for other models.
    noise_variances_ : ndarray of shape (n_features,)
        Diagonal of :math:`\Psi` of the low-rank covariance; not present for other models.
    n_factors_ : int
        Number of factors of the low-rank covariance; not present for other models.
    degrees_of_freedom_ : float
        Estimated degrees of freedom; present with ``tails='t'``.
    focal_means_ : ndarray of shape (n_focal, n_features)
        Mean of each focal set's Gaussian; for the empty set, the mean of its uniform density.
    focal_covariances_ : ndarray of shape (n_features, n_features) or (n_focal, n_features, n_features)
        Covariances of the focal sets' Gaussians; for the empty set, the covariance of its uniform density. A shared
        covariance is given once.
    noise_box_ : ndarray of shape (2, n_features)
        With `noise`, the smallest and the largest value of each feature.
    focal_sets_ : FocalSets
        The sets, in the order of `weights_`.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row, given labels and links; only for rows in memory.
    label_conflict_ : ndarray of shape (n_samples,)
        Conflict of each row's label with the mixture, between 0 and 1; the highest values indicate
        suspicious labels. Only after a fit with `labels` to rows in memory.
    log_likelihood_ : float
        Total log-likelihood.
    log_likelihood_history_ : ndarray of shape (n_iter_ + 1,)
        Log-likelihood at the start and after each step.
    entropy_ : float
        Total entropy of the rows' masses.
    ebic_ : float
        Evidential Bayesian information criterion; higher is better.
    n_parameters_ : int
        Number of free parameters. With `certainty`, meta-clusters with the weight of less than one row do not count.
        `noise` adds two, its weight and its density, as in mclust; ``tails='t'`` adds one.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether `tol` was reached.
    degenerate_ : bool
        Whether a cluster has the weight of fewer than n_features + 1 rows, or a covariance collapsed along some
        direction to a millionth of the start's, or was only ridge there already; the likelihood is then meaningless.
        Also whether a cluster with no rows of its own diverged, with its mean or variance far beyond the rows.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had names.

    References
    ----------
    L. Jiao, T. Denœux, Z. Liu, Q. Pan (2022). EGMM: An evidential version of the Gaussian mixture model for
    clustering. Applied Soft Computing 129, 109619.

    Examples
    --------
    >>> import numpy as np
    >>> from egmm import EGMM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(4, 1, (200, 2))])
    >>> model = EGMM(n_clusters=2, random_state=0).fit(X)
    >>> model.focal_sets_.labels
    ('{1}', '{2}', '{1,2}')
    >>> model.predict_mass([[2.0, 2.0]]).shape
    (1, 3)
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: str | FocalSets | Iterable[Iterable[int]] = "pairs",
        covariance: str = "EEE",
        n_factors: int | Literal["auto"] = "auto",
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        reg_covar: float | Literal["auto"] = "auto",
        prior: str | Mapping[str, Any] | None = None,
        certainty: float = 0.0,
        noise: bool = False,
        tails: str = "gaussian",
        accelerate: bool = True,
        random_state: int | np.random.RandomState | None = None,
        engine: str = "auto",
        n_jobs: int | None = None,
        warm_start: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.focal_sets = focal_sets
        self.covariance = covariance
        self.n_factors = n_factors
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.reg_covar = reg_covar
        self.prior = prior
        self.certainty = certainty
        self.noise = noise
        self.tails = tails
        self.accelerate = accelerate
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_parameters(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.engine != "numba"
        return tags

    # Fitting ----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        sample_weight: Any = None,
        *,
        labels: Any = None,
        reliability: Any = 1.0,
        must_link: Any = None,
        cannot_link: Any = None,
    ) -> Self:
        """Fit the mixture to rows, labels and links.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows; NaN is a missing cell. Single precision and memory maps are read as they are, files and Dask chunks
            where they are.
        y : Ignored
            Not used, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights; an integer weight is equivalent to repeating the row.
        labels : array-like, list of sets, (mass, focal_sets) or CredalPartition, default=None
            What is known about the clusters of rows: integers from 0 with -1 for unknown; sets of clusters, None for
            unknown; probabilities (n_samples, n_clusters), NaN for unknown; or any mass functions. Focal sets that a
            label excludes get no mass.
        reliability : float or array-like of shape (n_samples,), default=1.0
            Probability that a label can be trusted; the rest of its mass goes to the whole frame.
        must_link : array-like of int of shape (n_pairs, 2), default=None
            Pairs of rows in the same cluster: they share one mass function.
        cannot_link : array-like of int of shape (n_pairs, 2), default=None
            Pairs of rows in different clusters: the plausibility of sharing a cluster is penalised.

        Returns
        -------
        self : EGMM
        """
        self._fit(X, sample_weight, Given(labels, reliability, must_link, cannot_link))
        return self

    def _fit(self, X: Any, sample_weight: Any, given: Given = NOTHING, *, least_starts: int = 1) -> FitResult:
        check_parameters(self)
        if given.is_any:
            check_on_host("fit with labels or links", X)
        with ExitStack() as opened:
            with all_or_nothing(self):
                rows = opened.enter_context(open_rows(self, X, sample_weight, reset=True))
                warn_of_many_features([resolve_covariance(self.covariance, rows.shape[1])], rows.shape[1])
                opened.enter_context(one_blas_thread())
                knowledge = read_knowledge(given, rows.shape[0], self.n_clusters) if given.is_any else None
                summary = summary_of(self, rows)
                found = fit_model(self, rows, summary, least_starts=least_starts, knowledge=knowledge)
                adopt(self, found)
                self.__dict__.pop("_stream", None)
            # If interrupted here, the model is still fitted.
            set_labels(self, rows, knowledge)
        if found.result.is_interrupted:
            raise KeyboardInterrupt(f"fit stopped at step {self.n_iter_}; the model holds the best parameters so far")
        if not self.converged_:
            warnings.warn(
                f"EGMM did not converge in max_iter={self.max_iter} steps (tol={self.tol:g}); raise max_iter or "
                "tol, or try fewer clusters or another start.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found.result

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Update the model with one batch of a stream, by stepwise EM.

        It continues from the current model, whether fitted, loaded or updated by earlier batches. Without a model, the
        first batch is fitted as in `fit`, from at least five starts, since later batches cannot correct a bad one; it
        must contain every cluster. Each later batch moves the running statistics by a step of (rows in the batch / rows
        seen)^0.6, so that early masses are slowly forgotten. Afterwards `log_likelihood_`, `entropy_` and `ebic_`
        describe the rows seen, estimated by running means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The batch.
        y : Ignored
            Not used, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self : EGMM
        """
        check_on_host("partial_fit", X, self)
        if not hasattr(self, "means_"):
            self._stream = Stream.from_fit(self._fit(X, sample_weight, least_starts=STREAM_STARTS))
            return self
        check_parameters(self)
        _check_unchanged(self)
        with all_or_nothing(self), open_rows(self, X, sample_weight) as rows, one_blas_thread():
            before = getattr(self, "_stream", None) or _stream_of(self, rows)
            batch = _batch_moments(self, rows)
            with np.errstate(all="ignore"):  # of rows so far away that no model fits them
                self._stream = stream = before.after(rows, batch)
                if not stream.is_proper:
                    raise ValueError(_why_no_step(self, batch.whole))
                set_parameters(self, stream.params, stream.problem)
            set_log_likelihood(self, stream.weight * stream.mean_log_likelihood, stream.weight)
            self.entropy_ = stream.weight * stream.mean_entropy
            self.log_likelihood_history_ = np.append(self.log_likelihood_history_, self.log_likelihood_)
            self.n_iter_ += 1
            set_labels(self, rows)
        return self


def _check_unchanged(model: EGMM) -> None:
    """Raise on parameters set since the fit that a stream cannot change."""
    now = model_parameters(model)
    for name, value in model._fitted_parameters.items():
        if now[name] != value:
            raise ValueError(
                f"partial_fit continues a model with {name}={value}, but {name}={now[name]} was set since; "
                "reset it, or start again with fit, or with partial_fit of sklearn.base.clone(model)."
            )


def _batch_moments(model: EGMM, rows: RowSource) -> DataMoments:
    with naming_entries(model, rows):
        total = data_moments(rows, diagonal=is_diagonal(model.covariance_), needs_all=False)
    check_weight(total.whole.weight)
    check_spread(total.whole.variances, getattr(model, "feature_names_in_", None))
    return total


def _stream_of(model: EGMM, rows: RowSource) -> Stream:
    """Stream with the statistics of the fitted model."""
    # Model files do not store the weight of the rows; it follows from EBIC.
    weight = float(np.exp(2.0 * (model.log_likelihood_ - model.ebic_) / model.n_parameters_))
    covariance, shares, diagonal = model.covariance_, model.focal_sets_.shares, is_diagonal(model.covariance_)
    centre = model.weights_ @ model.focal_means_
    offsets = model.focal_means_ - centre
    squares = offsets**2 if diagonal else offsets[:, :, None] * offsets[:, None, :]
    within = model.stored_focal_covariances_ if diagonal else model.focal_covariances_
    spread = np.einsum("j,j...->...", model.weights_, within + squares)
    total = Moments(weight, centre, weight * spread)
    engine = choose_engine(model.engine, seconds_in_numpy(rows.size, shares, covariance))
    n_factors = model.n_factors_ if covariance == LOW_RANK else 0
    prior = make_prior(model.prior, total, model.n_clusters, covariance)
    units = Units.of(total)
    params, is_tailed = last_parameters(model, covariance, units), degrees_of(model) is not None
    share = LOW_RANK_RIDGE if n_factors else RIDGE
    ridge = make_ridge(model.reg_covar, params.variances.mean(axis=1), units.squares(total.variances), units, share)
    empty = ArrayRows(np.empty((0, len(centre))))
    args = (prior, model.certainty, noise_of(model), is_tailed, n_factors)
    problem = Problem.of_one(empty, total, shares, covariance, ridge[0] * units.scale**2, engine, *args)
    return Stream.from_model(problem, params, model.log_likelihood_, model.entropy_)


def _why_no_step(model: EGMM, batch: Moments) -> str:
    """Say why there is no model after a batch: it is far away, or a covariance collapses."""
    within = model.stored_focal_covariances_
    variances = within if is_diagonal(model.covariance_) else diagonals(within)
    spread = np.sqrt(variances.reshape(-1, len(batch.centre)).max(axis=0))
    away = np.abs(batch.centre - model.focal_means_).min(axis=0) / spread
    column = int(away.argmax())
    if away[column] < FAR_BATCH:
        return (
            "X leaves a covariance that is not positive definite; use larger batches, a larger reg_covar, "
            "prior='default' or fewer clusters."
        )
    return (
        f"X lies {away[column]:.3g} deviations from the nearest cluster in column {column}, too far for one model of "
        "all rows; fit the two apart."
    )
