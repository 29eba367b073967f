"""Mixtures of every shape, with the engines that read them."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import oracles
from egmm import FocalSets
from egmm.em import estep, estep_numba
from egmm.em.parameters import Components, Parameters, components


@pytest.fixture
def engine(backend: str) -> ModuleType:
    """The module of the E-step under test."""
    return {"numpy": estep, "numba": estep_numba}[backend]


@pytest.fixture
def mixture(rng: np.random.Generator) -> Callable[..., oracles.Mixture]:
    """Draw a mixture: any family of sets, `covariances` "shared", "full" or "diagonal" (one per cluster)."""

    def draw(
        name: object = "full", n_clusters: int = 3, dim: int = 2, covariances: str = "shared", spread: float = 2.0
    ):
        focal = FocalSets.of(name, n_clusters)
        roots = rng.normal(size=(n_clusters, dim, 2 * dim))
        full = roots @ np.swapaxes(roots, 1, 2) / (2 * dim)
        drawn = {"shared": full[0], "full": full, "diagonal": full * np.eye(dim)}[covariances]
        weights = rng.dirichlet(np.full(len(focal), 0.5))
        return oracles.Mixture(list(focal), weights, spread * rng.normal(size=(n_clusters, dim)), drawn)

    return draw


@pytest.fixture
def model_of() -> Callable[..., Components]:
    """The code's form of an oracle mixture, about a given centre."""

    def make(truth: oracles.Mixture, centre: np.ndarray | None = None) -> Components:
        centre = np.zeros(truth.means.shape[1]) if centre is None else centre
        focal = FocalSets.from_sets(truth.sets, len(truth.means))
        return components(Parameters(truth.weights, truth.means - centre, truth.covariances), centre, focal.shares)

    return make
