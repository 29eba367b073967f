import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief import oracles_belief as oracle
from belief.strategies import as_dicts, partitions, quick
from egmm import CredalPartition, FocalSets
from egmm.belief import coarsen, condition, discount, normalise, refine

FULL = FocalSets.full(2)
MASS = [[0.5, 0.1, 0.4]]


@given(partitions())
@quick
def test_discounting_by_one_is_vacuous_and_by_zero_nothing(sources):
    [partition] = sources
    ignored = partition.discount(1)
    assert set(ignored.kinds()) <= {"vacuous", "certain"}  # one cluster: certain and vacuous are the same
    np.testing.assert_array_equal(ignored.mass[:, -1], 1)
    assert ignored.focal_sets.masks[-1] == ignored.focal_sets.frame_mask
    np.testing.assert_array_equal(
        partition.discount(0.0).over(ignored.focal_sets).mass, partition.over(ignored.focal_sets).mass
    )


def test_one_rate_per_row():
    mass, focal = discount([[1, 0], [1, 0], [0.5, 0.5]], FocalSets.singletons(2), [0, 0.25, 0.5])
    assert focal.labels == ("{1}", "{2}", "{1,2}")
    np.testing.assert_array_equal(mass, [[1, 0, 0], [0.75, 0, 0.25], [0.25, 0.25, 0.5]])


@given(partitions(), st.data())
@quick
def test_conditioning_by_loops(sources, data):
    [partition] = sources
    known = frozenset(data.draw(st.sets(st.integers(0, partition.n_clusters - 1), min_size=1)))
    conditioned = partition.condition(known, on_conflict="empty")
    for row, m in zip(as_dicts(conditioned), as_dicts(partition), strict=True):
        pl = oracle.plausibility(m, known)
        if pl == 0:
            assert row[frozenset()] == 1
            continue
        for a in oracle.powerset(partition.n_clusters):
            expected = sum(v for b, v in m.items() if a and b & known == a) / pl
            assert row.get(a, 0.0) == pytest.approx(expected, abs=1e-14)


def test_conditioning_keeps_the_sets_inside():
    assert condition(MASS, FULL, {0})[1].labels == ("{1}",)


@st.composite
def refinements(draw):
    """A partition and the groups of a finer frame."""
    [partition] = draw(partitions())
    extra = draw(st.lists(st.integers(0, partition.n_clusters - 1), max_size=3))
    owners = draw(st.permutations([*range(partition.n_clusters), *extra]))
    return partition, [{f for f, owner in enumerate(owners) if owner == k} for k in range(partition.n_clusters)]


@given(refinements())
@quick
def test_refining_then_coarsening_is_the_identity(drawn):
    partition, groups = drawn
    fine = partition.refine(groups)
    assert fine.n_clusters == sum(map(len, groups))
    for row, m in zip(as_dicts(fine), as_dicts(partition), strict=True):
        assert row == {frozenset().union(*(groups[k] for k in a)): v for a, v in m.items()}
    assert fine.coarsen(groups) == partition


@given(refinements(), st.data())
@quick
def test_coarsening_gives_the_clusters_touched(drawn, data):
    _, groups = drawn
    n_fine = sum(map(len, groups))
    masks = data.draw(st.sets(st.integers(0, 2**n_fine - 1), min_size=1, max_size=5))
    fine = FocalSets(sorted(masks), n_fine)
    mass = np.full((1, len(fine)), 1 / len(fine))
    coarse = CredalPartition(*coarsen(mass, fine, groups))
    expected = {}
    for b in fine:
        touched = frozenset(k for k, group in enumerate(groups) if group & b)
        expected[touched] = expected.get(touched, 0.0) + 1 / len(fine)
    assert as_dicts(coarse)[0] == pytest.approx(expected)


def test_normalise():
    mass, focal = normalise([[0.5, 0.25, 0.25, 0]], FocalSets.full(2, empty=True))
    assert focal == FULL
    np.testing.assert_array_equal(mass, [[0.5, 0.5, 0]])
    np.testing.assert_allclose(normalise(MASS, FULL)[0], MASS)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: discount(MASS, FULL, 1.5), ValueError, "rate must be in [0, 1], got 1.5."),
        (lambda: discount(MASS, FULL, [-0.1]), ValueError, "rate must be in [0, 1], got -0.1."),
        (lambda: discount(MASS, FULL, np.nan), ValueError, "rate must be in [0, 1], got nan."),
        (lambda: discount([*MASS, *MASS], FULL, [0.1, 1.2]), ValueError, "rate must be in [0, 1], got 1.2."),
        (
            lambda: discount(MASS, FULL, [0.1, 0.2]),
            ValueError,
            "rate must be one number or 1, one per row, got shape (2,).",
        ),
        (lambda: discount(MASS, FULL, "half"), TypeError, "rate must be a number or one number per row, got 'half'."),
        (lambda: discount(MASS, FULL, True), TypeError, "rate must be a number or one number per row, got True."),
        (
            lambda: discount([[0.5, 0.5, 0.1]], FULL, 0.1),
            ValueError,
            "mass rows must sum to 1 within 1e-8; row 0 sums to 1.1.",
        ),
        (
            lambda: condition(MASS, FULL, set()),
            ValueError,
            "members must hold at least one cluster; conditioning on the empty set is not defined.",
        ),
        (
            lambda: condition(MASS, FULL, {2}),
            ValueError,
            "a cluster number (counted from zero) must be an integer from 0 to 1, got 2.",
        ),
        (lambda: condition(0.5, FULL, {0}), ValueError, "mass must have shape (n, 3), got ()"),
        (lambda: condition(MASS, "full", {0}), TypeError, "focal_sets must be a FocalSets, got str"),
        (
            lambda: condition([[0.5, 0.5, 0], [0, 1, 0]], FULL, {0}),
            ValueError,
            "1 of 2 rows are in total conflict, the first is row 1",
        ),
        (
            lambda: normalise([[1.0, 0]], FocalSets.from_sets([set(), {0}], 2)),
            ValueError,
            "1 of 1 rows are in total conflict, the first is row 0",
        ),
        (lambda: refine(MASS, FULL, [{0}]), ValueError, "groups must have one entry per cluster, 2, got 1."),
        (
            lambda: refine(MASS, FULL, [{0}, {0, 1}]),
            ValueError,
            "groups must hold each cluster from 0 to 2 once (clusters are counted from zero), got [[0], [0, 1]].",
        ),
        (
            lambda: refine(MASS, FULL, [{1}, {2}]),
            ValueError,
            "groups must hold each cluster from 0 to 1 once (clusters are counted from zero), got [[1], [2]].",
        ),
        (
            lambda: refine(MASS, FULL, [[0], [1, "b"]]),
            ValueError,
            "groups must hold each cluster from 0 to 2 once (clusters are counted from zero), got [[0], [1, 'b']].",
        ),
        (
            lambda: refine(MASS, FULL, [range(32), range(32, 64)]),
            ValueError,
            "the number of clusters in groups must be an integer from 1 to 63, got 64.",
        ),
        (
            lambda: refine(MASS, FULL, [{0}, set()]),
            ValueError,
            "groups must be non-empty sets of clusters, one for each cluster of the coarser frame.",
        ),
        (lambda: refine(MASS, FULL, [0, 1]), TypeError, "groups must be a list of sets of clusters, such as [{0}, {1,"),
        (lambda: coarsen(MASS, FULL, 2), TypeError, "groups must be a list of sets of clusters, such as [{0}, {1,"),
        (lambda: coarsen(MASS, FULL, []), ValueError, "groups must be non-empty sets of clusters"),
        (lambda: coarsen(MASS, FULL, [{0, 1, 2}]), ValueError, "groups must hold 2 clusters in all, got 3."),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
