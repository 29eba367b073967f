"""Mass functions as bars, one stack per row."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import IntArray
from egmm.belief.partition import CredalPartition, check_partition
from egmm.plotting.style import MOST_MIXED, axes_or_new, bar_colours, legend_rows, plain, short_label

MOST_BARS = 60
"""Default maximum number of rows; narrower bars could not be hatched."""

MOST_NAMED = 30
"""Number of rows whose names fit below the bars."""

MANY_UNSURE, UNSURE = 600, 0.05
"""Number of rows with more nonspecificity than this above which the bars are drawn at equal steps among these rows: the
least sure ones would all look alike."""

VISIBLE_MASS = 0.005
"""Sets that never exceed this mass are omitted from the legend."""

LEGEND_ROWS, LEGEND_COLUMNS = 14, 2
"""Maximum number of sets in the legend, the heaviest among the rows drawn."""

HATCHES = {0: None, 1: None, 2: "//"}
"""Hatching by set size; larger sets are cross-hatched."""


def plot_masses(
    partition: CredalPartition,
    rows: Any = None,
    *,
    names: Sequence[str] | None = None,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw the mass function of each row as a stacked bar; sets of several clusters are hatched (up to 60 rows).

    Parameters
    ----------
    partition : CredalPartition
        Masses.
    rows : array-like of int, default=None
        Rows to draw, counted from zero, in order. None means all, or the 60 least sure ones if there are more. If more
        than 600 rows have a nonspecificity above 0.05, None means 60 of these, at equal steps.
    names : sequence of str, default=None
        Names of the rows; None means the partition's `index`, or their numbers, counted from one as in the paper.
    legend : bool, default=True
        Whether to list the sets: at most the 28 heaviest, fewer in a small figure.
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
    >>> ax = plot_masses(EGMM(2, reg_covar=0.01, random_state=0).fit(X).partition(X))
    >>> len(ax.patches)  # 11 rows, 3 sets
    33
    """
    check_partition("partition", partition)
    ax = axes_or_new(ax)
    chosen, of = _rows(partition, rows)
    mass, focal = partition.mass[chosen], partition.focal_sets
    if names is not None and len(names) != len(chosen):
        raise ValueError(f"names must have {len(chosen)} entries, one per row; got {len(names)}.")
    positions, base = np.arange(len(chosen)), np.zeros(len(chosen))
    is_crowded, are_slivers = len(chosen) > MOST_NAMED, len(chosen) > MOST_BARS
    visible = np.flatnonzero(mass.max(axis=0) > VISIBLE_MASS)
    lines = legend_rows(ax, LEGEND_ROWS)
    colours, hatches = bar_colours(focal, len(visible) <= MOST_MIXED, ax)
    named = visible[np.argsort(-mass[:, visible].sum(axis=0), kind="stable")[: LEGEND_COLUMNS * lines]]
    for j in np.lexsort((focal.masks, focal.cardinalities)):
        ax.bar(
            positions,
            mass[:, j],
            bottom=base,
            width=1.0 if are_slivers else 0.85,
            color=colours[j],
            edgecolor=hatches[j],
            linewidth=0.0 if is_crowded else 0.5,
            hatch=HATCHES.get(int(focal.cardinalities[j]), "xx") if not are_slivers else None,
            label=short_label(focal.labels[j]) if j in named else "_",
        )
        base += mass[:, j]
    if names is None and partition.index is not None:
        names = [str(name) for name in np.asarray(partition.index)[chosen]]
    labels = [str(row + 1) for row in chosen] if names is None else [plain(str(name), 16) for name in names]
    ax.set_xticks(
        [] if is_crowded else positions, [] if is_crowded else labels, rotation=90 if max(map(len, labels)) > 4 else 0
    )
    ax.set(
        xlabel=f"{len(chosen)} rows{of}" if is_crowded else "row",
        ylabel="mass",
        ylim=(0, 1),
        xlim=(-0.6, len(chosen) - 0.4),
    )
    if legend:
        ax.legend(
            title="set" if len(named) == len(visible) else f"{len(named)} of {len(visible)} sets",
            ncols=-(-len(named) // lines),
            loc="center left",
            bbox_to_anchor=(1.01, 0.5),
            frameon=False,
            fontsize="small",
        )
    return ax


def _rows(partition: CredalPartition, rows: Any) -> tuple[IntArray, str]:
    """Numbers of the rows to draw, and what they are a part of."""
    if rows is not None:
        chosen = np.atleast_1d(np.asarray(rows))
        if chosen.dtype.kind not in "iu" or chosen.size == 0 or chosen.min() < 0 or chosen.max() >= len(partition):
            raise ValueError(f"rows must hold at least one number from 0 to {len(partition) - 1}, got {rows!r}.")
        return chosen.astype(np.int64), ""
    if len(partition) == 0:
        raise ValueError("partition must have at least one row, got none.")
    if len(partition) <= MOST_BARS:
        return np.arange(len(partition)), ""
    nonspecificity = partition.nonspecificity()
    order = np.argsort(-nonspecificity, kind="stable")
    n_unsure = int((nonspecificity > UNSURE).sum())
    if n_unsure <= MANY_UNSURE:
        return order[:MOST_BARS], f" of {len(partition)}, least sure first"
    steps = np.linspace(0, n_unsure - 1, MOST_BARS).round().astype(np.int64)
    return order[steps], f" of {n_unsure} with nonspecificity above {UNSURE:g}, least sure first"
