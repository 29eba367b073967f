"""Agreement of chosen sets of clusters with known classes."""

from typing import Any, NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray, check_labels, check_real, check_same_length, check_unmasked
from egmm.belief.alignment import match_clusters
from egmm.belief.decisions import set_utility
from egmm.belief.partition import CredalPartition


class SetScores(NamedTuple):
    """Agreement of chosen sets with the classes.

    Attributes
    ----------
    coverage : float
        Share of rows whose class is in the chosen set.
    precise_accuracy : float
        Accuracy of sure rows, those with a set of one cluster; NaN if there are none.
    ambiguous : float
        Share of open rows, those with a set of two clusters or more.
    mean_set_size : float
        Mean number of clusters in the chosen sets.
    u65, u80 : float
        Mean discounted utilities, see :func:`discounted_utility`.

    Examples
    --------
    >>> set_scores(["a", "b", "b"], [[True, False], [False, True], [True, True]]).coverage
    1.0
    """

    coverage: float
    precise_accuracy: float
    ambiguous: float
    mean_set_size: float
    u65: float
    u80: float


def set_scores(y_true: Any, sets: Any) -> SetScores:
    """Score chosen sets of clusters against classes, after the best matching of clusters to classes.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    sets : CredalPartition or boolean array-like of shape (n_samples, n_clusters)
        The set chosen for each row; for a credal partition, the one with the largest mass. Use
        ``partition.upper("dominance")`` for the undominated clusters.

    Returns
    -------
    SetScores

    See Also
    --------
    cluster_classes : the matching.

    Examples
    --------
    >>> scores = set_scores(["a", "a", "b", "b"], [[True, False], [True, True], [False, True], [True, False]])
    >>> scores.coverage, round(scores.precise_accuracy, 3), scores.ambiguous, scores.mean_set_size
    (0.75, 0.667, 0.25, 1.25)
    >>> round(scores.u65, 4), round(scores.u80, 4)
    (0.6625, 0.7)
    """
    truth, chosen = _check(y_true, sets)
    size, covered = chosen.sum(axis=1), _covered(truth, chosen)
    precise = size == 1
    return SetScores(
        coverage=float(covered.mean()),
        precise_accuracy=float(covered[precise].mean()) if precise.any() else float("nan"),
        ambiguous=float((size > 1).mean()),
        mean_set_size=float(size.mean()),
        u65=float(_utility(size, covered, 0.65).mean()),
        u80=float(_utility(size, covered, 0.80).mean()),
    )


def coverage(y_true: Any, sets: Any) -> float:
    r"""Share of rows whose class is in the chosen set, after the best matching of clusters to classes.

    .. math:: \frac{1}{N} \sum_i I(y_i \in \sigma(A_i))

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    sets : CredalPartition or boolean array-like of shape (n_samples, n_clusters)
        The set :math:`A_i` chosen for each row; for a credal partition, the one with the largest mass.

    Returns
    -------
    float

    Examples
    --------
    >>> coverage(["a", "a", "b", "b"], [[True, False], [True, True], [False, True], [True, False]])
    0.75
    """
    return set_scores(y_true, sets).coverage


def precise_accuracy(y_true: Any, sets: Any) -> float:
    """Accuracy of sure rows, those with a set of one cluster; NaN if there are none.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    sets : CredalPartition or boolean array-like of shape (n_samples, n_clusters)
        The set chosen for each row; for a credal partition, the one with the largest mass.

    Returns
    -------
    float

    Examples
    --------
    >>> precise_accuracy(["a", "a", "b"], [[True, False], [True, True], [False, True]])
    1.0
    """
    return set_scores(y_true, sets).precise_accuracy


def discounted_utility(y_true: Any, sets: Any, *, reward: float = 0.65) -> float:
    r"""Mean utility of the chosen sets: 1 for the right cluster alone, less for a larger set that contains it.

    .. math:: u = \frac{1}{N} \sum_i g(a_i), \quad a_i = I(y_i \in \sigma(A_i)) / |A_i|, \quad
        g(a) = (2 - 4 r)\, a^2 + (4 r - 1)\, a

    :math:`g(0) = 0`, :math:`g(1) = 1` and :math:`g(1/2) = r`, the utility of a pair that contains the right cluster. A
    random guess between the two scores 1/2 on average, so :math:`r > 1/2` rewards caution: :math:`r = 0.65` is u65,
    :math:`-0.6 a^2 + 1.6 a`, and :math:`r = 0.8` is u80, :math:`-1.2 a^2 + 2.2 a`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    sets : CredalPartition or boolean array-like of shape (n_samples, n_clusters)
        The set :math:`A_i` chosen for each row; for a credal partition, the one with the largest mass.
    reward : float, default=0.65
        :math:`r`, the utility of a pair that contains the right cluster, from 0.5 to 1.

    Returns
    -------
    float

    References
    ----------
    M. Zaffalon, G. Corani, D. Mauá, Evaluating credal classifiers by utility-discounted predictive accuracy,
    International Journal of Approximate Reasoning 53 (2012) 1282-1301.

    Examples
    --------
    >>> discounted_utility(["a", "b"], [[True, False], [True, True]], reward=0.8)
    0.9
    """
    truth, chosen = _check(y_true, sets)
    rate = check_real("reward", reward, 0.5, 1.0)
    return float(_utility(chosen.sum(axis=1), _covered(truth, chosen), rate).mean())


def cluster_classes(y_true: Any, sets: Any) -> IntArray:
    r"""Match each cluster to at most one class, maximising agreement.

    The one-to-one matching :math:`\sigma` with the largest :math:`\sum_k \sum_{i: y_i = \sigma(k)} I(k \in A_i)/|A_i|`:
    each row has weight one, shared equally by the clusters of its set.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes, numbers or text.
    sets : CredalPartition or boolean array-like of shape (n_samples, n_clusters)
        The set :math:`A_i` chosen for each row; for a credal partition, the one with the largest mass.

    Returns
    -------
    ndarray of shape (n_clusters,)
        Index of each cluster's class among the sorted classes; -1 if unmatched.

    See Also
    --------
    egmm.belief.match_clusters : the same for any memberships.

    Examples
    --------
    >>> cluster_classes(["a", "a", "b"], [[False, True], [True, True], [True, False]])
    array([1, 0])
    """
    return _match(*_check(y_true, sets))


def _check(y_true: Any, sets: Any) -> tuple[IntArray, BoolArray]:
    truth = check_labels("y_true", y_true)
    if isinstance(sets, CredalPartition):
        chosen = sets.upper()
    else:
        check_unmasked("sets", sets)
        chosen = np.asarray(sets)
        if chosen.dtype != np.bool_ or chosen.ndim != 2 or chosen.shape[1] == 0:
            raise ValueError(
                "sets must be a CredalPartition or a boolean matrix (n_samples, n_clusters), "
                f"got shape {chosen.shape} of dtype {chosen.dtype}."
            )
    check_same_length("y_true", truth, "sets", chosen)
    return truth, chosen


def _match(truth: IntArray, chosen: BoolArray) -> IntArray:
    n_clusters, n_classes = chosen.shape[1], int(truth.max()) + 1
    shares = np.zeros((len(chosen), max(n_clusters, n_classes)))  # empty clusters take the unmatched classes
    shares[:, :n_clusters] = chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1)
    classes = match_clusters(shares, np.eye(n_classes)[truth])[:n_clusters]
    return np.where(classes < n_classes, classes, -1)


def _covered(truth: IntArray, chosen: BoolArray) -> BoolArray:
    return np.asarray((chosen & (_match(truth, chosen) == truth[:, None])).any(axis=1))


def _utility(size: IntArray, covered: BoolArray, reward: float) -> FloatArray:
    return np.where(covered, set_utility(np.maximum(size, 1), reward), 0.0)
