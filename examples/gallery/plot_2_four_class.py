"""
Lower and upper approximations
==============================

Four overlapping classes, as in the paper. The lower approximation of a cluster contains the rows that surely belong to
it, the upper approximation those that possibly do.
"""

import matplotlib.pyplot as plt

from egmm import EGMM
from egmm.datasets import make_four_class
from egmm.plotting import plot_approximations, plot_density, plot_history, plot_partition

X, _ = make_four_class(random_state=2)
model = EGMM(n_clusters=4, random_state=0).fit(X)
partition = model.partition(X)
plot_partition(X, partition, means=model.means_, covariances=model.covariances_)
plt.show()

# %%
# An open row has a mixed colour and the marker of its set. Rows fade as their largest mass decreases.

plot_approximations(X, partition, means=model.means_)
plt.show()

# %%
# Interval dominance keeps every cluster whose plausibility reaches the belief of all others: more rows are open.

plot_approximations(X, partition, by="dominance", means=model.means_)
plt.show()

# %%
# The density of the mixture (contours contain 10, 30, 50, 70, 90 and 99 % of the rows) and the log-likelihood per step.

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
plot_density(model.weights_, model.focal_means_, model.focal_covariances_, ax=left)
left.scatter(*X.T, s=3, color="0.6", zorder=1)
plot_history(model.log_likelihood_history_, converged=model.converged_, ax=right)
plt.show()
