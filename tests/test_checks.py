"""Every clusterer on every shared check, and on scikit-learn's own."""

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from checks import CHECKS, CLUSTERERS, OBJECTIVE_CHECKS, PROTOTYPE_CLUSTERERS
from egmm import BPEC, ECM, FCM, BootGMM


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", CLUSTERERS.values(), ids=CLUSTERERS)
def test_clusterer(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


@pytest.mark.parametrize("check", OBJECTIVE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", PROTOTYPE_CLUSTERERS.values(), ids=PROTOTYPE_CLUSTERERS)
def test_objective(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


# BPEC's 50 neighbours are more than the rows of scikit-learn's examples.
@parametrize_with_checks(
    [
        FCM(),
        FCM(3, beta=1.5, init="random", n_init=2),
        ECM(),
        ECM(3, focal_sets="full", delta=3),
        BPEC(n_neighbors=5),
        BPEC(2, n_neighbors=5, distance="euclidean"),
        BootGMM(n_bootstrap=10),
        BootGMM(3, n_bootstrap=10, covariance="EEE", n_references=20),
    ]
)
def test_scikit_learn_contract(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
