"""Noise: rows that belong nowhere, on the empty set with a uniform density over the box that holds all rows.

A box has one density per feature, whatever the units, so that rows with missing cells have one too. Volume and weight
of the noise are mclust's (Fraley and Raftery 1998), without boxes along principal axes, which change with the units.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.spatial import KDTree

from egmm._checks import BoolArray, FloatArray
from egmm.em.sample import Sample
from egmm.em.statistics import Units

FIRST_WEIGHT = 0.05
"""Share of the rows that are noise at first."""

N_NEIGHBOURS = 8
"""A row is as far from others as from its neighbour of this rank: fewer rows together are no cluster."""

MOST_ROWS = 5_000
"""Rows among which neighbours are looked for."""


class Box(NamedTuple):
    """Smallest and largest value of every feature, in the units of the data."""

    lower: FloatArray
    """(D,)."""
    upper: FloatArray
    """(D,)."""

    def plus(self, other: Self) -> "Box":
        """Return the box of both sets of rows together."""
        return Box(np.minimum(self.lower, other.lower), np.maximum(self.upper, other.upper))

    @property
    def log_densities(self) -> FloatArray:
        """(D,) log-density of each feature; their sum is the noise's."""
        return np.asarray(-np.log(self.upper - self.lower))

    def log_density(self, scale: FloatArray) -> float:
        """Log-density of the noise where features are divided by a scale (D,)."""
        return float((self.log_densities + np.log(scale)).sum())

    @property
    def centre(self) -> FloatArray:
        """(D,)."""
        return np.asarray(self.lower + 0.5 * (self.upper - self.lower))

    def covariance(self, *, diagonal: bool) -> FloatArray:
        """Covariance (D, D) of the noise, or its variances (D,)."""
        variances = (self.upper - self.lower) ** 2 / 12
        return variances if diagonal else np.diag(variances)


def bounding_box(X: FloatArray, sample_weight: FloatArray | None) -> Box:
    """Box of the rows of a block that have weight."""
    rows = X if sample_weight is None else X[sample_weight > 0]
    # A missing cell says nothing.
    lower = np.fmin.reduce(rows, axis=0, initial=np.inf)
    return Box(np.asarray(lower, dtype=np.float64), -np.fmin.reduce(-rows, axis=0, initial=np.inf).astype(np.float64))


def check_box(box: Box, feature_names: FloatArray | None = None) -> None:
    """Refuse a box without volume."""
    flat = np.flatnonzero(~(box.upper > box.lower))
    if len(flat):
        at = int(flat[0])
        name = f"column {at}" if feature_names is None else f"column {feature_names[at]!r}"
        raise ValueError(
            f"noise=True needs features that vary, but {name} has the value {box.lower[at]:g} in all rows: no volume "
            "is left for the noise; leave the column out."
        )


def likely_clean(sample: Sample, units: Units) -> Sample:
    """The sample without rows that are far from others, to look for clusters in.

    A row's distance is that to its eighth neighbour. The threshold on its logarithm splits the rows into two groups
    that vary least within (Otsu 1979). It is a guess to start from, nothing more.
    """
    rows = units.rows(sample.rows)
    few = units.rows(sample.part(MOST_ROWS).rows)
    if len(few) <= N_NEIGHBOURS + 1:
        return sample
    distances = KDTree(few).query(rows, [N_NEIGHBOURS + 1])[0][:, 0]
    is_clean = ~_upper_group(np.log(distances))
    return Sample(sample.rows[is_clean], sample.weights[is_clean])


def _upper_group(values: FloatArray) -> BoolArray:
    """Which values are of the upper of two groups.

    >>> _upper_group(np.array([1.0, 9.0, 2.0, 8.0, 1.0]))
    array([False,  True, False,  True, False])
    """
    ordered = np.sort(values)
    n_below = np.arange(1, len(values))
    sums = np.cumsum(ordered)[:-1]
    total = ordered.sum()
    between = (sums / n_below - (total - sums) / (len(values) - n_below)) ** 2 * n_below * (len(values) - n_below)
    return np.asarray(values > ordered[int(between.argmax())])


def with_noise(weights: FloatArray, is_empty: BoolArray) -> FloatArray:
    """Weights (B, M) with the initial weight of the empty set."""
    others = np.where(is_empty, 0.0, weights)
    return np.where(is_empty, FIRST_WEIGHT, (1 - FIRST_WEIGHT) * others / others.sum(axis=1, keepdims=True))
