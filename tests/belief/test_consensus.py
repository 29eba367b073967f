from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief.strategies import quick
from egmm import CredalPartition, FocalSets
from egmm.belief import consensus

CERTAIN = CredalPartition.from_labels([0, 0, 1, 2])
OTHER = CredalPartition.from_labels([0, 1, 1, 2])


def _by_drawing(sources, weights):
    """Masses by definition: every two sources and every two clusters they name, with their probabilities."""
    n_clusters = sources[0].n_clusters
    rows = []
    for i in range(len(sources[0])):
        mass = {}
        for (w, one), (v, other) in product(zip(weights, sources, strict=True), repeat=2):
            p, r = one.pignistic()[i], other.pignistic()[i]
            for k, m in product(range(n_clusters), repeat=2):
                key = frozenset({k, m})
                mass[key] = mass.get(key, 0.0) + w * v * p[k] * r[m]
        rows.append(mass)
    return rows


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
@quick
def test_masses_are_those_of_two_sources_drawn_at_random(n_clusters, n_sources, seed):
    rng = np.random.default_rng(seed)
    sources = [CredalPartition.from_probabilities(rng.dirichlet(np.ones(n_clusters), 3)) for _ in range(n_sources)]
    weights = rng.dirichlet(np.ones(n_sources))
    found = consensus(sources, 7 * weights)
    for row, expected in zip(found.mass, _by_drawing(sources, weights), strict=True):
        assert {frozenset(s): m for s, m in zip(found.focal_sets, row, strict=True)} == pytest.approx(expected)
    mean = np.average([source.pignistic() for source in sources], axis=0, weights=weights)
    np.testing.assert_allclose(found.pignistic(), mean, atol=1e-12)
    # Bel(A) = q(A)^2 for single clusters.
    np.testing.assert_allclose(found.belief(), mean**2, atol=1e-12)


def test_agreement_stays_sure_and_disagreement_is_left_open():
    found = consensus([CERTAIN, OTHER])
    assert found.is_open().tolist() == [False, True, False, False]
    assert [found.focal_sets.labels[j] for j in found.sets()] == ["{1}", "{1,2}", "{2}", "{3}"]


def test_masses_on_sets_count_by_their_pignistic_probability():
    vague = CredalPartition([[0.0, 0.0, 1.0]], FocalSets.full(2))
    np.testing.assert_allclose(consensus([vague]).mass, [[0.25, 0.25, 0.5]])


def test_a_source_of_no_weight_is_not_heard():
    assert consensus([CERTAIN, OTHER], [2, 0]) == consensus([CERTAIN])


@pytest.mark.parametrize(
    ("sources", "weights", "error", "message"),
    [
        ([], None, ValueError, "sources must hold at least one CredalPartition, got none"),
        ([[0.5, 0.5]], None, TypeError, r"sources\[0\] must be a CredalPartition, got list"),
        ([CERTAIN, CERTAIN[:2]], None, ValueError, "sources must have the same number of rows, got 4 and 2"),
        ([CERTAIN, OTHER], [1, -1], ValueError, r"weights must be >= 0 and not all zero, got \[1.0, -1.0\]"),
        ([CERTAIN, OTHER], [1, 2, 3], ValueError, "weights"),
        ([CERTAIN, CredalPartition.from_labels([0, 0, 0, 0])], None, ValueError, "3"),
    ],
)
def test_bad_arguments(sources, weights, error, message):
    with pytest.raises(error, match=message):
        consensus(sources, weights)
