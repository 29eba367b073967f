import re
from math import log2

import numpy as np
import pytest
from hypothesis import given

from belief import oracles_belief as oracle
from belief.strategies import as_dicts, partitions, quick
from egmm import FocalSets
from egmm.belief import (
    average_nonspecificity,
    belief_distance,
    conflict,
    deng_entropy,
    dissonance,
    is_bayesian,
    is_certain,
    is_vacuous,
    jirousek_shenoy_entropy,
    jousselme_distance,
    nonspecificity,
)

FULL = FocalSets.full(2)
MEASURES = [nonspecificity, dissonance, deng_entropy, jirousek_shenoy_entropy, is_bayesian, is_certain, is_vacuous]
DISTANCES = [conflict, jousselme_distance, belief_distance]


@given(partitions())
@quick
def test_measures_by_loops(sources):
    [partition] = sources
    arguments, n_clusters = (partition.mass, partition.focal_sets), partition.n_clusters
    rows = as_dicts(partition)
    np.testing.assert_allclose(
        nonspecificity(*arguments), [oracle.nonspecificity(m, n_clusters) for m in rows], atol=1e-13
    )
    np.testing.assert_allclose(dissonance(*arguments), [oracle.dissonance(m) for m in rows], atol=1e-12)
    np.testing.assert_allclose(deng_entropy(*arguments), [oracle.deng(m) for m in rows], atol=1e-12)
    expected = [oracle.jirousek_shenoy(m, n_clusters) for m in rows]
    np.testing.assert_allclose(jirousek_shenoy_entropy(*arguments), expected, atol=1e-12)


@given(partitions(2))
@quick
def test_distances_by_loops(sources):
    first, second = ((s.mass, s.focal_sets) for s in sources)
    n_clusters = sources[0].n_clusters
    rows = list(zip(*map(as_dicts, sources), strict=True))
    np.testing.assert_allclose(conflict(first, second), [oracle.conflict(*pair) for pair in rows], atol=1e-13)
    np.testing.assert_allclose(jousselme_distance(first, second), [oracle.jousselme(*pair) for pair in rows], atol=1e-7)
    expected = [oracle.belief_distance(*pair, n_clusters) for pair in rows]
    np.testing.assert_allclose(belief_distance(first, second), expected, atol=1e-12)
    for distance in (jousselme_distance, belief_distance):
        assert np.all(distance(first, second) <= 1 + 1e-12)
        np.testing.assert_allclose(distance(first, first), 0, atol=1e-7)
        np.testing.assert_allclose(distance(first, second), distance(second, first), atol=1e-12)


def test_jousselme_published_example():
    # Jousselme, Grosse & Bosse 2001: D between {1,2} and {1,2,3} is 2/3, so d = sqrt((1 + 1 - 4/3) / 2).
    first = ([[1.0]], FocalSets.from_sets([{0, 1}], 3))
    second = ([[1.0]], FocalSets.from_sets([{0, 1, 2}], 3))
    np.testing.assert_allclose(jousselme_distance(first, second), [(1 / 3) ** 0.5])


@pytest.mark.parametrize("n_clusters", [2, 3, 5])
def test_different_certain_rows_are_at_distance_one(n_clusters):
    focal = FocalSets.singletons(n_clusters)
    first, second = (np.eye(n_clusters)[:1], focal), (np.eye(n_clusters)[1:2], focal)
    for distance in DISTANCES:
        np.testing.assert_allclose(distance(first, second), [1.0])


def test_ranges():
    focal = FocalSets.full(4)
    certain, vacuous, uniform = np.eye(15)[:1], np.eye(15)[-1:], np.zeros((1, 15))
    uniform[0, [0, 1, 3, 7]] = 0.25
    assert nonspecificity(certain, focal) == 0
    assert nonspecificity(vacuous, focal) == 2
    assert average_nonspecificity(np.vstack([certain, vacuous]), focal) == 0.5
    for entropy in (dissonance, deng_entropy, jirousek_shenoy_entropy):
        np.testing.assert_allclose(entropy(uniform, focal), 2)
        assert entropy(certain, focal) == 0
        assert not np.signbit(entropy(certain, focal)).any()
    assert dissonance(vacuous, focal) == 0
    np.testing.assert_allclose(deng_entropy(vacuous, focal), log2(15))
    np.testing.assert_allclose(jirousek_shenoy_entropy(vacuous, focal), 4)


@pytest.mark.parametrize("n_clusters", [2, 4, 5, 7])
@pytest.mark.parametrize("least", [1e-20, 1e-300, 5e-324])
@pytest.mark.parametrize("measure", [dissonance, deng_entropy, jirousek_shenoy_entropy])
def test_the_least_masses_change_next_to_nothing(measure, least, n_clusters):
    focal = FocalSets.full(n_clusters)
    mass = np.full((1, len(focal)), least)
    mass[0, 0] = 1.0
    assert measure(mass, focal)[0] == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("n_clusters", [3, 5, 6, 7])
def test_ranges_hold_to_the_last_digit(n_clusters):
    focal = FocalSets.simple(n_clusters)
    for n_rows in range(1, 60):
        assert average_nonspecificity(np.repeat(np.eye(len(focal))[-1:], n_rows, axis=0), focal) == 1.0
    full = FocalSets.full(n_clusters)
    nearly_sure = np.random.default_rng(0).dirichlet(np.full(len(full), 0.001), 2000)
    for measure in (dissonance, deng_entropy, jirousek_shenoy_entropy):
        assert (measure(nearly_sure, full) >= 0).all()


def test_the_empty_set_is_as_unspecific_as_the_frame():
    focal = FocalSets.singletons(4, empty=True)
    assert nonspecificity([[0.5, 0.5, 0, 0, 0]], focal) == 1
    assert average_nonspecificity([[1, 0, 0, 0, 0]], focal) == 1


def test_one_cluster_has_nothing_open():
    assert average_nonspecificity([[1.0]], FocalSets.full(1)) == 0.0


def test_kinds_up_to_rounding():
    nearly = [[1 - 5e-9, 0, 5e-9]]
    assert is_certain(nearly, FULL).all()
    assert is_bayesian(nearly, FULL).all()
    assert not is_certain([[1 - 2e-8, 0, 2e-8]], FULL).any()
    assert is_vacuous([[0, 5e-9, 1 - 5e-9]], FULL).all()
    assert not is_vacuous([[1.0, 0]], FocalSets.singletons(2)).any()


@pytest.mark.parametrize("measure", [*MEASURES, average_nonspecificity])
def test_measures_refuse_bad_masses(measure):
    with pytest.raises(ValueError, match=re.escape("mass must be finite, but entry (0, 0) is nan.")):
        measure([[np.nan, 0, 1]], FULL)


@pytest.mark.parametrize("distance", DISTANCES)
def test_distances_refuse_bad_arguments(distance):
    good = ([[0.5, 0.1, 0.4]], FULL)
    with pytest.raises(ValueError, match=re.escape("mass rows must sum to 1 within 1e-8; row 0 sums to 0.5.")):
        distance(good, ([[0.5, 0, 0]], FULL))
    with pytest.raises(ValueError, match="The frames differ: 2 and 3 clusters"):
        distance(good, ([[1, 0, 0]], FocalSets.singletons(3)))
    with pytest.raises(ValueError, match=re.escape("Both sources must have the same number of rows, got 1 and 2.")):
        distance(good, ([[0.5, 0.1, 0.4]] * 2, FULL))


def test_belief_distance_refuses_a_power_set_too_large():
    largest = FocalSets.singletons(13)
    np.testing.assert_allclose(belief_distance((np.eye(13)[:1], largest), (np.eye(13)[1:2], largest)), [1.0])
    source = (np.eye(14), FocalSets.singletons(14))
    message = "belief_distance sums over all sets of at most 13 clusters, got 14; jousselme_distance sums over the sets"
    with pytest.raises(ValueError, match=message):
        belief_distance(source, source)


def test_no_rows():
    for measure in MEASURES:
        assert len(measure(np.zeros((0, 3)), FULL)) == 0
    for distance in DISTANCES:
        assert len(distance((np.zeros((0, 3)), FULL), (np.zeros((0, 3)), FULL))) == 0
    with pytest.raises(ValueError, match=re.escape("The average nonspecificity is not defined for zero rows.")):
        average_nonspecificity(np.zeros((0, 3)), FULL)
