"""Mixtures fitted together are those fitted alone."""

import numpy as np
import pytest
from sklearn.base import clone

from egmm import EGMM
from egmm._progress import Progress
from egmm.search import fit_mixtures


def test_mixtures_from_given_means_are_those_fitted_alone(rng) -> None:
    X = np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in ([0, 0], [5, 1], [1, 6])])
    starts = [X[[0, 70, 130]], X[[0, 70]], X[[10, 80, 170]]]
    models = [
        EGMM(len(means), covariance=covariance, focal_sets="singletons", init=means)
        for covariance in ("VVV", "EEV", "VVI")
        for means in starts
    ]
    candidates, _ = fit_mixtures(models, X, None, 1, Progress("", 9, enabled=False))
    for model, candidate in zip(models, candidates, strict=True):
        assert (candidate.n_clusters, candidate.covariance) == (model.n_clusters, model.covariance)
        alone = clone(model).fit(X)
        assert candidate.value("ebic") == pytest.approx(alone.ebic_, abs=1e-5 * len(X))
        np.testing.assert_allclose(candidate.model.means_, alone.means_, atol=1e-2)
