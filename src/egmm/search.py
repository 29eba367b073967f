"""Mixtures of a grid, those of one form fitted together, and how far their partitions agree."""

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from egmm._checks import check_random, check_spread
from egmm._progress import Progress
from egmm.belief.focal import FocalSets
from egmm.candidate import Candidate, MixtureMaker, Outcome, mixture_criteria
from egmm.em.covariance import LOW_RANK, is_diagonal, resolve_covariance, warn_of_many_features
from egmm.em.criteria import CRITERIA
from egmm.em.engine import EXPECTED_PASSES, choose_engine, seconds_in_numpy
from egmm.em.fit import fit_all
from egmm.em.noise import check_box
from egmm.em.sample import Sample
from egmm.em.specification import Failure, Specification
from egmm.em.summary import DataSummary, summarise
from egmm.metrics.external import rand_matrix
from egmm.mixture import EGMM
from egmm.mixture_fit import ModelFit, check_parameters, family, fit_model, specify
from egmm.mixture_rows import check_for_device, naming_entries, open_rows
from egmm.rows import ReadError, is_remote
from egmm.rows.threads import Threads, one_blas_thread

NEXT_WEIGHT = 0.85
"""Weight of a candidate's partition in the comparison, relative to the next better candidate."""

WORTH_THREADS = 2.0
"""Seconds of passes in NumPy from which on fits run in several threads."""

COMPARED_ROWS = 2_000
"""Most rows of a sample on which partitions are compared."""


def search(
    base: EGMM,
    grid: list[tuple[str, int]],
    X: Any,
    sample_weight: Any,
    n_cores: int,
    progress: Progress,
    criterion: str,
) -> list[Candidate]:
    """Fit the mixtures of a grid of covariances and numbers of clusters, and compare their partitions."""
    models = [_candidate_of(base, name, count) for name, count in grid]
    candidates, sample = fit_mixtures(models, X, sample_weight, n_cores, progress)
    return _compared(candidates, sample, criterion) if len({name for name, _ in grid}) > 1 else candidates


def fit_mixtures(
    models: list[EGMM], X: Any, sample_weight: Any, n_cores: int, progress: Progress
) -> tuple[list[Candidate], Sample]:
    """Fit mixtures, those of one form and start together; returns them with the sample that starts are found on.

    The models differ in number of clusters, covariance and start.
    """
    first = models[0]
    check_parameters(first)
    for model in models:
        check_for_device(model, X)
    with open_rows(clone(first), X, sample_weight, reset=True) as rows, one_blas_thread(), unwarned():
        covariances = [resolve_covariance(model.covariance, rows.shape[1]) for model in models]
        warn_of_many_features(covariances, rows.shape[1])
        diagonal = all(map(is_diagonal, covariances))
        with naming_entries(first, rows):
            with_box = bool(first.noise)
            summary = summarise(rows, check_random(first.random_state), diagonal=diagonal, with_box=with_box)
        check_spread(summary.total.variances)
        if summary.box is not None:
            check_box(summary.box)
        candidates = _Search(models, rows, summary, (X, sample_weight), progress).run(1 if is_remote(X) else n_cores)
    assert summary.sample is not None
    return candidates, summary.sample


class _Search:
    """Fits under way."""

    def __init__(
        self, models: list[EGMM], rows: Any, summary: DataSummary, data: tuple[Any, Any], progress: Progress
    ) -> None:
        self.models, self.rows, self.summary, self.data, self.progress = models, rows, summary, data, progress
        self.seconds = EXPECTED_PASSES * sum(map(self._pass_seconds, models))
        self.engine = choose_engine(models[0].engine, self.seconds)
        self.done: dict[int, Candidate] = {}

    def run(self, n_workers: int) -> list[Candidate]:
        """Fit all candidates; degenerate fits are stopped early unless no fit is sound."""
        self._fit(range(len(self.models)), n_workers, gives_up=True)
        if not any(candidate.is_sound for candidate in self.done.values()):
            given_up = [at for at, candidate in self.done.items() if candidate.is_given_up]
            self._fit(given_up, n_workers, gives_up=False)
        return [self.done[at] for at in range(len(self.models))]

    def _pass_seconds(self, model: EGMM) -> float:
        covariance = resolve_covariance(model.covariance, self.summary.shape[1])
        return seconds_in_numpy(self.summary.shape, FocalSets.pairs(model.n_clusters).shares, covariance)

    def _fit(self, numbers: Iterable[int], n_workers: int, *, gives_up: bool) -> None:
        groups = self._groups(numbers, gives_up)
        # Small steps of NumPy in several threads would only wait for each other.
        with Threads(n_workers if self.seconds > WORTH_THREADS else 1) as threads:
            for found in threads.map(self._fit_group, [(group, gives_up, threads) for group in groups]):
                self.done |= found
                last = next(reversed(found.values()))
                self.progress.update(len(self.done), last.title)

    def _groups(self, numbers: Iterable[int], gives_up: bool) -> list[dict[int, Specification | None]]:
        """Groups of candidates to fit together, the most expensive first; 'neighbours' form groups of one."""
        groups: dict[tuple[Any, ...], dict[int, Specification | None]] = {}
        for at in numbers:
            model = self.models[at]
            try:
                _check_enough_rows(model, *self.summary.shape)
                is_plain = model.focal_sets != "neighbours" if isinstance(model.focal_sets, str) else True
                one: Specification | None = None
                key: tuple[Any, ...] = (at,)
                if is_plain and model.checkpoint is None:
                    one = specify(model, self.summary, family(model), gives_up=gives_up, engine=self.engine)
                    key = (one.form, model.init if isinstance(model.init, str) else id(model.init))
                groups.setdefault(key, {})[at] = one
            except ValueError as error:
                self.done[at] = Candidate(model.n_clusters, model.covariance, failure=str(error))
        return sorted(groups.values(), key=lambda group: -self.models[next(iter(group))].n_clusters)

    def _fit_group(
        self, group: dict[int, Specification | None], gives_up: bool, threads: Threads
    ) -> dict[int, Candidate]:
        began = time.perf_counter()
        found: dict[int, ModelFit | Failure] = {}
        specifications = [one for one in group.values() if one is not None]
        if specifications:
            # An interrupt reaches the main thread only.
            report = partial(_end_if_unwanted, threads) if threads.n_jobs > 1 else None
            results = fit_all(self.rows, self.summary, specifications, report=report)
            for at, result in zip(group, results, strict=True):
                if isinstance(result, Failure):
                    found[at] = result
                else:
                    found[at] = ModelFit(family(self.models[at]), result)
        for at in group if not specifications else ():
            try:
                found[at] = fit_model(self.models[at], self.rows, self.summary, gives_up=gives_up)
            except ReadError:
                raise  # It would meet every candidate.
            except ValueError as error:
                found[at] = Failure(str(error))
        if any(isinstance(one, ModelFit) and one.result.is_interrupted for one in found.values()):
            raise KeyboardInterrupt
        seconds = (time.perf_counter() - began) / len(group)
        return {at: self._candidate(at, one, seconds) for at, one in found.items()}

    def _candidate(self, at: int, found: ModelFit | Failure, seconds: float) -> Candidate:
        model = self.models[at]
        if isinstance(found, Failure):
            return Candidate(model.n_clusters, model.covariance, failure=found.message, seconds=seconds)
        make = MixtureMaker(model, found, self.data)
        return Candidate(
            model.n_clusters,
            model.covariance,
            make,
            mixture_criteria(found),
            seconds,
            outcome=Outcome.of_mixture(found),
        )


def _end_if_unwanted(threads: Threads, *_: object) -> None:
    if threads.is_closing:
        raise KeyboardInterrupt


def _candidate_of(base: EGMM, covariance: str, n_clusters: int) -> EGMM:
    """A candidate to be fitted; each keeps its own checkpoint."""
    candidate = clone(base).set_params(n_clusters=n_clusters, covariance=covariance)
    if base.checkpoint is not None:
        path = Path(base.checkpoint)
        candidate.checkpoint = path.with_name(f"{path.stem}-{n_clusters}-{covariance}{path.suffix}")
    return candidate


@contextmanager
def unwarned() -> Iterator[None]:
    """Silence ConvergenceWarning: the table reports it for each fit. Warning filters apply to all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _check_enough_rows(model: EGMM, n_rows: int, n_features: int) -> None:
    """Refuse covariances that are always singular: the automatic ridge would determine their likelihood."""
    is_regular = model.prior is not None or model.reg_covar != "auto"
    covariance = resolve_covariance(model.covariance, n_features)
    if n_rows <= n_features and not is_regular and covariance != LOW_RANK and not is_diagonal(covariance):
        raise ValueError(
            f"covariance={model.covariance!r} needs more rows than features, got {n_rows} and {n_features}; use a "
            "diagonal model such as 'VVI', 'low-rank', prior='default' or a number as reg_covar."
        )


def _compared(candidates: list[Candidate], sample: Sample, criterion: str) -> list[Candidate]:
    """Candidates with the agreement of their partitions of a sample."""
    sound = [at for at, candidate in enumerate(candidates) if candidate.is_sound]
    sound.sort(key=lambda at: candidates[at].value(criterion), reverse=CRITERIA[criterion])
    compared, drawn = list(candidates), sample.places(COMPARED_ROWS)
    with one_blas_thread():
        for count in {candidates[at].n_clusters for at in sound}:
            places = [at for at in sound if candidates[at].n_clusters == count]
            labels = np.array([candidates[at].labels(sample.rows[drawn]) for at in places])
            weights = NEXT_WEIGHT ** np.arange(len(places))
            agreements = rand_matrix(labels, sample.weights[drawn]) @ weights / weights.sum()
            for at, agreement in zip(places, agreements, strict=True):
                compared[at] = replace(candidates[at], agreement=float(agreement))
    return compared
