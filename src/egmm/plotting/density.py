"""The density of a mixture in a plane, and the history of its fit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray, check_finite_matrix, check_integer
from egmm.plotting.limits import write_caption
from egmm.plotting.style import PALETTE, axes_or_new, ground, ink
from egmm.plotting.view import View, check_spreads, view_of

PROBABILITIES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
"""Share of the rows inside each contour."""

NEGLIGIBLE = 1e-3
"""Components with less of the probability do not widen the view."""

GRID = 160

N_RADII, N_ANGLES = 100, 16
"""Points per component for computing the contour levels."""


def plot_density(
    weights: Any,
    means: Any,
    covariances: Any,
    *,
    view: tuple[int, int] | View | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw contours of a Gaussian mixture density that contain 10, 30, 50, 70, 90 and 99 % of the probability.

    Contours are labelled where there is room. With more than two features, the density is marginal over the features
    not shown.

    Parameters
    ----------
    weights : array-like of shape (n_components,)
        Mixing probabilities, ``weights_`` of a fitted EGMM.
    means : array-like of shape (n_components, n_features)
        Means, ``focal_means_``.
    covariances : array-like of shape (n_features, n_features) or (n_components, n_features, n_features)
        Covariances, ``focal_covariances_``.
    view : pair of int, View or None, default=None
        Two features by number, or a plane made by :func:`view_of`. None means the first two features.
    feature_names : sequence of str, default=None
        Names of the features.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_density([0.5, 0.5], [[0, 0], [5, 0]], np.eye(2))
    >>> ax.get_ylabel()
    'x2'
    """
    centres = check_finite_matrix("means", means, (None, None))
    share = check_finite_matrix("weights", weights, (len(centres),))
    if not (share >= 0).all() or share.sum() == 0:
        raise ValueError("weights must not be negative, and not all zero.")
    covariances = check_spreads(covariances, *centres.shape)
    plane = view_of(centres, view=(0, 1) if view is None else view, feature_names=feature_names)
    points = plane.points(centres)
    spreads = np.broadcast_to(plane.covariances(covariances), (len(centres), 2, 2))
    try:
        np.linalg.cholesky(spreads)
    except np.linalg.LinAlgError:
        raise ValueError("covariances must be positive definite.") from None
    ax = axes_or_new(ax)
    from matplotlib import colormaps, patheffects  # noqa: PLC0415

    reach = 3.6 * np.sqrt(np.einsum("jkk->jk", spreads))
    seen = share > NEGLIGIBLE * share.sum()
    low, high = (points - reach)[seen].min(axis=0), (points + reach)[seen].max(axis=0)
    x, y = (np.linspace(low[k], high[k], GRID) for k in (0, 1))
    density = _mixture_density(np.stack(np.meshgrid(x, y), axis=-1), share, points, spreads)
    heights = _levels(share, points, spreads)
    inside = {float(height): f"{100 * p:.0f} %" for p, height in zip(PROBABILITIES, heights, strict=True)}
    # The yellow end of the map is invisible on white, the other end on black.
    colours = colormaps["viridis"](np.linspace(*((0.0, 0.8) if ink(ax) == "black" else (0.3, 1.0)), len(inside)))
    contours = ax.contour(x, y, density, levels=sorted(inside), colors=colours, linewidths=1.1, zorder=2.5)
    for text in ax.clabel(contours, fmt=inside, fontsize="x-small", inline_spacing=1, zorder=2.6):
        text.set_path_effects([patheffects.withStroke(linewidth=2.5, foreground=ground(ax))])  # legible over rows
    ax.set(xlabel=plane.labels[0], ylabel=plane.labels[1])
    write_caption(ax, [*([plane.kind] if plane.kind else []), "share of the mixture inside each contour"])
    return ax


def plot_history(history: Any, *, converged: bool | None = None, ax: Any = None) -> Any:
    """Draw the log-likelihood against the steps of a fit.

    Parameters
    ----------
    history : array-like of shape (n_steps + 1,)
        Log-likelihood at the start and after each step, ``log_likelihood_history_`` of a fitted EGMM.
    converged : bool or None, default=None
        Whether the fit converged, shown in the title; None omits it.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_history([-120.0, -90.5, -88.2], converged=True)
    >>> ax.get_title()
    'converged after 2 steps'
    """
    values = check_finite_matrix("history", history, (None,))
    check_integer("the number of values in history", len(values), 1)
    ax = axes_or_new(ax)
    marker = "o" if len(values) <= 60 else None
    ax.plot(np.arange(len(values)), values, color=PALETTE[0], marker=marker, markersize=3.5, linewidth=1.4)
    ax.set(xlabel="step", ylabel="log-likelihood")
    ax.xaxis.get_major_locator().set_params(integer=True)
    steps = f"{len(values) - 1} step{'' if len(values) == 2 else 's'}"
    if converged is not None:
        ax.set_title(f"converged after {steps}" if converged else f"not converged in {steps}")
    ax.grid(alpha=0.3)
    return ax


def _mixture_density(at: FloatArray, share: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
    density = np.zeros(at.shape[:2])
    for weight, mean, covariance in zip(share, means, covariances, strict=True):
        root = np.linalg.cholesky(covariance)
        white = np.linalg.solve(root, (at - mean).reshape(-1, 2).T)
        height = weight / (2.0 * np.pi * root[0, 0] * root[1, 1])
        density += (height * np.exp(-0.5 * (white**2).sum(axis=0))).reshape(density.shape)
    return density


def _levels(share: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
    """Levels whose super-level sets contain the shares in `PROBABILITIES`."""
    # From points of equal probability in each component: a grid would miss clusters narrower than its cells.
    radii = np.sqrt(-2.0 * np.log1p(-(np.arange(N_RADII) + 0.5) / N_RADII))
    angles = 2.0 * np.pi * np.arange(N_ANGLES) / N_ANGLES
    ring = np.stack([np.outer(radii, np.cos(angles)), np.outer(radii, np.sin(angles))], axis=-1).reshape(-1, 2)
    present = share > 1e-6 * share.sum()
    points = means[present, None] + ring @ np.linalg.cholesky(covariances[present]).transpose(0, 2, 1)
    heights = _mixture_density(points, share[present], means[present], covariances[present]).ravel()
    order = np.argsort(-heights)
    inside = np.cumsum(np.repeat(share[present], len(ring))[order])
    at = np.minimum(np.searchsorted(inside / inside[-1], PROBABILITIES), len(order) - 1)
    return np.asarray(heights[order][at])
