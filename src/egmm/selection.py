"""How many clusters, and which covariance model."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import has_fit_parameter

from egmm._arrays import place_of
from egmm._checks import check_choice, check_integer, check_random, check_spread, reading_rows
from egmm._frames import grid_html, make_frame
from egmm._parallel import in_order
from egmm._progress import Progress
from egmm.belief.focal import FocalSets
from egmm.candidate import MARKS, Candidate, MixtureMaker, Outcome, mixture_criteria
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
from egmm.em.criteria import CRITERIA, first_best
from egmm.em.fit import (
    EXPECTED_PASSES,
    Failure,
    Specification,
    choose_engine,
    fit_all,
    seconds_in_numpy,
)
from egmm.em.sample import Sample
from egmm.em.summary import DataSummary, summarise
from egmm.fitted import naming_entries, open_rows
from egmm.metrics.external import rand_matrix
from egmm.mixture import EGMM, ModelFit, check_parameters, family, fit_model, specify
from egmm.plotting.selection import plot_criterion, plot_model_grid
from egmm.rows import ReadError, is_remote
from egmm.rows.threads import Threads, one_blas_thread, resolve_jobs

COVARIANCE_BY = ("agreement", "criterion")
"""What chooses among the covariance models of the number of clusters that the criterion has chosen."""

CERTAINTY = 1.0
"""Prior weight on single clusters where covariance models are compared; decided on simulated and real data."""

NEXT_WEIGHT = 0.85
"""What a candidate's partition counts for where partitions are compared, as a share of the next better one's."""

AT_ODDS = 0.03
"""The chosen partition is at odds with the others where another one agrees with them by so much better."""

WORTH_THREADS = 2.0
"""Seconds of passes in NumPy from which on fits run in several threads."""

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
        """One record per candidate; see also :meth:`to_dataframe`."""
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

    def to_dataframe(self, library: str | None = None) -> Any:
        """All candidates as a data frame of pandas or polars, the best by the criterion first."""
        records = sorted(self.table(), key=self._rank)
        names = dict.fromkeys(name for record in records for name in record)
        return make_frame({name: [record.get(name) for record in records] for name in names}, None, library)

    def _rank(self, record: dict[str, Any]) -> tuple[bool, bool, float]:
        value = record[self.criterion]
        return bool(record["failure"]), bool(record["degenerate"]), -value if self.higher_is_better else value

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
        lines.append(f"* chosen: {_clusters(self.n_clusters)}, {self.covariance}{how}")
        if self.alternative is not None:
            lines.append(f"^ {self.advice}")
        used = {mark for candidate in self.candidates for mark in candidate.marks}
        return "\n".join(lines + [f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in used])

    def _repr_html_(self) -> str:
        counts, models = self._axes()
        cells = {model: [" ".join(self._cell(count, model)).strip() for count in counts] for model in models}
        notes = repr(self).splitlines()[2 + len(counts) :]
        better = "higher" if self.higher_is_better else "lower"
        return grid_html(f"{self.criterion.upper()} ({better} is better)", "clusters", counts, cells, notes)

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


def _clusters(count: int) -> str:
    return f"{count} cluster{'' if count == 1 else 's'}"


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

    A criterion chooses the number of clusters, and agreement with the other covariance models chooses the covariance.

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
        Threads or processes, whichever suits the fits; None and -1 mean all cores this process may use. Results do not
        depend on it.
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
        ``candidate.model`` is made when it is first asked for.
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
    n_cores = resolve_jobs(n_jobs)
    _check_rows(X, sample_weight, EGMM() if estimator is None else estimator)
    higher_is_better = CRITERIA[criterion]
    if estimator is None:
        models = chosen_models(covariance, X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])
        base: Any = EGMM(**{"init": "mixture", "certainty": CERTAINTY if len(models) > 1 else 0.0, **parameters})
    else:
        index = _index(estimator)
        criterion, higher_is_better = index.name, index.higher_is_better
        _check_counts(counts, estimator, index)
        base, models = clone(estimator).set_params(**parameters), [type(estimator).__name__]
    if not counts:
        raise ValueError("n_clusters must name at least one choice, got an empty list.")
    if random_state is not None or base.random_state is None:
        base.set_params(random_state=int(check_random(random_state).randint(2**31)))
    grid = [(model, count) for model in models for count in counts]
    with Progress("select_model", len(grid), enabled=bool(verbose)) as progress:
        if isinstance(base, EGMM):
            candidates = _search(base, grid, X, sample_weight, n_cores, progress, criterion)
        else:
            fit = {} if sample_weight is None else {"sample_weight": sample_weight}
            jobs = [(clone(base).set_params(n_clusters=count), name, X, fit) for name, count in grid]
            candidates = []
            # Arrays on devices, and the setting that says so, belong to this process.
            for candidate in in_order(_fit_peer, jobs, n_cores if place_of(X) is None else 1):
                candidates.append(candidate)
                progress.update(len(candidates), f"{_clusters(candidate.n_clusters)}, {candidate.covariance}")
    selection = Selection(candidates, criterion, higher_is_better, by_agreement=covariance_by == "agreement")
    _ = selection.best  # Made now: the rows may change.
    return selection


# Mixtures ----------------------------------------------------------------------------------------------------


def _search(
    base: EGMM,
    grid: list[tuple[str, int]],
    X: Any,
    sample_weight: Any,
    n_cores: int,
    progress: Progress,
    criterion: str,
) -> list[Candidate]:
    """Fit all mixtures of a grid; those of one form together."""
    check_parameters(base)
    with open_rows(clone(base), X, sample_weight, reset=True) as rows, one_blas_thread(), _unwarned():
        diagonal = all(is_diagonal(resolve_covariance(name, rows.shape[1])) for name, _ in grid)
        with naming_entries(base, rows):
            summary = summarise(rows, check_random(base.random_state), diagonal=diagonal)
        check_spread(summary.total.variances)
        search = _Search(base, rows, summary, grid, (X, sample_weight), progress)
        candidates = search.run(1 if is_remote(X) else n_cores)
    if len({name for name, _ in grid}) > 1:
        assert summary.sample is not None
        return _compared(candidates, summary.sample, criterion)
    return candidates


class _Search:
    """Fits of a grid under way."""

    def __init__(
        self,
        base: EGMM,
        rows: Any,
        summary: DataSummary,
        grid: list[tuple[str, int]],
        data: tuple[Any, Any],
        progress: Progress,
    ) -> None:
        self.rows, self.summary, self.data, self.progress = rows, summary, data, progress
        self.models = [_candidate_of(base, name, count) for name, count in grid]
        self.names = [name for name, _ in grid]
        self.seconds = EXPECTED_PASSES * sum(map(self._pass_seconds, self.models))
        self.engine = choose_engine(base.engine, self.seconds)
        self.done: dict[int, Candidate] = {}

    def run(self, n_workers: int) -> list[Candidate]:
        """Fit all; what degenerates is given up, unless nothing is sound."""
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
            for found in threads.map(self._fit_group, [(group, gives_up) for group in groups]):
                self.done |= found
                last = next(reversed(found.values()))
                self.progress.update(len(self.done), f"{_clusters(last.n_clusters)}, {last.covariance}")

    def _groups(self, numbers: Iterable[int], gives_up: bool) -> list[dict[int, Specification | None]]:
        """Candidates that are fitted together, the dearest first; those whose sets are yet to be found are alone."""
        groups: dict[Any, dict[int, Specification | None]] = {}
        for at in numbers:
            model = self.models[at]
            try:
                _check_enough_rows(model, *self.summary.shape)
                is_plain = model.focal_sets != "neighbours" if isinstance(model.focal_sets, str) else True
                one = None
                if is_plain and model.checkpoint is None and isinstance(model.init, str):
                    one = specify(model, self.summary, family(model), gives_up=gives_up, engine=self.engine)
                groups.setdefault(at if one is None else one.form, {})[at] = one
            except ValueError as error:
                self.done[at] = Candidate(model.n_clusters, self.names[at], failure=str(error))
        return sorted(groups.values(), key=lambda group: -self.models[next(iter(group))].n_clusters)

    def _fit_group(self, group: dict[int, Specification | None], gives_up: bool) -> dict[int, Candidate]:
        began = time.perf_counter()
        found: dict[int, ModelFit | Failure] = {}
        specifications = [one for one in group.values() if one is not None]
        if specifications:
            results = fit_all(self.rows, self.summary, specifications)
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
        seconds = (time.perf_counter() - began) / len(group)
        return {at: self._candidate(at, one, seconds) for at, one in found.items()}

    def _candidate(self, at: int, found: ModelFit | Failure, seconds: float) -> Candidate:
        model, name = self.models[at], self.names[at]
        if isinstance(found, Failure):
            return Candidate(model.n_clusters, name, failure=found.message, seconds=seconds)
        make = MixtureMaker(model, found, self.data)
        return Candidate(
            model.n_clusters, name, make, mixture_criteria(found), seconds, outcome=Outcome.of_mixture(found)
        )


def _candidate_of(base: EGMM, covariance: str, n_clusters: int) -> EGMM:
    """A candidate to be fitted; each keeps its own checkpoint."""
    candidate = clone(base).set_params(n_clusters=n_clusters, covariance=covariance)
    if base.checkpoint is not None:
        path = Path(base.checkpoint)
        candidate.checkpoint = path.with_name(f"{path.stem}-{n_clusters}-{covariance}{path.suffix}")
    return candidate


def _check_rows(X: Any, sample_weight: Any, estimator: Any) -> None:
    """Refuse at once, in a fit's own words, what no candidate could be fitted to."""
    name = type(estimator).__name__
    if not is_remote(X):
        with reading_rows(X) as kinds:
            check_array(X, dtype=kinds, ensure_all_finite=False, ensure_min_samples=2, estimator=name, input_name="X")
    if sample_weight is not None and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(f"sample_weight must be None with estimator={name}, which cannot weigh rows; repeat them.")


@contextmanager
def _unwarned() -> Iterator[None]:
    """Say nothing of fits that have not converged: the table does, fit by fit. Filters belong to all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


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


def _fit_peer(model: Any, name: str, X: Any, options: dict[str, Any], n_jobs: int | None = None) -> Candidate:
    began, asked = time.perf_counter(), getattr(model, "n_jobs", None)
    if n_jobs is not None and hasattr(model, "n_jobs"):
        model.n_jobs = n_jobs  # Beside other fits; what comes later may have all cores again.
    try:
        with _unwarned():
            model.fit(X, **options)
    except ReadError:
        raise  # It would meet every candidate.
    except ValueError as error:
        return Candidate(model.n_clusters, name, failure=str(error), seconds=time.perf_counter() - began)
    if hasattr(model, "n_jobs"):
        model.n_jobs = asked
    index = _index(model)
    criteria = {index.name: float(index.read(model))}
    return Candidate.of_model(model.n_clusters, name, model, criteria, time.perf_counter() - began)


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
            labels = np.array([candidates[at].labels(sample.rows[drawn]) for at in places])
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
