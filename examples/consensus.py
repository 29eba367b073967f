"""Draw the figure of docs/consensus.md: masses of two sources, open rows, and risk against coverage."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture

from egmm import EGMM, AutoEGMM
from egmm.belief.consensus import unite_pairs
from egmm.datasets import make_four_class
from egmm.plotting import plot_risk_coverage
from egmm.plotting.style import NEUTRAL, PALETTE


def draw_masses(ax: plt.Axes) -> None:
    q = np.linspace(0, 1, 201)
    mass, focal = unite_pairs(np.column_stack([q, 1 - q]))
    for values, label, colour in zip(mass.T, focal.labels, (PALETTE[0], PALETTE[1], PALETTE[2]), strict=True):
        ax.plot(q, values, color=colour, linewidth=2, label=label)
    for limit, name in ((2 / 3, "heaviest set"), (0.8, "reward 0.8")):
        ax.axvspan(1 - limit, limit, color=NEUTRAL, alpha=0.13)
        ax.text(limit, 1.02, name, rotation=30, fontsize=8, ha="left", va="bottom")
    ax.set(xlabel="mean probability $q$ of cluster 1", ylabel="mass", xlim=(0, 1), ylim=(0, 1))
    ax.legend(frameon=False, loc="upper center")
    ax.set_title("two sources drawn at random\n(grey: the row is open)", pad=28)


def draw_rows(ax: plt.Axes) -> None:
    X, _ = make_four_class(random_state=13)
    model = AutoEGMM(random_state=0).fit(X)
    is_open = model.partition(X).is_open("utility")
    for k in range(model.n_clusters_):
        own = (model.labels_ == k) & ~is_open
        ax.scatter(*X[own].T, s=9, color=PALETTE[k], linewidths=0)
    ax.scatter(*X[is_open].T, s=13, facecolors="none", edgecolors="black", linewidths=0.6, label="open")
    ax.set(xlabel="x1", ylabel="x2", aspect="equal")
    ax.legend(frameon=False, loc="upper right")
    ax.set_title(f"Four-class: {100 * is_open.mean():.0f} % of 800 rows open")


def draw_risk(ax: plt.Axes) -> None:
    rows, classes = load_iris(return_X_y=True)
    X = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    auto = AutoEGMM([3], random_state=0).fit(X)
    partitions = {
        "AutoEGMM": auto.partition(X),
        "selected model": auto.best_.partition(X),
        "EGMM, one covariance": EGMM(3, random_state=0).fit(X).partition(X),
        "scikit-learn, full": GaussianMixture(3, n_init=5, random_state=0).fit(X).predict_proba(X),
    }
    plot_risk_coverage(classes, partitions, ax=ax)
    ax.set_title("Iris, three clusters")


def main(path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    draw_masses(axes[0])
    draw_rows(axes[1])
    draw_risk(axes[2])
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(__file__).parents[1] / "docs" / "figures" / "consensus.png")
