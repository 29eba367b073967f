"""What clusters are, in words and rules: profiles of clusters, and a tree of thresholds that explains a partition."""

from egmm.explanation.profiles import Profile, Trait, profiles
from egmm.explanation.tree import Explanation, Rule, explain

__all__ = ["Explanation", "Profile", "Rule", "Trait", "explain", "profiles"]
