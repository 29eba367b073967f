"""Measures of partitions: against classes, against each other, by chosen sets, and ranks of algorithms."""

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

__all__ = [
    "FriedmanResult",
    "ari",
    "average_ranks",
    "bonferroni_dunn_difference",
    "friedman_critical_value",
    "friedman_statistic",
    "friedman_test",
    "matched_accuracy",
    "nmi",
    "purity",
    "rank_scores",
]
