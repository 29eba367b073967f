"""Measures of partitions: against classes, against each other, by chosen sets, and ranks of algorithms."""

from egmm.metrics.evidential import PairwiseMasses, credal_rand_index, pairwise_masses, pairwise_nonspecificity
from egmm.metrics.external import ari, matched_accuracy, nmi, purity
from egmm.metrics.ranks import (
    FriedmanResult,
    average_ranks,
    bonferroni_dunn_difference,
    friedman_critical_value,
    friedman_statistic,
    friedman_test,
    rank_scores,
)
from egmm.metrics.set_valued import (
    SetScores,
    coverage,
    discounted_utility,
    match_clusters,
    precise_accuracy,
    set_scores,
)

__all__ = [
    "FriedmanResult",
    "PairwiseMasses",
    "SetScores",
    "ari",
    "average_ranks",
    "bonferroni_dunn_difference",
    "coverage",
    "credal_rand_index",
    "discounted_utility",
    "friedman_critical_value",
    "friedman_statistic",
    "friedman_test",
    "match_clusters",
    "matched_accuracy",
    "nmi",
    "pairwise_masses",
    "pairwise_nonspecificity",
    "precise_accuracy",
    "purity",
    "rank_scores",
    "set_scores",
]
