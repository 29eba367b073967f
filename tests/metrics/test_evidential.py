"""Credal Rand index and pairwise nonspecificity, against loops over pairs of sets and the Rand index."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import rand_score

from egmm import CredalPartition, FocalSets
from egmm.metrics import ans, credal_rand_index, evidential, pairwise_masses, pairwise_nonspecificity
from metrics import oracles_pairs as oracle

DISTANCES = ["conflict", "jousselme", "belief"]
FAMILIES = [
    FocalSets.full(3, empty=True),
    FocalSets.pairs(4, empty=True),
    FocalSets.singletons(3),
    FocalSets.simple(5),
    FocalSets.from_sets([{0, 1}, {2}, set()], 3),
    FocalSets.full(1),
]


@st.composite
def two_partitions(draw) -> tuple[CredalPartition, CredalPartition]:
    """Two partitions of the same rows over any two families, with zeros and ones among the masses."""
    n_rows = draw(st.integers(2, 7))
    return draw(partitions(n_rows)), draw(partitions(n_rows))


@st.composite
def partitions(draw, n_rows: int) -> CredalPartition:
    focal = draw(st.sampled_from(FAMILIES))
    weights = draw(
        st.lists(
            st.lists(st.integers(0, 5), min_size=len(focal), max_size=len(focal)).filter(any),
            min_size=n_rows,
            max_size=n_rows,
        )
    )
    return CredalPartition([np.array(row) / sum(row) for row in weights], focal)


def hard(labels, n_clusters: int) -> CredalPartition:
    focal = FocalSets.full(n_clusters, empty=True)
    mass = np.zeros((len(labels), len(focal)))
    mass[np.arange(len(labels)), [focal.index_of({int(label)}) for label in labels]] = 1
    return CredalPartition(mass, focal)


@pytest.mark.parametrize("distance", DISTANCES)
@given(pair=two_partitions())
def test_the_index_is_that_of_loops_over_pairs_of_sets(distance: str, pair) -> None:
    one, other = pair
    expected = oracle.credal_rand(one.mass, one.focal_sets, other.mass, other.focal_sets, distance)
    assert credal_rand_index(one, other, distance=distance) == pytest.approx(expected, abs=1e-12)


@given(partition=partitions(5))
def test_nonspecificity_is_that_of_loops_over_pairs_of_sets(partition: CredalPartition) -> None:
    expected = oracle.nonspecificity(partition.mass, partition.focal_sets)
    assert pairwise_nonspecificity(partition) == pytest.approx(expected, abs=1e-12)


@given(partition=partitions(4))
def test_pairwise_masses_are_those_of_loops_over_pairs_of_sets(partition: CredalPartition) -> None:
    pairs = pairwise_masses(partition, slice(0, 2), slice(1, 4))
    assert pairs.same.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        expected = oracle.pair_mass(partition.mass[i], partition.mass[1 + j], list(partition.focal_sets))
        got = {
            oracle.EMPTY: pairs.conflict[i, j],
            oracle.SAME: pairs.same[i, j],
            oracle.DIFFERENT: pairs.different[i, j],
        }
        assert got == pytest.approx({key: expected[key] for key in got}, abs=1e-12)


@pytest.mark.parametrize("distance", ["jousselme", "belief"])
@pytest.mark.parametrize("n_rows", [2, 3, 4, 9, 10])
def test_tiles_of_any_size_cover_every_pair_once(rng, monkeypatch, distance: str, n_rows: int) -> None:
    full, pairs = FAMILIES[:2]
    one = CredalPartition(rng.dirichlet(np.full(len(full), 0.4), n_rows), full)
    other = CredalPartition(rng.dirichlet(np.full(len(pairs), 0.4), n_rows), pairs)
    expected = oracle.credal_rand(one.mass, full, other.mass, pairs, distance)
    monkeypatch.setattr(evidential, "_TILE", 3)
    assert credal_rand_index(one, other, distance=distance) == pytest.approx(expected, abs=1e-12)


def test_disjoint_sets_found_a_few_columns_at_a_time(rng, monkeypatch) -> None:
    focal = FocalSets.full(4, empty=True)
    partition = CredalPartition(rng.dirichlet(np.ones(len(focal)), 6), focal)
    monkeypatch.setattr(evidential, "_DISJOINT_COLUMNS", 5)
    assert pairwise_nonspecificity(partition) == pytest.approx(oracle.nonspecificity(partition.mass, focal), abs=1e-12)


@pytest.mark.parametrize("distance", DISTANCES)
def test_hard_partitions_have_the_rand_index(rng, distance: str) -> None:
    labels, others = rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    index = credal_rand_index(hard(labels, 3), hard(others, 4), distance=distance)
    assert index == pytest.approx(rand_score(labels, others), abs=1e-12)


@pytest.mark.parametrize("distance", ["jousselme", "belief"])
@given(pair=two_partitions())
def test_the_distances_are_symmetric_and_zero_to_oneself(distance: str, pair) -> None:
    assert credal_rand_index(pair[0], pair[0], distance=distance) == pytest.approx(1, abs=1e-7)
    forth, back = (credal_rand_index(a, b, distance=distance) for a, b in (pair, pair[::-1]))
    assert forth == pytest.approx(back, abs=1e-12)
    assert -1e-12 <= forth <= 1 + 1e-12


def test_a_partition_that_says_nothing_contradicts_nothing(rng) -> None:
    vacuous = CredalPartition(np.ones((8, 1)), FocalSets.from_sets([{0, 1}], 2))
    labels = hard(rng.integers(0, 3, 8), 3)
    assert credal_rand_index(vacuous, labels) == pytest.approx(1)
    assert credal_rand_index(vacuous, labels, distance="belief") == pytest.approx(0.5)
    assert credal_rand_index(vacuous, labels, distance="jousselme") == pytest.approx(1 - np.sqrt(0.5))
    assert pairwise_nonspecificity(vacuous) == pytest.approx(1)
    assert pairwise_nonspecificity(labels) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("distance", DISTANCES)
def test_names_of_clusters_do_not_matter(rng, distance: str) -> None:
    focal = FocalSets.full(3)
    mass, other = rng.dirichlet(np.ones(7), 20), CredalPartition(rng.dirichlet(np.ones(7), 20), focal)
    # Clusters 1, 2, 3 renamed 3, 1, 2: {1} {2} {12} {3} {13} {23} {123} become {3} {1} {13} {2} {23} {12} {123}.
    renamed = np.empty_like(mass)
    renamed[:, [3, 0, 4, 1, 5, 2, 6]] = mass
    index = credal_rand_index(CredalPartition(mass, focal), other, distance=distance)
    assert credal_rand_index(CredalPartition(renamed, focal), other, distance=distance) == pytest.approx(index)


def test_ans_counts_bits_over_those_of_the_frame() -> None:
    focal = FocalSets.from_sets([set(), {0}, {0, 1}, {0, 1, 2, 3}], 4)
    # Bits of the four sets: 2, 0, 1, 2; the frame has 2.
    assert ans(CredalPartition(np.eye(4), focal)) == pytest.approx((2 + 0 + 1 + 2) / 2 / 4)
    assert ans(CredalPartition([[0.125, 0.5, 0.25, 0.125]], focal)) == pytest.approx((0.25 + 0.25 + 0.25) / 2)


@pytest.mark.parametrize("total", [1 - 9e-9, 1 + 9e-9])
@pytest.mark.parametrize("distance", ["conflict", "jousselme", "belief"])
def test_masses_that_nearly_sum_to_one_leave_no_range(distance: str, total: float) -> None:
    # Rows may sum to one within 1e-8.
    labels = [0, 0, 1]
    nearly = CredalPartition(total * CredalPartition.from_labels(labels).mass, FocalSets.singletons(2))
    together, apart = CredalPartition.from_labels([0, 0], 2), CredalPartition.from_labels([0, 1], 2)
    stretched = [CredalPartition(total * part.mass, part.focal_sets) for part in (together, apart)]
    assert 1 - 1e-7 < credal_rand_index(nearly, nearly, distance=distance) <= 1
    assert 0 <= credal_rand_index(*stretched, distance=distance) < 1e-7
    assert 0 <= pairwise_nonspecificity(nearly) < 1e-7
    assert not pairwise_masses(nearly).conflict.any()


def test_bad_arguments_are_named() -> None:
    for function in (ans, pairwise_masses, pairwise_nonspecificity, lambda part: credal_rand_index(part, part)):
        with pytest.raises(TypeError, match=r"must be a CredalPartition, got list; use CredalPartition\.from_labels"):
            function([0, 1, 1])
    focal = FocalSets.full(2)
    three, two, one = (CredalPartition([[1, 0, 0]] * n, focal) for n in (3, 2, 1))
    with pytest.raises(ValueError, match=r"first and second must have the same number of rows, got 3 and 2\."):
        credal_rand_index(three, two)
    with pytest.raises(ValueError, match=r"distance must be one of 'conflict', 'jousselme', 'belief'; got 'l2'\."):
        credal_rand_index(two, two, distance="l2")
    with pytest.raises(ValueError, match=r"partition must have at least 2 rows to form pairs, got 1\."):
        pairwise_nonspecificity(one)


@pytest.mark.slow
def test_twenty_thousand_rows_stay_below_a_gigabyte() -> None:
    code = """
import resource, numpy as np
from egmm import CredalPartition, FocalSets
from egmm.metrics import ans, credal_rand_index, pairwise_nonspecificity
focal = FocalSets.pairs(5, empty=True)
rng = np.random.default_rng(0)
one, other = (CredalPartition(rng.dirichlet(np.ones(len(focal)), 20_000), focal) for _ in range(2))
for distance in ("conflict", "jousselme", "belief"):
    credal_rand_index(one, other, distance=distance)
pairwise_nonspecificity(one)
try:  # The process's own peak: where this one was started by a larger one, the other number is that one's.
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
except OSError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peak = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    kilobyte = 1 if sys.platform == "darwin" else 1024
    assert int(peak) * kilobyte < 1e9
