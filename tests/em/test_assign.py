"""What a mixture says of rows, against loops over rows and sets."""

from dataclasses import replace

import numpy as np
import pytest

from egmm.em import assign
from egmm.em.parameters import precision_factors
from egmm.rows.source import UnusableRowsError


def factor_of(covariance):
    return precision_factors(covariance[None, None], diagonal=False).factors[0, 0]


@pytest.fixture(params=["shared", "full"])
def case(request, rng, mixture, model_of):
    truth = mixture("pairs", 4, 3, request.param)
    X = truth.means[rng.integers(4, size=90)] + rng.normal(size=(90, 3))
    return truth, X, model_of(truth, truth.means.mean(axis=0))


def test_rows_get_their_masses_and_what_follows_from_them(case, backend) -> None:
    truth, X, model = case
    mass, betp = truth.masses(X), truth.pignistic(X)
    np.testing.assert_allclose(assign.masses(X, None, model, backend), mass, atol=1e-12)
    np.testing.assert_allclose(assign.pignistics(X, None, model, backend), betp, atol=1e-12)
    np.testing.assert_allclose(assign.log_densities(X, None, model, backend), truth.log_densities(X), rtol=1e-11)
    np.testing.assert_array_equal(assign.heaviest(X, None, model, backend), mass.argmax(axis=1))
    np.testing.assert_array_equal(assign.labels(X, None, model, backend), betp.argmax(axis=1))


@pytest.mark.parametrize("weighted", [False, True])
def test_similar_clusters_are_plausible_together(rng, case, backend, weighted) -> None:
    truth, X, model = case
    weight = rng.random(len(X)) if weighted else np.ones(len(X))
    expected = np.zeros((4, 4))
    for w, mass in zip(weight, truth.masses(X), strict=True):
        plausibility = [sum(m for m, members in zip(mass, truth.sets, strict=True) if k in members) for k in range(4)]
        expected += w * np.outer(plausibility, plausibility)
    function = assign.plausibility_products
    got = function(X[:40], weight[:40] if weighted else None, model, backend).plus(
        function(X[40:], weight[40:] if weighted else None, model, backend)
    )
    np.testing.assert_allclose(got.values, expected, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_totals_are_sums_over_rows(rng, case, backend, weighted) -> None:
    truth, X, model = case
    weight = rng.random(len(X)) if weighted else np.ones(len(X))
    entropies = [-sum(m * np.log(m) for m in mass if m > 0) for mass in truth.masses(X)]
    got = assign.totals(X[:40], weight[:40] if weighted else None, model, backend).plus(
        assign.totals(X[40:], weight[40:] if weighted else None, model, backend)
    )
    assert got.log_likelihood == pytest.approx(truth.log_likelihood(X, weight), rel=1e-11)
    assert got.entropy == pytest.approx(weight @ entropies, rel=1e-9)
    assert got.weight == pytest.approx(weight.sum(), rel=1e-14)


def test_distances_are_to_the_nearest_component(rng, case) -> None:
    truth, X, _ = case
    components = [truth.component(j) for j in range(len(truth.sets))]
    means, within = np.array([mean for mean, _ in components]), np.stack([spread for _, spread in components])
    got = assign.squared_distances(X, None, means, within, "VVV")
    expected = [min((x - mean) @ np.linalg.solve(spread, x - mean) for mean, spread in components) for x in X]
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_a_row_too_far_for_any_density_is_refused(case, model_of, backend) -> None:
    # Each entry can be squared; over variances of 1e-20 its square is infinite.
    truth, X, _ = case
    truth = replace(truth, means=1e-10 * truth.means, covariances=1e-20 * truth.covariances)
    rows = np.vstack([1e-10 * X[:5], [[1e149, 0.0, 0.0]], 1e-10 * X[5:9]])
    model = model_of(truth)
    within = np.stack([truth.component(j)[1] for j in range(len(truth.sets))])
    asks = [
        lambda rows: assign.log_densities(rows, None, model, backend),
        lambda rows: assign.totals(rows, None, model, backend),
        lambda rows: assign.squared_distances(rows, None, np.zeros((len(within), 3)), within, "VVV"),
    ]
    if model.kind == "linear":
        # With one covariance the nearest clusters are known from slopes alone.
        np.testing.assert_allclose(assign.masses(rows, None, model, backend).sum(axis=1), 1.0)
    else:
        asks.append(lambda rows: assign.masses(rows, None, model, backend))
    for ask in asks:
        ask(np.delete(rows, 5, axis=0))
        with pytest.raises(UnusableRowsError, match="too far from every cluster"):
            ask(rows)
