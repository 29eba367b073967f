"""Simulated data: the paper's examples, and clusters with a chosen overlap."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from egmm._checks import FloatArray, IntArray, check_integer, check_labels, check_random, check_real

_DIAMOND = [[-6, 0], [-4, 2], [-4, 0], [-4, -2], [-2, 0], [0, 0], [2, 0], [4, 2], [4, 0], [4, -2], [6, 0]]


def make_diamond() -> tuple[FloatArray, IntArray]:
    """Two diamonds of five points and one point half-way between them.

    The classic eleven points (Windham 1985), at the scale of the paper's example.

    Returns
    -------
    X : ndarray of shape (11, 2)
        The points, from left to right.
    y : ndarray of shape (11,)
        0 for the left diamond, 1 for the right one, -1 for the point between them.

    Examples
    --------
    >>> X, y = make_diamond()
    >>> X[5], y.tolist()
    (array([0., 0.]), [0, 0, 0, 0, 0, -1, 1, 1, 1, 1, 1])
    """
    return np.array(_DIAMOND, dtype=np.float64), np.repeat([0, -1, 1], [5, 1, 5])


def make_two_class(n_samples: int = 800, *, random_state: Any = None) -> tuple[FloatArray, IntArray]:
    """Two long Gaussian classes side by side, as in the paper: means (2, 4), (2, 0), covariance [[3, 2], [2, 3]].

    Parameters
    ----------
    n_samples : int, default=800
        Number of rows, split equally between the classes.
    random_state : int, RandomState or None, default=None
        Seed of the random generator.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The rows, shuffled.
    y : ndarray of shape (n_samples,)
        The class of each row.

    Examples
    --------
    >>> X, y = make_two_class(random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((800, 2), [400, 400])
    """
    return _gaussian_classes(n_samples, [[2, 4], [2, 0]], [[3, 2], [2, 3]], random_state)


def make_four_class(n_samples: int = 800, *, random_state: Any = None) -> tuple[FloatArray, IntArray]:
    """Four round Gaussian classes on a square, as in the paper: means (0, 0), (0, 4), (4, 4), (4, 0), covariance 2I.

    Parameters
    ----------
    n_samples : int, default=800
        Number of rows, split equally between the classes.
    random_state : int, RandomState or None, default=None
        Seed of the random generator.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The rows, shuffled.
    y : ndarray of shape (n_samples,)
        The class of each row.

    Examples
    --------
    >>> X, y = make_four_class(random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((800, 2), [200, 200, 200, 200])
    """
    return _gaussian_classes(n_samples, [[0, 0], [0, 4], [4, 4], [4, 0]], 2 * np.eye(2), random_state)


def make_blobs_with_overlap(
    n_samples: int = 300,
    n_clusters: int = 3,
    n_features: int = 2,
    *,
    overlap: float = 0.1,
    random_state: Any = None,
) -> tuple[FloatArray, IntArray]:
    r"""Spherical unit-variance Gaussian clusters on a square grid, with a chosen overlap of neighbours.

    The overlap of two clusters is the area under both densities, :math:`\int \min(p_1, p_2)`: twice the error rate of
    the Bayes classifier. For centres :math:`\delta` standard deviations apart it is :math:`2 \Phi(-\delta/2)`, so

    .. math:: \delta = -2\, \Phi^{-1}(\mathrm{overlap} / 2)

    is the distance between neighbours on the grid: 5.2 for 0.01, 3.9 for 0.05, 3.3 for 0.1, 1.3 for 0.5.

    Parameters
    ----------
    n_samples : int, default=300
        Number of rows, split equally between the clusters.
    n_clusters : int, default=3
        Number of clusters, placed on the smallest grid that holds them; each has a neighbour.
    n_features : int, default=2
        Number of features.
    overlap : float, default=0.1
        Overlap of two neighbours, above 0 (far apart) and up to 1 (identical).
    random_state : int, RandomState or None, default=None
        Seed of the random generator.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows, shuffled.
    y : ndarray of shape (n_samples,)
        The cluster of each row.

    Examples
    --------
    >>> X, y = make_blobs_with_overlap(1000, 4, 3, overlap=0.05, random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((1000, 3), [250, 250, 250, 250])
    """
    check_integer("n_clusters", n_clusters, 1)
    check_integer("n_features", n_features, 1)
    check_real("overlap", overlap, 0.0, 1.0, open_minimum=True)
    distance = -2 * ndtri(overlap / 2)
    return _gaussian_classes(n_samples, distance * _grid(n_clusters, n_features), np.eye(n_features), random_state)


def make_bananas(
    n_samples: int = 300, *, radius: float = 5.0, noise: float = 1.0, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    r"""Two interleaved arcs with Gaussian noise, one per class.

    With :math:`u` uniform on [0, 1], the angles are :math:`t = \pi (0.125 + 1.25 u)` in the first class and
    :math:`t = \pi (0.375 - 1.25 u)` in the second; a row is :math:`r (\sin t, \cos t)` plus noise, and the second class
    is moved by :math:`-0.75 r` in both directions.

    Parameters
    ----------
    n_samples : int, default=300
        Number of rows, split equally between the classes.
    radius : float, default=5.0
        Radius r of the arcs.
    noise : float, default=1.0
        Standard deviation of the noise.
    random_state : int, RandomState or None, default=None
        Seed of the random generator.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The rows, shuffled.
    y : ndarray of shape (n_samples,)
        The class of each row.

    Examples
    --------
    >>> X, y = make_bananas(random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((300, 2), [150, 150])
    """
    check_integer("n_samples", n_samples, 1)
    check_real("radius", radius, 0)
    check_real("noise", noise, 0)
    rng = check_random(random_state)
    y = rng.permutation(np.arange(n_samples) % 2).astype(np.int64)
    turn = 1.25 * rng.random_sample(n_samples)
    angle = np.pi * np.where(y == 0, 0.125 + turn, 0.375 - turn)
    X = radius * np.column_stack([np.sin(angle), np.cos(angle)]) - 0.75 * radius * y[:, None]
    return X + noise * rng.standard_normal(X.shape), y


def draw_links(labels: Any, n_links: int, *, random_state: Any = None) -> tuple[IntArray, IntArray]:
    """Draw pairs of rows as links for constrained clustering, by whether their labels agree.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        The known class of each row.
    n_links : int
        Number of distinct pairs.
    random_state : int, RandomState or None, default=None
        Seed of the random generator.

    Returns
    -------
    must_link : ndarray of shape (n_must, 2)
        Pairs of the same class.
    cannot_link : ndarray of shape (n_cannot, 2)
        Pairs of different classes. There are `n_links` pairs in total.

    Examples
    --------
    >>> must_link, cannot_link = draw_links(["a", "a", "b"], 3, random_state=0)
    >>> must_link.tolist(), cannot_link.tolist()
    ([[0, 1]], [[0, 2], [1, 2]])
    """
    y = check_labels("labels", labels)
    n_pairs = len(y) * (len(y) - 1) // 2
    check_integer("n_links", n_links, 0, n_pairs)
    rng = check_random(random_state)
    if 2 * n_links > n_pairs:
        drawn = rng.permutation(n_pairs)[:n_links]
    else:
        drawn = np.empty(0, dtype=np.int64)
        while len(drawn) < n_links:
            more = rng.randint(n_pairs, size=n_links - len(drawn), dtype=np.int64)
            drawn = np.concatenate([drawn, np.setdiff1d(more, drawn)])
    # Pair number p is (j, i) with p = i (i - 1) / 2 + j.
    second = ((1 + np.sqrt(1 + 8.0 * np.sort(drawn))) / 2).astype(np.int64)
    pairs = np.column_stack([np.sort(drawn) - second * (second - 1) // 2, second])
    is_same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[is_same], pairs[~is_same]


def _grid(n_points: int, n_features: int) -> FloatArray:
    """First `n_points` of the smallest cubic grid that holds them: each has a neighbour at distance one."""
    side = 1
    while side**n_features < n_points:
        side += 1
    # Digits in base `side`: lowering one digit gives a smaller number, which is present too.
    digits = [[point // side**feature % side for feature in range(n_features)] for point in range(n_points)]
    return np.array(digits, dtype=np.float64)


def _gaussian_classes(n_samples: int, means: Any, covariance: Any, random_state: Any) -> tuple[FloatArray, IntArray]:
    """Shuffled rows from classes with one covariance, split equally (the first classes get one more)."""
    centres = np.asarray(means, dtype=np.float64)
    check_integer("n_samples", n_samples, 1)
    rng = check_random(random_state)
    y = rng.permutation(np.arange(n_samples) % len(centres)).astype(np.int64)
    X = rng.standard_normal((n_samples, centres.shape[1])) @ np.linalg.cholesky(covariance).T
    X += centres[y]
    return X, y
