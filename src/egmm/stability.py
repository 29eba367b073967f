"""Agreement of fits to subsamples of the rows."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from egmm._checks import FloatArray, IntArray, check_random
from egmm.metrics.external import rand_matrix


class Stability(NamedTuple):
    """Agreement of fits to subsamples of the rows.

    Attributes
    ----------
    ari : float
        Mean adjusted Rand index between the labels of two fits, on all rows.
    n_clusters : ndarray of shape (n_subsamples,)
        Number of clusters of each fit.
    open_share : ndarray of shape (n_subsamples,)
        Share of open rows of each fit.
    """

    ari: float
    n_clusters: IntArray
    open_share: FloatArray

    def __str__(self) -> str:
        counts, shares = self.n_clusters, 100 * self.open_share
        same = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
        return (
            f"Fits to {len(counts)} subsamples: ARI {self.ari:.2f} with each other, {same} clusters, "
            f"{shares.min():.0f} to {shares.max():.0f} % of the rows open (standard deviation {shares.std():.1f})."
        )


def refit_subsamples(
    model: Any, X: FloatArray, weight: FloatArray | None, n_subsamples: int, share: float, rule: str, reward: float
) -> Stability:
    """Fit clones of an estimator to subsamples drawn without replacement, and compare them on all rows."""
    random = check_random(model.random_state)
    labels, counts, shares = [], [], []
    for _ in range(n_subsamples):
        at = np.sort(random.choice(len(X), max(2, round(share * len(X))), replace=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            refit = clone(model).fit(X[at], sample_weight=None if weight is None else weight[at])
        partition = refit.partition(X)
        labels.append(partition.labels())
        counts.append(refit.n_clusters_)
        shares.append(np.average(partition.is_open(rule, reward), weights=weight))
    agreement = rand_matrix(np.array(labels), np.ones(len(X)) if weight is None else weight)
    pairs = agreement[np.triu_indices(n_subsamples, 1)]
    return Stability(float(pairs.mean()), np.array(counts), np.array(shares))
