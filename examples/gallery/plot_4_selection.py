"""
How many clusters, and which covariance
=======================================

EBIC (higher is better) chooses the number of clusters. Among the models with this number, the covariance whose
partition agrees most with the others is used.
"""

import matplotlib.pyplot as plt

from egmm import select_model
from egmm.datasets import make_blobs_with_overlap
from egmm.plotting import plot_model_grid

X, _ = make_blobs_with_overlap(300, 3, overlap=0.05, random_state=0)
selection = select_model(X, range(2, 6), covariance=("EII", "EEI", "EEE"), random_state=0)
selection.plot()
plt.show()

# %%
# The same values as a grid: darker is better, and the chosen model is framed.

table = selection.table()
values = {m: [r["ebic"] for r in table if r["covariance"] == m] for m in ("EII", "EEI", "EEE")}
plot_model_grid(range(2, 6), values, best=(selection.n_clusters, selection.covariance))
plt.show()
