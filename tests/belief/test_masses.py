import re

import numpy as np
import pytest

from egmm import FocalSets
from egmm.belief import check_mass, combine_masses, conflict, contour, embed, hurwicz, outliers, with_rejection
from egmm.belief.masses import joint_family, transport

FULL = FocalSets.full(2)


def test_good_masses_pass_as_they_are():
    mass = np.array([[0.5, 0.25, 0.25]])
    assert check_mass(mass, FULL) is mass
    assert check_mass(np.zeros((0, 3)), FULL).shape == (0, 3)
    assert check_mass([[0, 1, 0]], FULL).dtype == np.float64
    assert check_mass(np.array([[0.5, 0.25, 0.25]], dtype=np.float32), FULL).dtype == np.float64


def test_row_sums_may_be_off_by_rounding():
    check_mass([[0.5, 0.5 - 9e-9, 0]], FULL)


@pytest.mark.parametrize(
    ("mass", "error", "message"),
    [
        (
            [[0.5, 0.25, 0.25]] * 3 + [[0.5, 0.25, 0.22]],
            ValueError,
            "mass rows must sum to 1 within 1e-8; row 3 sums to 0.97.",
        ),
        ([[1, 0, 0], [1.5, 0, 0]], ValueError, "mass rows must sum to 1 within 1e-8; row 1 sums to 1.5."),
        ([[0.5, 0.5 - 2e-8, 0]], ValueError, "mass rows must sum to 1 within 1e-8; row 0 sums to 0.99999998."),
        ([[1, 0, 0], [1.1, -0.1, 0]], ValueError, "mass must be non-negative, but entry (1, 1) is -0.1."),
        ([[1, 0, -1e-18]], ValueError, "mass must be non-negative, but entry (0, 2) is -1e-18."),
        ([[1, np.nan, 0]], ValueError, "mass must be finite, but entry (0, 1) is nan."),
        ([[1, np.inf, 0]], ValueError, "mass must be finite, but entry (0, 1) is inf."),
        ([[-np.inf, np.inf, 1]], ValueError, "mass must be finite, but entry (0, 0) is -inf."),
        ([[0.5, 0.5]], ValueError, "mass must have shape (n, 3), got (1, 2)."),
        ([1.0, 0, 0], ValueError, "mass must have shape (n, 3), got (3,)."),
        (1.0, ValueError, "mass must have shape (n, 3), got ()."),
        ([["a", "b", "c"]], TypeError, "mass must be numeric, got an array of dtype <U1."),
        ([[1j, 0, 0]], TypeError, "mass must be numeric, got an array of dtype complex128."),
        ([[None, 0, 0]], TypeError, "mass must be numeric, got an array of dtype object."),
    ],
)
def test_bad_masses(mass, error, message):
    with pytest.raises(error, match=re.escape(message)):
        check_mass(mass, FULL)


@pytest.mark.parametrize("mass", [[[1.0]], [[1]], np.float32([[1]])])
@pytest.mark.parametrize(
    "function",
    [
        check_mass,
        contour,
        hurwicz,
        outliers,
        lambda mass, focal: embed(mass, focal, FULL),
        lambda mass, focal: with_rejection(mass, focal, 0.5, "belief"),
    ],
)
def test_family_must_be_one(function, mass):
    with pytest.raises(
        TypeError, match=re.escape("focal_sets must be a FocalSets, got list; FocalSets.of(...) builds one.")
    ):
        function(mass, [{0}])


@pytest.mark.parametrize("source", [[[1, 0, 0]], FULL, None, ([[1, 0, 0]],)])
@pytest.mark.parametrize("function", [combine_masses, lambda source: conflict(([[1, 0, 0]], FULL), source)])
def test_a_source_is_a_pair(function, source):
    with pytest.raises(TypeError, match=r"a source must be a pair \(mass, focal_sets\), got \w+\."):
        function(source)


def test_embed_moves_columns_to_their_sets():
    focal = FocalSets.from_sets([set(), {1}, {0, 1}], 2)
    np.testing.assert_array_equal(
        embed(np.array([[0.1, 0.2, 0.7]]), focal, FocalSets.full(2, empty=True)), [[0.1, 0, 0.2, 0.7]]
    )


def test_embed_may_drop_sets_without_mass():
    np.testing.assert_array_equal(embed(np.array([[0.4, 0.6, 0.0]]), FULL, FocalSets.singletons(2)), [[0.4, 0.6]])


def test_embed_refuses_to_lose_mass():
    message = "{1,2} carries mass in row 1 but is not among the focal sets of the new family."
    with pytest.raises(ValueError, match=re.escape(message)):
        embed(np.array([[1, 0, 0], [0, 0, 1.0]]), FULL, FocalSets.singletons(2))
    with pytest.raises(ValueError, match="The frames differ: 2 and 3 clusters"):
        embed(np.array([[1, 0, 0.0]]), FULL, FocalSets.full(3))
    with pytest.raises(ValueError, match=re.escape("mass must have shape (n, 3), got (1, 2).")):
        embed([[1, 0]], FULL, FULL)
    with pytest.raises(TypeError, match="focal_sets must be a FocalSets, got str"):
        embed([[1, 0, 0]], FULL, "full")


def test_joint_family_and_transport():
    assert joint_family(FocalSets.singletons(2), FocalSets.from_sets([set(), {0}], 2)).labels == ("∅", "{1}", "{2}")
    mass, focal = transport(np.array([[0.1, 0.2, 0.7]]), np.array([3, 1, 3]), 2)
    assert focal.labels == ("{1}", "{1,2}")
    np.testing.assert_allclose(mass, [[0.2, 0.8]])
