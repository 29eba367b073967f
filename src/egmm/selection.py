"""How many clusters, and which covariance model."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import has_fit_parameter

from egmm._checks import check_choice, check_integer, check_random, reading_numbers
from egmm._parallel import in_order
from egmm._progress import Progress
from egmm.belief.focal import FocalSets
from egmm.candidate import MARKS, Candidate, Deferred
from egmm.cluster import (
    BPEC,
    CCM,
    CECM,
    ECM,
    EVCLUS,
    FCM,
    MECM,
    NNEVCLUS,
    RECM,
    TECM,
    BootGMM,
    CatECM,
    ECMdd,
    MultiViewECM,
    MultiViewECMdd,
)
from egmm.em.covariance import chosen_models, is_diagonal, resolve_covariance
from egmm.em.fit import EXPECTED_PASSES, choose_engine
from egmm.em.start import Sample
from egmm.em.whole import can_fit_whole
from egmm.fitted import criteria_of, first_best
from egmm.metrics.external import rand_matrix
from egmm.mixture import EGMM, Seen, Tried
from egmm.plotting.selection import plot_criterion, plot_model_grid
from egmm.rows import ReadError, is_remote
from egmm.rows.threads import Threads, available_cores, one_blas_thread

CRITERIA = {"ebic": True, "bic": False, "icl": False, "aic": False}
"""Criteria of mixtures, and whether higher is better."""

COVARIANCE_BY = ("agreement", "criterion")
"""What chooses among the covariance models of the number of clusters that the criterion has chosen."""

CERTAINTY = 1.0
"""Prior weight on single clusters where covariance models are compared; decided on simulated and real data."""

NEXT_WEIGHT = 0.85
"""What a candidate's partition counts for where partitions are compared, as a share of the next better one's."""

AT_ODDS = 0.03
"""The chosen partition is at odds with the others where another one agrees with them by so much better."""

WITH_SINGLETONS = ("pairs", "full", "singletons", "simple")
"""Families of focal sets whose fits are compiled as a whole."""

MANY_FITS = 60
"""Fits of few rows that are worth compiling for, whether or not the code is in the cache: results must not depend on
that. NumPy takes some 60 ms for each, the compiled code 3, and its compilation a minute or two, once."""

COMPARED_ROWS = 2_000
"""Most rows of a sample on which partitions are compared."""


class Index(NamedTuple):
    """What a peer's number of clusters is chosen by."""

    name: str
    higher_is_better: bool
    read: Callable[[Any], float]
    least_clusters: int
    """Fewest clusters of which it says something."""


INDICES: dict[type, Index] = {
    FCM: Index("mpc", True, attrgetter("mpc_"), 2),
    ECM: Index("ans", False, attrgetter("ans_"), 2),
    BPEC: Index("delta_bel", True, attrgetter("decision_graph_.gap"), 2),
    BootGMM: Index("bic", False, attrgetter("bic_"), 1),
    **{
        kind: Index("ans", False, attrgetter("ans_"), 2)
        for kind in (CCM, CECM, EVCLUS, MECM, NNEVCLUS, RECM, TECM, CatECM, ECMdd, MultiViewECM, MultiViewECMdd)
    },
}
"""The peers' own indices."""


class Selection:
    """The outcome of `select_model`: every candidate, and the best.

    Attributes
    ----------
    candidates : tuple of Candidate
        All fits, failed ones too.
    criterion : str
        What candidates are compared by.
    higher_is_better : bool
        Its direction.
    by_agreement : bool
        Whether it chose the number of clusters alone, and agreement with the other models the covariance; of one model,
        and of peers, there is nothing to choose.
    is_top : bool
        Whether the model chosen is that of the best criterion.
    best : estimator
        The fitted model chosen.
    alternative : Candidate or None
        Where the model of the best criterion and the one whose partition agrees best with those of the other covariance
        models are at odds, the one of the two that is not chosen.
    """

    def __init__(
        self, candidates: Sequence[Candidate], criterion: str, higher_is_better: bool, *, by_agreement: bool = False
    ) -> None:
        self.candidates = tuple(candidates)
        self.criterion = criterion
        self.higher_is_better = higher_is_better
        self.by_agreement = by_agreement
        top = _choose(self.candidates, criterion, higher_is_better)
        agreeing = _most_agreeing(self.candidates, top, criterion, higher_is_better)
        self._chosen, other = (agreeing, top) if by_agreement else (top, agreeing)
        self.alternative = other if agreeing.agreement > top.agreement + AT_ODDS else None
        self.is_top = self._chosen is top

    @property
    def best(self) -> Any:
        """The fitted model chosen."""
        return self._chosen.model

    @property
    def n_clusters(self) -> int:
        """Its number of clusters."""
        return self._chosen.n_clusters

    @property
    def covariance(self) -> str:
        """Its covariance model."""
        return self._chosen.covariance

    @property
    def advice(self) -> str:
        """A sentence about the alternative, empty where there is none."""
        if self.alternative is None:
            return ""
        if self.by_agreement:
            return (
                f"{self.alternative.covariance} has the best {self.criterion.upper()}, but its partition agrees less "
                f"with those of all models ({self.alternative.agreement:.2f}) than the chosen one "
                f"({self._chosen.agreement:.2f})"
            )
        return (
            f"{self.alternative.covariance} is worth a look: its partition agrees better with those of all models "
            f"({self.alternative.agreement:.2f}) than the chosen one ({self._chosen.agreement:.2f})"
        )

    def table(self) -> list[dict[str, Any]]:
        """One record per candidate; ``pandas.DataFrame(result.table())`` is a data frame."""
        return [
            {
                "n_clusters": candidate.n_clusters,
                "covariance": candidate.covariance,
                **(candidate.criteria or {self.criterion: float("nan")}),
                "converged": candidate.is_fitted and candidate.outcome.is_converged,
                "degenerate": candidate.is_degenerate,
                "single_weight": candidate.outcome.single_weight,
                "agreement": candidate.agreement,
                "seconds": candidate.seconds,
                "failure": candidate.failure,
            }
            for candidate in self.candidates
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the criterion against the number of clusters, a line per covariance model."""
        return self._draw(plot_criterion, ax)

    def plot_grid(self, ax: Any = None) -> Any:
        """Draw the criterion for every covariance model and number of clusters as a grid of colours."""
        return self._draw(plot_model_grid, ax)

    def __repr__(self) -> str:
        counts, models = self._axes()
        better = "higher" if self.higher_is_better else "lower"
        lines = [
            f"{self.criterion.upper()} ({better} is better)",
            "C".rjust(4) + "".join(f"{m:>10}  " for m in models).rstrip(),
        ]
        for count in counts:
            # Marks stand in a column of their own, so that the numbers stay below each other.
            cells = (self._cell(count, model) for model in models)
            lines.append(str(count).rjust(4) + "".join(f"{text:>10}{marks:2}" for text, marks in cells).rstrip())
        how = "" if self.is_top else ", by agreement with the others"
        lines.append(f"* chosen: {self.n_clusters} clusters, {self.covariance}{how}")
        if self.alternative is not None:
            lines.append(f"^ {self.advice}")
        used = {mark for candidate in self.candidates for mark in candidate.marks}
        return "\n".join(lines + [f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in used])

    def _axes(self) -> tuple[list[int], list[str]]:
        counts = sorted({candidate.n_clusters for candidate in self.candidates})
        models = list(dict.fromkeys(candidate.covariance for candidate in self.candidates))
        return counts, models

    def _draw(self, plot: Callable[..., Any], ax: Any) -> Any:
        counts, models = self._axes()
        fits = {model: [self._at(count, model) for count in counts] for model in models}
        return plot(
            counts,
            {model: [c.value(self.criterion) for c in line] for model, line in fits.items()},
            name=self.criterion.upper(),
            higher_is_better=self.higher_is_better,
            best=(self.n_clusters, self.covariance),
            doubtful={model: [c.is_degenerate for c in line] for model, line in fits.items()},
            ax=ax,
        )

    def _cell(self, n_clusters: int, covariance: str) -> tuple[str, str]:
        """A value as printed, and the marks beside it."""
        candidate = self._at(n_clusters, covariance)
        value = candidate.value(self.criterion)
        star = "*" if candidate is self._chosen else "^" if candidate is self.alternative else ""
        return "failed" if np.isnan(value) else _short(value), star + candidate.marks

    def _at(self, n_clusters: int, covariance: str) -> Candidate:
        for candidate in self.candidates:
            if (candidate.n_clusters, candidate.covariance) == (n_clusters, covariance):
                return candidate
        return Candidate(n_clusters, covariance)


def select_model(
    X: Any,
    n_clusters: Iterable[int] = range(2, 9),
    covariance: str | Iterable[str] = ("EEE",),
    criterion: str = "ebic",
    *,
    covariance_by: str = "agreement",
    estimator: Any = None,
    sample_weight: Any = None,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **parameters: Any,
) -> Selection:
    """Fit every combination of number of clusters and covariance model, and choose.

    A criterion chooses the number of clusters, and what most of its covariance models agree on the covariance. A search
    of sixty fits or more to few rows is compiled, which takes a minute or two the first time.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), scan or Dask collection
        Rows. Of a scan or a Dask collection one fit is made after another, each with all threads or workers: the rows
        are read where they are and never copied to other processes.
    n_clusters : iterable of int, default=range(2, 9)
        Numbers of clusters to try. The indices of all peers but `BootGMM` need at least 2.
    covariance : str or iterable of str, default=('EEE',)
        Covariance models to try; 'all' means the fourteen (the two of them, E and V, for a single feature).
    criterion : {'ebic', 'bic', 'icl', 'aic'}, default='ebic'
        What to choose the number of clusters by. EBIC is maximised, the others, in scikit-learn's sign, minimised.
    covariance_by : {'agreement', 'criterion'}, default='agreement'
        What chooses the covariance model, once the criterion has chosen the number of clusters: with 'agreement' the
        one whose partition agrees best with those of all models, the better ones by the criterion counting more, which
        on real data is nearer to the classes; with 'criterion' the best one.
    estimator : estimator of egmm.cluster, default=None
        A peer to choose the number of clusters for, by its own index: MPC of `FCM` (maximised), the gap of the
        delta-Bel graph of `BPEC` (maximised), BIC of `BootGMM` (minimised), and ANS of all others (minimised).
        `EKNNClus` finds the number by itself. None means `EGMM`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts; None leaves an `estimator` its own.
    n_jobs : int or None, default=None
        Threads or processes, whichever suits the fits; None means all cores this process may use. Results do not depend
        on it.
    verbose : int, default=0
        1 shows a live line on the error stream.
    **parameters : any
        Further parameters of the estimator. Where they are not given, `EGMM` has ``init="mixture"`` and, if several
        covariance models are compared, ``certainty=1``: else meta-clusters often do the work of a richer covariance.

    Returns
    -------
    selection : Selection
        ``.best`` is the fitted model, ``.table()`` has a record per fit, ``.plot()`` draws the criterion. A fit that
        fails is recorded with its reason; degenerate fits are chosen only where there is no other, and of equal ones
        the first. A fit that is seen to degenerate is given up, unless no fit is sound. ``.candidates`` has all fits;
        where they are compiled, ``candidate.model`` is made when it is first asked for.
        ``.alternative`` is a model to look at: where the one of the best criterion and the one that agrees best with
        the others are at odds, the one of the two that is not chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from egmm import select_model
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(6, 1, (100, 2))])
    >>> select_model(X, range(1, 4), random_state=0).n_clusters
    2
    """
    check_choice("criterion", criterion, CRITERIA)
    check_choice("covariance_by", covariance_by, COVARIANCE_BY)
    if not isinstance(n_clusters, Iterable):
        raise TypeError(f"n_clusters must list numbers to try, such as range(2, 9) or [3], got {n_clusters!r}.")
    counts = [check_integer("n_clusters", count, 1) for count in n_clusters]
    if n_jobs is not None:
        check_integer("n_jobs", n_jobs, 1)
    _check_rows(X, sample_weight, EGMM() if estimator is None else estimator)
    higher_is_better = CRITERIA[criterion]
    if estimator is None:
        models = chosen_models(covariance, X.shape[1] if is_remote(X) else np.shape(X)[1])
        base = EGMM(**{"init": "mixture", "certainty": CERTAINTY if len(models) > 1 else 0.0, **parameters})
    else:
        index = _index(estimator)
        criterion, higher_is_better = index.name, index.higher_is_better
        _check_counts(counts, estimator, index)
        base, models = clone(estimator).set_params(**parameters), [type(estimator).__name__]
    if not counts:
        raise ValueError("n_clusters must name at least one choice, got an empty list.")
    if random_state is not None or base.random_state is None:
        base.set_params(random_state=int(check_random(random_state).randint(2**31)))
    seen: Seen | None = None
    if isinstance(base, EGMM):
        base.set_params(engine=_engine(base, X, max(counts), len(counts) * len(models)))
        seen = clone(base)._look(X, sample_weight)
    grid = [(model, count) for model in models for count in counts]
    n_workers = 1 if is_remote(X) else n_jobs or available_cores()
    # Compiled code runs beside other threads; NumPy's small steps would wait for each other.
    in_threads = getattr(base, "engine", "") == "numba"
    order = sorted(range(len(grid)), key=partial(_turn, grid, models, sorted(set(counts), reverse=True)))
    done: dict[int, Candidate] = {}
    with Progress("select_model", len(grid), enabled=bool(verbose)) as progress:

        def run(numbers: list[int], *, gives_up: bool) -> None:
            jobs = [(_candidate(base, *grid[at]), grid[at][0], X, sample_weight, seen, gives_up) for at in numbers]
            for at, candidate in zip(numbers, _fit_all(jobs, n_workers, in_threads), strict=True):
                done[at] = candidate
                progress.update(len(done), f"{candidate.n_clusters} clusters, {candidate.covariance}")

        run(order, gives_up=True)
        if not any(candidate.is_sound for candidate in done.values()):
            run([at for at in order if done[at].is_given_up], gives_up=False)
    candidates = [done[at] for at in range(len(grid))]
    if seen is not None and len(models) > 1:
        candidates = _compared(candidates, seen.sample, criterion)
    selection = Selection(candidates, criterion, higher_is_better, by_agreement=covariance_by == "agreement")
    _ = selection.best  # Made now: the rows may change.
    return selection


def _turn(grid: list[tuple[str, int]], models: list[str], counts: list[int], at: int) -> float:
    """When a candidate is fitted: the dearest first, for what they take tells whether processes pay.

    Fits of as many clusters share their labels. One of them is fitted amid those of the next larger number, so that
    the labels are there when the others come.
    """
    model, count = grid[at]
    return counts.index(count) + (models.index(model) / len(models) or -0.5)


def _check_rows(X: Any, sample_weight: Any, estimator: Any) -> None:
    """Refuse at once, in a fit's own words, what no candidate could be fitted to."""
    name = type(estimator).__name__
    if not is_remote(X):
        kinds = [np.float64, np.float32]
        with reading_numbers(X):
            check_array(X, dtype=kinds, ensure_all_finite=False, ensure_min_samples=2, estimator=name, input_name="X")
    if sample_weight is not None and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(f"sample_weight must be None with estimator={name}, which cannot weigh rows; repeat them.")


def _engine(base: EGMM, X: Any, most_clusters: int, n_fits: int) -> str:
    """Engine of all fits together: what one fit would not repay, a search may."""
    if is_remote(X):
        return str(base.engine)
    n_rows, n_features = np.shape(X)
    shares = FocalSets.pairs(most_clusters).shares
    is_plain_search = isinstance(base.init, str) and base.init == "mixture" and base.accelerate and base.prior is None
    is_whole = is_plain_search and base.focal_sets in WITH_SINGLETONS and can_fit_whole(n_rows, n_features, shares)
    if base.engine == "auto" and is_whole and n_fits >= MANY_FITS:
        return "numba"
    # Half the passes: the candidates are on average half as large as the largest.
    return choose_engine(base.engine, n_rows, n_features, shares, False, EXPECTED_PASSES * (n_fits + 1) // 2)


def _candidate(base: Any, model: str, n_clusters: int) -> Any:
    """A candidate to be fitted; each keeps its own checkpoint."""
    if not isinstance(base, EGMM):
        return clone(base).set_params(n_clusters=n_clusters)
    # Not a clone: scikit-learn's takes a third of a millisecond, and a search makes a hundred.
    candidate = copy(base)
    candidate.n_clusters, candidate.covariance = n_clusters, model
    if base.checkpoint is not None:
        path = Path(base.checkpoint)
        candidate.checkpoint = path.with_name(f"{path.stem}-{n_clusters}-{model}{path.suffix}")
    return candidate


def _fit_all(jobs: list[tuple[Any, ...]], n_workers: int, in_threads: bool) -> Iterator[Candidate]:
    """Fit candidates, in threads or processes; they come in the order of the jobs."""
    if not in_threads:
        yield from in_order(_fit_quietly, jobs, n_workers)
        return
    with _unwarned(), one_blas_thread(), Threads(n_workers) as threads:
        yield from threads.map(partial(_fit, n_jobs=1) if n_workers > 1 else _fit, jobs)


@contextmanager
def _unwarned() -> Iterator[None]:
    """Say nothing of fits that have not converged: the table does, fit by fit. Filters belong to all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _fit_quietly(*job: Any, **options: Any) -> Candidate:
    with _unwarned():
        return _fit(*job, **options)


def _check_counts(counts: list[int], estimator: Any, index: Index) -> None:
    if counts and min(counts) < index.least_clusters:
        raise ValueError(
            f"n_clusters must be at least {index.least_clusters} with estimator={type(estimator).__name__}, whose "
            f"index {index.name} says nothing about fewer clusters; got {min(counts)}."
        )


def _index(estimator: Any) -> Index:
    for kind, index in INDICES.items():
        if isinstance(estimator, kind):
            return index
    known = ", ".join(kind.__name__ for kind in INDICES)
    raise TypeError(f"estimator must be one of {known}, or None for EGMM; got {type(estimator).__name__}.")


def _fit(
    model: Any,
    name: str,
    X: Any,
    sample_weight: Any,
    seen: Seen | None,
    gives_up: bool,
    n_jobs: int | None = None,
) -> Candidate:
    began, asked = time.perf_counter(), getattr(model, "n_jobs", None)
    if n_jobs is not None and hasattr(model, "n_jobs"):
        model.n_jobs = n_jobs  # Beside other fits; what comes later may have all cores again.
    try:
        if seen is not None:
            _check_enough_rows(model, *seen.shape)
            tried = None if is_remote(X) else model._try(seen, gives_up=gives_up)
            if isinstance(tried, Tried):
                model.n_jobs = asked
                made = Deferred(model, (X, sample_weight, seen), tried)
                return Candidate(model.n_clusters, name, made, tried.criteria, time.perf_counter() - began)
            model._fit(X, sample_weight, gives_up=gives_up, seen=seen, found=tried)
            criteria = criteria_of(model.log_likelihood_, model.ebic_, model.entropy_, model.n_parameters_)
        else:
            model.fit(X, **({} if sample_weight is None else {"sample_weight": sample_weight}))
            index = _index(model)
            criteria = {index.name: float(index.read(model))}
    except ReadError:
        raise  # It would meet every candidate.
    except ValueError as error:
        return Candidate(model.n_clusters, name, failure=str(error), seconds=time.perf_counter() - began)
    if hasattr(model, "n_jobs"):
        model.n_jobs = asked
    return Candidate(model.n_clusters, name, model, criteria, time.perf_counter() - began)


def _check_enough_rows(model: EGMM, n_rows: int, n_features: int) -> None:
    """Refuse matrices that are singular whatever the clusters: their likelihood is the automatic ridge's."""
    is_regular = model.prior is not None or model.reg_covar != "auto"
    if n_rows <= n_features and not is_regular and not is_diagonal(resolve_covariance(model.covariance, n_features)):
        raise ValueError(
            f"covariance={model.covariance!r} needs more rows than features, got {n_rows} and {n_features}; use a "
            "diagonal model such as 'VVI', prior='default' or a number as reg_covar."
        )


def _compared(candidates: list[Candidate], sample: Sample, criterion: str) -> list[Candidate]:
    """Candidates with the agreement of their partitions of a sample."""
    sound = [at for at, candidate in enumerate(candidates) if candidate.is_sound]
    sound.sort(key=lambda at: candidates[at].value(criterion), reverse=CRITERIA[criterion])
    compared, drawn = list(candidates), sample.places(COMPARED_ROWS)
    with one_blas_thread():
        for count in {candidates[at].n_clusters for at in sound}:
            places = [at for at in sound if candidates[at].n_clusters == count]
            labels = np.array([candidates[at].labels(sample, drawn) for at in places])
            weights = NEXT_WEIGHT ** np.arange(len(places))
            agreements = rand_matrix(labels, sample.weights[drawn]) @ weights / weights.sum()
            for at, agreement in zip(places, agreements, strict=True):
                compared[at] = replace(candidates[at], agreement=float(agreement))
    return compared


def _choose(candidates: Sequence[Candidate], criterion: str, higher_is_better: bool) -> Candidate:
    fitted = [candidate for candidate in candidates if candidate.is_fitted]
    if not fitted:
        if len({candidate.failure for candidate in candidates}) == 1:
            raise ValueError(candidates[0].failure)
        reasons = "; ".join(f"{c.n_clusters} clusters, {c.covariance}: {c.failure}" for c in candidates[:3])
        raise ValueError(f"No candidate could be fitted ({reasons}).")
    sign = 1.0 if higher_is_better else -1.0
    scores = [sign * candidate.value(criterion) for candidate in fitted]
    return fitted[first_best(scores, [candidate.is_sound for candidate in fitted])]


def _most_agreeing(
    candidates: Sequence[Candidate], top: Candidate, criterion: str, higher_is_better: bool
) -> Candidate:
    """The candidate of as many clusters as the one of the best criterion whose partition agrees best with those of all.

    Of equal partitions, which rounding alone tells apart, that of the better criterion.
    """
    rivals = [c for c in candidates if c.n_clusters == top.n_clusters and c is not top and not np.isnan(c.agreement)]
    if np.isnan(top.agreement):  # Degenerate, or the only one.
        return top
    rivals = [top, *sorted(rivals, key=lambda c: c.value(criterion), reverse=higher_is_better)]
    return rivals[first_best([c.agreement for c in rivals], [True] * len(rivals))]


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.4g}"
