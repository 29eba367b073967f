"""The evidential clusterers of the field: time, memory and agreement, beside each other and beside PyPI's evclust.

    python benchmarks/field.py            # everything, a few minutes
    python benchmarks/field.py small      # one section: small, large or peers

EGMM_DATA names the directory with belief/fourclass.csv. `peers` needs evclust (pip install evclust) and says what it
does with the same rows: masses that are no masses, and errors, are results too. Every large case runs in a process of
its own, so that its memory is its own.
"""

import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score, pairwise_distances
from sklearn.neighbors import NearestNeighbors

from egmm import BPEC, ECM, EGMM, FCM, CredalPartition
from egmm.cluster import CCM, CECM, EVCLUS, MECM, NNEVCLUS, RECM, TECM, ECMdd, EKNNClus, MultiViewECM, MultiViewECMdd
from egmm.datasets import draw_links, make_bananas
from egmm.metrics import credal_rand_index, pairwise_nonspecificity

warnings.simplefilter("ignore")


def fourclass() -> tuple[np.ndarray, np.ndarray]:
    path = Path(os.environ["EGMM_DATA"]) / "belief" / "fourclass.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :2], table[:, 2].astype(int)


def four_blobs(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(n_rows, centers=5.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), random_state=0)
    return X, y


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def small() -> None:
    """All algorithms on fourclass; kernels are compiled before."""
    X, y = fourclass()
    truth = CredalPartition.from_labels(y)
    models = [
        EGMM(4, random_state=0),
        FCM(4, random_state=0),
        ECM(4, random_state=0),
        CCM(4, random_state=0),
        TECM(4, random_state=0),
        CECM(4, random_state=0),
        BPEC(4),
        EVCLUS(4, random_state=0),
        EVCLUS(4, n_pairs=100, random_state=0),
        NNEVCLUS(4, random_state=0),
        RECM(4, random_state=0),
        ECMdd(4, delta=3.0, random_state=0),
        MECM(4, random_state=0),
        EKNNClus(60, power=2, n_init=5, random_state=0),
        MultiViewECM(4, views=[1, 1], random_state=0),
        MultiViewECMdd(4, views=[1, 1], delta=3.0, random_state=0),
    ]
    print("fourclass, 400 x 2: seconds, clusters, ARI, credal Rand index, pairwise nonspecificity")
    for model in models:
        model.fit(X[::2])
        _, seconds = timed(lambda model=model: model.fit(X))
        partition = model.partition(X)
        scores = (credal_rand_index(partition, truth), pairwise_nonspecificity(partition))
        name = repr(model).split("(")[0]
        ari = adjusted_rand_score(y, model.labels_)
        print(f"  {name:<16}{seconds:8.3f} s{partition.n_clusters:5d}{ari:8.3f}{scores[0]:8.4f}{scores[1]:8.4f}")


def in_process(case: Callable[[], str]) -> None:
    """Run a case in a process of its own and print what it says, with its peak memory."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        print(f"  {pool.apply(_measured, (case,))}", flush=True)


def _measured(case: Callable[[], str]) -> str:
    text = case()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{text}, {peak:.0f} MB at most"


def evclus_large() -> str:
    X, y = four_blobs(100_000)
    EVCLUS(4, n_pairs=5, random_state=0).fit(X[:100])
    model, seconds = timed(lambda: EVCLUS(4, n_pairs=100, random_state=0).fit(X))
    return f"EVCLUS, 10^5 rows, 100 pairs each: {seconds:.1f} s, {model.n_iter_} sweeps, ARI {_ari(y, model)}"


def nnevclus_large() -> str:
    X, y = four_blobs(100_000)
    model, seconds = timed(lambda: NNEVCLUS(4, random_state=0).fit(X))
    return f"NNEVCLUS, 10^5 rows: {seconds:.1f} s, {model.n_iter_} epochs, ARI {_ari(y, model)}"


def eknnclus_large() -> str:
    X, y = four_blobs(1_000_000)
    EKNNClus(5, random_state=0).fit(X[:100])
    search = NearestNeighbors(n_neighbors=50, n_jobs=-1)
    _, query = timed(lambda: search.fit(X).kneighbors())
    model, seconds = timed(lambda: EKNNClus(50, random_state=0).fit(X))
    found = f"{model.n_clusters_} clusters, ARI {_ari(y, model)}"
    return (
        f"EKNNClus, 10^6 x 2, K = 50: {seconds:.1f} s ({seconds / query:.2f} times the query's {query:.1f} s), {found}"
    )


def cecm_large() -> str:
    X, y = make_bananas(10_000, random_state=0)
    must, cannot = draw_links(y, 2_000, random_state=0)
    CECM(2, distance="mahalanobis", random_state=0).fit(X[:100], must_link=[[0, 1]])
    make = CECM(2, xi=0.9, distance="mahalanobis", random_state=0)
    model, seconds = timed(lambda: make.fit(X, must_link=must, cannot_link=cannot))
    return f"CECM, 10^4 rows, 2000 links: {seconds:.1f} s, {model.n_iter_} updates, ARI {_ari(y, model)}"


def _ari(y: np.ndarray, model: Any) -> str:
    return f"{adjusted_rand_score(y, model.labels_):.3f}"


def large() -> None:
    """What the originals cannot do."""
    print("large data")
    for case in (evclus_large, nnevclus_large, eknnclus_large, cecm_large):
        in_process(case)


def peers() -> None:
    """PyPI's evclust on every fifth row of fourclass, beside ours."""
    try:
        import evclust.datasets  # noqa: F401, PLC0415
    except ImportError as error:
        print(f"peers: {error}; pip install evclust")
        return
    X, y = fourclass()
    X, y = X[::5], y[::5]
    D = pairwise_distances(X)
    full = {"focal_sets": "full"}
    cases: list[tuple[str, Any, dict[str, Any], Any, Any]] = [
        ("ecm", X, {"c": 4}, ECM(4, random_state=0, **full), X),
        (
            "recm",
            D**2,
            {"c": 4, "delta": np.float64(10.0)},
            RECM(4, beta=1.5, metric="precomputed", random_state=0, **full),
            D,
        ),
        ("kevclus", X, {"c": 4}, EVCLUS(4, random_state=0), X),
        ("ccm", X, {"c": 4}, CCM(4, random_state=0, **full), X),
        ("ecmdd", D, {"c": 4}, ECMdd(4, metric="precomputed", random_state=0, **full), D),
        ("mecm", D, {"c": 4}, MECM(4, metric="precomputed", random_state=0, **full), D),
    ]
    print("80 rows of fourclass: PyPI's evclust, then ours: seconds, ARI, least mass, sums of rows")
    for name, theirs, options, model, ours in cases:
        print(f"  {name:<8} {_theirs(name, theirs, options, y)}")
        model.fit(ours)
        _, seconds = timed(lambda model=model, ours=ours: model.fit(ours))
        mass = model.partition(ours).mass
        print(f"  {'':<8} {_line(seconds, adjusted_rand_score(y, model.labels_), mass)}  (ours)")


def _theirs(name: str, X: Any, options: dict[str, Any], y: np.ndarray) -> str:
    from importlib import import_module  # noqa: PLC0415

    try:
        fit = getattr(import_module(f"evclust.{name}"), name)
        np.random.seed(0)  # noqa: NPY002  It draws from the global generator.
        found, seconds = timed(lambda: fit(X, **options, disp=False))
        mass = np.asarray(found["mass"], dtype=float)
        return _line(seconds, adjusted_rand_score(y, np.asarray(found["y_pl"]).ravel()), mass)
    except Exception as error:  # Whatever it raises is the result.
        return f"{type(error).__name__}: {str(error).splitlines()[0][:90] if str(error) else ''}"


def _line(seconds: float, ari: float, mass: np.ndarray) -> str:
    sums = mass.sum(axis=1)
    return f"{seconds:8.3f} s  ARI {ari:6.3f}  least {mass.min():8.3f}  sums {sums.min():.2f} to {sums.max():.2f}"


SECTIONS = {"small": small, "large": large, "peers": peers}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()
