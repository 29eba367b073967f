"""Quality of confidence: risk against coverage, and calibration of probabilities."""

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
        Share of rows answered: the 1, 2, ..., N most confident rows.
    risk : ndarray of shape (n_samples,)
        Share of errors among them.
    """

    coverage: FloatArray
    risk: FloatArray


class Reliability(NamedTuple):
    """Predicted and observed accuracy by bins of confidence, without empty bins.

    Attributes
    ----------
    confidence : ndarray of shape (n_bins,)
        Mean probability of the chosen cluster.
    accuracy : ndarray of shape (n_bins,)
        Share of correct rows.
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
    r"""Error rate among the most confident rows, at every coverage.

    A row's confidence is its largest pignistic probability. Errors of tied rows are shared equally: the curve is the
    mean over all orders of ties.

    .. math:: \mathrm{risk}(n) = \frac{1}{n} \sum_{i \in \text{surest } n} I(y_i \ne \sigma(\hat k_i))

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    partition : CredalPartition or array-like of shape (n_samples, n_clusters)
        Masses, or probabilities of the clusters. Clusters are matched one-to-one to classes, maximising the number of
        correct labels; rows of an unmatched cluster are errors.

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
    # Errors are known at the end of each group of ties and interpolated within it.
    ends = np.flatnonzero(np.append(np.diff(confidence[order]) != 0, True)) + 1
    errors = np.cumsum(~is_right[order])[ends - 1]
    return RiskCoverage(counts / len(order), np.interp(counts, [0, *ends], [0, *errors]) / counts)


def aurc(y_true: Any, partition: Any) -> float:
    """Area under the risk-coverage curve: the mean risk over all coverages; lower is better.

    It is small if few rows are wrong and those have low confidence.

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
    """Observed accuracy against predicted probability of the labels, in bins of equal width.

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
    r"""Mean absolute difference of predicted probability and observed accuracy over bins.

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
        0 for perfect calibration.

    Examples
    --------
    >>> round(expected_calibration_error(["a", "a", "b"], [[0.95, 0.05], [0.95, 0.05], [0.55, 0.45]]), 4)
    0.2167
    """
    said, seen, share = reliability_curve(y_true, partition, n_bins=n_bins)
    return float(share @ np.abs(seen - said))


def _answers(y_true: Any, partition: Any) -> _Answers:
    """Whether the most probable cluster of each row is correct, and its probability."""
    truth = check_labels("y_true", y_true)
    if isinstance(partition, CredalPartition):
        probability = partition.pignistic()
    else:
        probability = check_finite_matrix("partition", partition, (None, None))
    check_same_length("y_true", truth, "partition", probability)
    labels = probability.argmax(axis=1)
    return _Answers(_class_of(truth, labels, probability.shape[1])[labels] == truth, probability.max(axis=1))


def _class_of(truth: IntArray, labels: IntArray, n_clusters: int) -> IntArray:
    """Class matched to each cluster; unmatched clusters get numbers beyond the classes."""
    n_columns = max(n_clusters, int(truth.max()) + 1)  # Empty clusters take the unmatched classes.
    return match_clusters(np.eye(n_columns)[labels], np.eye(n_columns)[truth])[:n_clusters]
