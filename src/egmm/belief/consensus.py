"""The consensus of several sources about the same rows: where they disagree, mass goes to sets of clusters."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_finite_matrix
from egmm.belief.focal import FocalSets
from egmm.belief.masses import Masses
from egmm.belief.partition import CredalPartition, check_partition


def consensus(sources: Sequence[CredalPartition], weights: Any = None) -> CredalPartition:
    r"""Combine sources: two of them, drawn at random, name a cluster each, and the row belongs to one of the two.

    With weights :math:`w_s` that sum to one and :math:`q_{ik} = \sum_s w_s \mathrm{BetP}^{(s)}_i(\omega_k)`,

    .. math:: m_i(\{\omega_k\}) = q_{ik}^2, \qquad m_i(\{\omega_k, \omega_l\}) = 2\, q_{ik}\, q_{il}.

    So :math:`\mathrm{Bel}_i(A) = q_i(A)^2`, and the pignistic probability is :math:`q_i`, the weighted mean of the
    sources'. Of two clusters, the pair is the heaviest set where :math:`\max_k q_{ik} < 2/3`. Rows on which the sources
    agree surely stay sure; both doubt within the sources and disagreement between them leave a row open.

    Parameters
    ----------
    sources : sequence of CredalPartition
        Partitions of the same rows over the same clusters; :meth:`egmm.CredalPartition.align` matches the clusters.
    weights : array-like of shape (n_sources,), default=None
        Weights of the sources, not all zero; None means equal ones.

    Returns
    -------
    partition : CredalPartition
        Masses on clusters and pairs of clusters.

    See Also
    --------
    combine : rules that take the sources for independent evidence.

    Examples
    --------
    >>> one, other = CredalPartition.from_labels([0, 0], 2), CredalPartition.from_labels([0, 1], 2)
    >>> consensus([one, other]).to_dataframe()
        {1}   {2}  {1,2}
    0  1.00  0.00    0.0
    1  0.25  0.25    0.5
    """
    if len(sources) == 0:
        raise ValueError("sources must hold at least one CredalPartition, got none.")
    first = check_partition("sources[0]", sources[0])
    for at, source in enumerate(sources):
        first.focal_sets.on_frame_of(check_partition(f"sources[{at}]", source).focal_sets)
        if len(source) != len(first):
            raise ValueError(f"sources must have equally many rows, got {len(first)} and {len(source)}.")
    shares = source_shares(weights, len(sources))
    mean = sum(share * source.pignistic() for share, source in zip(shares, sources, strict=True))
    return CredalPartition(*unite_pairs(np.asarray(mean)))


def unite_pairs(probability: FloatArray) -> Masses:
    r"""Masses of the union of two clusters that are drawn independently by these probabilities.

    Parameters
    ----------
    probability : ndarray of shape (n_samples, n_clusters)
        :math:`q_{ik}`; rows sum to one.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
        :math:`q_{ik}^2` and :math:`2 q_{ik} q_{il}`.
    focal : FocalSets
        Clusters and pairs.

    Examples
    --------
    >>> unite_pairs(np.array([[0.5, 0.5], [1.0, 0.0]]))[0]
    array([[0.25, 0.25, 0.5 ],
           [1.  , 0.  , 0.  ]])
    """
    focal = clusters_and_pairs(probability.shape[1])
    members = [sorted(members) for members in focal]
    first = [clusters[0] for clusters in members]
    last = [clusters[-1] for clusters in members]
    mass = probability[:, first] * probability[:, last] * focal.cardinalities
    # Probabilities that sum to one up to rounding give masses that do, exactly.
    return mass / mass.sum(axis=1, keepdims=True), focal


def clusters_and_pairs(n_clusters: int) -> FocalSets:
    """Family of all clusters and pairs of clusters.

    >>> clusters_and_pairs(3).labels
    ('{1}', '{2}', '{1,2}', '{3}', '{1,3}', '{2,3}')
    """
    clusters = range(n_clusters)
    return FocalSets.from_sets([*({k} for k in clusters), *map(set, combinations(clusters, 2))], n_clusters)


def source_shares(weights: Any, n_sources: int) -> FloatArray:
    """Weights of sources, (n_sources,), that sum to one."""
    if weights is None:
        return np.full(n_sources, 1.0 / n_sources)
    given = check_finite_matrix("weights", weights, (n_sources,))
    if (given < 0).any() or given.sum() <= 0:
        raise ValueError(f"weights must be >= 0 and not all zero, got {given.tolist()}.")
    return np.asarray(given / given.sum())
