r"""Quasi-Newton steps for EM that crawls, at one pass each.

The gradient of the log-likelihood comes free with the statistics (Fisher's identity), and the complete-data
information, whose inverse turns the gradient into EM's own step, is known in closed form. L-BFGS with that inverse as
its initial matrix is EM to first order and learns the rest from the steps taken (Jamshidian and Jennrich 1997, QN2).

Coordinates are :math:`s_j` with :math:`\pi_j = s_j^2 / |s|^2` (information 4N, and a weight that vanishes is an
ordinary stationary point at zero, where logits would run away to minus infinity), the means in standard deviations of
the point where the phase began, and the precisions as in `egmm.em.precisions`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dtrtrs

from egmm._checks import FloatArray
from egmm.em.covariance import SHARED
from egmm.em.parameters import Parameters, is_single
from egmm.em.precisions import precision_coordinates
from egmm.em.prior import certainty_counts
from egmm.em.problem import Point, Problem
from egmm.em.slopes import MeansInformation, covariance_counts, slopes

MEMORY = 40
"""Pairs of steps and gradient changes remembered. Parameters are few, so this is close to full BFGS."""

SUFFICIENT = 1e-4
"""Share of the gain a linear model promises that a step must deliver (Armijo)."""


class Coordinates:
    """The map between parameters and the vector quasi-Newton works on, about a reference point."""

    def __init__(self, problem: Problem, reference: Parameters) -> None:
        self.problem, self.reference = problem, reference
        covariances = _stacked(reference.covariances)
        self._scales = np.sqrt(np.einsum("kdd->kd", covariances).mean(axis=0))
        self._precisions = precision_coordinates(problem.covariance, covariances)
        n_focal, n_means = len(reference.weights), reference.means.size
        self._cuts = (n_focal, n_focal + n_means)
        # Where no focal set is a single cluster, the weights' prior says nothing.
        self._known = problem.certainty * problem.moments.weight if is_single(problem.shares).any() else 0.0

    def vector(self, point: Point) -> FloatArray:
        """Coordinates of a point's parameters."""
        weights, means, covariances = point.params
        entries = self._precisions.entries(_stacked(covariances))
        return np.concatenate([np.sqrt(weights), (means / self._scales).ravel(), entries])

    def params(self, vector: FloatArray) -> Parameters:
        """Parameters at the coordinates."""
        roots, means, entries = self._split(vector)
        covariances = self._precisions.covariances(entries)
        if self.problem.covariance in SHARED:
            covariances = covariances[0]
        return Parameters(roots**2 / (roots @ roots), means * self._scales, covariances)

    def gradient(self, vector: FloatArray, point: Point) -> FloatArray:
        """Gradient of the objective from the statistics of a pass at `vector`."""
        roots, _, entries = self._split(vector)
        norm = np.sqrt(roots @ roots)
        unit = roots / norm
        # A set at weight zero stays there: its slope is zero, whatever the round-off in its count.
        counts = point.statistics.set_counts + certainty_counts(unit**2, self.problem.shares, self._known)
        ratio = np.divide(counts, unit, out=np.zeros_like(unit), where=unit != 0)
        weights = (2.0 / norm) * (ratio - (self.problem.moments.weight + self._known) * unit)
        means, precisions = slopes(self.problem, point)
        own = self._precisions.gradient(entries, precisions)
        return np.concatenate([weights, (means * self._scales).ravel(), own])

    def information(self, vector: FloatArray, point: Point) -> "Information":
        """Complete-data information at `vector`, whose inverse makes a gradient EM's step, to first order."""
        own = self._precisions.information(self._split(vector)[2], covariance_counts(self.problem, point))
        means = MeansInformation(self.problem, point)
        return Information(4 * (self.problem.moments.weight + self._known), means, self._scales, own)

    def _split(self, vector: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        first, second = self._cuts
        return vector[:first], vector[first:second].reshape(-1, len(self._scales)), vector[second:]


class Information(NamedTuple):
    """The information of the weights, of the means and of the precisions' coordinates."""

    weights: float
    means: MeansInformation
    scales: FloatArray
    precisions: FloatArray

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Inverse information times a gradient."""
        (n_clusters, dim), n_own = self.means.shape, len(self.precisions)
        n_focal = len(gradient) - n_own - n_clusters * dim
        means = gradient[n_focal:-n_own].reshape(n_clusters, dim)
        moved = self.means.solve(means / self.scales) / self.scales
        return np.concatenate([gradient[:n_focal] / self.weights, moved.ravel(), gradient[-n_own:] / self.precisions])


def _stacked(covariances: FloatArray) -> FloatArray:
    """Covariances as (m, D, D), one or one per cluster."""
    return covariances.reshape(-1, *covariances.shape[-2:])


class Memory:
    r"""The last pairs of steps and gradient changes, and what they say about the inverse curvature.

    With steps S and changes Y as rows, L-BFGS's two loops are two triangular solves with
    :math:`R = \operatorname{triu}(S Y^\top)`.
    """

    def __init__(self, size: int) -> None:
        self.steps, self.changes = np.empty((0, size)), np.empty((0, size))
        self.products = np.empty((0, 0))

    def __len__(self) -> int:
        return len(self.steps)

    def append(self, step: FloatArray, change: FloatArray) -> None:
        """Remember a pair, the oldest making room."""
        first = max(0, len(self) + 1 - MEMORY)
        self.steps = np.vstack([self.steps[first:], step])
        self.changes = np.vstack([self.changes[first:], change])
        products = np.zeros((len(self), len(self)))
        products[:-1, :-1] = self.products[first:, first:]
        products[:, -1] = self.steps @ change
        self.products = products

    def direction(self, gradient: FloatArray, precondition: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Inverse curvature times a gradient; `precondition` is the guess the pairs correct."""
        if not len(self):
            return precondition(gradient)
        first = dtrtrs(self.products, self.steps @ gradient)[0]
        curvature, change = self.products[-1, -1], self.changes[-1]
        # Scaled to fit the last pair: the information of meta-clusters is only roughly known.
        scale = curvature / (change @ precondition(change))
        direction = scale * precondition(gradient - first @ self.changes)
        rest = np.diagonal(self.products) * first - self.changes @ direction
        return np.asarray(direction + dtrtrs(self.products, rest, trans=1)[0] @ self.steps)


class QuasiNewton:
    """L-BFGS ascent from a point EM has reached, started with what EM's last steps say about the curvature."""

    def __init__(self, coordinates: Coordinates, vector: FloatArray, gradient: FloatArray, point: Point) -> None:
        self.coordinates = coordinates
        self.memory = Memory(len(vector))
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

    def on_more_rows(self, problem: Problem, point: Point) -> Self:
        """Go on at a point of a problem with more of the same rows: gradients grow with their weight."""
        coordinates = Coordinates(problem, self.coordinates.reference)
        vector = coordinates.vector(point)
        newton = type(self)(coordinates, vector, coordinates.gradient(vector, point), point)
        growth = problem.moments.weight / self.coordinates.problem.moments.weight
        newton.memory.steps = self.memory.steps
        newton.memory.changes, newton.memory.products = growth * self.memory.changes, growth * self.memory.products
        return newton

    def pack(self) -> dict[str, FloatArray]:
        """All of the state as arrays, but for the current point."""
        return {
            **self.coordinates.reference._asdict(),
            "vector": self._vector,
            "gradient": self._gradient,
            "steps": self.memory.steps,
            "changes": self.memory.changes,
            "products": self.memory.products,
        }

    @classmethod
    def unpack(cls, arrays: Mapping[str, FloatArray], problem: Problem, point: Point) -> Self:
        """The state that was packed."""
        reference = Parameters(*(arrays[name] for name in Parameters._fields))
        newton = cls(Coordinates(problem, reference), arrays["vector"], arrays["gradient"], point)
        memory = newton.memory
        memory.steps, memory.changes, memory.products = arrays["steps"], arrays["changes"], arrays["products"]
        return newton

    def propose(self) -> tuple[FloatArray, float]:
        """Return the step from the current point and its slope; half of the slope is the gain the model predicts."""
        information = self.coordinates.information(self._vector, self._point)
        step = self.memory.direction(self._gradient, information.solve)
        return step, float(step @ self._gradient)

    def em_gain(self) -> float:
        """What EM's own step would gain at least, to second order."""
        information = self.coordinates.information(self._vector, self._point)
        return 0.5 * float(self._gradient @ information.solve(self._gradient))

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
        if step @ change > 1e-10 * np.sqrt((step @ step) * (change @ change)):
            self.memory.append(step, change)
        self._vector, self._gradient, self._point = vector, gradient, point
