"""Descriptions of clusters: profiles in words, and a decision tree that explains a partition."""

from egmm.explanation.profiles import Profile, Trait, profiles
from egmm.explanation.tree import Explanation, Rule, explain

__all__ = ["Explanation", "Profile", "Rule", "Trait", "explain", "profiles"]
