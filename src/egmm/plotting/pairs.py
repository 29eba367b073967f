"""Scatter matrix of all pairs of features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import check_finite_matrix, check_integer, check_same_length
from egmm.belief.decisions import REWARD
from egmm.belief.partition import CredalPartition, check_partition
from egmm.plotting.limits import CAPTION, outside_note, robust_range
from egmm.plotting.partition import plot_partition
from egmm.plotting.style import cluster_colours, dressed, feature_labels, pyplot

MOST_FEATURES = 6
"""Default maximum number of features: 36 panels fill a page."""

LETTERS_PER_INCH = 9.5
"""Characters of a name per line, the width of a panel."""


def plot_pairs(
    X: Any,
    partition: CredalPartition,
    *,
    rule: str = "heaviest",
    reward: float = REWARD,
    features: Sequence[int] | None = None,
    means: Any = None,
    covariances: Any = None,
    feature_names: Sequence[str] | None = None,
    figure: Any = None,
) -> Any:
    """Draw every pair of features, with histograms of the clusters on the diagonal.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    partition : CredalPartition
        Their masses.
    rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
        How the set of a row is chosen, see :meth:`egmm.CredalPartition.sets`.
    reward : float, default=0.8
        Utility of a pair that contains the right cluster, for ``rule="utility"``.
    features : sequence of int, default=None
        Features by number; None means the first six.
    means : array-like of shape (n_clusters, n_features), default=None
        Cluster centres.
    covariances : array-like of shape (n_features, n_features) or (n_clusters, n_features, n_features), default=None
        Covariances, drawn as ellipses.
    feature_names : sequence of str, default=None
        Names of all features.
    figure : matplotlib Figure or SubFigure, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    axes : ndarray of matplotlib Axes of shape (n_shown, n_shown)

    Examples
    --------
    >>> from egmm import EGMM
    >>> from egmm.datasets import make_blobs_with_overlap
    >>> X, _ = make_blobs_with_overlap(100, 2, n_features=3, random_state=0)
    >>> plot_pairs(X, EGMM(2, random_state=0).fit(X).partition(X)).shape
    (3, 3)
    """
    rows = check_finite_matrix("X", X, (None, None))
    check_same_length("X", rows, "partition", check_partition("partition", partition))
    n_features = rows.shape[1]
    shown = list(range(min(n_features, MOST_FEATURES))) if features is None else list(features)
    shown = [check_integer("features", at, 0, n_features - 1) for at in shown]
    if not shown:
        raise ValueError("features must hold at least one feature, got none.")
    side = 2.1 * len(shown) + 0.8
    figure = pyplot().figure(figsize=(side + 1.0, side), layout="constrained") if figure is None else figure
    panel = (min(figure.bbox.width / figure.dpi - 1.0, figure.bbox.height / figure.dpi) - 0.8) / len(shown)
    names = feature_labels(n_features, feature_names, max(4, int(LETTERS_PER_INCH * panel)))
    axes = dressed(figure.subplots(len(shown), len(shown), squeeze=False, sharex="col"))
    centres = rows[:0] if means is None else check_finite_matrix("means", means, (None, n_features))
    limits = {d: robust_range(rows[:, d], centres[:, d]) for d in shown} if len(rows) else {}
    is_outside = np.zeros(len(rows), dtype=bool)
    for d, (low, high) in limits.items():
        is_outside |= (rows[:, d] < low) | (rows[:, d] > high)
    style: dict[str, Any] = {
        "rule": rule,
        "reward": reward,
        "means": means,
        "covariances": covariances,
        "feature_names": feature_names,
    }
    last = len(shown) - 1
    for i, down in enumerate(shown):
        for j, across in enumerate(shown):
            if i == j:
                _draw_histograms(axes[i, j], rows[:, down], partition, limits.get(down))
            else:
                legend = i == 0 and j == last
                plot_partition(rows, partition, view=(across, down), legend=legend, ax=axes[i, j], **style)
            axes[i, j].set(xlabel=names[across] if i == last else "", ylabel=names[down] if j == 0 else "")
            # The first panel is a histogram: the scale of its row is that of the second panel.
            is_scaled = j == (1 if i == 0 else 0)
            axes[i, j].tick_params(labelsize="x-small", labelbottom=i == last, labelleft=is_scaled)
    if len(shown) > 1:
        _move_legend(figure, axes[0, last], outside_note(int(is_outside.sum())))
    return axes


def _move_legend(figure: Any, ax: Any, notes: Sequence[str]) -> None:
    """Move the legend of a panel to the figure: beside the panel it would push the panels apart."""
    legend = ax.get_legend()
    entries = {"handles": legend.legend_handles, "labels": [text.get_text() for text in legend.get_texts()]}
    look = {"frameon": False, "fontsize": "small", "title_fontsize": "small", "scatterpoints": 1}
    title = "\n".join([legend.get_title().get_text(), *notes])
    figure.legend(**entries, **look, title=title, loc="outside right upper")
    legend.remove()
    for text in [text for text in ax.texts if text.get_gid() == CAPTION]:
        text.remove()  # A caption of one panel would push the panels apart.


def _draw_histograms(ax: Any, values: Any, partition: CredalPartition, limits: tuple[float, float] | None) -> None:
    """Histogram per cluster within limits, weighted by pignistic probability."""
    centre = values.mean()  # Far from zero, bin edges may coincide.
    span = None if limits is None else (limits[0] - centre, limits[1] - centre)
    edges = np.histogram_bin_edges(values - centre, bins=30, range=span)
    for colour, share in zip(cluster_colours(partition.n_clusters, ax), partition.pignistic().T, strict=True):
        counts = np.histogram(values - centre, edges, weights=share)[0]
        ax.stairs(counts, edges + centre, color=colour, fill=True, alpha=0.35)
        ax.stairs(counts, edges + centre, color=colour, linewidth=1.2)
    ax.set_yticks([])
