"""Standard errors: scores against difference quotients, closed forms, and mclust's bootstrap."""

import numpy as np
import pytest

from egmm import EGMM, FocalSets
from egmm.em.assign import Mixture, log_densities
from egmm.em.information import LINEAR_TIES, Coordinates, Mixtures, row_scores
from egmm.em.statistics import Units


def coordinates_of(covariance, family="full"):
    shares = FocalSets.of(family, 3).shares
    weights = np.random.default_rng(1).dirichlet(np.ones(len(shares)))
    is_free = np.ones(len(shares), dtype=bool)
    is_free[weights.argmax()] = False
    return Coordinates(np.log(weights), is_free, shares, covariance, 2)


def drawn_phi(coordinates, rng):
    """Parameters whose precisions are positive definite."""
    n_entries = coordinates.ties.shape[1]
    entries = rng.uniform(0.8, 1.2, n_entries)
    if coordinates.kind == "full":
        entries[1::3] *= 0.3  # Off the diagonal.
    return np.concatenate([coordinates.log_weights[coordinates.is_free], 2 * rng.normal(size=6), entries])


@pytest.mark.parametrize("covariance", LINEAR_TIES)
def test_scores_are_derivatives_of_log_densities(rng, covariance):
    coordinates, units = coordinates_of(covariance), Units(np.zeros(2), np.ones(2))
    X, phi = rng.normal(size=(5, 2)), drawn_phi(coordinates, rng)

    def log_density(at):
        params = coordinates.unpack(at[None])
        # Every cluster has its own covariance, whatever the ties.
        code = "VVI" if params.is_diagonal else "VVV"
        args = (params.weights[0], params.means[0], params.covariances[0], coordinates.shares, code)
        return log_densities(X, None, Mixture.of(*args), "numpy")

    steps = 1e-5 * np.eye(len(phi))
    expected = np.stack([(log_density(phi + step) - log_density(phi - step)) / 2e-5 for step in steps], axis=1)
    found = row_scores(X, Mixtures.of(coordinates.unpack(phi[None]), coordinates), coordinates, units)
    assert found == pytest.approx(expected, abs=1e-7)
    assert coordinates.pack(coordinates.unpack(phi[None])) == pytest.approx(phi)


@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
def test_one_cluster_has_the_errors_of_moments(rng, covariance):
    X = rng.exponential(size=(300, 2)) @ np.array([[1.0, 0.5], [0.0, 1e3]]) + 1e4
    errors = EGMM(1, covariance=covariance, reg_covar=0.0).fit(X).standard_errors(X)
    offsets = X - X.mean(axis=0)
    products = offsets[:, :, None] * offsets[:, None, :]
    assert errors.means[0] == pytest.approx(X.std(axis=0) / np.sqrt(300), rel=1e-5)
    assert errors.covariances.reshape(2, 2) == pytest.approx(products.std(axis=0) / np.sqrt(300), rel=1e-5)
    assert errors.mean_covariances[0] == pytest.approx(products.mean(axis=0) / 300, rel=1e-5)
    assert errors.weights == pytest.approx([0.0])


def test_acidity_has_the_errors_of_mclusts_bootstrap(data_directory):
    path = data_directory / "field" / "acidity.csv"
    if not path.exists():
        pytest.skip("needs field/acidity.csv in the directory named by EGMM_DATA")
    X = np.loadtxt(path, skiprows=1, ndmin=2)
    model = EGMM(2, covariance="E", focal_sets="singletons", tol=1e-12, random_state=0).fit(X)
    order = model.means_[:, 0].argsort()
    assert model.weights_[order[0]] == pytest.approx(0.62342, abs=5e-6)
    assert model.means_[order, 0] == pytest.approx([4.37104, 6.32029], abs=1e-5)
    assert model.covariances_ == pytest.approx(0.18638, abs=5e-6)
    assert model.log_likelihood_ == pytest.approx(-185.949264, abs=1e-6)
    errors = model.standard_errors(X)
    # MclustBootstrap, 999 replicates.
    assert errors.weights == pytest.approx([0.04131] * 2, rel=0.05)
    assert errors.means[order, 0] == pytest.approx([0.04670, 0.06720], rel=0.05)
    assert errors.covariances == pytest.approx(0.02377, rel=0.05)


@pytest.mark.parametrize("covariance", ["EII", "EEE", "VVI"])
def test_meta_clusters_have_errors_in_any_units(two_overlapping, covariance):
    X = two_overlapping
    model = EGMM(2, covariance=covariance, random_state=0, tol=1e-10).fit(X)
    errors = model.standard_errors(X)
    assert (errors.means > 0).all()
    assert errors.covariances.shape == model.covariances_.shape
    assert len(errors.names) == len(errors.matrix) == 3 + 4 + model.stored_covariances_.size
    assert errors.names[:4] == ("weight {1}", "weight {2}", "weight {1,2}", "mean 1 x1")
    scaled = EGMM(2, covariance=covariance, random_state=0, tol=1e-10).fit(100 * X + 7)
    assert scaled.standard_errors(100 * X + 7).means == pytest.approx(100 * errors.means, rel=1e-2)


@pytest.fixture
def two_overlapping(rng):
    """Rows of two clusters and between them."""
    return np.concatenate([rng.normal(0, 1, (300, 2)), rng.normal(5, 1, (300, 2)), rng.normal(2.5, 1, (100, 2))])


def test_a_weight_is_a_repetition(two_overlapping):
    X, counts = two_overlapping, np.tile([1.0, 2.0], 350)
    model = EGMM(2, focal_sets="singletons", random_state=0).fit(X, sample_weight=counts)
    weighted = model.standard_errors(X, counts)
    repeated = model.standard_errors(np.repeat(X, counts.astype(int), axis=0))
    assert weighted.matrix == pytest.approx(repeated.matrix, rel=1e-6, abs=1e-12)


def test_sets_without_rows_are_held_fixed(rng):
    X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(30, 1, (200, 2))])
    model = EGMM(2, random_state=0).fit(X)
    errors = model.standard_errors(X)
    assert model.weights_[2] * 400 < 1
    assert errors.weights[2] == pytest.approx(0, abs=1e-6)
    assert errors.weights[:2] == pytest.approx(np.sqrt(0.25 / 400), rel=1e-3)


def test_models_without_standard_errors_are_refused(two_overlapping):
    X = two_overlapping
    with pytest.raises(ValueError, match="known for covariance EII, VII, EEI, VVI, EEE, VVV, got 'VEE'"):
        EGMM(2, covariance="VEE", random_state=0).fit(X).standard_errors(X)
    with pytest.raises(ValueError, match="got prior=None and certainty=1; fit with prior=None and certainty=0"):
        EGMM(2, certainty=1.0, random_state=0).fit(X).standard_errors(X)
    for options in ({"noise": True}, {"tails": "t"}):
        with pytest.raises(ValueError, match="standard errors are known for Gaussians alone, got noise="):
            EGMM(2, random_state=0, **options).fit(X).standard_errors(X)
    model = EGMM(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="no strict maximum at the fitted parameters; pass the rows it was fitted to"):
        model.standard_errors(X[:3] * 30)
    with pytest.raises(ValueError, match="NaN"):
        model.standard_errors(np.full((3, 2), np.nan))
