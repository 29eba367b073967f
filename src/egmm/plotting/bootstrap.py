"""Fit of bootGMM's masses to the bootstrap intervals."""

from typing import Any

import numpy as np

from egmm.cluster.bootgmm import BootGMM
from egmm.plotting.style import PALETTE, axes_or_new

MAX_PAIRS = 4000
"""Maximum number of pairs drawn."""


def plot_bootstrap_calibration(bootgmm: BootGMM, ax: Any = None) -> Any:
    """Draw belief and plausibility that two rows share a cluster against the bounds of their bootstrap interval.

    On the diagonal, the masses agree with the bootstrap. Many pairs are thinned, in the order of their intervals.

    Parameters
    ----------
    bootgmm : BootGMM
        Fitted clusterer.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]]
    >>> ax = plot_bootstrap_calibration(BootGMM(2, n_bootstrap=20, covariance="E", random_state=0).fit(X))
    >>> ax.get_ylabel()
    'fitted degree of "same cluster"'
    """
    if not isinstance(bootgmm, BootGMM):
        raise TypeError(f"bootgmm must be a BootGMM, got {type(bootgmm).__name__}.")
    if not hasattr(bootgmm, "fitted_intervals_"):
        raise ValueError("bootgmm has no intervals; fit it first.")
    wanted, fitted = bootgmm.intervals_, bootgmm.fitted_intervals_
    order = np.argsort(wanted.sum(axis=1), kind="stable")
    drawn = order[:: -(-len(order) // MAX_PAIRS)]
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=1)
    names = ("belief against $P^l$", "plausibility against $P^u$")
    for side, (name, color, marker) in enumerate(zip(names, PALETTE, "ov", strict=False)):
        error = float(np.sqrt(np.mean((wanted[:, side] - fitted[:, side]) ** 2)))
        ax.scatter(
            wanted[drawn, side],
            fitted[drawn, side],
            s=10,
            marker=marker,
            color=color,
            alpha=0.35,
            linewidths=0,
            label=f"{name} (RMS {error:.3f})",
        )
    percent = f"{100 * bootgmm.confidence:g} %"
    ax.set_xlabel(f"bound of the {percent} bootstrap interval")
    ax.set_ylabel('fitted degree of "same cluster"')
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    legend = ax.legend(loc="upper left", fontsize="small")
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)
    ax.grid(alpha=0.3)
    return ax
