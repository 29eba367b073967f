"""One pass over rows in NumPy: masses of a block under every fit of a batch, and their sums.

A Gaussian's log-density is linear in the monomials z(x) = (1, x_d, x_d x_e) of a row, so that a pass for a whole batch
is two matrix products: log-densities L = Theta Z', and after a softmax over the focal sets the sums T = R Z. A focal
set's log-density is the average of its members' plus a constant.
"""

from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray
from egmm.em.factors import is_low_rank, low_rank_traces
from egmm.em.parameters import Components, is_identity, take, whiten
from egmm.em.statistics import Statistics
from egmm.em.tails import tail_sums, tailed

CHUNK_ENTRIES = 2**18
"""Masses per chunk, sized for the cache."""

LEAST_CHUNK = 128
"""Minimum rows per chunk; matrix products with fewer are slow."""


class Joint(NamedTuple):
    """Masses of rows before they are normalised; clusters and sets come first, which NumPy sums fastest."""

    mass: FloatArray
    """(M, B, n) exp(log pi_j N_j(x) - peak)."""
    total: FloatArray
    """(B, n) their sum over the sets."""
    peak: FloatArray
    """(B, n)."""
    pull: FloatArray | None = None
    """(M, B, n) u, where tails are heavy."""

    @property
    def log_density(self) -> FloatArray:
        """(B, n) log of the mixture's density; relative to the reference where the covariance is shared."""
        return np.log(self.total) + self.peak


def e_step(
    z: FloatArray,
    weight: FloatArray | None,
    model: Components,
    shares: FloatArray,
    log_evidence: FloatArray | None = None,
) -> Statistics:
    """Masses of rows, given by their monomials (n, F), reduced to sums that add [eq_EMemb, eq_EMP, eq_B].

    `weight` is (n,), or (B, n) where every fit weighs the rows in its own way. `log_evidence` (n, M) has the logarithms
    of what else is known about each row and focal set.
    """
    n_fits, n_clusters, n_monomials = model.theta.shape
    set_counts = np.zeros((len(shares), n_fits))
    sums = np.zeros((n_clusters * n_fits, n_monomials))
    log_likelihood = np.zeros(n_fits)
    tails = None if model.degrees is None else np.zeros((n_fits, len(shares) + 2))
    size = max(LEAST_CHUNK, CHUNK_ENTRIES // (len(shares) * n_fits))
    for first in range(0, len(z), size):
        part = z[first : first + size]
        part_weight = None if weight is None else weight[..., first : first + size]
        part_evidence = None if log_evidence is None else log_evidence[first : first + size]
        joint = joint_masses(part, model, shares, part_evidence)
        value = joint.log_density
        if part_weight is None:
            log_likelihood += value.sum(axis=1)
            joint.mass[...] /= joint.total
        else:
            log_likelihood += (value * part_weight).sum(axis=1)
            joint.mass[...] *= part_weight / joint.total
        set_counts += joint.mass.sum(axis=-1)
        if tails is not None and joint.pull is not None:
            tails += tail_sums(joint.mass, joint.pull, part_weight, model)
            joint.mass[...] *= joint.pull
        shared_out = _shared_out(joint.mass, shares)
        sums += shared_out.reshape(n_clusters * n_fits, -1) @ part
    sums = np.swapaxes(sums.reshape(n_clusters, n_fits, n_monomials), 0, 1)
    counts, pooled = np.ascontiguousarray(set_counts.T), np.zeros((n_fits, 0))
    return Statistics(counts, np.ascontiguousarray(sums), pooled, log_likelihood, tails)


def _shared_out(mass: FloatArray, shares: FloatArray) -> FloatArray:
    """Pignistic probabilities (C, B, n) of masses (M, B, n)."""
    if is_identity(shares):
        return mass
    return (shares.T @ mass.reshape(len(shares), -1)).reshape(-1, *mass.shape[1:])


def joint_masses(z: FloatArray, model: Components, shares: FloatArray, log_evidence: FloatArray | None = None) -> Joint:
    """Masses of rows before they are normalised, from the monomials (n, F)."""
    scores, pull = _set_scores(z, model, shares)
    return joint_of(scores, log_evidence)._replace(pull=pull)


def log_scores(z: FloatArray, model: Components, shares: FloatArray) -> FloatArray:
    """log pi_j N_j(x) of the focal sets, (M, B, n); relative to the reference where the covariance is shared."""
    return _set_scores(z, model, shares)[0]


def _set_scores(z: FloatArray, model: Components, shares: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """The same, and how much rows pull (M, B, n) where tails are heavy."""
    scores = _scores(z, model)
    if not is_identity(shares):
        scores = (shares @ scores.reshape(shares.shape[1], -1)).reshape(len(shares), *scores.shape[1:])
    pull = None
    if model.kappa is not None:
        scores, pull = tailed(scores + model.kappa.T[:, :, None], model)
    scores += model.log_weights.T[:, :, None]
    return scores, pull


def joint_of(scores: FloatArray, log_evidence: FloatArray | None = None) -> Joint:
    """Masses before they are normalised, from their logarithms (M, B, n), which are overwritten."""
    if log_evidence is not None:
        scores += log_evidence.T[:, None, :]
    peak = scores.max(axis=0)
    scores -= peak
    np.exp(scores, out=scores)
    return Joint(scores, scores.sum(axis=0), peak)


def _scores(z: FloatArray, model: Components) -> FloatArray:
    """Log-densities of the clusters, (C, B, n)."""
    n_fits, n_clusters, n_monomials = model.theta.shape
    theta = np.swapaxes(model.theta, 0, 1).reshape(-1, n_monomials)
    scores = (theta @ z.T).reshape(n_clusters, n_fits, -1)
    rows = z[:, 1 : 1 + model.whitened.shape[2]]
    for at in np.flatnonzero(model.is_far):
        scores[:, at] = _factored_scores(rows, take(model, np.array([at])), n_monomials)
    return scores


def _factored_scores(rows: FloatArray, model: Components, n_monomials: int) -> FloatArray:
    """The same, (C, n), of one fit from differences to the means, which keeps digits where clusters are far apart."""
    factors, whitened = model.factors[0], model.whitened[0]
    n_clusters, dim = whitened.shape
    factors = np.broadcast_to(factors, (n_clusters, *factors.shape[1:]))
    scores = np.empty((n_clusters, len(rows)))
    for k in range(n_clusters):
        offsets = whiten(rows, factors[k]) - whitened[k]
        scores[k] = -0.5 * np.einsum("nd,nd->n", offsets, offsets)
    if n_monomials > 1 + dim:
        return scores + model.log_norms[0][:, None]
    return scores + _half_norms(rows, factors[0])


def _half_norms(rows: FloatArray, factor: FloatArray) -> FloatArray:
    """Half of the squared distances from the centre, (n,)."""
    offsets = whiten(rows, factor)
    return np.asarray(0.5 * np.einsum("nd,nd->n", offsets, offsets))


def masses(z: FloatArray, model: Components, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Masses (B, n, M) and log-densities (B, n), relative where the covariance is shared, of rows [eq_EMemb]."""
    joint = joint_masses(z, model, shares)
    return np.transpose(joint.mass / joint.total, (1, 2, 0)), joint.log_density


def log_reference(z: FloatArray, model: Components) -> FloatArray:
    """Log of the density N(x; centre, Sigma) that densities are relative to, (B, n); zero where they are absolute."""
    n_fits, _, dim = model.whitened.shape
    if model.theta.shape[2] > 1 + dim:
        return np.zeros((n_fits, len(z)))
    rows = z[:, 1 : 1 + dim]
    return np.array([model.log_norms[at, 0] - _half_norms(rows, model.factors[at, 0]) for at in range(n_fits)])


def log_likelihood(statistics: Statistics, model: Components, weight: FloatArray, scatter: FloatArray) -> FloatArray:
    """Total log-likelihoods (B,): the statistics' own, plus the reference density's from the rows' scatter [eq_OL].

    `weight` (B,) and `scatter` (B, D, D) or (B, D) are those of all rows.
    """
    if model.theta.shape[2] > 1 + model.whitened.shape[2]:
        return statistics.log_likelihood
    return statistics.log_likelihood + weight * model.log_norms[:, 0] - 0.5 * traces(scatter, model.factors[:, 0])


def traces(scatter: FloatArray, factors: FloatArray) -> FloatArray:
    """tr(U' S U) of scatters (..., D, D) or (..., D) and factors (..., D, D), (..., D) or of low rank."""
    is_diagonal = factors.ndim == 2
    if is_diagonal:
        variances = scatter if scatter.ndim == 2 else np.einsum("...dd->...d", scatter)
        return np.asarray((variances * factors**2).sum(axis=-1))
    if is_low_rank(factors):
        return low_rank_traces(scatter, factors)
    return np.asarray(((scatter @ factors) * factors).sum(axis=(-1, -2)))


def entropy(statistics: Statistics, model: Components) -> FloatArray:
    """Entropies (B,) of all masses, sum_ij -m_ij log m_ij: the log-likelihood minus its expected complete part Q."""
    if statistics.tails is not None:
        return np.asarray(statistics.tails[:, -1])
    with np.errstate(invalid="ignore"):
        weighted = np.where(statistics.set_counts > 0, statistics.set_counts * model.log_weights, 0.0).sum(axis=1)
    expected = weighted + (model.theta * statistics.sums).sum(axis=(1, 2))
    return np.maximum(statistics.log_likelihood - expected, 0.0)
