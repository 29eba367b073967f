"""Evidential clustering: Gaussian mixtures over sets of clusters, credal partitions, belief functions."""

from egmm.belief.focal import FocalSets

__all__ = ["FocalSets"]
__version__ = "0.1.0"
