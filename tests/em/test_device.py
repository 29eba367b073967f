"""A pass on a device against loops over rows and sets, for every form of mixture."""

import numpy as np
import pytest

from egmm._arrays import Place, to_host
from egmm.em import assign
from egmm.em.device import units_there
from egmm.em.problem import Pass
from egmm.em.statistics import Units, monomials
from em.test_estep import FAMILIES, KINDS, absolute, assert_same, expected, read, rows_about

pytest.importorskip("sklearn", minversion="1.9", reason="needs the array helpers of scikit-learn 1.9")
strict = pytest.importorskip("array_api_strict", reason="needs array-api-strict, which is in the extra 'dev'")
DEVICE = strict.Device("device1")
WHERE = Place(strict, DEVICE)


def there(values):
    return None if values is None else strict.asarray(values, device=DEVICE)


def pass_of(model: assign.Mixture) -> Pass:
    return Pass(model.model, model.incomplete.layout, model.units, "numpy")


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [2.0, 3e3])
def test_sums_are_those_of_the_loops(rng, mixture, model_of, family, kind, weighted, spread) -> None:
    truth = mixture(family, 4, 3, kind, spread=spread)
    X = rows_about(truth, rng, 75)
    weight = rng.integers(0, 4, 75) * 0.5 if weighted else None
    model = read(model_of, truth, kind, X)
    assert model.model.is_far.any() == (spread > 10)
    found = pass_of(model).on(WHERE, strict.float64).run(there(X), there(weight))
    assert all(isinstance(part, np.ndarray) and part.dtype == np.float64 for part in found if part is not None)
    rtol = 1e-11 if spread < 10 else 1e-7
    assert_same(absolute(found, model, X, weight), expected(truth, X, weight, model), 75 * spread**2, rtol)


@pytest.mark.parametrize("kind", KINDS)
def test_masses_and_densities_are_those_of_the_loops(rng, mixture, model_of, kind) -> None:
    truth = mixture("pairs", 4, 3, kind)
    X = rows_about(truth, rng, 40)
    model = read(model_of, truth, kind, X)
    wanted = {
        assign.masses: truth.masses(X),
        assign.pignistics: truth.pignistic(X),
        assign.labels: truth.pignistic(X).argmax(axis=1),
        assign.heaviest: truth.masses(X).argmax(axis=1),
    }
    for function, values in wanted.items():
        found = assign.Reader(function, model, "numpy").on(WHERE, strict.float32).read(there(X), None)
        assert found.device == DEVICE
        np.testing.assert_allclose(to_host(found), values, atol=1e-11, err_msg=function.__name__)
    density = assign.Reader(assign.log_densities, model, "numpy").on(WHERE, None).read(there(X), None)
    assert to_host(density).sum() == pytest.approx(truth.log_likelihood(X, np.ones(40)), rel=1e-12)


def test_clusters_too_far_apart_for_single_precision_are_read_in_double(rng, mixture, model_of) -> None:
    for spread, precision in ((2.0, strict.float32), (300.0, strict.float64)):
        truth = mixture("pairs", 4, 3, "full", spread=spread)
        model = read(model_of, truth, "full", rows_about(truth, rng, 75))
        assert pass_of(model).on(WHERE, strict.float32).model.theta.dtype == precision
    without = Place(strict, strict.Device("no_float64"))
    assert pass_of(model).on(without, strict.float32) is None


def test_monomials_are_numpy_s(rng) -> None:
    rows = rng.normal(size=(5, 3))
    for kind in ("linear", "diagonal", "full"):
        np.testing.assert_array_equal(to_host(monomials(there(rows), kind)), monomials(rows, kind))


def test_single_precision_keeps_the_centre_far_from_the_origin(rng) -> None:
    units = Units(np.array([1e6 + 0.3, -1e6 + 0.7]), np.array([2.0, 0.5]))
    X = (units.centre + rng.normal(size=(50, 2))).astype(np.float32)
    found = units_there(units, WHERE, strict.float32).rows(there(X))
    assert found.dtype == strict.float32
    np.testing.assert_allclose(to_host(found), units.rows(X), atol=1e-6)
