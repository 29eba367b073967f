"""The picture of the README: the paper's Diamond data and four overlapping classes."""

from pathlib import Path

from matplotlib.figure import Figure

from egmm import EGMM
from egmm.datasets import make_diamond, make_four_class
from egmm.plotting import plot_masses, plot_partition
from egmm.plotting.style import dressed


def main(path: Path) -> None:
    sheet = Figure(figsize=(11, 3.7), layout="constrained")
    left, right = dressed(sheet.subplots(1, 2, width_ratios=(1, 1.1)))
    X, _ = make_diamond()
    plot_masses(EGMM(2, focal_sets="full", reg_covar=0.01, random_state=0).fit(X).partition(X), ax=left)
    left.set_title("Diamond: point 6 lies between the clusters", loc="left", pad=16)
    X, _ = make_four_class(random_state=2)
    model = EGMM(4, random_state=0).fit(X)
    plot_partition(X, model.partition(X), means=model.means_, covariances=model.covariances_, ax=right)
    right.set_title("Four classes: diamonds are open, 2 or 3", loc="left", pad=16)
    sheet.savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(__file__).parents[1] / "docs" / "figures" / "readme.png")
