"""One choice of model in a search: its fit, or why there is none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from egmm._arrays import to_host
from egmm._checks import FloatArray, IntArray
from egmm.em import assign
from egmm.em.criteria import criteria_of, ebic_of, n_free_parameters
from egmm.em.parameters import is_single
from egmm.fitted import open_rows
from egmm.mixture import EGMM, ModelFit, adopt, set_labels
from egmm.rows.threads import one_blas_thread

MARKS = {
    "~": "degenerate: a cluster or covariance collapsed or ran away; chosen only if all are",
    "?": "not converged: raise max_iter",
}
"""What the marks beside printed values mean."""


class Outcome(NamedTuple):
    """What is asked of every fit."""

    is_converged: bool = True
    is_degenerate: bool = False
    is_given_up: bool = False
    single_weight: float = 1.0
    """Share of the weight that single clusters have, not meta-clusters; 1 where a model has no such weights."""

    @classmethod
    def of_mixture(cls, found: ModelFit) -> "Outcome":
        """Read it off the fit of a mixture."""
        result, single = found.result, is_single(found.focal_sets.shares)
        single_weight = float(result.weights[single].sum())
        return cls(result.is_converged, result.is_degenerate, result.is_given_up, single_weight)

    @classmethod
    def of_model(cls, model: Any) -> "Outcome":
        """Read it off a fitted estimator."""
        is_converged, is_degenerate = getattr(model, "converged_", True), getattr(model, "degenerate_", False)
        single_weight = 1.0
        if isinstance(model, EGMM):
            single_weight = float(to_host(model.weights_)[is_single(model.focal_sets_.shares)].sum())
        return cls(bool(is_converged), bool(is_degenerate), single_weight=single_weight)


class MixtureMaker:
    """Makes the estimator of a fit when it is first asked for: a search has a hundred fits, and few are.

    Parameters
    ----------
    model : EGMM
        With the parameters of the fit, not fitted.
    found : ModelFit
        Its fit.
    data : tuple
        X and sample_weight; rows in memory are labelled as they are when the estimator is made.
    """

    def __init__(self, model: EGMM, found: ModelFit, data: tuple[Any, Any]) -> None:
        self.found = found
        self._model, self._data = model, data
        self._is_made = False

    def __call__(self) -> EGMM:
        """Return the estimator."""
        if not self._is_made:
            with open_rows(self._model, *self._data, reset=True) as rows, one_blas_thread():
                adopt(self._model, self.found)
                set_labels(self._model, rows)
            self._is_made = True
        return self._model


def mixture_criteria(found: ModelFit) -> dict[str, float]:
    """All criteria of a fit of a mixture, by name."""
    result, one = found.result, found.result.specification
    n_rows = float(result.problem.settings.weight[0])
    args = (result.means.shape[1], one.shares, one.covariance, one.certainty, n_rows)
    n_parameters = n_free_parameters(result.weights, *args)
    ebic = ebic_of(result.log_likelihood, n_parameters, n_rows)
    return criteria_of(result.log_likelihood, ebic, result.entropy, n_parameters)


@dataclass(frozen=True)
class Candidate:
    """One choice of model: its fit, or why there is none."""

    n_clusters: int
    covariance: str
    make: Callable[[], Any] | None = None
    """Returns the fitted estimator."""
    criteria: dict[str, float] | None = None
    seconds: float = 0.0
    failure: str = ""
    outcome: Outcome = field(default_factory=Outcome)
    agreement: float = float("nan")
    """Mean adjusted Rand index of its partition, on a sample, with those of all sound candidates of as many clusters.

    Its own counts too; by the criterion, each counts for 0.85 of the next better one.
    """

    @classmethod
    def of_model(
        cls, n_clusters: int, covariance: str, model: Any, criteria: dict[str, float], seconds: float
    ) -> "Candidate":
        """A candidate whose estimator is fitted."""
        return cls(n_clusters, covariance, lambda: model, criteria, seconds, outcome=Outcome.of_model(model))

    @cached_property
    def model(self) -> Any:
        """The fitted estimator, None where the fit failed; made when it is first asked for."""
        return None if self.make is None else self.make()

    @property
    def is_fitted(self) -> bool:
        """Whether there is a fit."""
        return self.make is not None

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

    def labels(self, X: FloatArray) -> IntArray:
        """Clusters of rows, from the fit of a mixture."""
        assert isinstance(self.make, MixtureMaker)
        found = self.make.found
        result, shares = found.result, found.focal_sets.shares
        covariance = result.specification.covariance
        mixture = assign.Mixture.of(result.weights, result.means, result.covariances, shares, covariance)
        return np.asarray(assign.labels(X, None, mixture, "numpy"))

    def value(self, criterion: str) -> float:
        """The criterion, NaN where the fit failed."""
        return float("nan") if self.criteria is None else self.criteria[criterion]
