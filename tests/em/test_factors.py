"""Low-rank covariances: the fit of factors, their algebra, and EM with them."""

import numpy as np
import pytest
from scipy.optimize import minimize

from egmm.em import factors
from egmm.em.ascent import Ascent
from egmm.em.estep import traces
from egmm.em.factors import dense, fit_factors, low_rank_factors, most_factors, precision_diagonals
from egmm.em.parameters import precision_factors, unwhiten, whiten
from em.problems import problem_of, start_of


def lost(covariance, scatter):
    """log|Sigma| + tr(Sigma^-1 S) of one matrix."""
    return np.linalg.slogdet(covariance)[1] + np.trace(np.linalg.solve(covariance, scatter))


def drawn_scatter(rng, dim, n_factors, n_rows):
    """Scatter of rows that have factors and noise."""
    loadings = rng.normal(size=(dim, n_factors))
    rows = rng.normal(size=(n_rows, n_factors)) @ loadings.T + rng.normal(size=(n_rows, dim)) * rng.uniform(0.5, 2, dim)
    return rows.T @ rows / n_rows


def nothing_known(scatter, n_factors):
    """Noise alone, of the scatter's variances."""
    return np.column_stack([scatter.diagonal(), np.zeros((len(scatter), n_factors))])[None]


def numerically_best(scatter, n_factors, rng):
    """The least value that a general minimiser finds from many starts, over loadings and log noise at once."""
    dim = len(scatter)

    def value(x):
        loadings = x[dim:].reshape(dim, n_factors)
        return lost(loadings @ loadings.T + np.diag(np.exp(x[:dim])), scatter)

    starts = [rng.normal(size=dim * (1 + n_factors)) for _ in range(8)]
    return min(minimize(value, start, options={"maxiter": 2000}).fun for start in starts)


@pytest.mark.parametrize("n_factors", [1, 2])
def test_the_fit_of_factors_is_the_maximum(rng, n_factors):
    scatter = drawn_scatter(rng, 6, n_factors, 60)
    found = fit_factors(scatter[None], nothing_known(scatter, n_factors), np.full((1, 6), 1e-6))
    assert lost(dense(found)[0], scatter) == pytest.approx(numerically_best(scatter, n_factors, rng), abs=1e-6)


def test_a_covariance_of_factors_is_given_back(rng):
    truth = np.column_stack([rng.uniform(0.5, 2, 10), rng.normal(size=(10, 3))])[None]
    scatter = dense(truth)
    found = fit_factors(scatter, nothing_known(scatter[0], 3), np.full((1, 10), 1e-6))
    assert dense(found) == pytest.approx(scatter, abs=1e-4)


def test_no_fit_loses_and_noise_keeps_its_floor(rng):
    scatter = drawn_scatter(rng, 40, 2, 12)  # Singular: fewer rows than features.
    floors = np.full((1, 40), 0.05)
    before = np.column_stack([rng.uniform(0.1, 2, 40), rng.normal(size=(40, 2))])[None]
    after = fit_factors(scatter[None], before, floors)
    assert lost(dense(after)[0], scatter) < lost(dense(before)[0], scatter)
    assert (after[..., 0] >= floors * (1 - 1e-12)).all()
    again = fit_factors(scatter[None], after, floors)
    assert lost(dense(again)[0], scatter) == pytest.approx(lost(dense(after)[0], scatter), abs=1e-6)


def test_units_of_features_do_not_matter(rng):
    scatter, scale = drawn_scatter(rng, 8, 2, 50), 10.0 ** np.arange(-4, 4)
    floors = 1e-6 * scatter.diagonal()[None]
    found = dense(fit_factors(scatter[None], nothing_known(scatter, 2), floors))
    scaled = scatter * scale * scale[:, None]
    other = dense(fit_factors(scaled[None], nothing_known(scaled, 2), floors * scale**2))
    assert other / scale / scale[:, None] == pytest.approx(found, rel=1e-5, abs=1e-6)


def test_many_features_are_fitted_as_few_are(rng, monkeypatch):
    scatter = drawn_scatter(rng, 210, 2, 60)
    floors, start = 0.005 * scatter.diagonal()[None], nothing_known(scatter, 2)
    by_lanczos = fit_factors(scatter[None], start, floors)
    monkeypatch.setattr(factors, "LANCZOS_FEATURES", 1000)
    by_decomposition = fit_factors(scatter[None], start, floors)
    assert lost(dense(by_lanczos)[0], scatter) == pytest.approx(lost(dense(by_decomposition)[0], scatter), abs=1e-5)


def test_scatters_that_are_not_finite_have_no_factors():
    assert np.isnan(fit_factors(np.full((1, 4, 4), np.nan), np.ones((1, 4, 2)), np.ones((1, 4)))).all()


def test_precisions_are_those_of_the_matrices(rng):
    covariances = np.concatenate([rng.uniform(0.1, 2, (2, 1, 7, 1)), rng.normal(size=(2, 1, 7, 3))], axis=-1)
    covariances[1, 0, :, 3] = 0  # A factor that explains nothing.
    found, full = low_rank_factors(covariances), dense(covariances)
    root = whiten(np.broadcast_to(np.eye(7), (2, 1, 7, 7)), found[0])
    precisions = np.linalg.inv(full)
    assert root @ np.swapaxes(root, -1, -2) == pytest.approx(precisions)
    assert found[1] == pytest.approx(-0.5 * np.linalg.slogdet(full)[1])
    assert precision_diagonals(found[0]) == pytest.approx(np.einsum("bkdd->bkd", precisions))
    assert unwhiten(root, found[0]) == pytest.approx(precisions)
    scatter = drawn_scatter(rng, 7, 1, 20)
    assert traces(np.stack([scatter] * 2), found[0][:, 0]) == pytest.approx(
        np.trace(precisions[:, 0] @ scatter, axis1=1, axis2=2)
    )
    assert precision_factors(covariances, diagonal=False).is_definite.all()


def test_noise_that_is_no_variance_is_not_definite():
    covariances = np.ones((2, 1, 5, 2))
    covariances[1, 0, 2, 0] = 0.0
    assert precision_factors(covariances, diagonal=False).is_definite.tolist() == [True, False]


@pytest.mark.parametrize("prior", [None, "default"])
@pytest.mark.parametrize("family", ["singletons", "full"])
def test_em_never_loses(rng, family, prior):
    labels = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 8)) @ rng.normal(size=(8, 8)) + 3 * rng.normal(size=(3, 8))[labels]
    problem = problem_of(X, family, covariance="low-rank", ridge=0.01, n_factors=2, prior=prior)
    ascent = Ascent.start(problem, start_of(problem, labels), np.zeros(1), accelerate=False)
    objectives = []
    ascent.run(30, lambda now: objectives.append(float(now.state.evaluation.objective[0])))
    assert len(objectives) >= 5
    assert np.diff(objectives).min() > -1e-7


def test_most_factors_leave_something_to_tell():
    for dim in range(1, 40):
        most = most_factors(dim)
        assert (dim - most) ** 2 > dim + most or most == 0
        assert (dim - most - 1) ** 2 <= dim + most + 1
