"""Matplotlib plots: each takes arrays or partitions, draws on an Axes and returns it."""

from egmm.plotting.decision import plot_delta_bel
from egmm.plotting.selection import plot_criterion

__all__ = ["plot_criterion", "plot_delta_bel"]
