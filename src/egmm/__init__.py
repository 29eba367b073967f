"""Evidential clustering: Gaussian mixtures over sets of clusters, credal partitions, belief functions."""

from egmm.belief import CredalPartition, FocalSets
from egmm.mixture import EGMM
from egmm.selection import Selection, select_model

__all__ = ["EGMM", "CredalPartition", "FocalSets", "Selection", "select_model"]
__version__ = "0.1.0"
