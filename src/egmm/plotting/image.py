"""Approximations of clusters over a grey image, as in the paper's figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egmm._checks import BoolArray, FloatArray
from egmm.plotting.style import axes_row_or_new, cluster_colours, plain

LOWER = (0.85, 0.1, 0.1)
UPPER = (0.15, 0.35, 0.95)
COVER = 0.75
"""Opacity of colours over the grey image."""


def rough_colours(grey: NDArray[Any], lower: BoolArray, upper: BoolArray) -> FloatArray:
    """Colour a grey image: red for lower, blue for upper only.

    Parameters
    ----------
    grey : ndarray of shape (rows, columns)
        Grey levels; their 0.5 and 99.5 percentiles become black and white.
    lower, upper : ndarray of bool of shape (rows, columns)
        Voxels surely and possibly in a cluster.

    Returns
    -------
    colours : ndarray of shape (rows, columns, 3)
        Red, green and blue from 0 to 1.

    Examples
    --------
    >>> surely, possibly = np.array([[True, False]]), np.array([[True, True]])
    >>> rough_colours(np.zeros((1, 2)), surely, possibly).argmax(axis=-1)
    array([[0, 2]])
    """
    values = np.asarray(grey, dtype=np.float64)
    low, high = np.percentile(values, [0.5, 99.5])
    shade = np.clip((values - low) / max(high - low, 1e-12), 0, 1)
    colours = np.repeat(shade[..., None], 3, axis=-1)
    for voxels, colour in ((upper & ~lower, UPPER), (lower, LOWER)):
        colours[voxels] = (1 - COVER) * colours[voxels] + COVER * np.array(colour)
    return colours


def plot_approximations(
    grey: NDArray[Any],
    lower: Sequence[BoolArray],
    upper: Sequence[BoolArray],
    *,
    titles: Sequence[str] | None = None,
    aspect: float = 1.0,
    axes: Any = None,
) -> Any:
    r"""Draw, per cluster, the lower approximation in red and the rest of the upper one in blue over a grey image.

    Parameters
    ----------
    grey : ndarray of shape (rows, columns)
        The image.
    lower, upper : sequence of ndarray of bool of shape (rows, columns)
        Voxels surely and possibly in each cluster.
    titles : sequence of str, default=None
        One per cluster.
    aspect : float, default=1.0
        Ratio of pixel height to width.
    axes : matplotlib Axes or sequence of Axes, default=None
        Axes to draw on, one per cluster; None makes a new figure.

    Returns
    -------
    axes : ndarray of matplotlib Axes

    Examples
    --------
    >>> sure = np.eye(4, dtype=bool)
    >>> axes = plot_approximations(np.zeros((4, 4)), [sure], [sure], titles=["CSF"])
    >>> axes[0].get_title()
    'CSF\n4 sure, 0 open'
    """
    axes = axes_row_or_new(axes, len(lower), (2.6, 2.6 * aspect * grey.shape[0] / grey.shape[1] + 0.9))
    for number, (ax, sure, possible) in enumerate(zip(axes, lower, upper, strict=True)):
        ax.imshow(rough_colours(grey, sure, possible), interpolation="nearest", aspect=aspect)
        title = plain(titles[number], 30) if titles is not None else f"cluster {number + 1}"
        counts = f"{_spaced(sure)} sure, {_spaced(possible & ~sure)} open"
        ax.set_title(f"{title}\n{counts}", fontsize="small")
        ax.set_axis_off()
    for colour, label in ((LOWER, "surely in the cluster"), (UPPER, "possibly (open)")):
        axes[0].plot([], [], "s", color=colour, label=label)
    handles, labels = axes[0].get_legend_handles_labels()
    figure = axes[0].figure
    look = {"frameon": False, "fontsize": "small"}
    engine = figure.get_layout_engine()
    if engine is not None and engine.adjust_compatible is False:  # constrained layout makes room outside the Axes
        shown = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
        if labels not in shown:  # One legend for all panels of a figure.
            figure.legend(handles, labels, loc="outside lower center", ncols=2, **look)
    else:
        axes[0].legend(handles, labels, loc="lower left", **look)
    return axes


def _spaced(voxels: BoolArray) -> str:
    return f"{int(voxels.sum()):,}".replace(",", "\u202f")


def plot_labels(
    labels: NDArray[Any], names: Sequence[str], *, colours: Any = None, aspect: float = 1.0, ax: Any = None
) -> Any:
    """Draw a label map in cluster colours, with a legend of names and shares.

    Parameters
    ----------
    labels : ndarray of int of shape (rows, columns)
        Cluster of each pixel, counted from one; 0 outside the mask.
    names : sequence of str
        One per cluster.
    colours : array-like of shape (n_clusters, 3), default=None
        Red, green and blue from 0 to 1; None uses the colours of the other plots.
    aspect : float, default=1.0
        Ratio of pixel height to width.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_labels(np.array([[1, 1, 2, 2]]), ["sky", "sea"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['sky, 50 %', 'sea, 50 %']
    """
    ax = axes_row_or_new(None if ax is None else [ax], 1, (5.2, 4.6))[0]
    shown = cluster_colours(len(names)) if colours is None else np.asarray(colours, dtype=np.float64)
    picture = np.concatenate([np.ones((1, 3)), shown])[labels]
    ax.imshow(np.clip(picture, 0, 1), interpolation="nearest", aspect=aspect)
    ax.set_axis_off()
    counts = np.bincount(labels.ravel(), minlength=len(names) + 1)[1:]
    shares = 100 * counts / max(counts.sum(), 1)
    for colour, name, share in zip(shown, names, shares, strict=True):
        label = f"{plain(name, 30)}, {share:.0f} %"
        ax.plot([], [], "s", color=np.clip(colour, 0, 1), markeredgecolor="0.5", label=label)
    look = {"frameon": False, "fontsize": "small"}
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=min(len(names), 3), **look)
    return ax
