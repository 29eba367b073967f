"""
The point in between
====================

Eleven points form two diamonds; the sixth is exactly half-way between them. A Gaussian mixture must give it to one
side or call it a toss-up. EGMM puts its mass on the set of both clusters.
"""

import matplotlib.pyplot as plt

from egmm import EGMM, select_model
from egmm.datasets import make_diamond
from egmm.plotting import plot_masses, plot_partition

X, _ = make_diamond()
model = EGMM(n_clusters=2, focal_sets="full", reg_covar=0.01, random_state=0).fit(X)
partition = model.partition(X)

_, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
plot_masses(partition, ax=left)
plot_partition(X, partition, means=model.means_, covariances=model.covariances_, ax=right)
plt.show()

# %%
# How many clusters? Of the fits that did not collapse, the paper's EBIC is highest for two.

selection = select_model(X, range(2, 5), focal_sets="full", reg_covar=0.01, random_state=0)
print(selection)
