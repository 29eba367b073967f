"""Sums over rows: they add, whatever the blocks, and stay exact far from the origin."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from egmm.em.statistics import (
    DIAGONAL,
    FULL,
    LINEAR,
    Moments,
    Statistics,
    Units,
    moments,
    monomials,
    products,
)


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


@pytest.mark.parametrize("n_monomials", [3, 5, 6])
def test_statistics_add_field_by_field_and_scale(rng, n_monomials) -> None:
    def draw() -> Statistics:
        shapes = (4, 7), (4, 3, n_monomials), (4, 2), (4,), (4, 9)
        return Statistics(*(rng.random(shape) for shape in shapes))

    one, two = draw(), draw()
    both, twice = one.plus(two), one.times(2.0)
    for name in Statistics._fields:
        np.testing.assert_array_equal(getattr(both, name), getattr(one, name) + getattr(two, name))
        np.testing.assert_array_equal(getattr(twice, name), 2 * getattr(one, name))
    np.testing.assert_array_equal(both.cluster_counts, one.sums[:, :, 0] + two.sums[:, :, 0])


@pytest.mark.parametrize("dim", [1, 2, 4])
@pytest.mark.parametrize("kind", [LINEAR, DIAGONAL, FULL])
def test_monomials_are_one_the_entries_and_their_products(rng, dim, kind) -> None:
    X = rng.normal(size=(6, dim))
    pairs = {
        LINEAR: [],
        DIAGONAL: [(d, d) for d in range(dim)],
        FULL: [(d, e) for d in range(dim) for e in range(d, dim)],
    }[kind]
    assert list(zip(*products(dim, kind), strict=True)) == pairs
    for row, found in zip(X, monomials(X, kind), strict=True):
        np.testing.assert_array_equal(found, [1.0, *row, *(row[d] * row[e] for d, e in pairs)])


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_about_another_centre_are_those_of_the_loop(rng, diagonal, weighted) -> None:
    X, weight = rng.normal(size=(50, 3)) + 5, rng.random(50) if weighted else None
    centre = np.array([4.0, 5.5, -2.0])
    counts = np.ones(50) if weight is None else weight
    want = sum(w * np.outer(x - centre, x - centre) for w, x in zip(counts, X, strict=True))
    got = moments(X, weight, diagonal=diagonal).about(centre)
    np.testing.assert_allclose(got.scatter, np.diag(want) if diagonal else want, rtol=1e-12)
    np.testing.assert_allclose(got.rest, counts @ (X - centre), rtol=1e-12)
    np.testing.assert_allclose(got.variances, np.diag(want) / counts.sum(), rtol=1e-12)


# Units -----------------------------------------------------------------------------------------------------------


def test_scales_are_powers_of_two_near_the_deviations(rng) -> None:
    X = rng.normal(size=(200, 4)) * [1e-9, 0.7, 40.0, 1e12] + [0.0, 3.0, -8.0, 1e13]
    units = Units.of(moments(X, None))
    exponents = np.log2(units.scale)
    np.testing.assert_array_equal(exponents, exponents.round())
    np.testing.assert_allclose(X.std(axis=0) / units.scale, 1.0, atol=0.5)
    rows = units.rows(X)
    np.testing.assert_array_equal(rows * units.scale, X - units.centre)
    assert units.log_volume == pytest.approx(np.log(units.scale).sum())


@pytest.mark.parametrize("variance", [0.0, np.nan, np.inf])
def test_a_feature_without_variance_keeps_its_unit(variance) -> None:
    assert Units.near(np.zeros(2), np.array([4.0, variance])).scale.tolist() == [2.0, 1.0]


def test_covariances_go_into_units_and_back_without_rounding(rng) -> None:
    units = Units(np.zeros(3), np.array([2.0**-20, 1.0, 2.0**9]))
    root = rng.normal(size=(5, 3, 3))
    full = root @ np.swapaxes(root, 1, 2)
    variances = np.einsum("kdd->kd", full)
    want = np.array([[full[:, d, e] / units.scale[d] / units.scale[e] for e in range(3)] for d in range(3)])
    np.testing.assert_array_equal(units.covariances_in(full, diagonal=False), np.moveaxis(want, 2, 0))
    np.testing.assert_array_equal(units.covariances_in(variances, diagonal=True), np.einsum("ddk->kd", want))
    for one, diagonal in ((full, False), (variances, True)):
        back = units.covariances_out(units.covariances_in(one, diagonal=diagonal), diagonal=diagonal)
        np.testing.assert_array_equal(back, one)
