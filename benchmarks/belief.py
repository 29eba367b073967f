"""Dempster's rule against the floor of its multiply-adds, a dict of frozensets, and `dstz` where it is installed.

    python benchmarks/belief.py

Times are the best of several runs; ratios are what to compare.
"""

import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from egmm import CredalPartition, FocalSets
from egmm.belief import combine

try:
    from dstz.core.atom import Element
    from dstz.core.distribution import Evidence
    from dstz.evpiece.dual import ds_rule
except ImportError:
    ds_rule = None

N_CLUSTERS = 3
N_ROWS = 1_000_000
N_DICT_ROWS = 10_000


def best(*functions: Callable[[], Any], repeats: int = 7) -> list[float]:
    """Shortest time of each function, called in turn so that a busy machine slows all alike."""
    times = np.empty((repeats, len(functions)))
    for repeat in range(repeats):
        for column, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[repeat, column] = time.perf_counter() - start
    return times.min(axis=0).tolist()


def floor_of_products(left: np.ndarray, right: np.ndarray, masks: np.ndarray, block: int) -> np.ndarray:
    """All products, each added to its intersection: columns already contiguous, nothing normalised."""
    n_rows = left.shape[1]
    out = np.zeros((masks[-1] + 1, n_rows))
    for start in range(0, n_rows, block):
        rows = slice(start, min(start + block, n_rows))
        product = np.empty(rows.stop - rows.start)
        for i, mask in enumerate(masks):
            for j, other in enumerate(masks):
                target = out[mask & other, rows]
                np.multiply(left[i, rows], right[j, rows], out=product)
                np.add(target, product, out=target)
    return out


def dempster_of_dicts(left: dict[frozenset[int], float], right: dict[frozenset[int], float]) -> dict[Any, float]:
    combined: defaultdict[frozenset[int], float] = defaultdict(float)
    for a, mass_a in left.items():
        for b, mass_b in right.items():
            combined[a & b] += mass_a * mass_b
    conflict = combined.pop(frozenset(), 0.0)
    return {members: mass / (1 - conflict) for members, mass in combined.items()}


def against_floor(left: CredalPartition, right: CredalPartition) -> None:
    columns = [np.ascontiguousarray(source.mass.T) for source in (left, right)]
    masks = left.focal_sets.masks
    floors = [partial(floor_of_products, *columns, masks, size) for size in (4096, 8192, 16384, len(left))]
    ours, *times = best(lambda: combine(left, right), *floors)
    floor = min(times)
    print(f"{len(left)} x {len(masks)}, floor of {len(masks) ** 2} multiply-adds: {floor * 1e3:7.1f} ms")
    print(f"{len(left)} x {len(masks)}, combine:                    {ours * 1e3:7.1f} ms = {ours / floor:.2f} x floor")
    tracemalloc.start()
    result = combine(left, right)
    peak = tracemalloc.get_traced_memory()[1] - result.mass.nbytes
    tracemalloc.stop()
    print(f"temporaries at the peak, beside the result: {peak / 2**20:.1f} MiB")


def against_dicts(left: CredalPartition, right: CredalPartition) -> None:
    sets = list(left.focal_sets)
    pairs = [
        tuple(dict(zip(sets, row, strict=True)) for row in rows)
        for rows in zip(left.mass.tolist(), right.mass.tolist(), strict=True)
    ]
    ours, dicts = best(lambda: combine(left, right), lambda: [dempster_of_dicts(*pair) for pair in pairs], repeats=3)
    report("dicts of frozensets", dicts, ours, len(left))
    if ds_rule is None:
        print("dstz is not installed")
        return
    evidence = [
        tuple(Evidence({Element(set(key)): mass for key, mass in row.items()}) for row in pair) for pair in pairs
    ]
    report("dstz", *best(lambda: [ds_rule(*pair) for pair in evidence], repeats=1), ours, len(left))


def report(name: str, theirs: float, ours: float, n_rows: int) -> None:
    print(
        f"{n_rows} rows, {name}: {theirs * 1e3:.0f} ms; combine: {ours * 1e3:.2f} ms, {theirs / ours:.0f} times faster"
    )


def main() -> None:
    rng = np.random.default_rng(0)
    focal = FocalSets.full(N_CLUSTERS)
    left, right = (CredalPartition(rng.dirichlet(np.ones(len(focal)), N_ROWS), focal) for _ in range(2))
    against_floor(left, right)
    against_dicts(left[:N_DICT_ROWS], right[:N_DICT_ROWS])


if __name__ == "__main__":
    main()
