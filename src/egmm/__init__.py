"""Evidential clustering: Gaussian mixtures over sets of clusters, credal partitions, belief functions."""

from egmm.belief import CredalPartition, FocalSets

__all__ = ["CredalPartition", "FocalSets"]
__version__ = "0.1.0"
