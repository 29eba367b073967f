"""The speed table of the README: the first fit of a new process with its imports, and later fits.

    python benchmarks/first_fit.py

Every case runs in a new process of one thread, egmm and the others in turn; times are processor seconds, the best of
several processes (cold) and of several fits (warm), so that a busy machine changes little. Compiled code is cached per
machine: the case `compile` begins with an empty cache. mclust is run where R has it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict

BLOBS = "from sklearn.datasets import make_blobs; X, _ = make_blobs({}, 10, centers=5, cluster_std=6.0, random_state=0)"
IRIS = "from sklearn.datasets import load_iris; X = load_iris().data"
EGMM = "from egmm import EGMM; fit = lambda: EGMM({}, random_state=0).fit(X)"
AUTO = "from egmm import AutoEGMM; fit = lambda: AutoEGMM(random_state=0).fit(X)"
GMM = (
    "from sklearn.mixture import GaussianMixture as G; "
    "fit = lambda: G({}, covariance_type='tied', tol=1e-6, max_iter=1000, random_state=0).fit(X)"
)
MCLUST = """
suppressMessages(library(mclust)); X <- iris[, 1:4]
s <- sapply(1:3, function(i) sum(system.time(Mclust(X, G = 1:9, verbose = FALSE))[1:2]))
cat(sum(proc.time()[1:2]) - sum(s[-1]), min(s))
"""
CASES = {
    "Iris, 3 clusters": {"scikit-learn": (IRIS, GMM.format(3)), "egmm": (IRIS, EGMM.format(3))},
    "10 000 rows, 10 features, 5 clusters": {
        "scikit-learn": (BLOBS.format(10_000), GMM.format(5)),
        "egmm": (BLOBS.format(10_000), EGMM.format(5)),
    },
    "200 000 rows, 10 features, 5 clusters": {
        "scikit-learn": (BLOBS.format(200_000), GMM.format(5)),
        "egmm": (BLOBS.format(200_000), EGMM.format(5)),
    },
    "1 000 000 rows, 10 features, 5 clusters": {
        "scikit-learn": (BLOBS.format(1_000_000), GMM.format(5)),
        "egmm": (BLOBS.format(1_000_000), EGMM.format(5)),
    },
    "Iris, 126 models": {"egmm": (IRIS, AUTO)},
}
TIMER = """
import time
{data}
begin = time.process_time()
{model}
times = []
for _ in range(3):
    model = fit()
    times.append(time.process_time() - begin)
    begin = time.process_time()
print(times[0], min(times[1:]), getattr(model, "n_iter_", ""))
"""


def run(data: str, model: str, cache: str | None = None) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    if cache:
        environment["XDG_CACHE_HOME"] = cache
    script = TIMER.format(data=data, model=model)
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def main() -> None:
    found = defaultdict(list)
    for _ in range(2):
        for case, sides in CASES.items():
            for side, (data, model) in sides.items():
                found[case, side].append(run(data, model))
        if shutil.which("Rscript"):
            done = subprocess.run(["Rscript", "-e", MCLUST], capture_output=True, text=True, check=False)
            found["Iris, 126 models", "mclust"].append(done.stdout.split())
    for (case, side), times in found.items():
        cold, warm = (min(float(time[i]) for time in times) for i in (0, 1))
        print(f"{case:<42} {side:<13} cold {cold:8.3f} s   warm {warm:8.4f} s   {' '.join(times[0][2:])}")
    with tempfile.TemporaryDirectory() as cache:
        case = "1 000 000 rows, 10 features, 5 clusters"
        print(f"{case}, nothing compiled yet: cold {run(*CASES[case]['egmm'], cache)[0]} s")


if __name__ == "__main__":
    main()
