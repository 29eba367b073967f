"""What the tests of M-steps share: random covariances of a model, and a few lines of EM from labels."""

from typing import NamedTuple

import numpy as np

from egmm.belief.focal import FocalSets
from egmm.em.celeux_govaert import fit_covariances
from egmm.em.covariance import is_diagonal, scatter_kind
from egmm.em.estep import e_step, log_likelihood
from egmm.em.mstep import m_step, start_from_groups
from egmm.em.parameters import Parameters, components
from egmm.em.prior import Prior, log_prior, make_prior
from egmm.em.statistics import Statistics, moments

ITERATIVE = ("VEI", "VEE", "EVE", "VVE", "VEV")


class Run(NamedTuple):
    params: Parameters
    objectives: np.ndarray
    """Log-likelihood plus log prior before every M-step, and at the end."""
    log_likelihood: float
    prior: Prior | None


def group_statistics(rows, labels, n_clusters, diagonal):
    member = np.eye(n_clusters)[labels]
    kind = "nk,nd,nd->kd" if diagonal else "nk,nd,ne->kde"
    return Statistics(member.sum(axis=0), member.T @ rows, np.einsum(kind, member, rows, rows), 0.0)


def fit(X, labels, family, model, *, prior=None, max_iter=5000, gain=1e-9, ridge=0.0):
    """EM from labels until the objective gains less than `gain` in total, or `max_iter` M-steps."""
    n_clusters, ridges = labels.max() + 1, np.full(X.shape[1], ridge)
    total, shares = moments(X, None), FocalSets.of(family, n_clusters).shares
    hyper = make_prior(prior, total, n_clusters, model)
    groups = group_statistics(X - total.centre, labels, n_clusters, is_diagonal(model))
    params = start_from_groups(groups, total, len(shares), model, ridges, hyper)
    objectives = []
    while True:
        parts = components(params, total.centre, shares)
        statistics = e_step(X, None, parts, scatter_kind(model))
        value = log_likelihood(statistics, parts, total)
        objectives.append(value + log_prior(params, hyper, model))
        if len(objectives) > max_iter or (len(objectives) > 1 and objectives[-1] - objectives[-2] < gain):
            return Run(params, np.array(objectives), value, hyper)
        params = m_step(statistics, total, shares, params, model, ridges, hyper)


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
