"""
How many clusters, of which shape
=================================

EBIC, of which higher is better, chooses the number of clusters, and what most models agree on the covariance.
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
# The same as a grid: the darker the better, the choice framed.

table = selection.table()
values = {m: [r["ebic"] for r in table if r["covariance"] == m] for m in ("EII", "EEI", "EEE")}
plot_model_grid(range(2, 6), values, best=(selection.n_clusters, selection.covariance))
plt.show()
