r"""Masses whose beliefs and plausibilities fit intervals of pairwise probabilities (Denoeux 2020).

For two rows with masses m and m', the belief that they share a cluster is :math:`m^\top S m'`, and the belief that they
do not is :math:`m^\top E m'`: S marks equal singletons, E disjoint sets. Given intervals :math:`[P^l, P^u]` of the
probabilities that pairs of rows share a cluster, the masses minimise

.. math:: J = \frac{1}{n} \sum_{i<i'} (m_i^\top S m_{i'} - P^l_{ii'})^2 + (m_i^\top E m_{i'} - 1 + P^u_{ii'})^2

over n pairs. For the masses of one row, this is a quadratic program on the simplex.
"""

from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egmm._checks import FloatArray, IntArray
from egmm._progress import Progress
from egmm.belief.focal import FocalSets
from egmm.belief.moebius import row_blocks
from egmm.cluster.descent import Descent, descend

RIDGE = 1e-9
"""Ridge relative to the mean curvature: mass that no pair of rows can identify is shared equally."""

SLACK = 1e-10
"""Relative to the largest slope: a reduced gradient above minus this much counts as non-negative."""

N_GROUPS = 8
"""Number of groups of rows updated in turn; simultaneous steps interfere less in small groups."""


class Relation(NamedTuple):
    """Bilinear forms of two rows' masses for sharing a cluster."""

    same: FloatArray
    """(M, M) S: m' S m' is the belief in "same cluster"."""
    different: FloatArray
    """(M, M) E: m' E m' is the belief in "different clusters"."""

    @classmethod
    def of(cls, focal: FocalSets) -> "Relation":
        """Build the forms of a family without the empty set."""
        membership = focal.membership.astype(float)
        return cls(np.diag((membership.sum(axis=1) == 1).astype(float)), (membership @ membership.T == 0).astype(float))

    def intervals(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Belief in and plausibility of "same cluster", (n, 2), for n pairs of masses."""
        belief = np.einsum("ij,ij->i", first @ self.same, second)
        return np.column_stack([belief, 1 - np.einsum("ij,ij->i", first @ self.different, second)])


class Targets(NamedTuple):
    """Target beliefs of n rows with each of K reference rows."""

    same: FloatArray
    """(n, K) P^l, target belief in "same cluster"."""
    different: FloatArray
    """(n, K) 1 - P^u, target belief in "different clusters"."""
    own: IntArray
    """(n,) the reference that is the row itself, which is not a pair; -1 if none."""

    @classmethod
    def between(cls, intervals: FloatArray, own: IntArray) -> "Targets":
        """Build targets from intervals (2, n, K)."""
        same, different = intervals[0].copy(), 1 - intervals[1]
        rows = np.flatnonzero(own >= 0)
        same[rows, own[rows]] = different[rows, own[rows]] = 0.0
        return cls(same, different, own)

    def take(self, rows: slice) -> "Targets":
        """Return the targets of some rows."""
        return Targets(self.same[rows], self.different[rows], self.own[rows])


def pair_intervals(
    posteriors: NDArray[np.float32], references: NDArray[np.float32], quantiles: tuple[float, float]
) -> FloatArray:
    """Quantiles over B replicates of the probability that a row and a reference share a cluster.

    Parameters
    ----------
    posteriors : ndarray of shape (n, C, B)
        Posterior probabilities of rows in every replicate.
    references : ndarray of shape (C, K, B)
        Those of the reference rows.
    quantiles : tuple of float
        Lower and upper quantile, with linear interpolation.

    Returns
    -------
    intervals : ndarray of shape (2, n, K)

    Examples
    --------
    >>> certain, even = np.float32([[1, 1, 1], [0, 0, 0]]), np.float32([[0.4, 0.5, 0.6], [0.6, 0.5, 0.4]])
    >>> pair_intervals(np.stack([certain]), np.stack([certain, even], axis=1), (0.0, 0.75))[:, 0].round(3)
    array([[1.  , 0.4 ],
           [1.  , 0.55]])
    """
    n_references, n_replicates = references.shape[1:]
    at = np.array(quantiles) * (n_replicates - 1)
    below = at.astype(int)
    above, share = np.minimum(below + 1, n_replicates - 1), (at - below)[:, None]
    together, product = np.empty((2, n_references, n_replicates), dtype=np.float32)
    intervals = np.empty((2, len(posteriors), n_references))
    for row, posterior in enumerate(posteriors):
        np.multiply(references[0], posterior[0], out=together)
        for own, other in zip(posterior[1:], references[1:], strict=True):
            np.multiply(other, own, out=product)
            np.add(together, product, out=together)
        together.sort(axis=1)
        intervals[:, row] = (1 - share) * together[:, below].T + share * together[:, above].T
    return np.clip(intervals, 0.0, 1.0, out=intervals)


def calibrate(
    intervals: FloatArray, start: FloatArray, relation: Relation, *, tol: float, max_iter: int, verbose: bool = False
) -> Descent[FloatArray]:
    """Minimise J by sweeps of the rows' quadratic programs until a sweep gains less than `tol`.

    The programs of a group of rows are solved together, given the current masses of all rows. The group then moves
    along that direction to the minimum of J, a polynomial of degree four in the step. J never increases, and at
    convergence the masses of every row solve its program, as in the row-by-row cycle.

    Parameters
    ----------
    intervals : ndarray of shape (2, K, K)
        P^l and P^u of every pair of rows; the diagonal is ignored.
    start : ndarray of shape (K, M)
        Initial masses.
    relation : Relation
        S and E of the M focal sets.
    tol, max_iter : float, int
        Smallest gain of J, and maximum number of sweeps.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Returns
    -------
    descent : Descent
        Its state holds the masses, its history J at the start and after each sweep.
    """
    targets = Targets.between(intervals, np.arange(len(start)))
    n_groups = min(N_GROUPS, len(start))
    groups = [slice(first, None, n_groups) for first in range(n_groups)]

    progress, turns = Progress("BootGMM: masses", max_iter, enabled=verbose), count(1)

    def turn(found: Misfit, masses: FloatArray) -> FloatArray:
        progress.update(next(turns), f"objective {found.objective:.3g}")
        masses = masses.copy()
        for group in groups:
            direction = optimal_masses(targets.take(group), masses, relation, masses[group]) - masses[group]
            masses[group] += _best_step(group, direction, masses, targets, relation) * direction
        return masses

    with progress:
        return descend(start, lambda masses: misfit(masses, targets, relation), turn, tol=tol, max_iter=max_iter)


def optimal_masses(targets: Targets, references: FloatArray, relation: Relation, start: FloatArray) -> FloatArray:
    """Masses (n, M) of rows that best fit those of the references (K, M), row by row."""
    squares = references.T @ references
    pull = targets.same @ references @ relation.same + targets.different @ references @ relation.different
    masses = np.empty_like(start)
    for block in row_blocks(len(start), start.shape[1] ** 2):
        own = targets.own[block]
        selves = np.where(own[:, None] >= 0, references[own], 0.0)
        partners = squares - selves[:, :, None] * selves[:, None, :]
        curvature = sum(matrix @ partners @ matrix for matrix in relation)
        masses[block] = minimise_on_simplex(np.asarray(curvature), pull[block], start[block])
    return masses


def minimise_on_simplex(curvature: FloatArray, pull: FloatArray, start: FloatArray) -> FloatArray:
    r"""Minimise :math:`m^\top Q m / 2 - d^\top m` over the probability simplex, many programs at once.

    Active-set method: step towards the solution on the support until a mass reaches zero and leaves the support; if
    none does, the set with the most negative reduced gradient enters. Exact up to a ridge of 1e-9 of the mean
    curvature, which makes the solution unique.

    Parameters
    ----------
    curvature : ndarray of shape (n, M, M)
        Q, positive semidefinite.
    pull : ndarray of shape (n, M)
        d.
    start : ndarray of shape (n, M)
        Initial points on the simplex.

    Returns
    -------
    solution : ndarray of shape (n, M)

    Examples
    --------
    >>> minimise_on_simplex(np.eye(3)[None], np.array([[0.9, 0.3, -0.5]]), np.full((1, 3), 1 / 3)).round(6)
    array([[0.8, 0.2, 0. ]])
    """
    n_sets = start.shape[1]
    solution, support = start.copy(), start > 0
    mean_curvature = np.trace(curvature, axis1=1, axis2=2) / n_sets
    ridge = RIDGE * np.where(mean_curvature > 0, mean_curvature, 1.0)
    matrix = curvature + ridge[:, None, None] * np.eye(n_sets)
    slack = SLACK * (np.abs(matrix).max(axis=(1, 2)) + np.abs(pull).max(axis=1))
    active = np.arange(len(start))
    # Every support has a lower value than the last, so none repeats: the cap only guards against round-off.
    for _ in range(20 * n_sets):
        if not len(active):
            break
        goal = _solve_on_support(matrix[active], pull[active], support[active])
        here = solution[active]
        spent = support[active] & (goal <= 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(spent, here / (here - goal), np.inf)
        step = np.minimum(steps.min(axis=1), 1.0)
        blocked = spent.any(axis=1)
        here = np.maximum(here + step[:, None] * (goal - here), 0.0)
        leaves = spent & (steps <= step[:, None])
        here[leaves] = 0.0
        solution[active] = here
        support[active] &= ~leaves
        slope = np.einsum("nij,nj->ni", matrix[active], here) - pull[active]
        level = (slope * here).sum(axis=1, keepdims=True)
        reduced = np.where(support[active], np.inf, slope - level)
        joins = reduced.argmin(axis=1)
        wants = ~blocked & (reduced.min(axis=1) < -slack[active])
        support[active[wants], joins[wants]] = True
        active = active[blocked | wants]
    return np.asarray(solution / solution.sum(axis=1, keepdims=True))


def _solve_on_support(matrix: FloatArray, pull: FloatArray, support: NDArray[np.bool_]) -> FloatArray:
    """Stationary points with total one on the support, (n, M), zero elsewhere."""
    n_sets = support.shape[1]
    inside = support[:, :, None] & support[:, None, :]
    system = np.where(inside, matrix, np.eye(n_sets) * ~support[:, None, :])
    sides = np.stack([np.where(support, pull, 0.0), support.astype(float)], axis=2)
    free, level = np.moveaxis(np.linalg.solve(system, sides), 2, 0)
    multiplier = (1 - free.sum(axis=1)) / level.sum(axis=1)
    return np.asarray(free + multiplier[:, None] * level)


class Misfit(NamedTuple):
    """Squared deviation of beliefs from their targets."""

    objective: float
    """J."""


def misfit(masses: FloatArray, targets: Targets, relation: Relation) -> Misfit:
    """J of rows that are each other's references."""
    total = 0.0
    for matrix, wanted in zip(relation, targets[:2], strict=True):
        residual = masses @ matrix @ masses.T - wanted
        np.fill_diagonal(residual, 0.0)
        total += float((residual**2).sum())
    n_rows = len(masses)
    return Misfit(total / max(1, n_rows * (n_rows - 1)))


def _best_step(group: slice, direction: FloatArray, masses: FloatArray, targets: Targets, relation: Relation) -> float:
    """Step in [0, 1] that minimises J along a descent direction of a group of rows."""
    own = targets.own[group]
    value = np.zeros(5)
    for matrix, wanted in zip(relation, targets[:2], strict=True):
        # Residuals are c0 + c1 a + c2 a^2 in the step a; pairs within the group count from both sides.
        constant = masses[group] @ matrix @ masses.T - wanted[group]
        linear = direction @ matrix @ masses.T
        for part in (constant, linear):
            part[np.arange(len(own)), own] = 0.0
        value += _squared(constant, linear)
        constant, linear = constant[:, group], linear[:, group]
        value -= _squared(constant, linear)
        quadratic = direction @ matrix @ direction.T
        np.fill_diagonal(quadratic, 0.0)
        value += 0.5 * _squared(constant, linear + linear.T, quadratic)
    roots = np.roots((value * np.arange(5))[:0:-1])
    turning = roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > 0) & (roots.real < 1)]
    # Include the zero step: where J is only rounding error, the direction may increase it.
    steps = np.append(turning, [1.0, 0.0])
    return float(steps[np.polyval(value[::-1], steps).argmin()])


def _squared(constant: FloatArray, linear: FloatArray, quadratic: FloatArray | None = None) -> FloatArray:
    """Coefficients of the sum of squares of polynomials in the step, (5,)."""
    c0, c1 = constant.ravel(), linear.ravel()
    c2 = np.zeros_like(c0) if quadratic is None else quadratic.ravel()
    return np.array([c0 @ c0, 2 * (c0 @ c1), c1 @ c1 + 2 * (c0 @ c2), 2 * (c1 @ c2), c2 @ c2])
