r"""Quasi-Newton steps for EM that crawls, at one pass each.

The gradient of the log-likelihood comes free with the statistics (Fisher's identity), and the complete-data
information, whose inverse turns the gradient into EM's own step, is known in closed form. L-BFGS with that inverse as
its initial matrix is EM to first order and learns the rest from the steps taken (Jamshidian and Jennrich 1997, QN2).

Coordinates, fixed at the start of the phase where the covariance is :math:`\Sigma_0 = L_0 L_0^\top`:

- :math:`s_j` with :math:`\pi_j = s_j^2 / |s|^2`: information 4N, and a weight that vanishes is an ordinary stationary
  point at zero, where logits would run away to minus infinity;
- :math:`v = \mu L_0^{-\top}`: information :math:`H \otimes \tilde P`;
- :math:`A` upper triangular, :math:`\tilde P = L_0^\top P L_0 = A A^\top`, logarithms on the diagonal: information N
  above it and 2N on it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from scipy.linalg.lapack import dposv

from egmm._checks import FloatArray
from egmm.em.mstep import overlap_matrix, residual_scatter
from egmm.em.parameters import Parameters, triangular_inverse
from egmm.em.problem import Point, Problem

MEMORY = 40
"""Pairs of steps and gradient changes remembered. Parameters are few, so this is close to full BFGS."""

SUFFICIENT = 1e-4
"""Share of the gain a linear model promises that a step must deliver (Armijo)."""


class Coordinates:
    """The map between parameters and the vector quasi-Newton works on, about a reference point."""

    def __init__(self, problem: Problem, reference: Parameters) -> None:
        self.problem, self.reference = problem, reference
        self.root: FloatArray = np.asarray(np.linalg.cholesky(reference.covariances), dtype=np.float64)
        self._unroot = triangular_inverse(self.root)
        n_clusters, dim = reference.means.shape
        n_focal = len(reference.weights)
        self._cuts = (n_focal, n_focal + n_clusters * dim)
        self._shape = (n_clusters, dim)
        self._upper = np.triu_indices(dim) if problem.covariance == "EEE" else (np.arange(dim), np.arange(dim))
        self._on_diagonal = self._upper[0] == self._upper[1]
        weight = problem.moments.weight
        self._information = np.where(self._on_diagonal, 2 * weight, weight)

    def vector(self, point: Point) -> FloatArray:
        """Coordinates of a point's parameters."""
        params = point.params
        entries = (self.root.T @ point.model.factors)[self._upper]
        entries[self._on_diagonal] = np.log(entries[self._on_diagonal])
        return np.concatenate([np.sqrt(params.weights), (params.means @ self._unroot.T).ravel(), entries])

    def params(self, vector: FloatArray) -> Parameters:
        """Parameters at the coordinates."""
        roots, means, entries = self._split(vector)
        inverse = self.root @ triangular_inverse(self._factor(entries).T)
        return Parameters(roots**2 / (roots @ roots), means @ self.root.T, inverse @ inverse.T)

    def gradient(self, vector: FloatArray, point: Point) -> FloatArray:
        """Gradient of the objective from the statistics of a pass at `vector`."""
        problem, statistics = self.problem, point.statistics
        weight = problem.moments.weight
        roots, _, entries = self._split(vector)
        norm = np.sqrt(roots @ roots)
        unit = roots / norm
        # A set at weight zero stays there: its slope is zero, whatever the round-off in its count.
        ratio = np.divide(statistics.set_counts, unit, out=np.zeros_like(unit), where=unit != 0)
        slopes = (2.0 / norm) * (ratio - weight * unit)
        factor = self._factor(entries)
        residual = statistics.cluster_sums - overlap_matrix(statistics.set_counts, problem.shares) @ point.params.means
        means = (residual @ self._unroot.T) @ factor @ factor.T
        scatter = residual_scatter(statistics, problem.moments, problem.shares, point.params.means)
        spread = self._unroot @ (scatter + np.diag(weight * problem.ridge)) @ self._unroot.T
        inverse = triangular_inverse(factor.T)
        changes = ((weight * inverse @ inverse.T - spread) @ factor)[self._upper]
        changes[self._on_diagonal] *= np.diagonal(factor)
        return np.concatenate([slopes, means.ravel(), changes])

    def precondition(self, vector: FloatArray, point: Point, gradient: FloatArray) -> FloatArray:
        """Inverse complete-data information times a gradient: EM's step, to first order."""
        slopes, means, entries = self._split(gradient)
        overlap = overlap_matrix(point.statistics.set_counts, self.problem.shares)
        inverse = triangular_inverse(self._factor(self._split(vector)[2]).T)
        moved = dposv(overlap, means)[1] @ inverse @ inverse.T
        return np.concatenate([slopes / (4 * self.problem.moments.weight), moved.ravel(), entries / self._information])

    def _split(self, vector: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        first, second = self._cuts
        return vector[:first], vector[first:second].reshape(self._shape), vector[second:]

    def _factor(self, entries: FloatArray) -> FloatArray:
        factor = np.zeros((self._shape[1], self._shape[1]))
        factor[self._upper] = np.where(self._on_diagonal, np.exp(entries), entries)
        return factor


class QuasiNewton:
    """L-BFGS ascent from a point EM has reached, started with what EM's last steps say about the curvature."""

    def __init__(self, coordinates: Coordinates, vector: FloatArray, gradient: FloatArray, point: Point) -> None:
        self.coordinates = coordinates
        self.pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)
        self._vector, self._gradient, self._point = vector, gradient, point

    @classmethod
    def from_trail(cls, problem: Problem, trail: Sequence[Point]) -> Self:
        """Start at the last of EM's points."""
        coordinates = Coordinates(problem, trail[-1].params)
        vector = coordinates.vector(trail[0])
        newton = cls(coordinates, vector, coordinates.gradient(vector, trail[0]), trail[0])
        for point in trail[1:]:
            newton._move(point, coordinates.vector(point))
        return newton

    def pack(self) -> dict[str, FloatArray]:
        """All of the state as arrays, but for the current point."""
        reference = self.coordinates.reference
        return {
            **reference._asdict(),
            "vector": self._vector,
            "gradient": self._gradient,
            "steps": np.array([step for step, _, _ in self.pairs]),
            "changes": np.array([change for _, change, _ in self.pairs]),
        }

    @classmethod
    def unpack(cls, arrays: Mapping[str, FloatArray], problem: Problem, point: Point) -> Self:
        """The state that was packed."""
        reference = Parameters(*(arrays[name] for name in Parameters._fields))
        newton = cls(Coordinates(problem, reference), arrays["vector"], arrays["gradient"], point)
        for step, change in zip(arrays["steps"], arrays["changes"], strict=True):
            newton.pairs.append((step, change, float(step @ change)))
        return newton

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
        curvature = float(step @ change)
        # Without positive curvature along the step a pair would spoil the model.
        if curvature > 1e-10 * np.sqrt((step @ step) * (change @ change)):
            self.pairs.append((step, change, curvature))
        self._vector, self._gradient, self._point = vector, gradient, point

    def _direction(self, gradient: FloatArray) -> FloatArray:
        """The two-loop recursion."""
        direction = gradient.copy()
        coefficients = []
        for step, change, curvature in reversed(self.pairs):
            a = (step @ direction) / curvature
            direction -= a * change
            coefficients.append(a)
        direction = self.coordinates.precondition(self._vector, self._point, direction)
        for (step, change, curvature), a in zip(self.pairs, reversed(coefficients), strict=True):
            direction += (a - (change @ direction) / curvature) * step
        return direction
