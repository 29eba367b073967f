"""How far apart two mass functions are, row by row and across families over one frame."""

import numpy as np

from egmm._checks import FloatArray
from egmm.belief.focal import MAX_FULL_CLUSTERS, FocalSets
from egmm.belief.masses import Masses, check_source, joint_family
from egmm.belief.moebius import row_blocks
from egmm.belief.transforms import belief


def conflict(first: Masses, second: Masses) -> FloatArray:
    r"""Degree of conflict: the mass of pairs of sets that exclude each other.

    .. math:: K_i = \sum_{A \cap B = \emptyset} m_{1i}(A)\, m_{2i}(B)

    Parameters
    ----------
    first, second : tuple of (array-like of shape (n_samples, n_focal), FocalSets)
        Masses and the sets of their columns.

    Returns
    -------
    degree : ndarray of shape (n_samples,)
        From 0 to 1 (total conflict).

    Examples
    --------
    >>> focal = FocalSets.full(2)
    >>> conflict(([[0.5, 0.1, 0.4]], focal), ([[0, 0.5, 0.5]], focal))
    array([0.25])
    """
    (mass, focal), (other_mass, other) = _checked(first, second)
    excluded = (focal.intersection(other) == 0).astype(np.float64)
    return _row_products(mass @ excluded, other_mass)


def jousselme_distance(first: Masses, second: Masses) -> FloatArray:
    r"""Jousselme's distance, weighted by the overlap of sets.

    .. math:: d_J(m_1, m_2) = \sqrt{\tfrac12 (m_1 - m_2)^\top D\, (m_1 - m_2)}, \qquad
              D_{AB} = \frac{|A \cap B|}{|A \cup B|}, \quad D_{\emptyset\emptyset} = 1

    Parameters
    ----------
    first, second : tuple of (array-like of shape (n_samples, n_focal), FocalSets)
        Masses and the sets of their columns.

    Returns
    -------
    distance : ndarray of shape (n_samples,)
        From 0 to 1.

    Examples
    --------
    >>> focal = FocalSets.full(2)
    >>> jousselme_distance(([[1, 0, 0], [1, 0, 0]], focal), ([[0, 1, 0], [0, 0, 1]], focal)).round(3)
    array([1.   , 0.707])
    """
    (mass, focal), (other_mass, other) = _checked(first, second)
    family = joint_family(focal, other)
    difference = np.zeros((len(mass), len(family)))
    difference[:, family.columns_of(focal.masks)] += mass
    difference[:, family.columns_of(other.masks)] -= other_mass
    squared = 0.5 * _row_products(difference @ _overlap(family), difference)
    # D is positive definite; only rounding can make the square negative.
    return np.sqrt(np.maximum(squared, 0.0))


def belief_distance(first: Masses, second: Masses) -> FloatArray:
    r"""Distance between beliefs, scaled so that two different certain rows are at distance one.

    .. math:: d_B(m_1, m_2) = 2^{1 - C} \sum_{A \ne \emptyset} |\mathrm{Bel}_1(A) - \mathrm{Bel}_2(A)|

    Parameters
    ----------
    first, second : tuple of (array-like of shape (n_samples, n_focal), FocalSets)
        Masses and the sets of their columns; the sum runs over the whole power set.

    Returns
    -------
    distance : ndarray of shape (n_samples,)
        From 0 to 1.

    Examples
    --------
    >>> focal = FocalSets.full(2)
    >>> belief_distance(([[1, 0, 0], [1, 0, 0]], focal), ([[0, 1, 0], [0, 0, 1]], focal))
    array([1. , 0.5])
    """
    (mass, focal), (other_mass, other) = _checked(first, second)
    if focal.n_clusters > MAX_FULL_CLUSTERS:
        raise ValueError(
            f"belief_distance sums over all sets of at most {MAX_FULL_CLUSTERS} clusters, got {focal.n_clusters}; "
            "jousselme_distance sums over the sets of the families."
        )
    everything = FocalSets.full(focal.n_clusters)
    total = np.empty(len(mass))
    for block in row_blocks(len(mass), 2 * len(everything)):
        gap = belief(mass[block], focal, everything) - belief(other_mass[block], other, everything)
        total[block] = np.abs(gap).sum(axis=1)
    return total * 2.0 ** (1 - focal.n_clusters)


def _checked(first: Masses, second: Masses) -> tuple[Masses, Masses]:
    (mass, focal), (other_mass, other) = check_source(first), check_source(second)
    focal.on_frame_of(other)
    if len(mass) != len(other_mass):
        raise ValueError(f"Both sources must have the same number of rows, got {len(mass)} and {len(other_mass)}.")
    return (mass, focal), (other_mass, other)


def _row_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Inner product of each pair of rows."""
    products: FloatArray = np.einsum("ij,ij->i", left, right)
    return products


def _overlap(focal: FocalSets) -> FloatArray:
    """Jaccard similarity of the sets."""
    members = focal.membership.astype(np.float64)
    common = members @ members.T
    union = focal.cardinalities[:, None] + focal.cardinalities - common
    return np.divide(common, union, out=np.ones_like(common), where=union > 0)
