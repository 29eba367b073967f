"""The E-step of every engine against loops over rows and sets."""

import numpy as np
import pytest

from egmm.em import estep
from egmm.em.statistics import Statistics, moments

FAMILIES = ["full", "pairs", "simple", "singletons", [{0}, {1, 2}, {0, 2, 3}]]


def rows_about(truth, rng, n: int) -> np.ndarray:
    return truth.means[rng.integers(len(truth.means), size=n)] + 1.5 * rng.normal(size=(n, truth.means.shape[1]))


def expected(truth, X, weight, centre, scatter) -> Statistics:
    """Sums over rows, one row at a time."""
    mass, betp = truth.masses(X), truth.pignistic(X)
    weight = np.ones(len(X)) if weight is None else weight
    rows = X - centre
    counts = sum(w * m for w, m in zip(weight, mass, strict=True))
    sums = sum(w * np.outer(r, x) for w, r, x in zip(weight, betp, rows, strict=True))
    outer = {
        "none": lambda x: None,
        "diagonal": lambda x: x**2,
        "full": lambda x: np.outer(x, x),
    }[scatter]
    scatters = None
    if scatter != "none":
        scatters = np.stack(
            [sum(w * r[k] * outer(x) for w, r, x in zip(weight, betp, rows, strict=True)) for k in range(betp.shape[1])]
        )
    return Statistics(counts, sums, scatters, truth.log_likelihood(X, weight))


def assert_same(got: Statistics, want: Statistics, scale: float, rtol: float = 1e-11) -> None:
    np.testing.assert_allclose(got.set_counts, want.set_counts, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(got.cluster_sums, want.cluster_sums, rtol=rtol, atol=rtol * scale)
    if want.cluster_scatters is None:
        assert got.cluster_scatters is None
    else:
        np.testing.assert_allclose(got.cluster_scatters, want.cluster_scatters, rtol=rtol, atol=rtol * scale)
    assert got.log_likelihood == pytest.approx(want.log_likelihood, rel=rtol)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("covariances", ["shared", "full"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_the_loops(engine, rng, mixture, model_of, family, covariances, weighted) -> None:
    truth = mixture(family, 4, 3, covariances)
    X = rows_about(truth, rng, 75)
    weight = rng.integers(0, 4, 75) * 0.5 if weighted else None
    about = moments(X, weight)
    model = model_of(truth, about.centre)
    got = engine.prepare(model, "none")(X, weight)
    total = estep.log_likelihood(got, model, about)
    assert_same(got._replace(log_likelihood=total), expected(truth, X, weight, about.centre, "none"), 75)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize(("covariances", "scatter"), [("shared", "none"), ("diagonal", "diagonal"), ("full", "full")])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_entropy_of_the_masses_follows_from_the_sums(
    engine, rng, mixture, model_of, family, covariances, scatter, weighted
) -> None:
    truth = mixture(family, 4, 3, covariances)
    X = rows_about(truth, rng, 75)
    weight = rng.integers(0, 4, 75) * 0.5 if weighted else None
    model = model_of(truth, moments(X, weight).centre)
    entropies = [-sum(m * np.log(m) for m in mass if m > 0) for mass in truth.masses(X)]
    got = estep.entropy(engine.prepare(model, scatter)(X, weight), model)
    assert got == pytest.approx(np.dot(np.ones(75) if weight is None else weight, entropies), rel=1e-10, abs=1e-11)


# Diagonal second moments are for diagonal covariances, and for a shared one, which reads none.
SCATTERS = [
    *[("shared", scatter) for scatter in ("diagonal", "full")],
    *[("full", scatter) for scatter in ("none", "full")],
    *[("diagonal", scatter) for scatter in ("none", "diagonal", "full")],
]


@pytest.mark.parametrize(("covariances", "scatter"), SCATTERS)
@pytest.mark.parametrize("dim", [1, 2, 4, 7, 8, 9])
def test_second_moments_are_those_asked_for(engine, rng, mixture, model_of, covariances, scatter, dim) -> None:
    truth = mixture("full", 3, dim, covariances)
    X = rows_about(truth, rng, 70)
    weight = rng.random(70)
    about = moments(X, weight)
    model = model_of(truth, about.centre)
    got = engine.prepare(model, scatter)(X, weight)
    total = estep.log_likelihood(got, model, about)
    assert_same(got._replace(log_likelihood=total), expected(truth, X, weight, about.centre, scatter), 70 * dim)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("covariances", ["shared", "full"])
def test_masses_and_densities_are_those_of_scipy(engine, rng, mixture, model_of, family, covariances) -> None:
    truth = mixture(family, 4, 3, covariances)
    X = rows_about(truth, rng, 130)
    mass, log_density = engine.masses(X, model_of(truth, truth.means.mean(axis=0)))
    np.testing.assert_allclose(mass, truth.masses(X), atol=1e-12)
    np.testing.assert_allclose(mass.sum(axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(log_density, truth.log_densities(X), rtol=1e-11)


@pytest.mark.parametrize("covariances", ["shared", "full"])
def test_the_centre_changes_nothing(engine, rng, mixture, model_of, covariances) -> None:
    truth = mixture("pairs", 4, 3, covariances)
    X = rows_about(truth, rng, 65)
    here, there = (engine.masses(X, model_of(truth, centre)) for centre in (np.zeros(3), np.array([3.0, -20.0, 5.0])))
    np.testing.assert_allclose(here[0], there[0], atol=1e-12)
    np.testing.assert_allclose(here[1], there[1], rtol=1e-11)


def test_single_precision_rows_are_summed_in_double(engine, rng, mixture, model_of) -> None:
    truth = mixture("full", 3, 4)
    X = rows_about(truth, rng, 200).astype(np.float32)
    model = model_of(truth, truth.means.mean(axis=0))
    got = engine.prepare(model, "full")(X, None)
    want = engine.prepare(model, "full")(X.astype(np.float64), None)
    assert_same(got, want, 200, rtol=1e-14)
    np.testing.assert_allclose(engine.masses(X, model)[0], engine.masses(X.astype(np.float64), model)[0], atol=1e-15)


def test_rows_without_weight_do_not_count_and_weights_scale(engine, rng, mixture, model_of) -> None:
    truth = mixture("pairs", 4, 2)
    X = rows_about(truth, rng, 90)
    run = engine.prepare(model_of(truth), "full")
    weight = np.where(np.arange(90) % 3 == 0, 0.0, 1.0)
    assert_same(run(X, weight), run(X[weight > 0], None), 90, rtol=1e-13)
    counts = rng.integers(0, 4, 90)
    assert_same(run(X, counts.astype(float)), run(np.repeat(X, counts, axis=0), None), 180, rtol=1e-13)


def test_one_cluster_has_all_the_mass(engine, rng, mixture, model_of) -> None:
    truth = mixture("full", 1, 3)
    X = rng.normal(size=(10, 3))
    got = engine.prepare(model_of(truth), "none")(X, None)
    assert got.set_counts == pytest.approx([10])
    np.testing.assert_allclose(got.cluster_sums, X.sum(axis=0)[None], rtol=1e-13)


@pytest.mark.parametrize("spread", [1e2, 1e3, 1e4])
def test_clusters_far_apart_neither_under_nor_overflow(engine, rng, mixture, model_of, spread) -> None:
    truth = mixture("full", 3, 2, spread=spread)
    X = np.concatenate([rows_about(truth, rng, 60), [truth.means.mean(axis=0)]])
    mass, log_density = engine.masses(X, model_of(truth, X.mean(axis=0)))
    # Scores are of the size of the squared distances, so round-off is their last digit.
    digits = np.finfo(float).eps * 100 * spread**2
    np.testing.assert_allclose(mass, truth.masses(X), atol=max(digits, 1e-12))
    np.testing.assert_allclose(log_density, truth.log_densities(X), rtol=1e-11, atol=max(digits, 1e-12))


def test_a_set_without_weight_gets_no_mass(engine, rng, mixture, model_of) -> None:
    truth = mixture("full", 3, 2)
    truth.weights[[0, 5]] = 0
    X = rows_about(truth, rng, 70)
    mass, _ = engine.masses(X, model_of(truth))
    assert not mass[:, [0, 5]].any()
    np.testing.assert_allclose(mass, truth.masses(X), atol=1e-13)
