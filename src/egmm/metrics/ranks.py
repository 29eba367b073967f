"""Comparison of algorithms over several data sets by ranks."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, chdtri, ndtri
from scipy.stats import rankdata

from egmm._checks import FloatArray, check_integer, check_real, check_unmasked


class FriedmanResult(NamedTuple):
    r"""Result of the Friedman test.

    Attributes
    ----------
    statistic : float
        Friedman's :math:`\chi^2_F`.
    critical_value : float
        Quantile of the chi-squared distribution it is compared with.
    p_value : float
        p-value: probability of a larger statistic if all algorithms are equal.
    average_ranks : ndarray of shape (n_algorithms,)
        Average ranks; 1 for an algorithm that is always best.

    Examples
    --------
    >>> friedman_test([[0.9, 0.8], [0.7, 0.6], [0.5, 0.4], [0.8, 0.1]]).statistic
    4.0
    """

    statistic: float
    critical_value: float
    p_value: float
    average_ranks: FloatArray

    @property
    def is_significant(self) -> bool:
        """Whether the statistic exceeds the critical value.

        >>> friedman_test([[0.9, 0.8], [0.7, 0.6], [0.5, 0.4], [0.8, 0.1]]).is_significant
        True
        """
        return self.statistic > self.critical_value


def rank_scores(scores: Any, *, higher_is_better: bool = True) -> FloatArray:
    """Rank the algorithms on each data set, 1 for the best; ties share their average rank, missing scores rank last.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_algorithms)
        One row per data set. NaN: the algorithm has no result there.
    higher_is_better : bool, default=True
        False for errors and times.

    Returns
    -------
    ndarray of shape (n_datasets, n_algorithms)

    Examples
    --------
    >>> rank_scores([[0.7, 0.9, 0.7], [0.5, float("nan"), 0.4]])
    array([[2.5, 1. , 2.5],
           [1. , 3. , 2. ]])
    """
    table = _check_scores(scores)
    cost = -table if higher_is_better else table
    return np.asarray(rankdata(np.where(np.isnan(cost), np.inf, cost), axis=1), dtype=np.float64)


def average_ranks(scores: Any, *, higher_is_better: bool = True) -> FloatArray:
    r"""Average rank :math:`R_j = \frac{1}{N} \sum_i r_{ij}` of each algorithm over the data sets.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_algorithms)
        One row per data set. NaN: the algorithm has no result there and ranks last.
    higher_is_better : bool, default=True
        False for errors and times.

    Returns
    -------
    ndarray of shape (n_algorithms,)

    Examples
    --------
    >>> average_ranks([[0.7, 0.9, 0.7], [0.5, float("nan"), 0.4]])
    array([1.75, 2.  , 2.25])
    """
    return np.asarray(rank_scores(scores, higher_is_better=higher_is_better).mean(axis=0), dtype=np.float64)


def friedman_statistic(average_ranks: Any, n_datasets: int) -> float:
    r"""Friedman's statistic from average ranks, without a correction for ties.

    .. math:: \chi^2_F = \frac{12 N}{k (k + 1)} \Big[\sum_j R_j^2 - \frac{k (k + 1)^2}{4}\Big]

    Parameters
    ----------
    average_ranks : array-like of shape (n_algorithms,)
        :math:`R_j`, the average ranks of the :math:`k` algorithms.
    n_datasets : int
        :math:`N`, the number of data sets.

    Returns
    -------
    float

    Examples
    --------
    >>> round(friedman_statistic([5.32, 5.75, 5.63, 3.06, 3.38, 3.25, 1.62], 8), 2)
    25.78
    """
    mean = np.asarray(average_ranks, dtype=np.float64)
    check_integer("n_datasets", n_datasets, 1)
    if mean.ndim != 1 or mean.size < 2 or not np.isfinite(mean).all():
        raise ValueError(f"average_ranks must be a finite vector of at least 2 ranks, got {average_ranks!r}.")
    k = mean.size
    return float(12 * n_datasets / (k * (k + 1)) * (np.square(mean).sum() - k * (k + 1) ** 2 / 4))


def friedman_critical_value(n_algorithms: int, alpha: float = 0.05) -> float:
    r"""Quantile :math:`\chi^2_{k-1, 1-\alpha}` that Friedman's statistic exceeds when the algorithms differ.

    Parameters
    ----------
    n_algorithms : int
        :math:`k`, at least 2.
    alpha : float, default=0.05
        Significance level.

    Returns
    -------
    float

    Examples
    --------
    >>> round(friedman_critical_value(7), 2), round(friedman_critical_value(8), 2)
    (12.59, 14.07)
    """
    check_integer("n_algorithms", n_algorithms, 2)
    return float(chdtri(n_algorithms - 1, check_real("alpha", alpha, 0.0, 1.0, open_minimum=True)))


def friedman_test(scores: Any, alpha: float = 0.05, *, higher_is_better: bool = True) -> FriedmanResult:
    """Friedman test of whether algorithms differ, from their ranks on the same data sets.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_algorithms)
        One row per data set. NaN: the algorithm has no result there and ranks last.
    alpha : float, default=0.05
        Significance level.
    higher_is_better : bool, default=True
        False for errors and times.

    Returns
    -------
    FriedmanResult

    See Also
    --------
    friedman_statistic : the formula.

    Examples
    --------
    >>> friedman_test([[3, 2, 1], [9, 8, 7], [5, 4, 3]]).average_ranks
    array([1., 2., 3.])
    """
    table = _check_scores(scores)
    mean = average_ranks(table, higher_is_better=higher_is_better)
    statistic = friedman_statistic(mean, len(table))
    critical = friedman_critical_value(mean.size, alpha)
    return FriedmanResult(statistic, critical, float(chdtrc(mean.size - 1, max(statistic, 0.0))), mean)


def bonferroni_dunn_difference(n_algorithms: int, n_datasets: int, alpha: float = 0.05) -> float:
    r"""Critical difference of average ranks for comparing one algorithm with all others.

    .. math:: \mathrm{CD} = z_{\alpha / (2 (k - 1))} \sqrt{\frac{k (k + 1)}{6 N}}

    with :math:`z_p` the upper quantile of the standard normal distribution.

    Parameters
    ----------
    n_algorithms : int
        :math:`k`, including the compared one.
    n_datasets : int
        :math:`N`.
    alpha : float, default=0.05
        Family-wise significance level.

    Returns
    -------
    float

    References
    ----------
    J. Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7 (2006) 1-30.

    Examples
    --------
    >>> round(bonferroni_dunn_difference(7, 8), 3)
    2.85
    """
    k = check_integer("n_algorithms", n_algorithms, 2)
    check_integer("n_datasets", n_datasets, 1)
    tail = check_real("alpha", alpha, 0.0, 1.0, open_minimum=True) / (2 * (k - 1))
    return float(-ndtri(tail) * np.sqrt(k * (k + 1) / (6 * n_datasets)))


def _check_scores(scores: Any) -> FloatArray:
    check_unmasked("scores", scores, "write NaN where a score is missing")
    table = np.asarray(scores)
    if table.dtype.kind not in "fiub":
        raise TypeError(f"scores must be numeric (NaN where missing), got an array of dtype {table.dtype}.")
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 2:
        raise ValueError(f"scores must have shape (n_datasets >= 1, n_algorithms >= 2), got {table.shape}.")
    table = table.astype(np.float64)
    if np.isinf(table).any():
        raise ValueError("scores must be finite or NaN (missing), got an infinite one.")
    return table
