"""Searches for prototypes that are rows, or combinations of categories: one cluster after another, never to a worse."""

from typing import NamedTuple, Protocol

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.cluster.descent import Descent, descend
from egmm.cluster.masses import ZERO, Pricing, relative_masses


class MassSums(NamedTuple):
    """Masses of all rows at a state, and the objective."""

    masses: FloatArray
    """(n_focal, n)."""
    objective: float


class Proposals(Protocol):
    """A problem whose prototypes are chosen among finitely many."""

    pricing: Pricing

    def set_distances(self, state: IntArray) -> FloatArray:
        """Distances (n_sets, n) of the rows to the non-empty sets."""

    def proposal(self, sums: MassSums, state: IntArray, cluster: int) -> IntArray:
        """State with a better prototype of one cluster, by the published rule."""


def masses_at(problem: Proposals, state: IntArray) -> MassSums:
    """Masses of least cost: a unit of mass costs its set's size to the power alpha times the distance."""
    return masses_from(problem.set_distances(state), problem.pricing)


def masses_from(to_sets: FloatArray, pricing: Pricing) -> MassSums:
    """Masses of least cost from distances (n_sets, n) to the non-empty sets."""
    relative, total, objective = relative_masses(costs_from(to_sets, pricing), pricing.beta)
    relative /= total
    return MassSums(relative, float(objective.sum()))


def costs_from(to_sets: FloatArray, pricing: Pricing) -> FloatArray:
    """Costs (n_focal, n) from distances (n_sets, n) to the non-empty sets."""
    costs = np.empty((len(pricing.focal), to_sets.shape[1]))
    costs[: pricing.n_empty] = pricing.delta**2
    np.multiply(pricing.sizes, np.maximum(to_sets, ZERO), out=costs[pricing.n_empty :])
    return costs


def singleton_powers(masses: FloatArray, pricing: Pricing) -> FloatArray:
    """Masses (C, n) of the single clusters to the power beta; a cluster that is no set of its own has none."""
    focal = pricing.focal
    columns = focal.columns_of(1 << np.arange(focal.n_clusters))
    powers: FloatArray = np.where(columns[:, None] < 0, 0.0, masses[columns]) ** pricing.beta
    return powers


def search(problem: Proposals, starts: list[IntArray], *, tol: float, max_iter: int) -> Descent[IntArray]:
    """Replace one prototype after another by the one proposed while that lowers the objective; keep the best start.

    The published rules look at the masses of single clusters alone, so that a proposal may raise the objective: it is
    then not taken.
    """

    def update(sums: MassSums, state: IntArray) -> IntArray:
        for cluster in range(problem.pricing.focal.n_clusters):
            proposed = problem.proposal(sums, state, cluster)
            if np.array_equal(proposed, state):
                continue
            found = masses_at(problem, proposed)
            if found.objective < sums.objective:
                sums, state = found, proposed
        return state

    runs = [
        descend(start, lambda state: masses_at(problem, state), update, tol=tol, max_iter=max_iter) for start in starts
    ]
    return min(runs, key=lambda run: run.history[-1])
