"""Approximations of clusters over a grey image, as in the paper's figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egmm._checks import BoolArray, FloatArray
from egmm.plotting.style import axes_row_or_new, plain

LOWER = (0.85, 0.1, 0.1)
UPPER = (0.15, 0.35, 0.95)
COVER = 0.75
"""How much of the grey image a colour covers."""


def rough_colours(grey: NDArray[Any], lower: BoolArray, upper: BoolArray) -> FloatArray:
    """Colour a grey image: red where lower, blue where upper only.

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
        Height of a pixel by its width.
    axes : matplotlib Axes or sequence of Axes, default=None
        Where to draw, one for each cluster; None makes a new figure.

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
        counts = f"{int(sure.sum())} sure, {int((possible & ~sure).sum())} open"
        ax.set_title(f"{title}\n{counts}", fontsize="small")
        ax.set_axis_off()
    for colour, label in ((LOWER, "surely in the cluster"), (UPPER, "possibly (open)")):
        axes[0].plot([], [], "s", color=colour, label=label)
    axes[0].legend(loc="upper left", bbox_to_anchor=(0.0, 0.0), frameon=False, fontsize="small")
    return axes
