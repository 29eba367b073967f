"""
Can the answers be trusted?
===========================

`AutoEGMM` is told nothing, finds the number of clusters and leaves rows open. Known classes tell whether the doubt is
where the errors are.
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
# Risk against coverage: errors among the surest rows, beside the paper's EGMM and a plain mixture, which are told that
# there are four clusters. To the right, whether the stated probabilities hold.

_, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
told = {
    "AutoEGMM, told nothing": partition,
    "EGMM, told four": EGMM(4, random_state=0).fit(X).partition(X),
    "scikit-learn, told four": GaussianMixture(4, n_init=5, random_state=0).fit(X).predict_proba(X),
}
plot_risk_coverage(y, told, ax=axes[0])
plot_calibration(partition, y, ax=axes[1])
plt.show()
