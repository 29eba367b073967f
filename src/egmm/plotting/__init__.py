"""Matplotlib plots: each takes arrays or partitions, draws on an Axes and returns it."""

from egmm.plotting.selection import plot_criterion

__all__ = ["plot_criterion"]
