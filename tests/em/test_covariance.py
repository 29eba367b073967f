"""Names and parameter counts of the covariance models."""

import warnings

import pytest

from egmm.em.covariance import (
    LOW_RANK,
    MODELS,
    SHARED,
    monomial_kind,
    n_covariance_parameters,
    resolve_covariance,
    warn_of_many_features,
)

# Celeux and Govaert (1995), table 1, without the weights and means: C clusters, D features, beta = D (D + 1) / 2.
COUNTS = {
    "EII": lambda c, d, beta: 1,
    "VII": lambda c, d, beta: c,
    "EEI": lambda c, d, beta: d,
    "VEI": lambda c, d, beta: d + c - 1,
    "EVI": lambda c, d, beta: c * d - c + 1,
    "VVI": lambda c, d, beta: c * d,
    "EEE": lambda c, d, beta: beta,
    "VEE": lambda c, d, beta: beta + c - 1,
    "EVE": lambda c, d, beta: beta + (c - 1) * (d - 1),
    "VVE": lambda c, d, beta: beta + (c - 1) * d,
    "EEV": lambda c, d, beta: c * beta - (c - 1) * d,
    "VEV": lambda c, d, beta: c * beta - (c - 1) * (d - 1),
    "EVV": lambda c, d, beta: c * beta - (c - 1),
    "VVV": lambda c, d, beta: c * beta,
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("n_clusters", "n_features"), [(1, 1), (3, 1), (1, 4), (2, 2), (5, 7)])
def test_parameters_are_counted_as_in_the_table_of_celeux_and_govaert(model, n_clusters, n_features):
    expected = COUNTS[model](n_clusters, n_features, n_features * (n_features + 1) // 2)
    assert n_covariance_parameters(model, n_clusters, n_features) == expected


@pytest.mark.parametrize(
    ("name", "code"), [("tied", "EEE"), ("full", "VVV"), ("diag", "VVI"), ("spherical", "VII"), ("VEV", "VEV")]
)
def test_words_of_scikit_learn_are_aliases(name, code):
    assert resolve_covariance(name, 3) == code


@pytest.mark.parametrize(("name", "code"), [("E", "EII"), ("V", "VII")])
def test_one_feature_has_two_models(name, code):
    assert resolve_covariance(name, 1) == code
    with pytest.raises(ValueError, match=rf"covariance must be one of 'EII', .* got '{name}'"):
        resolve_covariance(name, 2)


def test_models_read_the_second_moments_they_need():
    kinds = {model: monomial_kind(model) for model in (*MODELS, LOW_RANK)}
    assert {model for model, kind in kinds.items() if kind == "linear"} == set(SHARED)
    assert {model for model, kind in kinds.items() if kind == "diagonal"} == {"VII", "VEI", "EVI", "VVI"}


def test_unknown_models_are_refused():
    with pytest.raises(ValueError, match=r"covariance must be one of 'EII', .*got 'VVX'"):
        n_covariance_parameters("VVX", 2, 2)


@pytest.mark.parametrize(("models", "told"), [(["VVI", LOW_RANK], False), (["EEE"], True), ([LOW_RANK, "VVV"], True)])
def test_full_covariances_alone_take_long_for_many_features(models: list[str], told: bool) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_of_many_features(models, 1000)
    assert len(seen) == told
