"""Families of focal sets: which subsets of the clusters may carry mass."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, Self, TypeVar

import numpy as np

from egmm._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_finite_matrix,
    check_integer,
    check_unmasked,
)

MAX_CLUSTERS = 63
"""Sets of clusters are bit masks in signed 64-bit integers."""

MAX_FULL_CLUSTERS = 13
"""Largest frame whose whole power set (8191 sets) is built without an explicit list."""

_A = TypeVar("_A", BoolArray, IntArray, FloatArray)

FAMILIES = ("full", "pairs", "singletons", "simple", "neighbours")


class FocalSets:
    r"""An ordered family of subsets :math:`A_1, \ldots, A_M` of the clusters :math:`\omega_1, \ldots, \omega_C`.

    Sets are sorted by bit mask, bit :math:`k` standing for cluster :math:`k` counted from zero, so the full power
    set of three clusters reads {1}, {2}, {1,2}, {3}, {1,3}, {2,3}, {1,2,3}. Clusters are counted from zero in code,
    like rows of ``means_``, and from one in printed labels. Instances are immutable and hashable.

    Parameters
    ----------
    masks : sequence of int
        Bit masks of the sets. Duplicates are merged; 0 is the empty set.
    n_clusters : int
        Size :math:`C` of the frame, 1 to 63.

    See Also
    --------
    FocalSets.of : build a family from its name or a list of sets.

    Examples
    --------
    >>> FocalSets.pairs(3).labels
    ('{1}', '{2}', '{1,2}', '{3}', '{1,3}', '{2,3}', '{1,2,3}')
    >>> FocalSets.full(2).index_of({0, 1})
    2
    """

    def __init__(self, masks: Sequence[int] | IntArray, n_clusters: int) -> None:
        self._n_clusters = check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
        check_unmasked("masks", masks)
        given = np.asarray(masks)
        if given.size == 0:
            raise ValueError("A family of focal sets needs at least one set, got an empty list.")
        if given.dtype.kind not in "iu" or given.ndim != 1:
            raise TypeError(
                f"masks must be a sequence of integers, got shape {given.shape} of {given.dtype}; "
                "use FocalSets.from_sets for sets of clusters."
            )
        unique = np.unique(given)
        bad = unique[(unique < 0) | (unique > self.frame_mask)]
        if bad.size:
            raise ValueError(
                f"bit mask {bad[0]} is not a subset of {self._n_clusters} clusters (0 to 2**{self._n_clusters} - 1)."
            )
        self._masks: IntArray = _frozen(unique.astype(np.int64))

    # Families ---------------------------------------------------------------------------------------------

    @classmethod
    def full(cls, n_clusters: int, *, empty: bool = False) -> Self:
        """All non-empty subsets: :math:`2^C - 1` sets.

        >>> len(FocalSets.full(3)), len(FocalSets.full(3, empty=True))
        (7, 8)
        """
        n_clusters = check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
        if n_clusters > MAX_FULL_CLUSTERS:
            n_pairs = n_clusters * (n_clusters + 1) // 2 + 1
            raise ValueError(
                f"focal_sets='full' with n_clusters={n_clusters} gives {2**n_clusters - 1} focal sets; "
                f"use 'pairs' ({n_pairs}) or pass a list."
            )
        return cls(np.arange(0 if empty else 1, 1 << n_clusters), n_clusters)

    @classmethod
    def pairs(cls, n_clusters: int, *, empty: bool = False) -> Self:
        """Singletons, pairs and the whole frame, as in the authors' code.

        >>> len(FocalSets.pairs(2)), len(FocalSets.pairs(4))
        (3, 11)
        """
        singles = _singleton_masks(n_clusters)
        pairs = [a | b for a, b in combinations(singles, 2)]
        return cls([*singles, *pairs, sum(singles), *([0] if empty else [])], n_clusters)

    @classmethod
    def singletons(cls, n_clusters: int, *, empty: bool = False) -> Self:
        """Single clusters only: the classical mixture.

        >>> FocalSets.singletons(3).labels
        ('{1}', '{2}', '{3}')
        """
        return cls([*_singleton_masks(n_clusters), *([0] if empty else [])], n_clusters)

    @classmethod
    def simple(cls, n_clusters: int, *, empty: bool = False) -> Self:
        """Singletons and the whole frame.

        >>> FocalSets.simple(3).labels
        ('{1}', '{2}', '{3}', '{1,2,3}')
        """
        singles = _singleton_masks(n_clusters)
        return cls([*singles, sum(singles), *([0] if empty else [])], n_clusters)

    @classmethod
    def neighbours(cls, similarity: Any, n_neighbours: int = 2, *, empty: bool = False) -> Self:
        r"""Singletons, pairs of mutually most similar clusters, and the whole frame: linear in the number of clusters.

        Two clusters form a pair when each is among the `n_neighbours` clusters most similar to the other.

        Parameters
        ----------
        similarity : array-like of shape (n_clusters, n_clusters)
            Symmetric similarity of clusters, for instance :math:`S = \mathrm{Pl}^\top \mathrm{Pl}` of a first
            partition.
        n_neighbours : int, default=2
            Number of neighbours per cluster.
        empty : bool, default=False
            Whether the empty set belongs to the family.

        Examples
        --------
        >>> similarity = [[1, 0.9, 0], [0.9, 1, 0.5], [0, 0.5, 1]]
        >>> FocalSets.neighbours(similarity, n_neighbours=1).labels
        ('{1}', '{2}', '{1,2}', '{3}', '{1,2,3}')
        """
        matrix = check_finite_matrix("similarity", similarity, (None, None))
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"similarity must be a square matrix, got shape {matrix.shape}.")
        check_integer("n_neighbours", n_neighbours, 1)
        n_clusters = matrix.shape[0]
        singles = _singleton_masks(n_clusters)
        others = np.where(np.eye(n_clusters, dtype=bool), -np.inf, matrix)
        # Stable sort of the negated matrix: ties go to the lower cluster number.
        order = np.argsort(-others, axis=1, kind="stable")[:, :n_neighbours]
        proposes = np.zeros((n_clusters, n_clusters), dtype=bool)
        np.put_along_axis(proposes, order, True, axis=1)
        mutual = np.argwhere(np.triu(proposes & proposes.T, k=1))
        pairs = [singles[a] | singles[b] for a, b in mutual]
        return cls([*singles, *pairs, sum(singles), *([0] if empty else [])], n_clusters)

    @classmethod
    def from_sets(cls, sets: Iterable[Iterable[int]], n_clusters: int) -> Self:
        """Build the family of the given sets of cluster numbers, counted from zero.

        >>> FocalSets.from_sets([{0}, {1}, {0, 1}, set()], 2).labels
        ('∅', '{1}', '{2}', '{1,2}')
        """
        check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
        return cls([mask_of(members, n_clusters) for members in sets], n_clusters)

    @classmethod
    def of(
        cls, family: "str | FocalSets | Iterable[Iterable[int]]", n_clusters: int, *, empty: bool = False
    ) -> "FocalSets":
        """Return the family named, listed or given.

        Parameters
        ----------
        family : {'full', 'pairs', 'singletons', 'simple'}, FocalSets, or list of sets
            A name, a family over the same frame, or sets of cluster numbers counted from zero.
        n_clusters : int
            Size of the frame.
        empty : bool, default=False
            Add the empty set.

        Examples
        --------
        >>> FocalSets.of("simple", 2) == FocalSets.of([{0}, {1}, {0, 1}], 2)
        True
        """
        check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
        if isinstance(family, FocalSets):
            if family.n_clusters != n_clusters:
                raise ValueError(
                    f"focal_sets is a family over {family.n_clusters} clusters, but n_clusters={n_clusters}."
                )
            focal: FocalSets = family
        elif isinstance(family, str):
            check_choice("focal_sets", family, FAMILIES)
            if family == "neighbours":
                raise ValueError(
                    "focal_sets='neighbours' needs a similarity of clusters: use FocalSets.neighbours(similarity)."
                )
            focal = _named(family, n_clusters)
        else:
            given: Any = family
            sets = list(given) if isinstance(given, Iterable) else [given]
            if not all(isinstance(members, Iterable) for members in sets):
                raise TypeError(f"focal_sets must be a family name, a FocalSets or a list of sets, got {family!r}.")
            focal = cls([mask_of(members, n_clusters, "focal_sets: ") for members in sets], n_clusters)
        return focal.with_empty() if empty else focal

    # The sets ---------------------------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int:
        """Size C of the frame."""
        return self._n_clusters

    @property
    def masks(self) -> IntArray:
        """Bit masks of the sets, ascending; bit k is cluster k counted from zero."""
        return self._masks

    @cached_property
    def membership(self) -> BoolArray:
        """Boolean (n_focal, n_clusters): whether cluster k is in set j."""
        bits = np.arange(self._n_clusters, dtype=np.int64)
        return _frozen((self._masks[:, None] >> bits & 1).astype(bool))

    @cached_property
    def cardinalities(self) -> IntArray:
        """Number of clusters in each set."""
        return _frozen(self.membership.sum(axis=1, dtype=np.int64))

    @cached_property
    def shares(self) -> FloatArray:
        r""":math:`W_{jk} = I(\omega_k \in A_j)/|A_j|`, (n_focal, n_clusters); the empty set's row is zero."""
        return _frozen(self.membership / np.maximum(self.cardinalities, 1)[:, None])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Printed names such as '{1,3}', clusters counted from one."""
        return tuple(
            "{" + ",".join(str(k + 1) for k in np.flatnonzero(row)) + "}" if row.any() else "∅"
            for row in self.membership
        )

    @property
    def has_empty(self) -> bool:
        """Whether the empty set is in the family."""
        return bool(self._masks[0] == 0)

    @property
    def frame_mask(self) -> int:
        """Bit mask of the whole frame."""
        return (1 << self._n_clusters) - 1

    @property
    def is_full(self) -> bool:
        """Whether every non-empty subset is in the family."""
        return int((self._masks > 0).sum()) == self.frame_mask

    @cached_property
    def is_meta(self) -> BoolArray:
        """Boolean (n_focal,): sets of two clusters or more."""
        return _frozen(self.cardinalities >= 2)

    def index_of(self, members: Iterable[int]) -> int:
        """Column of the set with these clusters, counted from zero.

        >>> FocalSets.pairs(3).index_of({0, 2})
        4
        """
        mask = mask_of(members, self._n_clusters)
        column = int(self.columns_of(np.array([mask]))[0])
        if column < 0:
            name = FocalSets([mask], self._n_clusters).labels[0]
            raise KeyError(f"{name} is not among the focal sets {_listing(self.labels)}.")
        return column

    def with_empty(self) -> "FocalSets":
        """Return the same family with the empty set.

        >>> FocalSets.singletons(2).with_empty().labels
        ('∅', '{1}', '{2}')
        """
        return self if self.has_empty else FocalSets([0, *self._masks], self._n_clusters)

    def without_empty(self) -> "FocalSets":
        """Return the same family without the empty set.

        >>> FocalSets.singletons(2, empty=True).without_empty().labels
        ('{1}', '{2}')
        """
        return FocalSets(self._masks[1:], self._n_clusters) if self.has_empty else self

    def union(self, other: "FocalSets") -> IntArray:
        r"""Bit masks of the unions :math:`A_i \cup B_j`, (len(self), len(other)).

        >>> FocalSets.singletons(2).union(FocalSets.singletons(2))
        array([[1, 3],
               [3, 2]])
        """
        return self._masks[:, None] | other.on_frame_of(self)._masks[None, :]

    def intersection(self, other: "FocalSets") -> IntArray:
        r"""Bit masks of the intersections :math:`A_i \cap B_j`, (len(self), len(other)).

        >>> FocalSets.full(2).intersection(FocalSets.singletons(2))
        array([[1, 0],
               [0, 2],
               [1, 2]])
        """
        return self._masks[:, None] & other.on_frame_of(self)._masks[None, :]

    def columns_of(self, masks: IntArray) -> IntArray:
        """Columns of the sets with these bit masks; -1 where a set is not in the family.

        >>> FocalSets.full(2).columns_of(np.array([3, 1, 0]))
        array([ 2,  0, -1])
        """
        at = np.searchsorted(self._masks, masks)
        at = np.minimum(at, len(self) - 1)
        return np.where(self._masks[at] == masks, at, -1).astype(np.int64)

    def on_frame_of(self, other: "FocalSets") -> "FocalSets":
        """Return this family if its frame is that of `other`, else raise."""
        if other.n_clusters != self._n_clusters:
            raise ValueError(
                f"The frames differ: {self._n_clusters} and {other.n_clusters} clusters; "
                "refine them to a common frame first."
            )
        return self

    def __len__(self) -> int:
        return int(self._masks.size)

    def __iter__(self) -> Iterator[frozenset[int]]:
        return (frozenset(int(k) for k in np.flatnonzero(row)) for row in self.membership)

    def __contains__(self, members: object) -> bool:
        try:
            mask = mask_of(members, self._n_clusters)
        except (TypeError, ValueError):
            return False
        return bool(self.columns_of(np.array([mask]))[0] >= 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FocalSets):
            return NotImplemented
        return self._n_clusters == other._n_clusters and np.array_equal(self._masks, other._masks)

    def __hash__(self) -> int:
        return hash((self._n_clusters, self._masks.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays are writeable; rebuilding makes them read-only.
        return FocalSets, (self._masks, self._n_clusters)

    def __repr__(self) -> str:
        return f"FocalSets({_listing(self.labels)}, n_clusters={self._n_clusters})"


@lru_cache(maxsize=64)
def _named(family: str, n_clusters: int) -> FocalSets:
    """Family by name, cached because families are immutable."""
    named: FocalSets = getattr(FocalSets, family)(n_clusters)
    return named


def _singleton_masks(n_clusters: int) -> list[int]:
    check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
    return [1 << k for k in range(n_clusters)]


def mask_of(members: Any, n_clusters: int, of: str = "") -> int:
    """Bit mask of a set of clusters counted from zero; `of` prefixes the error message.

    >>> mask_of({0, 2}, 3)
    5
    """
    if not isinstance(members, Iterable):
        raise TypeError(f"a set of clusters must list their numbers, such as {{0, 1}}, got {members!r}.")
    mask = 0
    for k in [members] if isinstance(members, str) else members:
        mask |= 1 << check_integer(f"{of}a cluster number (counted from zero)", k, 0, n_clusters - 1)
    return mask


def _listing(labels: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown}, ... ({len(labels)} sets)"


def _frozen(array: _A) -> _A:
    array.setflags(write=False)
    return array
