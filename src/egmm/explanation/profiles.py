"""Profile of each cluster: its size, its means, and its most distinctive features."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, check_finite_matrix, check_same_length
from egmm.belief.partition import CredalPartition, check_partition

MOST_TRAITS = 3
"""Number of features named for each cluster."""

CLEAR, STRONG = 0.8, 2.5
"""Smallest differences, in within-cluster standard deviations, that are named and that are called "very"."""

ADJECTIVES = {
    "length": ("long", "short"),
    "width": ("wide", "narrow"),
    "height": ("tall", "low"),
    "depth": ("deep", "shallow"),
    "thickness": ("thick", "thin"),
    "weight": ("heavy", "light"),
    "mass": ("heavy", "light"),
    "size": ("large", "small"),
    "area": ("large", "small"),
}
"""Adjectives for features named thing_dimension, such as petal_length."""


class Trait(NamedTuple):
    """A distinctive feature of a cluster.

    Attributes
    ----------
    feature : int
        Index of the feature.
    difference : float
        Mean of the cluster minus mean of all other rows, in within-cluster standard deviations.
    words : str
        In words, such as ``'very long petal'`` or ``'low ash'``.
    """

    feature: int
    difference: float
    words: str


class Profile(NamedTuple):
    """Description of a cluster.

    Attributes
    ----------
    cluster : int
        Index of the cluster.
    n_rows : int
        Number of rows with this label.
    n_sure : int
        Number of rows whose heaviest set is this cluster alone.
    means : ndarray of shape (n_features,)
        Means of the features, weighted by the pignistic probability of the cluster.
    deviations : ndarray of shape (n_features,)
        Standard deviations, weighted in the same way.
    differences : ndarray of shape (n_features,)
        Mean of the cluster minus mean of all other rows, in within-cluster standard deviations.
    traits : list of Trait
        Up to three distinctive features, the largest difference first.
    """

    cluster: int
    n_rows: int
    n_sure: int
    means: FloatArray
    deviations: FloatArray
    differences: FloatArray
    traits: list[Trait]

    @property
    def words(self) -> str:
        """The traits as a phrase.

        >>> X = [[0.0, 1.0], [0.1, 1.1], [5.0, 1.0], [5.2, 1.1]]
        >>> profiles(CredalPartition.from_labels([0, 0, 1, 1]), X, ["petal_length", "ash"])[0].words
        'very short petal'
        """
        return ", ".join(trait.words for trait in self.traits) or "close to the average in every feature"


def profiles(partition: CredalPartition, X: Any, feature_names: Sequence[str] | None = None) -> list[Profile]:
    """Describe every cluster: size, means, and the three most distinctive features.

    Parameters
    ----------
    partition : CredalPartition
        The credal partition.
    X : array-like of shape (n_samples, n_features)
        Rows, in the units to report. Missing cells (NaN) are ignored.
    feature_names : sequence of str, default=None
        Names of the features; None means the columns of a data frame, or x1, x2, ...

    Returns
    -------
    profiles : list of Profile
        One per cluster.

    Examples
    --------
    >>> from egmm.datasets import load_uci
    >>> iris = load_uci("iris")
    >>> found = profiles(CredalPartition.from_labels(iris.y), iris.X, iris.feature_names)
    >>> found[0].words
    'very short petal, very narrow petal, short sepal'
    """
    names = names_of(X, feature_names)
    rows = rows_of(X)
    check_same_length("X", rows, "partition", check_partition("partition", partition))
    if len(names) != rows.shape[1]:
        raise ValueError(f"feature_names must have {rows.shape[1]} entries, got {len(names)}.")
    share = partition.pignistic()
    means, variances = _weighted_moments(rows, share)
    rest, _ = _weighted_moments(rows, 1.0 - share)
    weight = share.sum(axis=0)
    within = np.sqrt(np.nansum(weight[:, None] * variances, axis=0) / max(weight.sum(), 1e-300))
    with np.errstate(invalid="ignore", divide="ignore"):
        differences = np.where(within > 0, (means - rest) / within, 0.0)
    differences = np.nan_to_num(differences)
    best = np.bincount(partition.labels(), minlength=partition.n_clusters)
    sure = partition.lower().sum(axis=0)
    return [
        Profile(
            k,
            int(best[k]),
            int(sure[k]),
            means[k],
            np.sqrt(variances[k]),
            differences[k],
            _traits(differences[k], names),
        )
        for k in range(partition.n_clusters)
    ]


def names_of(X: Any, feature_names: Sequence[str] | None) -> list[str]:
    """Given names, else columns of a data frame, else x1, x2, ..."""
    columns = getattr(X, "columns", None) if feature_names is None else feature_names
    return [f"x{k + 1}" for k in range(np.shape(X)[1])] if columns is None else [str(name) for name in columns]


def rows_of(X: Any) -> FloatArray:
    """Rows as a float array, with NaN for missing cells."""
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or np.isinf(rows).any():
        check_finite_matrix("X", rows, (None, None))
    return rows


def _weighted_moments(rows: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances of each feature under each column of weights, (C, D); NaN if all weights are zero."""
    known = ~np.isnan(rows)
    centre = np.array([column[is_known].mean() if is_known.any() else 0.0 for column, is_known in zip(rows.T, known.T)])  # noqa: B905
    filled = np.where(known, rows - centre, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = share.T @ known
        means = share.T @ filled / weight
        variances = share.T @ filled**2 / weight - means**2
    return means + centre, np.maximum(variances, 0.0)


def _traits(differences: FloatArray, names: Sequence[str]) -> list[Trait]:
    order = np.argsort(-np.abs(differences), kind="stable")[:MOST_TRAITS]
    chosen = [int(d) for d in order if abs(differences[d]) >= CLEAR]
    return [Trait(d, float(differences[d]), in_words(names[d], float(differences[d]))) for d in chosen]


def in_words(name: str, difference: float) -> str:
    """Describe a feature as higher or lower than in the other rows.

    >>> in_words("petal_length", 3.0), in_words("flipper length (mm)", -1.0), in_words("ash", 1.0)
    ('very long petal', 'short flipper', 'high ash')
    """
    adverb = "very " if abs(difference) >= STRONG else ""
    thing, _, dimension = re.sub(r"\s*[(\[].*[)\]]$", "", name).replace("_", " ").strip().rpartition(" ")
    # A unit may follow the dimension: bill_length_mm.
    if thing and dimension not in ADJECTIVES and len(dimension) <= 2:
        thing, _, dimension = thing.rpartition(" ")
    if thing and dimension.lower() in ADJECTIVES:
        return f"{adverb}{ADJECTIVES[dimension.lower()][difference < 0]} {thing}"
    return f"{adverb}{'high' if difference > 0 else 'low'} {name}"
