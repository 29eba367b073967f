"""Every clusterer on every shared check, and on scikit-learn's own."""

from collections.abc import Callable
from typing import Any

import pytest
import sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks

from checks import CHECKS, CLUSTERERS, OBJECTIVE_CHECKS, PROTOTYPE_CLUSTERERS
from egmm import BPEC, ECM, FCM, BootGMM
from egmm.cluster import (
    CCM,
    CECM,
    EVCLUS,
    MECM,
    NNEVCLUS,
    RECM,
    TECM,
    CatECM,
    ECMdd,
    EKNNClus,
    MultiViewECM,
    MultiViewECMdd,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", CLUSTERERS.values(), ids=CLUSTERERS)
def test_clusterer(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


@pytest.mark.parametrize("check", OBJECTIVE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", PROTOTYPE_CLUSTERERS.values(), ids=PROTOTYPE_CLUSTERERS)
def test_objective(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


OF_OLD = {
    "BPEC(n_neighbors=5)": {"check_n_features_in_after_fitting": "fits ten rows of four features"},
    "BootGMM(n_bootstrap=10)": {"check_n_features_in_after_fitting": "fits ten rows of four features"},
    "CatECM()": {"check_positive_only_tag_during_fit": "subtracts a mean from categories in place"},
}
"""Checks of scikit-learn 1.6 that cannot be met."""


def expected_failures(estimator: Any) -> dict[str, str]:
    is_old = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7)
    return OF_OLD.get(repr(estimator), {}) if is_old else {}


@parametrize_with_checks(
    [
        FCM(),
        FCM(3, beta=1.5, init="random", n_init=2),
        ECM(),
        ECM(3, focal_sets="full", delta=3),
        BPEC(),
        BPEC(n_neighbors=5),
        BPEC(2, n_neighbors=5, distance="euclidean"),
        CCM(),
        CECM(),
        CECM(distance="mahalanobis", objective="paper", reg_covar=1e-6),
        TECM(),
        CatECM(),
        NNEVCLUS(),
        NNEVCLUS(3, hidden=[10, 10], novelty=True, n_init=2),
        EVCLUS(),
        EVCLUS(3, focal_sets="pairs", n_pairs=5),
        RECM(),
        ECMdd(),
        MECM(),
        EKNNClus(),
        EKNNClus(5, symmetric=True, init="random"),
        MultiViewECM(),
        MultiViewECM(3, feature_entropy=10.0),
        MultiViewECMdd(),
        MultiViewECMdd(3, weights="local", constraint="sum"),
        BootGMM(n_bootstrap=10),
        BootGMM(3, n_bootstrap=10, covariance="EEE", n_references=20),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def features_as_dissimilarities(estimator: Any) -> dict[str, str]:
    """Checks that give a table of features whatever the tag `pairwise` says; scikit-learn's DBSCAN fails the first."""
    failed = {"check_clustering": "fits (50, 2) features, which are no square matrix"}
    if hasattr(estimator, "predict"):
        failed["check_estimators_nan_inf"] = "predicts (5, 3) features after a fit to (5, 5) dissimilarities"
    return failed


RELATIONAL = [kind(metric="precomputed") for kind in (EVCLUS, RECM, ECMdd, MECM, EKNNClus, MultiViewECMdd)]


@parametrize_with_checks(RELATIONAL, expected_failed_checks=features_as_dissimilarities)
def test_scikit_learn_contract_with_dissimilarities(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
