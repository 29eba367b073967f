"""
The point in between
====================

Eleven points form two diamonds; the sixth point is exactly half-way between them. A Gaussian mixture assigns it to one
side or gives both sides probability one half. EGMM assigns its mass to the set of both clusters: the point is open.
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
# How many clusters? Among the fits that did not collapse, two clusters have the highest EBIC.

selection = select_model(X, range(2, 5), focal_sets="full", reg_covar=0.01, random_state=0)
print(selection)
