"""All covariance models, side by side with R's mclust and with scikit-learn.

    python benchmarks/covariance.py                     # everything
    python benchmarks/covariance.py iris wine           # some parts: iris, wine, simulated, pass
    python benchmarks/covariance.py --quick             # fewer rows and clusters

The search fits 14 models with 2 to 9 clusters. Ours has focal sets (pairs) beside the clusters; mclust fits the
classical mixtures from its hierarchical start. R and mclust come from Debian's r-cran-mclust; without them only our
times are printed. Searches are given in processor time, the shortest of several: mclust uses one core, `select_model`
all. mclust stops at a last gain of 1e-5 of the log-likelihood, which is about 1e-4 per row on the simulated rows; ours,
by default, where it expects less than 1e-6 per row; on a plateau more may be left. Our first search over the simulated
rows compiles the kernel, unless it is in the cache.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.mixture import GaussianMixture

from egmm import EGMM, select_model
from egmm.selection import Selection

R_SEARCH = """
args <- commandArgs(trailingOnly = TRUE)
suppressMessages(library(mclust))
X <- as.matrix(read.csv(args[1], header = FALSE))
invisible(mclustBIC(X[seq_len(min(nrow(X), 200)), ], G = 2, verbose = FALSE))
scores <- NULL
search <- function() mclustBIC(X, G = 2:as.integer(args[2]), verbose = FALSE)
took <- function() sum(system.time(scores <<- search())[c("user.self", "sys.self")])
cat(min(replicate(as.integer(args[3]), took())), sum(!is.na(scores)), "\\n")
"""


TOLERANCES = (1e-6, 1e-4)


def seconds(function: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Shortest time of several calls."""
    times = []
    for _ in range(repeats):
        began = clock()
        function()
        times.append(clock() - began)
    return min(times)


def mclust_seconds(X: np.ndarray, most: int, repeats: int) -> tuple[float, int] | None:
    """Shortest processor time of mclust's search, and its number of fits; None without R."""
    if shutil.which("Rscript") is None:
        print("  Rscript is not there: install r-cran-mclust (Debian) for the comparison.")
        return None
    with tempfile.TemporaryDirectory() as folder:
        data, script = Path(folder) / "rows.csv", Path(folder) / "search.R"
        np.savetxt(data, X, delimiter=",", fmt="%.17g")
        script.write_text(R_SEARCH)
        command = ["Rscript", str(script), str(data), str(most), str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  R failed (is r-cran-mclust installed?): {done.stderr.strip()[-200:]}")
        return None
    elapsed, n_fits = done.stdout.split()
    return float(elapsed), int(n_fits)


def search(name: str, X: np.ndarray, most: int, repeats: int = 3) -> None:
    """Processor time of the whole search on one data set."""
    print(f"{name}: {len(X)} x {X.shape[1]}, 14 models, 2 to {most} clusters")
    theirs = mclust_seconds(X, most, repeats)
    if theirs is not None:
        print(f"  {'mclust':30s}{theirs[0]:8.2f} s  {theirs[1]} fits")
    for tol in TOLERANCES:
        found: list[Selection] = []

        def run(tol: float = tol, found: list[Selection] = found) -> None:
            # Another seed each time: labels are remembered.
            seed = len(found)
            found.append(select_model(X, range(2, most + 1), covariance="all", random_state=seed, tol=tol))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = seconds(run, repeats, time.process_time)
        fitted = sum(candidate.is_fitted for candidate in found[-1].candidates)
        ratio = "" if theirs is None else f", mclust takes {theirs[0] / ours:.2f} times that"
        best = f"best {found[-1].n_clusters} {found[-1].covariance}"
        print(f"  {f'egmm, pairs of clusters, {tol:g}':30s}{ours:8.2f} s  {fitted} fits, {best}{ratio}")


def simulated(n_rows: int) -> np.ndarray:
    """Four Gaussian clusters of different shapes in five dimensions."""
    rng = np.random.default_rng(0)
    parts = []
    for k, share in enumerate((0.4, 0.3, 0.2, 0.1)):
        turn = np.linalg.qr(rng.normal(size=(5, 5)))[0] * np.exp(rng.uniform(-0.7, 0.7, size=5))
        parts.append(rng.normal(size=(int(share * n_rows), 5)) @ turn.T + 4 * rng.normal(size=5) * (k > 0))
    return np.concatenate(parts)


def one_pass(n_rows: int) -> None:
    """Time of one VVV pass beside scikit-learn's full covariance, D = 10, C = 3."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(3 * k, 1 + k, size=(n_rows // 3, 10)) for k in range(3)])
    few, many = 2, 8
    print(f"pass: {len(X)} x 10, 3 clusters")

    def ours(steps: int) -> Callable[[], object]:
        model = EGMM(
            3, covariance="VVV", init=X[:: n_rows // 3][:3], max_iter=steps, tol=0.0, accelerate=False, engine="numba"
        )
        return lambda: model.fit(X)

    def theirs(steps: int) -> Callable[[], object]:
        model = GaussianMixture(
            3, means_init=X[:: n_rows // 3][:3], max_iter=steps, tol=0.0, init_params="random_from_data"
        )
        return lambda: model.fit(X)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours(1)()
        # The difference of two lengths leaves the start out.
        per_pass = [(seconds(fit(many), 3) - seconds(fit(few), 3)) / (many - few) for fit in (ours, theirs)]
    print(f"  egmm VVV, with meta-clusters  {per_pass[0]:8.3f} s")
    print(f"  scikit-learn full             {per_pass[1]:8.3f} s, {per_pass[1] / per_pass[0]:.1f} times ours")


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["iris", "wine", "simulated", "pass", []], default=[])
    parser.add_argument("--quick", action="store_true", help="fewer rows and clusters")
    args = parser.parse_args()
    parts = args.parts or ["iris", "wine", "simulated", "pass"]
    most = 4 if args.quick else 9
    if "iris" in parts:
        search("Iris", load_iris().data, most)
    if "wine" in parts:
        search("Wine", load_wine().data, most)
    if "simulated" in parts:
        search("simulated", simulated(10_000 if args.quick else 100_000), most, repeats=1)
    if "pass" in parts:
        one_pass(100_000 if args.quick else 1_000_000)


if __name__ == "__main__":
    main()
