"""Starts, passes and updates of the clusterers that move their prototypes: FCM and ECM."""

from functools import partial, reduce
from typing import NamedTuple, Self

import numpy as np

from egmm._checks import FloatArray, check_choice
from egmm.belief.moebius import row_blocks
from egmm.cluster.descent import Descent, descend
from egmm.cluster.masses import ROUNDING, EuclideanCosts, Pricing, relative_masses
from egmm.em.labels import kmeans_labels, random_labels
from egmm.em.sample import Sample
from egmm.rows.array import ArrayRows
from egmm.rows.threads import one_blas_thread

STARTS = {"kmeans": kmeans_labels, "random": random_labels}


class PrototypeSums(NamedTuple):
    """All that an update of the prototypes needs, as sums over rows, and the objective."""

    set_weights: FloatArray
    r"""(n_sets,) :math:`\sum_i c_j^\alpha m_{ij}^\beta`."""
    cluster_sums: FloatArray
    r"""(C, D) :math:`B_k = \sum_i x_i \sum_{j \ni k} c_j^{\alpha-1} m_{ij}^\beta`."""
    objective: float

    def plus(self, other: Self) -> "PrototypeSums":
        """Return the sums over both sets of rows."""
        return PrototypeSums(
            self.set_weights + other.set_weights,
            self.cluster_sums + other.cluster_sums,
            self.objective + other.objective,
        )


def prototype_sums(
    X: FloatArray, sample_weight: FloatArray, lengths: FloatArray, means: FloatArray, pricing: Pricing
) -> PrototypeSums:
    """Masses of a block of rows with squared lengths, reduced to sums."""
    costs, shares = EuclideanCosts(means, pricing), pricing.priced_shares.T
    parts = []
    for block in row_blocks(len(X), len(pricing.focal)):
        relative, total, objective = relative_masses(costs(X[block].T, lengths[block]), pricing.beta)
        powers = relative[pricing.n_empty :] ** pricing.beta
        weight = sample_weight[block] / total**pricing.beta
        parts.append(
            PrototypeSums(
                pricing.sizes[:, 0] * (powers @ weight),
                (shares @ powers * weight) @ X[block],
                float(objective @ sample_weight[block]),
            )
        )
    return reduce(PrototypeSums.plus, parts)


def update_means(sums: PrototypeSums, means: FloatArray, pricing: Pricing) -> FloatArray:
    r"""Prototypes of least cost given the masses: the solution of :math:`H \mu = B`.

    .. math:: H_{kl} = \sum_i \sum_{j \ni k, l} c_j^{\alpha-2} m_{ij}^\beta, \qquad
        B_k = \sum_i x_i \sum_{j \ni k} c_j^{\alpha-1} m_{ij}^\beta

    Where no mass is left to say where a prototype goes, it stays: the step is the shortest one that solves.
    """
    system = (pricing.shares * sums.set_weights[:, None]).T @ pricing.shares
    roots, axes = np.linalg.eigh(system)
    has_mass = roots > ROUNDING * roots[-1]
    axes, roots = axes[:, has_mass], roots[has_mass]
    slope = sums.cluster_sums - system @ means
    moved: FloatArray = means + axes @ (axes.T @ slope / roots[:, None])
    return moved


def fit_prototypes(
    sample: Sample, starts: list[FloatArray], pricing: Pricing, *, tol: float, max_iter: int
) -> Descent[FloatArray]:
    """Minimise the objective from each start and keep the lowest.

    The prototypes move once more after the objective has settled, as in the original implementations, and the masses
    follow them.
    """
    centre = np.average(sample.rows, axis=0, weights=sample.weights)
    # A feature's values lie side by side, so that products and sums run along them.
    rows = np.asfortranarray(sample.rows - centre)
    lengths = np.einsum("nd,nd->n", rows, rows)
    with ArrayRows(rows, sample.weights) as source:
        runs = [
            descend(
                start - centre,
                lambda means: source.reduce(partial(prototype_sums, means=means, pricing=pricing), lengths),
                lambda sums, means: update_means(sums, means, pricing),
                tol=tol,
                max_iter=max_iter,
                repeats=2,
            )
            for start in starts
        ]
    best = min(runs, key=lambda run: run.history[-1])
    return best._replace(state=best.state + centre)


def starting_means(sample: Sample, n_clusters: int, init: str, random: np.random.RandomState) -> FloatArray:
    """Means of the groups that k-means, or random centres, make of the sample."""
    check_choice("init", init, STARTS)
    with one_blas_thread():
        labels = STARTS[init](sample, n_clusters, random)
    weight = np.equal.outer(np.arange(n_clusters), labels) * sample.weights
    means: FloatArray = weight @ sample.rows / weight.sum(axis=1, keepdims=True)
    return means
