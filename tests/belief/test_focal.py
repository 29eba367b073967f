import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief.strategies import families, quick
from egmm import FocalSets


def sets_of(focal):
    return set(focal)


def frozen(*sets):
    return {frozenset(members) for members in sets}


def test_order_is_the_authors_bit_order():
    labels = ("{1}", "{2}", "{1,2}", "{3}", "{1,3}", "{2,3}", "{1,2,3}")
    assert FocalSets.full(3).labels == labels
    assert FocalSets.pairs(3).labels == labels


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("singletons", frozen({0}, {1}, {2}, {3})),
        ("simple", frozen({0}, {1}, {2}, {3}, {0, 1, 2, 3})),
        (
            "pairs",
            frozen({0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}, {0, 1, 2, 3}),
        ),
    ],
)
def test_named_families(family, expected):
    assert sets_of(FocalSets.of(family, 4)) == expected
    assert sets_of(FocalSets.of(family, 4, empty=True)) == expected | frozen(set())
    assert sets_of(getattr(FocalSets, family)(4, empty=True)) == expected | frozen(set())


@pytest.mark.parametrize(
    ("n_clusters", "n_pairs", "n_full"), [(1, 1, 1), (2, 3, 3), (3, 7, 7), (4, 11, 15), (8, 37, 255)]
)
def test_numbers_of_sets(n_clusters, n_pairs, n_full):
    assert len(FocalSets.pairs(n_clusters)) == n_pairs
    assert len(FocalSets.full(n_clusters)) == n_full
    assert FocalSets.full(n_clusters).is_full
    assert FocalSets.full(n_clusters, empty=True).is_full


def test_sixty_three_clusters():
    focal = FocalSets.pairs(np.int64(63))
    assert len(focal) == 63 + 63 * 62 // 2 + 1
    assert focal.cardinalities[-1] == 63
    assert focal.labels[focal.index_of({61, 62})] == "{62,63}"
    assert not focal.is_full
    assert focal.index_of(range(63)) == len(focal) - 1


def test_neighbours_are_mutual():
    # 0-1 choose each other; 2 chooses 1, but 1 does not choose 2; 3 ties between all and takes the lowest.
    similarity = np.array([[1, 0.9, 0.1, 0], [0.9, 1, 0.5, 0], [0.1, 0.5, 1, 0], [0, 0, 0, 1]])
    assert sets_of(FocalSets.neighbours(similarity, 1)) == frozen({0}, {1}, {2}, {3}, {0, 1}, {0, 1, 2, 3})
    turned = FocalSets.neighbours(similarity[::-1, ::-1], 1)
    assert sets_of(turned) == frozen({0}, {1}, {2}, {3}, {2, 3}, {0, 1, 2, 3})
    two = FocalSets.neighbours(similarity, empty=True)
    assert sets_of(two) == frozen(set(), {0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2, 3})


def test_neighbours_of_one_cluster_or_of_more_than_there_are():
    assert FocalSets.neighbours(np.eye(3), 7) == FocalSets.full(3)
    assert FocalSets.neighbours([[1.0]]).labels == ("{1}",)


def test_membership_shares_and_sizes():
    focal = FocalSets.from_sets([{0, 2}, set(), {1}], 3)
    assert focal.labels == ("∅", "{2}", "{1,3}")
    np.testing.assert_array_equal(focal.membership, [[0, 0, 0], [0, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(focal.shares, [[0, 0, 0], [0, 1, 0], [0.5, 0, 0.5]])
    np.testing.assert_array_equal(focal.cardinalities, [0, 1, 2])
    np.testing.assert_array_equal(focal.is_meta, [False, False, True])


def test_duplicates_are_merged():
    assert len(FocalSets.from_sets([{0}, {0}, [0, 0]], 2)) == 1


@given(st.data(), st.integers(1, 5))
@quick
def test_tables_of_unions_and_intersections(data, n_clusters):
    left, right = data.draw(families(n_clusters)), data.draw(families(n_clusters))
    for table, operation in ((left.union(right), frozenset.union), (left.intersection(right), frozenset.intersection)):
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                assert table[i, j] == sum(2**k for k in operation(a, b))


@given(st.data(), st.integers(1, 6))
@quick
def test_index_finds_every_set(data, n_clusters):
    focal = data.draw(families(n_clusters))
    assert [focal.index_of(members) for members in focal] == list(range(len(focal)))
    assert all(members in focal for members in focal)
    np.testing.assert_array_equal(focal.columns_of(focal.masks), np.arange(len(focal)))


def test_contains():
    focal = FocalSets.simple(3)
    assert {0, 1, 2} in focal
    assert {0, 1} not in focal
    assert {7} not in focal
    assert 0 not in focal
    assert "0" not in focal


def test_columns_of_absent_sets():
    np.testing.assert_array_equal(FocalSets.singletons(3).columns_of(np.array([4, 3, 0, 7])), [2, -1, -1, -1])


def test_with_and_without_empty():
    focal = FocalSets.singletons(2)
    assert focal.with_empty().has_empty
    assert focal.with_empty().with_empty() == focal.with_empty()
    assert focal.with_empty().without_empty() == focal
    assert focal.without_empty() is focal


def test_equality_and_hash():
    assert FocalSets.full(2) == FocalSets.pairs(2)
    assert hash(FocalSets.full(2)) == hash(FocalSets.pairs(2))
    assert FocalSets.full(2) != FocalSets.from_sets([{0}, {1}, {0, 1}], 3)
    assert FocalSets.full(2) != "full"


def test_is_immutable_and_stays_so_through_pickle():
    for focal in (FocalSets.full(2), pickle.loads(pickle.dumps(FocalSets.full(2)))):
        for name in ("masks", "membership", "cardinalities", "shares", "is_meta"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(focal, name)[0] = 0
        with pytest.raises(AttributeError):
            focal.masks = np.array([1])
        assert focal == FocalSets.full(2)


def test_repr_lists_a_large_family_in_part():
    assert repr(FocalSets.singletons(2)) == "FocalSets({1}, {2}, n_clusters=2)"
    assert repr(FocalSets.full(4)).endswith(", {1,2,4}, {3,4}, ... (15 sets), n_clusters=4)")
    assert repr(FocalSets.singletons(12)).endswith(", {12}, n_clusters=12)")


def test_of_takes_a_family_and_lists():
    focal = FocalSets.full(3)
    assert FocalSets.of(focal, 3) is focal
    assert FocalSets.of([(0,), [1], {2}], 3) == FocalSets.singletons(3)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: FocalSets([1], 0), ValueError, "n_clusters must be an integer from 1 to 63, got 0."),
        (lambda: FocalSets([1], 64), ValueError, "n_clusters must be an integer from 1 to 63, got 64."),
        (lambda: FocalSets([1], 2.0), TypeError, "n_clusters must be an integer from 1 to 63, got 2.0."),
        (lambda: FocalSets([1], True), TypeError, "n_clusters must be an integer from 1 to 63, got True."),
        (lambda: FocalSets.singletons(2.0), TypeError, "n_clusters must be an integer from 1 to 63, got 2.0."),
        (lambda: FocalSets.from_sets([{0}], 0), ValueError, "n_clusters must be an integer from 1 to 63, got 0."),
        (lambda: FocalSets.of([{0}], 0), ValueError, "n_clusters must be an integer from 1 to 63, got 0."),
        (lambda: FocalSets([], 2), ValueError, "A family of focal sets needs at least one set, got an empty list."),
        (lambda: FocalSets.of([], 2), ValueError, "A family of focal sets needs at least one set, got an empty list."),
        (lambda: FocalSets([4], 2), ValueError, "bit mask 4 is not a subset of 2 clusters (0 to 2**2 - 1)."),
        (lambda: FocalSets([-1], 2), ValueError, "bit mask -1 is not a subset of 2 clusters (0 to 2**2 - 1)."),
        (
            lambda: FocalSets([1.5], 2),
            TypeError,
            "masks must be a sequence of integers, got shape (1,) of float64; use FocalSets.from_sets",
        ),
        (
            lambda: FocalSets.full(14),
            ValueError,
            "focal_sets='full' with n_clusters=14 gives 16383 focal sets; use 'pairs' (106) or pass a list.",
        ),
        (
            lambda: FocalSets.full(np.int64(63)),
            ValueError,
            "focal_sets='full' with n_clusters=63 gives 9223372036854775807 focal sets; use 'pairs' (2017)",
        ),
        (
            lambda: FocalSets.of("all", 3),
            ValueError,
            "focal_sets must be one of 'full', 'pairs', 'singletons', 'simple', 'neighbours'; got 'all'.",
        ),
        (
            lambda: FocalSets.of("neighbours", 3),
            ValueError,
            "focal_sets='neighbours' needs a similarity of clusters: use FocalSets.neighbours(similarity).",
        ),
        (
            lambda: FocalSets.of(FocalSets.full(2), 3),
            ValueError,
            "focal_sets is a family over 2 clusters, but n_clusters=3.",
        ),
        (
            lambda: FocalSets.of(5, 3),
            TypeError,
            "focal_sets must be a family name, a FocalSets or a list of sets, got 5.",
        ),
        (
            lambda: FocalSets.of([0, 1], 2),
            TypeError,
            "focal_sets must be a family name, a FocalSets or a list of sets, got [0, 1].",
        ),
        (
            lambda: FocalSets.from_sets([{0}, 1], 2),
            TypeError,
            "a set of clusters must list their numbers, such as {0, 1}, got 1.",
        ),
        (
            lambda: FocalSets.from_sets([{0}, {3}], 3),
            ValueError,
            "a cluster number (counted from zero) must be an integer from 0 to 2, got 3.",
        ),
        (
            lambda: FocalSets.from_sets(["a"], 3),
            TypeError,
            "a cluster number (counted from zero) must be an integer from 0 to 2, got 'a'.",
        ),
        (
            lambda: FocalSets.simple(3).index_of({0, 2}),
            KeyError,
            "{1,3} is not among the focal sets {1}, {2}, {3}, {1,2,3}.",
        ),
        (
            lambda: FocalSets.full(2).union(FocalSets.full(3)),
            ValueError,
            "The frames differ: 3 and 2 clusters; refine them to a common frame first.",
        ),
        (
            lambda: FocalSets.full(2).intersection(FocalSets.full(3)),
            ValueError,
            "The frames differ: 3 and 2 clusters; refine them to a common frame first.",
        ),
        (lambda: FocalSets.neighbours([[1, 2]]), ValueError, "similarity must be a square matrix, got shape (1, 2)."),
        (lambda: FocalSets.neighbours([1, 2]), ValueError, "similarity must have shape (n, m), got (2,)."),
        (lambda: FocalSets.neighbours([["a"]]), TypeError, "similarity must be numeric, got an array of dtype <U1."),
        (
            lambda: FocalSets.neighbours([[1, np.nan], [0, 1]]),
            ValueError,
            "similarity must be finite, but entry (0, 1) is nan.",
        ),
        (lambda: FocalSets.neighbours(np.eye(3), 0), ValueError, "n_neighbours must be an integer >= 1, got 0."),
    ],
)
def test_bad_arguments(build, error, message):
    with pytest.raises(error, match=re.escape(message)):
        build()
