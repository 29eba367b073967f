"""
Are the open rows the right ones?
=================================

`AutoEGMM` finds the number of clusters and the open rows. Known classes show whether the errors are among the rows with
the largest doubt.
"""

import matplotlib.pyplot as plt
from sklearn.mixture import GaussianMixture

from egmm import EGMM, AutoEGMM
from egmm.datasets import make_four_class
from egmm.plotting import plot_calibration, plot_partition, plot_risk_coverage

X, y = make_four_class(random_state=13)
auto = AutoEGMM(range(1, 7), covariance=["EII", "EEE", "VII", "VVV"], random_state=0).fit(X)
print(auto.summary())
partition = auto.partition(X)
plot_partition(X, partition, means=auto.best_.means_)
plt.show()

# %%
# Left: the error among the surest rows, beside the paper's EGMM and a plain mixture, which are given the number of
# clusters. Right: calibration of the probabilities.

_, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
partitions = {
    "AutoEGMM, number unknown": partition,
    "EGMM, four given": EGMM(4, random_state=0).fit(X).partition(X),
    "scikit-learn, four given": GaussianMixture(4, n_init=5, random_state=0).fit(X).predict_proba(X),
}
plot_risk_coverage(y, partitions, ax=axes[0])
plot_calibration(partition, y, ax=axes[1])
plt.show()
