"""The delta-Bel graph of belief-peaks clustering."""

from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.cluster.bpec import BPEC
from egmm.plotting.style import PALETTE, axes_or_new

MAX_NAMED = 12
"""Maximum number of named peaks; more labels would overlap."""

LINE = 12.0
"""Distance between names, in points."""


def plot_delta_bel(bpec: BPEC, ax: Any = None) -> Any:
    """Draw the delta-Bel graph of a fitted BPEC, with the chosen peaks circled and labelled by cluster.

    Cluster centres are at the upper right: their belief is high, and rows of higher belief are far away.

    Parameters
    ----------
    bpec : BPEC
        Fitted with prototypes chosen from its data.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]]
    >>> ax = plot_delta_bel(BPEC(n_neighbors=2).fit(X))
    >>> [text.get_text() for text in ax.texts]
    ['{1}', '{2}']
    """
    if not isinstance(bpec, BPEC):
        raise TypeError(f"bpec must be a BPEC, got {type(bpec).__name__}.")
    graph = getattr(bpec, "decision_graph_", None)
    if graph is None:
        raise ValueError("bpec has no delta-Bel graph; fit it with init='peaks' instead of given prototypes.")
    ax = axes_or_new(ax)
    is_peak = np.zeros(len(graph.belief), dtype=bool)
    is_peak[graph.peaks] = True
    ax.scatter(graph.belief[~is_peak], graph.delta[~is_peak], s=12, color="0.55", linewidths=0, label="rows")
    ax.scatter(
        graph.belief[is_peak],
        graph.delta[is_peak],
        s=55,
        color=PALETTE[1],
        edgecolors="black",
        label=f"prototypes ({len(graph.peaks)})",
        zorder=3,
    )
    ax.margins(x=0.1)
    ax.set_xlabel("Bel: belief in being a centre")
    ax.set_ylabel("δ: distance to the nearest row of higher belief")
    ax.set_ylim(bottom=0)
    _name_peaks(ax, np.column_stack([graph.belief, graph.delta])[graph.peaks[:MAX_NAMED]])
    ax.legend(loc="upper left", fontsize="small")
    ax.grid(alpha=0.3)
    return ax


def _name_peaks(ax: Any, peaks: FloatArray) -> None:
    """Label each peak with its cluster, moved up if labels would overlap."""
    to_points = ax.get_window_extent().height / ax.figure.dpi * 72 / ax.get_ylim()[1]
    lifts, floor = np.zeros(len(peaks)), -np.inf
    for at in sorted(range(1, len(peaks)), key=lambda at: peaks[at, 1]):
        height = peaks[at, 1] * to_points
        lifts[at] = max(floor - height, 0.0)
        floor = height + lifts[at] + LINE
    for cluster, (at, lift) in enumerate(zip(peaks, lifts, strict=True), start=1):
        # The top two rows have the same delta, often at nearly the same belief: label them on opposite sides.
        side, align = (7, "left") if cluster == 1 else (-10, "right")
        leader = {"arrowstyle": "-", "color": "0.4", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3} if lift else None
        place = {"xytext": (side, lift), "textcoords": "offset points", "ha": align, "va": "center"}
        ax.annotate(f"{{{cluster}}}", at, arrowprops=leader, **place)
