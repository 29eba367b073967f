"""A credal partition as columns of a table."""

from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.belief.decisions import REWARD, best_cluster, choose_sets, cluster_scores, heaviest_set
from egmm.belief.focal import FocalSets

STATUS = np.array(["outlier", "sure", "open"], dtype=object)
"""Status of a row by the size of its chosen set: none, one or several clusters."""


def row_columns(mass: FloatArray, focal: FocalSets, rule: str = "heaviest", reward: float = REWARD) -> dict[str, Any]:
    """Label, set, status and doubt of each row, then its masses."""
    sizes = choose_sets(mass, focal, rule, reward).sum(axis=1)
    return {
        "label": best_cluster(mass, focal),
        "set": set_names(mass, focal, rule, reward),
        "status": STATUS[np.minimum(sizes, 2)],
        "doubt": 1.0 - cluster_scores(mass, focal, "pignistic").max(axis=1),
        **mass_columns(mass, focal),
    }


def set_names(mass: FloatArray, focal: FocalSets, rule: str = "heaviest", reward: float = REWARD) -> Any:
    """Name of the set chosen for each row, such as {1,2}; it need not be a focal set."""
    if rule == "heaviest":
        return np.array(focal.labels, dtype=object)[heaviest_set(mass, focal)]
    members, at = np.unique(choose_sets(mass, focal, rule, reward), axis=0, return_inverse=True)
    names = ["{" + ",".join(str(k + 1) for k in np.flatnonzero(row)) + "}" for row in members]
    return np.array(names, dtype=object)[at.ravel()]


def mass_columns(mass: FloatArray, focal: FocalSets) -> dict[str, Any]:
    """Masses, one column per set, keyed by set name."""
    return dict(zip(focal.labels, mass.T, strict=True))
