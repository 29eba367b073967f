"""Draw three explanations of rows that fit no cluster when the site is built."""

from pathlib import Path
from typing import Any

import numpy as np
from field_figure import draw_partition
from matplotlib.figure import Figure
from sphinx.application import Sphinx

from egmm import EGMM

FOLDER = Path(__file__).parents[1] / "figures" / "guide"
MODELS: dict[str, dict[str, Any]] = {"EGMM()": {}, "noise=True": {"noise": True}, 'tails="t"': {"tails": "t"}}


def data_sets() -> dict[str, np.ndarray]:
    """Three round clusters with rows anywhere, with t rows, and with rows between."""
    means = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
    found = {}
    for name in ("rows anywhere", "heavy tails", "rows between"):
        rng = np.random.default_rng(1)
        rows = np.repeat(means, 100, axis=0) + rng.normal(size=(300, 2)) * (
            np.sqrt(3 / rng.chisquare(3, (300, 1))) if name == "heavy tails" else 1.0
        )
        if name == "rows anywhere":
            rows = np.concatenate([rows, rng.uniform(-12, 18, (20, 2))])
        if name == "rows between":
            middles = [(means[a] + means[b]) / 2 for a, b in ((0, 1), (0, 2), (1, 2))]
            rows = np.concatenate([rows, *(rng.normal(middle, 0.8, (15, 2)) for middle in middles)])
        found[name] = rows
    return found


def draw(app: Sphinx | None) -> None:
    """Write the figure: a row per data set, a column per model."""
    target = FOLDER / "outliers.png"
    if target.exists() and target.stat().st_mtime > Path(__file__).stat().st_mtime:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = data_sets()
    sheet = Figure(figsize=(9, 9), layout="constrained")
    axes = sheet.subplots(len(found), len(MODELS), sharex="row", sharey="row")
    for row, (title, X) in enumerate(found.items()):
        models = [EGMM(3, init="mixture", random_state=0, **options).fit(X) for options in MODELS.values()]
        best = max(model.ebic_ for model in models)
        for ax, name, model in zip(axes[row], MODELS, models, strict=True):
            draw_partition(ax, X, model.partition(X))
            head = f"{name}\n" if row == 0 else ""
            ax.set_title(f"{head}EBIC {model.ebic_:.0f}", fontweight="bold" if model.ebic_ == best else "normal")
        axes[row, 0].set_ylabel(title)
    sheet.savefig(target, dpi=80)


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw before pages are read."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True}
