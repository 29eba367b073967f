"""Specification of a fit, and its result."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.em.covariance import is_diagonal, monomial_kind
from egmm.em.criteria import n_free_parameters
from egmm.em.estep import entropy
from egmm.em.evidence import Evidence
from egmm.em.noise import Box
from egmm.em.parameters import Parameters
from egmm.em.prior import Prior
from egmm.em.problem import Evaluation, Problem


@dataclass(frozen=True)
class Specification:
    """A model to fit, with its settings."""

    covariance: str
    """One of the 14 codes, or 'low-rank'."""
    shares: FloatArray
    """(M, C) W of the focal sets."""
    init: str | FloatArray | IntArray | Parameters
    """Name of a start, labels (n,), means (C, D), or the parameters of a fit to go on from."""
    n_init: int = 1
    tol: float = 1e-6
    max_iter: int = 1000
    reg_covar: float | str = "auto"
    prior: Prior | None = None
    certainty: float = 0.0
    accelerate: bool = True
    engine: str = "numpy"
    gives_up: bool = False
    """Whether an ascent without a shared covariance stops when it has degenerated."""
    evidence: Evidence | None = None
    """Labels and links of the rows."""
    noise: Box | None = None
    """Where noise may lie, if the empty set is a focal set."""
    tails: bool = False
    """Whether tails are heavy."""
    n_factors: int = 0
    """Number of factors of a low-rank covariance, or the largest number to try if `chooses_factors`."""
    chooses_factors: bool = False
    """Whether EBIC chooses the number of factors."""

    @property
    def is_named(self) -> bool:
        """Whether the start is found on a sample."""
        return isinstance(self.init, str)

    @property
    def form(self) -> tuple[Any, ...]:
        """What models must have in common to be fitted together."""
        kind, diagonal = monomial_kind(self.covariance), is_diagonal(self.covariance)
        return self.shares.shape, self.shares.tobytes(), kind, diagonal, self.n_factors


@dataclass(frozen=True)
class FitResult:
    """A fit: parameters in the units of the data, and how it ended."""

    specification: Specification
    problem: Problem
    """The problem, a batch of one."""
    evaluation: Evaluation
    history: FloatArray
    """Log-likelihood at the start and after every step."""
    is_converged: bool
    is_degenerate: bool
    is_given_up: bool
    """Whether the ascent was stopped because it degenerated."""
    is_interrupted: bool

    @property
    def log_likelihood(self) -> float:
        """Total log-likelihood."""
        return float(self.evaluation.log_likelihood[0])

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(self.problem.settings.weight[0])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters."""
        one = self.specification
        args = (self.means.shape[1], one.shares, one.covariance, one.certainty, self.weight, one.n_factors)
        return n_free_parameters(self.weights, *args, tails=one.tails)

    @property
    def entropy(self) -> float:
        """Total entropy of the rows' masses."""
        return float(entropy(self.evaluation.statistics, self.evaluation.model)[0])

    @property
    def weights(self) -> FloatArray:
        """(M,)."""
        return self.evaluation.params.weights[0]

    @property
    def means(self) -> FloatArray:
        """(C, D)."""
        units = self.problem.units
        return np.asarray(self.evaluation.params.means[0] * units.scale + units.centre)

    @property
    def degrees(self) -> float | None:
        """Degrees of freedom, where tails are heavy."""
        found = self.evaluation.params.degrees
        return None if found is None else float(found[0])

    @property
    def covariances(self) -> FloatArray:
        """(D, D) or (D,) where clusters share it, (C, D, D) or (C, D) else; diagonal models have variances alone.

        Low-rank ones, (D, 1 + q), have noise variances beside loadings.
        """
        return self._out(self.evaluation.params.covariances[0])

    def _out(self, covariances: FloatArray) -> FloatArray:
        layout = self.problem.layout
        found = self.problem.units.covariances_out(covariances, diagonal=layout.diagonal)
        return found[0] if layout.is_shared else found


class Failure(NamedTuple):
    """The reason why there is no fit."""

    message: str
