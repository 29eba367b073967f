"""Belief functions on subsets of clusters: families of sets, mass functions and what follows from them."""

from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition

__all__ = ["CredalPartition", "FocalSets"]
