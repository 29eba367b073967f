"""``egmm demo``: the paper's examples, with figures and a report."""

import time
import warnings
from pathlib import Path
from typing import Any

from egmm.cli import figures, segmenting
from egmm.cli.comparing import control_accuracy, fit_control
from egmm.cli.data import Data, classes_of
from egmm.cli.fitting import facts, sentences_of, show_sets, write_outputs, write_rows
from egmm.cli.models import Fitted, fit_data
from egmm.cli.output import check_free, files_below, write_columns, writing_directory
from egmm.cli.parsing import Source, auto_request, decision
from egmm.cli.screen import as_json, message, say, show_table
from egmm.datasets import make_diamond, make_four_class
from egmm.metrics import set_scores
from egmm.mixture import EGMM
from egmm.plotting import plot_masses, plot_partition
from egmm.selection import select_model

COUNTS = (2, 3, 4, 5, 6)
"""Numbers of clusters tried in the paper."""

FOUR_CLASS = 13
"""Draw in which rows at all four boundaries are open, as in the paper's figure; most draws have fewer."""


def demo(out: Path, *, force: bool, as_machine: bool, quiet: bool) -> None:
    """Cluster the examples, and print results and file names."""
    check_free(out, force=force)
    began = time.perf_counter()
    is_talking = not (quiet or as_machine)
    with writing_directory(out, force=force) as work:
        if is_talking:
            message("Diamond: 11 objects, one of them halfway between two groups ...")
        _diamond(work)
        if is_talking:
            message("Four-class: 800 rows from four overlapping Gaussians, without labels ...")
        four = _four_class(work, out)
        compared = _compared(four)
        if is_talking:
            message("Brain phantom: T1 and T2 images with lesions, segmented and fused ...")
        brain = segmenting.brain(work)
        files = files_below(work)
    seconds = time.perf_counter() - began
    if as_machine:
        as_json(
            {
                "command": "demo",
                "output": str(out),
                "files": files,
                "seconds": round(seconds, 2),
                **facts(four),
                "compared": compared,
            }
        )
    elif is_talking:
        say("\nFour-class", "bold")
        for sentence in sentences_of(four):
            say(sentence)
        say()
        show_sets(four.partition, four.request.decision)
        say()
        _show_compared(compared)
        say("\nBrain phantom", "bold")
        say(brain)
        say(f"\nDone in {seconds:.1f} s. Open these:", "bold")
        for name in ("report.html", "diamond.png", "brain.png", "figures/partition.png", "figures/approximations.png"):
            say(f"  {out / name}")


def _diamond(work: Path) -> None:
    """Choose the number of clusters of the paper's first example with its settings: all sets, ridge 0.01."""
    X, _ = make_diamond()
    with warnings.catch_warnings():
        # Fits of eleven objects with three clusters or more are degenerate, as the curve shows.
        warnings.simplefilter("ignore")
        selection = select_model(X, COUNTS, focal_sets="full", reg_covar=0.01, random_state=0, n_jobs=1)
    model = selection.best
    partition = model.partition(X)
    left, middle, right = figures.new_axes(3, (5.2, 4.0), shared=False)
    selection.plot(left)
    plot_masses(partition, ax=middle)
    plot_partition(X, partition, means=model.means_, covariances=model.covariances_, ax=right)
    # The title of the curve states which fits are degenerate.
    left.set_title(f"number of clusters\n{left.get_title()}")
    middle.set_title("mass function of each object")
    right.set_title("the objects")
    figures.save(left, work / "diamond.png")


def _four_class(work: Path, out: Path) -> Fitted:
    """Fit the four-class example in `work`, which becomes `out`."""
    X, classes = make_four_class(random_state=FOUR_CLASS)
    write_columns(work / "four_class.csv", {"x1": X[:, 0], "x2": X[:, 1], "class": classes})
    request = auto_request("auto", None, "pairs", 0, verbose=False)._replace(decision=decision(None, 0.8, is_auto=True))
    fitted = fit_data(Data(X, ["x1", "x2"], classes_of(classes)), request)
    write_rows(work, fitted, "csv")
    write_outputs(work, fitted, Source(str(out / "four_class.csv")), plots=True)
    return fitted


def _compared(fitted: Fitted) -> list[dict[str, Any]]:
    """The consensus, and the paper's EGMM with four clusters, each with its control."""
    X, truth = fitted.X, fitted.data.labels
    control = fit_control(X, 4, 0)
    paper = EGMM(4, random_state=0).fit(X).partition(X)
    chosen = {"AutoEGMM": fitted.partition.upper("utility"), "EGMM of the paper, C = 4": paper.upper()}
    found = []
    for name, sets in chosen.items():
        scores = set_scores(truth, sets)
        right = control_accuracy(truth, control, scores.ambiguous)
        found.append(
            {
                "name": name,
                "open": scores.ambiguous,
                "coverage": scores.coverage,
                "right": scores.precise_accuracy,
                "control": right,
            }
        )
    return found


def _show_compared(compared: list[dict[str, Any]]) -> None:
    keys = ("coverage", "right", "control")
    lines = [[c["name"], f"{100 * c['open']:.0f} %", *(f"{c[key]:.3f}" for key in keys)] for c in compared]
    headings = ["open\nrows", "class in\nits set", "accuracy,\nsure rows", "GMM, as\nmany open"]
    show_table(["against the known classes", *headings], lines)
    say(
        "The GMM is scikit-learn's. It is given the true number of clusters and the number of rows to reject; AutoEGMM "
        "finds both, and names the clusters that an open row lies between."
    )
