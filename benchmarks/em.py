"""EGMM against scikit-learn's tied Gaussian mixture, the floor of its arithmetic, and itself without acceleration.

    python benchmarks/em.py [--quick] [section ...]

Sections: pass, float32, floor, fit, iris, memory, passes, compile, evclust; all by default. --quick takes a tenth of
the rows and fewer repeats: a trial run, whose figures mean little. Both sides run in one process on all cores it may
use, in turn, and times are the best of several runs; ratios are what to compare. Real data sets are read where
EGMM_DATA names their directory, `evclust` is compared where it is installed (pip install evclust==0.2.1).
"""

import argparse
import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import scale

from egmm import EGMM, FocalSets
from egmm.datasets import load_uci, make_blobs_with_overlap, make_four_class, make_two_class
from egmm.em.ascent import Ascent
from egmm.em.parameters import Parameters
from egmm.em.problem import Problem
from egmm.em.start import Groups, group_sums, start_parameters
from egmm.em.statistics import moments
from egmm.rows.array import ArrayRows
from egmm.rows.threads import available_cores, one_blas_thread

try:
    from evclust.egmm import egmm as evclust_egmm
except ImportError:
    evclust_egmm = None


class Scale(NamedTuple):
    """How much to measure."""

    divisor: int = 1
    repeats: int = 7


def best(*functions: Callable[[], Any], repeats: int) -> list[float]:
    """Shortest time of each function, called in turn so that a busy machine slows all alike.

    Each is called once untimed first: the other one's BLAS threads still spin for some 20 ms after its last product.
    """
    times = np.empty((repeats, len(functions)))
    for repeat in range(repeats):
        for column, function in enumerate(functions):
            function()
            start = time.perf_counter()
            function()
            times[repeat, column] = time.perf_counter() - start
    return times.min(axis=0).tolist()


def overlapping(n_rows: int, n_features: int, n_clusters: int) -> np.ndarray:
    """Rows of Gaussian clusters whose centres are about three deviations apart: EM has something to do."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=2.0 / np.sqrt(n_features), size=(n_clusters, n_features))
    X = rng.normal(size=(n_rows, n_features))
    X += centres[rng.integers(n_clusters, size=n_rows)]
    return X


# One pass --------------------------------------------------------------------------------------------------------


def our_pass(X: np.ndarray, family: str, n_clusters: int) -> Callable[[], Any]:
    """E-step and M-step of the compiled engine, from parameters in the midst of a fit."""
    focal = FocalSets.of(family, n_clusters)
    rows = ArrayRows(X)
    total = rows.reduce(moments)
    ridge = np.zeros(X.shape[1])
    problem = Problem.of_one(rows, total, focal.shares, "EEE", ridge, "numba")
    weights = np.full((1, len(focal)), 1 / len(focal))
    means = problem.units.rows(X[:n_clusters])
    covariance = np.cov(problem.units.rows(X[:10_000]).T)
    evaluation = problem.evaluate(Parameters(weights, means[None], covariance[None, None]))
    params = problem.maximise(evaluation.vector, evaluation.params)[0]

    def run() -> None:
        with one_blas_thread():
            evaluation = problem.evaluate(params)
            problem.maximise(evaluation.vector, params)

    return run


def their_pass(X: np.ndarray, n_clusters: int) -> Callable[[], Any]:
    """E-step and M-step of scikit-learn's tied mixture, by the two private methods its own loop calls."""
    model = GaussianMixture(n_clusters, covariance_type="tied", means_init=X[:n_clusters], max_iter=1, random_state=0)
    model.set_params(init_params="random_from_data")
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(X)

    def run() -> None:
        _, log_responsibilities = model._e_step(X)
        model._m_step(X, log_responsibilities)

    return run


SETTINGS = [
    (1_000_000, 10, 3, "full", 12),
    (1_000_000, 10, 5, "full", 12),
    (1_000_000, 10, 8, "pairs", 16),
    (1_000_000, 10, 8, "full", 4),
    (200_000, 50, 8, "pairs", 5),
]


def passes_per_second(size: Scale) -> None:
    print("pass: one EM pass, scikit-learn's tied GaussianMixture against EGMM")
    for n_rows, n_features, n_clusters, family, aim in SETTINGS:
        X = overlapping(n_rows // size.divisor, n_features, n_clusters)
        functions = our_pass(X, family, n_clusters), their_pass(X, n_clusters)
        ours, theirs = best(*functions, repeats=size.repeats)
        print(
            f"  {X.shape[0]} x {n_features}, C={n_clusters} {family} ({len(FocalSets.of(family, n_clusters))} sets): "
            f"scikit-learn {theirs * 1e3:.0f} ms, egmm {ours * 1e3:.1f} ms, ratio {theirs / ours:.1f} (aim {aim})"
        )


def single_precision(size: Scale) -> None:
    print("float32: one pass over single against double precision")
    X = overlapping(1_000_000 // size.divisor, 10, 8)
    for n_clusters, family in [(3, "full"), (8, "pairs"), (8, "full")]:
        functions = [our_pass(rows, family, n_clusters) for rows in (X, X.astype(np.float32))]
        double, single = best(*functions, repeats=size.repeats)
        print(
            f"  {len(X)} x 10, C={n_clusters} {family}: float64 {double * 1e3:.1f} ms, float32 {single * 1e3:.1f} ms, "
            f"ratio {single / double:.2f} (aim <= 1)"
        )


def arithmetic_floor(size: Scale) -> None:
    print("floor: one pass against NumPy's X @ A, R.T @ X and exp of (N, C)")
    n_clusters = 3
    X = overlapping(1_000_000 // size.divisor, 10, n_clusters)
    coefficients = np.ones((10, n_clusters))
    scores = -np.abs(X[:, :n_clusters])
    masses = np.exp(scores)
    out = np.empty_like(scores)
    functions = (
        our_pass(X, "full", n_clusters),
        lambda: X @ coefficients,
        lambda: masses.T @ X,
        lambda: np.exp(scores, out=out),
    )
    ours, *parts = best(*functions, repeats=3 * size.repeats)
    print(
        f"  {len(X)} x 10, C=3 full: egmm {ours * 1e3:.1f} ms; {parts[0] * 1e3:.1f} + {parts[1] * 1e3:.1f} + "
        f"{parts[2] * 1e3:.1f} ms, ratio {ours / sum(parts):.2f} (aim <= 1.1)"
    )


# Whole fits ------------------------------------------------------------------------------------------------------


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def whole_fit(size: Scale) -> None:
    """Default settings against scikit-learn's at equal final fit quality.

    Quality is measured on the model both have in common, singletons only, as the mean log-likelihood still missing to
    its maximum. scikit-learn's default tolerance, 1e-3 on the last gain, stops well short of that; so its tolerance is
    lowered until no more is missing than after our default fit of the same model. The time of that fit is what our
    default fit, which has meta-clusters to estimate as well, is compared with.
    """
    print("fit: default EGMM against scikit-learn at the tolerance that gives the same quality")
    X = overlapping(1_000_000 // size.divisor, 10, 3)
    EGMM(3, random_state=0).fit(X)  # compiles
    top = EGMM(3, focal_sets="singletons", random_state=0, tol=1e-12).fit(X).log_likelihood_ / len(X)
    repeats = max(2, size.repeats // 2)
    times = {}
    for family in ("pairs", "singletons"):
        model = EGMM(3, focal_sets=family, random_state=0)
        times[family] = min(timed(lambda model=model: model.fit(X))[0] for _ in range(repeats))
        print(f"  egmm {family}: {times[family]:.2f} s, {model.n_iter_} steps, converged {model.converged_}")
    missing = top - model.log_likelihood_ / len(X)
    print(f"  egmm singletons misses {missing:.1e} of the maximum's mean log-likelihood")
    for tol in 10.0 ** np.arange(-3, -12, -1.0):
        peer = GaussianMixture(3, covariance_type="tied", tol=tol, max_iter=10_000, random_state=0)
        seconds, _ = timed(lambda peer=peer: peer.fit(X))
        gap = top - peer.score(X)
        print(f"  scikit-learn, tol={tol:.0e}: {seconds:.2f} s, {peer.n_iter_} passes, misses {gap:.1e}")
        if gap <= max(missing, 1e-9):
            seconds = min(seconds, *(timed(lambda peer=peer: peer.fit(X))[0] for _ in range(repeats - 1)))
            print(
                f"  ratio {seconds / times['pairs']:.1f} (aim 8); of the same model {seconds / times['singletons']:.1f}"
            )
            return
    print("  scikit-learn ended in another maximum: no comparison")


def small_fit(size: Scale) -> None:
    """Iris: default settings on both sides, and scikit-learn's tied mixture at equal quality, equal tol and its own."""
    X = load_iris().data
    singletons = EGMM(3, focal_sets="singletons", random_state=0).fit(X)
    ends = {tol: tied(tol).fit(X).score(X) for tol in 10.0 ** np.arange(-3, -12, -1.0)}
    enough = max(tol for tol, end in ends.items() if end >= singletons.score(X) - 1e-9)
    short = max(ends.values()) - ends[1e-3]
    ours, early, default, equal, quick = best(
        lambda: EGMM(3, random_state=0).fit(X),
        lambda: EGMM(3, tol=1e-3, random_state=0).fit(X),
        lambda: GaussianMixture(3, random_state=0).fit(X),
        lambda: tied(enough).fit(X),
        lambda: tied(1e-3).fit(X),
        repeats=30 * size.repeats,
    )
    print(f"iris: whole fit, egmm {ours * 1e3:.2f} ms, with tol=1e-3 {early * 1e3:.2f} ms; scikit-learn")
    print(f"  by default settings: {default * 1e3:.2f} ms, ratio {default / ours:.2f} (aim >= 1)")
    print(f"  tied, at equal quality (tol={enough:.0e}): {equal * 1e3:.2f} ms, ratio {equal / ours:.2f} (aim >= 1)")
    print(
        f"  tied, tol=1e-3, which ends {short:.4f} per row short of the maximum: {quick * 1e3:.2f} ms, "
        f"ratio {quick / ours:.2f}, and to egmm with tol=1e-3 {quick / early:.2f}"
    )


def tied(tol: float) -> GaussianMixture:
    return GaussianMixture(3, covariance_type="tied", tol=tol, max_iter=10_000, random_state=0)


# Memory ----------------------------------------------------------------------------------------------------------


def status(name: str) -> int | None:
    """A line of this process's status in bytes, where the system has one."""
    path = Path("/proc/self/status")
    if not path.exists():
        return None
    found = [line for line in path.read_text().splitlines() if line.startswith(f"{name}:")]
    return 1024 * int(found[0].split()[1]) if found else None


def peak_memory(size: Scale) -> None:
    """Measured in a process of its own, where no earlier section has left memory to be used again."""
    command = [sys.executable, __file__, "--measure-memory", str(1_000_000 // size.divisor)]
    print("memory: " + subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def measure_memory(n_rows: int) -> None:
    X = overlapping(n_rows, 10, 8)
    EGMM(8, random_state=0, engine="numba").fit(X[:100_000])  # compiles, and loads what a fit loads
    before, peak = status("VmRSS"), None
    reset = Path("/proc/self/clear_refs")
    if before is not None and reset.exists():
        with contextlib.suppress(OSError):
            reset.write_text("5")  # The peak starts anew.
    unit = 1 if sys.platform == "darwin" else 1024
    before = before or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    EGMM(8, random_state=0).fit(X)
    peak = status("VmHWM") or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"fit of {n_rows} x 10, C=8 pairs, after a warm-up: peak {(peak - before) / 2**20:.1f} MB above the process "
        f"that holds X (aim <= 64); X itself {X.nbytes / 2**20:.0f} MB"
    )


# Passes ----------------------------------------------------------------------------------------------------------


def examples() -> Iterator[tuple[str, np.ndarray, int, str]]:
    """Name, standardised rows, number of clusters and family."""
    yield "Two-class", scale(make_two_class(random_state=0)[0]), 2, "pairs"
    for family in ("pairs", "full"):
        yield "Four-class", scale(make_four_class(random_state=0)[0]), 4, family
    yield "blobs", scale(make_blobs_with_overlap(random_state=0)[0]), 3, "full"
    yield "Iris", scale(load_iris().data), 3, "full"
    yield "Wine", scale(load_wine().data), 3, "full"
    directory = os.environ.get("EGMM_DATA")
    if directory is None:
        print("  (more data sets where EGMM_DATA names their directory)")
        return
    sizes = {"seeds": 3, "newthyroid": 3, "knowledge": 4, "ecoli": 8, "vehicle": 4, "magic": 2}
    for name, n_clusters in sizes.items():
        yield name.capitalize(), scale(load_uci(name, directory).X), n_clusters, "pairs" if n_clusters > 4 else "full"


def trace(X: np.ndarray, n_clusters: int, family: str, *, accelerate: bool, max_iter: int) -> np.ndarray:
    """Passes and log-likelihood after each step from a k-means start, without ridge."""
    labels = KMeans(n_clusters, n_init=1, random_state=0).fit_predict(X)
    rows = ArrayRows(X)
    total = rows.reduce(moments)
    shares = FocalSets.of(family, n_clusters).shares
    ridge = np.zeros(X.shape[1])
    problem = Problem.of_one(rows, total, shares, "EEE", ridge, "numpy").keeping_monomials(X, None)
    sums = group_sums(X, None, labels, problem.units, n_clusters, "full")
    start = start_parameters(Groups.of(sums, None, diagonal=False), problem.settings, problem.layout)
    n_passes, evaluate = 0, Problem.evaluate

    def counted(self: Problem, params: Parameters) -> Any:
        nonlocal n_passes
        n_passes += 1
        return evaluate(self, params)

    Problem.evaluate = counted
    try:
        ascent = Ascent.start(problem, start, np.array([1e-9]), accelerate=accelerate)
        points = [(1, ascent.history[0][0])]
        ascent.run(max_iter, lambda now: points.append((n_passes, now.history[-1][0])))
    finally:
        Problem.evaluate = evaluate
    return np.array(points)


def passes_needed(size: Scale) -> None:
    print("passes: until the total log-likelihood is within 0.01 (and 1e-4) of the lower of both ends, from one start")
    print(
        f"  {'data':<12}{'family':<8}{'plain EM':>16}{'accelerated':>16}{'ratio':>8}{'ends, plain and accelerated':>32}"
    )
    for name, X, n_clusters, family in examples():
        fast = trace(X, n_clusters, family, accelerate=True, max_iter=5_000)
        plain = trace(X, n_clusters, family, accelerate=False, max_iter=20_000 // size.divisor)
        end = min(fast[-1, 1], plain[-1, 1])
        counts = [[int(t[(t[:, 1] >= end - gap).argmax(), 0]) for gap in (0.01, 1e-4)] for t in (plain, fast)]
        (rough, fine), (fast_rough, fast_fine) = counts
        print(
            f"  {name:<12}{family:<8}{f'{rough} ({fine})':>16}{f'{fast_rough} ({fast_fine})':>16}"
            f"{fine / fast_fine:>8.1f}{plain[-1, 1]:>18.4f}{fast[-1, 1]:>14.4f}"
        )


# Compilation and peers -------------------------------------------------------------------------------------------

COMPILE = """
import time
import egmm.em.kernel as engine
start = time.perf_counter()
import numba
loaded = time.perf_counter()
engine.kernel("float64")
print(loaded - start, time.perf_counter() - loaded)
"""


def compile_time(size: Scale) -> None:  # noqa: ARG001
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        times = []
        for _ in range(2):
            run = subprocess.run(
                [sys.executable, "-c", COMPILE], check=True, capture_output=True, text=True, env=environment
            )
            times.append([float(value) for value in run.stdout.split()])
    (numba_seconds, first), (_, cached) = times
    print(
        f"compile: first use {first:.1f} s (aim <= 10), from the cache {cached:.2f} s, "
        f"each beside {numba_seconds:.2f} s to load Numba"
    )


def compare_evclust(size: Scale) -> None:  # noqa: ARG001
    if evclust_egmm is None:
        print("evclust: not compared, it is not installed (pip install evclust==0.2.1)")
        return
    print("evclust: its egmm is another model (a covariance per cluster, averaged distances, 20 updates at most)")
    examples = {"Iris": load_iris(return_X_y=True), "Two-class": make_two_class(random_state=0)}
    examples["Four-class"] = make_four_class(random_state=0)
    for name, (X, y) in examples.items():
        n_clusters = len(np.unique(y))

        def run_peer(X: np.ndarray = X, n_clusters: int = n_clusters) -> Any:
            with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                return evclust_egmm(X, n_clusters, type="full")

        model = EGMM(n_clusters, focal_sets="full", random_state=0)
        ours, theirs = best(lambda model=model, X=X: model.fit(X), run_peer, repeats=3)
        peer_labels = np.asarray(run_peer()["y_pl"]).ravel()
        print(
            f"  {name}, {X.shape[0]} x {X.shape[1]}, full: evclust {theirs * 1e3:.1f} ms, "
            f"ARI {adjusted_rand_score(y, peer_labels):.3f}; egmm {ours * 1e3:.1f} ms, "
            f"ARI {adjusted_rand_score(y, model.labels_):.3f}, to convergence in {model.n_iter_} steps"
        )


SECTIONS = {
    "pass": passes_per_second,
    "float32": single_precision,
    "floor": arithmetic_floor,
    "fit": whole_fit,
    "iris": small_fit,
    "memory": peak_memory,
    "passes": passes_needed,
    "compile": compile_time,
    "evclust": compare_evclust,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and fewer repeats")
    parser.add_argument("--measure-memory", type=int, metavar="ROWS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure_memory:
        measure_memory(arguments.measure_memory)
        return
    size = Scale(10, 2) if arguments.quick else Scale()
    print(f"{available_cores()} cores, NumPy {np.__version__}")
    for name in arguments.sections or SECTIONS:
        SECTIONS[name](size)


if __name__ == "__main__":
    main()
