"""Constraints on pairs of rows: they share a cluster (must-link) or do not (cannot-link)."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from egmm._checks import FloatArray, IntArray, check_unmasked
from egmm.belief.focal import FocalSets


class Links(NamedTuple):
    """Pairs of rows, each once with the smaller number first."""

    must: IntArray
    """(n_must, 2) rows of the same cluster."""
    cannot: IntArray
    """(n_cannot, 2) rows of different clusters."""

    @property
    def n_links(self) -> int:
        """Number of pairs."""
        return len(self.must) + len(self.cannot)


class LinkLists(NamedTuple):
    """Links by row, for compiled sweeps: those of row i are at ``starts[i]:starts[i + 1]``."""

    starts: IntArray
    partners: IntArray
    kinds: IntArray
    """0 for a must-link, 1 for a cannot-link."""
    prices: FloatArray
    """(2, f, f) bilinear forms of two rows' masses: cost of a link of each kind."""


def check_links(must_link: Any, cannot_link: Any, n_rows: int) -> Links:
    """Validate links: rows in range, no row linked with itself, no contradictions."""
    links = Links(_pairs("must_link", must_link, n_rows), _pairs("cannot_link", cannot_link, n_rows))
    group = linked_groups(links.must, n_rows)
    wrong = links.cannot[group[links.cannot[:, 0]] == group[links.cannot[:, 1]]]
    if len(wrong):
        a, b = (int(row) for row in wrong[0])
        raise ValueError(
            f"cannot_link holds the pair ({a}, {b}), but must_link joins these rows, directly or through others; drop "
            "one of the links."
        )
    return links


def listed_links(links: Links, prices: FloatArray, n_rows: int) -> LinkLists:
    """Sort links by row, each under both rows."""
    ends = np.concatenate([links.must, links.cannot])
    kinds = np.repeat([0, 1], [len(links.must), len(links.cannot)])
    rows = np.concatenate([ends[:, 0], ends[:, 1]])
    order = np.argsort(rows, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])
    partners = np.concatenate([ends[:, 1], ends[:, 0]])[order]
    return LinkLists(starts.astype(np.int64), partners, np.concatenate([kinds, kinds])[order], prices)


class PairForms(NamedTuple):
    """Bilinear forms (f, f) of two rows' masses for sharing a cluster."""

    disjoint: FloatArray
    """1 for disjoint sets: the conflict, one minus the plausibility of a shared cluster."""
    same: FloatArray
    """1 for equal singletons: the mass of a shared cluster."""
    empty: FloatArray
    """1 if either set is empty: the mass of no cluster."""

    @classmethod
    def of(cls, focal: FocalSets) -> "PairForms":
        """Build the forms of a family."""
        masks, is_empty = focal.masks, focal.cardinalities == 0
        return cls(
            (masks[:, None] & masks == 0).astype(np.float64),
            np.diag((focal.cardinalities == 1).astype(np.float64)),
            (is_empty[:, None] | is_empty).astype(np.float64),
        )

    @property
    def plausibly_apart(self) -> FloatArray:
        """Plausibility of different clusters."""
        return 1 - self.empty - self.same


def _pairs(name: str, value: Any, n_rows: int) -> IntArray:
    if value is None:
        return np.empty((0, 2), dtype=np.int64)
    check_unmasked(name, value)
    pairs = np.asarray(value)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be pairs of row numbers, an array of integers of shape (n, 2), got {pairs.dtype} of shape "
            f"{pairs.shape}."
        )
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n_rows)).any(axis=1))
    if outside.size:
        raise ValueError(
            f"{name} must hold row numbers from 0 to {n_rows - 1}, but pair {outside[0]} is "
            f"{tuple(pairs[outside[0]].tolist())}."
        )
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if same.size:
        row = int(pairs[same[0], 0])
        raise ValueError(f"{name} must link different rows, but pair {same[0]} links row {row} with itself.")
    return np.asarray(np.unique(np.sort(pairs, axis=1), axis=0), dtype=np.int64)


def linked_groups(must: IntArray, n_rows: int) -> IntArray:
    """Connected component of each row under must-links."""
    graph = coo_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(n_rows, n_rows))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
