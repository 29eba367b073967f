"""One choice of model in a search: its fit, made or still to be made, or why there is none."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from egmm._checks import IntArray
from egmm.em import assign
from egmm.em.parameters import is_single
from egmm.em.start import Sample
from egmm.mixture import EGMM, Seen, Tried
from egmm.rows.array import ArrayRows

MARKS = {
    "~": "degenerate: a cluster or covariance collapsed or ran away; chosen only if all are",
    "?": "not converged: raise max_iter",
}
"""What the marks beside printed values mean."""


class Deferred:
    """A sound fit whose model is made when it is asked for: a search has a hundred, and few are.

    Parameters
    ----------
    model : EGMM
        To be fitted.
    job : tuple
        X, sample_weight and what has been seen of the rows.
    tried : Tried
        Its compiled fit.
    """

    def __init__(self, model: EGMM, job: tuple[Any, Any, Seen], tried: Tried) -> None:
        self._model, self._job, self.tried = model, job, tried
        self._is_made = False

    def __call__(self) -> EGMM:
        """Return the model."""
        if not self._is_made:
            X, sample_weight, seen = self._job
            self._model._fit(X, sample_weight, seen=seen, found=self.tried.found)
            self._is_made = True
        return self._model


class Outcome(NamedTuple):
    """What is asked of every fit."""

    is_converged: bool
    is_degenerate: bool
    is_given_up: bool
    single_weight: float
    """Share of the weight that single clusters have, not meta-clusters; 1 where a model has no such weights."""

    @classmethod
    def of(cls, made: Any) -> "Outcome":
        """Read it off a model, whether it is made or deferred."""
        if isinstance(made, Deferred):
            return cls(True, False, False, made.tried.single_weight)
        is_converged, is_degenerate = getattr(made, "converged_", True), getattr(made, "degenerate_", False)
        is_given_up = is_degenerate and not is_converged and made.n_iter_ < made.max_iter
        single_weight = 1.0
        if isinstance(made, EGMM) and hasattr(made, "weights_"):
            single_weight = float(made.weights_[is_single(made.focal_sets_.shares)].sum())
        return cls(bool(is_converged), bool(is_degenerate), bool(is_given_up), single_weight)


@dataclass(frozen=True)
class Candidate:
    """One choice of model: its fit, or why there is none."""

    n_clusters: int
    covariance: str
    made: Any = None
    """The fitted model, or a `Deferred` one."""
    criteria: dict[str, float] | None = None
    seconds: float = 0.0
    failure: str = ""
    agreement: float = float("nan")
    """Mean adjusted Rand index of its partition, on a sample, with those of all sound candidates of as many clusters.

    Its own counts too; by the criterion, each counts for 0.85 of the next better one.
    """

    @property
    def model(self) -> Any:
        """The fitted model, None where the fit failed.

        A deferred one labels the rows as they are when it is first asked for.
        """
        return self.made() if isinstance(self.made, Deferred) else self.made

    @cached_property
    def outcome(self) -> Outcome:
        """What became of the fit."""
        return Outcome.of(self.made)

    @property
    def is_fitted(self) -> bool:
        """Whether there is a fit."""
        return self.made is not None

    @property
    def is_degenerate(self) -> bool:
        """Whether the fit collapsed, so that its likelihood is no guide."""
        return self.outcome.is_degenerate

    @property
    def is_sound(self) -> bool:
        """Whether there is a fit, and a likelihood that is a guide."""
        return self.is_fitted and not self.is_degenerate

    @property
    def is_given_up(self) -> bool:
        """Whether the fit was ended because it had degenerated."""
        return self.outcome.is_given_up

    @property
    def marks(self) -> str:
        """Marks of a fit that is not to be trusted, explained in `MARKS`."""
        is_unfinished = not self.outcome.is_converged and not self.is_given_up
        return "~" * self.is_degenerate + "?" * is_unfinished

    def labels(self, sample: Sample, places: IntArray | slice) -> IntArray:
        """Clusters of rows of a sample."""
        if isinstance(self.made, Deferred):
            return self.made.tried.labels[places]
        with ArrayRows(sample.rows[places], n_jobs=1) as rows:
            labels: IntArray = self.made._assign(rows, assign.labels, "cluster")
        return labels

    def value(self, criterion: str) -> float:
        """The criterion, NaN where the fit failed."""
        return float("nan") if self.criteria is None else self.criteria[criterion]
