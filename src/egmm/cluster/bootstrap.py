"""First steps of bootGMM: a mixture chosen by BIC, and its refits to bootstrap replicates."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm._progress import Progress
from egmm.candidate import Candidate
from egmm.cluster.prototypes import starting_means
from egmm.em.criteria import first_best
from egmm.em.replicates import Mixtures, Start, refit
from egmm.em.sample import draw_sample
from egmm.em.statistics import Moments, moments
from egmm.mixture import EGMM
from egmm.rows.array import ArrayRows
from egmm.rows.threads import Threads, one_blas_thread, resolve_jobs
from egmm.search import fit_mixtures

REFIT_TOL = 0.3
"""Tolerance on a replicate's log-likelihood: an ascent ends where steps gain about 0.01, a seventh of a standard error
from its maximum, whatever the number of rows."""

REFIT_STEPS = 200

BATCH = 125
"""Maximum number of replicates refitted together."""

BATCH_ENTRIES = 2**21
"""Maximum number of posterior probabilities per batch."""


COLLAPSED = 1e-3
"""Variance along a direction, relative to the mixture's: below it, a replicate's cluster has too few distinct rows."""


def draw_starts(
    X: FloatArray, n_clusters: Sequence[int], init: str, n_init: int, random: np.random.RandomState
) -> list[FloatArray]:
    """Initial means, `n_init` per number of clusters, for the numbers that the rows allow."""
    with ArrayRows(X) as rows:
        sample = draw_sample(rows, int(random.randint(2**31)))
    n_distinct, starts = len(sample.rows), []
    failure = f"n_clusters={min(n_clusters)} but X has only {n_distinct} distinct rows; use fewer clusters."
    for count in (count for count in n_clusters if count <= n_distinct):
        try:
            starts += [starting_means(sample, count, init, random) for _ in range(n_init)]
        except ValueError as error:
            failure = str(error)
    if not starts:
        raise ValueError(failure)
    return starts


def choose_mixture(
    X: FloatArray,
    base: EGMM,
    starts: Sequence[FloatArray],
    covariances: Sequence[str],
    *,
    n_jobs: int | None,
    verbose: bool,
) -> tuple[EGMM, list[Candidate]]:
    """Fit every covariance model from every start; return the one of least BIC that is not degenerate, and all."""
    models = [
        clone(base).set_params(n_clusters=len(means), covariance=covariance, init=means)
        for covariance in covariances
        for means in starts
    ]
    with Progress("BootGMM: mixtures", len(models), enabled=verbose) as progress:
        candidates, _ = fit_mixtures(models, X, None, resolve_jobs(n_jobs), progress)
    fitted = [candidate for candidate in candidates if candidate.is_fitted]
    if not fitted:
        raise ValueError(f"No mixture could be fitted: {candidates[0].failure}")
    best = first_best([-one.value("bic") for one in fitted], [one.is_sound for one in fitted])
    return fitted[best].model, candidates


class Bootstrap(NamedTuple):
    """Refits of a mixture to bootstrap replicates."""

    mixtures: Mixtures
    """The successful refits; means are relative to the centre."""
    n_failed: int


def bootstrap(
    X: FloatArray,
    model: EGMM,
    covariance: str,
    centre: FloatArray,
    seed: int,
    n_replicates: int,
    *,
    n_jobs: int | None,
    verbose: bool,
) -> Bootstrap:
    """Refit a mixture to `n_replicates` bootstrap samples, starting at its parameters."""
    start = Start(model.weights_, model.means_, model.stored_covariances_, covariance, model.reg_covar)
    total = moments(X, None)._replace(centre=centre)
    refit_batch = partial(_refit_batch, X=X, total=total, start=start)
    size = int(np.clip(BATCH_ENTRIES // (len(X) * len(start.means)), 1, BATCH))
    batches, parts, is_sound = _batches(seed, n_replicates, size), [], []
    progress = Progress("BootGMM: replicates", n_replicates, enabled=verbose)
    with progress, Threads(n_jobs) as threads, one_blas_thread():
        for mixtures, is_fitted in threads.map(refit_batch, batches):
            parts.append(mixtures)
            is_sound.append(is_fitted)
            progress.update(sum(map(len, is_sound)))
    return _sound(Mixtures.concatenate(parts), np.concatenate(is_sound), model.covariances_)


def _batches(seed: int, n_replicates: int, size: int) -> Iterator[tuple[list[np.random.SeedSequence]]]:
    seeds = np.random.SeedSequence(seed).spawn(n_replicates)
    return ((seeds[first : first + size],) for first in range(0, n_replicates, size))


def _refit_batch(
    seeds: list[np.random.SeedSequence], X: FloatArray, total: Moments, start: Start
) -> tuple[Mixtures, BoolArray]:
    draws = [np.random.default_rng(seed).integers(len(X), size=len(X)) for seed in seeds]
    counts = np.array([np.bincount(draw, minlength=len(X)) for draw in draws], dtype=float)
    return refit(X, counts, total, start, REFIT_TOL, REFIT_STEPS)


def _sound(mixtures: Mixtures, is_fitted: BoolArray, covariances: FloatArray) -> Bootstrap:
    """Drop replicates with a collapsed covariance; raise if none is left."""
    if not is_fitted.any():
        raise ValueError(
            "No bootstrap replicate could be fitted: clusters become empty or singular; use fewer clusters, "
            "a simpler covariance model or a larger reg_covar."
        )
    roots = np.linalg.inv(np.linalg.cholesky(covariances))
    relative = (
        roots @ np.where(is_fitted[:, None, None, None], mixtures.covariances, covariances) @ np.swapaxes(roots, -1, -2)
    )
    is_sound = is_fitted & (np.linalg.eigvalsh(relative)[..., 0].min(axis=1) > COLLAPSED)
    kept = is_sound if is_sound.any() else is_fitted
    return Bootstrap(mixtures.take(kept), int((~kept).sum()))


def choose_references(labels: IntArray, n_references: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Reference rows, stratified by cluster; all rows if there are few enough.

    Examples
    --------
    >>> labels = np.repeat([0, 1, 2], [60, 30, 10])
    >>> np.bincount(labels[choose_references(labels, 10, np.random.RandomState(0))])
    array([6, 3, 1])
    """
    n_rows = len(labels)
    if n_rows <= n_references:
        return np.arange(n_rows)
    shuffled = random.permutation(n_rows)
    by_cluster = shuffled[np.argsort(labels[shuffled], kind="stable")]
    places = (np.arange(n_references) + random.uniform()) * (n_rows / n_references)
    return np.sort(by_cluster[places.astype(int)])
