"""Pairs of rows whose conflict EVCLUS fits to dissimilarities: all, or some per row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from egmm._checks import FloatArray, IntArray, check_real
from egmm.belief.moebius import row_blocks
from egmm.cluster.relational.dissimilarities import check_computed, dissimilarities, is_precomputed
from egmm.links import LinkLists

NEAR_CERTAIN = np.log(0.05)
"""Two rows at distance d0 belong to different clusters with degree 0.95."""

D0_QUANTILE = 0.9
"""Quantile of the dissimilarities that is the default of d0."""


class AllPairs(NamedTuple):
    """The targets of all pairs of rows, (n, n)."""

    targets: FloatArray
    often: float = 2.0
    """How often the loss counts a pair: once from either side."""

    @property
    def size(self) -> float:
        """Sum of squared targets over the pairs that the loss counts."""
        return float(np.vdot(self.targets, self.targets))

    def sweep(
        self, disjoint: FloatArray, mass: FloatArray, apart: FloatArray, links: LinkLists, strength: float
    ) -> None:
        """Visit every row."""
        from egmm.cluster.compiled import evclus  # noqa: PLC0415  Numba loads when used.

        evclus.sweep_all_pairs(self.targets, disjoint, mass, apart, tuple(links), strength)

    def loss(self, mass: FloatArray, apart: FloatArray) -> float:
        """Sum of squared differences of conflict and target."""
        from egmm.cluster.compiled import evclus  # noqa: PLC0415

        return float(evclus.loss_of_all_pairs(self.targets, mass, apart))


class ListedPairs(NamedTuple):
    """Pairs of rows, each listed under both rows: those of row i are at ``starts[i]:starts[i + 1]``."""

    starts: IntArray
    others: NDArray[np.int32]
    targets: FloatArray
    often: float = 1.0

    @property
    def size(self) -> float:
        """Sum of squared targets over the pairs that the loss counts."""
        return float(np.vdot(self.targets, self.targets)) / 2

    def sweep(
        self, disjoint: FloatArray, mass: FloatArray, apart: FloatArray, links: LinkLists, strength: float
    ) -> None:
        """Visit every row."""
        from egmm.cluster.compiled import evclus  # noqa: PLC0415

        pairs = (self.starts, self.others, self.targets)
        evclus.sweep_listed_pairs(*pairs, disjoint, mass, apart, tuple(links), strength)

    def loss(self, mass: FloatArray, apart: FloatArray) -> float:
        """Sum of squared differences of conflict and target."""
        from egmm.cluster.compiled import evclus  # noqa: PLC0415

        return float(evclus.loss_of_listed_pairs(self.starts, self.others, self.targets, mass, apart))


def check_d0(d0: Any, distances: FloatArray) -> float:
    """Distance at which rows almost surely belong to different clusters; None: a quantile of the distances."""
    if d0 is not None:
        return check_real("d0", d0, 0, open_minimum=True)
    chosen = float(np.quantile(distances, D0_QUANTILE))
    if chosen > 0:
        return chosen
    largest = float(distances.max())
    if largest > 0:
        return largest
    raise ValueError("All dissimilarities are zero: X has only 1 distinct row, so there are no clusters to find.")


def conflict_targets(distances: FloatArray, d0: float) -> FloatArray:
    r"""Degrees of conflict :math:`\varphi(d) = 1 - e^{\ln(0.05)\, d^2 / d_0^2}` for dissimilarities.

    >>> conflict_targets(np.array([0.0, 2.0]), 2.0)
    array([0.  , 0.95])
    """
    with np.errstate(over="ignore"):  # The target of rows far beyond d0 is 1.
        return -np.expm1(NEAR_CERTAIN * np.square(distances / d0))


def all_pairs(D: FloatArray, d0: Any) -> tuple[AllPairs, float]:
    """All pairs of rows, and the d0 used."""
    chosen = check_d0(d0, D[np.triu_indices(len(D), 1)])
    return AllPairs(conflict_targets(D, chosen)), chosen


def sampled_pairs(
    X: FloatArray, n_pairs: int, metric: Any, d0: Any, random: np.random.RandomState
) -> tuple[ListedPairs, float]:
    """Some pairs of each row, drawn at random, and the d0 used."""
    from egmm.cluster.compiled import evclus  # noqa: PLC0415

    if is_precomputed(metric):
        X = dissimilarities(X, metric)
    others = draw_others(len(X), n_pairs, random)
    distances = distances_to(X, others, metric)
    chosen = check_d0(d0, distances)
    return ListedPairs(*evclus.both_ways(others, conflict_targets(distances, chosen))), chosen


def draw_others(n_rows: int, n_pairs: int, random: np.random.RandomState) -> NDArray[np.int32]:
    """Draw `n_pairs` distinct partners for every row, (n, n_pairs)."""
    drawn = np.empty((n_rows, n_pairs), dtype=np.int32)
    for block in row_blocks(n_rows, n_rows if 2 * n_pairs > n_rows else n_pairs):
        own = np.arange(n_rows)[block, None]
        if 2 * n_pairs > n_rows:
            keys = random.random_sample((len(own), n_rows - 1))
            chosen = np.argpartition(keys, n_pairs - 1, axis=1)[:, :n_pairs]
        else:
            chosen = np.sort(random.randint(n_rows - 1, size=(len(own), n_pairs)), axis=1)
            while (again := chosen[:, 1:] == chosen[:, :-1]).any():
                chosen[:, 1:][again] = random.randint(n_rows - 1, size=int(again.sum()))
                chosen.sort(axis=1)
        # Numbers from the row's own onwards denote the rows after it.
        drawn[block] = chosen + (chosen >= own)
    return drawn


def distances_to(X: FloatArray, others: NDArray[np.int32], metric: Any) -> FloatArray:
    """Dissimilarities of each row to its partners, (n, n_pairs)."""
    if is_precomputed(metric):
        return np.take_along_axis(X, others.astype(np.int64), axis=1)
    found = np.empty(others.shape)
    if isinstance(metric, str) and metric == "euclidean":
        for block in row_blocks(len(X), X.shape[1] * others.shape[1]):
            gaps = X[others[block]] - X[block, None]
            found[block] = np.sqrt(np.einsum("nkd,nkd->nk", gaps, gaps))
        return found
    for i, row in enumerate(others):
        try:
            found[i] = cdist(X[i : i + 1], X[row], metric)[0]
        except ValueError:  # Not one of SciPy's metrics.
            found[i] = pairwise_distances(X[i : i + 1], X[row], metric=metric)[0]
    return check_computed(found, metric, others)
