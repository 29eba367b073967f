"""Proportional conflict redistribution, rule 6."""

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.belief.focal import FocalSets
from egmm.belief.masses import Masses
from egmm.belief.moebius import row_blocks

MAX_PRODUCTS = 1_000_000
"""Limit on enumerated combinations of sets; each conflicting one is redistributed separately."""


def pcr6(sources: Sequence[Masses]) -> Masses:
    r"""Combine conjunctively and give every conflicting product back to its sets in proportion to their masses.

    .. math:: m(A) = \sum_{\cap_s B_s = A} \prod_s m_s(B_s) + \sum_{\cap_s B_s = \emptyset} \prod_s m_s(B_s)
              \frac{\sum_{t: B_t = A} m_t(B_t)}{\sum_t m_t(B_t)}, \qquad A \ne \emptyset

    Parameters
    ----------
    sources : sequence of (ndarray of shape (n_samples, n_focal), FocalSets)
        Normalised mass functions over one frame.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_out)
    focal : FocalSets
        Non-empty intersections and the sets that can be in conflict.

    Examples
    --------
    >>> focal = FocalSets.singletons(2)
    >>> pcr6([(np.array([[0.6, 0.4]]), focal), (np.array([[0.2, 0.8]]), focal)])[0].round(3)
    array([[0.352, 0.648]])
    """
    sources = [_without_empty(number, mass, focal) for number, (mass, focal) in enumerate(sources)]
    families = [focal for _, focal in sources]
    n_products = prod(len(focal) for focal in families)
    if n_products > MAX_PRODUCTS:
        raise ValueError(
            f"rule='pcr6' would enumerate {n_products} combinations of sets; combine fewer sources at a time, use "
            "smaller families, or a rule that sums products such as 'dubois-prade'."
        )
    focal = FocalSets(_reachable(families), families[0].n_clusters)
    out = np.empty((len(sources[0][0]), len(focal)))
    # In short blocks, call overhead per product outweighs the cache.
    for block in row_blocks(len(out), sum(map(len, families)) + len(focal), at_least=1024):
        columns = [mass[block].T.copy(order="C") for mass, _ in sources]
        out[block] = _redistributed(columns, families, focal).T
    out /= out.sum(axis=1, keepdims=True)
    return out, focal


def _without_empty(number: int, mass: FloatArray, focal: FocalSets) -> Masses:
    """Drop the empty set's column, which must not carry mass."""
    if not focal.has_empty:
        return mass, focal
    if mass[:, 0].any():
        raise ValueError(
            f"rule='pcr6' needs normalised masses, but source {number} has mass on the empty set in row "
            f"{np.argmax(mass[:, 0] > 0)}; normalise it first."
        )
    return mass[:, 1:], focal.without_empty()


def _products(families: Sequence[FocalSets]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Every choice of one column per source, with the bit mask of the intersection."""
    masks = [focal.masks.tolist() for focal in families]
    for choice in product(*(range(len(focal)) for focal in families)):
        common = -1
        for source, column in enumerate(choice):
            common &= masks[source][column]
        yield choice, common


def _reachable(families: Sequence[FocalSets]) -> IntArray:
    """Bit masks of the sets that can carry mass."""
    reached: set[int] = set()
    for choice, common in _products(families):
        if common:
            reached.add(common)
        else:
            reached.update(int(families[source].masks[column]) for source, column in enumerate(choice))
    return np.array(sorted(reached), dtype=np.int64)


def _redistributed(columns: list[FloatArray], families: Sequence[FocalSets], focal: FocalSets) -> FloatArray:
    """Masses of one block, (n_out, rows), from the sources' (n_focal, rows)."""
    out = np.zeros((len(focal), columns[0].shape[1]))
    targets = [focal.columns_of(family.masks) for family in families]
    for choice, common in _products(families):
        parts = [columns[source][column] for source, column in enumerate(choice)]
        weight = reduce(np.multiply, parts)
        if common:
            out[np.searchsorted(focal.masks, common)] += weight
            continue
        total = reduce(np.add, parts)
        # Where all masses are zero, so is the product.
        np.divide(weight, total, out=weight, where=total > 0)
        for source, column in enumerate(choice):
            out[targets[source][column]] += weight * parts[source]
    return out
