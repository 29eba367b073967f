"""EGMM: the evidential Gaussian mixture as a scikit-learn estimator."""

import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy.special import entr
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from egmm._checks import (
    HEAVIEST,
    FloatArray,
    IntArray,
    all_or_nothing,
    check_choice,
    check_finite_matrix,
    check_integer,
    check_prototypes,
    check_random,
    check_real,
    check_spread,
    check_weight,
)
from egmm.belief.decisions import first_best
from egmm.belief.focal import MAX_CLUSTERS, FocalSets
from egmm.em import assign
from egmm.em.covariance import n_covariance_parameters, resolve_covariance
from egmm.em.fit import Fit, Options, choose_engine, fit_mixture, is_sound, try_fit
from egmm.em.loop import Ascent
from egmm.em.parameters import NotPositiveDefiniteError, Parameters, components, focal_parameters, is_single
from egmm.em.prior import make_prior, n_weighted
from egmm.em.problem import Problem
from egmm.em.start import Sample, draw_sample, label_seed, make_ridge, sample_seed
from egmm.em.statistics import Moments, moments
from egmm.em.stream import Stream
from egmm.em.whole import Whole
from egmm.fitted import FittedMixture, criteria_of
from egmm.rows import RowSource
from egmm.rows.array import ArrayRows
from egmm.rows.source import UnusableRowsError
from egmm.rows.threads import one_blas_thread, resolve_jobs

STARTS = ("kmeans", "random", "mixture")
STREAM_STARTS = 5
ENGINES = ("auto", "numpy", "numba")

Start = str | FloatArray | IntArray | Parameters


class Seen(NamedTuple):
    """What passes over the rows tell before a fit starts; for all candidates of a search it is the same."""

    shape: tuple[int, int]
    total: Moments
    sample: Sample
    random: np.random.RandomState
    label_seed: int
    """Of the labels that a classical mixture starts from."""


class Tried(NamedTuple):
    """What a search asks of a compiled fit that is sound; `EGMM._fit` makes the model of `found`."""

    found: Whole
    criteria: dict[str, float]
    single_weight: float
    """Share of the weight that single clusters have."""
    labels: IntArray
    """Of the sample's rows."""


class EGMM(ClusterMixin, FittedMixture):
    r"""Evidential Gaussian mixture: a Gaussian on every allowed set of clusters, fitted by EM.

    Each object gets a mass function: it may belong to cluster {1}, or to {1,2}, "one of these, the data cannot say".

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
        and natural mean are the averages of its members'.
    init : {'kmeans', 'random', 'mixture'}, labels or means, default='kmeans'
        Start: k-means; random rows as means; the classical mixture, fitted first, the best from k-means on
        principal components in three scalings, where meta-clusters enter with one percent of the weight; an array
        (n_samples,) of labels 0 to C-1; or an array (n_clusters, n_features) of means. A given start is used once,
        whatever `n_init`.
    n_init : int, default=1
        Number of named starts. The best likelihood among those that do not degenerate is kept; of many rows, that of
        the sample decides (see `accelerate`).
    tol : float, default=1e-6
        Tolerance on the mean log-likelihood per row: on the gain that is predicted to be still to come, or, with
        ``accelerate=False``, on the last gain. The paper's 1e-3 on the total is ``tol=1e-3 / n_samples``.
    max_iter : int, default=1000
        Most steps.
    reg_covar : float or 'auto', default='auto'
        Ridge on the covariance. A number is added to every variance; 0.01 is what the authors' code does. 'auto' is
        1e-9 of each feature's variance within the start's clusters, whatever its unit.
    prior : {None, 'default'} or mapping, default=None
        Conjugate prior of means and covariances, which keeps small clusters from collapsing. 'default' has Fraley and
        Raftery's hyperparameters; a mapping may set 'kappa', 'mean', 'degrees' and 'scale'.
    certainty : float, default=0.0
        Prior of the weights in favour of single clusters: N times this times the logarithm of the weight on single
        clusters is added to the log-likelihood, as if so many more rows per row were known to belong to one cluster.
        Meta-clusters then stand less often for what should be a cluster. 0 is the paper's model.
    accelerate : bool, default=True
        Whether quasi-Newton steps take over where EM crawls and, of many rows, the sample that named starts look at is
        fitted first, which saves passes over all of them. False is the paper's plain EM.
    random_state : int, RandomState instance or None, default=None
        Seed of the named starts.
    engine : {'auto', 'numpy', 'numba'}, default='auto'
        'numba' is compiled at first use and far faster on large data; 'auto' compiles only where that pays.
    n_jobs : int or None, default=None
        Threads; None and -1 mean all cores this process may use. Results do not depend on it.
    warm_start : bool, default=False
        Go on from the last fit, where it was of the same model, instead of a new start.
    checkpoint : path, default=None
        File for the state of a long fit, replaced every few steps. Fitted again after being killed, the model goes on
        from it and ends with the same bits; at the end of the fit it is removed.
    verbose : int, default=0
        1 shows a live line on the error stream.

    Attributes
    ----------
    weights_ : ndarray of shape (n_focal,)
        Mixing probability of each focal set.
    means_ : ndarray of shape (n_clusters, n_features)
        Cluster means.
    covariances_ : ndarray of shape (n_features, n_features) or (n_clusters, n_features, n_features)
        The covariances the densities used, ridge included; one where the model shares it (EII, EEI, EEE).
    focal_means_ : ndarray of shape (n_focal, n_features)
        Mean of each focal set's Gaussian.
    focal_covariances_ : ndarray of shape (n_features, n_features) or (n_focal, n_features, n_features)
        Covariances of the focal sets' Gaussians.
    focal_sets_ : FocalSets
        The sets, in the order of `weights_`.
    labels_ : ndarray of shape (n_samples,)
        Cluster of largest pignistic probability of each row; only for rows in memory.
    log_likelihood_ : float
        Total log-likelihood.
    log_likelihood_history_ : ndarray of shape (n_iter_ + 1,)
        Log-likelihood at the start and after each step.
    entropy_ : float
        Total entropy of the rows' masses: how much the model leaves open.
    ebic_ : float
        Evidential Bayesian information criterion; higher is better.
    n_parameters_ : int
        Number of free parameters. A meta-cluster that `certainty` leaves with the weight of less than a row has none.
    n_iter_ : int
        Steps taken.
    converged_ : bool
        Whether `tol` was reached.
    degenerate_ : bool
        Whether a cluster ended with the weight of fewer than n_features + 1 rows, or a covariance collapsed along some
        direction to a millionth of the start's, or was nothing but ridge there already: its likelihood is then no
        guide. Also whether a cluster that no row is of alone ran away, with its mean or variance far beyond the rows'.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X had names.

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
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        reg_covar: float | Literal["auto"] = "auto",
        prior: str | Mapping[str, Any] | None = None,
        certainty: float = 0.0,
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
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.reg_covar = reg_covar
        self.prior = prior
        self.certainty = certainty
        self.accelerate = accelerate
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    # Fitting ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Fit the mixture to rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows; single precision and memory maps are read as they are, files and Dask chunks where they are.
        y : Ignored
            For scikit-learn's sake.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; an integer weight is the same as repeating the row.

        Returns
        -------
        self : EGMM
        """
        self._fit(X, sample_weight)
        return self

    def _look(self, X: Any, sample_weight: Any) -> Seen:
        """What a fit sees of the rows before it starts."""
        self._check_parameters()
        random = check_random(self.random_state)
        with self._open(X, sample_weight, reset=True) as rows, one_blas_thread():
            total = self._moments(rows)
            sample = draw_sample(rows, sample_seed(random))
            return Seen(rows.shape, total, sample, random, label_seed(random))

    def _try(self, seen: Seen, *, gives_up: bool) -> Tried | Whole | None:
        """Fit rows that have been seen in compiled code; a `Whole` where that is not the end or not sound."""
        self._check_parameters()
        is_plain = isinstance(self.init, str) and self.init == "mixture" and self.n_init == 1
        is_extra = self.warm_start or self.verbose or self.checkpoint is not None or self._wants_neighbours()
        if self.engine != "numba" or not is_plain or is_extra:
            return None
        focal_sets, total = FocalSets.of(self.focal_sets, self.n_clusters), seen.total
        if focal_sets.has_empty:  # For `_fit_rows` to refuse.
            return None
        shares = focal_sets.shares
        options = replace(self._options(total, self.init, seen.random), sample=seen.sample, gives_up=gives_up)
        found = try_fit(seen.shape[0], total, shares, options, seen.label_seed)
        if found is None or not is_sound(found, total, shares):
            return found
        n_parameters = n_free_parameters(found.params, shares, options.covariance, self.certainty, total.weight)
        ebic, masses = ebic_of(found.history[-1], n_parameters, total.weight), found.masses()
        entropy = float(seen.sample.weights @ entr(masses).sum(axis=1))
        single_weight = float(found.params.weights[is_single(shares)].sum())
        criteria = criteria_of(found.history[-1], ebic, entropy, n_parameters)
        return Tried(found, criteria, single_weight, first_best(masses @ shares))

    def _fit(
        self,
        X: Any,
        sample_weight: Any,
        *,
        least_starts: int = 1,
        gives_up: bool = False,
        seen: Seen | None = None,
        found: Whole | None = None,
    ) -> Ascent:
        """Fit; `select_model` `gives_up` fits that degenerate, has `seen` the rows before and may have `found` it."""
        self._check_parameters()
        with ExitStack() as opened:
            with all_or_nothing(self):
                rows = opened.enter_context(self._open(X, sample_weight, reset=True))
                opened.enter_context(one_blas_thread())
                total = self._moments(rows) if seen is None else seen.total
                options = self._options(total, self._start(rows, total), check_random(self.random_state))
                options = replace(options, n_init=max(options.n_init, least_starts), gives_up=gives_up, found=found)
                if seen is not None and not self._wants_neighbours():  # They are found with samples of their own.
                    options = replace(options, sample=seen.sample)
                fit = self._fit_rows(rows, total, options)
                self._set_fitted(fit, total)
                self.__dict__.pop("_stream", None)
            # Interrupted here, the model is fitted all the same.
            self._set_labels(rows)
        if fit.interrupted:
            raise KeyboardInterrupt(f"fit stopped at step {self.n_iter_}; the model holds the best parameters so far")
        if not self.converged_:
            warnings.warn(
                f"EGMM did not converge in max_iter={self.max_iter} steps (tol={self.tol:g}); raise max_iter, "
                "loosen tol, or try fewer clusters or another start.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return fit.ascent

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Learn from one more batch of a stream, by stepwise EM.

        It goes on from the model, whether that was fitted, loaded or made by earlier batches. Without a model, the
        first batch is fitted as by `fit`, from five starts at least, since later batches cannot mend a bad one; it
        must show every cluster. Each later batch moves the running statistics by a step of
        (rows in the batch / rows seen)^0.6, so that early masses are slowly forgotten. Afterwards `log_likelihood_`,
        `entropy_` and `ebic_` are those of the rows seen, estimated by running means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The batch.
        y : Ignored
            For scikit-learn's sake.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : EGMM
        """
        if not hasattr(self, "means_"):
            ascent = self._fit(X, sample_weight, least_starts=STREAM_STARTS)
            self._stream = Stream.from_point(ascent.problem, ascent.point)
            return self
        self._check_parameters()
        self._check_unchanged()
        with all_or_nothing(self), self._open(X, sample_weight) as rows, one_blas_thread():
            before = getattr(self, "_stream", None) or self._stream_of_model(rows)
            batch = self._moments(rows)
            distance = self._distance(batch)
            try:
                with np.errstate(all="ignore"):  # of rows so far away that no model fits them
                    self._stream = stream = before.after(rows, batch)
                    self._set_parameters(stream.params, stream.problem, stream.weight)
                    self._set_labels(rows)
            except NotPositiveDefiniteError as error:
                raise ValueError(f"{distance}, too far for one model of all rows; fit the two apart.") from error
            self._set_log_likelihood(stream.weight * stream.mean_log_likelihood, stream.weight)
            self.entropy_ = stream.weight * stream.mean_entropy
            self.log_likelihood_history_ = np.append(self.log_likelihood_history_, self.log_likelihood_)
            self.n_iter_ += 1
        return self

    def _check_unchanged(self) -> None:
        """Refuse parameters set since the fit that a stream cannot follow."""
        now = self._model_parameters()
        for name, value in self._fitted_parameters.items():
            if now[name] != value:
                raise ValueError(
                    f"partial_fit goes on from a model with {name}={value}, but {name}={now[name]} was set since; "
                    "set it back, or call fit, or partial_fit of sklearn.base.clone(model), to begin anew."
                )

    def _stream_of_model(self, rows: RowSource) -> Stream:
        """Return a stream that has seen what the fitted model has."""
        # EBIC tells the rows' weight, which files of models do not hold.
        weight = float(np.exp(2.0 * (self.log_likelihood_ - self.ebic_) / self.n_parameters_))
        centre = self.weights_ @ self.focal_means_
        params = Parameters(self.weights_, self.means_ - centre, self.covariances_)
        shares, is_shared = self.focal_sets_.shares, self.covariances_.ndim == 2
        spread = self.focal_covariances_ if is_shared else np.einsum("j,jde", self.weights_, self.focal_covariances_)
        offsets = self.focal_means_ - centre
        total = Moments(weight, centre, weight * (spread + np.einsum("j,jd,je", self.weights_, offsets, offsets)))
        engine = choose_engine(self.engine, *rows.size, shares, is_shared, 1)
        ridge = make_ridge(self.reg_covar, self.covariances_, total)
        prior = make_prior(self.prior, total, self.n_clusters, self._covariance)
        problem = Problem(rows, total, shares, self._covariance, ridge, engine, prior, self.certainty)
        return Stream.from_model(problem, params, self.log_likelihood_, self.entropy_)

    def _distance(self, batch: Moments) -> str:
        """Say how far a batch is from the model."""
        spread = np.sqrt(np.einsum("...dd->...d", self.focal_covariances_).reshape(-1, len(batch.centre)).max(axis=0))
        away = np.abs(batch.centre - self.focal_means_).min(axis=0) / spread
        column = int(away.argmax())
        return f"X lies {away[column]:.3g} deviations from the nearest cluster in column {column}"

    def _moments(self, rows: RowSource) -> Moments:
        """Moments of rows that can be fitted."""
        with self._naming_entries(rows), np.errstate(all="ignore"):
            total = rows.reduce(moments)
            check_weight(total.weight)
            if not np.isfinite(total.scatter).all():
                raise UnusableRowsError("X holds values too large for their squares to be summed; rescale it.")
            check_spread(np.diag(total.scatter) / total.weight, getattr(self, "feature_names_in_", None))
        return total

    def _fit_rows(self, rows: RowSource, total: Moments, options: Options) -> Fit:
        if self._wants_neighbours():
            first = FocalSets.simple(self.n_clusters)
            fit = fit_mixture(rows, total, first.shares, replace(options, checkpoint=None, gives_up=False))
            if fit.interrupted:
                self.focal_sets_ = first
                return fit
            model = components(fit.ascent.point.params, total.centre, first.shares)
            engine = choose_engine(self.engine, *rows.shape, model.shares, model.is_shared)
            similarity = rows.reduce(partial(assign.plausibility_products, model=model, engine=engine))
            self.focal_sets_ = FocalSets.neighbours(similarity.values)
        else:
            self.focal_sets_ = FocalSets.of(self.focal_sets, self.n_clusters)
        if self.focal_sets_.has_empty:
            raise ValueError("focal_sets must not hold the empty set: a Gaussian mixture gives it no density.")
        covered = self.focal_sets_.membership.any(axis=0)
        if not covered.all():
            missing = int(covered.argmin())
            raise ValueError(
                f"focal_sets must cover every cluster; cluster {missing + 1} (number {missing} counted from zero) "
                "is in none."
            )
        return fit_mixture(rows, total, self.focal_sets_.shares, options)

    def _check_parameters(self) -> None:
        check_integer("n_clusters", self.n_clusters, 1)
        check_integer("n_clusters", self.n_clusters, 1, MAX_CLUSTERS)
        check_integer("n_init", self.n_init, 1)
        check_real("tol", self.tol, 0.0)
        check_integer("max_iter", self.max_iter, 1)
        check_real("certainty", self.certainty, 0.0, HEAVIEST)
        check_choice("engine", self.engine, ENGINES)
        for name in ("accelerate", "warm_start"):
            if not isinstance(value := getattr(self, name), bool | np.bool_):
                raise TypeError(f"{name} must be True or False, got {value!r}.")
        if not (self.checkpoint is None or isinstance(self.checkpoint, str | PathLike)):
            raise TypeError(f"checkpoint must be a path or None, got {self.checkpoint!r}.")
        resolve_jobs(self.n_jobs)
        if isinstance(self.reg_covar, str):
            check_choice("reg_covar (a number >= 0 or a name)", self.reg_covar, ["auto"])
        else:
            check_real("reg_covar", self.reg_covar, 0.0)

    def _options(self, total: Moments, init: Start, random: np.random.RandomState) -> Options:
        covariance = resolve_covariance(self.covariance, len(total.centre))
        return Options(
            covariance=covariance,
            prior=make_prior(self.prior, total, self.n_clusters, covariance),
            certainty=self.certainty,
            init=init,
            n_init=self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            reg_covar=self.reg_covar,
            accelerate=self.accelerate,
            engine=self.engine,
            verbose=bool(self.verbose),
            random=random,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            seed=None if isinstance(self.random_state, np.random.RandomState) else self.random_state,
        )

    def _start(self, rows: RowSource, total: Moments) -> Start:
        if self.warm_start and self._fits_on(rows.shape[1], resolve_covariance(self.covariance, rows.shape[1])):
            return Parameters(self.weights_, self.means_ - total.centre, self.covariances_)
        if isinstance(self.init, str):
            return check_choice("init", self.init, STARTS)
        try:
            n_axes, found = np.ndim(self.init), repr(self.init)
        except ValueError:  # NumPy's own message says neither what nor where.
            n_axes, found = 0, "lists of unequal lengths"
        if n_axes == 0:
            wanted = f"one of {', '.join(map(repr, STARTS))}, a label per row or a mean per cluster"
            raise ValueError(f"init must be {wanted}, got {found}.")
        if n_axes == 1:
            return self._start_labels(rows.shape[0])
        return check_prototypes(self.init, self.n_clusters, rows.shape[1])

    def _fits_on(self, n_features: int, covariance: str) -> bool:
        """Whether the last fit is of the model asked for now; 'neighbours' finds its sets anew."""
        if not hasattr(self, "means_") or self.means_.shape != (self.n_clusters, n_features):
            return False
        if self._covariance != covariance or self._wants_neighbours():
            return False
        return FocalSets.of(self.focal_sets, self.n_clusters) == self.focal_sets_

    def _wants_neighbours(self) -> bool:
        return isinstance(self.focal_sets, str) and self.focal_sets == "neighbours"

    def _start_labels(self, n_rows: int) -> IntArray:
        labels = check_finite_matrix("init (labels)", self.init, (n_rows,))
        if not np.isin(labels, np.arange(self.n_clusters)).all():
            bad = labels[~np.isin(labels, np.arange(self.n_clusters))][0]
            raise ValueError(f"init labels must be whole numbers from 0 to {self.n_clusters - 1}, got {bad:g}.")
        return labels.astype(np.int64)

    def _set_fitted(self, fit: Fit, total: Moments) -> None:
        ascent = fit.ascent
        self._set_parameters(ascent.point.params, ascent.problem, total.weight)
        self._set_log_likelihood(ascent.point.log_likelihood, total.weight)
        self.entropy_ = ascent.point.entropy
        self.log_likelihood_history_ = np.array(ascent.history)
        self.n_iter_ = ascent.n_iter
        self.converged_ = ascent.converged and not fit.interrupted
        self.degenerate_ = fit.is_degenerate
        self._fitted_parameters = self._model_parameters()

    def _set_labels(self, rows: Any) -> None:
        """Labels of rows in memory; those of an earlier fit are not these rows'."""
        self.__dict__.pop("labels_", None)
        if isinstance(rows, ArrayRows):
            self.labels_ = self._assign(rows, assign.labels, "cluster")

    def _set_parameters(self, params: Parameters, problem: Problem, weight: float) -> None:
        shares, centre = problem.shares, problem.moments.centre
        focal_means, focal_covariances = focal_parameters(params, shares)
        self.weights_ = params.weights
        self.means_ = params.means + centre
        self.covariances_ = params.covariances
        self.focal_means_ = focal_means + centre
        self.focal_covariances_ = focal_covariances
        self._covariance = problem.covariance
        self.n_parameters_ = n_free_parameters(params, shares, self._covariance, problem.certainty, weight)

    def _set_log_likelihood(self, log_likelihood: float, weight: float) -> None:
        self.log_likelihood_ = log_likelihood
        self.ebic_ = ebic_of(log_likelihood, self.n_parameters_, weight)


def n_free_parameters(params: Parameters, shares: FloatArray, covariance: str, certainty: float, weight: float) -> int:
    """Parameters that EBIC charges for."""
    n_own = n_covariance_parameters(covariance, *params.means.shape)
    return n_weighted(params.weights, shares, certainty, weight) - 1 + params.means.size + n_own


def ebic_of(log_likelihood: float, n_parameters: int, weight: float) -> float:
    """EBIC of rows with this weight; higher is better."""
    return log_likelihood - 0.5 * n_parameters * float(np.log(weight))
