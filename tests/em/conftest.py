"""Mixtures of every shape, with the engines that read them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import oracles
from egmm import FocalSets
from egmm.em import assign
from egmm.em.assign import Mixture
from egmm.em.incomplete import Incomplete
from egmm.em.layout import Layout
from egmm.em.parameters import Parameters, components
from egmm.em.problem import Pass
from egmm.em.statistics import Statistics, Units

SHARED = ("shared", "shared diagonal")


class Engine(NamedTuple):
    """One of the two ways to make a pass."""

    name: str

    def e_step(self, X: np.ndarray, weight: np.ndarray | None, model: Mixture) -> Statistics:
        """Sums of a block of rows."""
        return Pass(model.model, model.incomplete.layout, model.units, self.name).run(X, weight)

    def masses(self, X: np.ndarray, model: Mixture) -> tuple[np.ndarray, np.ndarray]:
        """Masses (n, M) and log-densities (n,) in the units of the rows."""
        return assign.masses(X, None, model, self.name), assign.log_densities(X, None, model, self.name)


@pytest.fixture
def engine(backend: str) -> Engine:
    """The engine under test."""
    return Engine(backend)


@pytest.fixture
def mixture(rng: np.random.Generator) -> Callable[..., oracles.Mixture]:
    """Draw a mixture of any family of sets.

    `covariances` are "shared", "shared diagonal", or one per cluster: "full" or "diagonal".
    """

    def draw(
        name: object = "full", n_clusters: int = 3, dim: int = 2, covariances: str = "shared", spread: float = 2.0
    ) -> oracles.Mixture:
        focal = FocalSets.of(name, n_clusters)
        roots = rng.normal(size=(n_clusters, dim, 2 * dim))
        full = roots @ np.swapaxes(roots, 1, 2) / (2 * dim)
        drawn = full * np.eye(dim) if covariances.endswith("diagonal") else full
        weights = rng.dirichlet(np.full(len(focal), 0.5))
        means = spread * rng.normal(size=(n_clusters, dim))
        return oracles.Mixture(list(focal), weights, means, drawn[0] if covariances in SHARED else drawn)

    return draw


@pytest.fixture
def model_of() -> Callable[..., Mixture]:
    """The code's form of an oracle mixture, in units of a given centre and scale."""

    def make(
        truth: oracles.Mixture,
        centre: np.ndarray | None = None,
        scale: np.ndarray | None = None,
        *,
        diagonal: bool = False,
    ) -> Mixture:
        dim = truth.means.shape[1]
        units = Units(np.zeros(dim) if centre is None else centre, np.ones(dim) if scale is None else scale)
        is_shared = truth.covariances.ndim == 2
        covariances = truth.covariances[None] if is_shared else truth.covariances
        if diagonal:
            covariances = np.einsum("kdd->kd", covariances)
        within = units.covariances_in(covariances, diagonal=diagonal)
        params = Parameters(truth.weights[None], ((truth.means - units.centre) / units.scale)[None], within[None])
        shares = FocalSets.from_sets(truth.sets, len(truth.means)).shares
        covariance = ("EEI" if diagonal else "EEE") if is_shared else "VVI" if diagonal else "VVV"
        layout = Layout.of(covariance, shares, units.scale)
        evaluated = components(params, shares, layout.kind)
        incomplete = Incomplete.of(params, evaluated, layout, units)
        return Mixture(evaluated.components, shares, units, layout.kind, incomplete)

    return make
