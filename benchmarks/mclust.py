"""Mixtures of R's mclust (Debian: r-cran-mclust), for the studies beside this file."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

R_SEARCH = """
suppressMessages(library(mclust)); a <- commandArgs(TRUE)
X <- as.matrix(read.csv(a[1], header = FALSE))
write.table(Mclust(X, G = as.integer(a[2]):as.integer(a[3]), verbose = FALSE)$z, col.names = FALSE, row.names = FALSE)
"""


def mclust_probabilities(X: np.ndarray, counts: range) -> np.ndarray | None:
    """Posterior probabilities, model and number of clusters by BIC; None where mclust is not there or fails."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        data, script = Path(folder) / "rows.csv", Path(folder) / "search.R"
        np.savetxt(data, X, delimiter=",", fmt="%.17g")
        script.write_text(R_SEARCH)
        command = ["Rscript", str(script), str(data), str(counts[0]), str(counts[-1])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return np.array([row.split() for row in done.stdout.splitlines()], dtype=float) if done.stdout else None
