"""Belief functions on subsets of clusters: families of sets, mass functions, transforms, combination and decisions."""

from egmm.belief.alignment import match_clusters, relabel
from egmm.belief.cautious import canonical_weights
from egmm.belief.combination import combine
from egmm.belief.consensus import consensus
from egmm.belief.decisions import (
    best_cluster,
    choose_sets,
    heaviest_set,
    hurwicz,
    most_useful_set,
    outliers,
    undominated,
    with_rejection,
)
from egmm.belief.distances import belief_distance, conflict, jousselme_distance
from egmm.belief.focal import FocalSets
from egmm.belief.masses import check_mass, embed
from egmm.belief.moebius import subset_differences, subset_sums, superset_differences, superset_sums
from egmm.belief.partition import CredalPartition
from egmm.belief.revision import coarsen, condition, discount, normalise, refine
from egmm.belief.rules import combine_masses
from egmm.belief.transforms import (
    belief,
    commonality,
    contour,
    mass_from_belief,
    mass_from_commonality,
    mass_from_plausibility,
    pignistic,
    plausibility,
    plausibility_transform,
)
from egmm.belief.uncertainty import (
    average_nonspecificity,
    deng_entropy,
    dissonance,
    is_bayesian,
    is_certain,
    is_vacuous,
    jirousek_shenoy_entropy,
    nonspecificity,
)

__all__ = [
    "CredalPartition",
    "FocalSets",
    "average_nonspecificity",
    "belief",
    "belief_distance",
    "best_cluster",
    "canonical_weights",
    "check_mass",
    "choose_sets",
    "coarsen",
    "combine",
    "combine_masses",
    "commonality",
    "condition",
    "conflict",
    "consensus",
    "contour",
    "deng_entropy",
    "discount",
    "dissonance",
    "embed",
    "heaviest_set",
    "hurwicz",
    "is_bayesian",
    "is_certain",
    "is_vacuous",
    "jirousek_shenoy_entropy",
    "jousselme_distance",
    "mass_from_belief",
    "mass_from_commonality",
    "mass_from_plausibility",
    "match_clusters",
    "most_useful_set",
    "nonspecificity",
    "normalise",
    "outliers",
    "pignistic",
    "plausibility",
    "plausibility_transform",
    "refine",
    "relabel",
    "subset_differences",
    "subset_sums",
    "superset_differences",
    "superset_sums",
    "undominated",
    "with_rejection",
]
