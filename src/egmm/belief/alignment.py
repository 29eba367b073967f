"""Matching the clusters of one partition to those of another, or to classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray, IntArray, check_finite_matrix, check_labels, check_unmasked
from egmm.belief.focal import FocalSets
from egmm.belief.masses import Masses, check_mass, transport


def relabel(mass: FloatArray, focal: FocalSets, permutation: Sequence[int]) -> Masses:
    r"""Rename clusters: cluster :math:`k` becomes :math:`\sigma(k)`, so :math:`m'_i(\sigma(A)) = m_i(A)`.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    permutation : sequence of int
        :math:`\sigma`: the new number of each cluster, counted from zero.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
    focal : FocalSets
        The renamed sets, in the order of their bit masks.

    Examples
    --------
    >>> relabel([[0.2, 0.3, 0.5]], FocalSets.from_sets([{0}, {2}, {0, 2}], 3), [1, 2, 0])
    (array([[0.3, 0.2, 0.5]]), FocalSets({1}, {2}, {1,2}, n_clusters=3))
    """
    mass = check_mass(mass, focal)
    check_unmasked("permutation", permutation)
    order = np.asarray(permutation)
    if (
        order.ndim != 1
        or order.dtype.kind not in "iu"
        or not np.array_equal(np.sort(order), np.arange(focal.n_clusters))
    ):
        raise ValueError(
            f"permutation must hold each number from 0 to {focal.n_clusters - 1} once, got {order.tolist()}."
        )
    # The bits are distinct, so the sum of the members' new bits is the mask of the renamed set.
    masks = focal.membership.astype(np.int64) @ (1 << order.astype(np.int64))
    return transport(mass, masks, focal.n_clusters)


def match_clusters(probabilities: FloatArray, targets: FloatArray) -> IntArray:
    r"""Best one-to-one matching of clusters to classes (Hungarian method).

    .. math:: \sigma = \arg\max_\sigma \sum_k \sum_i p_{ik}\, t_{i\sigma(k)}

    Parameters
    ----------
    probabilities : array-like of shape (n_samples, n_clusters)
        Membership :math:`p_{ik}` of the rows to the clusters, such as the pignistic probabilities.
    targets : array-like of shape (n_samples, n_classes)
        Membership :math:`t_{ic}` to the classes; at most as many classes as clusters.

    Returns
    -------
    permutation : ndarray of shape (n_clusters,)
        Class matched to each cluster. Clusters without a class get the unused numbers, in order.

    Examples
    --------
    >>> match_clusters([[0.9, 0.1, 0], [0, 0, 1]], [[0, 1], [1, 0]])
    array([1, 2, 0])
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  Slow to import; the command's help needs sets.

    ours = check_finite_matrix("probabilities", probabilities, (None, None))
    theirs = check_finite_matrix("targets", targets, (len(ours), None))
    n_clusters, n_classes = ours.shape[1], theirs.shape[1]
    if n_classes > n_clusters:
        raise ValueError(f"The number of classes, {n_classes}, exceeds the number of clusters, {n_clusters}.")
    clusters, classes = linear_sum_assignment(ours.T @ theirs, maximize=True)
    permutation = np.full(n_clusters, -1, dtype=np.int64)
    permutation[clusters] = classes
    permutation[permutation < 0] = np.arange(n_classes, n_clusters)
    return permutation


def indicator(reference: Any, n_clusters: int) -> FloatArray:
    """One-hot encoding of classes, (n_samples, n_classes), with n_classes <= n_clusters.

    Integers from 0 to ``n_clusters - 1`` are taken as class numbers; any other values are numbered in sorted order.

    >>> indicator(["b", "a", "b"], 2)
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """
    check_labels("reference", reference)
    values = np.asarray(reference)
    is_number = values.dtype.kind in "iu" and bool(np.all((values >= 0) & (values < n_clusters)))
    classes = np.arange(n_clusters) if is_number else np.unique(values)
    if len(classes) > n_clusters:
        raise ValueError(f"reference holds {len(classes)} classes, but there are only {n_clusters} clusters.")
    return np.asarray(values[:, None] == classes, dtype=np.float64)
