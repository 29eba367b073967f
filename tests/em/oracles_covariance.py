"""Slow twins of the covariance models' M-steps: loops over rows, clusters and sets, from the definitions."""

import numpy as np
from scipy.stats import invgamma, invwishart, multivariate_normal


def focal_gaussian(members, means, covariances):
    """Mean and covariance of a set: its members' natural parameters averaged."""
    precision = np.mean([np.linalg.inv(covariances[k]) for k in members], axis=0)
    natural = np.mean([np.linalg.inv(covariances[k]) @ means[k] for k in members], axis=0)
    covariance = np.linalg.inv(precision)
    return covariance @ natural, (covariance + covariance.T) / 2


def log_densities(X, sets, means, covariances):
    """log N_j(x_i), (n, M)."""
    columns = []
    for members in sets:
        mean, covariance = focal_gaussian(members, means, covariances)
        columns.append(multivariate_normal(mean, covariance).logpdf(X))
    return np.array(columns).T


def masses(X, sets, weights, means, covariances):
    """Posterior masses (n, M) and the total log-likelihood."""
    joint = np.log(weights) + log_densities(X, sets, means, covariances)
    peak = joint.max(axis=1, keepdims=True)
    total = np.exp(joint - peak).sum(axis=1, keepdims=True)
    return np.exp(joint - peak) / total, float((np.log(total) + peak).sum())


def q_value(X, mass, sets, means, covariances, ridge=0.0):
    """Expected complete log-likelihood without the weights' part, minus sum_k r_k tr(P_k R) / 2."""
    value = float((mass * log_densities(X, sets, means, covariances)).sum())
    for j, members in enumerate(sets):
        for k in members:
            value -= 0.5 * mass[:, j].sum() / len(members) * np.trace(np.linalg.inv(covariances[k]) * ridge)
    return value


def statistics(X, mass, sets, n_clusters):
    """n_j, s_k and S_k of given masses."""
    dim = X.shape[1]
    sums, scatters = np.zeros((n_clusters, dim)), np.zeros((n_clusters, dim, dim))
    for j, members in enumerate(sets):
        for k in members:
            share = mass[:, j] / len(members)
            sums[k] += share @ X
            scatters[k] += (X * share[:, None]).T @ X
    return mass.sum(axis=0), sums, scatters


def celeux_govaert_objective(counts, scatters, covariances):
    """sum_k n_k log|Sigma_k| + tr(Sigma_k^-1 W_k)."""
    return sum(
        n * np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, scatter))
        for n, scatter, sigma in zip(counts, scatters, covariances, strict=True)
    )


def belongs(model, covariances, rtol=1e-7):
    """Whether covariances have the volumes, shapes and orientations their model allows."""
    volumes = [np.linalg.det(s) ** (1 / len(s)) for s in covariances]
    unit = [s / v for s, v in zip(covariances, volumes, strict=True)]
    values = [np.linalg.eigvalsh(u) for u in unit]

    def same(arrays):
        return all(np.allclose(a, arrays[0], rtol=rtol, atol=rtol * np.abs(arrays[0]).max()) for a in arrays)

    checks = []
    if model[0] == "E":
        checks.append(same([np.array([v]) for v in volumes]))
    if model[1] == "I":
        checks.append(all(np.allclose(u, np.eye(len(u)), atol=rtol) for u in unit))
    if model[1:] in ("EI", "EE"):
        checks.append(same(unit))
    if model[1] == "E":
        checks.append(same(values))
    if model[2] == "I":
        checks.append(all(np.allclose(s, np.diag(np.diag(s)), atol=0) for s in covariances))
    if model[2] == "E":
        # Matrices with common axes commute.
        checks.append(all(np.allclose(a @ unit[0], unit[0] @ a, atol=rtol * np.abs(a @ unit[0]).max()) for a in unit))
    return all(checks)


def log_prior(model, kappa, mean, degrees, scale, means, covariances):
    """Fraley and Raftery's prior with its normalising constants, one covariance counted once; flat means at kappa 0."""
    value = 0.0
    for mu, sigma in zip(means, covariances, strict=True):
        value += multivariate_normal(mean, sigma / kappa).logpdf(mu) if kappa > 0 else 0.0
    distinct = covariances[:1] if model in ("EII", "EEI", "EEE") else covariances
    for sigma in distinct:
        if model.endswith("II"):
            value += invgamma(degrees / 2, scale=scale / 2).logpdf(sigma[0, 0])
        elif model.endswith("I"):
            value += sum(
                invgamma(degrees / 2, scale=s / 2).logpdf(v) for s, v in zip(scale, np.diag(sigma), strict=True)
            )
        else:
            value += invwishart(degrees, scale).logpdf(sigma)
    return float(value)
