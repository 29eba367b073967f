"""A sample of distinct rows for starts, chosen by their hashes."""

from functools import partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from egmm._checks import FloatArray, IntArray
from egmm.rows.source import RowSource

SAMPLE_ROWS = 20_000
"""Sample size for k-means and random starts: enough to place means, cheap compared with a fit."""


class Sample(NamedTuple):
    """Distinct rows in sorted order with their total weights, independent of row order and split weights."""

    rows: FloatArray
    weights: FloatArray

    def part(self, n_rows: int) -> "Sample":
        """At most `n_rows` of the rows."""
        if n_rows >= len(self.rows):
            return self
        drawn = self.places(n_rows)
        return Sample(self.rows[drawn], self.weights[drawn])

    def places(self, n_rows: int) -> IntArray | slice:
        """Positions of at most `n_rows` rows, drawn at random; equally spaced ones may be biased if rows are sorted."""
        if n_rows >= len(self.rows):
            return slice(None)
        return np.sort(np.random.default_rng(0).choice(len(self.rows), n_rows, replace=False))


class Drawn(NamedTuple):
    """Distinct rows in the order of their hashes: quick to merge."""

    rows: FloatArray
    weights: FloatArray
    hashes: NDArray[np.uint64]

    def plus(self, other: Self) -> "Drawn":
        """Return the distinct rows of both."""
        return _merged(*(np.concatenate(both) for both in zip(self, other, strict=True)))


def draw_sample(rows: RowSource, seed: int, size: int = SAMPLE_ROWS) -> Sample:
    """Return the distinct rows, or where there are more than `size`, those with the `size` smallest hashes.

    The result depends only on the set of rows, not on their order, location or repetition.
    """
    n_rows, n_features = rows.shape
    keys = 2 * np.random.default_rng(seed).integers(1, 2**63, size=n_features, dtype=np.uint64) + np.uint64(1)
    # A quarter more than needed; where rows repeat (grey levels, integers) too few are distinct and more are read.
    fraction = min(1.0, 1.25 * size / n_rows)
    while True:
        drawn = rows.reduce(partial(_draw, keys=keys, fraction=fraction))
        if fraction == 1.0 or len(drawn.rows) >= size:
            break
        fraction = min(1.0, 8 * fraction)
    order = _row_order(drawn.rows[:size])
    order = order[~np.isnan(drawn.rows[order]).all(axis=1)]  # Rows without any cell tell nothing.
    return Sample(drawn.rows[order], drawn.weights[order])


def _row_order(rows: FloatArray) -> IntArray:
    """Order of rows by their columns; the first column decides where it has no ties."""
    order = np.argsort(rows[:, 0], kind="stable")
    if (rows[order[1:], 0] == rows[order[:-1], 0]).any():
        order = np.lexsort(rows.T[::-1])
    return order


def _draw(X: FloatArray, sample_weight: FloatArray | None, keys: NDArray[np.uint64], fraction: float) -> Drawn:
    """Rows of a block that have weight and a small hash."""
    rows = np.asarray(X, dtype=np.float64, order="C") + 0.0  # -0.0 becomes 0.0
    weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    bits = rows.view(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(29))) @ keys
    hashes = ((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    drawn = (weights > 0) & (hashes < np.uint64(fraction * 2**53))
    return _merged(rows[drawn], weights[drawn], hashes[drawn])


def _merged(rows: FloatArray, weights: FloatArray, hashes: NDArray[np.uint64]) -> Drawn:
    """Sort by hash and add up the weights of equal rows."""
    order = np.argsort(hashes, kind="stable")
    rows, weights, hashes = rows[order], weights[order], hashes[order]
    is_new = np.ones(len(rows), dtype=bool)
    bits = rows.view(np.uint64)  # NaN, a missing cell, is not equal to itself.
    is_new[1:] = (hashes[1:] != hashes[:-1]) | (bits[1:] != bits[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_new)
    return Drawn(rows[firsts], np.add.reduceat(weights, firsts) if len(firsts) else weights, hashes[firsts])


def check_distinct(sample: Sample, n_clusters: int) -> None:
    """Raise if there are more clusters than distinct rows."""
    if len(sample.rows) < n_clusters:
        raise ValueError(
            f"n_clusters={n_clusters} but X has only {len(sample.rows)} distinct rows; use fewer clusters."
        )
