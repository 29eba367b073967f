"""Draw the comparison of all algorithms on five small data sets when the site is built."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sphinx.application import Sphinx

from egmm import BPEC, ECM, EGMM, FCM, BootGMM
from egmm.cluster import CCM, CECM, EVCLUS, MECM, NNEVCLUS, RECM, TECM, CatECM, ECMdd, EKNNClus, MultiViewECM
from egmm.cluster import MultiViewECMdd as MultiViewMedoids
from egmm.datasets import draw_links, make_bananas
from egmm.plotting.style import cluster_colours

FOLDER = Path(__file__).parents[1] / "figures" / "guide"
N_ROWS = 200


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Rows of deviation 1, their groups and the number of clusters."""
    blobs, y_blobs = make_blobs(N_ROWS, centers=[[0, 0], [4, 0], [2, 3.5]], random_state=0)
    bananas, y_bananas = make_bananas(N_ROWS, noise=0.6, random_state=0)
    noise = np.random.default_rng(0).uniform(-6, 9, size=(N_ROWS // 8, 2))
    sizes = {"centers": [[0, 0], [5, 0], [3, 4]], "cluster_std": [1.4, 0.4, 0.4]}
    unequal, y_unequal = make_blobs([150, 30, 20], random_state=1, **sizes)
    found = {
        "blobs": (blobs, y_blobs, 3),
        "bananas": (bananas, y_bananas, 2),
        "anisotropic": (blobs @ np.array([[1.0, 0.5], [0.8, 1.6]]), y_blobs, 3),
        "noise": (np.vstack([blobs, noise]), np.append(y_blobs, np.full(len(noise), -1)), 3),
        "different sizes": (unequal, y_unequal, 3),
    }
    return {name: ((X - X.mean(axis=0)) / X.std(axis=0), y, c) for name, (X, y, c) in found.items()}


def models(c: int) -> dict[str, Any]:
    """All algorithms for so many clusters; outliers are rows farther than 1.5 deviations."""
    near = {"delta": 1.5, "random_state": 0}
    return {
        "EGMM": EGMM(c, covariance="VVV", random_state=0),
        "FCM": FCM(c, random_state=0),
        "ECM": ECM(c, **near),
        "CCM": CCM(c, **near),
        "CECM": CECM(c, xi=0.9, distance="mahalanobis", n_init=5, init="random", random_state=0),
        "TECM": TECM(c, **near),
        "BPEC": BPEC(c, delta=1.5),
        "BootGMM": BootGMM(c, n_bootstrap=50, covariance="VVV", random_state=0),
        "EVCLUS": EVCLUS(c, random_state=0),
        "NNEVCLUS": NNEVCLUS(c, random_state=0),
        "RECM": RECM(c, metric="manhattan", **near),
        "ECMdd": ECMdd(c, delta=1.2, random_state=0),
        "MECM": MECM(c, **near),
        "EKNNClus": EKNNClus(40, quantile=0.9, power=2, n_init=5, random_state=0),
        "CatECM": CatECM(c, n_bins=4, delta=2.0, random_state=0),
        "MultiViewECM": MultiViewECM(c, views=[1, 1], **near),
        "MultiViewECMdd": MultiViewMedoids(c, views=[1, 1], delta=1.2, random_state=0),
    }


def draw(app: Sphinx | None) -> None:
    """Write the figure: a row per algorithm, a column per data set."""
    target = FOLDER / "field.png"
    if target.exists() and target.stat().st_mtime > Path(__file__).stat().st_mtime:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = data_sets()
    names = list(models(2))
    sheet = Figure(figsize=(11, 1.95 * len(names)), layout="constrained")
    axes = sheet.subplots(len(names), len(found))
    for column, (title, (X, y, c)) in enumerate(found.items()):
        must, cannot = draw_links(y, 300, random_state=0)
        for row, (name, model) in enumerate(models(c).items()):
            links = {"must_link": must, "cannot_link": cannot} if name == "CECM" and title != "noise" else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                partition = model.fit(X, **links).partition(X)
            draw_partition(axes[row, column], X, partition)
            if row == 0:
                axes[row, column].set_title(title)
            if column == 0:
                axes[row, column].set_ylabel(name)
    sheet.savefig(target, dpi=80)


def draw_partition(ax: Any, X: np.ndarray, partition: Any) -> None:
    """Sure rows in the colour of their cluster, open ones as rings in its colour, outliers as crosses."""
    colours = np.array(cluster_colours(partition.n_clusters))[partition.labels()]
    sizes = partition.focal_sets.cardinalities[partition.sets()]
    sure, is_open, out = sizes == 1, sizes > 1, sizes == 0
    ax.scatter(*X[sure].T, s=9, c=colours[sure], linewidths=0)
    ax.scatter(*X[is_open].T, s=14, facecolors="none", edgecolors=colours[is_open], linewidths=0.8)
    ax.scatter(*X[out].T, s=16, c="black", marker="x", linewidths=0.8)
    ax.set(xticks=[], yticks=[])


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw before pages are read."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True}
