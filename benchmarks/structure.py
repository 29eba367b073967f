"""How often `AutoEGMM` finds the right number of clusters, one included.

    python benchmarks/structure.py RESULTS.jsonl [--draws 50]

Rows of one cluster, with 2 to 10 features and 100 to 2000 rows: Gaussian, a uniform ball, Student's t with 5 degrees.
And the paper's Two-class and Four-class data, a fifth as many draws. A line of RESULTS.jsonl is one draw; a run goes on
where the last one has ended.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from egmm import AutoEGMM
from egmm.datasets import make_four_class, make_two_class

EXPECTED = {"normal": 1, "ball": 1, "t5": 1, "two-class": 2, "four-class": 4}


def draw(kind: str, number: int) -> np.ndarray:
    rng = np.random.default_rng([number, sorted(EXPECTED).index(kind)])
    if kind.endswith("class"):
        make = make_two_class if kind == "two-class" else make_four_class
        return make(random_state=1000 + number)[0]
    n, d = int(rng.integers(100, 2001)), int(rng.integers(2, 11))
    X = rng.normal(size=(n, d))
    if kind == "ball":
        X *= rng.random((n, 1)) ** (1 / d) / np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "t5":
        X /= np.sqrt(rng.chisquare(5, (n, 1)) / 5)
    return X


def run(results: Path, draws: int) -> None:
    done = {(line["kind"], line["number"]) for line in lines(results)}
    with results.open("a") as file:
        for number in range(draws):
            for kind in EXPECTED:
                if (kind, number) in done or (kind.endswith("class") and number >= draws // 5):
                    continue
                X, began = draw(kind, number), time.process_time()
                model = AutoEGMM(random_state=0, n_jobs=1).fit(X)
                line = {"kind": kind, "number": number, "shape": X.shape, "clusters": model.n_clusters_}
                file.write(json.dumps(line | {"seconds": time.process_time() - began}) + "\n")
                file.flush()


def lines(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def show(results: Path) -> None:
    for kind, expected in EXPECTED.items():
        found = [line["clusters"] for line in lines(results) if line["kind"] == kind]
        print(f"{kind}: {expected} clusters in {found.count(expected)} of {len(found)} draws")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("--draws", type=int, default=50)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    run(args.results, args.draws)
    show(args.results)


if __name__ == "__main__":
    main()
