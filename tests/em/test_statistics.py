"""Sums over rows: they add, whatever the blocks, and stay exact far from the origin."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from egmm.em.statistics import Moments, Statistics, moments


def exact_moments(X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scatter in rational arithmetic."""
    rows = [[Fraction(float(x)) for x in row] for row in X]
    counts = [Fraction(float(w)) for w in weight]
    total = sum(counts)
    mean = [sum(w * row[d] for w, row in zip(counts, rows, strict=True)) / total for d in range(X.shape[1])]
    scatter = [
        [
            sum(w * (row[d] - mean[d]) * (row[e] - mean[e]) for w, row in zip(counts, rows, strict=True))
            for e in range(len(mean))
        ]
        for d in range(len(mean))
    ]
    return np.array(mean, dtype=float), np.array(scatter, dtype=float)


def about_mean(total: Moments) -> np.ndarray:
    """Scatter about the mean from the scatter about the rounded centre."""
    return total.scatter - np.outer(total.rest, total.rest) / total.weight


@pytest.mark.parametrize("offset", [0.0, 1e8, -3e12])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cuts", [[], [40], [1, 2, 50, 99]])
def test_moments_are_exact_far_from_the_origin_in_any_blocks(rng, offset, weighted, cuts) -> None:
    X = np.sort(rng.normal(size=(100, 3)) * [1, 5, 0.1], axis=0) + offset
    weight = rng.integers(0, 4, size=100).astype(float) if weighted else None
    parts = [None] * (len(cuts) + 1) if weight is None else np.split(weight, cuts)
    total = reduce(Moments.plus, map(moments, np.split(X, cuts), parts))
    mean, scatter = exact_moments(X, np.ones(100) if weight is None else weight)
    assert total.weight == (100 if weight is None else weight.sum())
    np.testing.assert_allclose(total.centre, mean, rtol=2e-16, atol=1e-15)
    np.testing.assert_allclose(about_mean(total), scatter, rtol=1e-13, atol=1e-13 * np.trace(scatter))
    # The scatter is about the centre as written, not about the mean it stands for.
    rows = X - total.centre
    np.testing.assert_allclose(
        total.scatter, rows.T @ (rows if weight is None else rows * weight[:, None]), atol=1e-12 * np.trace(scatter)
    )


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e8 + 0.1, -1e-20])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_constant_column_has_no_scatter_at_all(rng, value, weighted) -> None:
    X = np.column_stack([rng.normal(size=1000), np.full(1000, value)])
    weight = rng.random(1000) if weighted else None
    halves = [None, None] if weight is None else np.split(weight, 2)
    total = reduce(Moments.plus, map(moments, np.split(X, 2), halves))
    assert total.centre[1] == value
    assert not total.scatter[1].any()


def test_moments_of_single_precision_rows_are_summed_in_double(rng) -> None:
    X = rng.normal(1e4, 1, size=(5000, 2)).astype(np.float32)
    got, want = moments(X, None), moments(X.astype(np.float64), None)
    assert got.scatter.dtype == np.float64
    np.testing.assert_allclose(got.scatter, want.scatter, rtol=1e-14)
    np.testing.assert_allclose(got.centre, want.centre, rtol=1e-15)


def test_blocks_without_weight_do_not_count(rng) -> None:
    X = rng.normal(size=(30, 2))
    nothing = moments(X[:10], np.zeros(10))
    something = moments(X[10:], np.ones(20))
    for total in (nothing.plus(something), something.plus(nothing), nothing.plus(nothing).plus(something)):
        np.testing.assert_allclose(total.centre, X[10:].mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(about_mean(total), 19 * np.cov(X[10:].T), rtol=1e-13)


def test_infinite_entries_make_sums_that_are_not_finite(rng) -> None:
    X = rng.normal(size=(30, 2))
    X[3, 1], X[25, 1] = np.inf, -np.inf
    total = moments(X[:20], None).plus(moments(X[20:], None))
    assert not np.isfinite(total.scatter).all()


@pytest.mark.parametrize("scatter", [None, (3, 2), (3, 2, 2)])
def test_statistics_add_field_by_field(rng, scatter) -> None:
    def draw() -> Statistics:
        scatters = None if scatter is None else rng.random(scatter)
        return Statistics(rng.random(7), rng.random((3, 2)), scatters, rng.random())

    one, two = draw(), draw()
    both = one.plus(two)
    np.testing.assert_array_equal(both.set_counts, one.set_counts + two.set_counts)
    np.testing.assert_array_equal(both.cluster_sums, one.cluster_sums + two.cluster_sums)
    assert both.log_likelihood == one.log_likelihood + two.log_likelihood
    if scatter is None:
        assert both.cluster_scatters is None
    else:
        np.testing.assert_array_equal(both.cluster_scatters, one.cluster_scatters + two.cluster_scatters)
