import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief import oracles_belief as oracle
from belief.strategies import as_dicts, families, partitions, power_set_partitions, quick
from egmm import FocalSets
from egmm.belief import (
    belief,
    commonality,
    contour,
    mass_from_belief,
    mass_from_commonality,
    mass_from_plausibility,
    pignistic,
    plausibility,
    plausibility_transform,
    transforms,
)

SET_FUNCTIONS = {belief: oracle.belief, plausibility: oracle.plausibility, commonality: oracle.commonality}
INVERSES = {
    belief: mass_from_belief,
    plausibility: mass_from_plausibility,
    commonality: mass_from_commonality,
}
FULL = FocalSets.full(2)


@pytest.mark.parametrize("n_clusters", [4, 5, 7])
def test_small_plausibilities_keep_their_digits(n_clusters):
    focal = FocalSets.full(n_clusters)
    mass = np.zeros((1, len(focal)))
    for members, value in (({0}, 1.0), ({1}, 1e-20), ({1, 2}, 2e-20), ({3}, 5e-324)):
        mass[0, focal.index_of(members)] = value
    pl = plausibility(mass, focal)[0]
    for members, value in (({1}, 3e-20), ({2}, 2e-20), ({1, 3}, 3e-20), ({3}, 5e-324), ({0, 2}, 1.0)):
        assert pl[focal.index_of(members)] == pytest.approx(value, rel=1e-15, abs=0)
    assert (belief(mass, focal) <= pl[None]).all()


@pytest.mark.parametrize("function", SET_FUNCTIONS)
@pytest.mark.parametrize("fast", [False, True])
@given(st.data())
@quick
def test_set_functions_on_any_families(function, fast, data):
    [partition] = data.draw(partitions())
    n_clusters = partition.n_clusters
    at = FocalSets.full(n_clusters, empty=True) if fast else data.draw(families(n_clusters))
    expected = [[SET_FUNCTIONS[function](m, a) for a in at] for m in as_dicts(partition)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transforms, "_pays_fast", lambda *_: fast)
        np.testing.assert_allclose(function(partition.mass, partition.focal_sets, at), expected, atol=1e-14)


def test_the_fast_way_is_taken_when_it_pays():
    rng = np.random.default_rng(0)
    focal = FocalSets.full(6, empty=True)
    mass = rng.dirichlet(np.ones(64), 3)
    assert transforms._pays_fast(focal, focal)
    assert not transforms._pays_fast(FocalSets.singletons(6), focal)
    assert not transforms._pays_fast(focal, FocalSets.singletons(6))
    masks = np.arange(64)
    is_subset = (masks[:, None] & masks) == masks[:, None]
    is_subset[0] = False
    np.testing.assert_allclose(belief(mass, focal), mass @ is_subset, atol=1e-14)
    np.testing.assert_allclose(plausibility(mass, focal), mass @ ((masks[:, None] & masks) != 0), atol=1e-14)
    np.testing.assert_allclose(commonality(mass, focal), mass @ ((masks[:, None] & masks) == masks), atol=1e-14)


def test_own_family_is_the_default():
    np.testing.assert_allclose(belief([[0.3, 0.7]], FocalSets.from_sets([{0}, {0, 1}], 2)), [[0.3, 1.0]])


@pytest.mark.parametrize("function", INVERSES)
@given(st.data(), st.booleans())
@quick
def test_inverses_round_trip(function, data, empty):
    [partition] = data.draw(power_set_partitions(empty=empty, max_clusters=5))
    mass, focal = partition.mass, partition.focal_sets
    np.testing.assert_allclose(INVERSES[function](function(mass, focal), focal), mass, atol=1e-12)


@given(partitions())
@quick
def test_probabilities_by_definition(sources):
    [partition] = sources
    mass, focal, n_clusters = partition.mass, partition.focal_sets, partition.n_clusters
    rows = as_dicts(partition)
    expected = [[oracle.pignistic(m, k, n_clusters) for k in range(n_clusters)] for m in rows]
    np.testing.assert_allclose(pignistic(mass, focal), expected, atol=1e-13)
    pl = np.array([[oracle.plausibility(m, frozenset({k})) for k in range(n_clusters)] for m in rows])
    np.testing.assert_allclose(contour(mass, focal), pl, atol=1e-14)
    total = pl.sum(axis=1, keepdims=True)
    expected = np.where(total > 0, pl / np.where(total > 0, total, 1), 1 / n_clusters)
    np.testing.assert_allclose(plausibility_transform(mass, focal), expected, atol=1e-14)


@given(partitions(empty=False))
@quick
def test_belief_bounds_the_pignistic_probability(sources):
    [partition] = sources
    bel, betp, pl = partition.belief(), partition.pignistic(), partition.plausibility()
    assert np.all(bel <= betp + 1e-14)
    assert np.all(betp <= pl + 1e-14)
    np.testing.assert_allclose(betp.sum(axis=1), 1)


def test_all_mass_on_the_empty_set():
    focal = FocalSets.full(3, empty=True)
    mass = np.eye(8)[:1]
    np.testing.assert_array_equal(pignistic(mass, focal), np.full((1, 3), 1 / 3))
    np.testing.assert_array_equal(plausibility_transform(mass, focal), np.full((1, 3), 1 / 3))
    np.testing.assert_array_equal(contour(mass, focal), np.zeros((1, 3)))


def test_no_rows():
    for function in (belief, plausibility, commonality, contour, pignistic, plausibility_transform):
        assert len(function(np.zeros((0, 3)), FULL)) == 0


@pytest.mark.parametrize("function", [belief, plausibility, commonality, contour, pignistic, plausibility_transform])
def test_bad_masses_are_refused(function):
    with pytest.raises(ValueError, match=re.escape("mass rows must sum to 1 within 1e-8; row 0 sums to 0.9.")):
        function([[0.5, 0.1, 0.3]], FULL)


@pytest.mark.parametrize("function", SET_FUNCTIONS)
def test_bad_targets_are_refused(function):
    with pytest.raises(ValueError, match="The frames differ: 2 and 3 clusters"):
        function([[0.5, 0.1, 0.4]], FULL, FocalSets.full(3))
    with pytest.raises(TypeError, match="focal_sets must be a FocalSets, got str"):
        function([[0.5, 0.1, 0.4]], FULL, "full")


def test_what_is_said_of_the_empty_set_s_belief_is_not_read():
    np.testing.assert_allclose(mass_from_belief([[9, 0.5, 0.25, 1]], FULL.with_empty()), [[0, 0.5, 0.25, 0.25]])


@pytest.mark.parametrize(
    ("inverse", "name", "symbol"),
    [(mass_from_belief, "bel", "Bel"), (mass_from_plausibility, "pl", "Pl"), (mass_from_commonality, "q", "Q")],
)
def test_inverses_explain_themselves(inverse, name, symbol):
    message = (
        f"{name} must be given on every subset of the frame to recover masses, got 2 of 3 sets; use FocalSets.full(2)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        inverse([[0.5, 0.5]], FocalSets.singletons(2))
    with pytest.raises(ValueError, match=re.escape(message)):
        inverse([[0.0, 0.5, 0.5]], FocalSets.singletons(2, empty=True))
    message = (
        f"{symbol} leaves mass 0.4 on the empty set in row 0, which is not in the family; "
        "pass focal.with_empty() and its column."
    )
    values = {"bel": [[0.5, 0.1, 0.6]], "pl": [[0.5, 0.1, 0.6]], "q": [[0.5, 0.1, 0.0]]}[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        inverse(values, FULL)
    # Sums above one leave less than nothing, here in the second row alone.
    good, excess = {
        "bel": ([0.5, 0.1, 1.0], [0.5, 0.1, 1.2]),
        "pl": ([0.5, 0.8, 1.0], [0.5, 0.8, 1.2]),
        "q": ([0.5, 0.6, 0.1], [0.6, 0.7, 0.1]),
    }[name]
    with pytest.raises(ValueError, match=re.escape(f"{symbol} leaves mass -0.2 on the empty set in row 1, which")):
        inverse([good, excess], FULL)
    with pytest.raises(ValueError, match=re.escape(f"{name} must have shape (n, 3), got (1, 2).")):
        inverse([[0.5, 0.5]], FULL)
