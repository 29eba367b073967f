"""Draw the figures of the user guide and the case studies when the site is built."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_iris, load_sample_image, load_wine
from sphinx.application import Sphinx

from egmm import EGMM, AutoEGMM, select_model
from egmm.datasets import make_blobs_with_overlap, make_diamond, make_four_class
from egmm.image import segment
from egmm.plotting import plot_approximations, plot_masses, plot_partition
from egmm.plotting.style import dressed

FOLDER = Path(__file__).parents[1] / "figures" / "guide"


def draw(app: Sphinx) -> None:
    """Write the figures, unless they are newer than this file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawings = {
        "diamond": draw_diamond,
        "selection": draw_selection,
        "approximations": draw_approximations,
        "start": draw_start,
        "wine": draw_wine,
        "picture": draw_picture,
    }
    for name, drawing in drawings.items():
        target = FOLDER / f"{name}.png"
        if not target.exists() or target.stat().st_mtime < Path(__file__).stat().st_mtime:
            drawing().savefig(target, dpi=130)


def draw_diamond() -> Figure:
    X, _ = make_diamond()
    model = EGMM(2, focal_sets="full", reg_covar=0.01, random_state=0).fit(X)
    sheet = Figure(figsize=(11, 3.8), layout="constrained")
    left, right = dressed(sheet.subplots(1, 2))
    plot_masses(model.partition(X), ax=left)
    plot_partition(X, model.partition(X), means=model.means_, covariances=model.covariances_, ax=right)
    return sheet


def draw_selection() -> Figure:
    X, _ = make_blobs_with_overlap(300, 3, overlap=0.05, random_state=0)
    sheet = Figure(figsize=(6, 3.6), layout="constrained")
    select_model(X, range(2, 7), n_jobs=1, random_state=0).plot(dressed(sheet.subplots()))
    return sheet


def draw_approximations() -> Figure:
    X, _ = make_four_class(random_state=2)
    model = EGMM(4, random_state=0).fit(X)
    sheet = Figure(figsize=(10, 4.6), layout="constrained")
    axes = dressed(sheet.subplots(1, 2, sharex=True, sharey=True))
    plot_approximations(X, model.partition(X), by="dominance", means=model.means_, axes=axes)
    return sheet


def draw_start() -> Figure:
    return partition_of(load_iris().data)


def draw_wine() -> Figure:
    rows = load_wine().data
    return partition_of((rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1))


def partition_of(X: np.ndarray) -> Figure:
    """The consensus of three clusters along discriminants."""
    model = AutoEGMM([3], random_state=0).fit(X)
    sheet = Figure(figsize=(8, 4.4), layout="constrained")
    plot_partition(X, model.partition(X), means=model.best_.means_, ax=dressed(sheet.subplots()))
    return sheet


def draw_picture() -> Figure:
    photo = Image.fromarray(load_sample_image("china.jpg")).resize((320, 214))
    result = segment(photo, n_clusters=4)
    pixels, labels = np.asarray(photo), result.labels()
    colours = np.array([pixels[labels == k].mean(axis=0) for k in range(1, 5)]).astype(np.uint8)
    is_open = result.partition.is_open().reshape(labels.shape)
    opened = np.where(is_open[..., None], np.array([213, 94, 0], dtype=np.uint8), pixels // 2 + 127)
    sheet = Figure(figsize=(12, 3.0), layout="constrained")
    panels = {"photograph": pixels, "clusters in their mean colours": colours[labels - 1], "open pixels": opened}
    for ax, (title, panel) in zip(sheet.subplots(1, 3), panels.items(), strict=True):
        ax.imshow(panel, interpolation="nearest")
        ax.set_title(title, fontsize=11)
        ax.set_axis_off()
    return sheet


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw before pages are read."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True}
