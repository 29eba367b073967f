"""Draw the figures of the user guide when the site is built."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx.application import Sphinx

from egmm import EGMM, select_model
from egmm.datasets import make_diamond, make_four_class
from egmm.plotting import plot_approximations, plot_masses, plot_partition

FOLDER = Path(__file__).parents[1] / "figures" / "guide"


def draw(app: Sphinx) -> None:
    """Write the figures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    X, _ = make_diamond()
    settings = {"focal_sets": "full", "reg_covar": 0.01, "random_state": 0}
    model = EGMM(2, **settings).fit(X)
    sheet = Figure(figsize=(11, 3.8), layout="constrained")
    left, right = sheet.subplots(1, 2)
    plot_masses(model.partition(X), ax=left)
    plot_partition(X, model.partition(X), means=model.means_, covariances=model.covariances_, ax=right)
    sheet.savefig(FOLDER / "diamond.png", dpi=110)

    sheet = Figure(figsize=(6, 4), layout="constrained")
    select_model(X, range(2, 5), n_jobs=1, **settings).plot(sheet.subplots())
    sheet.savefig(FOLDER / "selection.png", dpi=110)

    X, _ = make_four_class(random_state=2)
    model = EGMM(4, random_state=0).fit(X)
    sheet = Figure(figsize=(10, 4.6), layout="constrained")
    axes = sheet.subplots(1, 2, sharex=True, sharey=True)
    plot_approximations(X, model.partition(X), by="dominance", means=model.means_, axes=axes)
    sheet.savefig(FOLDER / "approximations.png", dpi=110)


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw before pages are read."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True}
