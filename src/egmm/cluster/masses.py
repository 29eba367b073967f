r"""The masses of evidential c-means, shared by all its variants, and costs of rows given by features.

A unit of mass of row i costs :math:`c_j^\alpha D_{ij}` on the set :math:`A_j` of :math:`c_j` clusters, with
:math:`D_{ij}` the squared distance to the set's prototype, and :math:`\delta^2` on the empty set. Arrays here have one
row per focal set and one column per data row, so that every loop runs over contiguous data rows.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from egmm._arrays import NUMPY, beside, namespace
from egmm._checks import LARGEST, FloatArray, check_real
from egmm.belief.focal import FocalSets

Costs: TypeAlias = Callable[[FloatArray], FloatArray]
"""Cost per unit of mass of each row of a block (n, D) on each set, (n_focal, n)."""

ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Relative difference due to rounding."""

NEAR = 1e-4
"""Below this fraction of the squared lengths, a distance has lost digits and is recomputed from differences."""

ZERO = 1e-290
"""Replaces a zero distance: such a set takes all mass, and several share it equally."""

MAX_EXPONENT = 100
"""Largest alpha and beta: beyond practical use, without overflow of powers."""


class Pricing:
    r"""The family of sets, with the empty set or without, and the parameters :math:`\alpha, \beta, \delta`.

    The squared distance of a row to a set of clusters is the mean of those to its clusters, minus a fraction of the
    clusters' variance :math:`s_j = \frac{1}{c_j} \sum_{k \in A_j} |\mu_k - \nu_j|^2` about their mean. The fraction is
    `credit`, one per non-empty set: 1, the default, gives the distance to the mean.
    """

    def __init__(
        self, focal: FocalSets, alpha: float, beta: float, delta: float, credit: FloatArray | None = None
    ) -> None:
        self.focal, self.beta, self.delta = focal, beta, delta
        self.n_empty = int(focal.has_empty)
        """1 if the family begins with the empty set, else 0."""
        self.shares = focal.shares[self.n_empty :]
        """Membership of clusters in the non-empty sets divided by set size, (n_sets, C)."""
        self.sizes = focal.cardinalities[self.n_empty :, None].astype(np.float64) ** alpha
        r""":math:`c_j^\alpha` of the non-empty sets, (n_sets, 1)."""
        self.priced_shares = self.sizes * self.shares
        self.credit = np.ones(len(self.shares)) if credit is None else credit
        """(n_sets,) fraction of the clusters' variance subtracted from a set's mean squared distance."""
        self.is_plain = not (focal.has_empty or focal.is_meta.any())
        """Whether the sets are exactly the singletons."""


def evidential_pricing(
    focal_sets: Any,
    n_clusters: int,
    alpha: Any,
    beta: Any,
    delta: Any,
    credit: Callable[[FloatArray], FloatArray] | None = None,
) -> Pricing:
    """Check the parameters of the evidential objective and add the empty set to the family.

    `credit` maps sizes of non-empty sets to the fraction of the clusters' variance that is subtracted.
    """
    focal = FocalSets.of(focal_sets, n_clusters, empty=True)
    missing = np.flatnonzero(~focal.membership.any(axis=0))
    if missing.size:
        raise ValueError(
            f"focal_sets must cover every cluster, but cluster {missing[0] + 1} (number {missing[0]} "
            "counted from zero) is in no set."
        )
    return Pricing(
        focal,
        check_real("alpha", alpha, 0, MAX_EXPONENT),
        check_beta(beta),
        # Its square is compared with squared distances; neither may overflow.
        check_real("delta", delta, 1e-140, float(LARGEST)),
        None if credit is None else credit(focal.cardinalities[1:].astype(np.float64)),
    )


def check_beta(beta: Any) -> float:
    """Validate the exponent of the masses."""
    return check_real("beta", beta, 1, MAX_EXPONENT, open_minimum=True)


def relative_masses(costs: FloatArray, beta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Optimal masses relative to the largest one, their sums, and the cost.

    With :math:`w_{ij}` the costs and :math:`p = 1/(\beta - 1)`, the masses that minimise
    :math:`J_i = \sum_j m_{ij}^\beta w_{ij}` are

    .. math:: m_{ij} = w_{ij}^{-p} / s_i, \qquad s_i = \sum_j w_{ij}^{-p}, \qquad J_i = s_i^{-1/p}.

    Parameters
    ----------
    costs : ndarray of shape (n_focal, n)
        Positive costs; overwritten.
    beta : float
        Exponent of the masses.

    Returns
    -------
    relative : ndarray of shape (n_focal, n)
        Masses divided by the largest of their column.
    total : ndarray of shape (n,)
        Sums of the columns of `relative`.
    objective : ndarray of shape (n,)
        :math:`J_i`.

    Examples
    --------
    >>> relative, total, objective = relative_masses(np.array([[1.0], [4.0]]), beta=2.0)
    >>> (relative / total).T, objective
    (array([[0.8, 0.2]]), array([0.8]))
    """
    xp = namespace(costs)
    cheapest = xp.min(costs, axis=0)
    # Ratios lie in (0, 1], so no power overflows.
    relative: FloatArray = np.divide(cheapest, costs, out=costs) if xp is NUMPY else cheapest / costs
    if beta != 2:
        relative **= 1 / (beta - 1)
    total = xp.sum(relative, axis=0)
    return relative, total, cheapest / total ** (beta - 1)


def optimal_masses(costs: FloatArray, beta: float) -> FloatArray:
    """Optimal masses, (n_focal, n); `costs` is overwritten.

    >>> optimal_masses(np.array([[1.0], [4.0]]), beta=2.0).T
    array([[0.8, 0.2]])
    """
    relative, total, _ = relative_masses(costs, beta)
    relative /= total
    return relative


def costs_of_sets(to_clusters: FloatArray, spread: FloatArray, pricing: Pricing) -> FloatArray:
    r"""Costs (n_focal, n) from the squared distances (C, n) of the rows to the clusters' prototypes.

    .. math:: |x - \nu_j|^2 = \frac{1}{c_j} \sum_{k \in A_j} |x - \mu_k|^2 - s_j, \qquad
        s_j = \frac{1}{c_j} \sum_{k \in A_j} |\mu_k - \nu_j|^2

    Parameters
    ----------
    to_clusters : ndarray of shape (C, n)
        Squared distances; returned unchanged if the sets are the singletons.
    spread : ndarray of shape (n_sets,)
        The variances :math:`s_j`.
    pricing : Pricing
        The family and its parameters.
    """
    if pricing.is_plain:
        return to_clusters
    if namespace(to_clusters) is not NUMPY:
        return _costs_elsewhere(to_clusters, spread, pricing)
    costs = np.empty((len(pricing.focal), to_clusters.shape[1]))
    costs[: pricing.n_empty] = pricing.delta**2
    to_sets = np.matmul(pricing.priced_shares, to_clusters, out=costs[pricing.n_empty :])
    to_sets -= pricing.sizes * (pricing.credit * spread)[:, None]
    on_prototype = np.flatnonzero(to_sets.min(axis=0) <= ROUNDING * pricing.sizes.max() * to_clusters.max(axis=0))
    if on_prototype.size:
        is_zero = to_sets[:, on_prototype] <= ROUNDING * (pricing.priced_shares @ to_clusters[:, on_prototype])
        to_sets[:, on_prototype] = np.where(is_zero, ZERO * pricing.sizes, to_sets[:, on_prototype])
    return costs


def _costs_elsewhere(to_clusters: Any, spread: FloatArray, pricing: Pricing) -> Any:
    """Costs for arrays of other libraries, which may be read-only: loops over all columns."""
    xp = namespace(to_clusters)
    sizes = beside(to_clusters, pricing.sizes)
    means = beside(to_clusters, pricing.priced_shares) @ to_clusters
    to_sets = means - beside(to_clusters, pricing.sizes * (pricing.credit * spread)[:, None])
    to_sets = xp.where(to_sets <= ROUNDING * means, ZERO * sizes, to_sets)
    to_empty = xp.full_like(to_sets[: pricing.n_empty, :], pricing.delta**2)
    return xp.concat([to_empty, to_sets])


class EuclideanCosts:
    """Costs by Euclidean distances to the sets' prototypes, derived from those to the clusters.

    Prototypes and rows are relative to a point among them, so that squared lengths keep their precision.
    """

    def __init__(self, means: FloatArray, pricing: Pricing) -> None:
        self._means, self._pricing = means, pricing
        self._lengths = np.einsum("kd,kd->k", means, means)[:, None]
        between = means - (pricing.shares @ means)[:, None, :]
        self._spread: FloatArray = np.einsum("jk,jkd,jkd->j", pricing.shares, between, between)

    def __call__(self, columns: FloatArray, lengths: FloatArray) -> FloatArray:
        """Costs (n_focal, n) of rows given as columns (D, n), and their squared lengths (n,)."""
        return costs_of_sets(self._to_clusters(columns, lengths), self._spread, self._pricing)

    def _to_clusters(self, columns: FloatArray, lengths: FloatArray) -> FloatArray:
        """One matrix product; distances that lose precision are recomputed from differences."""
        xp = namespace(columns)
        squared: FloatArray = beside(columns, -2 * self._means) @ columns
        squared += beside(columns, self._lengths)
        squared += lengths
        is_near = xp.min(squared, axis=0) <= NEAR * (lengths + float(self._lengths.max()))
        if xp.any(is_near):
            near = xp.nonzero(is_near)[0]
            gaps = xp.take(columns, near, axis=1)[:, None, :] - beside(columns, self._means).T[:, :, None]
            if xp is NUMPY:
                squared[:, near] = np.maximum(np.einsum("dkn,dkn->kn", gaps, gaps), ZERO)
            else:
                exact = xp.sum(gaps * gaps, axis=0)
                at = xp.cumulative_sum(xp.astype(is_near, near.dtype)) - 1
                exact = xp.take(exact, xp.where(is_near, at, 0), axis=1)
                squared = xp.where(is_near, xp.where(exact < ZERO, ZERO, exact), squared)
        return squared


def euclidean(means: FloatArray, pricing: Pricing) -> Costs:
    """Costs by Euclidean distances to the sets' prototypes.

    >>> costs = euclidean(np.array([[0.0, 0.0], [2.0, 0.0]]), evidential_pricing("full", 2, 1, 2, 10))
    >>> costs(np.array([[1.0, 1.0]])).T
    array([[100.,   2.,   2.,   2.]])
    """
    centre = means.mean(axis=0)
    centred = EuclideanCosts(means - centre, pricing)

    def costs(X: FloatArray) -> FloatArray:
        if namespace(X) is not NUMPY:
            columns = X.T - beside(X, centre[:, None])
            return centred(columns, namespace(X).sum(columns * columns, axis=0))
        columns = np.subtract(X.T, centre[:, None], order="C")
        return centred(columns, np.einsum("dn,dn->n", columns, columns))

    return costs


def mahalanobis(means: FloatArray, metrics: FloatArray, pricing: Pricing) -> Costs:
    r"""Costs by distances :math:`(x - \nu_j)^\top S_j (x - \nu_j)`, :math:`S_j` the mean of the members' metrics.

    >>> metrics = np.array([np.diag([2.0, 0.5]), np.eye(2)])
    >>> costs = mahalanobis(np.array([[0.0, 0.0], [2.0, 0.0]]), metrics, evidential_pricing("full", 2, 1, 2, 10))
    >>> costs(np.array([[1.0, 1.0]])).T
    array([[100. ,   2.5,   2. ,   1.5]])
    """
    shares, sizes = pricing.shares, pricing.sizes
    prototypes = shares @ means
    factors = np.linalg.cholesky(np.tensordot(sizes * shares, metrics, axes=1))

    def costs(X: FloatArray) -> FloatArray:
        out = np.full((len(pricing.focal), len(X)), pricing.delta**2)
        for row, prototype, factor in zip(out[pricing.n_empty :], prototypes, factors, strict=True):
            scaled = (X - prototype) @ factor
            np.einsum("nd,nd->n", scaled, scaled, out=row)
        np.maximum(out, ZERO, out=out)
        return out

    return costs
