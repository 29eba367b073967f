"""Is the consensus of models better calibrated than its rivals? Labelled sets in, tables out.

    python benchmarks/consensus.py RESULTS.jsonl               # simulated sets
    python benchmarks/consensus.py RESULTS.jsonl sets/*.csv    # real ones, by `labelled_sets.py`: the class comes last

Every set is standardised and clustered with its number of classes. Each utility is scored with the sets chosen for its
reward. Differences are AutoEGMM minus the rival, with their standard errors. "every row open" is a control: with two
classes it has a u80 of 0.8 and says nothing, so sets of two classes and of more have tables of their own. So have
balanced and unbalanced sets: those whose largest class has more than one and a half times its equal share of the rows.

A line of RESULTS.jsonl is one method on one set; a run goes on where the last one has ended. A method that takes more
than `--seconds` on a set fails there. The tables have the sets on which no method failed; bootGMM, which takes longest,
has a table of its own with the sets it ended on.
"""

import argparse
import json
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mclust import mclust_probabilities
from sklearn.mixture import GaussianMixture

from egmm import ECM, EGMM, AutoEGMM, BootGMM, CredalPartition
from egmm.metrics import ari, aurc, coverage, credal_rand_index, discounted_utility, expected_calibration_error

N_SIMULATED = 128
OURS, SLOWEST = "AutoEGMM", "bootGMM"
NOTHING_SAID = "every row open"


def simulated(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two to six clusters, Gaussian, heavy-tailed or skewed, of equal or different shape and size."""
    rng = np.random.default_rng(10_000 + seed)
    n_clusters, d, n = int(rng.integers(2, 7)), int(rng.integers(2, 9)), int(rng.integers(120, 900))
    kind = rng.choice(["normal", "t5", "skew", "mixed"])
    weights = np.maximum(rng.dirichlet(np.full(n_clusters, rng.choice([2.0, 5.0, 50.0]))), 0.06)
    weights /= weights.sum()
    separation, is_same = rng.uniform(1.6, 4.0), rng.random() < 0.4
    shape = rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d) * rng.uniform(0.3, 1)
    means = rng.normal(size=(n_clusters, d))
    distances = np.linalg.norm(means[:, None] - means, axis=-1) + 1e9 * np.eye(n_clusters)
    means *= separation / np.median(distances.min(axis=1))
    X, y = [], []
    for k in range(n_clusters):
        size = max(15, round(weights[k] * n))
        own = shape if is_same else rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d) * rng.uniform(0.3, 1)
        how = kind if kind != "mixed" else rng.choice(["normal", "t5", "skew"])
        noise = rng.normal(size=(size, d))
        if how == "t5":
            noise *= np.sqrt(3 / rng.chisquare(5, (size, 1)))
        elif how == "skew":
            noise = (rng.gamma(2.0, 1.0, (size, d)) - 2) / np.sqrt(2)
        X.append(means[k] + noise @ own.T)
        y += [k] * size
    return np.concatenate(X), np.array(y)


Fit = Callable[[np.ndarray], dict[str, CredalPartition]]
"""The partitions of rows by one fit, by name."""


def methods(n_clusters: int) -> dict[str, Fit]:
    def of(name: str, estimator: Any) -> Fit:
        return lambda X: {name: estimator.fit(X).partition(X)}

    def plain(name: str, kind: str) -> Fit:
        model = GaussianMixture(n_clusters, covariance_type=kind, n_init=5, random_state=0)
        return lambda X: {name: CredalPartition.from_probabilities(model.fit(X).predict_proba(X))}

    def ours(X: np.ndarray) -> dict[str, CredalPartition]:
        model = AutoEGMM([n_clusters], random_state=0, n_jobs=1).fit(X)
        return {OURS: model.partition(X), "selected model": model.best_.partition(X)}

    def mclust(X: np.ndarray) -> dict[str, CredalPartition]:
        found = mclust_probabilities(X, range(n_clusters, n_clusters + 1))
        if found is None:
            raise ValueError("mclust found no mixture, or is not installed")
        return {"mclust": CredalPartition.from_probabilities(found)}

    def nothing_said(X: np.ndarray) -> dict[str, CredalPartition]:
        return {NOTHING_SAID: CredalPartition.from_probabilities(np.full((len(X), n_clusters), 1 / n_clusters))}

    return {
        NOTHING_SAID: nothing_said,
        "mclust": mclust,
        "scikit-learn full": plain("scikit-learn full", "full"),
        "scikit-learn tied": plain("scikit-learn tied", "tied"),
        "ECM": of("ECM", ECM(n_clusters, random_state=0)),
        "EGMM, one covariance": of("EGMM, one covariance", EGMM(n_clusters, random_state=0)),
        OURS: ours,
        SLOWEST: of(SLOWEST, BootGMM(n_clusters, random_state=0, n_jobs=1)),
    }


def measure(y: np.ndarray, partition: CredalPartition) -> dict[str, float]:
    sets = {reward: partition.sets("utility", reward) for reward in (0.65, 0.8)}
    truth = CredalPartition.from_labels(np.unique(y, return_inverse=True)[1])
    return {
        "AURC": aurc(y, partition),
        "u65": discounted_utility(y, sets[0.65], reward=0.65),
        "u80": discounted_utility(y, sets[0.8], reward=0.8),
        "ARI": ari(y, partition.labels()),
        "credal Rand": credal_rand_index(truth, partition, distance="belief"),
        "ECE": expected_calibration_error(y, partition),
        "open": float(partition.is_open("utility").mean()),
        "class in set": coverage(y, sets[0.8]),
    }


def labelled(paths: list[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for seed in range(N_SIMULATED, 2 * N_SIMULATED) if not paths else ():
        yield f"simulated {seed}", *simulated(seed)
    for path in paths:
        table = pd.read_csv(path, keep_default_na=False)  # A class may be called "None".
        yield Path(path).stem, table.iloc[:, :-1].to_numpy(float), table.iloc[:, -1].astype(str).to_numpy()


def is_balanced(y: np.ndarray) -> bool:
    counts = np.unique(y, return_counts=True)[1]
    return bool(counts.max() <= 1.5 * counts.mean())


def give_up(*_: object) -> None:
    raise TimeoutError("took too long")


def tried(fit: Fit, X: np.ndarray, y: np.ndarray, seconds: float) -> dict[str, Any]:
    """Measures of every partition, or the reason for failure, with the time taken."""
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    began = time.perf_counter()
    try:
        partitions = fit(X)
        signal.setitimer(signal.ITIMER_REAL, 0)
        taken = time.perf_counter() - began
        return {"seconds": taken, "measures": {name: measure(y, found) for name, found in partitions.items()}}
    except (ValueError, TimeoutError, subprocess.SubprocessError) as error:
        return {"seconds": time.perf_counter() - began, "failure": str(error)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(results: Path, paths: list[str], wanted: list[str], seconds: float) -> None:
    done = {(line["set"], line["method"]) for line in lines(results)}
    with results.open("a") as file:
        for name, X, y in labelled(paths):
            standard = (X - X.mean(axis=0)) / X.std(axis=0)
            for method, fit in methods(len(np.unique(y))).items():
                if method in wanted and (name, method) not in done:
                    line = {"set": name, "method": method, "shape": X.shape}
                    line |= {"is_balanced": is_balanced(y), "n_classes": len(np.unique(y))}
                    file.write(json.dumps(line | tried(fit, standard, y, seconds)) + "\n")
                    file.flush()


def lines(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def show(title: str, found: dict[str, list[dict[str, float]]]) -> None:
    ours = found[OURS]
    print(f"\n{title}: {len(ours)} sets".ljust(36) + "".join(f"{name:>18}" for name in ours[0]))
    for rival, numbers in found.items():
        values = np.array([list(one.values()) for one in numbers])
        print(rival.ljust(36) + "".join(f"{value:18.4f}" for value in values.mean(axis=0)))
        if rival != OURS:
            gap = np.array([list(one.values()) for one in ours]) - values
            errors = gap.std(axis=0) / np.sqrt(len(gap))
            cells = (f"{g:+.4f} ± {e:.4f}" for g, e in zip(gap.mean(axis=0), errors, strict=True))
            print("  AutoEGMM minus it".ljust(36) + "".join(f"{cell:>18}" for cell in cells))


def tables(found: list[dict[str, Any]], kind: str) -> None:
    """Tables of the sets on which no method failed: all and some kinds, and those with bootGMM."""
    of_set: dict[str, dict[str, dict[str, float]]] = {}
    for line in found:
        of_set.setdefault(line["set"], {}).update(line.get("measures", {}))
    balanced = {line["set"]: line["is_balanced"] for line in found}
    n_classes = {line["set"]: line["n_classes"] for line in found}
    names = sorted(
        {name for measures in of_set.values() for name in measures}, key=[*methods(2), "selected model"].index
    )
    for with_slowest in (False, True):
        compared = [name for name in names if with_slowest or name != SLOWEST]
        kept = [name for name, measures in of_set.items() if set(compared) <= set(measures)]
        groups = {
            "all": kept,
            "balanced": [name for name in kept if balanced[name]],
            "unbalanced": [name for name in kept if not balanced[name]],
            "two classes": [name for name in kept if n_classes[name] == 2],
            "more classes": [name for name in kept if n_classes[name] > 2],
        }
        for title, chosen in groups.items():
            if chosen:
                label = f"{kind}, {title}{', with ' + SLOWEST if with_slowest else ''}"
                show(label, {rival: [of_set[name][rival] for name in chosen] for rival in compared})
    for line in found:
        if "failure" in line:
            print(f"{line['set']}: {line['method']} failed after {line['seconds']:.0f} s: {line['failure'][:100]}")


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--methods", nargs="+", default=list(methods(2)), choices=list(methods(2)))
    parser.add_argument("--seconds", type=float, default=60.0, help="most seconds that a method may take on a set")
    parser.add_argument("--show", action="store_true", help="print the tables of earlier runs")
    args = parser.parse_args()
    if not args.show:
        run(args.results, args.sets, args.methods, args.seconds)
    tables(lines(args.results), args.results.stem)


if __name__ == "__main__":
    main()
