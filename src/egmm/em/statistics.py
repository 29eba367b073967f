"""What passes over the rows leave behind: small arrays that add."""

from typing import NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray, are_usable

TINY = float(np.finfo(np.float64).tiny)


class Statistics(NamedTuple):
    """All that one EM pass learns from the rows, as sums over rows.

    Rows enter relative to the components' centre. With r the pignistic probabilities times the rows' weights:
    """

    set_counts: FloatArray
    """(M,) sum_i m_ij."""
    cluster_sums: FloatArray
    """(C, D) sum_i r_ik x_i, the paper's B [eq_B]."""
    cluster_scatters: FloatArray | None
    """(C, D, D) sum_i r_ik x_i x_i'; (C, D) its diagonals for diagonal models; None when the covariance is shared."""
    log_likelihood: float
    """Of the rows, relative to `Components.reference` when the covariance is shared."""

    def plus(self, other: Self) -> "Statistics":
        """Return the statistics of both sets of rows together."""
        mine, theirs = self.cluster_scatters, other.cluster_scatters
        return Statistics(
            self.set_counts + other.set_counts,
            self.cluster_sums + other.cluster_sums,
            None if mine is None or theirs is None else mine + theirs,
            self.log_likelihood + other.log_likelihood,
        )


class Moments(NamedTuple):
    """Total weight, mean and scatter of the rows: all a shared covariance needs beside `Statistics`."""

    weight: float
    """N, the sum of the rows' weights."""
    centre: FloatArray
    """(D,) weighted mean, rounded: every block is shifted by it, so that sums of squares do not cancel far from the
    origin."""
    scatter: FloatArray
    """(D, D) sum_i (x_i - centre)(x_i - centre)'."""
    rest: FloatArray | float = 0.0
    """(D,) sum_i (x_i - centre), what rounding left: far from the origin a mean is known better than it can be
    written."""

    def plus(self, other: Self) -> "Moments":
        """Return the moments of both sets of rows together."""
        weight = self.weight + other.weight
        if weight == 0:
            # No centre to tell, but entries that cannot be used must still show.
            return self._replace(scatter=self.scatter + other.scatter)
        centre = self.centre + (other.centre - self.centre) * (other.weight / weight)
        mine, theirs = self.about(centre), other.about(centre)
        return Moments(weight, centre, mine.scatter + theirs.scatter, mine.rest + theirs.rest)

    def about(self, centre: FloatArray) -> "Moments":
        """Return the same rows' moments about another centre."""
        shift = self.centre - centre
        cross = np.outer(self.rest + 0.5 * self.weight * shift, shift)
        return Moments(self.weight, centre, self.scatter + cross + cross.T, self.rest + self.weight * shift)


def moments(X: FloatArray, sample_weight: FloatArray | None) -> Moments:
    """Moments of one block of rows; the scatter is NaN where an entry is not finite or too large."""
    weight = float(len(X)) if sample_weight is None else float(sample_weight.sum())
    # One memory order, so that sums round alike wherever the block came from.
    X = np.ascontiguousarray(X)
    with np.errstate(all="ignore"):
        first = _mean(X, sample_weight, weight)
        rows = np.subtract(X, first, dtype=np.float64)
        # A second look takes the summation's round-off out of the mean; a constant column becomes exactly zero.
        centre = first + _mean(rows, sample_weight, weight)
        rows -= centre - first
        weighted = rows if sample_weight is None else rows * sample_weight[:, None]
        # An entry that cannot be used shows, whatever its row's weight: the caller looks.
        scatter = rows.T @ weighted if are_usable(X) else np.full((X.shape[1], X.shape[1]), np.nan)
        return Moments(weight, centre, scatter, weighted.sum(axis=0))


def _mean(X: FloatArray, sample_weight: FloatArray | None, weight: float) -> FloatArray:
    """Weighted column means; not by BLAS, whose sums round by how its operands happen to lie in memory."""
    if sample_weight is None:
        return X.mean(axis=0, dtype=np.float64)
    return np.asarray((X * sample_weight[:, None]).sum(axis=0, dtype=np.float64) / max(weight, TINY))
