"""Whole fits: starts, ascents from them, and the best that did not degenerate, for one model or many.

    rows -> summarise -> DataSummary -+-> Batch -> initialise -> sample -> all rows -> FitResult
    models -> Specification ----------+

Models of as many clusters and of one form are fitted together, as a batch.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from egmm._checks import IntArray
from egmm.em.ascent import CONVERGED, LOST, Ascent
from egmm.em.batch import ON_ALL_ROWS, ON_SAMPLE, Batch, Report, Starts, are_degenerate, best_of_each
from egmm.em.checkpoint import Checkpoint
from egmm.em.criteria import ebic_of
from egmm.em.failure import why_not
from egmm.em.initialise import initialise
from egmm.em.mstep import are_determined, overlap_matrices, warn_no_mass
from egmm.em.parameters import Parameters, put, take
from egmm.em.specification import Failure, FitResult, Specification
from egmm.em.summary import DataSummary
from egmm.rows.source import RowSource

MANY_TIMES, SAMPLE_TOL = 4, 1e-4
"""Times the sample's weight that rows must have for the sample to be fitted first, and the tolerance there: its maximum
is further than that from the one of all rows."""

FALLS = 2
"""Numbers of factors in a row without a higher EBIC after which no more are tried."""


def fit(
    rows: RowSource,
    summary: DataSummary,
    specification: Specification,
    *,
    report: Report | None = None,
    checkpoint: Checkpoint | None = None,
) -> FitResult:
    """Fit one model.

    Raises
    ------
    ValueError
        Where there is no start, or no ascent from one that can be finished.
    """
    result = fit_all(rows, summary, [specification], report=report, checkpoint=checkpoint)[0]
    if isinstance(result, Failure):
        raise ValueError(result.message)
    return result


def fit_all(
    rows: RowSource,
    summary: DataSummary,
    specifications: Sequence[Specification],
    *,
    report: Report | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[FitResult | Failure]:
    """Fit models of one form together; they differ in covariance model and prior alone."""
    if specifications[0].chooses_factors:
        return [_with_best_factors(rows, summary, one, report) for one in specifications]
    return _fit_batch(Batch(rows, summary, specifications, report, checkpoint))


def _with_best_factors(
    rows: RowSource, summary: DataSummary, specification: Specification, report: Report | None
) -> FitResult | Failure:
    """The fit whose number of factors has the highest EBIC.

    Each number begins at its own start and where fewer factors have ended: these may have led groups astray.
    """
    best: FitResult | None = None
    best_ebic, n_lower, inits = -np.inf, 0, [specification.init]
    for n_factors in range(1, specification.n_factors + 1):
        one = replace(specification, n_factors=n_factors, chooses_factors=False)
        result = _likeliest(rows, summary, [replace(one, init=init) for init in inits], report)
        if isinstance(result, Failure):
            return best or result
        ebic = ebic_of(result.log_likelihood, result.n_parameters, result.weight)
        n_lower = 0 if ebic > best_ebic else n_lower + 1
        if n_lower == 0:
            best, best_ebic = result, ebic
        if n_lower == FALLS or result.is_interrupted:
            break
        params = result.evaluation.params
        nothing = np.zeros_like(params.covariances[..., :1])
        longer = params._replace(covariances=np.concatenate([params.covariances, nothing], axis=-1))
        inits = [longer] if isinstance(specification.init, Parameters) else [longer, specification.init]
    assert best is not None
    return best


def _likeliest(
    rows: RowSource, summary: DataSummary, specifications: list[Specification], report: Report | None
) -> FitResult | Failure:
    """The fit with the highest likelihood, fitted in turn; a degenerate fit only if there is no other."""
    best: FitResult | Failure = Failure("")
    for one in specifications:
        result = fit_all(rows, summary, [one], report=report)[0]
        if isinstance(result, Failure):
            best = best if isinstance(best, FitResult) else result
            continue
        if isinstance(best, Failure) or _is_better(result, best):
            best = result
        if result.is_interrupted:
            return replace(best, is_interrupted=True)
    return best


def _is_better(one: FitResult, other: FitResult) -> bool:
    """Whether a fit is better: sound if the other is not, else with a higher likelihood."""
    return (not one.is_degenerate, one.log_likelihood) > (not other.is_degenerate, other.log_likelihood)


def _fit_batch(batch: Batch) -> list[FitResult | Failure]:
    """Ascend from every start; keep the best of each model, a degenerate one only if there is no other."""
    resumed = None if batch.checkpoint is None else batch.checkpoint.read()
    try:
        if resumed is not None:
            ascent, owner = _resumed(batch, resumed)
        else:
            ascent, owner = _begin(batch)
    except ValueError as error:
        return [Failure(str(error))] * len(batch.specifications)
    batch.run(ascent, ON_ALL_ROWS, owner)
    if batch.checkpoint is not None and not batch.is_interrupted:
        batch.checkpoint.remove()
    is_degenerate = are_degenerate(ascent)
    best = best_of_each(ascent, owner, is_degenerate)
    found: list[FitResult | Failure] = []
    for number, specification in enumerate(batch.specifications):
        if number in best:
            at = best[number]
            found.append(_result(batch, specification, ascent, at, is_degenerate=bool(is_degenerate[at])))
        else:
            found.append(Failure(_why(batch, number, ascent, owner)))
    return found


def _begin(batch: Batch) -> tuple[Ascent, IntArray]:
    """The ascents on all rows, before their first step."""
    starts = initialise(batch)
    on_sample = _on_sample(batch, starts)
    if on_sample is not None:
        ascent, owner = on_sample
        problem = batch.problem(batch.rows, batch.total, ascent.problem.settings.ridge, owner)
        return ascent.on_more_rows(problem, batch.tol(batch.total, owner)), owner
    problem = batch.problem(batch.rows, batch.total, starts.ridge, starts.owner)
    return batch.ascent(problem, starts, batch.total), starts.owner


def _on_sample(batch: Batch, starts: Starts) -> tuple[Ascent, IntArray] | None:
    """The best ascents on the sample; None if there are too few rows for sampling."""
    sample, total = batch.summary.sample, batch.total
    if not batch.first.is_named or not batch.first.accelerate or sample is None or batch.evidence is not None:
        return None
    if total.whole.weight <= MANY_TIMES * sample.weights.sum():
        return None
    part = batch.part(sample)
    problem = batch.problem(part.rows, part.total, starts.ridge, starts.owner)
    ascent = batch.ascent(problem, starts, part.total, least_tol=SAMPLE_TOL)
    batch.run(ascent, ON_SAMPLE, starts.owner)
    is_degenerate = are_degenerate(ascent)
    best = best_of_each(ascent, starts.owner, is_degenerate)
    kept = {number: at for number, at in best.items() if not is_degenerate[at] or batch.is_interrupted}
    if len(kept) < len(batch.specifications):
        # Fits that fail on the sample may succeed on all rows: they begin at their starts.
        return None if not kept else _mixed(ascent, starts, kept)
    at = np.array([kept[number] for number in sorted(kept)])
    return _taken(ascent, at), np.array(sorted(kept))


def _mixed(ascent: Ascent, starts: Starts, kept: dict[int, int]) -> tuple[Ascent, IntArray]:
    """Ascents that continue from the sample, or from their starts if the sample failed."""
    places = [at for at in range(len(starts.owner)) if kept.get(int(starts.owner[at]), at) == at]
    taken, owner = _taken(ascent, np.array(places)), starts.owner[places]
    for slot, at in enumerate(places):
        if int(owner[slot]) not in kept:
            begun = take(starts.params, np.array([at]))
            put(taken.state.evaluation.params, np.array([slot]), begun)
            taken.state.memory.n_kept[slot] = 0
    return taken, owner


def _resumed(batch: Batch, arrays: dict[str, Any]) -> tuple[Ascent, IntArray]:
    owner, ridge = arrays.pop("owner"), arrays.pop("ridge")
    problem = batch.problem(batch.rows, batch.total, ridge, owner)
    assert batch.checkpoint is not None
    tol = batch.tol(batch.total, owner)
    options = {"accelerate": batch.first.accelerate, "gives_up": batch.first.gives_up}
    return batch.checkpoint.unpack(arrays, problem, tol, **options), owner


def _result(batch: Batch, specification: Specification, ascent: Ascent, at: int, *, is_degenerate: bool) -> FitResult:
    is_converged = ascent.status[at] == CONVERGED and not batch.is_interrupted
    if not batch.layout.is_exact:
        counts = ascent.state.evaluation.statistics.set_counts[[at]]
        overlap = overlap_matrices(counts, batch.layout.shares)
        if not are_determined(overlap)[0]:
            warn_no_mass(overlap[0].diagonal(), overlap[0])
    return FitResult(
        specification,
        ascent.problem.take(np.array([at])),
        take(ascent.state.evaluation, np.array([at])),
        ascent.log_likelihoods(at),
        bool(is_converged),
        is_degenerate,
        bool(ascent.status[at] == LOST),
        batch.is_interrupted,
    )


def _why(batch: Batch, number: int, ascent: Ascent, owner: IntArray) -> str:
    """Reason why a specification has no fit."""
    of_model = np.flatnonzero(owner == number)
    if not len(of_model):
        return batch.failures[number]
    covariance = batch.specifications[number].covariance
    return why_not(ascent, int(of_model[-1]), covariance, batch.group_counts.get(number))


def _taken(ascent: Ascent, at: IntArray) -> Ascent:
    """Some of the ascents."""
    return Ascent(
        ascent.problem.take(at),
        ascent.tol[at],
        ascent.accelerate,
        take(ascent.state, at),
        ascent.first_covariances[at],
        ascent.gives_up,
        ascent.status[at],
        [step[at] for step in ascent.history],
        ascent.n_steps,
    )
