"""What passes over the rows leave behind: small arrays that add."""

from typing import NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray

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
    """(D,) weighted mean: every block is shifted by it, so that sums of squares do not cancel far from the origin."""
    scatter: FloatArray
    """(D, D) sum_i (x_i - centre)(x_i - centre)'."""

    def plus(self, other: Self) -> "Moments":
        """Return the moments of both sets of rows together (Chan, Golub and LeVeque's update)."""
        weight = self.weight + other.weight
        if weight == 0:
            return self
        shift = other.centre - self.centre
        between = np.outer(shift, shift) * (self.weight * other.weight / weight)
        centre = self.centre + shift * (other.weight / weight)
        return Moments(weight, centre, self.scatter + other.scatter + between)


def moments(X: FloatArray, sample_weight: FloatArray | None) -> Moments:
    """Moments of one block of rows."""
    weight = float(len(X)) if sample_weight is None else float(sample_weight.sum())
    # One memory order, so that sums round alike wherever the block came from.
    X = np.ascontiguousarray(X)
    with np.errstate(all="ignore"):  # Infinite or huge entries show as sums that are not finite: the caller looks.
        centre = X.mean(axis=0, dtype=np.float64) if sample_weight is None else sample_weight @ X / max(weight, TINY)
        rows = np.subtract(X, centre, dtype=np.float64)
        scatter = rows.T @ (rows if sample_weight is None else rows * sample_weight[:, None])
    return Moments(weight, np.asarray(centre, dtype=np.float64), scatter)
