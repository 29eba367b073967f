"""Colours, markers and axes shared by the plots."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from egmm._checks import FloatArray, import_optional, printable
from egmm.belief.focal import FocalSets

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Okabe and Ito's colours, safe for colour-blind readers."""

MORE_COLOURS = ("#4444FF", "#AACC77", "#DD0044", "#8877FF", "#EEBBBB", "#55DDEE", "#447777", "#447744")
"""Colours beyond the palette, as far from it and from each other as possible, also for colour-blind readers."""

MARKERS = "osD^vP*X<>phdH"

MOST_MIXED = 4
"""Maximum number of sets whose mixed colours can be distinguished."""

META_MARKERS = "^sDvPX<>ph*dH8"
"""Markers of sets of several clusters; single clusters are round."""

NEUTRAL = "#8a8a8a"
"""Grey for outliers, and for rows that a panel does not highlight."""

LEGEND_LINE = 14.0
"""Height of a line of a small legend, in points."""


def axes_or_new(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """Return the given Axes, or new ones of a size in inches; Matplotlib is imported only here."""
    return dressed(pyplot().subplots(figsize=size, layout="constrained")[1]) if ax is None else ax


def axes_row_or_new(axes: Any, n_axes: int, size: tuple[float, float], **options: Any) -> Any:
    """Return the given Axes as an array, or new ones side by side, each of a size in inches."""
    if axes is None:
        figsize = (size[0] * n_axes, size[1])
        return dressed(
            pyplot().subplots(1, n_axes, figsize=figsize, squeeze=False, layout="constrained", **options)[1]
        )[0]
    given = np.asarray(axes, dtype=object).ravel()
    if len(given) != n_axes:
        raise ValueError(f"axes must be {n_axes} Axes, got {len(given)}.")
    return given


def unseen_axes(rows: int, columns: int, size: tuple[float, float], **options: Any) -> Any:
    """Axes (rows, columns), each of a size in inches, of a figure not managed by pyplot."""
    figure = import_optional("matplotlib.figure", "Figures", "plot")
    sheet = figure.Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return dressed(sheet.subplots(rows, columns, squeeze=False, **options))


def dressed(axes: Any) -> Any:
    """Style new Axes: no frame, grey grid lines and ticks."""
    for ax in np.ravel(axes):
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("0.6")
        ax.tick_params(color="0.6", labelcolor=muted(ax), labelsize="small")
        ax.set_axisbelow(True)
    return axes


def pyplot() -> Any:
    """Import pyplot, with a hint for installing it."""
    return import_optional("matplotlib.pyplot", "Plots", "plot")


def ground(ax: Any) -> FloatArray:
    """Background colour, (3,) in [0, 1]; white for transparent Axes."""
    *colour, opacity = ax.get_facecolor()
    return np.array(colour) if opacity > 0 else np.ones(3)


def ink(ax: Any) -> str:
    """Black, or white on a dark background."""
    return "black" if ground(ax).mean() > 0.5 else "white"


def muted(ax: Any) -> str:
    """Grey for secondary text: dark on light, light on dark."""
    return "0.3" if ink(ax) == "black" else "0.75"


def legend_rows(ax: Any, most: int) -> int:
    """Number of legend lines that fit beside the Axes, up to a limit."""
    return int(np.clip(ax.figure.bbox.height / ax.figure.dpi * 72 // LEGEND_LINE - 2, 1, most))


def cluster_colours(n_clusters: int, ax: Any = None) -> FloatArray:
    """One colour per cluster, (n_clusters, 3) in [0, 1]; beyond sixteen the hues repeat, lighter.

    On a dark background, black becomes white.

    >>> cluster_colours(3)[0].round(2).tolist()
    [0.0, 0.45, 0.7]
    """
    base = np.array([[int(code[at : at + 2], 16) for at in (1, 3, 5)] for code in PALETTE + MORE_COLOURS]) / 255.0
    if ax is not None and ink(ax) == "white":
        base[PALETTE.index("#000000")] = 1.0
    rounds = np.arange(n_clusters) // len(base)
    whiteness = 1.0 - 0.6 ** rounds[:, None]
    return np.asarray(base[np.arange(n_clusters) % len(base)] * (1.0 - whiteness) + whiteness)


def set_colours(focal: FocalSets, ax: Any = None) -> FloatArray:
    """Colour per focal set, (n_focal, 3): the mean of its clusters' colours, grey for the empty set.

    >>> set_colours(FocalSets.full(2)).shape
    (3, 3)
    """
    colours = focal.shares @ cluster_colours(focal.n_clusters, ax)
    colours[focal.cardinalities == 0] = int(NEUTRAL[1:3], 16) / 255.0
    return colours


def bar_colours(focal: FocalSets, mixed: bool, ax: Any = None) -> tuple[FloatArray, FloatArray]:
    """Faces and hatches of the focal sets, (n_focal, 3) each.

    Mixed colours of many sets cannot be distinguished. A pair then has the colour of its first cluster with the second
    as hatching, and larger sets are grey.
    """
    faces, hatches = set_colours(focal, ax), np.ones((len(focal), 3))
    if not mixed:
        clusters = cluster_colours(focal.n_clusters, ax)
        for j in np.flatnonzero(focal.cardinalities > 1):
            members = np.flatnonzero(focal.membership[j])
            is_pair = len(members) == 2
            faces[j] = clusters[members[0]] if is_pair else int(NEUTRAL[1:3], 16) / 255.0
            hatches[j] = clusters[members[1]] if is_pair else 1.0
    return faces, hatches


def set_markers(focal: FocalSets, counts: Any = None) -> list[str]:
    """Marker per focal set: a disc for a cluster, a cross for the empty set, other shapes for larger sets.

    With `counts` of rows per set, the sets with the most rows have different shapes; there are fewer shapes than sets.

    >>> set_markers(FocalSets.full(2, empty=True))
    ['x', 'o', 'o', '^']
    """
    sizes = focal.cardinalities
    order = np.arange(len(focal)) if counts is None else np.argsort(-np.asarray(counts), kind="stable")
    shapes = {j: META_MARKERS[seen % len(META_MARKERS)] for seen, j in enumerate(j for j in order if sizes[j] > 1)}
    return [shapes.get(j, "x" if size == 0 else "o") for j, size in enumerate(sizes)]


def short_label(label: str, most: int = 12) -> str:
    """Name of a set; long names are shortened in the middle.

    >>> short_label("{1,2}"), short_label("{1,2,3,4,5,6,7,8}")
    ('{1,2}', '{1,2,…,8}')
    """
    if len(label) <= most:
        return label
    first, second, *_, last = label.strip("{}").split(",")
    return f"{{{first},{second},…,{last}}}"


def marker_area(n_rows: int) -> float:
    """Area of a marker in square points, decreasing with the number of rows.

    >>> marker_area(10), marker_area(10**6)
    (40.0, 0.8)
    """
    return float(np.clip(14_000.0 / max(n_rows, 1), 0.8, 40.0))


def feature_labels(n_features: int, feature_names: Sequence[str] | None, width: int | None = None) -> list[str]:
    """Names of the features, escaped for Matplotlib and wrapped; x1, x2, ... by default."""
    if feature_names is None:
        return [f"x{k + 1}" for k in range(n_features)]
    if len(feature_names) != n_features:
        raise ValueError(f"feature_names must have {n_features} entries, got {len(feature_names)}.")
    return [plain(str(name), width=width) for name in feature_names]


def plain(text: str, most: int = 40, width: int | None = None) -> str:
    """Text for Matplotlib without mathtext, control characters or overlong lines."""
    text = printable(text)
    short = text if len(text) <= most else text[: most - 1] + "…"
    return (short if width is None else fill(short, width)).replace("$", r"\$")
