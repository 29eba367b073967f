"""The E-step of every engine against loops over rows and sets."""

import numpy as np
import pytest

from egmm.em import estep
from egmm.em.parameters import Components, concatenated
from egmm.em.statistics import Statistics, monomials, products

FAMILIES = ["full", "pairs", "simple", "singletons", [{0}, {1, 2}, {0, 2, 3}]]
KINDS = ["shared", "shared diagonal", "full", "diagonal"]
SCALE = np.array([0.5, 4.0, 1.0, 2.0, 0.25, 1.0, 8.0, 1.0, 2.0])


def rows_about(truth, rng, n: int) -> np.ndarray:
    return truth.means[rng.integers(len(truth.means), size=n)] + 1.5 * rng.normal(size=(n, truth.means.shape[1]))


def read(model_of, truth, kind, X):
    """The code's form of a mixture, in units that differ from the rows' own."""
    dim = X.shape[1]
    return model_of(truth, X.mean(axis=0), SCALE[:dim], diagonal=kind.endswith("diagonal"))


def expected(truth, X, weight, model) -> Statistics:
    """Sums over rows, one row at a time."""
    mass, betp = truth.masses(X), truth.pignistic(X)
    weight = np.ones(len(X)) if weight is None else weight
    rows = (X - model.units.centre) / model.units.scale
    pairs = list(zip(*products(X.shape[1], model.kind), strict=True))
    z = [np.array([1.0, *x, *(x[d] * x[e] for d, e in pairs)]) for x in rows]
    counts = sum(w * m for w, m in zip(weight, mass, strict=True))
    sums = sum(w * np.outer(r, x) for w, r, x in zip(weight, betp, z, strict=True))
    log_likelihood = np.array([truth.log_likelihood(X, weight)])
    return Statistics(counts[None], sums[None], np.empty((1, 0)), log_likelihood)


def absolute(statistics, model, X, weight) -> Statistics:
    """The same with the total log-likelihood in the units of the rows."""
    weight = np.ones(len(X)) if weight is None else weight
    rows = (X - model.units.centre) / model.units.scale
    scatter = ((rows.T * weight) @ rows)[None]
    total = estep.log_likelihood(statistics, model.model, np.array([weight.sum()]), scatter)
    return statistics._replace(log_likelihood=total - weight.sum() * np.log(model.units.scale).sum())


def assert_same(got: Statistics, want: Statistics, scale: float, rtol: float = 1e-11) -> None:
    for mine, theirs in zip(got[:4], want[:4], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_the_loops(engine, rng, mixture, model_of, family, kind, weighted) -> None:
    truth = mixture(family, 4, 3, kind)
    X = rows_about(truth, rng, 75)
    weight = rng.integers(0, 4, 75) * 0.5 if weighted else None
    model = read(model_of, truth, kind, X)
    got = absolute(engine.e_step(X, weight, model), model, X, weight)
    assert_same(got, expected(truth, X, weight, model), 75)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_entropy_of_the_masses_follows_from_the_sums(
    engine, rng, mixture, model_of, family, kind, weighted
) -> None:
    truth = mixture(family, 4, 3, kind)
    X = rows_about(truth, rng, 75)
    weight = rng.integers(0, 4, 75) * 0.5 if weighted else None
    model = read(model_of, truth, kind, X)
    entropies = [-sum(m * np.log(m) for m in mass if m > 0) for mass in truth.masses(X)]
    got = estep.entropy(engine.e_step(X, weight, model), model.model)
    want = np.dot(np.ones(75) if weight is None else weight, entropies)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 2, 4, 7, 8, 9])
def test_moments_are_those_of_any_number_of_features(engine, rng, mixture, model_of, kind, dim) -> None:
    truth = mixture("full", 3, dim, kind)
    X = rows_about(truth, rng, 70)
    weight = rng.random(70)
    model = read(model_of, truth, kind, X)
    got = absolute(engine.e_step(X, weight, model), model, X, weight)
    assert_same(got, expected(truth, X, weight, model), 70 * dim * 16)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_masses_and_densities_are_those_of_scipy(engine, rng, mixture, model_of, family, kind) -> None:
    truth = mixture(family, 4, 3, kind)
    X = rows_about(truth, rng, 130)
    mass, log_density = engine.masses(X, read(model_of, truth, kind, X))
    np.testing.assert_allclose(mass, truth.masses(X), atol=1e-12)
    np.testing.assert_allclose(mass.sum(axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(log_density, truth.log_densities(X), rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_the_units_change_nothing(engine, rng, mixture, model_of, kind) -> None:
    truth = mixture("pairs", 4, 3, kind)
    X, diagonal = rows_about(truth, rng, 65), kind.endswith("diagonal")
    here, there = (
        engine.masses(X, model_of(truth, np.array(centre), np.array(scale), diagonal=diagonal))
        for centre, scale in (([0.0, 0, 0], [1.0, 1, 1]), ([3.0, -20, 5], [8.0, 0.5, 64]))
    )
    np.testing.assert_allclose(here[0], there[0], atol=1e-11)
    np.testing.assert_allclose(here[1], there[1], rtol=1e-11)


def stacked(models) -> Components:
    """Several mixtures as one batch."""
    return concatenated([one.model for one in models])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [1, 50, 10**6])
def test_a_batch_is_its_fits_whatever_the_chunks(rng, mixture, model_of, monkeypatch, kind, chunk) -> None:
    truths = [mixture("pairs", 4, 3, kind, spread=spread) for spread in (1.0, 2.0, 5e3)]
    models = [model_of(truth, diagonal=kind.endswith("diagonal")) for truth in truths]
    assert [bool(one.model.is_far[0]) for one in models] == [False, False, True]
    X = np.concatenate([rows_about(truth, rng, 40) for truth in truths])
    z, weights = monomials(X, models[0].kind), rng.random((3, 120))
    alone = [estep.e_step(z, weight, one.model, one.shares) for one, weight in zip(models, weights, strict=True)]
    monkeypatch.setattr(estep, "CHUNK_ENTRIES", chunk)
    monkeypatch.setattr(estep, "LEAST_CHUNK", 7)
    together = estep.e_step(z, weights, stacked(models), models[0].shares)
    for name in Statistics._fields[:4]:
        for at, one in enumerate(alone):
            want = getattr(one, name)[0]
            atol = 1e-12 * np.abs(want).max(initial=0)
            np.testing.assert_allclose(getattr(together, name)[at], want, rtol=1e-12, atol=atol)


def test_single_precision_rows_are_summed_in_double(engine, rng, mixture, model_of) -> None:
    truth = mixture("full", 3, 4, "full")
    X = rows_about(truth, rng, 200).astype(np.float32)
    model = model_of(truth, truth.means.mean(axis=0))
    got, want = (engine.e_step(rows, None, model) for rows in (X, X.astype(np.float64)))
    assert_same(got, want, 200, rtol=1e-14)
    np.testing.assert_allclose(engine.masses(X, model)[0], engine.masses(X.astype(np.float64), model)[0], atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_weight_do_not_count_and_weights_scale(engine, rng, mixture, model_of, kind) -> None:
    truth = mixture("pairs", 4, 2, kind)
    X = rows_about(truth, rng, 90)
    model = model_of(truth, diagonal=kind.endswith("diagonal"))
    weight = np.where(np.arange(90) % 3 == 0, 0.0, 1.0)
    assert_same(engine.e_step(X, weight, model), engine.e_step(X[weight > 0], None, model), 900, rtol=1e-13)
    counts = rng.integers(0, 4, 90)
    repeated = engine.e_step(np.repeat(X, counts, axis=0), None, model)
    assert_same(engine.e_step(X, counts.astype(float), model), repeated, 1800, rtol=1e-13)


def test_one_cluster_has_all_the_mass(engine, rng, mixture, model_of) -> None:
    truth = mixture("full", 1, 3)
    X = rng.normal(size=(10, 3))
    got = engine.e_step(X, None, model_of(truth))
    np.testing.assert_allclose(got.set_counts, [[10]])
    np.testing.assert_allclose(got.sums[0, 0], [10, *X.sum(axis=0)], rtol=1e-13)


@pytest.mark.parametrize("spread", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("kind", KINDS)
def test_clusters_far_apart_neither_under_nor_overflow(engine, rng, mixture, model_of, spread, kind) -> None:
    truth = mixture("full", 3, 2, kind, spread=spread)
    X = np.concatenate([rows_about(truth, rng, 60), [truth.means.mean(axis=0)]])
    mass, log_density = engine.masses(X, model_of(truth, X.mean(axis=0), diagonal=kind.endswith("diagonal")))
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
