"""EGMM: the evidential Gaussian mixture as a scikit-learn estimator."""

import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from egmm._arrays import follow, is_elsewhere, place_of, to_host
from egmm._checks import (
    HEAVIEST,
    IntArray,
    all_or_nothing,
    check_choice,
    check_finite_matrix,
    check_integer,
    check_prototypes,
    check_random,
    check_real,
    check_spread,
)
from egmm._progress import Progress
from egmm.belief.focal import MAX_CLUSTERS, FocalSets
from egmm.em import assign
from egmm.em.ascent import Ascent
from egmm.em.checkpoint import Checkpoint
from egmm.em.covariance import is_diagonal, resolve_covariance
from egmm.em.criteria import ebic_of, n_free_parameters
from egmm.em.fit import (
    EXPECTED_PASSES,
    FitResult,
    Specification,
    choose_engine,
    fit,
    seconds_in_numpy,
)
from egmm.em.parameters import Parameters, focal_parameters
from egmm.em.prior import make_prior
from egmm.em.problem import Problem
from egmm.em.start import make_ridge
from egmm.em.statistics import Moments, Units
from egmm.em.stream import Stream
from egmm.em.summary import DataSummary, summarise, total_moments
from egmm.fitted import FittedMixture, assign_rows, model_parameters, naming_entries, open_rows
from egmm.rows import RowSource
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.threads import one_blas_thread, resolve_jobs

STARTS = ("kmeans", "random", "mixture")
STREAM_STARTS = 5
ENGINES = ("auto", "numpy", "numba")


class ModelFit(NamedTuple):
    """A fit of an estimator's model, and the focal sets it has."""

    focal_sets: FocalSets
    result: FitResult


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
        Number of named starts. The best likelihood among those that do not degenerate is kept; on large data, starts
        are compared on the sample (see `accelerate`).
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
        Whether Anderson's method extrapolates EM's steps where EM crawls. Large data are also fitted on a sample first;
        the full fit starts there. False is the paper's plain EM.
    random_state : int, RandomState instance or None, default=None
        Seed of the named starts.
    engine : {'auto', 'numpy', 'numba'}, default='auto'
        How a pass over the rows is computed; results agree. 'numba' is compiled at first use, in about six seconds, and
        far faster on large data; 'auto' compiles where NumPy would take longer than ten seconds.
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

    def _check_parameters(self) -> None:
        check_parameters(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.engine != "numba"
        return tags

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

    def _fit(self, X: Any, sample_weight: Any, *, least_starts: int = 1) -> FitResult:
        check_parameters(self)
        with ExitStack() as opened:
            with all_or_nothing(self):
                rows = opened.enter_context(open_rows(self, X, sample_weight, reset=True))
                opened.enter_context(one_blas_thread())
                found = fit_model(self, rows, summary_of(self, rows), least_starts=least_starts)
                adopt(self, found)
                self.__dict__.pop("_stream", None)
            # Interrupted here, the model is fitted all the same.
            set_labels(self, rows)
        if found.result.is_interrupted:
            raise KeyboardInterrupt(f"fit stopped at step {self.n_iter_}; the model holds the best parameters so far")
        if not self.converged_:
            warnings.warn(
                f"EGMM did not converge in max_iter={self.max_iter} steps (tol={self.tol:g}); raise max_iter, "
                "loosen tol, or try fewer clusters or another start.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found.result

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
        if place_of(X) is not None or is_elsewhere(self):
            raise TypeError("partial_fit takes NumPy arrays alone; give the batch as one, to a model fitted to such.")
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
                    raise ValueError(f"{_distance(self, batch)}, too far for one model of all rows; fit the two apart.")
                set_parameters(self, stream.params, stream.problem)
            set_log_likelihood(self, stream.weight * stream.mean_log_likelihood, stream.weight)
            self.entropy_ = stream.weight * stream.mean_entropy
            self.log_likelihood_history_ = np.append(self.log_likelihood_history_, self.log_likelihood_)
            self.n_iter_ += 1
            set_labels(self, rows)
        return self


# Fitting an estimator's model --------------------------------------------------------------------------------


def check_parameters(model: EGMM) -> None:
    """Refuse parameters that no fit could have, whatever the rows."""
    check_integer("n_clusters", model.n_clusters, 1)
    check_integer("n_clusters", model.n_clusters, 1, MAX_CLUSTERS)
    check_integer("n_init", model.n_init, 1)
    check_real("tol", model.tol, 0.0)
    check_integer("max_iter", model.max_iter, 1)
    check_real("certainty", model.certainty, 0.0, HEAVIEST)
    check_choice("engine", model.engine, ENGINES)
    for name in ("accelerate", "warm_start"):
        if not isinstance(value := getattr(model, name), bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {value!r}.")
    if not (model.checkpoint is None or isinstance(model.checkpoint, str | PathLike)):
        raise TypeError(f"checkpoint must be a path or None, got {model.checkpoint!r}.")
    resolve_jobs(model.n_jobs)
    if isinstance(model.reg_covar, str):
        check_choice("reg_covar (a number >= 0 or a name)", model.reg_covar, ["auto"])
    else:
        check_real("reg_covar", model.reg_covar, 0.0)


def summary_of(model: EGMM, rows: RowSource) -> DataSummary:
    """What an estimator sees of rows before it is fitted."""
    diagonal = is_diagonal(resolve_covariance(model.covariance, rows.shape[1]))
    random, with_sample = check_random(model.random_state), isinstance(model.init, str)
    with naming_entries(model, rows):
        summary = summarise(rows, random, diagonal=diagonal, with_sample=with_sample)
    check_spread(summary.total.variances, getattr(model, "feature_names_in_", None))
    return summary


def fit_model(
    model: EGMM, rows: RowSource, summary: DataSummary, *, least_starts: int = 1, gives_up: bool = False
) -> ModelFit:
    """Fit the model that an estimator's parameters describe; the estimator itself is left as it is."""
    if not _wants_neighbours(model):
        focal_sets = family(model)
        specification = specify(model, summary, focal_sets, least_starts=least_starts, gives_up=gives_up)
        return ModelFit(focal_sets, _run(model, rows, summary, specification))
    first = FocalSets.simple(model.n_clusters)
    specification = specify(model, summary, first, least_starts=least_starts)
    result = _run(model, rows, summary, specification, keeps_checkpoint=False)
    if result.is_interrupted:
        return ModelFit(first, result)
    mixture = assign.Mixture.of(
        result.weights, result.means, result.covariances, first.shares, specification.covariance
    )
    products = assign.Reader(assign.plausibility_products, mixture, specification.engine)
    focal_sets = FocalSets.neighbours(rows.reduce(products.read).values)
    specification = specify(model, summary, focal_sets, least_starts=least_starts, gives_up=gives_up)
    return ModelFit(focal_sets, _run(model, rows, summary, specification))


def family(model: EGMM) -> FocalSets:
    """The focal sets that an estimator asks for by name or as a list; all clusters must be in them."""
    focal_sets = FocalSets.of(model.focal_sets, model.n_clusters)
    if focal_sets.has_empty:
        raise ValueError("focal_sets must not hold the empty set: a Gaussian mixture gives it no density.")
    covered = focal_sets.membership.any(axis=0)
    if not covered.all():
        missing = int(covered.argmin())
        raise ValueError(
            f"focal_sets must cover every cluster; cluster {missing + 1} (number {missing} counted from zero) "
            "is in none."
        )
    return focal_sets


def specify(
    model: EGMM,
    summary: DataSummary,
    focal_sets: FocalSets,
    *,
    least_starts: int = 1,
    gives_up: bool = False,
    engine: str | None = None,
) -> Specification:
    """What an estimator's parameters say of a fit to these rows."""
    total, covariance = summary.total, resolve_covariance(model.covariance, summary.shape[1])
    if engine is None:
        one_pass = seconds_in_numpy(summary.shape, focal_sets.shares, covariance)
        engine = choose_engine(model.engine, EXPECTED_PASSES * one_pass)
    return Specification(
        covariance=covariance,
        shares=focal_sets.shares,
        init=_start(model, summary, focal_sets, covariance),
        n_init=max(model.n_init, least_starts),
        tol=model.tol,
        max_iter=model.max_iter,
        reg_covar=model.reg_covar,
        prior=make_prior(model.prior, total, model.n_clusters, covariance),
        certainty=model.certainty,
        accelerate=bool(model.accelerate),
        engine=engine,
        gives_up=gives_up,
    )


def _run(
    model: EGMM, rows: RowSource, summary: DataSummary, specification: Specification, *, keeps_checkpoint: bool = True
) -> FitResult:
    checkpoint = _checkpoint(model, summary, specification) if keeps_checkpoint else None
    with Progress("EGMM", model.max_iter, enabled=bool(model.verbose)) as progress:
        report = partial(_report, progress) if model.verbose else None
        return fit(rows, summary, specification, report=report, checkpoint=checkpoint)


def _report(progress: Progress, ascent: Ascent, title: str) -> None:
    best = float(np.nanmax(ascent.state.evaluation.log_likelihood)) / float(ascent.problem.settings.weight[0])
    n_starts = len(ascent.status)
    starts = f"{int((ascent.status == 0).sum())} of {n_starts} starts under way, " if n_starts > 1 else ""
    progress.update(ascent.n_steps, f"{starts}mean log-likelihood {best:.6f}", title=title)


def _checkpoint(model: EGMM, summary: DataSummary, specification: Specification) -> Checkpoint | None:
    if model.checkpoint is None:
        return None
    one = specification
    prior, init = one.prior or (), one.init if isinstance(one.init, Parameters) else (one.init,)
    seed = None if isinstance(model.random_state, np.random.RandomState) else model.random_state
    settings = (one.covariance, one.shares, one.n_init, one.tol, one.reg_covar, one.accelerate, one.engine, seed)
    return Checkpoint(Path(model.checkpoint), [*summary.total, *settings, *init, one.certainty, *prior])


def _start(model: EGMM, summary: DataSummary, focal_sets: FocalSets, covariance: str) -> Any:
    """Where a fit starts: a name, labels, means or the last fit's parameters."""
    (n_rows, n_features), units = summary.shape, summary.units
    if model.warm_start and _fits_on(model, focal_sets, n_features, covariance):
        weights, means, covariances = map(to_host, (model.weights_, model.means_, model.stored_covariances_))
        return assign.in_units(weights, means, covariances, covariance, units)[0]
    if isinstance(model.init, str):
        return check_choice("init", model.init, STARTS)
    try:
        n_axes, found = np.ndim(to_host(model.init)), repr(model.init)
    except ValueError:  # NumPy's own message says neither what nor where.
        n_axes, found = 0, "lists of unequal lengths"
    if n_axes == 0:
        wanted = f"one of {', '.join(map(repr, STARTS))}, a label per row or a mean per cluster"
        raise ValueError(f"init must be {wanted}, got {found}.")
    if n_axes == 1:
        return _start_labels(model, n_rows)
    return check_prototypes(to_host(model.init), model.n_clusters, n_features)


def _fits_on(model: EGMM, focal_sets: FocalSets, n_features: int, covariance: str) -> bool:
    """Whether the last fit is of the model asked for now; 'neighbours' finds its sets anew."""
    if not hasattr(model, "means_") or model.means_.shape != (model.n_clusters, n_features):
        return False
    return model.covariance_ == covariance and not _wants_neighbours(model) and focal_sets == model.focal_sets_


def _wants_neighbours(model: EGMM) -> bool:
    return isinstance(model.focal_sets, str) and model.focal_sets == "neighbours"


def _start_labels(model: EGMM, n_rows: int) -> IntArray:
    labels = check_finite_matrix("init (labels)", to_host(model.init), (n_rows,))
    if not np.isin(labels, np.arange(model.n_clusters)).all():
        bad = labels[~np.isin(labels, np.arange(model.n_clusters))][0]
        raise ValueError(f"init labels must be whole numbers from 0 to {model.n_clusters - 1}, got {bad:g}.")
    return labels.astype(np.int64)


def _check_unchanged(model: EGMM) -> None:
    """Refuse parameters set since the fit that a stream cannot follow."""
    now = model_parameters(model)
    for name, value in model._fitted_parameters.items():
        if now[name] != value:
            raise ValueError(
                f"partial_fit goes on from a model with {name}={value}, but {name}={now[name]} was set since; "
                "set it back, or call fit, or partial_fit of sklearn.base.clone(model), to begin anew."
            )


def _batch_moments(model: EGMM, rows: RowSource) -> Moments:
    with naming_entries(model, rows):
        total = total_moments(rows, diagonal=is_diagonal(model.covariance_))
    check_spread(total.variances, getattr(model, "feature_names_in_", None))
    return total


def _stream_of(model: EGMM, rows: RowSource) -> Stream:
    """Return a stream that has seen what the fitted model has."""
    # EBIC tells the rows' weight, which files of models do not hold.
    weight = float(np.exp(2.0 * (model.log_likelihood_ - model.ebic_) / model.n_parameters_))
    covariance, shares, diagonal = model.covariance_, model.focal_sets_.shares, is_diagonal(model.covariance_)
    centre = model.weights_ @ model.focal_means_
    offsets = model.focal_means_ - centre
    squares = offsets**2 if diagonal else offsets[:, :, None] * offsets[:, None, :]
    spread = np.einsum("j,j...->...", model.weights_, model.stored_focal_covariances_ + squares)
    total = Moments(weight, centre, weight * spread)
    engine = choose_engine(model.engine, seconds_in_numpy(rows.size, shares, covariance))
    prior = make_prior(model.prior, total, model.n_clusters, covariance)
    units = Units.of(total)
    params, _ = assign.in_units(model.weights_, model.means_, model.stored_covariances_, covariance, units)
    within = params.variances.mean(axis=1)
    ridge = make_ridge(model.reg_covar, within, units.squares(total.variances), units)[0] * units.scale**2
    empty = ArrayRows(np.empty((0, len(centre))))
    problem = Problem.of_one(empty, total, shares, covariance, ridge, engine, prior, model.certainty)
    return Stream.from_model(problem, params, model.log_likelihood_, model.entropy_)


def _distance(model: EGMM, batch: Moments) -> str:
    """Say how far a batch is from the model."""
    within = model.stored_focal_covariances_
    variances = within if is_diagonal(model.covariance_) else np.einsum("...dd->...d", within)
    spread = np.sqrt(variances.reshape(-1, len(batch.centre)).max(axis=0))
    away = np.abs(batch.centre - model.focal_means_).min(axis=0) / spread
    column = int(away.argmax())
    return f"X lies {away[column]:.3g} deviations from the nearest cluster in column {column}"


def set_labels(model: EGMM, rows: Any) -> None:
    """Set labels of rows in memory; those of an earlier fit are not these rows'. Fitted arrays follow the rows."""
    model.__dict__.pop("labels_", None)
    if isinstance(rows, ArrayRows | DeviceRows):
        model.labels_ = assign_rows(model, rows, assign.labels, "cluster")
    if isinstance(rows, DeviceRows):
        follow(model, rows.where)


def adopt(model: EGMM, found: ModelFit) -> None:
    """Set an estimator's fitted attributes from a fit of its model."""
    result = found.result
    model.focal_sets_ = found.focal_sets
    set_parameters(model, result.evaluation.params, result.problem)
    set_log_likelihood(model, result.log_likelihood, float(result.problem.settings.weight[0]))
    model.entropy_ = result.entropy
    model.log_likelihood_history_ = result.history
    model.n_iter_ = len(result.history) - 1
    model.converged_ = result.is_converged
    model.degenerate_ = result.is_degenerate
    model._fitted_parameters = model_parameters(model)


def set_parameters(model: EGMM, params: Parameters, problem: Problem) -> None:
    """Set an estimator's parameters from those of a batch of one."""
    layout, units = problem.layout, problem.units
    focal_means, focal_covariances = focal_parameters(params, layout.shares, units, is_shared=layout.is_shared)
    covariances = units.covariances_out(params.covariances[0], diagonal=layout.diagonal)
    model.weights_ = params.weights[0]
    model.means_ = params.means[0] * units.scale + units.centre
    model.focal_means_ = focal_means
    model.stored_covariances_ = covariances[0] if layout.is_shared else covariances
    model.stored_focal_covariances_ = focal_covariances
    model.covariance_ = str(problem.settings.model[0])
    n_rows, n_features = float(problem.settings.weight[0]), len(units.centre)
    args = (layout.shares, model.covariance_, layout.certainty, n_rows)
    model.n_parameters_ = n_free_parameters(model.weights_, n_features, *args)


def set_log_likelihood(model: EGMM, log_likelihood: float, weight: float) -> None:
    """Set an estimator's log-likelihood and EBIC."""
    model.log_likelihood_ = log_likelihood
    model.ebic_ = ebic_of(log_likelihood, model.n_parameters_, weight)
