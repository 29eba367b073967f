"""A criterion by number of clusters, and over all models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.plotting.style import MARKERS, PALETTE, axes_or_new, cluster_colours, ground, ink

MOST_TICKS = 20
"""Maximum number of tick labels below a curve."""

LETTER = 0.64
"""Width of a digit relative to the font size."""


def plot_criterion(
    n_clusters: Sequence[int],
    values: Mapping[str, Sequence[float]],
    *,
    name: str = "EBIC",
    higher_is_better: bool = True,
    best: tuple[int, str] | None = None,
    doubtful: Mapping[str, Sequence[bool]] | None = None,
    ax: Any = None,
) -> Any:
    """Draw a criterion against the number of clusters, one line per model, with the chosen one circled.

    Parameters
    ----------
    n_clusters : sequence of int
        Numbers of clusters.
    values : mapping of str to sequence of float
        Criterion per model, in the order of `n_clusters`; NaN where a fit failed.
    name : str, default='EBIC'
        Name of the criterion.
    higher_is_better : bool, default=True
        Direction, shown in the axis label.
    best : tuple of (int, str), default=None
        Chosen number of clusters and model.
    doubtful : mapping of str to sequence of bool, default=None
        Degenerate fits, drawn hollow; they are not chosen although their criterion may be better.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_criterion([2, 3, 4], {"EEE": [-55.9, -63.1, -70.6]}, best=(2, "EEE"))
    >>> ax.get_xlabel()
    'number of clusters'
    """
    _check_table(n_clusters, values, best, doubtful)
    ax = axes_or_new(ax)
    has_doubtful, colours = False, cluster_colours(len(PALETTE), ax)
    for i, (model, line) in enumerate(values.items()):
        style = {"color": colours[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)], "markersize": 5}
        ax.plot(n_clusters, line, label=model, linestyle="-" if i < len(PALETTE) else "--", **style)
        hollow = np.asarray(doubtful[model] if doubtful else [False] * len(line), dtype=bool)
        if hollow.any():
            at, height = np.asarray(n_clusters)[hollow], np.asarray(line, dtype=float)[hollow]
            ax.plot(at, height, linestyle="", **style | {"markerfacecolor": ground(ax), "zorder": 3})
            has_doubtful = True
        if best is not None and best[1] == model:
            at = list(n_clusters).index(best[0])
            ax.plot(best[0], line[at], "o", markersize=15, markerfacecolor="none", markeredgecolor=ink(ax))
    # Thin out many tick labels, which would overlap.
    ax.set_xticks(list(n_clusters)[:: -(-len(n_clusters) // MOST_TICKS)])
    ax.set_xlabel("number of clusters")
    ax.set_ylabel(f"{name} ({'higher' if higher_is_better else 'lower'} is better)")
    finite = np.concatenate([np.asarray(line, dtype=float) for line in values.values()])
    if len(values) > 1 and np.isfinite(finite).any():
        ax.legend(title="model", ncols=2 if len(values) > 7 else 1, fontsize="small")
    if has_doubtful:
        ax.set_title("hollow: degenerate, chosen only if all are", fontsize="small")
    ax.grid(alpha=0.3)
    return ax


def plot_model_grid(
    n_clusters: Sequence[int],
    values: Mapping[str, Sequence[float]],
    *,
    name: str = "EBIC",
    higher_is_better: bool = True,
    best: tuple[int, str] | None = None,
    doubtful: Mapping[str, Sequence[bool]] | None = None,
    ax: Any = None,
) -> Any:
    """Draw a criterion for every model and number of clusters as a heat map; dark is better, the chosen cell is framed.

    Parameters
    ----------
    n_clusters : sequence of int
        Numbers of clusters.
    values : mapping of str to sequence of float
        Criterion per model, in the order of `n_clusters`; NaN, drawn blank, where a fit failed.
    name : str, default='EBIC'
        Name of the criterion.
    higher_is_better : bool, default=True
        Direction, shown in the title.
    best : tuple of (int, str), default=None
        Chosen number of clusters and model.
    doubtful : mapping of str to sequence of bool, default=None
        Degenerate fits, hatched and without colour; they are not chosen although their criterion may be better.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_model_grid([2, 3], {"EEE": [-55.9, -63.1], "EII": [-60.0, float("nan")]}, best=(2, "EEE"))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['EEE', 'EII']
    """
    _check_table(n_clusters, values, best, doubtful)
    grid = np.array([list(line) for line in values.values()], dtype=float)
    texts = [[f"{value:.1f}" if np.isfinite(value) else "failed" for value in line] for line in grid]
    longest = max(len(text) for line in texts for text in line)
    width = 1.6 + max(0.6, 0.09 * longest) * grid.shape[1]
    ax = axes_or_new(ax, (max(width, 4.0), 1.4 + 0.4 * grid.shape[0]))
    cell = ax.get_window_extent().width / ax.figure.dpi * 72 / grid.shape[1]
    height = min(8.5, cell / (LETTER * (longest + 0.5)))
    goodness = grid if higher_is_better else -grid
    # Colours follow ranks: on a linear scale one poor model would make all others look alike.
    order = np.full(grid.shape, np.nan)
    known = np.isfinite(goodness)
    hatched = known & np.array([doubtful[model] if doubtful else [False] * grid.shape[1] for model in values])
    ranked = known & ~hatched
    order[ranked] = np.argsort(np.argsort(goodness[ranked])) / max(1, ranked.sum() - 1)
    ax.imshow(order, cmap="Blues", vmin=-0.15, vmax=1.25, aspect="auto")
    for i, j in np.ndindex(grid.shape):
        colour = "grey" if not known[i, j] else "white" if order[i, j] > 0.75 else "black"
        if hatched[i, j]:
            colour, lines = ink(ax), "#c8c8c8" if ink(ax) == "black" else "#505050"
            ax.fill(*_corners(i, j, 0.5), facecolor="none", edgecolor=lines, hatch="///", linewidth=0)
        ax.text(j, i, texts[i][j], ha="center", va="center", color=colour, fontsize=height)
    ax.set_xticks(range(len(n_clusters)), [str(count) for count in n_clusters])
    ax.set_yticks(range(len(values)), list(values))
    if best is not None:
        i, j = list(values).index(best[1]), list(n_clusters).index(best[0])
        ax.plot(*_corners(i, j, 0.47), color=PALETTE[1], linewidth=2.5)
    ax.set(xlabel="number of clusters", ylabel="model")
    note = "\nhatched: degenerate, chosen only if all are" if hatched.any() else ""
    ax.set_title(f"{name} ({'higher' if higher_is_better else 'lower'} is better){note}", fontsize="medium")
    return ax


def _check_table(
    n_clusters: Sequence[int],
    values: Mapping[str, Sequence[float]],
    best: tuple[int, str] | None,
    doubtful: Mapping[str, Sequence[bool]] | None,
) -> None:
    """Validate a table of models by numbers of clusters."""
    if not values or not len(n_clusters):
        raise ValueError("n_clusters and values must not be empty.")
    for name, table in (("values", values), ("doubtful", doubtful or {})):
        for model, line in table.items():
            if len(line) != len(n_clusters):
                wanted = f"{len(n_clusters)} entries, one per number of clusters"
                raise ValueError(f"{name} of {model} must have {wanted}; got {len(line)}.")
    if doubtful and set(doubtful) != set(values):
        raise ValueError(f"doubtful must have the models of values ({', '.join(values)}), got {', '.join(doubtful)}.")
    if best is not None and (best[0] not in n_clusters or best[1] not in values):
        raise ValueError(f"best must be one of the given numbers of clusters and models, got {best!r}.")


def _corners(row: int, column: int, reach: float) -> FloatArray:
    """Corners of a grid cell as a closed path, (2, 5)."""
    return reach * np.array([[-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1]]) + [[column], [row]]
