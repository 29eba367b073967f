"""Uncertainty of a model over the plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_choice, check_finite_matrix
from egmm.plotting.limits import outside_note, set_robust_limits, write_caption
from egmm.plotting.style import axes_or_new, cluster_colours, marker_area
from egmm.plotting.view import View, view_of

GRID = 160
"""Grid points along each side of the map."""

MEASURES = {"doubt": "doubt: 1 − largest pignistic probability", "nonspecificity": "nonspecificity (bits)"}
MOST_ROWS = 4000
"""Maximum number of rows drawn over the map."""


def plot_uncertainty(
    model: Any,
    X: Any,
    *,
    measure: str = "doubt",
    view: str | tuple[int, int] | View | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw a map of the model's uncertainty over the plane, with the borders between labels.

    With more than two features, each point of the plane represents the expected row there, by linear regression of all
    features on the two directions shown.

    Parameters
    ----------
    model : estimator
        Fitted estimator with a method `partition`, such as `EGMM`.
    X : array-like of shape (n_samples, n_features)
        Rows, drawn in the colours of their labels; a sample if there are many.
    measure : {'doubt', 'nonspecificity'}, default='doubt'
        One minus the largest pignistic probability, or the nonspecificity in bits.
    view : {'pca', 'discriminant'}, pair of int, View or None, default=None
        The plane, see :func:`view_of`.
    feature_names : sequence of str, default=None
        Names of the features.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from egmm import EGMM
    >>> from egmm.datasets import make_diamond
    >>> X, _ = make_diamond()
    >>> ax = plot_uncertainty(EGMM(2, reg_covar=0.01, random_state=0).fit(X), X)
    >>> ax.get_xlabel()
    'x1'
    """
    check_choice("measure", measure, tuple(MEASURES))
    rows = check_finite_matrix("X", X, (None, None))
    partition = model.partition(X)
    plane = view_of(rows, partition, view, feature_names)
    points = plane.points(rows)
    ax = axes_or_new(ax)
    n_outside = set_robust_limits(ax, points)
    x, y = (np.linspace(low, high, GRID) for low, high in (ax.get_xlim(), ax.get_ylim()))
    at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    there = model.partition(_lifted(at, rows, plane))
    values = 1.0 - there.pignistic().max(axis=1) if measure == "doubt" else there.nonspecificity()
    top = 1.0 - 1.0 / partition.n_clusters if measure == "doubt" else float(np.log2(max(partition.n_clusters, 2)))
    image = ax.pcolormesh(
        x,
        y,
        values.reshape(GRID, GRID),
        cmap="Greys",
        vmin=0.0,
        vmax=max(top, 1e-9),
        shading="gouraud",
        rasterized=True,
    )
    ax.figure.colorbar(image, ax=ax, label=MEASURES[measure], shrink=0.9)
    _draw_borders(ax, x, y, there.labels().reshape(GRID, GRID))
    some = np.arange(len(points))
    if len(some) > MOST_ROWS:
        some = np.random.default_rng(0).choice(some, MOST_ROWS, replace=False)
    colours = cluster_colours(partition.n_clusters)[partition.labels()[some]]
    look = {"s": 0.6 * marker_area(len(some)), "linewidths": 0.3, "edgecolors": "white", "zorder": 3}
    ax.scatter(*points[some].T, c=colours, rasterized=len(some) > 2000, **look)
    meant = "map of the expected row at each point" if rows.shape[1] > 2 else ""
    write_caption(ax, [part for part in (plane.kind, meant, *outside_note(n_outside)) if part])
    ax.set(xlabel=plane.labels[0], ylabel=plane.labels[1])
    return ax


def _lifted(at: FloatArray, rows: FloatArray, plane: View) -> FloatArray:
    """Expected rows at points of the plane, by regression of all features on the two directions."""
    if rows.shape[1] == 2 and not plane.kind:
        order = np.abs(plane.directions).argmax(axis=0)
        return at[:, np.argsort(order)]
    points = plane.points(rows)
    centre, middle = rows.mean(axis=0), points.mean(axis=0)
    slope = np.linalg.lstsq(points - middle, rows - centre, rcond=None)[0]
    return np.asarray(centre + (at - middle) @ slope)


def _draw_borders(ax: Any, x: FloatArray, y: FloatArray, labels: Any) -> None:
    """Draw the borders between labels."""
    for k in np.unique(labels):
        is_here = (labels == k).astype(float)
        if 0 < is_here.mean() < 1:
            ax.contour(x, y, is_here, levels=[0.5], colors="0.25", linewidths=0.8, zorder=2)
