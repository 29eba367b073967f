"""
Four algorithms on the same rows
================================

EGMM beside three prototype methods: evidential c-means, fuzzy c-means and belief peaks.
"""

import matplotlib.pyplot as plt

from egmm import BPEC, ECM, EGMM, FCM
from egmm.datasets import make_two_class
from egmm.metrics import ari
from egmm.plotting import plot_delta_bel, plot_partition

X, y = make_two_class(400, random_state=0)
models = [EGMM(2, random_state=0), ECM(2, random_state=0), FCM(2, random_state=0), BPEC(2)]
_, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
for ax, model in zip(axes.flat, models, strict=True):
    partition = model.fit(X).partition(X)
    plot_partition(X, partition, means=model.means_, ax=ax)
    ax.set_title(f"{type(model).__name__}: ARI {ari(y, partition.labels()):.2f}")
plt.show()

# %%
# Elongated classes are difficult for methods that assume round clusters. BPEC chooses the points that stand out in this
# graph as centres.

plot_delta_bel(models[-1])
plt.show()
