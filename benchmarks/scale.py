"""Rows beyond memory: what a pass costs from Parquet, a memory map and Dask, beside the same rows in memory.

    python benchmarks/scale.py              # 50 million rows of Parquet (4 GB), about ten minutes
    python benchmarks/scale.py --rows 2e6   # a quick look

Files are made in a temporary directory (--directory chooses where) and removed at the end. Times are the best of
several runs made in turn; ratios are what to compare.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from distributed import Client, LocalCluster, wait

from egmm import FocalSets, scan
from egmm.em.parameters import Parameters
from egmm.em.problem import Problem
from egmm.em.statistics import moments
from egmm.rows import remote_rows
from egmm.rows.array import ArrayRows
from egmm.rows.threads import one_blas_thread

N_FEATURES = 10
N_CLUSTERS = 3
ROWS_PER_FILE = 2_500_000
REPEATS = 5
N_CHUNKS = 16
MEANS = np.random.default_rng(0).normal(0, 2, (N_CLUSTERS, N_FEATURES))


def best(
    *functions: Callable[[], Any], repeats: int = 0, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Shortest time of each function, called in turn so that a busy machine slows all alike."""
    repeats = repeats or REPEATS
    times = np.empty((repeats, len(functions)))
    for repeat in range(repeats):
        for column, function in enumerate(functions):
            start = clock()
            function()
            times[repeat, column] = clock() - start
    return times.min(axis=0).tolist()


def make_rows(n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X += MEANS[rng.integers(0, N_CLUSTERS, n_rows)]
    return X


def write_parquet(directory: Path, n_rows: int) -> None:
    for seed, first in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        X = make_rows(min(ROWS_PER_FILE, n_rows - first), seed)
        columns = {f"x{d}": np.ascontiguousarray(X[:, d]) for d in range(N_FEATURES)}
        pa.parquet.write_table(pa.table(columns), directory / f"part-{seed:04}.parquet")


@contextmanager
def one_pass(X: Any, n_jobs: int | None = None, n_clusters: int = N_CLUSTERS) -> Iterator[Callable[[], Any]]:
    """A function that makes one EM pass over rows wherever they are."""
    rows = remote_rows(X, None, n_jobs) or ArrayRows(X, None, n_jobs)
    focal = FocalSets.of("pairs", n_clusters)
    means = np.random.default_rng(1).normal(0, 2, (n_clusters, N_FEATURES))
    means[:N_CLUSTERS] = MEANS[:n_clusters]
    with rows, one_blas_thread():
        total = rows.reduce(moments)
        problem = Problem.of_one(rows, total, focal.shares, "EEE", np.zeros(N_FEATURES), "numba")
        weights, units = np.full((1, len(focal)), 1 / len(focal)), problem.units
        covariance = units.covariances_in(np.eye(N_FEATURES), diagonal=False)
        params = Parameters(weights, units.rows(means)[None], covariance[None, None])
        problem.evaluate(params)
        yield lambda: problem.evaluate(params)


def report(name: str, seconds: float, n_rows: int, note: str = "") -> None:
    print(f"  {name:<34}{n_rows / seconds / 1e6:8.1f} million rows/s {seconds / n_rows * 1e9:7.1f} ns/row  {note}")


def verdict(value: float, wanted: str, is_met: bool) -> str:
    return f"{value:.2f} (aim {wanted}: {'met' if is_met else 'MISSED'})"


# Parquet beyond memory -------------------------------------------------------------------------------------------


def parquet(directory: Path, n_rows: int) -> None:
    print(f"Parquet, {n_rows:,} x {N_FEATURES} float64 in {len(list(directory.iterdir()))} files")

    def bare() -> None:
        for _ in pa.dataset.dataset(directory).scanner().to_batches():
            pass

    with one_pass(scan(directory)) as ours:
        scanned, passed = best(bare, ours)
        scan_work, pass_work = best(bare, ours, clock=time.process_time)
    report("Arrow's bare scan", scanned, n_rows)
    ratio = scanned / passed
    report("EM pass on the scan", passed, n_rows, "of the bare scan: " + verdict(ratio, ">= 0.60", ratio >= 0.6))
    print(f"  processor time: bare scan {scan_work / n_rows * 1e9:.1f}, pass {pass_work / n_rows * 1e9:.1f} ns/row")
    peak = memory_of_fit(directory)
    print(f"  resident memory of a fit over the interpreter's: {verdict(peak, '<= 1 GB', peak <= 1)} GB")


MEMORY = """
import json, sys
import numpy, pyarrow.dataset
from egmm import EGMM, scan
import egmm.em.kernel as engine
engine.kernel("float64")

def peak():  # in kB; getrusage would tell the larger of this and the parent's
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

before = peak()
model = EGMM(3, random_state=0, tol=1e-3, engine="numba").fit(scan(sys.argv[1]))
model.predict_mass(scan(sys.argv[1]), out=sys.argv[2])
print(json.dumps([before, peak(), model.n_iter_]))
"""


def memory_of_fit(directory: Path) -> float:
    """Largest resident memory in GB of a fit and of writing its masses, over that of the loaded libraries."""
    out = directory.parent / "masses.parquet"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEMORY, str(directory), str(out)],
        check=True,
        capture_output=True,
        text=True,
    )
    before, after, n_iter = json.loads(done.stdout.splitlines()[-1])
    print(f"  fit of {n_iter} steps, then {out.stat().st_size / 1e9:.2f} GB of masses written")
    return (after - before) / 2**20


# One machine -----------------------------------------------------------------------------------------------------


def memory_map(directory: Path, n_rows: int) -> None:
    print(f"Memory map, {n_rows:,} rows")
    X = make_rows(n_rows, 0)
    np.save(directory / "rows.npy", X)
    mapped = np.load(directory / "rows.npy", mmap_mode="r")
    with one_pass(X) as inner, one_pass(mapped) as outer, one_pass(scan(directory / "rows.npy")) as scanned:
        inside, outside, scanning = best(inner, outer, scanned)
    report("in memory", inside, n_rows)
    ratio = inside / outside
    report("memory map", outside, n_rows, "of in memory: " + verdict(ratio, ">= 0.80", ratio >= 0.8))
    report("scan of the npy file", scanning, n_rows, f"of in memory: {inside / scanning:.2f}")
    (directory / "rows.npy").unlink()


def linear(largest: int) -> None:
    print("Processor time against the number of rows, in memory, one thread")
    X = make_rows(largest, 0)
    sizes = [n for n in (10**4, 10**5, 10**6, 10**7) if n <= largest]
    seconds = []
    for n in sizes:
        with one_pass(X[:n], 1) as run:
            seconds.append(best(run, repeats=max(REPEATS, min(50, 10**7 // n)), clock=time.process_time)[0])
        report(f"{n:,} rows", seconds[-1], n)
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    print(f"  slope of log-log: {verdict(slope, '0.95 to 1.05', 0.95 <= slope <= 1.05)}")


def focal_sets(n_rows: int) -> None:
    print("Processor time against the number of clusters C and focal sets M ('pairs'), in memory, one thread")
    X = make_rows(n_rows, 0)
    for n_clusters in (2, 3, 5, 10, 20):
        n_focal = len(FocalSets.of("pairs", n_clusters))
        with one_pass(X, 1, n_clusters) as run:
            (seconds,) = best(run, clock=time.process_time)
        each = seconds / n_rows / n_focal * 1e9
        report(f"C = {n_clusters}, M = {n_focal}", seconds, n_rows, f"{each:.1f} ns per row and set")


# Dask ------------------------------------------------------------------------------------------------------------


def on_dask(n_rows: int) -> None:
    print(f"Dask, {n_rows:,} rows held by the workers, each with one thread")
    X = make_rows(n_rows, 0)
    with (
        one_pass(X, 1) as one_thread,
        one_pass(X, 2) as two_threads,
        on_workers(1, n_rows) as (one_worker, one_load),
        on_workers(2, n_rows) as (two_workers, two_load),
    ):
        alone, threads, worker, workers = best(one_thread, two_threads, one_worker, two_workers)
        (work,) = best(one_thread, clock=time.process_time)
        loads = [one_load(), two_load()]
    report("one process, one thread", alone, n_rows)
    report("one process, two threads", threads, n_rows, f"of one thread: {alone / threads:.2f}")
    report("one worker", worker, n_rows)
    ratio, overhead = worker / workers, workers / threads - 1
    report("two workers", workers, n_rows, "of one worker: " + verdict(ratio, ">= 1.6", ratio >= 1.6))
    print(f"  overhead per pass over two threads: {verdict(overhead, '<= 0.15', overhead <= 0.15)}")
    # What wall clocks would show if no other work were on the machine.
    print(f"  processor time per pass: {work:.3f} s in one process", end="")
    for name, (busiest, rest) in zip(("one worker", "two workers"), loads, strict=True):
        print(f"; {name}: busiest {busiest:.3f} s, client and scheduler {rest:.3f} s", end="")
    ratio, overhead = sum(loads[0]) / sum(loads[1]), 2 * sum(loads[1]) / work - 1
    print(f"\n  from it, two workers of one: {ratio:.2f}; overhead over two threads that share evenly: {overhead:.2f}")


@contextmanager
def on_workers(n_workers: int, n_rows: int) -> Iterator[tuple[Callable[[], Any], Callable[[], tuple[float, float]]]]:
    """Two functions: one pass over rows in worker processes, and its load on the busiest of them and on this one."""
    length = -(-n_rows // (N_CHUNKS * 16_384)) * 16_384
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        with client.as_current():
            parts = [
                dask.array.from_delayed(dask.delayed(make_rows)(n, seed), (n, N_FEATURES), float)
                for seed, n in enumerate(min(length, n_rows - first) for first in range(0, n_rows, length))
            ]
            X = dask.array.concatenate(parts).persist()
            wait(X)
        with client.as_current(), one_pass(X) as run:
            pass

        def there() -> None:
            with client.as_current():
                run()

        def load() -> tuple[float, float]:
            loads = []
            idle = time.process_time()
            time.sleep(2)
            idle = (time.process_time() - idle) / 2
            for _ in range(REPEATS):
                before, mine, began = client.run(time.process_time), time.process_time(), time.perf_counter()
                there()
                mine = time.process_time() - mine
                # Heartbeats take their time whether there is work or not.
                mine = max(0.0, mine - idle * (time.perf_counter() - began))
                after = client.run(time.process_time)
                loads.append((max(after[worker] - before[worker] for worker in after), mine))
            return min(loads)

        yield there, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=5e7, help="rows of Parquet; the other parts scale with it")
    parser.add_argument("--directory", help="where to make the files")
    parser.add_argument("--only", choices=["parquet", "memmap", "linear", "sets", "dask"], help="one part alone")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the fastest counts")
    options = parser.parse_args()
    globals()["REPEATS"] = options.repeats
    n_rows = int(options.rows)
    smaller = max(10**5, n_rows * 2 // 5)
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        needed, free = 2.2 * 8 * N_FEATURES * n_rows, shutil.disk_usage(directory).free
        if free < needed:
            sys.exit(f"{needed / 1e9:.0f} GB are needed in {directory}, {free / 1e9:.0f} GB are free; see --directory.")
        print(f"{len(os.sched_getaffinity(0))} cores; C = {N_CLUSTERS}, M = 7, D = {N_FEATURES}")
        if options.only in (None, "parquet"):
            (directory / "parquet").mkdir()
            write_parquet(directory / "parquet", n_rows)
            parquet(directory / "parquet", n_rows)
            shutil.rmtree(directory / "parquet")
        if options.only in (None, "memmap"):
            memory_map(directory, smaller // 2)
        if options.only in (None, "linear"):
            linear(max(10**6, n_rows // 5))
        if options.only in (None, "sets"):
            focal_sets(max(10**5, n_rows // 50))
        if options.only in (None, "dask"):
            on_dask(smaller)


if __name__ == "__main__":
    main()
