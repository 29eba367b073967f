"""The compared algorithms, fitted with a known number of clusters or with the best of several."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.mixture import GaussianMixture

from egmm._checks import FloatArray, IntArray
from egmm.auto import AutoEGMM
from egmm.belief.partition import CredalPartition
from egmm.cluster import BPEC, ECM, FCM, BootGMM
from egmm.mixture import EGMM
from egmm.selection import select_model

PAPER_MODE = "EGMM, paper mode"
DEFAULTS = "EGMM, our defaults"
BY_EBIC = "EGMM, by EBIC alone"
ONE_MODEL = "EGMM, one covariance"
CONSENSUS = "AutoEGMM"
CONTROL = "GMM with rejection"

MOST_ITERATIONS = 5000
"""Plain EM in the paper's mode is slow; only its tolerance should stop it."""


class Fitted(NamedTuple):
    """A model and the rows it was fitted to."""

    model: Any
    rows: FloatArray

    @property
    def labels(self) -> IntArray:
        """Hard partition: the cluster with the largest pignistic probability."""
        found = getattr(self.model, "labels_", None)
        return np.asarray(self.model.predict(self.rows) if found is None else found)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(getattr(self.model, "means_", getattr(self.model, "cluster_centers_", ())))

    @property
    def partition(self) -> CredalPartition:
        """Credal partition of an evidential algorithm."""
        partition: CredalPartition = self.model.partition(self.rows)
        return partition


Fit = Callable[[FloatArray, Sequence[int], int, int], Fitted]
"""Function from rows, numbers of clusters, seed and bootstrap replicates to a fitted model."""


@dataclass(frozen=True)
class Algorithm:
    """How an algorithm of the paper is run.

    Attributes
    ----------
    printed : str
        The paper's name for it.
    fit : callable
        Fits rows, given numbers of clusters to choose from, seed and bootstrap replicates.
    how : str
        Description.
    is_evidential : bool
        Whether it gives a credal partition with sets of several clusters.
    is_random : bool
        Whether results depend on the seed.
    chooses : bool
        Whether it can choose the number of clusters.
    """

    printed: str
    fit: Fit
    how: str
    is_evidential: bool = False
    is_random: bool = True
    chooses: bool = True


def _hcm(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
    return Fitted(KMeans(counts[0], n_init=1, random_state=seed).fit(X), X)


def _selected(estimator: Any) -> Fit:
    """Fit by a peer's own validity index."""

    def fit(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
        return Fitted(select_model(X, counts, estimator=estimator, random_state=seed, n_jobs=1).best, X)

    return fit


def _gmm(covariance_type: str) -> Fit:
    """Fit scikit-learn's mixture with the lowest BIC."""

    def fit(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
        models = [_gaussian_mixture(X, count, covariance_type, seed) for count in counts]
        return Fitted(models[0] if len(models) == 1 else min(models, key=lambda model: model.bic(X)), X)

    return fit


def _gaussian_mixture(X: FloatArray, count: int, covariance_type: str, seed: int) -> GaussianMixture:
    """Fit from MATLAB's start, as the paper did: rows drawn by k-means++, the features' variances, equal weights."""
    means, _ = kmeans_plusplus(X, count, random_state=seed)
    precision = np.diag(1 / X.var(axis=0))
    return GaussianMixture(
        count,
        covariance_type=covariance_type,
        weights_init=np.full(count, 1 / count),
        means_init=means,
        precisions_init=precision if covariance_type == "tied" else np.tile(precision, (count, 1, 1)),
        max_iter=1000,
    ).fit(X)


def _bootgmm(X: FloatArray, counts: Sequence[int], seed: int, n_bootstrap: int) -> Fitted:
    return Fitted(BootGMM(list(counts), n_bootstrap=n_bootstrap, random_state=seed, n_jobs=1).fit(X), X)


def paper_mode(X: FloatArray, n_clusters: int, seed: int, *, n_init: int = 1, focal_sets: str = "pairs") -> EGMM:
    """Fit EGMM like the authors' code: plain EM from c-means labels, ridge 0.01, total gain below 1e-3."""
    labels = KMeans(n_clusters, n_init=n_init, random_state=seed).fit(X).labels_
    return EGMM(
        n_clusters,
        focal_sets=focal_sets,
        init=labels,
        reg_covar=0.01,
        tol=1e-3 / len(X),
        accelerate=False,
        max_iter=MOST_ITERATIONS,
        engine="numba",
        n_jobs=1,
    ).fit(X)


def _paper_mode(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
    models = [paper_mode(X, count, seed) for count in counts]
    return Fitted(max(models, key=lambda model: model.ebic_), X)


def standardised(X: FloatArray) -> FloatArray:
    """Standardise each column."""
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def _chosen(covariance_by: str) -> Fit:
    """Fit the fourteen covariance models to standardised rows, and choose."""

    def fit(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
        rows = standardised(X)
        found = select_model(rows, counts, "all", covariance_by=covariance_by, random_state=seed, n_jobs=1)
        return Fitted(found.best, rows)

    return fit


def _one_model(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
    rows = standardised(X)
    return Fitted(EGMM(counts[0], random_state=seed, n_jobs=1).fit(rows), rows)


def _consensus(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
    rows = standardised(X)
    return Fitted(AutoEGMM(list(counts), random_state=seed, n_jobs=1).fit(rows), rows)


def _control(X: FloatArray, counts: Sequence[int], seed: int, _: int) -> Fitted:
    rows = standardised(X)
    return Fitted(GaussianMixture(counts[0], n_init=5, random_state=seed).fit(rows), rows)


ALGORITHMS: Mapping[str, Algorithm] = {
    "HCM": Algorithm("HCM", _hcm, "k-means of scikit-learn, one k-means++ start", chooses=False),
    "FCM": Algorithm("FCM", _selected(FCM()), "`FCM` with its defaults; C by MPC"),
    "ECM": Algorithm("ECM", _selected(ECM()), "`ECM` with its defaults; C by ANS", is_evidential=True),
    "BPEC": Algorithm(
        "BPEC",
        _selected(BPEC()),
        "`BPEC` with its defaults; C by the widest gap of the delta-Bel graph; deterministic, so it runs once",
        is_evidential=True,
        is_random=False,
    ),
    "GMM": Algorithm(
        "GMM", _gmm("full"), "scikit-learn's mixture from MATLAB's start, rows drawn by k-means++; C by BIC"
    ),
    "CGMM": Algorithm("CGMM", _gmm("tied"), "the same with one covariance"),
    "bootGMM": Algorithm(
        "bootGMM", _bootgmm, "`BootGMM` with its defaults; C and covariance by BIC", is_evidential=True
    ),
    PAPER_MODE: Algorithm(
        "EGMM",
        _paper_mode,
        "`EGMM` as the authors' code: raw data, pairs, ridge 0.01, one k-means start, plain EM until the total "
        "log-likelihood gains less than 1e-3; C by EBIC",
        is_evidential=True,
    ),
    ONE_MODEL: Algorithm(
        "EGMM", _one_model, "`EGMM` with its defaults, on standardised data", is_evidential=True, chooses=False
    ),
    DEFAULTS: Algorithm(
        "EGMM",
        _chosen("agreement"),
        "`select_model` over the fourteen covariance models, on standardised data: C by EBIC, and of its covariances "
        "the one whose partition agrees best with those of all, the better ones by EBIC counting more",
        is_evidential=True,
    ),
    BY_EBIC: Algorithm(
        "EGMM",
        _chosen("criterion"),
        "the same with the covariance of the best EBIC",
        is_evidential=True,
        chooses=False,
    ),
    CONSENSUS: Algorithm(
        "EGMM",
        _consensus,
        "`AutoEGMM` on standardised data: the consensus of the fourteen covariance models, sets by expected utility "
        "with reward 0.8",
        is_evidential=True,
        chooses=False,
    ),
    CONTROL: Algorithm(
        "GMM",
        _control,
        "scikit-learn's mixture with full covariances and five starts, on standardised data; it rejects as many rows "
        "as are open beside it, those with the least probable labels",
        chooses=False,
    ),
}
"""Algorithms by column name: the paper's seven, four variants of EGMM, the consensus, and the control."""


def fit(name: str, X: FloatArray, counts: Sequence[int], seed: int, n_bootstrap: int) -> Fitted:
    """Fit an algorithm by its name."""
    return ALGORITHMS[name].fit(X, counts, seed, n_bootstrap)
