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

from egmm._arrays import check_on_host, follow, to_host
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
    check_weight,
)
from egmm._progress import Progress
from egmm.belief.focal import MAX_CLUSTERS, FocalSets
from egmm.em import assign
from egmm.em.ascent import Ascent
from egmm.em.checkpoint import Checkpoint
from egmm.em.completion import DataMoments, data_moments
from egmm.em.covariance import LOW_RANK, is_diagonal, resolve_covariance, warn_of_many_features
from egmm.em.criteria import ebic_of, n_free_parameters
from egmm.em.factors import most_factors
from egmm.em.factors import variances as diagonals
from egmm.em.fit import (
    EXPECTED_PASSES,
    FitResult,
    Specification,
    choose_engine,
    fit,
    seconds_in_numpy,
)
from egmm.em.noise import check_box
from egmm.em.parameters import Parameters, focal_parameters
from egmm.em.prior import make_prior
from egmm.em.problem import Problem
from egmm.em.start import LOW_RANK_RIDGE, RIDGE, make_ridge
from egmm.em.statistics import Moments, Units
from egmm.em.stream import Stream
from egmm.em.summary import DataSummary, summarise
from egmm.em.tails import TAILS, check_tails
from egmm.fitted import (
    FittedMixture,
    assign_rows,
    degrees_of,
    known_partition,
    model_parameters,
    naming_entries,
    noise_of,
    open_rows,
)
from egmm.knowledge import NOTHING, Given, Knowledge, read_knowledge
from egmm.rows import RowSource
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.threads import one_blas_thread, resolve_jobs

STARTS = ("kmeans", "random", "mixture")
STREAM_STARTS = 5
ENGINES = ("auto", "numpy", "numba")

FAR = 1e6
"""Deviations between a batch and all clusters beyond which squares hide what is within clusters."""


class ModelFit(NamedTuple):
    """A fit of an estimator's model, with its focal sets."""

    focal_sets: FocalSets
    result: FitResult


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


# Fitting an estimator's model --------------------------------------------------------------------------------


def check_parameters(model: EGMM) -> None:
    """Validate parameters that do not depend on the rows."""
    check_integer("n_clusters", model.n_clusters, 1)
    check_integer("n_clusters", model.n_clusters, 1, MAX_CLUSTERS)
    check_integer("n_init", model.n_init, 1)
    check_real("tol", model.tol, 0.0)
    check_integer("max_iter", model.max_iter, 1)
    check_real("certainty", model.certainty, 0.0, HEAVIEST)
    check_choice("engine", model.engine, ENGINES)
    check_choice("tails", model.tails, TAILS)
    for name in ("noise", "accelerate", "warm_start"):
        if not isinstance(value := getattr(model, name), bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {value!r}.")
    if not (model.checkpoint is None or isinstance(model.checkpoint, str | PathLike)):
        raise TypeError(f"checkpoint must be a path or None, got {model.checkpoint!r}.")
    resolve_jobs(model.n_jobs)
    if isinstance(model.reg_covar, str):
        check_choice("reg_covar (a number >= 0 or a name)", model.reg_covar, ["auto"])
    else:
        check_real("reg_covar", model.reg_covar, 0.0)
    if isinstance(model.n_factors, str):
        check_choice("n_factors (a whole number >= 1 or a name)", model.n_factors, ["auto"])
    else:
        check_integer("n_factors", model.n_factors, 1)


def summary_of(model: EGMM, rows: RowSource) -> DataSummary:
    """Summary of the rows before a fit."""
    diagonal = is_diagonal(resolve_covariance(model.covariance, rows.shape[1]))
    random, with_sample = check_random(model.random_state), isinstance(model.init, str)
    with naming_entries(model, rows):
        summary = summarise(rows, random, diagonal=diagonal, with_sample=with_sample, with_box=bool(model.noise))
    names = getattr(model, "feature_names_in_", None)
    check_spread(summary.total.variances, names)
    if summary.box is not None:
        check_box(summary.box, names)
    return summary


def fit_model(
    model: EGMM,
    rows: RowSource,
    summary: DataSummary,
    *,
    least_starts: int = 1,
    gives_up: bool = False,
    knowledge: Knowledge | None = None,
) -> ModelFit:
    """Fit the model described by an estimator's parameters, without changing the estimator."""
    options: dict[str, Any] = {"least_starts": least_starts, "knowledge": (knowledge, rows)}
    if not _wants_neighbours(model):
        focal_sets = family(model)
        specification = specify(model, summary, focal_sets, gives_up=gives_up, **options)
        return ModelFit(focal_sets, _run(model, rows, summary, specification))
    first = FocalSets.simple(model.n_clusters, empty=bool(model.noise))
    specification = specify(model, summary, first, **options)
    result = _run(model, rows, summary, specification, keeps_checkpoint=False)
    if result.is_interrupted:
        return ModelFit(first, result)
    mixture = assign.Mixture.of(
        result.weights,
        result.means,
        result.covariances,
        first.shares,
        specification.covariance,
        specification.noise,
        result.degrees,
    )
    products = assign.Reader(assign.plausibility_products, mixture, specification.engine)
    focal_sets = FocalSets.neighbours(rows.reduce(products.read).values, empty=bool(model.noise))
    specification = specify(model, summary, focal_sets, gives_up=gives_up, **options)
    return ModelFit(focal_sets, _run(model, rows, summary, specification))


def family(model: EGMM) -> FocalSets:
    """Focal sets of an estimator, given by name or as a list; they must cover all clusters."""
    focal_sets = FocalSets.of(model.focal_sets, model.n_clusters, empty=bool(model.noise))
    if focal_sets.has_empty and not model.noise:
        raise ValueError(
            "focal_sets must not hold the empty set: Gaussians give it no density; noise=True gives it a uniform one."
        )
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
    knowledge: tuple[Knowledge | None, RowSource | None] = (None, None),
) -> Specification:
    """Specification of a fit from an estimator's parameters, with additional knowledge about the rows if any."""
    known, rows = knowledge
    total, covariance = summary.total, resolve_covariance(model.covariance, summary.shape[1])
    tails = check_tails(model.tails, covariance, noise=bool(model.noise))
    if covariance == LOW_RANK and model.noise:
        raise ValueError("noise=True is not for covariance='low-rank'; use a diagonal model such as 'EEI'.")
    if tails and summary.has_missing:
        raise ValueError("tails='t' takes complete rows, but X has missing cells (NaN); impute or drop them first.")
    if engine is None:
        one_pass = seconds_in_numpy(summary.shape, focal_sets.shares, covariance)
        engine = choose_engine(model.engine, EXPECTED_PASSES * one_pass)
    n_factors = resolve_factors(model, covariance, summary.shape)
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
        evidence=None if known is None or rows is None else known.evidence(focal_sets, rows),
        noise=summary.box if model.noise else None,
        tails=tails,
        n_factors=n_factors,
        chooses_factors=bool(n_factors) and model.n_factors == "auto",
    )


def resolve_factors(model: EGMM, covariance: str, shape: tuple[int, int]) -> int:
    """Number of factors, or the maximum if EBIC chooses it; 0 for other models."""
    if covariance != LOW_RANK:
        return 0
    n_rows, n_features = shape
    most = min(most_factors(n_features), n_rows - model.n_clusters - 1)
    if most < 1:
        raise ValueError(
            f"covariance='low-rank' needs at least 4 features, and 2 rows more than clusters; got {n_features} "
            f"features, {n_rows} rows and {model.n_clusters} clusters. Use 'EEE' or a diagonal model such as 'EEI'."
        )
    if model.n_factors == "auto" and model.checkpoint is not None:
        raise ValueError("checkpoint must be None with n_factors='auto', which makes several fits; name a number.")
    return most if model.n_factors == "auto" else check_integer("n_factors", model.n_factors, 1, most)


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
    rows = (*summary.total, *summary.moments.complete)
    return Checkpoint(Path(model.checkpoint), [*rows, *settings, one.n_factors, *init, one.certainty, *prior])


def _start(model: EGMM, summary: DataSummary, focal_sets: FocalSets, covariance: str) -> Any:
    """Start of a fit: a name, labels, means or the last fit's parameters."""
    (n_rows, n_features), units = summary.shape, summary.units
    if model.warm_start and _fits_on(model, focal_sets, n_features, covariance):
        return _last_parameters(model, covariance, units)
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


def _last_parameters(model: EGMM, covariance: str, units: Units) -> Parameters:
    """Parameters of the last fit, as a batch of one."""
    weights, means, covariances = map(to_host, (model.weights_, model.means_, model.stored_covariances_))
    params, _ = assign.in_units(weights, means, covariances, covariance, units)
    degrees = degrees_of(model)
    return params._replace(degrees=None if degrees is None else np.array([degrees]))


def _fits_on(model: EGMM, focal_sets: FocalSets, n_features: int, covariance: str) -> bool:
    """Whether the last fit is of the requested model; 'neighbours' finds its sets again."""
    if not hasattr(model, "means_") or model.means_.shape != (model.n_clusters, n_features):
        return False
    if (degrees_of(model) is not None) != (model.tails == "t"):
        return False
    return model.covariance_ == covariance and not _wants_neighbours(model) and focal_sets == model.focal_sets_


def _wants_neighbours(model: EGMM) -> bool:
    return isinstance(model.focal_sets, str) and model.focal_sets == "neighbours"


def _start_labels(model: EGMM, n_rows: int) -> IntArray:
    labels, least = check_finite_matrix("init (labels)", to_host(model.init), (n_rows,)), -1 if model.noise else 0
    is_known = np.isin(labels, np.arange(least, model.n_clusters))
    if not is_known.all():
        bad = labels[~is_known][0]
        raise ValueError(f"init labels must be whole numbers from {least} to {model.n_clusters - 1}, got {bad:g}.")
    return labels.astype(np.int64)


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
    params, is_tailed = _last_parameters(model, covariance, units), degrees_of(model) is not None
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
    if away[column] < FAR:
        return (
            "X leaves a covariance that is not positive definite; use larger batches, a larger reg_covar, "
            "prior='default' or fewer clusters."
        )
    return (
        f"X lies {away[column]:.3g} deviations from the nearest cluster in column {column}, too far for one model of "
        "all rows; fit the two apart."
    )


def set_labels(model: EGMM, rows: Any, knowledge: Knowledge | None = None) -> None:
    """Set labels of rows in memory; those of an earlier fit are not these rows'. Fitted arrays follow the rows."""
    for name in ("labels_", "label_conflict_"):
        model.__dict__.pop(name, None)
    if isinstance(rows, DeviceRows):
        model.labels_ = assign_rows(model, rows, assign.labels, "cluster")
        follow(model, rows.where)
    if not isinstance(rows, ArrayRows):
        return
    if knowledge is None:
        model.labels_ = assign_rows(model, rows, assign.labels, "cluster")
        return
    model.labels_ = known_partition(model, rows, knowledge).labels()
    if knowledge.labels is not None:
        mass = assign_rows(model, rows, assign.masses, list(model.focal_sets_.labels))
        model.label_conflict_ = knowledge.conflict(mass, model.focal_sets_)


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
    focal_means, focal_covariances = focal_parameters(
        params, layout.shares, units, is_shared=layout.is_shared, noise=layout.noise
    )
    covariances = units.covariances_out(params.covariances[0], diagonal=layout.diagonal)
    model.weights_ = params.weights[0]
    model.means_ = params.means[0] * units.scale + units.centre
    model.focal_means_ = focal_means
    model.stored_covariances_ = covariances[0] if layout.is_shared else covariances
    model.stored_focal_covariances_ = focal_covariances
    model.__dict__.pop("noise_box_", None)
    if layout.noise is not None:
        model.noise_box_ = np.array(layout.noise)
    model.__dict__.pop("degrees_of_freedom_", None)
    if params.degrees is not None:
        model.degrees_of_freedom_ = float(params.degrees[0])
    model.covariance_ = str(problem.settings.model[0])
    n_rows, n_features = float(problem.settings.weight[0]), len(units.centre)
    args = (layout.shares, model.covariance_, layout.certainty, n_rows, layout.n_factors)
    model.n_parameters_ = n_free_parameters(model.weights_, n_features, *args, tails=layout.tails)


def set_log_likelihood(model: EGMM, log_likelihood: float, weight: float) -> None:
    """Set an estimator's log-likelihood and EBIC."""
    model.log_likelihood_ = log_likelihood
    model.ebic_ = ebic_of(log_likelihood, model.n_parameters_, weight)
