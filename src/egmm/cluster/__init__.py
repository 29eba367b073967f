"""Clusterers with one contract: fuzzy c-means, evidential c-means, belief peaks, bootstrapped mixtures."""

from egmm.cluster.bootgmm import BootGMM
from egmm.cluster.bpec import BPEC
from egmm.cluster.ecm import ECM
from egmm.cluster.fcm import FCM, modified_partition_coefficient
from egmm.cluster.peaks import DecisionGraph, choose_peaks, delta_bel

__all__ = [
    "BPEC",
    "ECM",
    "FCM",
    "BootGMM",
    "DecisionGraph",
    "choose_peaks",
    "delta_bel",
    "modified_partition_coefficient",
]
