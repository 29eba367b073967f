"""Choice of the number of clusters and the covariance model."""

import time
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import has_fit_parameter

from egmm._arrays import place_of
from egmm._checks import check_choice, check_integer, check_random, reading_rows
from egmm._documented import documentation_link
from egmm._frames import grid_html, make_frame
from egmm._parallel import in_order
from egmm._progress import Progress
from egmm.candidate import MARKS, Candidate
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
from egmm.em.covariance import chosen_models
from egmm.em.criteria import CRITERIA, first_best
from egmm.mixture import EGMM
from egmm.plotting.selection import plot_criterion, plot_model_grid
from egmm.rows import ReadError, is_remote
from egmm.rows.threads import resolve_jobs
from egmm.search import search, unwarned

COVARIANCE_BY = ("agreement", "criterion")
"""Ways to choose the covariance model, given the number of clusters chosen by the criterion."""

CERTAINTY = 1.0
"""Default prior weight on single clusters when covariance models are compared; tuned on simulated and real data."""

AT_ODDS = 0.03
"""Smallest gain in agreement for which an alternative is reported."""


class Index(NamedTuple):
    """Index for choosing a peer's number of clusters."""

    name: str
    higher_is_better: bool
    read: Callable[[Any], float]
    least_clusters: int
    """Smallest number of clusters for which it is defined."""


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
"""Indices of the peers."""


class Selection:
    """Result of `select_model`: every candidate, and the best model.

    Attributes
    ----------
    candidates : tuple of Candidate
        All fits, including failed ones.
    criterion : str
        Criterion for comparing candidates.
    higher_is_better : bool
        Its direction.
    by_agreement : bool
        Whether the covariance was chosen by agreement; False for a single covariance model and for peers.
    is_top : bool
        Whether the chosen model has the best criterion.
    best : estimator
        The chosen fitted model.
    alternative : Candidate or None
        If the model with the best criterion and the one whose partition agrees most with the other covariance models
        differ clearly, the one of the two that is not chosen.
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
        """The chosen fitted model."""
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
        """A sentence about the alternative, empty if there is none."""
        if self.alternative is None:
            return ""
        if self.by_agreement:
            return (
                f"{self.alternative.covariance} has the best {self.criterion.upper()}, but its partition agrees less "
                f"with all models ({self.alternative.agreement:.2f}) than the chosen one "
                f"({self._chosen.agreement:.2f})"
            )
        return (
            f"{self.alternative.covariance} is an alternative: its partition agrees more with all models "
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
        """All candidates as a pandas or polars data frame, the best by the criterion first."""
        records = sorted(self.table(), key=self._rank)
        names = dict.fromkeys(name for record in records for name in record)
        return make_frame({name: [record.get(name) for record in records] for name in names}, None, library)

    def _rank(self, record: dict[str, Any]) -> tuple[bool, bool, float]:
        value = record[self.criterion]
        return bool(record["failure"]), bool(record["degenerate"]), -value if self.higher_is_better else value

    def plot(self, ax: Any = None) -> Any:
        """Draw the criterion against the number of clusters, one line per covariance model."""
        return self._draw(plot_criterion, ax)

    def plot_grid(self, ax: Any = None) -> Any:
        """Draw the criterion for every covariance model and number of clusters as a heat map."""
        return self._draw(plot_model_grid, ax)

    def __repr__(self) -> str:
        counts, models = self._axes()
        better = "higher" if self.higher_is_better else "lower"
        lines = [
            f"{self.criterion.upper()} ({better} is better)",
            "C".rjust(4) + "".join(f"{m:>10}  " for m in models).rstrip(),
        ]
        for count in counts:
            # Marks have their own column, so that the numbers stay aligned.
            cells = (self._cell(count, model) for model in models)
            lines.append(str(count).rjust(4) + "".join(f"{text:>10}{marks:2}" for text, marks in cells).rstrip())
        how = "" if self.is_top else ", by agreement with the others"
        lines.append(f"* chosen: {self._chosen.title}{how}")
        if self.alternative is not None:
            lines.append(f"^ {self.advice}")
        used = {mark for candidate in self.candidates for mark in candidate.marks}
        return "\n".join(lines + [f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in used])

    def _repr_html_(self) -> str:
        counts, models = self._axes()
        cells = {model: [" ".join(self._cell(count, model)).strip() for count in counts] for model in models}
        notes = repr(self).splitlines()[2 + len(counts) :]
        better = "higher" if self.higher_is_better else "lower"
        grid = grid_html(f"{self.criterion.upper()} ({better} is better)", "clusters", counts, cells, notes)
        return grid + documentation_link("Selection")

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
        """A formatted value and its marks."""
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
    """Fit every combination of number of clusters and covariance model, and choose one.

    A criterion chooses the number of clusters, and agreement with the other covariance models chooses the covariance.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), scan or Dask collection
        Rows. A scan or a Dask collection is fitted one model at a time, with all threads or workers: the rows are never
        copied to other processes.
    n_clusters : iterable of int, default=range(2, 9)
        Numbers of clusters to try. Peers other than `BootGMM` need at least 2.
    covariance : str or iterable of str, default=('EEE',)
        Covariance models to try; 'all' means all fourteen (E and V for a single feature).
    criterion : {'ebic', 'bic', 'icl', 'aic'}, default='ebic'
        Criterion for the number of clusters. EBIC is maximised, the others (scikit-learn's sign) minimised.
    covariance_by : {'agreement', 'criterion'}, default='agreement'
        How the covariance model is chosen, given the number of clusters. 'agreement': the model whose partition agrees
        most with all others, weighted by their rank in the criterion; on real data this is closer to the classes.
        'criterion': the model with the best criterion.
    estimator : estimator of egmm.cluster, default=None
        A peer whose number of clusters is chosen by its own index: MPC for `FCM` (maximised), the gap of the delta-Bel
        graph for `BPEC` (maximised), BIC for `BootGMM` (minimised), and ANS for all others (minimised). `EKNNClus`
        estimates the number itself. None means `EGMM`.
    sample_weight : array-like of shape (n_samples,), default=None
        Row weights.
    random_state : int, RandomState instance or None, default=None
        Random seed; None keeps that of `estimator`.
    n_jobs : int or None, default=None
        Number of threads or processes; None and -1 mean all available cores. Results do not depend on it.
    verbose : int, default=0
        1 shows progress on standard error.
    **parameters : any
        Further parameters of the estimator. The defaults for `EGMM` are ``init="mixture"`` and, if several covariance
        models are compared, ``certainty=1``: otherwise meta-clusters often replace a richer covariance.

    Returns
    -------
    selection : Selection
        ``.best`` is the fitted model, ``.table()`` has one record per fit, ``.plot()`` draws the criterion. Failed fits
        are recorded with a reason. Fits that degenerate are stopped early and chosen only if no fit is sound. Ties go
        to the first. ``.candidates`` has all fits; ``candidate.model`` is created on first access. ``.alternative`` is
        set if the model with the best criterion and the one that agrees most with the others differ clearly: it is the
        one of the two that is not chosen.

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
        raise TypeError(f"n_clusters must be a list of numbers, such as range(2, 9) or [3], got {n_clusters!r}.")
    counts = list(dict.fromkeys(check_integer("n_clusters", count, 1) for count in n_clusters))
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
        raise ValueError("n_clusters must hold at least one number, got an empty list.")
    if random_state is not None or base.random_state is None:
        base.set_params(random_state=int(check_random(random_state).randint(2**31)))
    grid = [(model, count) for model in models for count in counts]
    with Progress("select_model", len(grid), enabled=bool(verbose)) as progress:
        progress.update(0)  # The first candidate may take a minute.
        if isinstance(base, EGMM):
            candidates = search(base, grid, X, sample_weight, n_cores, progress, criterion)
        else:
            fit = {} if sample_weight is None else {"sample_weight": sample_weight}
            jobs = [(clone(base).set_params(n_clusters=count), name, X, fit) for name, count in grid]
            candidates = []
            # Arrays on devices, and the setting that says so, belong to this process.
            for candidate in in_order(_fit_peer, jobs, n_cores if place_of(X) is None else 1):
                candidates.append(candidate)
                progress.update(len(candidates), candidate.title)
    selection = Selection(candidates, criterion, higher_is_better, by_agreement=covariance_by == "agreement")
    _ = selection.best  # Created now: the rows may change later.
    return selection


def _check_rows(X: Any, sample_weight: Any, estimator: Any) -> None:
    """Raise early, with the messages of a fit, on rows that no candidate can be fitted to."""
    name = type(estimator).__name__
    if not is_remote(X):
        with reading_rows(X) as kinds:
            check_array(X, dtype=kinds, ensure_all_finite=False, ensure_min_samples=2, estimator=name, input_name="X")
    if sample_weight is not None and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"sample_weight must be None with estimator={name}, which does not support weights; repeat rows instead."
        )


def _check_counts(counts: list[int], estimator: Any, index: Index) -> None:
    if counts and min(counts) < index.least_clusters:
        raise ValueError(
            f"n_clusters must be at least {index.least_clusters} with estimator={type(estimator).__name__}, whose "
            f"index {index.name} is not defined for fewer clusters; got {min(counts)}."
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
        model.n_jobs = n_jobs  # Only during the search; later calls may use all cores.
    try:
        with unwarned():
            model.fit(X, **options)
    except ReadError:
        raise  # It affects every candidate.
    except ValueError as error:
        return Candidate(model.n_clusters, name, failure=str(error), seconds=time.perf_counter() - began)
    if hasattr(model, "n_jobs"):
        model.n_jobs = asked
    index = _index(model)
    criteria = {index.name: float(index.read(model))}
    return Candidate.of_model(model.n_clusters, name, model, criteria, time.perf_counter() - began)


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
    """The candidate with the best criterion's number of clusters whose partition agrees most with all.

    Ties up to rounding go to the better criterion.
    """
    rivals = [c for c in candidates if c.n_clusters == top.n_clusters and c is not top and not np.isnan(c.agreement)]
    if np.isnan(top.agreement):  # Degenerate, or the only one
        return top
    rivals = [top, *sorted(rivals, key=lambda c: c.value(criterion), reverse=higher_is_better)]
    return rivals[first_best([c.agreement for c in rivals], [True] * len(rivals))]


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.4g}"
