"""One pass over rows, in NumPy or any array API: masses of a block under every fit of a batch, and their sums.

A Gaussian's log-density is linear in the monomials z(x) = (1, x_d, x_d x_e) of a row, so that a pass for a whole batch
is two matrix products: log-densities L = Theta Z', and after a softmax over the focal sets the sums T = R Z. A focal
set's log-density is the average of its members' plus a constant.

Arrays of other libraries come with a model of theirs (`em.device`). Their sums are added up on the host in double
precision. Only what every namespace has is used, and NumPy's arrays are worked on in place.
"""

from typing import NamedTuple

import numpy as np

from egmm._arrays import NUMPY, namespace, to_host
from egmm._checks import FloatArray
from egmm.em.factors import is_low_rank, low_rank_traces
from egmm.em.parameters import Components, is_identity, whiten
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
    """(M, B, n) weights u of the rows, with heavy tails."""

    @property
    def log_density(self) -> FloatArray:
        """(B, n) log of the mixture's density; relative to the reference where the covariance is shared."""
        return namespace(self.total).log(self.total) + self.peak


def e_step(
    z: FloatArray,
    weight: FloatArray | None,
    model: Components,
    shares: FloatArray,
    log_evidence: FloatArray | None = None,
) -> Statistics:
    """Masses of rows, given by their monomials (n, F), reduced to sums that add [eq_EMemb, eq_EMP, eq_B].

    `weight` is (n,), or (B, n) where every fit weighs the rows in its own way. `log_evidence` (n, M) has the logarithms
    of additional evidence for each row and focal set.
    """
    xp = namespace(z)
    n_fits, n_clusters, n_monomials = model.theta.shape
    n_focal = shares.shape[0]
    set_counts = np.zeros((n_focal, n_fits))
    sums = np.zeros((n_clusters * n_fits, n_monomials))
    log_likelihood = np.zeros(n_fits)
    tails = None if model.degrees is None else np.zeros((n_fits, n_focal + 2))
    size = max(LEAST_CHUNK, CHUNK_ENTRIES // (n_focal * n_fits))
    n_rows = z.shape[0]
    for first in range(0, n_rows, size):
        last = min(first + size, n_rows)
        part = z[first:last, ...]
        part_weight = None if weight is None else weight[..., first:last]
        part_evidence = None if log_evidence is None else log_evidence[first:last]
        joint = joint_masses(part, model, shares, part_evidence)
        mass, value = joint.mass, joint.log_density
        if part_weight is None:
            mass /= joint.total
        else:
            value *= part_weight
            mass *= part_weight / joint.total
        # What EM's steps gain is less than single precision has digits for.
        log_likelihood += np.add.reduce(to_host(value), axis=1, dtype=np.float64)
        set_counts += to_host(xp.sum(mass, axis=-1))
        if tails is not None and joint.pull is not None:
            tails += tail_sums(mass, joint.pull, part_weight, model)
            mass *= joint.pull
        shared_out = _shared_out(mass, shares)
        sums += to_host(xp.reshape(shared_out, (n_clusters * n_fits, -1)) @ part)
    sums = np.swapaxes(sums.reshape(n_clusters, n_fits, n_monomials), 0, 1)
    counts, pooled = np.ascontiguousarray(set_counts.T), np.zeros((n_fits, 0))
    return Statistics(counts, np.ascontiguousarray(sums), pooled, log_likelihood, tails)


def _shared_out(mass: FloatArray, shares: FloatArray) -> FloatArray:
    """Pignistic probabilities (C, B, n) of masses (M, B, n)."""
    if is_identity(shares):
        return mass
    xp = namespace(mass)
    return xp.reshape(shares.T @ xp.reshape(mass, (shares.shape[0], -1)), (-1, *mass.shape[1:]))


def joint_masses(z: FloatArray, model: Components, shares: FloatArray, log_evidence: FloatArray | None = None) -> Joint:
    """Masses of rows before they are normalised, from the monomials (n, F)."""
    scores, pull = _set_scores(z, model, shares)
    return joint_of(scores, log_evidence)._replace(pull=pull)


def log_scores(z: FloatArray, model: Components, shares: FloatArray) -> FloatArray:
    """log pi_j N_j(x) of the focal sets, (M, B, n); relative to the reference where the covariance is shared."""
    return _set_scores(z, model, shares)[0]


def _set_scores(z: FloatArray, model: Components, shares: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Log-scores of the focal sets, and with heavy tails the weights of the rows (M, B, n)."""
    xp, scores = namespace(z), _scores(z, model)
    if not is_identity(shares):
        n_focal, n_clusters = shares.shape
        scores = xp.reshape(shares @ xp.reshape(scores, (n_clusters, -1)), (n_focal, *scores.shape[1:]))
    pull = None
    if model.kappa is not None:
        scores, pull = tailed(scores + model.kappa.T[:, :, None], model)
    scores += model.log_weights.T[:, :, None]
    return scores, pull


def joint_of(scores: FloatArray, log_evidence: FloatArray | None = None) -> Joint:
    """Masses before they are normalised, from their logarithms (M, B, n), which are overwritten."""
    if log_evidence is not None:
        scores += log_evidence.T[:, None, :]
    xp = namespace(scores)
    peak = xp.max(scores, axis=0)
    scores -= peak
    scores = np.exp(scores, out=scores) if xp is NUMPY else xp.exp(scores)
    return Joint(scores, xp.sum(scores, axis=0), peak)


def _scores(z: FloatArray, model: Components) -> FloatArray:
    """Log-densities of the clusters, (C, B, n)."""
    xp = namespace(z)
    n_fits, n_clusters, n_monomials = model.theta.shape
    theta = model.theta if n_fits == 1 else xp.permute_dims(model.theta, (1, 0, 2))
    scores = xp.reshape(xp.reshape(theta, (-1, n_monomials)) @ z.T, (n_clusters, n_fits, -1))
    if not model.is_far.any():
        return scores
    fits = range(n_fits)
    return xp.stack([_factored_scores(z, model, at) if model.is_far[at] else scores[:, at, :] for at in fits], axis=1)


def _factored_scores(z: FloatArray, model: Components, at: int) -> FloatArray:
    """Log-densities of the clusters, (C, n), for one fit, from differences to the means: exact for distant clusters."""
    factors, whitened = model.factors[at, ...], model.whitened[at, ...]
    n_clusters, dim = whitened.shape
    rows = z[:, 1 : 1 + dim]
    halves = []
    for k in range(n_clusters):
        offsets = whiten(rows, factors[min(k, factors.shape[0] - 1), ...])
        offsets -= whitened[k, ...]
        halves.append(-0.5 * _squared_lengths(offsets))
    scores = namespace(z).stack(halves)
    if z.shape[1] > 1 + dim:
        return scores + model.log_norms[at, :, None]
    return scores + _half_norms(rows, factors[0, ...])


def _half_norms(rows: FloatArray, factor: FloatArray) -> FloatArray:
    """Half of the squared distances from the centre, (n,)."""
    return 0.5 * _squared_lengths(whiten(rows, factor))


def _squared_lengths(rows: FloatArray) -> FloatArray:
    """(n,)."""
    xp = namespace(rows)
    return np.einsum("nd,nd->n", rows, rows) if xp is NUMPY else xp.sum(rows * rows, axis=1)


def masses(z: FloatArray, model: Components, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Masses (B, n, M) and log-densities (B, n), relative where the covariance is shared, of rows [eq_EMemb]."""
    joint = joint_masses(z, model, shares)
    return namespace(z).permute_dims(joint.mass / joint.total, (1, 2, 0)), joint.log_density


def log_reference(z: FloatArray, model: Components) -> FloatArray:
    """Log of the density N(x; centre, Sigma) that densities are relative to, (B, n); zero where they are absolute."""
    n_fits, _, dim = model.whitened.shape
    xp = namespace(z)
    if model.theta.shape[2] > 1 + dim:
        return xp.stack([xp.zeros_like(z[:, 0])] * n_fits)
    rows = z[:, 1 : 1 + dim]
    return xp.stack([model.log_norms[at, 0] - _half_norms(rows, model.factors[at, 0, ...]) for at in range(n_fits)])


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
