"""Consensus of several sources on the same rows: disagreement puts mass on sets of clusters."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_finite_matrix
from egmm.belief.focal import FocalSets
from egmm.belief.masses import Masses
from egmm.belief.partition import CredalPartition, check_partition


def consensus(sources: Sequence[CredalPartition], weights: Any = None) -> CredalPartition:
    r"""Combine sources by the union of two random votes.

    With weights :math:`w_s` that sum to one and :math:`q_{ik} = \sum_s w_s \mathrm{BetP}^{(s)}_i(\omega_k)`,

    .. math:: m_i(\{\omega_k\}) = q_{ik}^2, \qquad m_i(\{\omega_k, \omega_l\}) = 2\, q_{ik}\, q_{il}.

    Two clusters are drawn independently from :math:`q_i`; the row belongs to one of them. Hence
    :math:`\mathrm{Bel}_i(A) = q_i(A)^2`, and the pignistic probability is :math:`q_i`, the weighted mean over sources.
    With two clusters, the pair is the heaviest set where :math:`\max_k q_{ik} < 2/3`. A row is sure where the sources
    are certain and agree; uncertainty within sources and disagreement between them both make a row open.

    Parameters
    ----------
    sources : sequence of CredalPartition
        Partitions of the same rows over the same clusters; :meth:`egmm.CredalPartition.align` matches the clusters.
    weights : array-like of shape (n_sources,), default=None
        Weights of the sources, not all zero. None means equal weights.

    Returns
    -------
    partition : CredalPartition
        Masses on clusters and pairs of clusters.

    See Also
    --------
    combine : rules for independent evidence.

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
            raise ValueError(f"sources must have the same number of rows, got {len(first)} and {len(source)}.")
    shares = source_shares(weights, len(sources))
    mean = sum(share * source.pignistic() for share, source in zip(shares, sources, strict=True))
    return CredalPartition(*unite_pairs(np.asarray(mean)))


def unite_pairs(probability: FloatArray) -> Masses:
    r"""Masses of the union of two clusters drawn independently from these probabilities.

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
    # Remove the rounding error of probabilities that sum to one only approximately.
    return mass / mass.sum(axis=1, keepdims=True), focal


def clusters_and_pairs(n_clusters: int) -> FocalSets:
    """Family of all clusters and pairs of clusters.

    >>> clusters_and_pairs(3).labels
    ('{1}', '{2}', '{1,2}', '{3}', '{1,3}', '{2,3}')
    """
    clusters = range(n_clusters)
    return FocalSets.from_sets([*({k} for k in clusters), *map(set, combinations(clusters, 2))], n_clusters)


def source_shares(weights: Any, n_sources: int) -> FloatArray:
    """Source weights normalised to sum to one, (n_sources,)."""
    if weights is None:
        return np.full(n_sources, 1.0 / n_sources)
    given = check_finite_matrix("weights", weights, (n_sources,))
    if (given < 0).any() or given.sum() <= 0:
        raise ValueError(f"weights must be >= 0 and not all zero, got {given.tolist()}.")
    return np.asarray(given / given.sum())
