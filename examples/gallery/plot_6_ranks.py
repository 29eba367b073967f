"""
Ranks of algorithms
===================

Average ranks over eight data sets, from the NMI published in the paper for an unknown number of clusters. Algorithms
outside the band differ significantly from EGMM (Bonferroni-Dunn test, level 5 %).
"""

import matplotlib.pyplot as plt
import numpy as np

from egmm.metrics import average_ranks, bonferroni_dunn_difference, friedman_test
from egmm.plotting import plot_critical_difference

names = ["FCM", "ECM", "BPEC", "GMM", "CGMM", "bootGMM", "EGMM"]
nmi = np.array(
    [
        [0.58, 0.59, 0.65, 0.69, 0.67, 0.59, 0.68],  # Ecoli
        [0.70, 0.57, 0.72, 0.73, 0.77, 0.73, 0.87],  # Iris
        [0.29, 0.33, 0.16, 0.36, 0.02, 0.39, 0.43],  # Knowledge
        [0.01, 0.01, 0.06, 0.12, 0.11, np.nan, 0.13],  # Magic; bootGMM had no result
        [0.13, 0.34, 0.22, 0.46, 0.50, 0.68, 0.48],  # Newthyroid
        [0.61, 0.58, 0.50, 0.60, 0.78, 0.59, 0.80],  # Seeds
        [0.18, 0.12, 0.13, 0.19, 0.15, 0.35, 0.24],  # Vehicle
        [0.36, 0.35, 0.16, 0.58, 0.81, 0.95, 0.82],  # Wine
    ]
)
print(f"Do they differ at all? Friedman p = {friedman_test(nmi).p_value:.4f}")
difference = bonferroni_dunn_difference(len(names), len(nmi))
_, ax = plt.subplots(figsize=(9, 3.4))
plot_critical_difference(names, average_ranks(nmi), difference, control="EGMM", ax=ax)
plt.show()
