"""Matplotlib plots: each takes arrays or partitions, draws on an Axes and returns it."""

from egmm.plotting.bootstrap import plot_bootstrap_calibration
from egmm.plotting.calibration import plot_calibration
from egmm.plotting.decision import plot_delta_bel
from egmm.plotting.density import plot_density, plot_history
from egmm.plotting.masses import plot_masses
from egmm.plotting.pairs import plot_pairs
from egmm.plotting.partition import plot_approximations, plot_partition
from egmm.plotting.ranks import plot_critical_difference
from egmm.plotting.selection import plot_criterion, plot_model_grid
from egmm.plotting.selective import plot_risk_coverage
from egmm.plotting.uncertainty import plot_uncertainty
from egmm.plotting.view import View, view_of

__all__ = [
    "View",
    "plot_approximations",
    "plot_bootstrap_calibration",
    "plot_calibration",
    "plot_criterion",
    "plot_critical_difference",
    "plot_delta_bel",
    "plot_density",
    "plot_history",
    "plot_masses",
    "plot_model_grid",
    "plot_pairs",
    "plot_partition",
    "plot_risk_coverage",
    "plot_uncertainty",
    "view_of",
]
