import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief.strategies import quick
from egmm.belief import moebius, subset_differences, subset_sums, superset_differences, superset_sums


@given(st.integers(0, 6), st.integers(0, 4), st.integers(0, 2**32 - 1))
@quick
def test_sums_by_definition_and_round_trips(n_clusters, n_rows, seed):
    values = np.random.default_rng(seed).normal(size=(n_rows, 2**n_clusters))
    masks = np.arange(2**n_clusters)
    is_subset = (masks[:, None] & masks) == masks[:, None]
    below, above = subset_sums(values), superset_sums(values)
    np.testing.assert_allclose(below, values @ is_subset, atol=1e-12)
    np.testing.assert_allclose(above, values @ is_subset.T, atol=1e-12)
    np.testing.assert_allclose(moebius.meeting_sums(values), values @ ((masks[:, None] & masks) != 0), atol=1e-12)
    np.testing.assert_allclose(subset_differences(below), values, atol=1e-12)
    np.testing.assert_allclose(superset_differences(above), values, atol=1e-12)


def test_rows_do_not_depend_on_blocks(monkeypatch):
    values = np.random.default_rng(0).normal(size=(50, 8))
    whole = [transform(values) for transform in (subset_sums, moebius.meeting_sums)]
    monkeypatch.setattr(moebius, "_BLOCK_BYTES", 1)
    np.testing.assert_array_equal([transform(values) for transform in (subset_sums, moebius.meeting_sums)], whole)


def test_the_argument_is_left_alone():
    values = np.ones((2, 4))
    subset_sums(values)
    superset_differences(values)
    moebius.meeting_sums(values)
    np.testing.assert_array_equal(values, np.ones((2, 4)))


@pytest.mark.parametrize("transform", [subset_sums, subset_differences, superset_sums, superset_differences])
@pytest.mark.parametrize("n_columns", [0, 3, 7])
def test_columns_must_be_a_power_set(transform, n_columns):
    message = f"values must have 2**n_clusters columns, the empty set first, got {n_columns}."
    with pytest.raises(ValueError, match=re.escape(message)):
        transform(np.zeros((2, n_columns)))
