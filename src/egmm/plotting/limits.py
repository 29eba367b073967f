"""Robust axis limits, and the note about rows outside."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.plotting.style import muted

FEW_ROWS = 50
"""With fewer rows, all are shown."""

CORE = (0.02, 0.98)
"""Quantiles that bound the bulk of the rows."""

REACH = 0.75
"""How far axes may extend beyond the core, relative to its width."""

CAPTION = "caption"
"""gid of the text written by `write_caption`."""

ABOVE_CAPTION = 16
"""Space below a title, in points, that a caption fits in."""

PADDING = 0.04
"""Margin beyond the outermost row shown, relative to the width."""


def robust_range(values: FloatArray, also: Any = ()) -> tuple[float, float]:
    """Limits of one axis: the range of all values, unless a few are far outside; `also` is always shown.

    >>> robust_range(np.r_[np.linspace(0, 1, 99), 100.0])[1] < 3
    True
    """
    kept = np.concatenate([np.ravel(also), values]) if len(values) < FEW_ROWS else np.ravel(also)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if len(values) >= FEW_ROWS:
        first, last = np.quantile(values, CORE, method="nearest")
        reach = REACH * (last - first)
        low, high = max(low, float(first - reach)), min(high, float(last + reach))
        if high <= low:  # nearly all values equal
            low, high = float(values.min()), float(values.max())
    if len(kept):
        low, high = min(low, float(kept.min())), max(high, float(kept.max()))
    pad = PADDING * (high - low) or max(abs(low), 1.0) * PADDING
    return low - pad, high + pad


def set_robust_limits(ax: Any, points: FloatArray, also: FloatArray | None = None) -> int:
    """Set both limits of Axes and return the number of rows outside; points `also` are always inside."""
    shown = np.empty((0, 2)) if also is None else also
    x, y = (robust_range(points[:, k], shown[:, k]) for k in (0, 1))
    ax.set(xlim=x, ylim=y)
    inside = (points >= [x[0], y[0]]).all(axis=1) & (points <= [x[1], y[1]]).all(axis=1)
    return int((~inside).sum())


def outside_note(n_outside: int) -> list[str]:
    """Note on the number of rows not shown.

    >>> outside_note(0), outside_note(1), outside_note(7)
    ([], ['1 row outside'], ['7 rows outside'])
    """
    return [f"{n_outside:,} row{'' if n_outside == 1 else 's'} outside".replace(",", " ")] if n_outside else []


def write_caption(ax: Any, parts: Sequence[str]) -> None:
    """Write a small caption above the upper left corner, and lift the title above it."""
    if not parts:
        return
    if ax.get_title():
        ax.set_title(ax.get_title(), pad=ABOVE_CAPTION)
    place = {"xy": (0, 1), "xycoords": "axes fraction", "xytext": (0, 4), "textcoords": "offset points"}
    ax.annotate(" · ".join(parts), **place, fontsize="x-small", color=muted(ax), gid=CAPTION)
