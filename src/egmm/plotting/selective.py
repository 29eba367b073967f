"""Risk against coverage."""

from collections.abc import Mapping
from typing import Any

from egmm.metrics.selective import RiskCoverage, risk_coverage_curve
from egmm.plotting.style import PALETTE, axes_or_new, plain


def plot_risk_coverage(y_true: Any, partitions: Mapping[str, Any], *, ax: Any = None) -> Any:
    """Draw the error rate among the most confident rows against coverage, one line per partition.

    Lower is better. A line ends at the right with the error rate of all rows; it falls to the left if errors have low
    confidence.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes.
    partitions : mapping of str to CredalPartition or array-like of shape (n_samples, n_clusters)
        Masses, or probabilities of the clusters, by name; see :func:`egmm.metrics.risk_coverage_curve`.
    ax : matplotlib Axes, default=None
        Axes to draw on; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_risk_coverage(["a", "b", "b"], {"GMM": [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]})
    >>> [line.get_label() for line in ax.lines]
    ['GMM (AURC 0.111)']
    """
    if not isinstance(partitions, Mapping):
        raise TypeError(f"partitions must map names to partitions, got {type(partitions).__name__}.")
    curves: dict[str, RiskCoverage] = {name: risk_coverage_curve(y_true, part) for name, part in partitions.items()}
    ax = axes_or_new(ax)
    for at, (name, (coverage, risk)) in enumerate(curves.items()):
        label = f"{plain(str(name))} (AURC {risk.mean():.3f})"
        dashes = "-" if at < len(PALETTE) else "--"
        ax.plot(coverage, risk, color=PALETTE[at % len(PALETTE)], linestyle=dashes, linewidth=1.8, label=label)
    ax.set(xlabel="coverage: share of rows, most confident first", ylabel="share of errors among them")
    ax.set(xlim=(0, 1), ylim=(0, None))
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax
