"""Metrics of partitions: agreement with classes and each other, chosen sets, confidence, ranks of algorithms."""

from egmm.metrics.evidential import PairwiseMasses, ans, credal_rand_index, pairwise_masses, pairwise_nonspecificity
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
from egmm.metrics.selective import (
    Reliability,
    RiskCoverage,
    aurc,
    expected_calibration_error,
    reliability_curve,
    risk_coverage_curve,
)
from egmm.metrics.set_valued import (
    SetScores,
    cluster_classes,
    coverage,
    discounted_utility,
    precise_accuracy,
    set_scores,
)

__all__ = [
    "FriedmanResult",
    "PairwiseMasses",
    "Reliability",
    "RiskCoverage",
    "SetScores",
    "ans",
    "ari",
    "aurc",
    "average_ranks",
    "bonferroni_dunn_difference",
    "cluster_classes",
    "coverage",
    "credal_rand_index",
    "discounted_utility",
    "expected_calibration_error",
    "friedman_critical_value",
    "friedman_statistic",
    "friedman_test",
    "matched_accuracy",
    "nmi",
    "pairwise_masses",
    "pairwise_nonspecificity",
    "precise_accuracy",
    "purity",
    "rank_scores",
    "reliability_curve",
    "risk_coverage_curve",
    "set_scores",
]
