"""Algorithms compared by their average ranks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_choice, check_finite_matrix, check_real
from egmm.plotting.style import PALETTE, axes_or_new, ink, plain


def plot_critical_difference(
    names: Sequence[str],
    average_ranks: Any,
    difference: float,
    *,
    control: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw average ranks on a line, best on the left, with the critical difference.

    With a control algorithm (Bonferroni-Dunn), a band marks the ranks that do not differ significantly from it. Without
    one (Nemenyi), bars connect algorithms that do not differ significantly.

    Parameters
    ----------
    names : sequence of str
        Names of the algorithms.
    average_ranks : array-like of shape (n_algorithms,)
        Average ranks; 1 for an algorithm that is always best.
    difference : float
        Critical difference, see :func:`egmm.metrics.bonferroni_dunn_difference`.
    control : str, default=None
        Algorithm that all others are compared with.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_critical_difference(["A", "B", "C"], [1.2, 1.9, 2.9], 1.0, control="A")
    >>> [text.get_text() for text in ax.texts][3:]
    ['A  1.20', 'B  1.90', '2.90  C', 'critical difference 1.00']
    """
    ranks = check_finite_matrix("average_ranks", average_ranks, (len(names),))
    check_real("difference", difference, 0.0)
    ax = axes_or_new(ax)
    order = np.argsort(ranks, kind="stable")
    half = -(-len(ranks) // 2)
    # Room for the names, in units of ranks: a letter is about a sixtieth of the figure.
    margin = len(ranks) * (0.12 + 0.022 * max(len(plain(name)) + 6 for name in names))
    _draw_axis(ax, len(ranks))
    depths = [at if at < half else len(ranks) - 1 - at for at in range(len(ranks))]
    bars = [] if control is not None else _groups(ranks[order], difference)
    room = 0.55 + 0.28 * len(bars)
    for at, (algorithm, depth) in enumerate(zip(order, depths, strict=True)):
        _draw_label(ax, plain(names[algorithm]), ranks[algorithm], -(room + 0.5 * depth), len(ranks), left=at < half)
    if control is not None:
        centre = ranks[list(names).index(check_choice("control", control, names))]
        low, high = max(1.0, centre - difference), min(float(len(ranks)), centre + difference)
        ax.fill_betweenx([-0.16, 0.16], low, high, color=PALETTE[1], alpha=0.35, linewidth=0, label="critical")
    for height, (low, high) in enumerate(bars):
        ax.plot([low - 0.05, high + 0.05], [-0.3 - 0.28 * height] * 2, color=PALETTE[1], linewidth=4)
    ax.plot([1, 1 + difference], [1.0, 1.0], color=ink(ax), linewidth=1.5, marker="|", markersize=7)
    ax.text(1 + difference / 2, 1.12, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=9)
    right = max(len(ranks) + margin, 1 + difference + margin / 4)
    ax.set(xlim=(1 - margin, right), ylim=(-room - 0.5 * half - 0.1, 1.7))
    ax.axis("off")
    return ax


def _draw_axis(ax: Any, n_algorithms: int) -> None:
    ax.plot([1, n_algorithms], [0, 0], color=ink(ax), linewidth=1.2)
    for rank in range(1, n_algorithms + 1):
        ax.plot([rank, rank], [0, 0.14], color=ink(ax), linewidth=1.2)
        ax.text(rank, 0.22, str(rank), ha="center", va="bottom", fontsize=9)


def _draw_label(ax: Any, name: str, rank: float, y: float, n_algorithms: int, *, left: bool) -> None:
    end = 0.85 if left else n_algorithms + 0.15
    ax.plot([rank, rank, end], [0, y, y], color="#555555", linewidth=0.9)
    ax.plot(rank, 0, marker="o", color=PALETTE[0], markersize=5, zorder=3)
    text = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
    ax.text(end + (-0.06 if left else 0.06), y, text, ha="right" if left else "left", va="center", fontsize=9.5)


def _groups(ranks: FloatArray, difference: float) -> list[tuple[float, float]]:
    """Longest runs of sorted ranks that lie within the critical difference of each other."""
    runs: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference, side="right")) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return [(float(ranks[first]), float(ranks[last])) for first, last in runs]
