"""Slow and obvious twins of what images do; nothing here is imported from the package."""

from itertools import product
from math import exp, hypot, prod

import numpy as np


def dempster(sources: list[dict[frozenset[int], float]]) -> tuple[dict[frozenset[int], float], float]:
    """Dempster's rule of several mass functions, and the conflict before it was divided away."""
    combined: dict[frozenset[int], float] = {}
    for sets in product(*(source.items() for source in sources)):
        common = frozenset.intersection(*(members for members, _ in sets))
        combined[common] = combined.get(common, 0.0) + prod(mass for _, mass in sets)
    conflict = combined.pop(frozenset(), 0.0)
    return {members: mass / (1 - conflict) for members, mass in combined.items()}, conflict


def neighbour_weights(
    image: np.ndarray, mask: np.ndarray, noise: float, reach: int, contrast: float, decay: float, patch: int
) -> dict[tuple[int, int], dict[tuple[int, int], float]]:
    """Weights of all neighbours of all pixels of a 2-D image, by loops."""
    rows, columns = image.shape
    inside = lambda r, c: 0 <= r < rows and 0 <= c < columns and bool(mask[r, c])  # noqa: E731
    found: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
    for r, c in product(range(rows), range(columns)):
        if not inside(r, c):
            continue
        found[r, c] = {}
        for dr, dc in product(range(-reach, reach + 1), repeat=2):
            if (dr, dc) == (0, 0) or not inside(r + dr, c + dc):
                continue
            squares = [
                ((image[r + a, c + b] - image[r + dr + a, c + dc + b]) / noise) ** 2
                for a, b in product(range(-patch, patch + 1), repeat=2)
                if inside(r + a, c + b) and inside(r + dr + a, c + dc + b)
            ]
            excess = max(sum(squares) / len(squares) - 2, 0)
            found[r, c][r + dr, c + dc] = exp(-decay * hypot(dr, dc) - excess / contrast**2)
    return found
