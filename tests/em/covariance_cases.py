"""What the tests of M-steps share: random covariances of a model, and EM from labels."""

from typing import NamedTuple

import numpy as np

from egmm.em.ascent import FAILED
from egmm.em.celeux_govaert import fit_covariances
from egmm.em.covariance import is_diagonal
from egmm.em.failure import why_not
from egmm.em.parameters import NotPositiveDefiniteError
from em.problems import Found, ascend, found_of, problem_of

ITERATIVE = ("VEI", "VEE", "EVE", "VVE", "VEV")


class Run(NamedTuple):
    params: Found
    objectives: np.ndarray
    """Log-likelihood plus log prior before every M-step, and at the end."""
    log_likelihood: float


def fit(X, labels, family, model, *, prior=None, max_iter=5000, gain=1e-9, ridge=0.0) -> Run:
    """Plain EM from labels until a step gains less than `gain`, or `max_iter` M-steps; an error where there is none."""
    problem = problem_of(X, family, int(labels.max()) + 1, model, ridge, prior=prior)
    ascent, objectives, _ = ascend(problem, labels, accelerate=False, tol=gain, max_iter=max_iter)
    if ascent.status[0] == FAILED:
        raise NotPositiveDefiniteError(why_not(ascent, 0, model, np.bincount(labels).astype(float)))
    evaluation = ascent.state.evaluation
    return Run(found_of(problem, evaluation.params), objectives, float(evaluation.log_likelihood[0]))


def random_scatters(rng, n_clusters, dim):
    axes = np.linalg.qr(rng.normal(size=(n_clusters, dim, dim)))[0]
    values = 10 * 1.7 ** (np.arange(dim) + rng.uniform(-0.3, 0.3, size=(n_clusters, dim)))
    return (axes * values[:, None, :]) @ np.swapaxes(axes, 1, 2) * rng.uniform(0.5, 2, size=(n_clusters, 1, 1))


def solve(model, counts, scatters, n_steps=200):
    """Run the M-step of one model until it stays, and return matrices."""
    read = np.einsum("kdd->kd", scatters) if is_diagonal(model) else scatters
    found = None
    for _ in range(n_steps if model in ITERATIVE else 1):
        found = fit_covariances(model, counts, read, found)
    return found[:, :, None] * np.eye(found.shape[1]) if is_diagonal(model) else found
