"""Figures written as PNG files, without a display."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, import_optional
from egmm.belief.partition import CredalPartition
from egmm.cli.models import Scaling
from egmm.cli.parsing import Decision
from egmm.plotting import (
    plot_approximations,
    plot_density,
    plot_history,
    plot_masses,
    plot_pairs,
    plot_partition,
    plot_uncertainty,
    view_of,
)
from egmm.plotting.style import unseen_axes

DOTS_PER_INCH = 150
CLEAR_DOUBT = 0.05
"""Bars of masses are drawn only if some row has more doubt."""

MOST_PAIRED = 6
"""Maximum number of features drawn in pairs."""

MOST_ROWS = 50_000
"""Maximum number of rows drawn."""


def new_axes(columns: int = 1, size: tuple[float, float] = (6.4, 4.8), *, shared: bool = True) -> Any:
    """Axes of a figure not managed by pyplot."""
    axes = unseen_axes(1, columns, size, sharex=shared, sharey=shared)[0]
    return axes[0] if columns == 1 else axes


def save(axes: Any, path: Path) -> None:
    """Write the figure of the axes."""
    np.ravel(axes)[0].figure.savefig(path, dpi=DOTS_PER_INCH)


def write_figures(folder: Path, fitted: Any) -> None:
    """Write the figures of a fit."""
    folder.mkdir()
    model, names = fitted.mixture, fitted.data.names
    at = np.arange(len(fitted.X))
    if len(at) > MOST_ROWS:
        at = np.sort(np.random.default_rng(0).choice(at, MOST_ROWS, replace=False))
    # In the units of the file, even if the model was fitted to standardised rows.
    scaling = fitted.scaling or Scaling(np.zeros(len(names)), np.ones(len(names)))
    square = np.multiply.outer(scaling.scale, scaling.scale)
    X, partition, means = fitted.rows[at], fitted.partition[at], scaling.undo(model.means_)
    decision = fitted.request.decision
    known = {**decision._asdict(), "means": means, "covariances": model.covariances_ * square, "feature_names": names}
    save(plot_partition(X, partition, ax=new_axes(), **known), folder / "partition.png")
    if _is_open(partition, decision):
        save(plot_masses(partition, ax=new_axes(size=(9.0, 3.6))), folder / "masses.png")
    save(plot_history(model.log_likelihood_history_, converged=model.converged_, ax=new_axes()), folder / "history.png")
    if X.shape[1] > 1:
        view = view_of(X, partition, feature_names=names)
        # If no row is open, only the more cautious rule shows a difference.
        rule = decision.rule if partition.is_open(*decision).any() else "dominance"
        chosen = {"by": "mass" if rule == "heaviest" else rule, "reward": decision.reward}
        panels = plot_approximations(X, partition, means=means, view=view, axes=new_axes(2, (4.8, 4.4)), **chosen)
        save(panels, folder / "approximations.png")
        if model.tails == "gaussian":
            density = _gaussians(model, scaling, square)
            save(plot_density(*density, view=view, ax=new_axes()), folder / "density.png")
        map_of = plot_uncertainty(_Scaled(model, scaling), X, view=view, ax=new_axes())
        save(map_of, folder / "uncertainty.png")
    if X.shape[1] > 2:
        figure = import_optional("matplotlib.figure", "Figures", "plot").Figure(figsize=(12, 11), layout="constrained")
        save(plot_pairs(X, partition, features=_distinctive(fitted), figure=figure, **known), folder / "pairs.png")
    if fitted.selection is not None:
        write_selection(folder, fitted.selection)


def _distinctive(fitted: Any) -> list[int]:
    """The features in which the clusters differ most, in the order of the columns."""
    differences = np.abs([profile.differences for profile in fitted.profiles]).max(axis=0)
    return sorted(np.argsort(-differences, kind="stable")[:MOST_PAIRED].tolist())


def _gaussians(model: Any, scaling: Scaling, square: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, means and covariances of the focal sets' Gaussians in the units of the file; noise has none."""
    sets, within = model.focal_sets_.masks > 0, model.focal_covariances_ * square
    within = within if within.ndim == 2 else within[sets]
    return model.weights_[sets], scaling.undo(model.focal_means_[sets]), within


class _Scaled(NamedTuple):
    """A model that takes rows in the units of the file."""

    model: Any
    scaling: Scaling

    def partition(self, X: Any) -> CredalPartition:
        """Masses of rows."""
        return self.model.partition(self.scaling.apply(np.asarray(X)))


def _is_open(partition: CredalPartition, decision: Decision) -> bool:
    """Whether any row is open or nearly so; otherwise all bars of masses would look alike."""
    return bool(partition.is_open(*decision).any() or (1.0 - partition.pignistic().max(axis=1) > CLEAR_DOUBT).any())


def write_selection(folder: Path, selection: Any) -> None:
    """Write the curve of a selection over several numbers of clusters, and the grid of several models."""
    counts = {candidate.n_clusters for candidate in selection.candidates}
    if len(counts) > 1:
        save(selection.plot(new_axes()), folder / "selection.png")
    models = {candidate.covariance for candidate in selection.candidates}
    if len(models) > 1:
        size = (1.6 + 1.0 * len(counts), 1.4 + 0.4 * len(models))
        save(selection.plot_grid(new_axes(size=size)), folder / "models.png")
