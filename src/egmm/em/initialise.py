"""Starts of a batch's ascents: from labels, means, a fit before, or classical mixtures of a sample."""

from functools import partial
from typing import Any

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em.batch import UNREPORTED, Batch, Part, Starts, are_degenerate, best_of
from egmm.em.completion import DataMoments
from egmm.em.evidence import Evidence, gather, matched_seeds, seeds
from egmm.em.failure import why_not
from egmm.em.layout import Layout
from egmm.em.noise import likely_clean, with_noise
from egmm.em.parameters import Parameters, concatenated, is_empty, take
from egmm.em.sample import Sample
from egmm.em.start import Groups, focal_weights, group_sums, start_parameters, sums_by_means, sums_by_seeds
from egmm.em.statistics import Statistics
from egmm.em.summary import check_distinct
from egmm.em.tails import FIRST_DEGREES

CLASSICAL_TOL = 1e-4
"""Tolerance of a classical mixture used as a start."""

TRIAL_ROWS, TRIAL_TOL = 5_000, 1e-3
"""Rows of a large sample that the classical mixture is fitted to, and the tolerance there."""

MOST_SEEDS = 20_000
"""Labelled rows that a start looks at."""


def initialise(batch: Batch) -> Starts:
    """Starts of ascents; with noise, also starts from the rows that are close to others."""
    if isinstance(batch.first.init, Parameters):
        return _from_parameters(batch, batch.first.init)
    if batch.layout.noise is None:
        starts = _starts_on(batch, batch.summary.sample)
        degrees = np.full(len(starts.owner), FIRST_DEGREES) if batch.layout.tails else None
        return starts._replace(params=starts.params._replace(degrees=degrees))
    samples = [batch.summary.sample]
    if samples[0] is not None:
        samples.append(likely_clean(batch.summary.completed(samples[0]), batch.summary.units))
    found, failure = [], ValueError()
    for sample in samples:
        try:
            found.append(_starts_on(batch, sample))
        except ValueError as error:
            failure = error
    if not found:
        raise failure
    starts, shares = concatenated(found), batch.layout.shares
    weights = starts.params.weights
    if not (isinstance(batch.first.init, str) and batch.first.init == "mixture"):
        # Means that noise has drawn away are brought back before meta-clusters can do a cluster's work.
        weights = focal_weights(np.ones((len(weights), shares.shape[1])), shares)
    weights = with_noise(weights, is_empty(shares))
    return starts._replace(params=starts.params._replace(weights=weights))


def _starts_on(batch: Batch, sample: Sample | None) -> Starts:
    """Named starts on a sample, or a given start."""
    first, n_clusters = batch.first, batch.layout.shares.shape[1]
    assert not isinstance(first.init, Parameters)
    if isinstance(first.init, str) and batch.evidence is not None and batch.evidence.has_labels:
        return _from_evidence(batch, batch.evidence)
    if isinstance(first.init, str):
        assert sample is not None
        check_distinct(sample, n_clusters)
        if first.init == "mixture":
            return _classical(batch, sample)
        labellings = batch.summary.labellings(n_clusters, first.init, first.n_init, sample)
        return _from_labels(batch, batch.part(sample), [one[0] for one in labellings], batch.layout)
    kind, units = batch.layout.start_kind, batch.summary.units
    options: dict[str, Any] = {"units": units, "kind": kind, "completion": batch.summary.completion}
    given = None
    if first.init.ndim == 1:
        labels = first.init if batch.order is None else first.init[batch.order]
        statistics = batch.rows.reduce(partial(group_sums, n_clusters=n_clusters, **options), labels)
    else:
        means = np.asarray(first.init, dtype=np.float64)
        given = (means - units.centre) / units.scale
        statistics = batch.rows.reduce(partial(sums_by_means, means=means, **options))
    return _from_groups(batch, [statistics], given, batch.total, batch.layout)


def _from_evidence(batch: Batch, evidence: Evidence) -> Starts:
    """Starts from the means of labelled rows, and from unlabelled ones whose clusters are matched to the labels."""
    units, completion, sample = batch.summary.units, batch.summary.completion, batch.summary.sample
    kind, n_clusters = batch.layout.start_kind, batch.layout.shares.shape[1]
    places = np.flatnonzero(evidence.crisp >= 0)[:MOST_SEEDS]
    labelled, labels = gather(batch.rows, places, len(evidence.crisp))[0], evidence.crisp[places]
    assert sample is not None
    assert isinstance(batch.first.init, str)
    others = units.rows(batch.summary.completed(sample).rows)
    rows = units.rows(labelled if completion is None else completion(labelled))
    found = [seeds(rows, labels, others, n_clusters)]
    for labellings in batch.summary.labellings(n_clusters, batch.first.init, batch.first.n_init, sample):
        found.extend(matched_seeds(rows, labels, others, one, n_clusters) for one in labellings)
    groups = [partial(sums_by_seeds, units=units, seeds=one, kind=kind, completion=completion) for one in found]
    sums = [batch.rows.reduce(group, evidence.crisp) for group in groups]
    return _from_groups(batch, sums, None, batch.total, batch.layout)


def _from_parameters(batch: Batch, params: Parameters) -> Starts:
    owner = np.arange(len(batch.specifications))
    repeated = take(params, np.zeros(len(owner), dtype=np.int64))
    return Starts(repeated, batch.ridges(repeated.variances.mean(axis=1)), owner)


def _from_labels(batch: Batch, part: Part, labels: list[IntArray], layout: Layout) -> Starts:
    args = (batch.summary.units, layout.shares.shape[1], layout.start_kind)
    rows, weights = batch.summary.completed(part.sample)
    sums = [group_sums(rows, weights, one, *args) for one in labels]
    return _from_groups(batch, sums, None, part.total, layout)


def _from_groups(
    batch: Batch, sums: list[Statistics], given: FloatArray | None, total: DataMoments, layout: Layout
) -> Starts:
    """Starts of every model from every grouping."""
    n_models = len(batch.specifications)
    statistics = concatenated(sums * n_models)
    owner = np.repeat(np.arange(n_models), len(sums))
    groups = Groups.of(statistics, given, diagonal=layout.start_kind == "diagonal")
    batch.group_counts |= dict(zip(owner.tolist(), groups.moments.counts, strict=True))
    ridge = batch.ridges(groups.variances)
    settings = batch.settings(total, ridge, owner)
    return Starts(start_parameters(groups, settings, layout), ridge, owner)


def _classical(batch: Batch, sample: Sample) -> Starts:
    """Mixtures of single clusters, fitted to the sample; the other focal sets join the best with little weight."""
    n_clusters = batch.layout.shares.shape[1]
    options: dict[str, Any] = {"pools": batch.summary.has_missing, "n_factors": batch.first.n_factors}
    layout = Layout.of(batch.first.covariance, np.eye(n_clusters), batch.layout.scale, **options)
    found: dict[tuple[int, int], Parameters] = {}
    part = sample.part(TRIAL_ROWS)
    stages = [(part, TRIAL_TOL, True), (sample, CLASSICAL_TOL, False)]
    for rows, tol, is_trial in stages if len(part.rows) < len(sample.rows) else stages[1:]:
        # Fewer rows will do, if they are enough for every cluster: the ascent with all focal sets is yet to come.
        wanted = [key for key in _classical_keys(batch) if key not in found]
        if not wanted:
            break
        try:
            labellings = batch.summary.labellings(n_clusters, "mixture", batch.first.n_init, rows)
        except ValueError:
            if is_trial:
                continue
            raise
        found |= _fit_classical(batch, batch.part(rows), labellings, layout, tol, wanted, keep_all=not is_trial)
    if not found:
        raise ValueError(next(iter(batch.failures.values())))
    keys = sorted(found)
    params = concatenated([found[key] for key in keys])
    params = params._replace(weights=focal_weights(params.weights, batch.layout.shares))
    owner = np.array([number for number, _ in keys])
    return Starts(params, batch.ridges(params.variances.mean(axis=1)), owner)


def _classical_keys(batch: Batch) -> list[tuple[int, int]]:
    """Number of the specification and of its start."""
    return [(number, start) for number in range(len(batch.specifications)) for start in range(batch.first.n_init)]


def _fit_classical(
    batch: Batch,
    part: Part,
    labellings: list[list[IntArray]],
    layout: Layout,
    tol: float,
    wanted: list[tuple[int, int]],
    *,
    keep_all: bool,
) -> dict[tuple[int, int], Parameters]:
    """The best mixture of each requested start; degenerate ones only if allowed."""
    starts = _from_labels(batch, part, [one for labels in labellings for one in labels], layout)
    numbers = np.repeat(np.arange(len(labellings)), [len(labels) for labels in labellings])
    start_of = np.tile(numbers, len(batch.specifications))
    is_wanted = np.array([(owner, start) in wanted for owner, start in zip(starts.owner, start_of, strict=True)])
    starts, start_of = take(starts, is_wanted), start_of[is_wanted]
    problem = batch.problem(part.rows, part.total, starts.ridge, starts.owner, layout)
    ascent = batch.ascent(problem, starts, part.total, least_tol=tol, gives_up=True)
    batch.run(ascent, UNREPORTED, starts.owner)
    is_degenerate = are_degenerate(ascent)
    found: dict[tuple[int, int], Parameters] = {}
    for number, start in wanted:
        of_start = np.flatnonzero((starts.owner == number) & (start_of == start))
        at = best_of(ascent, of_start, is_degenerate)
        if at is None:
            covariance, group_counts = batch.specifications[number].covariance, batch.group_counts.get(number)
            batch.failures[number] = why_not(ascent, int(of_start[0]), covariance, group_counts)
        elif keep_all or batch.is_interrupted or not is_degenerate[at]:
            found[number, start] = take(ascent.state.evaluation.params, np.array([at]))
    return found
