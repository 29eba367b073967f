r"""Quasi-Newton steps for EM that crawls, at one pass each.

The gradient of the log-likelihood comes free with the statistics (Fisher's identity), and the complete-data
information, whose inverse turns the gradient into EM's own step, is known in closed form. L-BFGS with that inverse as
its initial matrix is EM to first order and learns the rest from the steps taken (Jamshidian and Jennrich 1997, QN2).

Coordinates, fixed at the start of the phase where the covariance is :math:`\Sigma_0 = L_0 L_0^\top`:

- :math:`s_j` with :math:`\pi_j = s_j^2 / |s|^2`: information 4N, and a weight that vanishes is an ordinary stationary
  point at zero, where logits would run away to minus infinity;
- :math:`v = \mu L_0^{-\top}`: information :math:`H \otimes \tilde P`;
- :math:`A` lower triangular, :math:`\tilde P = L_0^\top P L_0 = A A^\top`, logarithms on the diagonal: information N
  below it and 2N on it.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from egmm._checks import FloatArray
from egmm.em.mstep import overlap_matrix, residual_scatter
from egmm.em.parameters import Parameters
from egmm.em.problem import Point, Problem

MEMORY = 40
"""Pairs of steps and gradient changes remembered. Parameters are few, so this is close to full BFGS."""

SUFFICIENT = 1e-4
"""Share of the gain a linear model promises that a step must deliver (Armijo)."""


class Coordinates:
    """The map between parameters and the vector quasi-Newton works on, about a reference point."""

    def __init__(self, problem: Problem, reference: Parameters) -> None:
        self.problem = problem
        self.root = np.linalg.cholesky(reference.covariances)
        n_clusters, dim = reference.means.shape
        n_focal = len(reference.weights)
        self._cuts = (n_focal, n_focal + n_clusters * dim)
        self._shape = (n_clusters, dim)
        self._lower = np.tril_indices(dim) if problem.covariance == "EEE" else (np.arange(dim), np.arange(dim))
        self._on_diagonal = self._lower[0] == self._lower[1]

    def vector(self, params: Parameters) -> FloatArray:
        """Coordinates of the parameters."""
        factor = np.linalg.cholesky(np.linalg.inv(self._whiten(params.covariances)))
        entries = factor[self._lower]
        entries[self._on_diagonal] = np.log(entries[self._on_diagonal])
        means = solve_triangular(self.root, params.means.T, lower=True).T
        return np.concatenate([np.sqrt(params.weights), means.ravel(), entries])

    def params(self, vector: FloatArray) -> Parameters:
        """Parameters at the coordinates."""
        roots, means, _ = self._split(vector)
        inverse = solve_triangular(self._factor(vector), self.root.T, lower=True, check_finite=False)
        return Parameters(roots**2 / (roots @ roots), means @ self.root.T, inverse.T @ inverse)

    def gradient(self, vector: FloatArray, point: Point) -> FloatArray:
        """Gradient of the objective from the statistics of a pass at `vector`."""
        problem, statistics = self.problem, point.statistics
        weight = problem.moments.weight
        roots, _, _ = self._split(vector)
        norm = np.sqrt(roots @ roots)
        unit = roots / norm
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(unit == 0, 0.0, 2.0 * (statistics.set_counts / unit - weight * unit) / norm)
        factor = self._factor(vector)
        overlap = overlap_matrix(statistics.set_counts, problem.shares)
        residual = statistics.cluster_sums - overlap @ point.params.means
        means = solve_triangular(self.root, residual.T, lower=True).T @ factor @ factor.T
        scatter = residual_scatter(statistics, problem.moments, problem.shares, point.params.means)
        spread = self._whiten(scatter + np.diag(weight * problem.ridge))
        inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
        entries = ((weight * inverse.T @ inverse - spread) @ factor)[self._lower]
        entries[self._on_diagonal] *= np.diag(factor)
        return np.concatenate([slopes, means.ravel(), entries])

    def precondition(self, vector: FloatArray, point: Point, gradient: FloatArray) -> FloatArray:
        """Inverse complete-data information times a gradient: EM's step, to first order."""
        weight = self.problem.moments.weight
        slopes, means, entries = self._split(gradient)
        overlap = overlap_matrix(point.statistics.set_counts, self.problem.shares)
        inverse = solve_triangular(self._factor(vector), np.eye(self._shape[1]), lower=True)
        moved = cho_solve(cho_factor(overlap), means) @ inverse.T @ inverse
        return np.concatenate(
            [slopes / (4 * weight), moved.ravel(), entries / np.where(self._on_diagonal, 2 * weight, weight)]
        )

    def _split(self, vector: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        roots, means, entries = np.split(vector, self._cuts)
        return roots, means.reshape(self._shape), entries

    def _factor(self, vector: FloatArray) -> FloatArray:
        entries = self._split(vector)[2].copy()
        entries[self._on_diagonal] = np.exp(entries[self._on_diagonal])
        factor = np.zeros((self._shape[1], self._shape[1]))
        factor[self._lower] = entries
        return factor

    def _whiten(self, matrix: FloatArray) -> FloatArray:
        half = solve_triangular(self.root, matrix, lower=True)
        return np.asarray(solve_triangular(self.root, half.T, lower=True))


class QuasiNewton:
    """L-BFGS ascent from a point EM has reached, started with what EM's last steps say about the curvature."""

    def __init__(self, problem: Problem, trail: Sequence[Point]) -> None:
        self.coordinates = Coordinates(problem, trail[-1].params)
        self.pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=MEMORY)
        self._point = trail[0]
        self._vector = self.coordinates.vector(trail[0].params)
        self._gradient = self.coordinates.gradient(self._vector, trail[0])
        for point in trail[1:]:
            self._move(point, self.coordinates.vector(point.params))

    def propose(self) -> tuple[FloatArray, float]:
        """Return the step from the current point and its slope; half of the slope is the gain the model predicts."""
        step = self._direction(self._gradient)
        return step, float(step @ self._gradient)

    def params_at(self, step: FloatArray) -> Parameters:
        """Parameters at the end of a step."""
        return self.coordinates.params(self._vector + step)

    def accept(self, point: Point, step: FloatArray) -> None:
        """Move to the point at the end of a step."""
        self._move(point, self._vector + step)

    def _move(self, point: Point, vector: FloatArray) -> None:
        gradient = self.coordinates.gradient(vector, point)
        step, change = vector - self._vector, self._gradient - gradient
        # Without positive curvature along the step a pair would spoil the model.
        if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            self.pairs.append((step, change))
        self._vector, self._gradient, self._point = vector, gradient, point

    def _direction(self, gradient: FloatArray) -> FloatArray:
        """The two-loop recursion."""
        direction = gradient.copy()
        coefficients = []
        for step, change in reversed(self.pairs):
            a = (step @ direction) / (step @ change)
            direction -= a * change
            coefficients.append(a)
        direction = self.coordinates.precondition(self._vector, self._point, direction)
        for (step, change), a in zip(self.pairs, reversed(coefficients), strict=True):
            direction += (a - (change @ direction) / (step @ change)) * step
        return direction
