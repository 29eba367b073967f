"""Starts, passes and updates of the prototype-based clusterers: FCM, ECM and variants."""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from egmm._arrays import Place, beside, to_host
from egmm._checks import FloatArray, check_choice
from egmm.belief.moebius import row_blocks
from egmm.cluster.descent import Descent, descend
from egmm.cluster.masses import ROUNDING, EuclideanCosts, Pricing, relative_masses
from egmm.em.labels import kmeans_labels, random_labels
from egmm.em.sample import Sample
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.threads import one_blas_thread

ColumnCosts: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Costs (n_focal, n) of rows given as columns (D, n), and their squared lengths (n,)."""

STARTS = {"kmeans": kmeans_labels, "random": random_labels}


NO_SQUARES = np.empty(0)


class PrototypeSums(NamedTuple):
    """Sums over rows for an update of the prototypes, and the objective."""

    set_weights: FloatArray
    r"""(n_sets,) :math:`\sum_i c_j^\alpha m_{ij}^\beta`."""
    cluster_sums: FloatArray
    r"""(C, D) :math:`B_k = \sum_i x_i \sum_{j \ni k} c_j^{\alpha-1} m_{ij}^\beta`."""
    objective: float
    squares: FloatArray = NO_SQUARES
    r"""(D,) :math:`\sum_i x_i^2 \sum_j c_j^\alpha m_{ij}^\beta`, if requested."""

    def plus(self, other: Self) -> "PrototypeSums":
        """Return the sums over both sets of rows."""
        return PrototypeSums(
            self.set_weights + other.set_weights,
            self.cluster_sums + other.cluster_sums,
            self.objective + other.objective,
            self.squares + other.squares,
        )


class Pull(NamedTuple):
    r"""A term :math:`\sum_k w_k |\mu_k - t_k|^2` of the objective that attracts prototypes to given points."""

    weights: FloatArray
    """(C,) the weights."""
    sums: FloatArray
    """(C, D) the points multiplied by their weights."""
    cost: float
    """Value of the term at the current prototypes."""


class PrototypeModel:
    """Objective of FCM and ECM, as needed by a pass and an update of the prototypes.

    A variant overrides `costs` (cost of a row on each set), `pull` (a term of the prototypes), or both.
    """

    def __init__(self, pricing: Pricing) -> None:
        self.pricing = pricing

    def about(self, centre: FloatArray) -> "PrototypeModel":  # noqa: ARG002
        """Return the model in coordinates relative to `centre`."""
        return self

    def costs(self, means: FloatArray) -> ColumnCosts:
        """Return the cost function of rows."""
        return EuclideanCosts(means, self.pricing)

    def pull(self, means: FloatArray) -> Pull | None:  # noqa: ARG002
        """Return the term of the prototypes, if there is one."""
        return None


class PrototypePass(NamedTuple):
    """The pass over one block of rows, for row sources to call; what it needs of the prototypes is small."""

    costs: ColumnCosts
    pricing: Pricing

    def run(self, X: FloatArray, sample_weight: FloatArray, lengths: FloatArray) -> PrototypeSums:
        """Sums of a block."""
        return prototype_sums(X, sample_weight, lengths, self.costs, self.pricing)

    def on(self, where: Place, dtype: Any) -> Self:  # noqa: ARG002
        """The pass over blocks on a device: it takes prototypes along with every block."""
        return self


def prototype_sums(
    X: FloatArray,
    sample_weight: FloatArray,
    lengths: FloatArray,
    costs: ColumnCosts,
    pricing: Pricing,
    *,
    with_squares: bool = False,
) -> PrototypeSums:
    """Masses of a block of rows with squared lengths, reduced to sums."""
    shares = beside(X, pricing.priced_shares.T)
    parts = []
    for block in row_blocks(X.shape[0], len(pricing.focal)):
        rows, row_weight = X[block, ...], sample_weight[block]
        relative, total, objective = relative_masses(costs(rows.T, lengths[block]), pricing.beta)
        powers = relative[pricing.n_empty :, ...] ** pricing.beta
        weight = row_weight / total**pricing.beta
        parts.append(
            PrototypeSums(
                pricing.sizes[:, 0] * to_host(powers @ weight),
                to_host((shares @ powers * weight) @ rows),
                float(objective @ row_weight),
                (pricing.sizes[:, 0] @ powers * weight) @ np.square(rows) if with_squares else NO_SQUARES,
            )
        )
    return reduce(PrototypeSums.plus, parts)


def prototype_system(set_weights: FloatArray, pricing: Pricing) -> FloatArray:
    r"""Matrix H (C, C) of the prototypes' system, from :math:`n_j = \sum_i c_j^\alpha m_{ij}^\beta`.

    .. math:: H_{kl} = \sum_{j \ni k, l} t_j n_j / c_j^2 + [k = l] \sum_{j \ni k} (1 - t_j) n_j / c_j

    with :math:`t_j` the credit of the set, 1 for ECM.
    """
    shared = (pricing.shares * (set_weights * pricing.credit)[:, None]).T @ pricing.shares
    shared[np.diag_indices_from(shared)] += (set_weights * (1 - pricing.credit)) @ pricing.shares
    return shared


def update_means(sums: PrototypeSums, means: FloatArray, pricing: Pricing, pull: Pull | None = None) -> FloatArray:
    r"""Optimal prototypes given the masses: the solution of :math:`H \mu = B`.

    .. math:: B_k = \sum_i x_i \sum_{j \ni k} c_j^{\alpha-1} m_{ij}^\beta

    Uses the minimum-norm step, so that a prototype without mass stays where it is.
    """
    system, target = prototype_system(sums.set_weights, pricing), sums.cluster_sums
    if pull is not None:
        system, target = system + np.diag(pull.weights), target + pull.sums
    roots, axes = np.linalg.eigh(system)
    has_mass = roots > ROUNDING * roots[-1]
    axes, roots = axes[:, has_mass], roots[has_mass]
    slope = target - system @ means
    moved: FloatArray = means + axes @ (axes.T @ slope / roots[:, None])
    return moved


def fit_prototypes(
    sample: Sample,
    starts: list[FloatArray],
    model: PrototypeModel,
    *,
    tol: float,
    max_iter: int,
    where: Place | None = None,
) -> Descent[FloatArray]:
    """Minimise the objective from each start and keep the lowest; passes are made on a device if one is named."""
    centre = np.average(sample.rows, axis=0, weights=sample.weights)
    # Each feature is contiguous, so that products and sums run along it.
    rows = np.asfortranarray(sample.rows - centre)
    lengths = np.einsum("nd,nd->n", rows, rows)
    centred, pricing = model.about(centre), model.pricing

    along = lengths if where is None else where.array(lengths)
    with _source(rows, sample.weights, where) as source:

        def evaluate(means: FloatArray) -> PrototypeSums:
            sums = source.reduce(PrototypePass(centred.costs(means), pricing).run, along)
            pull = centred.pull(means)
            return sums if pull is None else sums._replace(objective=sums.objective + pull.cost)

        def update(sums: PrototypeSums, means: FloatArray) -> FloatArray:
            return update_means(sums, means, pricing, centred.pull(means))

        runs = [descend(start - centre, evaluate, update, tol=tol, max_iter=max_iter) for start in starts]
    best = min(runs, key=lambda run: run.history[-1])
    return best._replace(state=best.state + centre)


def _source(rows: FloatArray, weights: FloatArray, where: Place | None) -> Any:
    return ArrayRows(rows, weights) if where is None else DeviceRows(where.array(rows), weights, where)


def starting_means(sample: Sample, n_clusters: int, init: str, random: np.random.RandomState) -> FloatArray:
    """Means of the clusters of k-means, or of the rows nearest to random rows, on the sample."""
    check_choice("init", init, STARTS)
    with one_blas_thread():
        labels = STARTS[init](sample, n_clusters, random)
    weight = np.equal.outer(np.arange(n_clusters), labels) * sample.weights
    means: FloatArray = weight @ sample.rows / weight.sum(axis=1, keepdims=True)
    return means
