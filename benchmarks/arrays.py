"""Passes over torch tensors on the CPU, beside NumPy and the fused kernel; and the memory of a pass over many rows.

    python benchmarks/arrays.py [--quick] [--million]

All run in one process and in turn, on one thread each; times are processor time, the best of several. Ratios are what
to compare. --quick takes a fifth of the rows, --million adds 10^6 rows. It needs torch; it sets SCIPY_ARRAY_API=1.
"""

import argparse
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import sklearn
import torch

from egmm import FocalSets
from egmm._arrays import place_of
from egmm.em.assign import Mixture
from egmm.em.problem import Pass
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.threads import one_blas_thread

CLUSTERS = (3, 8, 16)
FEATURES = (10, 50)
COVARIANCES = ("EEE", "VVV")


def mixture(n_clusters: int, dim: int, covariance: str) -> Mixture:
    """Clusters a few deviations apart, with all pairs."""
    shares = FocalSets.pairs(n_clusters).shares
    means = np.random.default_rng(1).normal(size=(n_clusters, dim))
    weights = np.full(len(shares), 1 / len(shares))
    shape = (dim, dim) if covariance == "EEE" else (n_clusters, dim, dim)
    return Mixture.of(weights, means, np.broadcast_to(np.eye(dim), shape), shares, covariance)


def sources(X: np.ndarray) -> dict[str, tuple[Any, str]]:
    """The same rows for every engine."""
    found: dict[str, tuple[Any, str]] = {
        "NumPy": (ArrayRows(X, n_jobs=1), "numpy"),
        "kernel": (ArrayRows(X, n_jobs=1), "numba"),
    }
    with sklearn.config_context(array_api_dispatch=True):
        for name, dtype in (("torch float64", torch.float64), ("torch float32", torch.float32)):
            there = torch.asarray(X, dtype=dtype)
            where = place_of(there)
            assert where is not None
            found[name] = (DeviceRows(there, None, where), "numpy")
    return found


def best(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Shortest time of each, called in turn so that a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            began = time.process_time()
            function()
            times[name].append(time.process_time() - began)
    return {name: min(spent[1:]) for name, spent in times.items()}  # The first compiles.


def measure(n_rows: int, dim: int, repeats: int) -> None:
    """Print a line for each model."""
    X = np.random.default_rng(0).normal(size=(n_rows, dim))
    rows = sources(X)
    for covariance in COVARIANCES:
        for n_clusters in CLUSTERS:
            model = mixture(n_clusters, dim, covariance)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            parts = (model.model, model.incomplete.layout, model.units)
            calls = {name: partial(source.reduce, Pass(*parts, engine).run) for name, (source, engine) in rows.items()}
            with one_blas_thread(), np.errstate(all="ignore"):
                spent = best(calls, repeats)
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
            sets = len(model.shares)
            cells = " | ".join(f"{1e3 * value:.0f} ({spent['NumPy'] / value:.1f}x)" for value in spent.values())
            whole = n_rows * sets * 8 / 2**20
            print(
                f"| {n_rows} x {dim} | {covariance}, C = {n_clusters} | {cells} | {more:.0f} of {whole:.0f} |",
                flush=True,
            )


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("Milliseconds per pass (times as fast as NumPy), and MB that passes added of those an N x M array has")
    print("| rows | model | NumPy | kernel | torch float64 | torch float32 | MB |\n|---|---|---|---|---|---|---|")
    for n_rows in (100_000, 1_000_000) if options.million else (100_000,):
        for dim in FEATURES:
            measure(n_rows // 5 if options.quick else n_rows, dim, repeats=2 if n_rows == 1_000_000 else 3)


if __name__ == "__main__":
    main()
