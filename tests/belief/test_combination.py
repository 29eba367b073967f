import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief import oracles_belief as oracle
from belief.strategies import as_dicts, partitions, power_set_partitions, quick
from egmm import CredalPartition, FocalSets
from egmm.belief import canonical_weights, combine, combine_masses, pcr6, plausibility_transform, products

FULL = FocalSets.full(2)


def agrees(result, expected):
    """Same sets, same masses."""
    assert set(result.focal_sets) == set(expected[0])
    wanted = [[m[a] for a in result.focal_sets] for m in expected]
    np.testing.assert_allclose(result.mass, wanted, atol=1e-13)


def combined_by_loops(rule, sources):
    frame = frozenset(range(sources[0].n_clusters))
    return [oracle.RULES[rule](list(row), frame) for row in zip(*map(as_dicts, sources), strict=True)]


@pytest.mark.parametrize("n_sources", [1, 2, 3])
@pytest.mark.parametrize("rule", ["conjunctive", "dempster", "disjunctive", "yager", "dubois-prade", "mean"])
@given(st.data())
@quick
def test_rules_equal_loops_over_frozensets(rule, n_sources, data):
    sources = data.draw(partitions(n_sources))
    expected = combined_by_loops(rule, sources)
    agrees(combine(*sources, rule=rule, on_conflict="vacuous"), expected)


@pytest.mark.parametrize("n_sources", [1, 2, 3])
@given(st.data())
@quick
def test_pcr6_equals_loops_over_frozensets(n_sources, data):
    sources = data.draw(partitions(n_sources, empty=False, max_clusters=3))
    agrees(combine(*sources, rule="pcr6"), combined_by_loops("pcr6", sources))


@pytest.mark.parametrize("n_sources", [1, 2, 3])
@given(st.data(), st.booleans())
@quick
def test_cautious_equals_the_product_of_simple_masses(n_sources, data, empty):
    sources = data.draw(power_set_partitions(n_sources, max_clusters=3, positive=True, empty=empty))
    frame = frozenset(range(sources[0].n_clusters))
    expected = [oracle.cautious(list(row), frame) for row in zip(*map(as_dicts, sources), strict=True)]
    result = combine(*sources, rule="cautious")
    assert set(result.focal_sets) == set(oracle.powerset(len(frame)))
    wanted = [[m.get(a, 0.0) for a in result.focal_sets] for m in expected]
    np.testing.assert_allclose(result.mass, wanted, atol=1e-11)


@given(power_set_partitions(1, positive=True))
@quick
def test_cautious_is_idempotent_and_weights_are_canonical(sources):
    [source] = sources
    np.testing.assert_allclose(combine(source, source, rule="cautious").mass, source.mass, atol=1e-12)
    frame = frozenset(range(source.n_clusters))
    proper = [a for a in source.focal_sets if a != frame]
    expected = [[oracle.canonical_weight(m, a, frame) for a in proper] for m in as_dicts(source)]
    np.testing.assert_allclose(canonical_weights(source.mass, source.focal_sets), expected, rtol=1e-9)


@given(partitions(3, frame=True))
@quick
def test_dempster_commutes_and_associates(sources):
    a, b, c = sources
    together = combine(a, b, c)
    for other in (combine(c, a, b), combine(combine(a, b), c), combine(a, combine(b, c))):
        assert other.focal_sets == together.focal_sets
        np.testing.assert_allclose(other.mass, together.mass, atol=1e-13)


@given(partitions(2, frame=True, empty=False))
@quick
def test_plausibility_transform_commutes_with_dempster(sources):
    result = combine(*sources)
    product = np.prod([plausibility_transform(s.mass, s.focal_sets) for s in sources], axis=0)
    np.testing.assert_allclose(
        plausibility_transform(result.mass, result.focal_sets),
        product / product.sum(axis=1, keepdims=True),
        atol=1e-13,
    )


def test_power_set_of_six_clusters():
    rng = np.random.default_rng(0)
    focal = FocalSets.full(6)
    sources = [CredalPartition(rng.dirichlet(np.ones(63), 1), focal) for _ in range(2)]
    for rule in ("dempster", "disjunctive"):
        expected = combined_by_loops(rule, sources)
        agrees(combine(*sources, rule=rule), expected)


def zadeh():
    focal = FocalSets.singletons(3)
    return CredalPartition([[0.99, 0.01, 0]], focal), CredalPartition([[0, 0.01, 0.99]], focal)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # Zadeh's two doctors; products .0099, .0099, .9801 and .0001 worked by hand.
        ("dempster", {"{1}": 0, "{2}": 1, "{3}": 0}),
        ("conjunctive", {"∅": 0.9999, "{1}": 0, "{2}": 0.0001, "{3}": 0}),
        ("yager", {"{1}": 0, "{2}": 0.0001, "{3}": 0, "{1,2,3}": 0.9999}),
        ("dubois-prade", {"{1}": 0, "{2}": 0.0001, "{1,2}": 0.0099, "{3}": 0, "{1,3}": 0.9801, "{2,3}": 0.0099}),
        ("disjunctive", {"{1}": 0, "{2}": 0.0001, "{1,2}": 0.0099, "{3}": 0, "{1,3}": 0.9801, "{2,3}": 0.0099}),
        ("mean", {"{1}": 0.495, "{2}": 0.01, "{3}": 0.495}),
        # .9801 is split evenly, .0099 as .99 to .01, twice: {1} gets .49005 + .009801, {2} .0001 + 2 * .000099.
        ("pcr6", {"{1}": 0.499851, "{2}": 0.000298, "{3}": 0.499851}),
    ],
)
def test_zadeh(rule, expected):
    result = combine(*zadeh(), rule=rule)
    assert dict(zip(result.focal_sets.labels, result.mass[0].round(12).tolist(), strict=True)) == expected


def test_pcr6_published_example():
    # Smarandache & Dezert: m1(A)=.6, m1(A or B)=.4; m2(B)=.3, m2(A or B)=.7: conflict .18 is split .12 to A, .06 to B.
    first, second = CredalPartition([[0.6, 0, 0.4]], FULL), CredalPartition([[0, 0.3, 0.7]], FULL)
    np.testing.assert_allclose(combine(first, second, rule="pcr6").mass, [[0.54, 0.18, 0.28]])


def test_frames_meet_after_refinement():
    # {CSF, tissue} and {pathology, other} on {pathology, CSF, normal}.
    fluid = CredalPartition([[0.7, 0.2, 0.1]], FULL).refine([{1}, {0, 2}])
    lesion = CredalPartition([[0.6, 0.3, 0.1]], FULL).refine([{0}, {1, 2}])
    result = combine(fluid, lesion, rule="conjunctive")
    expected = {
        "∅": 0.7 * 0.6,
        "{1}": (0.2 + 0.1) * 0.6,
        "{2}": 0.7 * (0.3 + 0.1),
        "{3}": 0.2 * 0.3,
        "{1,3}": 0.2 * 0.1,
        "{2,3}": 0.1 * 0.3,
        "{1,2,3}": 0.1 * 0.1,
    }
    assert result.focal_sets.labels == tuple(expected)
    np.testing.assert_allclose(result.mass[0], list(expected.values()))


# Conflict ---------------------------------------------------------------------------------------------------


def opposed():
    focal = FocalSets.singletons(2)
    return (
        CredalPartition([[0.5, 0.5], [1, 0], [0, 1], [1, 0]], focal),
        CredalPartition([[0.5, 0.5], [0, 1], [0, 1], [0, 1]], focal),
    )


def test_total_conflict_is_an_error_that_counts():
    message = (
        "2 of 4 rows are in total conflict, the first is row 1; "
        "use on_conflict='vacuous' or 'empty', or discount first."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        combine(*opposed())


@pytest.mark.parametrize(("policy", "label"), [("vacuous", "{1,2}"), ("empty", "∅")])
def test_total_conflict_by_policy(policy, label):
    result = combine(*opposed(), on_conflict=policy)
    assert sorted(result.focal_sets.labels) == sorted([label, "{1}", "{2}"])
    column = result.focal_sets.labels.index(label)
    np.testing.assert_array_equal(result.mass[:, column], [0, 1, 0, 1])
    np.testing.assert_array_equal(result.mass.sum(axis=1), 1)


@pytest.mark.parametrize("n_sources", [2, 3])
def test_families_without_common_clusters(n_sources):
    sources = [CredalPartition([[1.0], [1.0]], FocalSets.from_sets([{k}], 3)) for k in range(n_sources)]
    with pytest.raises(ValueError, match="2 of 2 rows are in total conflict, the first is row 0"):
        combine(*sources)
    vacuous = combine(*sources, on_conflict="vacuous")
    assert vacuous.focal_sets.labels == ("{1,2,3}",)
    np.testing.assert_array_equal(vacuous.mass, [[1], [1]])
    conflicting = combine(*sources, on_conflict="empty")
    assert conflicting.mass[:, conflicting.focal_sets.index_of(set())].tolist() == [1, 1]
    np.testing.assert_array_equal(conflicting.mass.sum(axis=1), 1)
    assert len(combine(*(source[:0] for source in sources))) == 0


def test_conflict_once_is_conflict_for_ever():
    focal = FocalSets.simple(2)
    sources = [CredalPartition(row, focal) for row in ([[1, 0, 0]], [[0, 1, 0]], [[0.2, 0.2, 0.6]])]
    with pytest.raises(ValueError, match="1 of 1 rows are in total conflict"):
        combine(*sources)
    np.testing.assert_array_equal(combine(*sources, on_conflict="vacuous").mass, [[0, 0, 1]])


def test_a_source_that_cannot_conflict_hides_no_conflict_of_the_others():
    vacuous = CredalPartition(np.ones((4, 1)), FocalSets.from_sets([{0, 1}], 2))
    for sources in ((*opposed(), vacuous), (vacuous, *opposed())):
        with pytest.raises(ValueError, match="2 of 4 rows are in total conflict, the first is row 1"):
            combine(*sources)


def test_many_conflicting_sources_do_not_underflow():
    focal = FocalSets.singletons(2)
    sources = [CredalPartition([[0.001, 0.999]], focal), CredalPartition([[0.999, 0.001]], focal)] * 300
    np.testing.assert_allclose(combine(*sources).mass, [[0.5, 0.5]])


def test_almost_total_conflict_is_not_total():
    focal = FocalSets.singletons(2)
    result = combine(CredalPartition([[1, 1e-300]], focal), CredalPartition([[5e-324, 1]], focal))
    np.testing.assert_allclose(result.mass, [[0, 1]], atol=1e-20)


# Mechanics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["dempster", "dubois-prade", "pcr6"])
def test_blocks_do_not_matter(rule, monkeypatch):
    rng = np.random.default_rng(0)
    sources = [CredalPartition(rng.dirichlet(np.ones(7), 50), FocalSets.full(3)) for _ in range(3)]
    whole = combine(*sources, rule=rule)
    monkeypatch.setattr(products, "_BLOCK_DOUBLES", 1)
    monkeypatch.setattr(products, "_MIN_ROWS", 7)
    monkeypatch.setattr(pcr6, "row_blocks", lambda n, *_, **__: [slice(s, min(s + 7, n)) for s in range(0, n, 7)])
    np.testing.assert_array_equal(combine(*sources, rule=rule).mass, whole.mass)
    np.testing.assert_array_equal(combine(*(s[11:31] for s in sources), rule=rule).mass, whole.mass[11:31])


def test_no_temporary_is_larger_than_a_block():
    rng = np.random.default_rng(0)
    sources = [CredalPartition(rng.dirichlet(np.ones(7), 200_000), FocalSets.full(3)) for _ in range(2)]
    combine(*sources)
    tracemalloc.start()
    result = combine(*sources)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - result.mass.nbytes < 4 * 2**20


def test_arrays_and_partitions_agree():
    first, second = zadeh()
    mass, focal = combine_masses(([[0.99, 0.01, 0]], first.focal_sets), ([[0, 0.01, 0.99]], second.focal_sets))
    assert CredalPartition(mass, focal) == combine(first, second)


def test_results_are_valid_whatever_the_rounding_of_the_sources():
    slack = CredalPartition([[0.5, 0.5 - 9e-9]], FocalSets.singletons(2))
    for rule in ("conjunctive", "disjunctive", "yager", "dubois-prade", "pcr6", "dempster"):
        result = combine(*[slack] * 4, rule=rule)
        np.testing.assert_allclose(result.mass.sum(axis=1), 1, rtol=1e-15)


def test_result_is_read_only_and_sources_are_left_alone():
    first, second = opposed()
    result = combine(first, second, on_conflict="vacuous")
    with pytest.raises(ValueError, match="read-only"):
        result.mass[0] = 0
    np.testing.assert_array_equal(first.mass, [[0.5, 0.5], [1, 0], [0, 1], [1, 0]])


GOOD = CredalPartition([[0.5, 0.25, 0.25]], FULL)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (combine, ValueError, "combine needs at least one source."),
        (combine_masses, ValueError, "combine needs at least one source."),
        (lambda: combine([GOOD, GOOD]), TypeError, "combine expects CredalPartition objects, got list."),
        (
            lambda: combine(GOOD, rule="smets"),
            ValueError,
            "'disjunctive', 'yager', 'dubois-prade', 'pcr6', 'cautious', 'mean'; got 'smets'.",
        ),
        (
            lambda: combine(GOOD, on_conflict="ignore"),
            ValueError,
            "on_conflict must be one of 'raise', 'vacuous', 'empty'; got 'ignore'.",
        ),
        (
            lambda: combine(GOOD, CredalPartition.from_labels([0], 3)),
            ValueError,
            "The frames differ: 3 and 2 clusters; refine them to a common frame first.",
        ),
        (
            lambda: combine(GOOD, CredalPartition.from_labels([0, 1])),
            ValueError,
            "Sources must have the same number of rows, but source 0 has 1 and source 1 has 2.",
        ),
        (
            lambda: combine_masses(([[0.5, 0.5, -0.1]], FULL)),
            ValueError,
            "mass must be non-negative, but entry (0, 2) is -0.1.",
        ),
        (
            lambda: combine(GOOD, CredalPartition.from_labels([0], 2), rule="cautious"),
            ValueError,
            "needs the full power set, but source 1 has 2 of the 3 sets; embed it in FocalSets.full(2) first.",
        ),
        (
            lambda: canonical_weights([[0, 0.5, 0.5]], FocalSets.singletons(2, empty=True)),
            ValueError,
            "canonical_weights needs the full power set, but mass has 2 of the 3 sets; embed it in FocalSets.full(2)",
        ),
        (
            lambda: canonical_weights([[1, 0, 0]], FULL),
            ValueError,
            "canonical_weights needs mass on the frame in every row, but mass has none in row 0; discount it first.",
        ),
        (
            lambda: combine(GOOD, CredalPartition([[0.5, 0.5, 0]], FULL), rule="cautious"),
            ValueError,
            "rule='cautious' needs mass on the frame in every row, but source 1 has none in row 0; discount it first.",
        ),
        (
            lambda: combine(CredalPartition([[0.5, 0.5, 0]], FULL), GOOD, rule="cautious"),
            ValueError,
            "but source 0 has none in row 0",
        ),
        (
            lambda: canonical_weights([[0.2, 0.3, 0.5], [0.5, 0.5, 0]], FULL),
            ValueError,
            "canonical_weights needs mass on the frame in every row, but mass has none in row 1; discount it first.",
        ),
        (
            lambda: combine(
                CredalPartition.from_labels([0, 1]),
                CredalPartition([[0, 1], [0.5, 0.5]], FocalSets.from_sets([set(), {0}], 2)),
                rule="pcr6",
            ),
            ValueError,
            "rule='pcr6' needs normalised masses, but source 1 has mass on the empty set in row 1; normalise it first.",
        ),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_pcr6_refuses_to_enumerate_for_ever(monkeypatch):
    monkeypatch.setattr(pcr6, "MAX_PRODUCTS", 8)
    message = (
        "rule='pcr6' would enumerate 9 combinations of sets; combine fewer sources at a time, use smaller families, "
        "or a rule that sums products such as 'dubois-prade'."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        combine(GOOD, GOOD, rule="pcr6")


def test_pcr6_ignores_an_empty_set_without_mass():
    loose = GOOD.over(FocalSets.full(2, empty=True))
    assert combine(loose, GOOD, rule="pcr6") == combine(GOOD, GOOD, rule="pcr6")


def test_dubois_prade_takes_two_large_power_sets(rng: np.random.Generator) -> None:
    n_clusters = 10
    focal = FocalSets.full(n_clusters)
    masses = rng.dirichlet(np.ones(len(focal)), size=(2, 1))
    mass = combine(*(CredalPartition(one, focal) for one in masses), rule="dubois-prade").mass[0]
    expected = np.zeros(2**n_clusters)
    for mask, weight in zip(focal.masks, masses[0, 0], strict=True):
        meets, joins = focal.masks & mask, focal.masks | mask
        np.add.at(expected, np.where(meets == 0, joins, meets), weight * masses[1, 0])
    np.testing.assert_allclose(mass, expected[1:], rtol=1e-12)


@pytest.mark.parametrize(("n_clusters", "n_sources", "n_products"), [(13, 2, 67_092_481), (12, 3, 16_769_025)])
def test_dubois_prade_refuses_what_would_take_minutes(n_clusters: int, n_sources: int, n_products: int) -> None:
    focal = FocalSets.full(n_clusters)
    source = CredalPartition(np.full((1, len(focal)), 1 / len(focal)), focal)
    expected = (
        f"rule='dubois-prade' would track {n_products} products of sets; combine fewer sources at a time, use "
        "smaller families, or a rule such as 'yager', which needs no unions."
    )
    with pytest.raises(ValueError, match=re.escape(expected)):
        combine(*[source] * n_sources, rule="dubois-prade")
