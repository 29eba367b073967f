"""Colours and axes shared by the plots."""

from typing import Any

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Okabe and Ito's colours: told apart by colour-blind readers too."""

MARKERS = "osD^vP*X<>phdH"


def axes_or_new(ax: Any) -> Any:
    """Return the given Axes, or a new one; Matplotlib is loaded only here."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError:
        raise ImportError("Plots need Matplotlib: install it with `pip install 'egmm[plot]'`.") from None
    return plt.subplots(layout="constrained")[1]
