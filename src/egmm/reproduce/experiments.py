"""One cell of an experiment: the result of one run of one algorithm on one data set."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm.belief.partition import CredalPartition
from egmm.cluster import BPEC, ECM
from egmm.datasets import load_uci, make_diamond, make_four_class, make_two_class
from egmm.em.criteria import first_best
from egmm.image import SegmentedImage, fuse, make_brain_phantom
from egmm.image import segment as segment_image
from egmm.image.phantom import AREAS, BrainPhantom
from egmm.metrics import ari, matched_accuracy, nmi, purity, risk_coverage_curve, set_scores
from egmm.mixture import EGMM
from egmm.reproduce.algorithms import ALGORITHMS, CONSENSUS, CONTROL, PAPER_MODE, Fitted, fit, paper_mode
from egmm.reproduce.paper import datasets, printed
from egmm.reproduce.plan import Plan
from egmm.rows.threads import one_blas_thread
from egmm.selection import select_model

Numbers = dict[str, Any]

EBIC_COUNTS = tuple(int(column) for column in printed("ebic").columns)
PRINTED_CHOICE = {
    row: EBIC_COUNTS[int(at)]
    for row, at in zip(printed("ebic").rows, printed("ebic").values.argmax(axis=1), strict=True)
}
"""Number of clusters chosen in the paper for each example."""

A_FEW_ROWS = 10
"""Number of rows that make a set visible in a figure."""

KMEANS_STARTS = 10
"""Number of k-means starts for the examples; the printed EBIC of Diamond is the best of several."""

T1_STANDS_FOR = {"CSF": ["CSF"], "tissue": ["pathology", "normal"]}
T2_STANDS_FOR = {"other": ["CSF", "normal"], "pathology": ["pathology"]}
"""Refining of the two modalities to the frame of three areas."""

BRAINS: Mapping[str, dict[str, Any]] = {
    "phantom, noise 3 %": {"noise": 3.0, "inu": 0.0},
    "phantom, noise 3 %, field 20 %": {"noise": 3.0, "inu": 20.0},
    "phantom, noise 9 %": {"noise": 9.0, "inu": 0.0},
}
"""Brain images by difficulty; the paper does not state the noise level."""


class Cell(NamedTuple):
    """Key of a number: experiment, data set, algorithm and run, which is also the seed."""

    experiment: str
    dataset: str
    algorithm: str
    run: int


def simulated(name: str, run: int) -> FloatArray:
    """Rows of one of the paper's examples; Diamond is always the same."""
    if name == "Diamond":
        return make_diamond()[0]
    return {"Two-class": make_two_class, "Four-class": make_four_class}[name](random_state=run)[0]


@cache
def real(name: str, directory: str | None) -> tuple[FloatArray, IntArray]:
    """Rows and classes of one of the paper's real data sets."""
    data = load_uci(name.lower(), directory)
    return data.X, data.y


def _known(cell: Cell, plan: Plan) -> Numbers:
    """Agreement with the classes for a given number of clusters, and the set-valued scores."""
    X, y = real(cell.dataset, plan.data)
    fitted = fit(cell.algorithm, X, [datasets()[cell.dataset].clusters], cell.run, plan.n_bootstrap)
    labels = fitted.labels
    numbers: Numbers = {"purity": purity(y, labels), "nmi": nmi(y, labels), "ari": ari(y, labels)}
    if ALGORITHMS[cell.algorithm].is_evidential:
        sets = fitted.partition.upper("utility" if cell.algorithm == CONSENSUS else "mass")
        numbers |= {"accuracy": matched_accuracy(y, labels), "outliers": float((~sets.any(axis=1)).mean())}
        numbers |= set_scores(y, sets)._asdict()
    if cell.algorithm == CONTROL:
        numbers["by_percent"] = _accuracies(fitted, y)
    return {**numbers, **_choice(fitted.model)}


def _accuracies(control: Fitted, y: IntArray) -> list[float]:
    """Accuracy of the control's sure rows where 0, 1, ..., 99 percent of the rows are open, the least probable."""
    risk = risk_coverage_curve(y, control.model.predict_proba(control.rows)).risk
    answered = np.maximum(1, np.round(len(y) * (1 - np.arange(100) / 100)).astype(int))
    return (1 - risk[answered - 1]).tolist()


def _unknown(cell: Cell, plan: Plan) -> Numbers:
    """Number of clusters chosen, and agreement with the classes."""
    X, y = real(cell.dataset, plan.data)
    fitted = fit(cell.algorithm, X, plan.counts, cell.run, plan.n_bootstrap)
    labels = fitted.labels
    return {"clusters": fitted.n_clusters, "nmi": nmi(y, labels), "ari": ari(y, labels), **_choice(fitted.model)}


def _choice(model: Any) -> Numbers:
    """Covariance model, if one was chosen."""
    name = getattr(model, "covariance_", getattr(model, "covariance", None))
    return {"covariance": name} if isinstance(name, str) else {}


def _ebic(cell: Cell, plan: Plan) -> Numbers:  # noqa: ARG001
    """EBIC of the paper's examples for 2 to 6 clusters; Diamond on the full power set, as in the paper."""
    X = simulated(cell.dataset, cell.run)
    sets = "full" if cell.dataset == "Diamond" else "pairs"
    if cell.algorithm == PAPER_MODE:
        models = {c: paper_mode(X, c, cell.run, n_init=KMEANS_STARTS, focal_sets=sets) for c in EBIC_COUNTS}
    else:
        found = select_model(X, EBIC_COUNTS, "all", focal_sets=sets, random_state=cell.run, n_jobs=1).candidates
        models = {c: _best([f.model for f in found if f.model is not None and f.n_clusters == c]) for c in EBIC_COUNTS}
    highest = max(models, key=lambda count: models[count].ebic_)
    chosen = _best([*models.values()]).n_clusters
    values = {str(count): float(model.ebic_) for count, model in models.items()}
    left_open = _open_rows(models[PRINTED_CHOICE[cell.dataset]].partition(X))
    return {**values, "highest": highest, "chosen": chosen, **left_open}


def _best(models: Sequence[EGMM]) -> EGMM:
    """Choose by EBIC like `select_model`, without degenerate fits."""
    return models[first_best([model.ebic_ for model in models], [not model.degenerate_ for model in models])]


def _open_rows(partition: CredalPartition) -> Numbers:
    """Share of open rows, and number of sets with enough rows to be visible."""
    is_meta, sets = partition.focal_sets.is_meta, partition.sets()
    rows = np.bincount(sets, minlength=len(is_meta))
    return {"open": float(is_meta[sets].mean()), "open_sets": int((rows[is_meta] >= A_FEW_ROWS).sum())}


def _cpu(cell: Cell, plan: Plan) -> Numbers:
    """CPU seconds of one fit on one thread, mean over seeds, after a warm-up fit."""
    X, _ = real(cell.dataset, plan.data)
    counts = [datasets()[cell.dataset].clusters]
    spent: list[float] = []
    # The warm-up also compiles.
    fit(cell.algorithm, X, counts, 0, plan.n_bootstrap)
    while len(spent) < plan.runs and sum(spent) <= plan.seconds_to_repeat:
        began = time.process_time()
        fit(cell.algorithm, X, counts, len(spent), plan.n_bootstrap)
        spent.append(time.process_time() - began)
    return {"seconds": float(np.mean(spent)), "fits": len(spent)}


def brain_phantom(dataset: str, run: int, plan: Plan) -> BrainPhantom:
    """T1 and T2 images with lesions."""
    return make_brain_phantom(plan.brain_shape, random_state=run, **BRAINS[dataset])


def segment_brain(phantom: BrainPhantom, algorithm: str) -> tuple[SegmentedImage, SegmentedImage, SegmentedImage]:
    """Cluster T1 and T2 separately into two, and combine them on the frame of three areas."""
    ways: dict[str, dict[str, Any]] = {"ECM": {"estimator": ECM(2, random_state=0)}, "BPEC": {"estimator": BPEC(2)}}
    way = ways.get(algorithm, {"n_clusters": 2})
    t1 = segment_image(phantom.t1, phantom.mask, names=tuple(T1_STANDS_FOR), **way)
    t2 = segment_image(phantom.t2, phantom.mask, names=tuple(T2_STANDS_FOR), **way)
    return t1, t2, fuse(t1, t2, [T1_STANDS_FOR, T2_STANDS_FOR], names=AREAS)


def _brain(cell: Cell, plan: Plan) -> Numbers:
    """Agreement of the fused segmentation with the phantom's areas."""
    phantom = brain_phantom(cell.dataset, cell.run, plan)
    t1, t2, fused = segment_brain(phantom, cell.algorithm)
    found, truth = fused.labels()[phantom.mask], phantom.areas[phantom.mask]
    numbers = {"purity": purity(truth, found), "nmi": nmi(truth, found), "ari": ari(truth, found)}
    return {**numbers, "t1": t1.n_ambiguous, "t2": t2.n_ambiguous, "fused": fused.n_ambiguous, "pixels": len(truth)}


EXPERIMENTS: Mapping[str, Callable[[Cell, Plan], Numbers]] = {
    "ebic": _ebic,
    "unknown": _unknown,
    "known": _known,
    "brain": _brain,
    "cpu": _cpu,
}
"""Function of each experiment; times come last, when nothing else runs."""


def compute(cell: Cell, plan: Plan, n_jobs: int | None = None) -> tuple[Cell, Numbers]:  # noqa: ARG001
    """Compute a cell on one thread, with its time; a failed fit is also a result."""
    began = time.process_time()
    try:
        with one_blas_thread(), warnings.catch_warnings():
            # Ignore convergence warnings, as in the paper's runs.
            warnings.simplefilter("ignore")
            numbers = EXPERIMENTS[cell.experiment](cell, plan)
        return cell, {**numbers, "spent": round(time.process_time() - began, 3)}
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        if cell.dataset in datasets():
            real(cell.dataset, plan.data)  # Wrong data are not a failure of the algorithm.
        return cell, {"failure": str(error)}
