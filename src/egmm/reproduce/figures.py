"""Every figure of the paper's section 4, and one for the accuracy of sure rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from egmm._checks import FloatArray
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition
from egmm.metrics import bonferroni_dunn_difference
from egmm.plotting import plot_approximations, plot_critical_difference, plot_density, plot_masses, plot_partition
from egmm.plotting.style import NEUTRAL, PALETTE, unseen_axes
from egmm.reproduce.algorithms import CONSENSUS, ONE_MODEL, PAPER_MODE, fit, paper_mode
from egmm.reproduce.cells import Results
from egmm.reproduce.experiments import EBIC_COUNTS, KMEANS_STARTS, brain_phantom, segment_brain, simulated
from egmm.reproduce.paper import printed
from egmm.reproduce.plan import Plan
from egmm.reproduce.scores import GROUPS, MEASURES, WAYS_BY_EXPERIMENT, scores, short_name
from egmm.reproduce.sheets import summarise
from egmm.reproduce.tables import control_accuracy

SEEDS = {"Two-class": 1, "Four-class": 8}
"""Draws shown, chosen to resemble the paper's; the claims tell how many do."""

IMPRECISE = ("ECM", "bootGMM", ONE_MODEL, CONSENSUS)
"""Algorithms in the figure of the accuracy of sure rows."""

MOST_OPEN = 0.95
"""With a larger share of open rows, the accuracy of sure rows is meaningless."""


def _draw_data(ax: Any, X: FloatArray, title: str) -> None:
    ax.scatter(*X.T, s=22 if len(X) < 100 else 6, color=NEUTRAL, linewidths=0)
    ax.set(xlabel="x1", ylabel="x2", title=title)


def _draw_ebic(ax: Any, X: FloatArray) -> None:
    """EBIC of Diamond, in the paper's mode and as printed."""
    values = [paper_mode(X, count, 0, n_init=KMEANS_STARTS, focal_sets="full").ebic_ for count in EBIC_COUNTS]
    ax.plot(EBIC_COUNTS, printed("ebic").values[0], "s--", color=NEUTRAL, mfc="white", label="printed")
    ax.plot(EBIC_COUNTS, values, "o-", color=PALETTE[0], label="paper mode")
    ax.set(xlabel="number of clusters", ylabel="EBIC", title="EBIC, higher is better", xticks=EBIC_COUNTS)
    ax.legend(fontsize=8)


def diamond(results: Results, plan: Plan) -> Any:  # noqa: ARG001
    """Diamond: the objects; memberships and partitions by GMM and by EGMM."""
    X = simulated("Diamond", 0)
    labels = KMeans(2, n_init=KMEANS_STARTS, random_state=0).fit(X).labels_
    start = np.array([X[labels == k].mean(axis=0) for k in (0, 1)])
    gmm = GaussianMixture(2, means_init=start, reg_covar=0.01, random_state=0).fit(X)
    egmm = paper_mode(X, 2, 0, n_init=KMEANS_STARTS, focal_sets="full")
    axes = unseen_axes(2, 3, (4.3, 3.3))
    _draw_data(axes[0, 0], X, "the objects")
    for number, point in enumerate(X, start=1):
        axes[0, 0].annotate(str(number), point, xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes[0, 0].margins(0.12)
    _draw_ebic(axes[1, 0], X)
    probable = CredalPartition(gmm.predict_proba(X), FocalSets.singletons(2))
    parts = {"GMM": (probable, gmm.means_), "EGMM": (egmm.partition(X), egmm.means_)}
    for (name, (partition, means)), row in zip(parts.items(), axes, strict=True):
        plot_masses(partition, ax=row[1])
        row[1].set_title(f"{name}: memberships")
        plot_partition(X, partition, means=means, ax=row[2])
        row[2].set_title(f"{name}: partition and centres")
    return axes[0, 0].figure


def two_class(results: Results, plan: Plan) -> Any:  # noqa: ARG001
    """Two-class: the rows with contours; partitions by ECM, bootGMM and EGMM."""
    X = simulated("Two-class", SEEDS["Two-class"])
    axes = unseen_axes(2, 2, (4.6, 3.9), sharex=True, sharey=True).ravel()
    _draw_data(axes[0], X, "the rows and their density")
    plot_density([0.5, 0.5], [[2, 4], [2, 0]], [[3, 2], [2, 3]], ax=axes[0])
    for ax, name in zip(axes[1:], ("ECM", "bootGMM", PAPER_MODE), strict=True):
        fitted = fit(name, X, [2], 0, plan.n_bootstrap)
        plot_partition(X, fitted.partition, means=fitted.model.means_, hulls="lower", ax=ax)
        ax.set_title(name)
    return axes[0].figure


def four_class(results: Results, plan: Plan) -> Any:  # noqa: ARG001
    """Four-class: the rows with contours; the partition with hulls; lower and upper approximations."""
    X = simulated("Four-class", SEEDS["Four-class"])
    model = paper_mode(X, 4, 0, n_init=KMEANS_STARTS)
    partition = model.partition(X)
    axes = unseen_axes(2, 2, (4.6, 3.9), sharex=True, sharey=True).ravel()
    _draw_data(axes[0], X, "the rows and their density")
    plot_density([0.25] * 4, [[0, 0], [0, 4], [4, 4], [4, 0]], 2 * np.eye(2), ax=axes[0])
    plot_partition(X, partition, means=model.means_, hulls="lower", ax=axes[1])
    axes[1].set_title("EGMM, paper mode")
    plot_approximations(X, partition, means=model.means_, axes=axes[2:])
    return axes[0].figure


def rank_diagrams(group: str, results: Results, plan: Plan) -> Any:
    """Bonferroni-Dunn diagrams, level 0.05: a row per measure; the printed ranks and those of EGMM's columns."""
    names = [name for name, (experiment, _) in GROUPS.items() if experiment == group]
    ways = WAYS_BY_EXPERIMENT[group]
    axes = unseen_axes(len(names), 1 + len(ways), (14.8 / (1 + len(ways)), 2.3))
    for row, name in zip(axes, names, strict=True):
        paper = printed(name)
        sources = [("printed", list(paper.columns), list(paper.average_ranks or ()), len(paper.rows))]
        for way in ways:
            table = scores(results, plan, name, way)
            ranks = table.average_ranks.tolist()
            sources.append((short_name(way), [*table.algorithms[:-1], "EGMM"], ranks, len(plan.datasets)))
        for ax, (source, algorithms, ranks, n_sets) in zip(row, sources, strict=True):
            difference = bonferroni_dunn_difference(len(algorithms), n_sets)
            plot_critical_difference(algorithms, ranks, difference, control="EGMM", ax=ax)
            ax.set_title(f"{MEASURES[GROUPS[name][1]]}: {source}")
    return axes[0, 0].figure


def brain(results: Results, plan: Plan) -> Any:  # noqa: ARG001
    """Brain: T1 and T2, their lower (red) and upper (red and blue) approximations, and those of the fusion."""
    phantom = brain_phantom("phantom, noise 3 %", 0, plan)
    t1, t2, fused = segment_brain(phantom, "EGMM")
    axes = unseen_axes(3, 3, (2.5, 3.1))
    for row, name, image, segmented in zip(axes, ("T1", "T2"), (phantom.t1, phantom.t2), (t1, t2), strict=False):
        row[0].imshow(image, cmap="gray", interpolation="nearest")
        row[0].set_title(name, fontsize="small")
        row[0].set_axis_off()
        segmented.plot(axes=row[1:])
    fused.plot(axes=axes[2])
    return axes[0, 0].figure


def imprecision(results: Results, plan: Plan) -> Any:
    """Accuracy of all rows, and of sure rows."""
    rows = list(plan.datasets)[::-1]
    axes = unseen_axes(1, len(IMPRECISE), (3.6, 0.36 * len(rows) + 1.3), sharex=True, sharey=True)[0]
    for ax, name in zip(axes, IMPRECISE, strict=True):
        for at, row in enumerate(rows):
            found = {
                measure: summarise([v for v in results.values("known", row, name, measure) if not np.isnan(v)]).mean
                for measure in ("accuracy", "precise_accuracy", "ambiguous", "outliers")
            }
            hard, precise = found["accuracy"], found["precise_accuracy"]
            not_sure = found["ambiguous"] + found["outliers"]
            if np.isnan(hard):
                continue
            if not_sure < MOST_OPEN:
                ax.plot([hard, precise], [at, at], color=NEUTRAL, linewidth=2.5)
                ax.plot(precise, at, "o", color=PALETTE[1], zorder=3)
                ax.plot(control_accuracy(results, row, not_sure), at, "|", color="black", markersize=11, zorder=5)
            ax.plot(hard, at, "o", mfc="white", mec=PALETTE[0], mew=1.8, zorder=4)
            ax.text(1.04, at, f"{100 * not_sure:.0f} %", va="center", fontsize=8, color="#444444")
        ax.text(1.04, len(rows) - 0.35, "open", fontsize=8, color="#444444")
        ax.set(title=name, xlabel="accuracy", xlim=(0.3, 1.17), ylim=(-0.6, len(rows) - 0.1))
        ax.set_yticks(range(len(rows)), rows)
        ax.set_xticks([0.4, 0.6, 0.8, 1.0])
        ax.grid(axis="x", alpha=0.3)
    axes[0].plot([], [], "o", mfc="white", mec=PALETTE[0], mew=1.8, label="every row")
    axes[0].plot([], [], "o", color=PALETTE[1], label="sure rows")
    axes[0].plot([], [], "|", color="black", markersize=11, label="control")
    axes[0].legend(fontsize=8, loc="lower left")
    return axes[0].figure


@dataclass(frozen=True)
class Picture:
    """A figure and its requirements.

    Attributes
    ----------
    title : str
        Heading.
    caption : str
        Caption.
    tables : tuple of str
        Tables whose cells are drawn.
    make : callable
        Drawing function.
    """

    title: str
    caption: str
    tables: tuple[str, ...]
    make: Callable[[Results, Plan], Any]


FIGURES: Mapping[str, Picture] = {
    "diamond": Picture(
        "Diamond",
        "GMM assigns object 6, halfway between the groups, to one of them and shifts its centre; EGMM assigns it to "
        "{1,2} and finds both centres.",
        (),
        diamond,
    ),
    "two-class": Picture(
        "Two-class",
        "A draw chosen to resemble the paper's: in most draws EGMM has no open row here (see *At a glance*). "
        "Hulls are the lower approximations. ECM, with its round clusters, cuts across the two; bootGMM and EGMM find "
        "them. For bootGMM no row is open, for EGMM those between the two.",
        (),
        two_class,
    ),
    "four-class": Picture(
        "Four-class",
        "A draw chosen to resemble the paper's: in most draws fewer than four boundaries are open (see *At a glance*). "
        "The partition by the heaviest set of each row, and the rows that surely and possibly belong to each "
        "cluster.",
        (),
        four_class,
    ),
    "ranks-unknown": Picture(
        "Bonferroni-Dunn, unknown number of clusters",
        "Average ranks, best on the left. Algorithms inside the band do not differ from EGMM at level 0.05.",
        ("nmi-unknown", "ari-unknown"),
        partial(rank_diagrams, "unknown"),
    ),
    "ranks-known": Picture(
        "Bonferroni-Dunn, known number of clusters",
        "Average ranks, best on the left. Algorithms inside the band do not differ from EGMM at level 0.05.",
        ("purity", "nmi", "ari"),
        partial(rank_diagrams, "known"),
    ),
    "imprecision": Picture(
        "Accuracy of sure rows",
        "Circles: accuracy when every row gets one label. Discs: accuracy of sure rows, whose set is one cluster. "
        "Ticks: accuracy of the sure rows of a Gaussian mixture that rejects as many rows. On the right, the share of "
        "the other rows, open or outliers; no disc where that is 95 % or more.",
        ("imprecision",),
        imprecision,
    ),
    "brain": Picture(
        "Brain",
        "Phantom with 3 % noise. Red: surely in the area; blue: possibly. T1 separates CSF from tissue, T2 "
        "pathology from the rest; together they separate all three.",
        (),
        brain,
    ),
}
"""Figures by name, in page order."""
