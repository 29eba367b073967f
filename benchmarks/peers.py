"""The prototype clusterers against what they replace or rest on, in one process.

    python benchmarks/peers.py

ECM against the Python package `evclust`, FCM against `scikit-fuzzy` (each left out, with a note, where it is not
installed), BPEC against scikit-learn's K-neighbour query that it contains, bootGMM as in `bootgmm.py`. Both sides make
the same number of updates from the same prototypes, and the largest difference of their prototypes is printed. Linear
algebra has one thread: more slow these small products down, the peers' most. Times are the best of several runs taken
in turn; ratios are what to compare. BPEC uses Magic where EGMM_DATA names the directory of the data sets, simulated
rows of its size elsewhere.
"""

import contextlib
import io
import os
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bootgmm
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from egmm import BPEC, ECM, FCM
from egmm.datasets import load_uci

try:
    from evclust.ecm import ecm as evclust_ecm
except ImportError:
    evclust_ecm = None
try:
    from skfuzzy import cmeans
except ImportError:
    cmeans = None

N_NEIGHBORS = 50


def best(*functions: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Shortest time of each function, called in turn so that a busy machine slows all alike."""
    times = np.empty((repeats, len(functions)))
    for repeat in range(repeats):
        for column, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[repeat, column] = time.perf_counter() - start
    return times.min(axis=0).tolist()


def compare_ecm(n_rows: int = 4000, n_clusters: int = 4) -> None:
    if evclust_ecm is None:
        print("ECM: not compared, evclust is not installed (pip install evclust==0.2.1)")
        return
    X, _ = make_blobs(n_rows, 2, centers=n_clusters, random_state=0)
    start = X[:n_clusters]
    log = io.StringIO()
    # evclust takes the minutes here: a loose tolerance, one run.
    began = time.perf_counter()
    with contextlib.redirect_stdout(log), np.errstate(all="ignore"):
        theirs = evclust_ecm(X, n_clusters, g0=start.copy(), type="full", epsi=20.0)
    peer = time.perf_counter() - began
    n_updates = len(log.getvalue().splitlines())
    estimator = ECM(n_clusters, focal_sets="full", init=start, tol=0.0, max_iter=n_updates)
    (ours,) = best(lambda: estimator.fit(X), repeats=9)
    gap = np.abs(estimator.means_ - theirs["g"]).max()
    print(
        f"ECM, {n_rows} rows, {n_clusters} clusters, 16 sets, {n_updates} updates: evclust {peer:.2f} s, "
        f"egmm {ours * 1e3:.2f} ms, {peer / ours:.0f} times faster; prototypes differ by {gap:.0e}"
    )


def compare_fcm(n_rows: int, n_features: int, n_clusters: int, n_updates: int = 50) -> None:
    if cmeans is None:
        print("FCM: not compared, scikit-fuzzy is not installed (pip install scikit-fuzzy)")
        return
    X, _ = make_blobs(n_rows, n_features, centers=n_clusters, cluster_std=6, random_state=0)
    start = X[:n_clusters]
    columns = np.ascontiguousarray(X.T)
    squared = ((X[:, None] - start) ** 2).sum(axis=2).T
    with np.errstate(divide="ignore", invalid="ignore"):
        memberships = np.nan_to_num(1 / squared / (1 / squared).sum(axis=0), nan=1.0)
    # Ours may stop at rounding before that many updates, and then the peer need not make more either.
    estimator = FCM(n_clusters, init=start, tol=0.0, max_iter=n_updates).fit(X)
    n_updates = estimator.n_iter_

    def run_peer() -> Any:
        return cmeans(columns, n_clusters, 2.0, error=0.0, maxiter=n_updates, init=memberships)

    ours, peer = best(lambda: estimator.fit(X), run_peer)
    theirs = run_peer()[0]
    print(
        f"FCM, {n_rows} x {n_features}, {n_clusters} clusters, {n_updates} updates: scikit-fuzzy {peer * 1e3:.1f} ms, "
        f"egmm {ours * 1e3:.1f} ms, {peer / ours:.1f} times faster; prototypes differ by "
        f"{np.abs(estimator.means_ - theirs).max():.0e}"
    )


def magic_or_similar() -> tuple[str, np.ndarray]:
    directory = os.environ.get("EGMM_DATA")
    if directory:
        return "Magic", load_uci("magic", Path(directory)).X
    return "simulated rows (EGMM_DATA is not set)", make_blobs(19_020, 10, centers=2, random_state=0)[0]


def compare_bpec() -> None:
    name, X = magic_or_similar()

    def query() -> None:
        NearestNeighbors(n_neighbors=N_NEIGHBORS, n_jobs=-1).fit(X).kneighbors()

    for n_clusters in (None, 2):
        for distance in ("euclidean", "mahalanobis"):
            estimator = BPEC(n_clusters, n_neighbors=N_NEIGHBORS, distance=distance)
            floor, ours = best(query, lambda estimator=estimator: estimator.fit(X), repeats=3)
            print(
                f"BPEC, {name}, {X.shape[0]} x {X.shape[1]}, {distance}, {len(estimator.means_)} clusters "
                f"{'chosen' if n_clusters is None else 'given'}, {estimator.n_iter_} updates: K-neighbour query "
                f"{floor:.2f} s, egmm {ours:.2f} s, {ours / floor:.2f} times the query"
            )
    for part in (X[::2], X):
        tracemalloc.start()
        BPEC(2, n_neighbors=N_NEIGHBORS).fit(part)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        pairs = len(part) * N_NEIGHBORS
        print(f"BPEC, {len(part)} rows: at most {peak / 2**20:.0f} MB, {peak / pairs:.0f} bytes per row and neighbour")


def main() -> None:
    compare_ecm()
    for shape in [(400, 2, 3), (4000, 2, 4), (4000, 10, 4), (20_000, 10, 4), (100_000, 10, 8)]:
        compare_fcm(*shape)
        if cmeans is None:
            break
    compare_bpec()
    bootgmm.main()


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        main()
