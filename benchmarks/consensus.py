"""Is the consensus of models better calibrated than its rivals? Labelled sets in, tables out.

    python benchmarks/consensus.py                # simulated sets
    python benchmarks/consensus.py sets/*.csv     # real ones, as `labelled_sets.py` writes them: the class comes last

Every set is standardised and clustered with its number of classes. Each utility is scored with the sets chosen for its
reward. Differences are AutoEGMM minus the rival, with their standard errors. A set is unbalanced
where the largest class has more than one and a half times its equal share of the rows; both kinds have a table.
"""

import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from mclust import mclust_probabilities
from sklearn.mixture import GaussianMixture

from egmm import ECM, EGMM, AutoEGMM, BootGMM, CredalPartition
from egmm.metrics import ari, aurc, coverage, discounted_utility, expected_calibration_error

N_SIMULATED = 128
MEASURES = ("AURC", "u65", "u80", "ARI", "ECE", "open", "class in set")


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


def rivals(n_clusters: int) -> dict[str, Callable[[np.ndarray], CredalPartition]]:
    def of(estimator: object) -> Callable[[np.ndarray], CredalPartition]:
        return lambda X: estimator.fit(X).partition(X)  # type: ignore[attr-defined]

    def plain(kind: str) -> Callable[[np.ndarray], CredalPartition]:
        model = GaussianMixture(n_clusters, covariance_type=kind, n_init=5, random_state=0)
        return lambda X: CredalPartition.from_probabilities(model.fit(X).predict_proba(X))

    def mclust(X: np.ndarray) -> CredalPartition:
        found = mclust_probabilities(X, range(n_clusters, n_clusters + 1))
        if found is None:
            raise ValueError("mclust found no mixture, or is not installed")
        return CredalPartition.from_probabilities(found)

    return {
        "AutoEGMM": of(AutoEGMM([n_clusters], random_state=0)),
        "selected model": of(AutoEGMM([n_clusters], consensus=False, random_state=0)),
        "EGMM, one covariance": of(EGMM(n_clusters, random_state=0)),
        "scikit-learn full": plain("full"),
        "scikit-learn tied": plain("tied"),
        "bootGMM": of(BootGMM(n_clusters, random_state=0)),
        "ECM": of(ECM(n_clusters, random_state=0)),
        "mclust": mclust,
    }


def measure(y: np.ndarray, partition: CredalPartition) -> list[float]:
    sets = {reward: partition.sets("utility", reward) for reward in (0.65, 0.8)}
    return [
        aurc(y, partition),
        discounted_utility(y, sets[0.65], reward=0.65),
        discounted_utility(y, sets[0.8], reward=0.8),
        ari(y, partition.labels()),
        expected_calibration_error(y, partition),
        float(partition.is_open("utility").mean()),
        coverage(y, sets[0.8]),
    ]


def labelled(paths: list[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for seed in range(N_SIMULATED, 2 * N_SIMULATED) if not paths else ():
        yield f"simulated {seed}", *simulated(seed)
    for path in paths:
        table = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
        yield path, table[:, :-1].astype(float), table[:, -1]


def is_balanced(y: np.ndarray) -> bool:
    counts = np.unique(y, return_counts=True)[1]
    return bool(counts.max() <= 1.5 * counts.mean())


def show(title: str, found: dict[str, np.ndarray]) -> None:
    ours = found["AutoEGMM"]
    print(f"\n{title}: {len(ours)} sets".ljust(30) + "".join(f"{name:>18}" for name in MEASURES))
    for rival, values in found.items():
        print(rival.ljust(30) + "".join(f"{value:18.4f}" for value in values.mean(axis=0)))
        if rival != "AutoEGMM":
            gap = ours - values
            errors = gap.std(axis=0) / np.sqrt(len(gap))
            cells = (f"{g:+.4f} ± {e:.4f}" for g, e in zip(gap.mean(axis=0), errors, strict=True))
            print("  AutoEGMM minus it".ljust(30) + "".join(f"{cell:>18}" for cell in cells))


def main(paths: list[str]) -> None:
    warnings.simplefilter("ignore")
    found: dict[str, list[list[float]]] = {}
    balanced = []
    for name, X, y in labelled(paths):
        standard = (X - X.mean(axis=0)) / X.std(axis=0)
        try:
            rows = {rival: measure(y, fit(standard)) for rival, fit in rivals(len(np.unique(y))).items()}
        except ValueError as error:
            print(f"{name} is left out: {error}")
            continue
        balanced.append(is_balanced(y))
        for rival, numbers in rows.items():
            found.setdefault(rival, []).append(numbers)
    every = np.ones(len(balanced), dtype=bool)
    for title, which in (("all", every), ("balanced", np.array(balanced)), ("unbalanced", ~np.array(balanced))):
        if which.any():
            show(title, {rival: np.array(numbers)[which] for rival, numbers in found.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
