"""Evidential clusterers from the literature, and fuzzy c-means, with one interface."""

from egmm.cluster.bootgmm import BootGMM
from egmm.cluster.bpec import BPEC
from egmm.cluster.catecm import CatECM
from egmm.cluster.ccm import CCM
from egmm.cluster.cecm import CECM
from egmm.cluster.ecm import ECM
from egmm.cluster.fcm import FCM, modified_partition_coefficient
from egmm.cluster.near import near_pairs
from egmm.cluster.nnevclus import NNEVCLUS
from egmm.cluster.peaks import DecisionGraph, choose_peaks, delta_bel
from egmm.cluster.relational.dissimilarities import nearest_dissimilarities
from egmm.cluster.relational.ecmdd import ECMdd
from egmm.cluster.relational.eknnclus import EKNNClus
from egmm.cluster.relational.evclus import EVCLUS
from egmm.cluster.relational.mecm import MECM
from egmm.cluster.relational.recm import RECM
from egmm.cluster.tecm import TECM
from egmm.cluster.views.multiviewecm import MultiViewECM
from egmm.cluster.views.multiviewecmdd import MultiViewECMdd

__all__ = [
    "BPEC",
    "CCM",
    "CECM",
    "ECM",
    "EVCLUS",
    "FCM",
    "MECM",
    "NNEVCLUS",
    "RECM",
    "TECM",
    "BootGMM",
    "CatECM",
    "DecisionGraph",
    "ECMdd",
    "EKNNClus",
    "MultiViewECM",
    "MultiViewECMdd",
    "choose_peaks",
    "delta_bel",
    "modified_partition_coefficient",
    "near_pairs",
    "nearest_dissimilarities",
]
