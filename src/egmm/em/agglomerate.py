"""Groups by merging: the hierarchical start of model-based clustering."""

from functools import lru_cache

import numpy as np

from egmm._checks import FloatArray, IntArray


def merged_labels(X: FloatArray, weights: FloatArray, n_clusters: int) -> IntArray:
    r"""Merge rows until `n_clusters` groups are left, each time the two whose union costs least likelihood.

    Groups are spheres of their own size, so the cost of a group of weight :math:`n` and scatter :math:`t` (the sum of
    squared distances to its mean) is

    .. math:: n \log\frac{t + a}{n}

    where :math:`a`, the variance of one feature, keeps single rows from costing minus infinity (Fraley 1998).

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Distinct rows.
    weights : ndarray of shape (n,)
        How often each is there.
    n_clusters : int
        Groups to end with, at most n.

    Returns
    -------
    labels : ndarray of shape (n,)
        From 0, in the order of the groups' first rows.

    References
    ----------
    C. Fraley (1998). Algorithms for model-based Gaussian hierarchical clustering. SIAM J. Sci. Comput. 20, 270-281.

    Examples
    --------
    >>> merged_labels(np.array([[0.0], [1.0], [8.0], [9.0], [9.5]]), np.ones(5), 2)
    array([0, 0, 1, 1, 1])
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    labels = np.arange(len(X))
    for first, second in _merges(X.tobytes(), np.asarray(weights, dtype=np.float64).tobytes(), len(X))[:-n_clusters]:
        labels[labels == second] = first
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


@lru_cache(maxsize=2)
def _merges(rows: bytes, weights: bytes, n_rows: int) -> tuple[tuple[int, int], ...]:
    """All merges until one group is left, and a last one that is none.

    Kept, because the fits of a search, whatever their number of clusters and covariance, start from the same tree.
    """
    groups = _Groups(np.frombuffer(rows).reshape(n_rows, -1), np.frombuffer(weights))
    return (*(groups.merge_cheapest() for _ in range(n_rows - 1)), (0, 0))


class _Groups:
    """Groups under way: a group goes by its first row's number."""

    def __init__(self, X: FloatArray, weights: FloatArray) -> None:
        self.means, self.counts, self.scatters = X.copy(), weights.copy(), np.zeros(len(X))
        offsets = X - np.average(X, axis=0, weights=weights)
        variance = float(weights @ (offsets**2).sum(axis=1)) / (weights.sum() * X.shape[1])
        self.smallest = max(variance, np.finfo(float).tiny)
        # Of each group the cheapest partner further on in the order, so that every pair is looked at once.
        self.prices, self.partners = np.full(len(X), np.inf), np.zeros(len(X), dtype=np.int64)
        for group in range(len(X) - 1):
            self._find_partner(group)

    def merge_cheapest(self) -> tuple[int, int]:
        """Unite the two groups whose union costs least, under the first one's number; return both numbers."""
        first = int(self.prices.argmin())
        second = int(self.partners[first])
        total = self.counts[first] + self.counts[second]
        self.scatters[first] = self._union_scatters(first, slice(second, second + 1))[0]
        self.means[first] += (self.means[second] - self.means[first]) * (self.counts[second] / total)
        self.counts[first], self.counts[second] = total, 0.0
        self.prices[second] = np.inf
        for group in np.flatnonzero(np.isin(self.partners, (first, second)) & np.isfinite(self.prices)):
            self._find_partner(int(group))
        earlier = np.arange(first)
        prices = self._prices(first, slice(0, first))
        better = (prices < self.prices[:first]) & (self.counts[:first] > 0)
        self.prices[earlier[better]], self.partners[earlier[better]] = prices[better], first
        return first, second

    def _find_partner(self, group: int) -> None:
        prices = self._prices(group, slice(group + 1, None))
        if not len(prices):
            return
        cheapest = int(prices.argmin())
        self.prices[group], self.partners[group] = prices[cheapest], group + 1 + cheapest

    def _prices(self, group: int, others: slice) -> FloatArray:
        """What uniting a group with others costs; infinite where the other is gone."""
        counts = self.counts[others]
        with np.errstate(divide="ignore", invalid="ignore"):
            union = _cost(counts + self.counts[group], self._union_scatters(group, others) + self.smallest)
            own = _cost(counts, self.scatters[others] + self.smallest)
        own_group = _cost(self.counts[group], self.scatters[group] + self.smallest)
        return np.where(counts > 0, union - own - own_group, np.inf)

    def _union_scatters(self, group: int, others: slice) -> FloatArray:
        counts = self.counts[others]
        apart = ((self.means[others] - self.means[group]) ** 2).sum(axis=1)
        between = apart * counts * self.counts[group] / (counts + self.counts[group])
        return np.asarray(self.scatters[others] + self.scatters[group] + between)


def _cost(counts: FloatArray, scatters: FloatArray) -> FloatArray:
    return np.asarray(counts * np.log(scatters / counts))
