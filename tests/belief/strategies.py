"""Random families, masses and partitions for property tests."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from egmm import CredalPartition, FocalSets

quick = settings(max_examples=50, deadline=None, derandomize=True)


@st.composite
def families(draw, n_clusters, *, empty=True, frame=False):
    masks = draw(st.sets(st.integers(0 if empty else 1, 2**n_clusters - 1), min_size=1, max_size=9))
    if frame:
        masks |= {2**n_clusters - 1}
    return FocalSets(sorted(masks), n_clusters)


@st.composite
def masses(draw, focal, n_rows, *, positive=False):
    """Rows of small integers over their sum: ties, zeros and equal masses come up often."""
    low = 1 if positive else 0
    rows = [draw(st.lists(st.integers(low, 9), min_size=len(focal), max_size=len(focal))) for _ in range(n_rows)]
    weights = np.array(rows, dtype=float)
    weights[weights.sum(axis=1) == 0, draw(st.integers(0, len(focal) - 1))] = 1.0
    return weights / weights.sum(axis=1, keepdims=True)


@st.composite
def partitions(draw, n_sources=1, *, max_clusters=4, empty=True, frame=False):
    """As many partitions as asked for, over one frame and with the same number of rows."""
    n_clusters, n_rows = draw(st.integers(1, max_clusters)), draw(st.integers(1, 3))
    sources = []
    for _ in range(n_sources):
        focal = draw(families(n_clusters, empty=empty, frame=frame))
        mass = draw(masses(focal, n_rows))
        if frame:
            mass = 0.9 * mass
            mass[:, -1] += 0.1
        sources.append(CredalPartition(mass, focal))
    return sources


@st.composite
def power_set_partitions(draw, n_sources=1, *, max_clusters=4, empty=True, positive=False):
    n_clusters, n_rows = draw(st.integers(1, max_clusters)), draw(st.integers(1, 3))
    focal = FocalSets.full(n_clusters, empty=empty)
    return [CredalPartition(draw(masses(focal, n_rows, positive=positive)), focal) for _ in range(n_sources)]


def as_dicts(partition):
    """Rows as dicts from frozensets to masses."""
    sets = list(partition.focal_sets)
    return [dict(zip(sets, row, strict=True)) for row in partition.mass.tolist()]
