"""A credal partition as columns of a table: what is known of each row."""

from typing import Any

import numpy as np

from egmm._checks import FloatArray
from egmm.belief.decisions import best_cluster, cluster_scores, heaviest_set
from egmm.belief.focal import FocalSets

STATUS = np.array(["outlier", "sure", "open"], dtype=object)
"""By the size of the heaviest set: none, one or several clusters."""


def row_columns(mass: FloatArray, focal: FocalSets) -> dict[str, Any]:
    """Label, set, status and doubt of each row, then its masses."""
    chosen = heaviest_set(mass, focal)
    return {
        "label": best_cluster(mass, focal),
        "set": np.array(focal.labels, dtype=object)[chosen],
        "status": STATUS[np.minimum(focal.cardinalities[chosen], 2)],
        "doubt": 1.0 - cluster_scores(mass, focal, "pignistic").max(axis=1),
        **mass_columns(mass, focal),
    }


def mass_columns(mass: FloatArray, focal: FocalSets) -> dict[str, Any]:
    """Masses, a column for each set by its name."""
    return dict(zip(focal.labels, mass.T, strict=True))
