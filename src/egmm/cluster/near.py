"""Pairs of neighbouring clusters."""

from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition, check_partition


def near_pairs(partition: CredalPartition, n_neighbors: int = 2) -> FocalSets:
    r"""Singletons, pairs of near clusters and the frame, learned from a first partition.

    The similarity of two clusters is :math:`S = \mathrm{Pl}^\top \mathrm{Pl}`; they form a pair if each is among the
    `n_neighbors` nearest of the other. The number of sets is linear in the number of clusters, not quadratic.

    Parameters
    ----------
    partition : CredalPartition
        A first partition, such as that of EVCLUS with simple sets.
    n_neighbors : int, default=2
        Number of neighbours per cluster.

    Returns
    -------
    focal_sets : FocalSets
        For a second fit, which may start from the first partition.

    See Also
    --------
    FocalSets.neighbours : the same for any similarity of clusters.

    Examples
    --------
    >>> rows = [[0.9, 0, 0, 0.1], [0.5, 0.5, 0, 0], [0, 0.9, 0.1, 0], [0, 0.4, 0.6, 0]]
    >>> near_pairs(CredalPartition(rows, FocalSets.simple(3)), 1).labels
    ('{1}', '{2}', '{1,2}', '{3}', '{1,2,3}')
    """
    contour = check_partition("partition", partition).plausibility()
    return FocalSets.neighbours(contour.T @ contour, n_neighbors)
