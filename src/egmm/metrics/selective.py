"""Quality of confidence: errors among the surest rows, and whether stated probabilities hold."""

from typing import Any, NamedTuple

import numpy as np

from egmm._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    check_finite_matrix,
    check_integer,
    check_labels,
    check_same_length,
)
from egmm.belief.alignment import match_clusters
from egmm.belief.partition import CredalPartition


class RiskCoverage(NamedTuple):
    """Risk at every coverage.

    Attributes
    ----------
    coverage : ndarray of shape (n_samples,)
        Share of rows that are answered: the surest 1, 2, ..., N rows.
    risk : ndarray of shape (n_samples,)
        Share of errors among them.
    """

    coverage: FloatArray
    risk: FloatArray


class Reliability(NamedTuple):
    """Stated and observed accuracy by bins of confidence; empty bins are left out.

    Attributes
    ----------
    confidence : ndarray of shape (n_bins,)
        Mean probability of the chosen cluster.
    accuracy : ndarray of shape (n_bins,)
        Share of rows in the cluster of their class.
    share : ndarray of shape (n_bins,)
        Share of all rows.
    """

    confidence: FloatArray
    accuracy: FloatArray
    share: FloatArray


class _Answers(NamedTuple):
    is_right: BoolArray
    confidence: FloatArray


def risk_coverage_curve(y_true: Any, partition: Any) -> RiskCoverage:
    r"""Error rate among the surest rows, for every number of rows answered.

    A row's confidence is its largest pignistic probability. Rows of equal confidence have no order: their errors are
    shared equally, so the curve is the mean over all orders.

    .. math:: \mathrm{risk}(n) = \frac{1}{n} \sum_{i \in \text{surest } n} I(y_i \ne \sigma(\hat k_i))

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    partition : CredalPartition or array-like of shape (n_samples, n_clusters)
        Masses, or probabilities of the clusters. Clusters are matched to classes one to one, such that the labels of
        all rows agree most; a cluster without a class is wrong.

    Returns
    -------
    RiskCoverage

    Examples
    --------
    >>> curve = risk_coverage_curve(["a", "a", "b", "b"], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    >>> curve.coverage
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> curve.risk
    array([0.  , 0.  , 0.  , 0.25])
    """
    is_right, confidence = _answers(y_true, partition)
    order = np.argsort(-confidence, kind="stable")
    counts = np.arange(1, len(order) + 1)
    # Errors are known where a group of ties ends; within it they grow evenly.
    ends = np.flatnonzero(np.append(np.diff(confidence[order]) != 0, True)) + 1
    errors = np.cumsum(~is_right[order])[ends - 1]
    return RiskCoverage(counts / len(order), np.interp(counts, [0, *ends], [0, *errors]) / counts)


def aurc(y_true: Any, partition: Any) -> float:
    """Area under the risk-coverage curve: the mean risk over all coverages; lower is better.

    It is small where few rows are wrong and the wrong ones are the least sure.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    partition : CredalPartition or array-like of shape (n_samples, n_clusters)
        Masses, or probabilities of the clusters; see :func:`risk_coverage_curve`.

    Returns
    -------
    float

    References
    ----------
    Y. Geifman, G. Uziel, R. El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, International
    Conference on Learning Representations (2019).

    Examples
    --------
    >>> aurc(["a", "a", "b", "b"], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    0.0625
    """
    return float(risk_coverage_curve(y_true, partition).risk.mean())


def reliability_curve(y_true: Any, partition: Any, *, n_bins: int = 10) -> Reliability:
    """Observed accuracy of the labels against their stated probability, in bins of equal width.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    partition : CredalPartition or array-like of shape (n_samples, n_clusters)
        Masses, or probabilities of the clusters; see :func:`risk_coverage_curve`.
    n_bins : int, default=10
        Bins of the probability from 0 to 1.

    Returns
    -------
    Reliability

    See Also
    --------
    egmm.plotting.plot_calibration : the diagram.

    Examples
    --------
    >>> reliability_curve(["a", "a", "b"], [[0.95, 0.05], [0.95, 0.05], [0.55, 0.45]])
    Reliability(confidence=array([0.55, 0.95]), accuracy=array([0., 1.]), share=array([0.33333333, 0.66666667]))
    """
    is_right, confidence = _answers(y_true, partition)
    check_integer("n_bins", n_bins, 1)
    bins = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    used = counts > 0
    said = np.bincount(bins, confidence, n_bins)[used] / counts[used]
    seen = np.bincount(bins, is_right, n_bins)[used] / counts[used]
    return Reliability(said, seen, counts[used] / len(bins))


def expected_calibration_error(y_true: Any, partition: Any, *, n_bins: int = 10) -> float:
    r"""Mean distance of stated probability and observed accuracy of the labels.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{N}\, |\mathrm{accuracy}_b - \mathrm{confidence}_b|

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    partition : CredalPartition or array-like of shape (n_samples, n_clusters)
        Masses, or probabilities of the clusters; see :func:`risk_coverage_curve`.
    n_bins : int, default=10
        Bins of the probability from 0 to 1.

    Returns
    -------
    float
        0 where every stated probability holds.

    Examples
    --------
    >>> round(expected_calibration_error(["a", "a", "b"], [[0.95, 0.05], [0.95, 0.05], [0.55, 0.45]]), 4)
    0.2167
    """
    said, seen, share = reliability_curve(y_true, partition, n_bins=n_bins)
    return float(share @ np.abs(seen - said))


def _answers(y_true: Any, partition: Any) -> _Answers:
    """Whether each row's likeliest cluster is that of its class, and how likely it was said to be."""
    truth = check_labels("y_true", y_true)
    if isinstance(partition, CredalPartition):
        probability = partition.pignistic()
    else:
        probability = check_finite_matrix("partition", partition, (None, None))
    check_same_length("y_true", truth, "partition", probability)
    labels = probability.argmax(axis=1)
    return _Answers(_class_of(truth, labels, probability.shape[1])[labels] == truth, probability.max(axis=1))


def _class_of(truth: IntArray, labels: IntArray, n_clusters: int) -> IntArray:
    """Class matched to each cluster; numbers beyond the classes for clusters left over."""
    n_columns = max(n_clusters, int(truth.max()) + 1)  # Empty clusters take the classes left over.
    return match_clusters(np.eye(n_columns)[labels], np.eye(n_columns)[truth])[:n_clusters]
