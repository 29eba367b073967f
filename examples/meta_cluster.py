"""Draw the figure of docs/covariances.md: a meta-cluster between clusters of different shape."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Ellipse

from egmm import FocalSets
from egmm.plotting.style import PALETTE

MEANS = np.array([[-3.0, 0.0], [3.0, 0.0]])
WIDE, NARROW = np.array([[2.6, 1.2], [1.2, 1.6]]), np.array([[0.35, -0.2], [-0.2, 0.5]])
CASES = {
    "one shared covariance: the paper's model": np.array([WIDE, WIDE]),
    "a narrow and a wide cluster": np.array([NARROW, WIDE]),
    "different covariances": np.array([[[2.6, 1.4], [1.4, 1.2]], [[0.6, -0.7], [-0.7, 2.2]]]),
}


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float, **style: object) -> Ellipse:
    variances, axes = np.linalg.eigh(covariance)
    width, height = 2 * radius * np.sqrt(variances)
    return Ellipse(mean, width, height, angle=np.degrees(np.arctan2(axes[1, 0], axes[0, 0])), **style)


def focal_gaussians(shares: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of the sets: natural parameters are averaged over the members."""
    precisions = np.linalg.inv(covariances)
    naturals = np.einsum("kde,ke->kd", precisions, MEANS)
    spreads = np.linalg.inv(np.einsum("jk,kde->jde", shares, precisions))
    return np.einsum("jde,je->jd", spreads, shares @ naturals), spreads


def main(path: Path) -> None:
    focal = FocalSets.full(2)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.1), layout="constrained", sharex=True, sharey=True)
    colours = {"{1}": PALETTE[0], "{2}": PALETTE[1], "{1,2}": PALETTE[2]}
    for ax, (title, covariances) in zip(axes, CASES.items(), strict=True):
        means, spreads = focal_gaussians(focal.shares, covariances)
        for label, mean, spread in zip(focal.labels, means, spreads, strict=True):
            for radius in (1, 2):
                fill = {"facecolor": colours[label], "alpha": 0.18 if radius == 2 else 0.3}
                ax.add_patch(ellipse(mean, spread, radius, edgecolor=colours[label], linewidth=1.5, **fill))
            ax.plot(*mean, "+", color="black", markersize=9, markeredgewidth=1.5)
            ax.annotate(label, mean, xytext=(0, 9), textcoords="offset points", ha="center", fontsize=11)
        ax.set_title(title, fontsize=11)
        ax.set_aspect("equal")
        ax.set_xlim(-7.2, 7.2)
        ax.set_ylim(-3.6, 4.6)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(Path(__file__).parents[1] / "docs" / "figures" / "meta_cluster.png")
