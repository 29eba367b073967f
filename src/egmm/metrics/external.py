"""Agreement of a hard partition with known classes."""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from egmm._checks import FloatArray, IntArray, check_labels, check_same_length


def purity(y_true: Any, labels: Any) -> float:
    r"""Share of rows whose class is the majority class of their cluster.

    .. math:: \mathrm{Purity}(\Omega, \mathbb{Q}) = \frac{1}{N} \sum_{k=1}^{C} \max_j |\omega_k \cap q_j|

    Purity grows with the number of clusters: compare only partitions with the same number of clusters.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes :math:`q_j`, numbers or text.
    labels : array-like of shape (n_samples,)
        Clusters :math:`\omega_k`, numbers or text.

    Returns
    -------
    float
        In (0, 1].

    Examples
    --------
    >>> purity(["a", "a", "b", "b"], [0, 0, 0, 1])
    0.75
    """
    counts = contingency(*check_clusterings(y_true, labels))
    return float(counts.max(axis=0).sum() / counts.sum())


def nmi(y_true: Any, labels: Any) -> float:
    r"""Mutual information of clusters and classes, divided by the arithmetic mean of their entropies.

    .. math:: \mathrm{NMI}(\Omega, \mathbb{Q}) = \frac{I(\Omega; \mathbb{Q})}{[H(\Omega) + H(\mathbb{Q})]/2}

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    labels : array-like of shape (n_samples,)
        Clusters, numbers or text.

    Returns
    -------
    float
        In [0, 1]; 1 also when there is one cluster and one class.

    Examples
    --------
    >>> nmi(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    """
    return float(normalized_mutual_info_score(*check_clusterings(y_true, labels), average_method="arithmetic"))


def ari(y_true: Any, labels: Any) -> float:
    r"""Adjusted Rand index: agreement on pairs of rows, corrected for chance.

    .. math:: \mathrm{ARI} = \frac{2(TP \cdot TN - FP \cdot FN)}{(TN + FP)(FP + TP) + (TN + FN)(FN + TP)}

    over the pairs of rows: together in both (TP), in neither (TN), in the clusters only (FP), in the classes only (FN).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    labels : array-like of shape (n_samples,)
        Clusters, numbers or text.

    Returns
    -------
    float
        1 for equal partitions, 0 on average for random ones; it can be negative.

    Examples
    --------
    >>> ari(["a", "a", "b", "b"], [0, 0, 1, 1])
    1.0
    >>> ari(["a", "a", "b", "b"], [0, 1, 0, 1])
    -0.5
    """
    return float(adjusted_rand_score(*check_clusterings(y_true, labels)))


def matched_accuracy(y_true: Any, labels: Any) -> float:
    r"""Accuracy under the best one-to-one matching of clusters to classes.

    .. math:: \max_{\sigma} \frac{1}{N} \sum_k |\omega_k \cap q_{\sigma(k)}|

    Unmatched clusters or classes count as errors.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    labels : array-like of shape (n_samples,)
        Clusters, numbers or text.

    Returns
    -------
    float
        In (0, 1], at most the purity.

    Examples
    --------
    >>> matched_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    counts = contingency(*check_clusterings(y_true, labels))
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / counts.sum())


def check_clusterings(y_true: Any, labels: Any) -> tuple[IntArray, IntArray]:
    """Encode two labellings of the same rows as 0, 1, ..., in the order of the sorted labels."""
    truth, clusters = check_labels("y_true", y_true), check_labels("labels", labels)
    check_same_length("y_true", truth, "labels", clusters)
    return truth, clusters


def contingency(truth: IntArray, clusters: IntArray) -> FloatArray:
    """Count the rows of each class (rows) in each cluster (columns), from codes."""
    shape = (int(truth.max()) + 1, int(clusters.max()) + 1)
    return np.bincount(truth * shape[1] + clusters, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def rand_matrix(labels: IntArray, weights: FloatArray) -> FloatArray:
    """Adjusted Rand index of every pair of labellings, given as codes (K, n), with row weights (n,).

    The rows of a pair are drawn with replacement, so that weights need not be counts.

    Examples
    --------
    >>> rand_matrix(np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]]), np.ones(4))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    member = (labels[:, None, :] == np.arange(labels.max() + 1)[:, None]).astype(np.float64)
    shape = member.shape[:2]
    flat = member.reshape(-1, labels.shape[1])
    joint = (flat * (weights / weights.sum())) @ flat.T
    together = (joint**2).reshape(*shape, *shape).sum(axis=(1, 3))
    own = together.diagonal()
    chance, most = np.outer(own, own), 0.5 * (own + own[:, None])
    # Two labellings with a single cluster agree; correcting for chance would leave only rounding error.
    is_open = most - chance > 1e-9
    return np.where(is_open, (together - chance) / np.where(is_open, most - chance, 1.0), 1.0)
