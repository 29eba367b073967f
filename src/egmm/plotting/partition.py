"""Rows of a credal partition in the plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import ConvexHull, QhullError
from scipy.stats import chi2

from egmm._checks import BoolArray, FloatArray, check_choice, check_finite_matrix, check_same_length
from egmm.belief.decisions import REWARD, chosen_columns
from egmm.belief.partition import CredalPartition, check_partition
from egmm.plotting.limits import ABOVE_CAPTION, outside_note, robust_range, set_robust_limits, write_caption
from egmm.plotting.style import (
    MOST_MIXED,
    NEUTRAL,
    axes_or_new,
    axes_row_or_new,
    cluster_colours,
    feature_labels,
    ground,
    ink,
    legend_rows,
    marker_area,
    set_colours,
    set_markers,
    short_label,
)
from egmm.plotting.view import View, check_centres, check_spreads, view_of

MOST_LEGEND = 14
"""Maximum number of sets in a legend, those with the most rows."""

ELLIPSE_RADIUS = 2.0
"""Radius of the ellipses in standard deviations."""

ELLIPSE_SHARE = 1.0 - np.exp(-0.5 * ELLIPSE_RADIUS**2)
"""Share of a cluster's rows inside its ellipse in the plane."""

CONFIDENCE = 0.95
"""Probability that the region contains the true mean."""

MANY_ROWS = 3000
"""With more rows, clusters are outlined by a density contour: a hull would follow the outermost rows."""

OUTLINED = 0.95
"""Share of a cluster's rows inside that contour."""

LABEL_DISTANCE, FAR = 12.0, 30.0
"""Distance in points from a centre to its number, and required distance of that to other marks."""

FEW_IN_A_CONTOUR = 30
"""Clusters with fewer rows are outlined by their hull."""

GRID = 80
"""Grid cells of the contour along each side."""


def plot_partition(
    X: Any,
    partition: CredalPartition,
    *,
    rule: str = "heaviest",
    reward: float = REWARD,
    means: Any = None,
    covariances: Any = None,
    mean_covariances: Any = None,
    hulls: str | None = None,
    view: str | tuple[int, int] | View | None = None,
    feature_names: Sequence[str] | None = None,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw rows by their chosen set: clusters as discs, sets of several clusters as other markers in mixed colours.

    Rows with a smaller largest mass are paler. With more than six sets, markers of sets of several clusters are hollow,
    since so many mixed colours cannot be distinguished. Axis limits ignore a few rows far from all others; a caption
    gives their number.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows. With one feature the second axis is the nonspecificity; with more than two see `view`.
    partition : CredalPartition
        Their masses.
    rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
        How the set of a row is chosen, see :meth:`egmm.CredalPartition.sets`.
    reward : float, default=0.8
        Utility of a pair that contains the right cluster, for ``rule="utility"``.
    means : array-like of shape (n_clusters, n_features), default=None
        Cluster centres, drawn as crosses; at height 0 for one feature.
    covariances : array-like of shape (n_features, n_features) or (n_clusters, n_features, n_features), default=None
        Covariances, drawn as ellipses of two standard deviations around `means`, which hold 86 % of a cluster; of one
        feature as intervals.
    mean_covariances : array-like of shape (n_clusters, n_features, n_features), default=None
        Covariances of the estimates of `means`, as ``EGMM.standard_errors(X).mean_covariances`` gives them, drawn as
        filled ellipses that hold the true means with 95 % confidence; of one feature as thick intervals.
    hulls : {'lower', 'upper'} or None, default=None
        Outline the lower or upper approximation of each cluster by its convex hull, or, for more than 3000 rows, by the
        contour that contains 95 % of them.
    view : {'pca', 'discriminant'}, pair of int, View or None, default=None
        The plane, see :func:`view_of`.
    feature_names : sequence of str, default=None
        Names of the features.
    legend : bool, default=True
        Whether to list the sets with their numbers of rows, and to write the caption.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from egmm import EGMM
    >>> from egmm.datasets import make_four_class
    >>> X, _ = make_four_class(random_state=0)
    >>> model = EGMM(n_clusters=4, random_state=0).fit(X)
    >>> ax = plot_partition(X, model.partition(X), means=model.means_, covariances=model.covariances_)
    >>> ax.get_xlabel()
    'x1'
    """
    rows = check_finite_matrix("X", X, (None, None))
    check_same_length("X", rows, "partition", check_partition("partition", partition))
    means = check_centres(means, partition.n_clusters, rows.shape[1])
    covariances = check_spreads(covariances, partition.n_clusters, rows.shape[1])
    if mean_covariances is not None:
        sides = (partition.n_clusters, rows.shape[1], rows.shape[1])
        mean_covariances = check_finite_matrix("mean_covariances", mean_covariances, sides)
    ax = axes_or_new(ax)
    points, plane = _points(rows, partition, view, feature_names)
    _scatter_sets(ax, points, partition, rule, reward)
    if hulls is not None:
        rough = partition.rough("mass" if rule == "heaviest" else rule, reward)
        draw_hulls(ax, points, getattr(rough, check_choice("hulls", hulls, ("lower", "upper"))))
    centres = None
    if means is not None:
        centres = np.column_stack([means, np.zeros(len(means))]) if plane is None else plane.points(means)
    shown = centres
    if centres is not None and covariances is not None and plane is not None and len(points):
        shown = np.concatenate([centres, _reached(points, centres, plane.covariances(covariances))])
    n_outside = set_robust_limits(ax, points, shown) if len(points) else 0
    if centres is not None:
        if covariances is not None:
            if plane is None:
                _draw_intervals(ax, centres, covariances)
            else:
                _draw_ellipses(ax, centres, plane.covariances(covariances))
        if mean_covariances is not None:
            _draw_confidence(ax, centres, mean_covariances, plane)
        _draw_centres(ax, centres)
    labels = (feature_labels(1, feature_names)[0], "nonspecificity (bits)") if plane is None else plane.labels
    ax.set(xlabel=labels[0], ylabel=labels[1])
    if legend:
        _legend(ax, rule)
        write_caption(ax, [*_described(plane, means, covariances, mean_covariances), *outside_note(n_outside)])
    return ax


def _reached(points: FloatArray, centres: FloatArray, covariances: FloatArray) -> FloatArray:
    """Extremes of the ellipses, where they widen the view by less than a third on each side."""
    spreads = np.broadcast_to(covariances, (len(centres), 2, 2))
    half = ELLIPSE_RADIUS * np.sqrt(np.maximum(np.einsum("kdd->kd", spreads), 0.0))
    low, high = np.array([robust_range(points[:, d]) for d in (0, 1)]).T
    room = (high - low) / 3
    return np.clip(np.concatenate([centres - half, centres + half]), low - room, high + room)


def _described(plane: View | None, means: Any, covariances: Any, mean_covariances: Any) -> list[str]:
    """Say what plane is shown and what ellipses mean."""
    parts = [] if plane is None or not plane.kind else [plane.kind]
    if means is not None and covariances is not None:
        share = f"{100 * ELLIPSE_SHARE:.0f} % of a cluster"
        parts.append(
            f"ellipses: {share}" if plane is not None else f"intervals: {ELLIPSE_RADIUS:g} standard deviations"
        )
    if means is not None and mean_covariances is not None:
        parts.append(f"{'filled' if plane is not None else 'thick'}: {100 * CONFIDENCE:.0f} % confidence of a mean")
    return parts


def plot_approximations(
    X: Any,
    partition: CredalPartition,
    *,
    by: str = "mass",
    reward: float = REWARD,
    means: Any = None,
    view: str | tuple[int, int] | View | None = None,
    feature_names: Sequence[str] | None = None,
    axes: Any = None,
) -> Any:
    """Draw the lower and the upper approximation of every cluster in two panels, with outlines.

    Left: rows that surely belong to one cluster. Right: rows that may belong to it; a row may be in several.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows with at least two features.
    partition : CredalPartition
        Their masses.
    by : {'mass', 'utility', 'dominance'}, default='mass'
        How the set of a row is chosen, see :meth:`egmm.CredalPartition.lower`.
    reward : float, default=0.8
        Utility of a pair that contains the right cluster, for ``by="utility"``.
    means : array-like of shape (n_clusters, n_features), default=None
        Cluster centres.
    view : {'pca', 'discriminant'}, pair of int, View or None, default=None
        The plane, see :func:`view_of`.
    feature_names : sequence of str, default=None
        Names of the features.
    axes : sequence of two matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    axes : ndarray of two matplotlib Axes

    Examples
    --------
    >>> from egmm.datasets import make_diamond
    >>> from egmm import EGMM
    >>> X, _ = make_diamond()
    >>> model = EGMM(2, random_state=0).fit(X)
    >>> [ax.get_title() for ax in plot_approximations(X, model.partition(X))]
    ['lower approximations: surely', 'upper approximations: possibly']
    """
    rows = check_finite_matrix("X", X, (None, None))
    check_same_length("X", rows, "partition", check_partition("partition", partition))
    means = check_centres(means, partition.n_clusters, rows.shape[1])
    axes = axes_row_or_new(axes, 2, (4.6, 4.2), sharex=True, sharey=True)
    plane = view_of(rows, partition, view, feature_names)
    points, rough = plane.points(rows), partition.rough(by, reward)
    rule = "" if by == "mass" else f" ({by})"
    titles = (f"lower approximations: surely{rule}", f"upper approximations: possibly{rule}")
    for ax, members, title in zip(axes, rough, titles, strict=True):
        _scatter_members(ax, points, members)
        n_outside = set_robust_limits(ax, points, None if means is None else plane.points(means))
        draw_hulls(ax, points, members)
        if means is not None:
            _draw_centres(ax, plane.points(means))
        if ax is axes[0]:
            outline = f"contours: {100 * OUTLINED:.0f} % of a cluster" if len(points) > MANY_ROWS else ""
            write_caption(ax, [part for part in (plane.kind, outline, *outside_note(n_outside)) if part])
        ax.set(xlabel=plane.labels[0], ylabel=plane.labels[1])
        ax.set_title(title, pad=ABOVE_CAPTION)
    return axes


def draw_hulls(ax: Any, points: FloatArray, members: BoolArray) -> None:
    """Outline each cluster by a density contour (many rows), its hull (few rows) or a line (two rows)."""
    for colour, column in zip(cluster_colours(members.shape[1], ax), members.T, strict=True):
        if len(points) > MANY_ROWS and column.sum() > FEW_IN_A_CONTOUR:
            draw_region(ax, points[column], colour)
            continue
        outline = hull(points[column])
        if len(outline):
            ax.fill(*outline.T, facecolor=(*colour, 0.10), edgecolor=(*colour, 0.9), linewidth=1.4, zorder=1.5)


def draw_region(ax: Any, points: FloatArray, colour: FloatArray) -> None:
    """Outline the densest region with most of the points, from a smoothed histogram within the axis limits."""
    x, y = (np.linspace(low, high, GRID + 1) for low, high in (ax.get_xlim(), ax.get_ylim()))
    counts = np.histogram2d(points[:, 0], points[:, 1], bins=[x, y])[0]
    density = gaussian_filter(counts, 1.5)
    if density.max() <= 0:
        return
    order = np.sort(density.ravel())[::-1]
    level = order[min(int(np.searchsorted(np.cumsum(order), OUTLINED * order.sum())), len(order) - 1)]
    middle = [(edges[1:] + edges[:-1]) / 2 for edges in (x, y)]
    look: dict[str, Any] = {"zorder": 2.6}
    ax.contour(*middle, density.T, levels=[level], colors=[colour], linewidths=1.8, **look)
    ax.contourf(*middle, density.T, levels=[level, np.inf], colors=[colour], alpha=0.08, zorder=1.5)


def hull(points: FloatArray) -> FloatArray:
    """Corners of the convex hull, (n, 2); the two ends for collinear points."""
    if len(points) == 0:
        return points
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):
        spread = points - points.mean(axis=0)
        along = spread @ np.linalg.svd(spread, full_matrices=False)[2][0]
        return np.asarray(points[[along.argmin(), along.argmax()]])


def _points(
    rows: FloatArray, partition: CredalPartition, view: Any, feature_names: Sequence[str] | None
) -> tuple[FloatArray, View | None]:
    if rows.shape[1] == 1:
        return np.column_stack([rows[:, 0], partition.nonspecificity()]), None
    plane = view_of(rows, partition, view, feature_names)
    return plane.points(rows), plane


def _scatter_sets(ax: Any, points: FloatArray, partition: CredalPartition, rule: str, reward: float) -> None:
    chosen, focal = chosen_columns(partition.mass, partition.focal_sets, rule, reward)
    heaviest = partition.mass.max(axis=1)
    area, of_sets = marker_area(len(points)), set_colours(focal, ax)
    mixed = len(np.unique(chosen)) <= MOST_MIXED
    markers = set_markers(focal, np.bincount(chosen, minlength=len(focal)))
    # Open rows are few and matter most: draw them on top and slightly larger.
    for j in sorted(np.unique(chosen), key=lambda j: focal.cardinalities[j]):
        at = np.flatnonzero(chosen == j)
        fade = 0.75 * (1.0 - heaviest[at, None])
        colours = of_sets[j] * (1.0 - fade) + ground(ax) * fade
        is_meta = focal.cardinalities[j] != 1
        edges: dict[str, Any] = {"linewidths": 0}
        if is_meta and not mixed:
            # Hollow, so that the shape identifies the set; with many rows small grey dots, which overlap less.
            is_hollow = area > 4
            colours = np.repeat(ground(ax)[None] if is_hollow else np.full((1, 3), 0.55), len(at), axis=0)
            edges = {"linewidths": 0.7, "edgecolors": ink(ax)} if is_hollow else edges
        if focal.cardinalities[j] == 0:  # a cross has no face
            edges = {"linewidths": 1.0}
        elif is_meta and mixed and area > 4:
            edges = {"linewidths": 0.4, "edgecolors": "#333333"}
        ax.scatter(
            *points[at].T,
            s=area * (1.3 if is_meta else 1.0),
            c=colours,
            marker=markers[j],
            label=f"{short_label(focal.labels[j])}  {len(at)}",
            rasterized=len(points) > 5000,
            zorder=2.2 if is_meta else 2.0,
            **edges,
        )


def _scatter_members(ax: Any, points: FloatArray, members: BoolArray) -> None:
    area = marker_area(len(points))
    counts = members.sum(axis=1)
    shares = members / np.maximum(counts, 1)[:, None]
    colours = shares @ cluster_colours(members.shape[1], ax)
    many = {"linewidths": 0, "rasterized": len(points) > 5000}
    outside = counts == 0
    faint = (2.0 * ground(ax) + int(NEUTRAL[1:3], 16) / 255.0) / 3.0
    ax.scatter(*points[outside].T, s=area * 0.5, color=[faint], zorder=1.2, **many)
    for several, marker, zorder in ((False, "o", 2.0), (True, "^", 2.2)):
        at = ~outside & ((counts > 1) == several)
        ax.scatter(*points[at].T, s=area * (1.3 if several else 1), c=colours[at], marker=marker, zorder=zorder, **many)


def _draw_centres(ax: Any, centres: FloatArray) -> None:
    offsets = _label_offsets(ax, centres)
    for k, (colour, at) in enumerate(zip(cluster_colours(len(centres), ax), centres, strict=True)):
        # White under black under colour, so that a centre stands out from its cluster's points.
        for size, face in ((10.5, "white"), (8.5, "black"), (6.0, colour)):
            ax.plot(*at, marker="X", markersize=size, color=face, markeredgewidth=0, zorder=4)
        ax.annotate(
            str(k + 1),
            at,
            xytext=offsets[k],
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=9,
            fontweight="bold",
            color="black",
            zorder=4,
            bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )


def _label_offsets(ax: Any, centres: FloatArray) -> list[tuple[float, float]]:
    """Offset of each number from its centre, in points: of eight places, the one farthest from other marks."""
    size = ax.get_window_extent().size / ax.figure.dpi * 72
    low, high = np.array([ax.get_xlim(), ax.get_ylim()]).T
    places = (centres - low) / np.where(high > low, high - low, 1.0) * size
    angles = np.pi / 4 + np.arange(8) * np.pi / 4
    around = LABEL_DISTANCE * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    taken, chosen = list(places), []
    for k, place in enumerate(places):
        others = np.array([other for at, other in enumerate(taken) if at != k]).reshape(-1, 2)
        gaps = [np.linalg.norm(others - place - step, axis=1).min(initial=FAR) for step in around]
        best = around[int(np.argmax(np.minimum(gaps, FAR)))]
        chosen.append((float(best[0]), float(best[1])))
        taken.append(place + best)
    return chosen


def _draw_intervals(ax: Any, centres: FloatArray, variances: FloatArray) -> None:
    reach = ELLIPSE_RADIUS * np.sqrt(np.broadcast_to(np.ravel(variances), len(centres)))
    for colour, centre, half in zip(cluster_colours(len(centres), ax), centres, reach, strict=True):
        ax.errorbar(*centre, xerr=half, color=colour, capsize=8, capthick=1.6, linewidth=1.6, zorder=3)


def _draw_ellipses(ax: Any, centres: FloatArray, covariances: FloatArray) -> None:
    each = np.broadcast_to(covariances, (len(centres), 2, 2))
    for colour, centre, covariance in zip(cluster_colours(len(centres), ax), centres, each, strict=True):
        ax.plot(*_ellipse(centre, covariance, ELLIPSE_RADIUS), color=colour, linewidth=1.6, zorder=3)


def _draw_confidence(ax: Any, centres: FloatArray, mean_covariances: FloatArray, plane: View | None) -> None:
    """Draw where true means are, with confidence."""
    colours = cluster_colours(len(centres), ax)
    if plane is None:
        reach = np.sqrt(chi2.ppf(CONFIDENCE, 1) * mean_covariances[:, 0, 0])
        for colour, centre, half in zip(colours, centres, reach, strict=True):
            ax.plot(centre[0] + np.array([-half, half]), [centre[1]] * 2, color=colour, linewidth=6, zorder=3)
        return
    radius = float(np.sqrt(chi2.ppf(CONFIDENCE, 2)))
    for colour, centre, covariance in zip(colours, centres, plane.covariances(mean_covariances), strict=True):
        ax.fill(*_ellipse(centre, covariance, radius), facecolor=(*colour[:3], 0.55), edgecolor=ink(ax), zorder=3)


def _ellipse(centre: FloatArray, covariance: FloatArray, radius: float) -> FloatArray:
    """Points (2, 121) so many deviations from the centre."""
    angles = np.linspace(0.0, 2.0 * np.pi, 121)
    values, vectors = np.linalg.eigh(covariance)
    circle = radius * np.stack([np.cos(angles), np.sin(angles)])
    return np.asarray(centre[:, None] + vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * circle))


def _legend(ax: Any, rule: str) -> None:
    handles, labels = ax.get_legend_handles_labels()
    counts = [int(label.rsplit(maxsplit=1)[1]) for label in labels]
    shown = np.sort(np.argsort(counts)[::-1][: legend_rows(ax, MOST_LEGEND)])
    of_rule = "heaviest set, rows" if rule == "heaviest" else f"set by {rule}, rows"
    title = of_rule if len(shown) == len(labels) else f"{len(shown)} of {len(labels)} sets, rows"
    legend = ax.legend(
        [handles[i] for i in shown],
        [labels[i] for i in shown],
        title=title,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        fontsize="small",
        title_fontsize="small",
        scatterpoints=1,
    )
    for i, handle in zip(shown, legend.legend_handles, strict=True):
        handle.set_sizes([36])
        colours = handles[i].get_facecolor()
        # The handle has the first row's colour, which may be pale: use the strongest.
        strength = np.abs(colours[:, :3] - ground(ax)).sum(axis=1)
        handle.set_facecolor(colours[strength.argmax()] if len(colours) else NEUTRAL)
