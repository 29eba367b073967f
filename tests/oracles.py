"""Evidential mixtures the slow and obvious way: loops over rows and frozensets, densities by SciPy.

Nothing here imports the code under test. Clusters are counted from zero; sets come in the order of their bit masks.
"""

from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

Set = frozenset[int]


def family(name: str, n_clusters: int) -> list[Set]:
    """The sets of a named family."""
    clusters = range(n_clusters)
    sizes = {
        "full": range(1, n_clusters + 1),
        "pairs": (1, 2, n_clusters),
        "singletons": (1,),
        "simple": (1, n_clusters),
    }[name]
    sets = {frozenset(s) for s in chain.from_iterable(combinations(clusters, size) for size in sizes)}
    return sorted(sets, key=lambda s: sum(2**k for k in s))


@dataclass(frozen=True)
class Mixture:
    """Sets with their weights, cluster means, and one covariance or one per cluster."""

    sets: list[Set]
    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def component(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of set j's Gaussian: its natural parameters are the average of its members'."""
        members = sorted(self.sets[j])
        if self.covariances.ndim == 2:
            return sum(self.means[k] for k in members) / len(members), self.covariances
        precisions = [np.linalg.inv(self.covariances[k]) for k in members]
        covariance = np.linalg.inv(sum(precisions) / len(members))
        natural = sum(p @ self.means[k] for p, k in zip(precisions, members, strict=True)) / len(members)
        return covariance @ natural, covariance

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """log pi_j N(x_i; nu_j, Sigma_j), (n, M)."""
        joint = np.full((len(X), len(self.sets)), -np.inf)
        for j, weight in enumerate(self.weights):
            if weight > 0:
                mean, covariance = self.component(j)
                joint[:, j] = np.log(weight) + multivariate_normal(mean, covariance).logpdf(X)
        return joint

    def log_densities(self, X: np.ndarray) -> np.ndarray:
        return logsumexp(self.log_joint(X), axis=1)

    def masses(self, X: np.ndarray) -> np.ndarray:
        joint = self.log_joint(X)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def pignistic(self, X: np.ndarray) -> np.ndarray:
        betp = np.zeros((len(X), len(self.means)))
        for row, mass in zip(betp, self.masses(X), strict=True):
            for m, members in zip(mass, self.sets, strict=True):
                for k in members:
                    row[k] += m / len(members)
        return betp

    def log_likelihood(self, X: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        return float(sum(w * value for w, value in zip(weight, self.log_densities(X), strict=True)))

    def ebic(self, X: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
        n = len(X) if sample_weight is None else sum(sample_weight)
        c, d = self.means.shape
        n_parameters = len(self.sets) - 1 + c * d + d * (d + 1) // 2
        return self.log_likelihood(X, sample_weight) - n_parameters * np.log(n) / 2


def m_step(X: np.ndarray, mass: np.ndarray, mixture: Mixture, sample_weight: np.ndarray | None = None) -> Mixture:
    """The paper's updates for one shared covariance, from the masses of rows at `mixture`."""
    mass = mass if sample_weight is None else mass * sample_weight[:, None]
    n_clusters, dim = mixture.means.shape
    n = mass.sum()
    H, B = np.zeros((n_clusters, n_clusters)), np.zeros((n_clusters, dim))
    for x, m in zip(X, mass, strict=True):
        for value, members in zip(m, mixture.sets, strict=True):
            for k in members:
                B[k] += value / len(members) * x
                for other in members:
                    H[k, other] += value / len(members) ** 2
    updated = replace(mixture, weights=mass.sum(axis=0) / n, means=np.linalg.solve(H, B))
    covariance = np.zeros((dim, dim))
    for x, m in zip(X, mass, strict=True):
        for j, value in enumerate(m):
            offset = x - updated.component(j)[0]
            covariance += value / n * np.outer(offset, offset)
    return replace(updated, covariances=covariance)


def start_from_labels(X: np.ndarray, labels: np.ndarray, sets: list[Set]) -> Mixture:
    """The authors' start: group means, equal weights, the unweighted mean of the groups' sample covariances."""
    groups = [X[labels == k] for k in range(max(map(max, sets)) + 1)]
    means = np.array([group.mean(axis=0) for group in groups])
    spreads = [np.cov(group.T) if len(group) > 1 else np.zeros((X.shape[1],) * 2) for group in groups]
    return Mixture(sets, np.full(len(sets), 1 / len(sets)), means, sum(spreads) / len(groups))


def plain_em(
    X: np.ndarray, labels: np.ndarray, sets: list[Set], ridge: float, tol: float
) -> tuple[Mixture, list[float]]:
    """The authors' iteration: stops when the total log-likelihood gains less than `tol`, also when it falls."""
    eye = ridge * np.eye(X.shape[1])
    mixture = start_from_labels(X, labels, sets)
    mixture = replace(mixture, covariances=mixture.covariances + eye)
    history = [mixture.log_likelihood(X)]
    while len(history) < 2 or history[-1] - history[-2] >= tol:
        mixture = m_step(X, mixture.masses(X), mixture)
        mixture = replace(mixture, covariances=mixture.covariances + eye)
        history.append(mixture.log_likelihood(X))
    return mixture, history
