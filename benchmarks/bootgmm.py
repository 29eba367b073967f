"""bootGMM against R's bootstrap of a mixture alone, and on data where the R original runs out of memory.

    python benchmarks/bootgmm.py

Iris and Wine: the whole of BootGMM (14 mixtures, 500 refits, all pairs, the masses) against `MclustBootstrap` of R's
mclust (Debian: apt-get install r-cran-mclust), 500 replicates of the same model, without the fit before and all that
follows. Magic: time and memory. EGMM_DATA names the directory of the data sets.
"""

import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

from egmm import BootGMM
from egmm.datasets import load_uci

R_BOOTSTRAP = """
suppressMessages(library(mclust))
set.seed(1)
args <- commandArgs(trailingOnly = TRUE)
fit <- Mclust(as.matrix(read.csv(args[1], header = FALSE)), G = 3, modelNames = args[2], verbose = FALSE)
cat(system.time(MclustBootstrap(fit, nboot = 500, type = "bs", verbose = FALSE))[["elapsed"]])
"""


def r_bootstrap_seconds(X: np.ndarray, covariance: str) -> float | str:
    """Seconds that 500 replicates take in R, or why that is not known."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return "R is not installed (Debian: apt-get install r-cran-mclust)"
    with tempfile.TemporaryDirectory() as directory:
        script, table = Path(directory) / "bootstrap.R", Path(directory) / "rows.csv"
        script.write_text(R_BOOTSTRAP)
        np.savetxt(table, X, delimiter=",", fmt="%.17g")
        run = subprocess.run([rscript, script, table, covariance], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return f"R failed (is its package mclust installed?): {run.stderr.strip()}"
    return float(run.stdout)


def compare_with_r(name: str, directory: Path, repeats: int) -> None:
    """Shortest of several runs, taken in turn so that a busy machine slows both alike."""
    data = load_uci(name, directory)
    ours, theirs = np.inf, np.inf
    for seed in range(repeats):
        began = time.perf_counter()
        model = BootGMM(3, random_state=seed).fit(data.X)
        ours = min(ours, time.perf_counter() - began)
        seconds = r_bootstrap_seconds(data.X, model.covariance_)
        theirs = seconds if isinstance(seconds, str) else min(theirs, seconds)
        if isinstance(theirs, str):
            break
    score = adjusted_rand_score(data.y, model.labels_)
    text = f"bootGMM, {name}, {model.covariance_}, all of it: egmm {ours:.2f} s, ARI {score:.3f}, ANS {model.ans_:.3f}"
    if isinstance(theirs, str):
        print(f"{text}; not compared: {theirs}")
    else:
        print(f"{text}; R's bootstrap alone {theirs:.2f} s, {theirs / ours:.1f} times as long")


def measure_magic(directory: Path) -> None:
    data = load_uci("magic", directory)
    began = time.perf_counter()
    model = BootGMM(2, random_state=0).fit(data.X)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"bootGMM, magic, {len(data.X)} rows, {model.covariance_}, {len(model.references_)} reference rows: "
        f"{seconds:.0f} s, the process at most {peak:.0f} MB; ARI {adjusted_rand_score(data.y, model.labels_):.3f}"
    )


def main() -> None:
    if "EGMM_DATA" not in os.environ:
        print("bootGMM: not measured, EGMM_DATA does not name the directory of the data sets")
        return
    directory = Path(os.environ["EGMM_DATA"])
    measure_magic(directory)
    # R takes minutes for Wine.
    for name, repeats in (("iris", 5), ("wine", 1)):
        compare_with_r(name, directory, repeats)


if __name__ == "__main__":
    main()
