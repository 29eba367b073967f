"""Draw the picture of the README and of the landing page: Fisher's irises, sure rows and open rows."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sklearn.datasets import load_iris

from egmm import EGMM
from egmm.plotting import plot_masses, plot_partition
from egmm.plotting.style import dressed

FLOWERS = (0, 60, 68, 133, 138, 121, 103, 100)
"""From setosa over versicolor, and what lies between, to virginica."""


def title_inside(ax: Any, text: str) -> None:
    """Write the title inside the axes, above everything drawn."""
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.16 * (high - low))
    ax.set_title("")
    ax.text(0.015, 0.985, text, transform=ax.transAxes, ha="left", va="top", fontsize=12, fontweight="bold")


def main(path: Path) -> None:
    X = load_iris().data
    model = EGMM(n_clusters=3, random_state=0).fit(X)
    partition = model.partition(X)
    sheet = Figure(figsize=(9.6, 3.7), layout="constrained")
    left, right = dressed(sheet.subplots(1, 2, width_ratios=(1.15, 1)))
    plot_partition(X, partition, means=model.means_, ax=left)
    n_open = int(partition.is_open().sum())
    title_inside(left, f"{len(X)} irises: {len(X) - n_open} sure rows, {n_open} open rows")
    plot_masses(partition, rows=FLOWERS, names=[str(row) for row in FLOWERS], ax=right)
    right.set_xlabel("row")
    title_inside(right, "mass functions of eight rows")
    right.set_yticks([0, 0.25, 0.5, 0.75, 1])
    sheet.savefig(path, dpi=200)


if __name__ == "__main__":
    main(Path(__file__).parents[1] / "docs" / "figures" / "readme.png")
