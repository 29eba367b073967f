"""Belief functions on subsets of clusters: families of sets, mass functions and what follows from them."""

from egmm.belief.focal import FocalSets

__all__ = ["FocalSets"]
