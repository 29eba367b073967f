"""Evidential clustering: Gaussian mixtures over sets of clusters, credal partitions, belief functions."""

from egmm.belief import CredalPartition, FocalSets
from egmm.mixture import EGMM

__all__ = ["EGMM", "CredalPartition", "FocalSets"]
__version__ = "0.1.0"
