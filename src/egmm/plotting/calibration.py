"""Calibration of beliefs."""

from typing import Any

import numpy as np

from egmm._checks import check_integer, check_labels, check_same_length
from egmm.belief.partition import CredalPartition, check_partition
from egmm.plotting.style import NEUTRAL, PALETTE, axes_or_new


def plot_calibration(partition: CredalPartition, y_true: Any, *, n_bins: int = 10, ax: Any = None) -> Any:
    """Draw the observed share of correct clusters against the predicted probability.

    Clusters are matched to classes first. Each dot is a bin of (row, cluster) pairs by pignistic probability; the bar
    spans mean belief to mean plausibility. For calibrated beliefs, the bar crosses the diagonal.

    Parameters
    ----------
    partition : CredalPartition
        Masses.
    y_true : array-like of shape (n_samples,)
        Classes, as many as clusters or fewer.
    n_bins : int, default=10
        Number of bins of equal width; empty bins are omitted.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_calibration(CredalPartition.from_labels([0, 0, 1]), ["a", "a", "b"])
    >>> ax.get_xlabel()
    'pignistic probability, from belief to plausibility'
    """
    truth = check_labels("y_true", y_true)
    check_same_length("y_true", truth, "partition", check_partition("partition", partition))
    check_integer("n_bins", n_bins, 1)
    matched = partition.align(truth)
    probability, low, high = (
        values.ravel() for values in (matched.pignistic(), matched.belief(), matched.plausibility())
    )
    is_right = (truth[:, None] == np.arange(partition.n_clusters)).ravel()
    bins = np.minimum((probability * n_bins).astype(int), n_bins - 1)
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color=NEUTRAL, linestyle="--", linewidth=1)
    for b in np.unique(bins):
        at = bins == b
        said, seen = probability[at].mean(), is_right[at].mean()
        span = [low[at].mean(), high[at].mean()]
        ax.plot(span, [seen, seen], color=PALETTE[0], linewidth=5, alpha=0.3, solid_capstyle="butt")
        ax.plot(said, seen, "o", color=PALETTE[0], markersize=6)
    ax.set(xlabel="pignistic probability, from belief to plausibility", ylabel="share correct")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.grid(alpha=0.3)
    return ax
