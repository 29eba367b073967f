"""Slow, obvious versions of bootGMM's formulas: loops over pairs, sets and supports."""

from itertools import combinations

import numpy as np


def belief_and_plausibility_of_same(first, second, sets):
    """Bel and Pl of "same cluster" for two masses on `sets`."""
    belief = plausibility = 0.0
    for a, mass_a in zip(sets, first, strict=True):
        for b, mass_b in zip(sets, second, strict=True):
            if len(a) == 1 and a == b:
                belief += mass_a * mass_b
            if a & b:
                plausibility += mass_a * mass_b
    return belief, plausibility


def calibration_loss(masses, lower, upper, sets):
    """Mean over pairs of the squared misfits of Bel to P^l and of Pl to P^u."""
    losses = []
    for i, j in combinations(range(len(masses)), 2):
        belief, plausibility = belief_and_plausibility_of_same(masses[i], masses[j], sets)
        losses.append((belief - lower[i, j]) ** 2 + (plausibility - upper[i, j]) ** 2)
    return float(np.mean(losses))


def simplex_minimum(curvature, pull):
    """Least value of m'Qm/2 - d'm on the simplex: the best of the stationary points of all supports."""
    n_sets, best = len(pull), np.inf
    for size in range(1, n_sets + 1):
        for support in map(list, combinations(range(n_sets), size)):
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = curvature[np.ix_(support, support)]
            system[size, size] = 0.0
            solution = np.linalg.lstsq(system, np.append(pull[support], 1.0), rcond=None)[0][:size]
            if (solution >= -1e-9).all() and abs(solution.sum() - 1) < 1e-9:
                m = np.zeros(n_sets)
                m[support] = solution
                best = min(best, m @ curvature @ m / 2 - pull @ m)
    return best


def pair_quantiles(first, second, quantiles):
    """Quantiles over replicates of sum_k P_ik P_jk for posteriors (C, B) of two rows."""
    together = [float(first[:, b] @ second[:, b]) for b in range(first.shape[1])]
    return np.quantile(together, quantiles)
