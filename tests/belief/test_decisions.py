import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief import oracles_belief as oracle
from belief.strategies import as_dicts, partitions, quick
from egmm import FocalSets
from egmm.belief import (
    best_cluster,
    choose_sets,
    heaviest_set,
    hurwicz,
    most_useful_set,
    outliers,
    undominated,
    with_rejection,
)

FULL = FocalSets.full(2)
THREE = FocalSets.full(3)
# Bel .4 .3 0, Pl .4 .6 .3, BetP .4 .45 .15: the rules disagree.
SPLIT = [[0.4, 0.3, 0, 0, 0, 0.3, 0]]


@pytest.mark.parametrize(("rule", "label"), [("belief", 0), ("plausibility", 1), ("pignistic", 1)])
def test_rules_disagree_where_they_should(rule, label):
    assert best_cluster(SPLIT, THREE, rule) == [label]


@given(partitions())
@quick
def test_labels_maximise_their_score(sources):
    [partition] = sources
    for k in range(partition.n_clusters):
        single = frozenset({k})
        for row, m in enumerate(as_dicts(partition)):
            best = {rule: frozenset({int(partition.labels(rule)[row])}) for rule in ("belief", "plausibility")}
            assert oracle.belief(m, best["belief"]) >= oracle.belief(m, single) - 1e-12
            assert oracle.plausibility(m, best["plausibility"]) >= oracle.plausibility(m, single) - 1e-12
            betp = [oracle.pignistic(m, other, partition.n_clusters) for other in range(partition.n_clusters)]
            assert betp[partition.labels()[row]] >= betp[k] - 1e-12


def test_ties_go_to_the_lowest_even_when_rounding_disagrees():
    assert 0.1 + 0.2 > 0.3
    mass = [[0.3, 0.1 + 0.2, 0.4 - 5e-17]]
    assert heaviest_set([[0.3, 0.1 + 0.2, 0.3, 0.1 - 5e-17]], FocalSets.full(2, empty=True)) == [0]
    for rule in ("pignistic", "plausibility", "belief"):
        assert best_cluster(mass, FULL, rule) == [0]
    assert hurwicz(mass, FULL) == [0]
    assert with_rejection(mass, FULL, 1.0) == [0]


def test_a_row_of_outliers_gets_the_first_label():
    assert best_cluster([[1.0, 0, 0]], FocalSets.singletons(2, empty=True)) == [0]


def test_a_tie_dominates_nobody_even_when_rounding_disagrees():
    assert 0.05 + 0.35 < 0.4
    mass = [[0.4, 0.05, 0, 0.2, 0, 0.35, 0]]
    np.testing.assert_array_equal(undominated(mass, THREE), [[True, True, True]])


@given(partitions())
@quick
def test_undominated_by_definition(sources):
    [partition] = sources
    kept = undominated(partition.mass, partition.focal_sets)
    singles = [frozenset({k}) for k in range(partition.n_clusters)]
    for row, m in enumerate(as_dicts(partition)):
        best = max(oracle.belief(m, single) for single in singles)
        assert kept[row].tolist() == [oracle.plausibility(m, single) >= best - 1e-12 for single in singles]
    assert kept.any(axis=1).all()


def test_hurwicz_moves_from_plausibility_to_belief():
    # Scores alpha * Bel + (1 - alpha) * Pl: .4 against .6 - .3 alpha, equal at alpha = 2/3.
    assert [int(hurwicz(SPLIT, THREE, alpha)[0]) for alpha in (0, 0.6, 0.7, 1)] == [1, 1, 0, 0]


def test_rejection_by_risk():
    # Risks of the best cluster: 1 - BetP = .55, 1 - Pl = .4, 1 - Bel = .6.
    for rule, risk in (("pignistic", 0.55), ("plausibility", 0.4), ("belief", 0.6)):
        assert with_rejection(SPLIT, THREE, risk - 0.01, rule) == [-1]
        assert with_rejection(SPLIT, THREE, risk, rule) == best_cluster(SPLIT, THREE, rule)


def test_rejection_at_the_cost_is_not_a_matter_of_rounding():
    assert 1 - 0.7 > 0.3
    assert with_rejection([[0.7, 0.3, 0]], FULL, 0.3) == [0]


def test_outliers():
    mass = [[0.6, 0.4, 0], [0.4, 0.6, 0], [0.5, 0.5, 0]]
    np.testing.assert_array_equal(outliers(mass, FocalSets.singletons(2, empty=True)), [True, False, True])
    np.testing.assert_array_equal(outliers([[1, 0, 0]], FULL), [False])


def test_no_rows():
    for function in (best_cluster, heaviest_set, hurwicz, outliers, undominated):
        assert len(function(np.zeros((0, 3)), FULL)) == 0
    assert len(with_rejection(np.zeros((0, 3)), FULL, 0.5)) == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: best_cluster(SPLIT, THREE, "mass"),
            ValueError,
            "rule must be one of 'pignistic', 'plausibility', 'belief'; got 'mass'.",
        ),
        (lambda: hurwicz(SPLIT, THREE, 1.5), ValueError, "pessimism must be a finite number in [0, 1], got 1.5."),
        (lambda: hurwicz(SPLIT, THREE, "low"), TypeError, "pessimism must be a finite number in [0, 1], got 'low'."),
        (lambda: with_rejection(SPLIT, THREE, -1), ValueError, "cost must be a finite number in [0, 1], got -1."),
        (lambda: heaviest_set([[0.5, 0.1, 0]], FULL), ValueError, "row 0 sums to 0.6."),
        (lambda: outliers([[0.5, 0.5]], FULL), ValueError, "mass must have shape (n, 3), got (1, 2)."),
        (lambda: undominated([[0.5, 0.6, -0.1]], FULL), ValueError, "mass must be non-negative"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def _expected_utilities(m, reward, n_clusters):
    """Utility of every set by definition: the mean over the clusters of u(A, k), by pignistic probability."""
    utilities = {}
    for size in range(1, n_clusters + 1):
        share = 1 / size
        worth = (2 - 4 * reward) * share**2 + (4 * reward - 1) * share
        for members in combinations(range(n_clusters), size):
            betp = sum(oracle.pignistic(m, k, n_clusters) for k in members)
            utilities[frozenset(members)] = worth * betp
    return utilities


@given(partitions(), st.floats(0.5, 1))
@quick
def test_no_set_is_more_useful_than_the_chosen_one(sources, reward):
    [partition] = sources
    chosen = most_useful_set(partition.mass, partition.focal_sets, reward)
    for members, m in zip(chosen, as_dicts(partition), strict=True):
        utilities = _expected_utilities(m, reward, partition.n_clusters)
        assert utilities[frozenset(np.flatnonzero(members))] >= max(utilities.values()) - 1e-11


@pytest.mark.parametrize(("reward", "limit"), [(0.65, 0.65), (0.8, 0.8), (1.0, 1.0)])
def test_of_two_clusters_one_is_chosen_from_the_reward_on(reward, limit):
    # u({1}) = p and u({1,2}) = r (Zaffalon, Corani, Mauá 2012): one cluster where p >= r.
    below, above = [[limit - 1e-6, 1 - limit + 1e-6, 0]], [[limit, 1 - limit, 0]]
    assert most_useful_set(below, FULL, reward).sum() == 2
    assert most_useful_set(above, FULL, reward).tolist() == [[True, False]]


def test_no_reward_for_doubt_gives_the_likeliest_cluster_the_lowest_of_equals():
    assert most_useful_set([[0.25, 0.25, 0.5], [0.1, 0.7, 0.2]], FULL, 0.5).tolist() == [[True, False], [False, True]]
    assert 0.05 + 0.1 > 0.15  # by rounding alone
    three = most_useful_set([[0.7, 0.15, 0.05 + 0.1]], FocalSets.singletons(3), 0.9)
    assert three.tolist() == [[True, True, False]]


def test_the_useful_set_need_not_be_focal():
    assert most_useful_set([[0.5, 0.5, 0]], FocalSets.singletons(3)).tolist() == [[True, True, False]]


def test_sets_are_chosen_by_the_name_of_a_rule():
    mass = [[0.5, 0.1, 0.4]]
    assert choose_sets(mass, FULL).tolist() == [[True, False]]
    assert choose_sets(mass, FULL, "utility").tolist() == [[True, True]]  # BetP .7 .3
    assert choose_sets(mass, FULL, "utility", 0.65).tolist() == [[True, False]]
    assert choose_sets(mass, FULL, "dominance").tolist() == [[True, True]]  # Bel .5 and Pl .5
    with pytest.raises(ValueError, match=r"rule must be one of 'heaviest', 'utility', 'dominance'; got 'best'"):
        choose_sets(mass, FULL, "best")
    with pytest.raises(ValueError, match=r"reward must be .* got 0.4"):
        choose_sets(mass, FULL, "utility", 0.4)
