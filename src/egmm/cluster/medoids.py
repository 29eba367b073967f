"""Search for discrete prototypes (rows or modes), one cluster at a time, never increasing the objective."""

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
    """A problem with finitely many possible prototypes."""

    pricing: Pricing

    def set_distances(self, state: IntArray) -> FloatArray:
        """Distances (n_sets, n) of the rows to the non-empty sets."""

    def proposal(self, sums: MassSums, state: IntArray, cluster: int) -> IntArray:
        """State with a new prototype of one cluster, by the published rule."""


def masses_at(problem: Proposals, state: IntArray) -> MassSums:
    """Optimal masses, with costs of set size to the power alpha times distance."""
    return masses_from(problem.set_distances(state), problem.pricing)


def masses_from(to_sets: FloatArray, pricing: Pricing) -> MassSums:
    """Optimal masses from distances (n_sets, n) to the non-empty sets."""
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
    """Masses (C, n) of the singletons to the power beta; zero for a singleton not in the family."""
    focal = pricing.focal
    columns = focal.columns_of(1 << np.arange(focal.n_clusters))
    powers: FloatArray = np.where(columns[:, None] < 0, 0.0, masses[columns]) ** pricing.beta
    return powers


def search(problem: Proposals, starts: list[IntArray], *, tol: float, max_iter: int) -> Descent[IntArray]:
    """Replace prototypes by their proposals while that lowers the objective; keep the best start.

    The published rules use only the masses of single clusters, so a proposal may raise the objective; it is then
    rejected.
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
