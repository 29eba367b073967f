"""Real data beside the peers: missing cells, labels, human masses, links, noise, many features.

    python benchmarks/real_data.py               # everything
    python benchmarks/real_data.py labels dogs   # some: missing, cost, labels, dogs, links, noise, many

Figures are means over draws, with their standard errors. EGMM_DATA names the directory that has field/credal_dog2.npz
and uci/seeds.csv. Times are of the processor.
"""

import os
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import scale
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from egmm import EGMM, CredalPartition, FocalSets
from egmm.datasets import draw_links, load_uci, make_bananas
from egmm.metrics import credal_rand_index

warnings.simplefilter("ignore")

DRAWS = 20

Table = dict[str, list[tuple[float, ...]]]


def show(table: Table, heads: tuple[str, ...]) -> None:
    """Means over draws and their standard errors."""
    print(f"{'':34}" + "".join(f"{head:>18}" for head in heads))
    for name, draws in table.items():
        values = np.array(draws)
        errors = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(values.shape[1])
        cells = [f"{mean:.3f} +- {error:.3f}" for mean, error in zip(values.mean(axis=0), errors, strict=True)]
        print(f"{name:34}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


# Missing cells ---------------------------------------------------------------------------------------------------


def missing() -> None:
    """Iris with cells removed at random: agreement with the species, and error of the cells filled in."""
    X, y = load_iris(return_X_y=True)
    for share in (0.05, 0.2, 0.4):
        table: Table = defaultdict(list)
        for seed in range(DRAWS):
            is_hole = np.random.default_rng(seed).random(X.shape) < share
            for name, labels, filled in of_gaps(np.where(is_hole, np.nan, X)):
                error = ((filled - X) / X.std(axis=0))[is_hole]
                table[name].append((adjusted_rand_score(y, labels), float(np.sqrt((error**2).mean()))))
        print(f"\nIris, {share:.0%} of the cells missing, {DRAWS} draws")
        show(table, ("ARI", "error of cells"))


def of_gaps(X: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Ways to cluster rows with gaps: name, labels, rows without gaps."""
    model = EGMM(3, random_state=0)
    classical = EGMM(3, focal_sets="singletons", random_state=0)
    for name, one in (("EGMM", model), ("EGMM, singletons", classical)):
        found = clone(one).fit(X)
        yield name, found.labels_, found.impute(X)
    found = clone(model).fit(X[~np.isnan(X).any(axis=1)])
    yield "complete rows, EGMM", found.predict(X), found.impute(X)
    filled = SimpleImputer().fit_transform(X)
    yield "means of columns, EGMM", clone(model).fit(filled).labels_, filled
    filled = IterativeImputer(random_state=0, max_iter=50).fit_transform(X)
    yield "IterativeImputer, EGMM", clone(model).fit(filled).labels_, filled
    peer = GaussianMixture(3, covariance_type="tied", n_init=5, random_state=0)
    yield "IterativeImputer, GMM tied", peer.fit_predict(filled), filled


def cost() -> None:
    """One pass over 10^6 x 10 rows, complete and with a tenth of the cells missing in 50 patterns, in turns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10**6, 10)) + 4 * rng.integers(0, 3, size=(10**6, 1))
    patterns = rng.permutation(np.arange(500) < 50).reshape(50, 10)
    holed = np.where(patterns[rng.integers(0, 50, len(X))], np.nan, X)
    print(
        f"\n10^6 x 10, shared covariance, {np.isnan(holed).mean():.1%} of the cells missing: processor time of a pass"
    )
    seconds_of_fit(X[:1000], 1)
    seconds_of_fit(holed[:1000], 1)
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(5):
        for name, rows in (("complete", X), ("gaps", holed)):
            (first, _), (all_of_them, n_steps) = seconds_of_fit(rows, 1), seconds_of_fit(rows, 60)
            times[name].append((all_of_them - first) / (n_steps - 1))
    whole, gaps = np.median(times["complete"]), np.median(times["gaps"])
    print(f"complete {1e3 * whole:.1f} ms, with gaps {1e3 * gaps:.1f} ms: {gaps / whole:.2f} times")


def seconds_of_fit(X: np.ndarray, most_steps: int) -> tuple[float, int]:
    """Seconds of the processor of steps of plain EM, and their number: a fit may have settled before."""
    start = np.array([[0.0], [3.0], [9.0]]) + np.zeros((3, 10))
    model = EGMM(3, init=start, max_iter=most_steps, tol=0.0, accelerate=False, engine="numba", n_jobs=1)
    began = time.process_time()
    model.fit(X)
    return time.process_time() - began, model.n_iter_


# Labels ----------------------------------------------------------------------------------------------------------


def labels() -> None:
    """Accuracy on rows without label, and wrong labels among the ten of highest conflict."""
    seeds = load_uci("seeds")
    for name, rows, classes in (("Iris", *load_iris(return_X_y=True)), ("Seeds", seeds.X, seeds.y)):
        X, y = scale(rows), np.unique(classes, return_inverse=True)[1]
        for wrong in (0.0, 0.1):
            for share in (0.05, 0.1, 0.2):
                compare_labels(f"{name}, {share:.0%} labels, {wrong:.0%} of them wrong", X, y, share, wrong)


def compare_labels(title: str, X: np.ndarray, y: np.ndarray, share: float, wrong: float) -> None:
    table: Table = defaultdict(list)
    caught, n_wrong = [], 0
    for seed in range(DRAWS):
        known, is_wrong = some_labels(y, share, wrong, np.random.default_rng(seed))
        rest = known < 0
        for name, found in of_labels(X, known, 1.0 if wrong == 0 else 0.9):
            table[name].append((float((found[rest] == y[rest]).mean()),))
            if name == "EGMM":
                model = EGMM(3, random_state=0).fit(X, labels=known, reliability=0.9)
        n_wrong = int(is_wrong.sum())
        caught.append(float(is_wrong[np.argsort(-model.label_conflict_)[:10]].sum()))
    print(f"\n{title}")
    show(table, ("accuracy",))
    if n_wrong:
        print(f"wrong labels among the ten highest conflicts: {np.mean(caught):.2f} of {n_wrong}")


def some_labels(y: np.ndarray, share: float, wrong: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels of a share of the rows, two of every class at least, some replaced by another class; and which."""
    order = rng.permutation(len(y))
    first = np.concatenate([order[y[order] == k][:2] for k in np.unique(y)])
    others = order[~np.isin(order, first)][: round(share * len(y)) - len(first)]
    chosen = np.concatenate([first, others])
    known, is_wrong = np.full(len(y), -1), np.zeros(len(y), dtype=bool)
    known[chosen] = y[chosen]
    is_wrong[rng.choice(chosen, int(np.ceil(wrong * len(chosen))), replace=False)] = True
    known[is_wrong] = (known[is_wrong] + rng.integers(1, 3, is_wrong.sum())) % 3
    return known, is_wrong


def of_labels(X: np.ndarray, known: np.ndarray, reliability: float) -> Iterator[tuple[str, np.ndarray]]:
    """Clusters of all rows by semi-supervised algorithms."""
    for name, covariance in (("EGMM", "EEE"), ("EGMM, VVV with prior", "VVV")):
        model = EGMM(3, covariance=covariance, prior="default" if covariance == "VVV" else None, random_state=0)
        yield name, model.fit(X, labels=known, reliability=reliability).predict(X)
    yield "LabelSpreading, rbf", LabelSpreading(gamma=1.0).fit(X, known).predict(X)
    yield "LabelSpreading, 7 neighbours", LabelSpreading("knn", n_neighbors=7).fit(X, known).predict(X)
    gaussian = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    yield "SelfTraining(LDA)", SelfTrainingClassifier(gaussian).fit(X, known).predict(X)


def dogs() -> None:
    """Labels of a fifth of the rows as people gave them, and as the class most of them named."""
    for number in (2, 4):
        compare_people(number)


def compare_people(number: int) -> None:
    data = np.load(Path(os.environ["EGMM_DATA"]) / "field" / f"credal_dog{number}.npz")
    X, y, people = scale(data["X"].astype(float)), data["y"], data["mass"]
    frame = FocalSets(np.arange(2**number), number)
    table: Table = defaultdict(list)
    for seed in range(DRAWS):
        known = np.random.default_rng(seed).permutation(len(X)) < len(X) // 5
        truth = CredalPartition(people[~known], frame)
        for covariance, options in (("EEI", {}), ("low-rank", {"n_factors": 5})):
            for name, given in of_people(people, frame, known).items():
                model = EGMM(number, focal_sets="full", covariance=covariance, random_state=0, **options)
                found = model.fit(X, labels=given).partition(X[~known])
                scores = [credal_rand_index(found, truth, distance=kind) for kind in ("conflict", "jousselme")]
                right = float((found.labels() == y[~known]).mean())
                table[f"{covariance}, {name}"].append((*scores, utility(found.sets(rule="utility"), y[~known]), right))
    print(f"\nCredal Dog-{number}, {len(X)} x {X.shape[1]}, a fifth labelled by people, {DRAWS} draws")
    show(table, ("credal RI", "CRI, Jousselme", "u80", "accuracy"))


def of_people(people: np.ndarray, frame: FocalSets, known: np.ndarray) -> dict[str, Any]:
    """Masses of people as labels, and the cluster of the largest pignistic probability; nothing of the others."""
    pignistic = people @ frame.shares
    vacuous = np.eye(len(frame.masks))[-1]
    masses = np.where(known[:, None], people, vacuous)
    probabilities = np.where(known[:, None], pignistic / pignistic.sum(axis=1, keepdims=True), np.nan)
    return {
        "masses": (masses / masses.sum(axis=1, keepdims=True), frame),
        "probabilities": probabilities,
        "majority": np.where(known, pignistic.argmax(axis=1), -1),
    }


def utility(sets: np.ndarray, y: np.ndarray) -> float:
    """u80 of sets, whose clusters are the classes."""
    share = sets[np.arange(len(y)), y] / sets.sum(axis=1)
    return float((2.2 * share - 1.2 * share**2).mean())


# Links and noise -------------------------------------------------------------------------------------------------


def links() -> None:
    """Two bananas with 400 links: two clusters with a shared covariance, and with one each."""
    table: Table = defaultdict(list)
    for seed in range(8):
        X, y = make_bananas(300, random_state=seed)
        must, cannot = draw_links(y, 400, random_state=seed)
        for name in ("EEE", "VVV"):
            model = EGMM(2, covariance=name, random_state=0)
            without = adjusted_rand_score(y, clone(model).fit(X).labels_)
            linked = model.fit(X, must_link=must, cannot_link=cannot)
            free = ~np.isin(np.arange(len(X)), np.concatenate([must, cannot]))
            rest = float((linked.labels_[free] == y[free]).mean()) if free.any() else np.nan
            table[name].append((adjusted_rand_score(y, linked.labels_), without, max(rest, 1 - rest)))
    print("\nbananas(300), 400 links, 8 draws")
    show(table, ("ARI", "without links", "unlinked rows right"))
    print("medians of ARI:", {name: round(float(np.median(np.array(draws)[:, 0])), 3) for name, draws in table.items()})


def noise() -> None:
    """Three Gaussians and 5 % of uniform noise."""
    table: Table = defaultdict(list)
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        centres = 5.0 * np.array([[0, 0], [1, 1.6], [2, 0]])
        y = np.append(np.arange(570) % 3, np.full(30, -1))
        X = np.where(y[:, None] < 0, rng.uniform(-15, 25, (600, 2)), centres[y] + rng.normal(size=(600, 2)))
        for name, options in (("Gaussians", {}), ("noise", {"noise": True}), ("heavy tails", {"tails": "t"})):
            model = EGMM(3, init="mixture", random_state=0, **options).fit(X)
            is_out = model.partition(X).outliers() if "noise" in options else model.outliers(X)
            score = adjusted_rand_score(y[y >= 0], model.labels_[y >= 0])
            table[name].append((score, float(is_out[y < 0].mean()), float(is_out[y >= 0].mean())))
    print(
        f"\nthree Gaussians, 5 % uniform noise, {DRAWS} draws; noise is on the empty set, or beyond the .999 quantile"
    )
    show(table, ("ARI of others", "noise found", "others called so"))


# Many features ---------------------------------------------------------------------------------------------------


def many() -> None:
    """Hundreds of features, or fewer rows than features."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 24)
    X = 2.0 * (rng.random((3, 2000)) < 0.05)[y] + rng.normal(size=(72, 2000))
    print("\n72 x 2000, three groups")
    for covariance in ("EII", "EEI", "VVI"):
        one_of_many(covariance, X, y, lambda covariance=covariance: EGMM(3, covariance=covariance, random_state=0))
    for number in (2, 4):
        data = np.load(Path(os.environ["EGMM_DATA"]) / "field" / f"credal_dog{number}.npz")
        dogs_X, dogs_y = scale(data["X"].astype(float)), data["y"]
        print(f"\nCredal Dog-{number}, {dogs_X.shape[0]} x {dogs_X.shape[1]}, {number} clusters")
        beside_peers(dogs_X, dogs_y, number)
    print("\ndigits, 1797 x 64, ten clusters")
    beside_peers(*load_digits(return_X_y=True), 10)


def beside_peers(X: np.ndarray, y: np.ndarray, n_clusters: int) -> None:
    options = {"n_clusters": n_clusters, "random_state": 0}
    ours = {
        "EEI": {"covariance": "EEI"},
        "EEE": {"covariance": "EEE"},
        "low-rank": {"covariance": "low-rank", "n_factors": 10},
        "low-rank, 5 starts": {"covariance": "low-rank", "n_factors": 10, "n_init": 5},
    }
    for name, more in ours.items():
        one_of_many(f"EGMM, {name}", X, y, lambda more=more: EGMM(focal_sets="simple", **options, **more))
    one_of_many("k-means, 10 starts", X, y, lambda: KMeans(n_clusters, n_init=10, random_state=0))
    for covariance in ("tied", "diag"):
        peer = {"covariance_type": covariance, "n_init": 5, "reg_covar": 1e-3, "random_state": 0}
        one_of_many(f"GMM, {covariance}, 5 starts", X, y, lambda peer=peer: GaussianMixture(n_clusters, **peer))


def one_of_many(name: str, X: np.ndarray, y: np.ndarray, made: Callable[[], Any]) -> None:
    """ARI, processor time and size of the model file of one fit."""
    began = time.process_time()
    model = made().fit(X)
    seconds = time.process_time() - began
    line = f"{name:28} ARI {adjusted_rand_score(y, model.predict(X)):.3f}, {seconds:.2f} s"
    if isinstance(model, EGMM):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            model.save(path)
            line += f", file {path.stat().st_size / 1e6:.2f} MB"
    print(line, flush=True)


SECTIONS = {f.__name__: f for f in (missing, cost, labels, dogs, links, noise, many)}

if __name__ == "__main__":
    for asked in sys.argv[1:] or SECTIONS:
        SECTIONS[asked]()
