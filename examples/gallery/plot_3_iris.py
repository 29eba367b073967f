"""
More than two features
======================

Fisher's irises have four measurements. A plot shows a plane: two features, two principal components, or the plane that
separates the clusters best.
"""

import matplotlib.pyplot as plt

from egmm import EGMM
from egmm.datasets import load_uci
from egmm.plotting import plot_calibration, plot_pairs, plot_partition, plot_uncertainty

iris = load_uci("iris")
model = EGMM(n_clusters=3, random_state=0).fit(iris.X)
partition = model.partition(iris.X)
print(partition.summary())

known = {"means": model.means_, "covariances": model.covariances_, "feature_names": iris.feature_names}
_, axes = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
for ax, view in zip(axes, ("discriminant", "pca"), strict=True):
    plot_partition(iris.X, partition, view=view, ax=ax, **known)
plt.show()

# %%
# Every pair of features at once.

plot_pairs(iris.X, partition, **known)
plt.show()

# %%
# Which flowers would be open? The map shows the doubt at each point of the plane.

plot_uncertainty(model, iris.X, feature_names=iris.feature_names)
plt.show()

# %%
# Are the masses calibrated? Each dot is a group of (flower, cluster) pairs with similar pignistic probability; the bar
# extends from their mean belief to their mean plausibility.

plot_calibration(partition, iris.y)
plt.show()
