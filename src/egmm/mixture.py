"""EGMM: the evidential Gaussian mixture as a scikit-learn estimator."""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from scipy.stats import chi2
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from egmm._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_finite_matrix,
    check_integer,
    check_real,
    check_sample_weight,
)
from egmm._files import replacing
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition
from egmm.em import assign
from egmm.em.covariance import n_covariance_parameters, resolve_covariance
from egmm.em.fit import Fit, Options, choose_engine, fit_mixture
from egmm.em.loop import Ascent
from egmm.em.parameters import Parameters, components, focal_parameters, precision_factors
from egmm.em.prior import make_prior
from egmm.em.statistics import Moments, moments
from egmm.em.stream import Stream
from egmm.rows import RowSource, remote_rows
from egmm.rows.array import ArrayRows
from egmm.rows.threads import one_blas_thread

FORMAT = "egmm.EGMM/1"
FITTED = (
    "weights_",
    "means_",
    "covariances_",
    "focal_means_",
    "focal_covariances_",
    "log_likelihood_",
    "log_likelihood_history_",
    "ebic_",
    "n_parameters_",
    "n_iter_",
    "converged_",
    "degenerate_",
    "n_features_in_",
    "feature_names_in_",
)
"""Fitted attributes kept in a file."""
STARTS = ("kmeans", "random")
STREAM_STARTS = 5
ENGINES = ("auto", "numpy", "numba")


class EGMM(ClusterMixin, BaseEstimator):
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
    init : {'kmeans', 'random'}, labels or means, default='kmeans'
        Start: k-means; random rows as means; an array (n_samples,) of labels 0 to C-1; or an array
        (n_clusters, n_features) of means. A given start is used once, whatever `n_init`.
    n_init : int, default=1
        Number of named starts. The best likelihood among those that do not degenerate is kept.
    tol : float, default=1e-6
        Tolerance on the mean log-likelihood per row: on the gain that is predicted to be still to come, or, with
        ``accelerate=False``, on the last gain. The paper's 1e-3 on the total is ``tol=1e-3 / n_samples``.
    max_iter : int, default=1000
        Most steps.
    reg_covar : float or 'auto', default='auto'
        Ridge on the covariance. A number is added to every variance; 0.01 is what the authors' code does. 'auto' is
        1e-9 of each feature's variance within the start's clusters, so that units do not matter.
    prior : {None, 'default'} or mapping, default=None
        Conjugate prior of means and covariances, which keeps small clusters from collapsing. 'default' has Fraley and
        Raftery's hyperparameters; a mapping may set 'kappa', 'mean', 'degrees' and 'scale'.
    accelerate : bool, default=True
        Whether quasi-Newton steps take over where EM crawls (models 'EEE' and 'EEI' without a prior). False is the
        paper's plain EM.
    random_state : int, RandomState instance or None, default=None
        Seed of the named starts.
    engine : {'auto', 'numpy', 'numba'}, default='auto'
        'numba' is compiled at first use and far faster on large data; 'auto' compiles only where that pays.
    n_jobs : int or None, default=None
        Threads; None means all cores this process may use. Results do not depend on it.
    warm_start : bool, default=False
        Go on from the last fit instead of a new start.
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
    ebic_ : float
        Evidential Bayesian information criterion; higher is better.
    n_parameters_ : int
        Number of free parameters.
    n_iter_ : int
        Steps taken.
    converged_ : bool
        Whether `tol` was reached.
    degenerate_ : bool
        Whether a cluster ended with the weight of fewer than n_features + 1 rows, or a covariance collapsed along some
        direction to a millionth of the start's: its likelihood is then no guide.
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

    # Fitted attributes, for type checkers.
    weights_: FloatArray
    means_: FloatArray
    covariances_: FloatArray
    focal_means_: FloatArray
    focal_covariances_: FloatArray
    focal_sets_: FocalSets
    labels_: IntArray
    log_likelihood_: float
    log_likelihood_history_: FloatArray
    ebic_: float
    n_parameters_: int
    n_iter_: int
    converged_: bool
    degenerate_: bool
    n_features_in_: int
    feature_names_in_: Any

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
        self.__dict__.pop("_stream", None)
        self._fit(X, sample_weight)
        return self

    def _fit(self, X: Any, sample_weight: Any, least_starts: int = 1) -> Ascent:
        self._check_parameters()
        with self._open(X, sample_weight, reset=True) as rows, one_blas_thread():
            total = rows.reduce(moments)
            self._check_finite(rows, total)
            options = self._options(rows, total)
            fit = self._fit_rows(rows, total, replace(options, n_init=max(options.n_init, least_starts)))
            self._set_fitted(fit, total)
            if isinstance(rows, ArrayRows):
                self.labels_ = self._assign(rows, assign.labels, ["cluster"])
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

        The first batch is fitted as by `fit`, from five starts at least, since later batches cannot mend a bad one; it
        must show every cluster. Each later batch moves the running statistics
        by a step of (rows in the batch / rows seen)^0.6, so that early masses are slowly forgotten. Afterwards
        `log_likelihood_` and `ebic_` are those of the rows seen, estimated from the running statistics.

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
        if not hasattr(self, "_stream"):
            ascent = self._fit(X, sample_weight, least_starts=STREAM_STARTS)
            self._stream = Stream.from_point(ascent.problem, ascent.point)
            return self
        stream = self._stream
        with self._open(X, sample_weight) as rows, one_blas_thread():
            stream.update(rows)
            self._set_parameters(stream.params, stream.problem.moments.centre)
            self._set_log_likelihood(stream.weight * stream.mean_log_likelihood, stream.weight)
            self.labels_ = self._assign(rows, assign.labels, ["cluster"])
        self.n_iter_ += 1
        return self

    def _fit_rows(self, rows: RowSource, total: Moments, options: Options) -> Fit:
        if isinstance(self.focal_sets, str) and self.focal_sets == "neighbours":
            first = FocalSets.simple(self.n_clusters)
            params = fit_mixture(rows, total, first.shares, replace(options, checkpoint=None)).ascent.point.params
            model = components(params, total.centre, first.shares)
            engine = choose_engine(self.engine, *rows.shape, model.shares, model.is_shared)
            similarity = rows.reduce(partial(assign.plausibility_products, model=model, engine=engine))
            self.focal_sets_ = FocalSets.neighbours(similarity.values)
        else:
            self.focal_sets_ = FocalSets.of(self.focal_sets, self.n_clusters)
        if self.focal_sets_.has_empty:
            raise ValueError("focal_sets must not hold the empty set: a Gaussian mixture gives it no density.")
        covered = self.focal_sets_.membership.any(axis=0)
        if not covered.all():
            raise ValueError(f"focal_sets must cover every cluster; cluster {int(covered.argmin())} is in none.")
        return fit_mixture(rows, total, self.focal_sets_.shares, options)

    def _check_parameters(self) -> None:
        check_integer("n_clusters", self.n_clusters, 1)
        check_integer("n_init", self.n_init, 1)
        check_real("tol", self.tol, 0.0)
        check_integer("max_iter", self.max_iter, 1)
        check_choice("engine", self.engine, ENGINES)
        if self.n_jobs is not None:
            check_integer("n_jobs", self.n_jobs, 1)
        if isinstance(self.reg_covar, str):
            check_choice("reg_covar (a number >= 0 or a name)", self.reg_covar, ["auto"])
        else:
            check_real("reg_covar", self.reg_covar, 0.0)

    def _options(self, rows: RowSource, total: Moments) -> Options:
        covariance = resolve_covariance(self.covariance, rows.shape[1])
        return Options(
            covariance=covariance,
            prior=make_prior(self.prior, total, self.n_clusters, covariance),
            init=self._start(rows, total),
            n_init=self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            reg_covar=self.reg_covar,
            accelerate=self.accelerate,
            engine=self.engine,
            verbose=bool(self.verbose),
            random=check_random_state(self.random_state),
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
        )

    def _start(self, rows: RowSource, total: Moments) -> str | FloatArray | IntArray | Parameters:
        if self.warm_start and hasattr(self, "means_") and self.means_.shape == (self.n_clusters, rows.shape[1]):
            return Parameters(self.weights_, self.means_ - total.centre, self.covariances_)
        if isinstance(self.init, str):
            return check_choice("init", self.init, STARTS)
        if np.ndim(self.init) == 1:
            return self._start_labels(rows.shape[0])
        return check_finite_matrix("init (means)", self.init, (self.n_clusters, rows.shape[1]))

    def _start_labels(self, n_rows: int) -> IntArray:
        labels = check_finite_matrix("init (labels)", self.init, (n_rows,))
        if not np.isin(labels, np.arange(self.n_clusters)).all():
            bad = labels[~np.isin(labels, np.arange(self.n_clusters))][0]
            raise ValueError(f"init labels must be whole numbers from 0 to {self.n_clusters - 1}, got {bad:g}.")
        return labels.astype(np.int64)

    def _check_finite(self, rows: RowSource, total: Moments) -> None:
        """Sums over all rows are finite unless some entry is not, so one look at them spares a pass."""
        if np.isfinite(total.scatter).all():
            return
        bad = rows.first_not_finite()
        if bad is None:
            raise ValueError("X holds values too large for their squares to be summed (above about 1e150); rescale it.")
        row, column, value = bad
        names = getattr(self, "feature_names_in_", None)
        name = f"column {column}" if names is None else f"column {column} ({names[column]!r})"
        kind = "NaN" if np.isnan(value) else "infinity"
        raise ValueError(
            f"Input X contains {kind} at row {row}, {name}; EGMM needs complete data: drop or impute such rows."
        )

    def _set_fitted(self, fit: Fit, total: Moments) -> None:
        ascent = fit.ascent
        self._set_parameters(ascent.point.params, total.centre)
        self._set_log_likelihood(ascent.point.log_likelihood, total.weight)
        self.log_likelihood_history_ = np.array(ascent.history)
        self.n_iter_ = ascent.n_iter
        self.converged_ = ascent.converged
        self.degenerate_ = fit.is_degenerate

    def _set_parameters(self, params: Parameters, centre: FloatArray) -> None:
        shares = self.focal_sets_.shares
        focal_means, focal_covariances = focal_parameters(params, shares)
        self.weights_ = params.weights
        self.means_ = params.means + centre
        self.covariances_ = params.covariances
        self.focal_means_ = focal_means + centre
        self.focal_covariances_ = focal_covariances
        covariance = resolve_covariance(self.covariance, params.means.shape[1])
        n_own = n_covariance_parameters(covariance, *params.means.shape)
        self.n_parameters_ = len(shares) - 1 + params.means.size + n_own

    def _set_log_likelihood(self, log_likelihood: float, weight: float) -> None:
        self.log_likelihood_ = log_likelihood
        self.ebic_ = log_likelihood - 0.5 * self.n_parameters_ * float(np.log(weight))

    # Using a fitted mixture -------------------------------------------------------------------------------

    def predict(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Cluster of largest pignistic probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. The result for a Dask collection is lazy.
        out : path, default=None
            For a scan: Parquet file to write to; the path is returned.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._apply(X, assign.labels, ["cluster"], out)

    def predict_proba(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Pignistic probabilities, (n_samples, n_clusters); X and out as for `predict`."""
        return self._apply(X, assign.pignistics, self._cluster_names(), out)

    def predict_mass(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Masses on the focal sets, (n_samples, n_focal), columns as `focal_sets_`; X and out as for `predict`."""
        return self._apply(X, assign.masses, self._set_names(), out)

    def predict_sets(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Index into `focal_sets_` of the heaviest set, (n_samples,); X and out as for `predict`."""
        return self._apply(X, assign.heaviest, ["set"], out)

    def partition(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Masses of rows as a `CredalPartition`; for a scan, as the file `out` that ``CredalPartition.load`` reads."""
        if out is not None:
            return self.predict_mass(X, out)
        return CredalPartition(np.asarray(self.predict_mass(X)), self.focal_sets_)

    def score_samples(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Log-density of each row, (n_samples,); X and out as for `predict`."""
        return self._apply(X, assign.log_densities, ["log_density"], out)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Mean log-density per unit weight."""
        total = self._totals(X, sample_weight)
        return total.log_likelihood / total.weight

    def ebic(self, X: Any, sample_weight: Any = None) -> float:
        """Evidential Bayesian information criterion on rows; **higher is better**."""
        return self._ebic(self._totals(X, sample_weight))

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Bayesian information criterion in scikit-learn's sign, -2 EBIC; lower is better."""
        return -2.0 * self.ebic(X, sample_weight)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike's information criterion; lower is better."""
        return -2.0 * self._totals(X, sample_weight).log_likelihood + 2.0 * self.n_parameters_

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """Integrated completed likelihood, BIC plus twice the entropy of the masses; lower is better."""
        total = self._totals(X, sample_weight)
        return -2.0 * self._ebic(total) + 2.0 * total.entropy

    def outliers(self, X: Any, quantile: float = 0.999) -> BoolArray:
        """Rows far from every component.

        EGMM has no empty set. A row is an outlier if its Mahalanobis distance to the nearest component exceeds this
        quantile of the chi-square distribution with n_features degrees of freedom.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        quantile : float, default=0.999

        Returns
        -------
        is_outlier : ndarray of shape (n_samples,), bool
        """
        check_is_fitted(self)
        check_real("quantile", quantile, 0.0, 1.0)
        factors, _ = precision_factors(self.focal_covariances_)
        factors = np.broadcast_to(factors, (len(self.weights_), *factors.shape[-2:]))
        with self._open(X) as rows:
            function = partial(assign.squared_distances, means=self.focal_means_, factors=factors)
            return rows.apply(function, ["distance"]) > chi2.ppf(quantile, self.n_features_in_)

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, IntArray]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        sets : ndarray of shape (n_samples,)
            Index into `focal_sets_` of the set each row was drawn from.
        """
        check_is_fitted(self)
        check_integer("n_samples", n_samples, 1)
        random = check_random_state(self.random_state)
        sets = random.choice(len(self.weights_), size=n_samples, p=self.weights_ / self.weights_.sum())
        roots = np.linalg.cholesky(self.focal_covariances_)
        roots = roots if roots.ndim == 3 else np.broadcast_to(roots, (len(self.weights_), *roots.shape))
        noise = random.standard_normal((n_samples, self.n_features_in_))
        return self.focal_means_[sets] + np.einsum("nde,ne->nd", roots[sets], noise), sets

    # Keeping a fitted mixture ----------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted mixture to a readable JSON file, replaced as a whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Where to write.
        """
        check_is_fitted(self)
        # A given start and a random stream belong to the fit, not to the model it made.
        init = self.init if isinstance(self.init, str) else "kmeans"
        seed = self.random_state if isinstance(self.random_state, int) else None
        parameters = {**self.get_params(deep=False), "init": init, "random_state": seed}
        del parameters["focal_sets"]
        fitted = {name: _plain(getattr(self, name)) for name in FITTED if hasattr(self, name)}
        document = {
            "format": FORMAT,
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "focal_sets": [sorted(members) for members in self.focal_sets_],
            "fitted": fitted,
        }
        with replacing(Path(path)) as stream:
            stream.write(json.dumps(document, indent=1).encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "EGMM":
        """Read a fitted mixture that `save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        model : EGMM
            Fitted; `labels_` is not kept.
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            if document["format"] != FORMAT:
                raise ValueError(f"its format is {document['format']!r}, expected {FORMAT!r}")
            parameters = document["parameters"]
            focal = FocalSets.from_sets(document["focal_sets"], parameters["n_clusters"])
            model = cls(**parameters, focal_sets=focal)
            for name in FITTED:
                if name in document["fitted"]:
                    value = document["fitted"][name]
                    setattr(model, name, np.array(value) if isinstance(value, list) else value)
        except (KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
            raise ValueError(f"{path} holds no EGMM model: {error}") from error
        model.focal_sets_ = focal
        return model

    # Rows ------------------------------------------------------------------------------------------------

    def _open(self, X: Any, sample_weight: Any = None, *, reset: bool = False) -> Any:
        """Rows of whatever was given, checked against (or, with `reset`, setting) the model's features."""
        rows = remote_rows(X, sample_weight, self.n_jobs)
        if rows is not None:
            self._check_features(rows.shape[1], rows.feature_names, reset)
            return rows
        least = 2 if reset else 1
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_min_samples=least,
            ensure_all_finite=not reset,  # At a fit the moments tell, and the message names the entry.
        )
        return ArrayRows(X, check_sample_weight(sample_weight, len(X)), self.n_jobs)

    def _check_features(self, n_features: int, names: list[str] | None, reset: bool) -> None:
        """scikit-learn's rules on features, for rows it must not load."""
        if reset:
            self.n_features_in_ = n_features
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            return
        if n_features != self.n_features_in_:
            raise ValueError(f"X has {n_features} features, but EGMM is expecting {self.n_features_in_} features.")
        expected = getattr(self, "feature_names_in_", None)
        if expected is not None and names is not None and list(expected) != names:
            raise ValueError(
                f"X has the columns {names}, but EGMM was fitted on {list(expected)}; select them in scan."
            )

    def _apply(self, X: Any, function: Callable[..., Any], names: list[str], out: Any) -> Any:
        check_is_fitted(self)
        with self._open(X) as rows, one_blas_thread():
            return self._assign(rows, function, names, out)

    def _assign(self, rows: Any, function: Callable[..., Any], names: list[str], out: Any = None) -> Any:
        """Apply one of `em.assign`'s functions to every row."""
        return rows.apply(self._bound(function, rows), names, out)

    def _totals(self, X: Any, sample_weight: Any) -> assign.Totals:
        check_is_fitted(self)
        with self._open(X, sample_weight) as rows, one_blas_thread():
            return rows.reduce(self._bound(assign.totals, rows))

    def _bound(self, function: Callable[..., Any], rows: RowSource) -> Callable[..., Any]:
        """One of `em.assign`'s functions with the fitted model and the engine that suits the rows."""
        centre = self.means_.mean(axis=0)
        params = Parameters(self.weights_, self.means_ - centre, self.covariances_)
        model = components(params, centre, self.focal_sets_.shares)
        engine = choose_engine(self.engine, *rows.shape, model.shares, model.is_shared)
        return partial(function, model=model, engine=engine)

    def _ebic(self, total: assign.Totals) -> float:
        return total.log_likelihood - 0.5 * self.n_parameters_ * float(np.log(total.weight))

    def _cluster_names(self) -> list[str]:
        return [f"cluster_{k + 1}" for k in range(self.n_clusters)]

    def _set_names(self) -> list[str]:
        check_is_fitted(self)
        return list(self.focal_sets_.labels)


def _plain(value: Any) -> Any:
    """A value as JSON holds it; floats keep every digit."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
