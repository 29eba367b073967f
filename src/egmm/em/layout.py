"""What the fits of a batch share, and what each has of its own."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray
from egmm.em.covariance import SHARED, is_diagonal, monomial_kind
from egmm.em.noise import Box
from egmm.em.parameters import is_meta, is_single
from egmm.em.prior import PriorTerms
from egmm.em.statistics import Moments, Units


class RowTotals(NamedTuple):
    """Weight and scatter of rows."""

    weight: FloatArray
    """(B,)."""
    scatter: FloatArray
    """(B, D, D) about the centre, or (B, D)."""

    @classmethod
    def of(cls, total: Moments, units: Units, *, diagonal: bool, n_fits: int = 1) -> "RowTotals":
        """Moments of rows in the units of fits, the same for each; of `diagonal` models without products."""
        scatter = units.covariances_in(total.scatter, diagonal=total.scatter.ndim == 1)
        if diagonal and scatter.ndim == 2:
            scatter = np.diagonal(scatter)
        return cls(np.full(n_fits, total.weight), np.broadcast_to(scatter, (n_fits, *scatter.shape)))


class Settings(NamedTuple):
    """What differs between the fits of a batch."""

    model: np.ndarray
    """(B,) codes of the covariance models."""
    ridge: FloatArray
    """(B, D) variances added to every cluster's."""
    prior: PriorTerms
    weight: FloatArray
    """(B,) of all rows."""
    scatter: FloatArray
    """(B, D, D) of all rows about the centre, or (B, D); missing cells are estimated."""
    reference: RowTotals
    """Totals of the complete rows; with a shared covariance their log-densities are relative to a reference."""


@dataclass(frozen=True)
class Layout:
    """What all fits of a batch share."""

    shares: FloatArray
    """(M, C) W."""
    kind: str
    """Kind of the monomials of complete rows; "linear" densities are relative to a reference."""
    diagonal: bool
    """Whether covariances are variances alone."""
    is_shared: bool
    """Whether clusters share one covariance."""
    scale: FloatArray
    """(D,) of the units, which models that need common units undo."""
    certainty: float = 0.0
    pools: bool = False
    """Whether the scatter that makes a shared covariance is a statistic. Without missing cells and noise it is the
    scatter of the rows, the same in every pass."""
    noise: Box | None = None
    """Where noise may lie, if the empty set is a focal set."""
    tails: bool = False
    """Whether tails are heavy."""
    n_factors: int = 0
    """Number of factors of a low-rank covariance; 0 for other models."""

    @classmethod
    def of(
        cls,
        covariance: str,
        shares: FloatArray,
        scale: FloatArray,
        certainty: float = 0.0,
        *,
        pools: bool = False,
        noise: Box | None = None,
        tails: bool = False,
        n_factors: int = 0,
    ) -> "Layout":
        """The layout of a covariance model; only shared covariances can be pooled.

        With noise or heavy tails they are, since rows then count for more or less.
        """
        is_shared, is_absolute = covariance in SHARED, noise is not None or tails
        kind, diagonal = monomial_kind(covariance, is_absolute=is_absolute), is_diagonal(covariance)
        pools = is_shared and (pools or is_absolute)
        return cls(shares, kind, diagonal, is_shared, scale, certainty, pools, noise, tails, n_factors)

    @property
    def log_noise(self) -> float:
        """Log-density of the noise in the units of rows."""
        return 0.0 if self.noise is None else self.noise.log_density(self.scale)

    @property
    def second_kind(self) -> str:
        """Kind of the second moments that the M-step reads."""
        return ("diagonal" if self.diagonal else "full") if self.pools else self.kind

    @property
    def start_kind(self) -> str:
        """Kind of the second moments of groups that a start reads: a low-rank covariance starts as noise alone."""
        return "diagonal" if self.diagonal or self.n_factors else "full"

    @cached_property
    def single(self) -> BoolArray:
        """Which focal sets are one cluster, (M,)."""
        return is_single(self.shares)

    @cached_property
    def meta(self) -> BoolArray:
        """Which focal sets are several clusters, (M,)."""
        return is_meta(self.shares)

    @property
    def n_counts(self) -> int:
        """Entries of a vector of statistics that are counts."""
        (n_focal, n_clusters), is_twice = self.shares.shape, self.tails
        return (1 + is_twice) * n_focal + (0 if self.is_exact else 2 * n_clusters)

    @cached_property
    def is_exact(self) -> bool:
        """Whether the M-step finds the maximum of Q; else it takes a step towards it."""
        return self.is_shared or not self.meta.any()
