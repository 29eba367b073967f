"""Conversion of an estimator's parameters to a fit of its model, and of the fit to attributes."""

from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm._arrays import follow, to_host
from egmm._checks import (
    HEAVIEST,
    IntArray,
    check_choice,
    check_finite_matrix,
    check_integer,
    check_prototypes,
    check_random,
    check_real,
    check_spread,
    check_starts,
)
from egmm._progress import Progress
from egmm.belief.focal import MAX_CLUSTERS, FocalSets
from egmm.em import assign
from egmm.em.ascent import RUNNING, Ascent
from egmm.em.batch import ON_ALL_ROWS
from egmm.em.checkpoint import Checkpoint
from egmm.em.covariance import LOW_RANK, is_diagonal, resolve_covariance
from egmm.em.criteria import ebic_of, n_free_parameters
from egmm.em.engine import EXPECTED_PASSES, choose_engine, seconds_in_numpy
from egmm.em.factors import most_factors
from egmm.em.fit import fit
from egmm.em.noise import check_box
from egmm.em.parameters import Parameters, focal_parameters
from egmm.em.prior import make_prior
from egmm.em.problem import Problem
from egmm.em.specification import FitResult, Specification
from egmm.em.statistics import Units
from egmm.em.summary import DataSummary, summarise
from egmm.em.tails import TAILS, check_tails
from egmm.knowledge import Knowledge
from egmm.mixture_rows import assign_rows, known_partition, naming_entries
from egmm.mixture_state import MixtureState, degrees_of, model_parameters
from egmm.rows import RowSource
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.threads import resolve_jobs

STARTS = ("kmeans", "random", "mixture")
ENGINES = ("auto", "numpy", "numba")


class ModelFit(NamedTuple):
    """A fit of an estimator's model, with its focal sets."""

    focal_sets: FocalSets
    result: FitResult


def check_parameters(model: MixtureState) -> None:
    """Validate parameters that do not depend on the rows."""
    check_integer("n_clusters", model.n_clusters, 1)
    check_integer("n_clusters", model.n_clusters, 1, MAX_CLUSTERS)
    check_starts(model.n_init)
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


def summary_of(model: MixtureState, rows: RowSource) -> DataSummary:
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
    model: MixtureState,
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


def family(model: MixtureState) -> FocalSets:
    """The focal sets that an estimator asks for by name or as a list; all clusters must be in them."""
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
    model: MixtureState,
    summary: DataSummary,
    focal_sets: FocalSets,
    *,
    least_starts: int = 1,
    gives_up: bool = False,
    engine: str | None = None,
    knowledge: tuple[Knowledge | None, RowSource | None] = (None, None),
) -> Specification:
    """What an estimator's parameters say of a fit to these rows, about which more may be known."""
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


def resolve_factors(model: MixtureState, covariance: str, shape: tuple[int, int]) -> int:
    """Number of factors that an estimator asks for, the most to try where EBIC chooses, or 0 of other models."""
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
    model: MixtureState,
    rows: RowSource,
    summary: DataSummary,
    specification: Specification,
    *,
    keeps_checkpoint: bool = True,
) -> FitResult:
    checkpoint = _checkpoint(model, summary, specification) if keeps_checkpoint else None
    with Progress(ON_ALL_ROWS, model.max_iter, enabled=bool(model.verbose)) as progress:
        report = partial(_report, progress) if model.verbose else None
        return fit(rows, summary, specification, report=report, checkpoint=checkpoint)


def _report(progress: Progress, ascent: Ascent, title: str) -> None:
    best = float(np.nanmax(ascent.state.evaluation.log_likelihood)) / float(ascent.problem.settings.weight[0])
    n_starts = len(ascent.status)
    starts = f"{int((ascent.status == RUNNING).sum())} of {n_starts} starts under way, " if n_starts > 1 else ""
    progress.update(ascent.n_steps, f"{starts}mean log-likelihood {best:.6f}", title=title)


def _checkpoint(model: MixtureState, summary: DataSummary, specification: Specification) -> Checkpoint | None:
    if model.checkpoint is None:
        return None
    one = specification
    prior, init = one.prior or (), one.init if isinstance(one.init, Parameters) else (one.init,)
    seed = None if isinstance(model.random_state, np.random.RandomState) else model.random_state
    settings: tuple[Any, ...] = (
        one.covariance,
        one.shares,
        one.n_init,
        one.tol,
        one.reg_covar,
        one.accelerate,
        one.engine,
        seed,
    )
    rows = (*summary.total, *summary.moments.complete)
    known = () if one.evidence is None else (*one.evidence[:3], *(one.evidence.links or ()))
    settings = (*settings, one.tails, one.n_factors, *init, one.certainty, *prior, *known)
    return Checkpoint(Path(model.checkpoint), [*rows, *settings])


def _start(model: MixtureState, summary: DataSummary, focal_sets: FocalSets, covariance: str) -> Any:
    """Start of a fit: a name, labels, means or the last fit's parameters."""
    (n_rows, n_features), units = summary.shape, summary.units
    if model.warm_start and _fits_on(model, focal_sets, n_features, covariance):
        return last_parameters(model, covariance, units)
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


def last_parameters(model: MixtureState, covariance: str, units: Units) -> Parameters:
    """Parameters of the last fit, as a batch of one."""
    weights, means, covariances = map(to_host, (model.weights_, model.means_, model.stored_covariances_))
    params, _ = assign.in_units(weights, means, covariances, covariance, units)
    degrees = degrees_of(model)
    return params._replace(degrees=None if degrees is None else np.array([degrees]))


def _fits_on(model: MixtureState, focal_sets: FocalSets, n_features: int, covariance: str) -> bool:
    """Whether the last fit is of the requested model; 'neighbours' finds its sets again."""
    if not hasattr(model, "means_") or model.means_.shape != (model.n_clusters, n_features):
        return False
    if (degrees_of(model) is not None) != (model.tails == "t"):
        return False
    return model.covariance_ == covariance and not _wants_neighbours(model) and focal_sets == model.focal_sets_


def _wants_neighbours(model: MixtureState) -> bool:
    return isinstance(model.focal_sets, str) and model.focal_sets == "neighbours"


def _start_labels(model: MixtureState, n_rows: int) -> IntArray:
    labels, least = check_finite_matrix("init (labels)", to_host(model.init), (n_rows,)), -1 if model.noise else 0
    is_known = np.isin(labels, np.arange(least, model.n_clusters))
    if not is_known.all():
        bad = labels[~is_known][0]
        raise ValueError(f"init labels must be whole numbers from {least} to {model.n_clusters - 1}, got {bad:g}.")
    return labels.astype(np.int64)


# Fitted attributes --------------------------------------------------------------------------------------------------


def set_labels(model: MixtureState, rows: Any, knowledge: Knowledge | None = None) -> None:
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


def adopt(model: MixtureState, found: ModelFit) -> None:
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


def set_parameters(model: MixtureState, params: Parameters, problem: Problem) -> None:
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


def set_log_likelihood(model: MixtureState, log_likelihood: float, weight: float) -> None:
    """Set an estimator's log-likelihood and EBIC."""
    model.log_likelihood_ = log_likelihood
    model.ebic_ = ebic_of(log_likelihood, model.n_parameters_, weight)
