"""Two axes out of many features: a pair of features, or a linear projection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from egmm._checks import FloatArray, check_choice, check_finite_matrix, check_integer
from egmm.belief.partition import CredalPartition
from egmm.plotting.style import feature_labels

PROJECTIONS = ("pca", "discriminant")
PLANES = {"pca": "plane of largest variance", "discriminant": "plane that separates the clusters best"}


@dataclass(frozen=True, eq=False)
class View:
    """A linear map to the plane and the names of its axes.

    Attributes
    ----------
    directions : ndarray of shape (n_features, 2)
        The columns span the plane.
    origin : ndarray of shape (n_features,)
        The point shown at (0, 0).
    labels : tuple of str
        Names of the two axes.
    kind : str
        Description of the plane; empty for two features.
    """

    directions: FloatArray
    origin: FloatArray
    labels: tuple[str, str]
    kind: str = ""

    def points(self, X: Any) -> FloatArray:
        """Positions of rows, (n, 2)."""
        return np.asarray((np.asarray(X, dtype=np.float64) - self.origin) @ self.directions)

    def covariances(self, covariances: Any) -> FloatArray:
        """Covariances projected to the plane, (..., 2, 2)."""
        return np.asarray(self.directions.T @ np.asarray(covariances, dtype=np.float64) @ self.directions)


def view_of(
    X: Any,
    partition: CredalPartition | None = None,
    view: str | tuple[int, int] | View | None = None,
    feature_names: Sequence[str] | None = None,
) -> View:
    """Choose the plane for drawing rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    partition : CredalPartition, default=None
        Masses, required for 'discriminant'.
    view : {'pca', 'discriminant'}, pair of int, View or None, default=None
        Two features by number, the two directions of largest variance, or the two that best separate the clusters
        (largest variance between the pignistic cluster means relative to that within). None means the features
        themselves if there are two, else 'discriminant', or 'pca' without a partition.
    feature_names : sequence of str, default=None
        Names of the features.

    Returns
    -------
    View

    Examples
    --------
    >>> view_of(np.zeros((4, 3)), view=(2, 0)).labels
    ('x3', 'x1')
    """
    if isinstance(view, View):
        return view
    rows = check_finite_matrix("X", X, (None, None))
    n_features = rows.shape[1]
    names = feature_labels(n_features, feature_names)
    if view is None:
        view = (0, 1) if n_features == 2 else "discriminant" if partition is not None else "pca"
    if n_features == 1:
        raise ValueError(
            "X must have at least two features, got 1; plot_partition and plot_pairs also draw a single feature."
        )
    if not isinstance(view, str):
        if np.shape(view) != (2,):
            raise ValueError(f"view must be two features by number, 'pca', 'discriminant' or a View; got {view!r}.")
        first, second = (check_integer("view", at, 0, n_features - 1) for at in view)
        if first == second:
            raise ValueError(f"view must be two distinct features, got {first} twice.")
        return View(np.eye(n_features)[:, [first, second]], np.zeros(n_features), (names[first], names[second]))
    check_choice("view", view, PROJECTIONS)
    origin = rows.mean(axis=0)
    if view == "pca" or partition is None or partition.n_clusters < 2:
        return View(
            _principal(rows - origin), origin, ("principal component 1", "principal component 2"), PLANES["pca"]
        )
    directions = _discriminant(rows - origin, partition.pignistic())
    return View(directions, origin, ("discriminant 1", "discriminant 2"), PLANES["discriminant"])


def check_centres(means: Any, n_centres: int, n_features: int) -> FloatArray | None:
    """Validate the centres to draw, one per cluster, or None."""
    return None if means is None else check_finite_matrix("means", means, (n_centres, n_features))


def check_spreads(covariances: Any, n_centres: int, n_features: int) -> FloatArray | None:
    """Validate the covariances to draw, one for all or one each, or None."""
    if covariances is None:
        return None
    shared = np.ndim(covariances) == 2
    sides = (n_features, n_features) if shared else (n_centres, n_features, n_features)
    return check_finite_matrix("covariances", covariances, sides)


def _principal(centred: FloatArray) -> FloatArray:
    """Directions of largest variance, (D, 2), signs fixed by the largest coefficient."""
    values, vectors = np.linalg.eigh(centred.T @ centred)
    return _signed(vectors[:, np.argsort(values)[::-1][:2]])


def _discriminant(centred: FloatArray, probability: FloatArray) -> FloatArray:
    """Directions of largest between- over within-cluster variance; with two clusters, the second is the widest left."""
    total = centred.T @ centred
    weight = np.maximum(probability.sum(axis=0), 1e-12)
    means = (probability.T @ centred) / weight[:, None]
    between = (means * weight[:, None]).T @ means
    within = total - between
    # Constant or collinear columns make `within` singular.
    within += np.eye(len(within)) * (1e-9 * np.trace(total) / len(within) + 1e-300)
    values, vectors = eigh(between, within)
    directions = vectors[:, np.argsort(values)[::-1][:2]]
    if probability.shape[1] == 2:
        directions[:, 1] = _widest_beside(directions[:, 0], within)
    return _signed(directions / np.sqrt(np.einsum("dk,de,ek->k", directions, within / len(centred), directions)))


def _widest_beside(first: FloatArray, within: FloatArray) -> FloatArray:
    """Direction of largest variance that is uncorrelated with the first within clusters."""
    tied = within @ first
    basis = np.linalg.qr(np.column_stack([tied, np.eye(len(tied))]))[0][:, 1:]
    vectors = np.linalg.eigh(basis.T @ within @ basis)[1]
    return np.asarray(basis @ vectors[:, -1])


def _signed(directions: FloatArray) -> FloatArray:
    largest = np.abs(directions).argmax(axis=0)
    return directions * np.where(directions[largest, np.arange(directions.shape[1])] < 0, -1.0, 1.0)
