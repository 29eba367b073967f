"""One candidate of a search: its fit, or the reason for failure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from egmm._arrays import to_host
from egmm._checks import FloatArray, IntArray
from egmm.em import assign
from egmm.em.criteria import criteria_of, ebic_of
from egmm.em.parameters import is_meta
from egmm.mixture import EGMM
from egmm.mixture_fit import ModelFit, adopt, set_labels
from egmm.mixture_rows import open_rows
from egmm.rows.threads import one_blas_thread

MARKS = {
    "~": "degenerate: a cluster or covariance collapsed or diverged; chosen only if all are",
    "?": "not converged: raise max_iter",
}
"""Meanings of the marks next to printed values."""


class Outcome(NamedTuple):
    """Summary of a fit."""

    is_converged: bool = True
    is_degenerate: bool = False
    is_given_up: bool = False
    single_weight: float = 1.0
    """Share of the weight that single clusters and noise have, not meta-clusters; 1 where a model has no such
    weights."""

    @classmethod
    def of_mixture(cls, found: ModelFit) -> "Outcome":
        """Read it off the fit of a mixture."""
        result, meta = found.result, is_meta(found.focal_sets.shares)
        single_weight = float(result.weights[~meta].sum())
        return cls(result.is_converged, result.is_degenerate, result.is_given_up, single_weight)

    @classmethod
    def of_model(cls, model: Any) -> "Outcome":
        """Summarise a fitted estimator."""
        is_converged, is_degenerate = getattr(model, "converged_", True), getattr(model, "degenerate_", False)
        single_weight = 1.0
        if isinstance(model, EGMM):
            single_weight = float(to_host(model.weights_)[~is_meta(model.focal_sets_.shares)].sum())
        return cls(bool(is_converged), bool(is_degenerate), single_weight=single_weight)


class MixtureMaker:
    """Creates the estimator of a fit on demand: a search has a hundred fits, and few estimators are needed.

    Parameters
    ----------
    model : EGMM
        Unfitted, with the parameters of the fit.
    found : ModelFit
        The fit.
    data : tuple
        X and sample_weight; rows in memory are labelled when the estimator is created.
    """

    def __init__(self, model: EGMM, found: ModelFit, data: tuple[Any, Any]) -> None:
        self.found = found
        self._model, self._data = model, data
        self._is_made = False

    def __call__(self) -> EGMM:
        """Create the estimator."""
        if not self._is_made:
            with open_rows(self._model, *self._data, reset=True) as rows, one_blas_thread():
                adopt(self._model, self.found)
                set_labels(self._model, rows)
            self._is_made = True
        return self._model


def mixture_criteria(found: ModelFit) -> dict[str, float]:
    """All criteria of a fit of a mixture, by name."""
    result = found.result
    ebic = ebic_of(result.log_likelihood, result.n_parameters, result.weight)
    return criteria_of(result.log_likelihood, ebic, result.entropy, result.n_parameters)


@dataclass(frozen=True)
class Candidate:
    """One candidate: its fit, or the reason for failure."""

    n_clusters: int
    covariance: str
    make: Callable[[], Any] | None = None
    """Returns the fitted estimator."""
    criteria: dict[str, float] | None = None
    seconds: float = 0.0
    failure: str = ""
    outcome: Outcome = field(default_factory=Outcome)
    agreement: float = float("nan")
    """Mean adjusted Rand index of its partition, on a sample, with all sound candidates of the same number of clusters.

    Includes its own partition; ordered by the criterion, each has 0.85 of the weight of the next better one.
    """

    @classmethod
    def of_model(
        cls, n_clusters: int, covariance: str, model: Any, criteria: dict[str, float], seconds: float
    ) -> "Candidate":
        """A candidate with a fitted estimator."""
        return cls(n_clusters, covariance, lambda: model, criteria, seconds, outcome=Outcome.of_model(model))

    @cached_property
    def model(self) -> Any:
        """The fitted estimator, created on first access; None if the fit failed."""
        return None if self.make is None else self.make()

    @property
    def title(self) -> str:
        """Title, such as "3 clusters, EEE"."""
        return f"{self.n_clusters} cluster{'' if self.n_clusters == 1 else 's'}, {self.covariance}"

    @property
    def is_fitted(self) -> bool:
        """Whether there is a fit."""
        return self.make is not None

    @property
    def is_degenerate(self) -> bool:
        """Whether the fit collapsed, so that its likelihood is meaningless."""
        return self.outcome.is_degenerate

    @property
    def is_sound(self) -> bool:
        """Whether there is a fit and it is not degenerate."""
        return self.is_fitted and not self.is_degenerate

    @property
    def is_given_up(self) -> bool:
        """Whether the fit was stopped because it degenerated."""
        return self.outcome.is_given_up

    @property
    def marks(self) -> str:
        """Marks of an unreliable fit, explained in `MARKS`."""
        is_unfinished = not self.outcome.is_converged and not self.is_given_up
        return "~" * self.is_degenerate + "?" * is_unfinished

    def labels(self, X: FloatArray) -> IntArray:
        """Clusters of rows, from the fit of a mixture."""
        assert isinstance(self.make, MixtureMaker)
        found = self.make.found
        result, shares = found.result, found.focal_sets.shares
        one = result.specification
        args = (result.weights, result.means, result.covariances, shares, one.covariance, one.noise, result.degrees)
        mixture = assign.Mixture.of(*args)
        return np.asarray(assign.labels(X, None, mixture, "numpy"))

    def value(self, criterion: str) -> float:
        """The criterion, NaN if the fit failed."""
        return float("nan") if self.criteria is None else self.criteria[criterion]
