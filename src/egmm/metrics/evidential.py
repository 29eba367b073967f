r"""Comparison of credal partitions through their pairs of rows.

A credal partition gives a mass function on {same, different} for each pair of rows :math:`i, j`:

- :math:`e_{ij} = 1 - (1 - m_i(\emptyset))(1 - m_j(\emptyset))`, conflict: one of them is in no cluster,
- :math:`s_{ij} = \sum_k m_i(\{\omega_k\}) m_j(\{\omega_k\})`, same cluster,
- :math:`n_{ij} = \sum_{A \cap B = \emptyset,\ A, B \neq \emptyset} m_i(A) m_j(B)`, different clusters,
- the rest is ignorance.

References
----------
T. Denoeux, S. Li, S. Sriboonchitta, Evaluating and comparing soft partitions: an approach based on Dempster-Shafer
theory, IEEE Transactions on Fuzzy Systems 26 (2018) 1231-1244.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray, check_choice, check_same_length
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition, check_partition
from egmm.belief.uncertainty import average_nonspecificity
from egmm.rows.threads import one_blas_thread

_TILE = 256
"""Side of a square tile of pairs, whose arrays of half a megabyte stay in the cache."""

_DISJOINT_COLUMNS = 1024
"""Columns per block of the table of disjoint sets."""


class PairwiseMasses(NamedTuple):
    """Pairwise masses of some rows with others, each (n_rows, n_others); the remainder is ignorance.

    Attributes
    ----------
    conflict : ndarray
        :math:`e_{ij}`, mass of the empty set.
    same : ndarray
        :math:`s_{ij}`, mass of "same cluster".
    different : ndarray
        :math:`n_{ij}`, mass of "different clusters".

    Examples
    --------
    >>> pairs = pairwise_masses(CredalPartition([[1, 0, 0], [0, 0.5, 0.5]], FocalSets.full(2)))
    >>> pairs.different
    array([[0. , 0.5],
           [0.5, 0. ]])
    """

    conflict: FloatArray
    same: FloatArray
    different: FloatArray


def pairwise_masses(
    partition: CredalPartition, rows: slice = slice(None), others: slice = slice(None)
) -> PairwiseMasses:
    r"""Mass functions of pairs of rows on {same cluster, different clusters}.

    .. math:: e_{ij} = 1 - (1 - m_i(\emptyset))(1 - m_j(\emptyset)), \quad
        s_{ij} = \sum_k m_i(\{\omega_k\}) m_j(\{\omega_k\}), \quad
        n_{ij} = \sum_{A \cap B = \emptyset,\ A, B \neq \emptyset} m_i(A) m_j(B)

    Parameters
    ----------
    partition : CredalPartition
        The credal partition.
    rows, others : slice, default=slice(None)
        Rows :math:`i` and :math:`j`. All pairs of N rows take 24 N² bytes; use blocks for large N.

    Returns
    -------
    PairwiseMasses

    Examples
    --------
    >>> pairs = pairwise_masses(CredalPartition([[0.8, 0.2, 0], [0, 0.5, 0.5]], FocalSets.full(2)))
    >>> pairs.same.round(2)
    array([[0.68, 0.1 ],
           [0.1 , 0.25]])
    """
    return _Pairs(check_partition("partition", partition)).block(rows, others)


def ans(partition: CredalPartition) -> float:
    r"""Average normalised nonspecificity of the rows, from 0 (precise) to 1 (vacuous).

    .. math:: \mathrm{ANS} = \frac{1}{N \log_2 C} \sum_i \Big[\sum_{A \neq \emptyset} m_i(A) \log_2 |A|
        + m_i(\emptyset) \log_2 C\Big]

    Parameters
    ----------
    partition : CredalPartition
        The credal partition.

    Returns
    -------
    float
        In [0, 1].

    See Also
    --------
    egmm.belief.average_nonspecificity : the same for masses.

    Examples
    --------
    >>> ans(CredalPartition([[0.5, 0.1, 0.4], [0, 0, 1]], FocalSets.full(2)))
    0.7
    """
    check_partition("partition", partition)
    return average_nonspecificity(partition.mass, partition.focal_sets)


def credal_rand_index(first: CredalPartition, second: CredalPartition, *, distance: str = "conflict") -> float:
    r"""Agreement of two credal partitions of the same rows: one minus the mean distance over pairs of rows.

    .. math:: \mathrm{CRI} = 1 - \frac{2}{N(N-1)} \sum_{i<j} d(m_{ij}, m'_{ij})

    with the pairwise masses :math:`m_{ij}` of `first` and :math:`m'_{ij}` of `second` on {same, different} and

    - ``"conflict"``: :math:`d = e + e' - e e' + s n' + n s'`, the mass the conjunctive rule puts on the empty set,
    - ``"jousselme"``: :math:`d^2 = \frac{1}{2}\big[(\Delta s)^2 + (\Delta n)^2 + \Delta e\,(\Delta s + \Delta n)
      + 2 (\Delta e)^2\big]`, which is Jousselme's distance on this frame,
    - ``"belief"``: :math:`d = \frac{1}{2}(|\Delta e| + |\Delta s| + |\Delta n|)`, half the L1 distance of the belief
      functions.

    For hard partitions all three equal the Rand index. With ``"conflict"``, ignorance never counts as disagreement;
    with the two distances, the index is 1 only for equal pairwise masses. The partitions may have different numbers of
    clusters. Time grows with N² for the distances, with N for the conflict; memory with N.

    Parameters
    ----------
    first, second : CredalPartition
        Partitions of the same rows.
    distance : {'conflict', 'jousselme', 'belief'}, default='conflict'
        Distance that is averaged over the pairs.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> sure = CredalPartition([[1, 0, 0], [1, 0, 0], [0, 1, 0]], FocalSets.full(2))
    >>> vague = CredalPartition([[1, 0, 0], [0, 0, 1], [0, 1, 0]], FocalSets.full(2))
    >>> credal_rand_index(sure, vague)
    1.0
    >>> round(credal_rand_index(sure, vague, distance="belief"), 3)
    0.667
    """
    check_choice("distance", distance, ("conflict", *_DISTANCES))
    check_same_length("first", check_partition("first", first), "second", check_partition("second", second))
    one, other = _Pairs(first), _Pairs(second)
    mean = one.mean_conflict(other) if distance == "conflict" else _mean_distance(one, other, _DISTANCES[distance])
    return _share(1.0 - mean)


def pairwise_nonspecificity(partition: CredalPartition) -> float:
    r"""Mean nonspecificity of the pairwise masses: ignorance about which rows belong together.

    .. math:: \frac{2}{N(N-1)} \sum_{i<j} (1 - s_{ij} - n_{ij})

    conflict and ignorance together, each counting :math:`\log_2 2 = 1`.

    Parameters
    ----------
    partition : CredalPartition
        The credal partition.

    Returns
    -------
    float
        0 for a hard partition, 1 for a vacuous one.

    Examples
    --------
    >>> pairwise_nonspecificity(CredalPartition([[1, 0, 0], [0, 0.5, 0.5]], FocalSets.full(2)))
    0.5
    """
    return _share(_Pairs(check_partition("partition", partition)).mean_nonspecificity())


class _Pairs:
    """Factors of the pairwise masses; each mass is a product of two matrices with one row per object."""

    def __init__(self, partition: CredalPartition) -> None:
        self.focal: FocalSets = partition.focal_sets
        self.mass: FloatArray = partition.mass
        if len(self.mass) < 2:
            raise ValueError(f"partition must have at least 2 rows to form pairs, got {len(self.mass)}.")
        self.single = np.ascontiguousarray(self.mass[:, self.focal.cardinalities == 1])
        self.disjoint = times_disjoint(self.mass, self.focal)
        # Not one minus the other masses: without the empty set, conflict is exactly zero.
        self.clustered = 1.0 - self.mass[:, self.focal.cardinalities == 0].sum(axis=1)

    def block(self, rows: slice, others: slice) -> PairwiseMasses:
        return PairwiseMasses(
            conflict=1.0 - np.multiply.outer(self.clustered[rows], self.clustered[others]),
            same=self.single[rows] @ self.single[others].T,
            different=self.disjoint[rows] @ self.mass[others].T,
        )

    def mean_nonspecificity(self) -> float:
        # The sum of x_i . y_j over all pairs is the product of the sums: no pair is formed.
        same, mass = self.single.sum(axis=0), self.mass.sum(axis=0)
        disjoint = self.disjoint.sum(axis=0)
        itself = np.vdot(self.single, self.single) + np.vdot(self.disjoint, self.mass)
        return 1.0 - _mean_over_pairs(float(same @ same + disjoint @ mass - itself), len(self.mass))

    def mean_conflict(self, other: "_Pairs") -> float:
        # 1 - (e + e' - e e') is a product of four factors, two per row.
        clustered = self.clustered * other.clustered
        agree = float(clustered.sum() ** 2 - clustered @ clustered)
        apart = self._same_here_apart_there(other) + other._same_here_apart_there(self)
        return 1.0 - _mean_over_pairs(agree - apart, len(clustered))

    def _same_here_apart_there(self, other: "_Pairs") -> float:
        """Sum of s_ij n'_ij over all i != j, from sums over rows."""
        sums = self.single.T @ other.mass
        itself = np.square(self.single).sum(axis=1) @ np.einsum("ij,ij->i", other.disjoint, other.mass)
        return float(np.vdot(times_disjoint(sums, other.focal), sums) - itself)


def times_disjoint(matrix: FloatArray, focal: FocalSets) -> FloatArray:
    """Sum the columns of `matrix` over the non-empty sets disjoint from each non-empty set, block by block."""
    filled = focal.masks > 0
    product = np.empty_like(matrix)
    for start in range(0, len(focal), _DISJOINT_COLUMNS):
        columns = slice(start, start + _DISJOINT_COLUMNS)
        apart = (focal.masks[:, None] & focal.masks[None, columns] == 0) & filled[:, None] & filled[None, columns]
        product[:, columns] = matrix @ apart.astype(np.float64)
    return product


def _share(value: float) -> float:
    """Clip to [0, 1]; masses sum to one only up to rounding."""
    return min(max(value, 0.0), 1.0)


def _mean_over_pairs(total: float, n_rows: int) -> float:
    return total / (n_rows * (n_rows - 1))


def _mean_distance(one: _Pairs, other: _Pairs, distance: Callable[..., FloatArray]) -> float:
    """Mean of `distance` over the pairs i < j, by square tiles of the upper triangle."""
    n_rows = len(one.mass)
    tiles = [slice(start, min(start + _TILE, n_rows)) for start in range(0, n_rows, _TILE)]
    total = 0.0
    # The products are too thin for several BLAS threads.
    with one_blas_thread():
        for at, rows in enumerate(tiles):
            for others in tiles[at:]:
                pairs, their_pairs = one.block(rows, others), other.block(rows, others)
                values = distance(*(a - b for a, b in zip(pairs, their_pairs, strict=True)))
                on_diagonal = others is rows
                total += float(values.sum() - np.trace(values)) / 2 if on_diagonal else float(values.sum())
    return _mean_over_pairs(2 * total, n_rows)


def _jousselme(conflict: FloatArray, same: FloatArray, different: FloatArray) -> FloatArray:
    # Jaccard similarities on {same, different}; masses of a difference sum to 0, which eliminates the ignorance.
    square = same * same + different * different + conflict * (same + different + 2 * conflict)
    return np.sqrt(np.maximum(square, 0.0) / 2)


def _belief(conflict: FloatArray, same: FloatArray, different: FloatArray) -> FloatArray:
    return (np.abs(conflict) + np.abs(same) + np.abs(different)) / 2


_DISTANCES: dict[str, Callable[..., FloatArray]] = {"jousselme": _jousselme, "belief": _belief}
