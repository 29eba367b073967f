"""The E-step on one block of rows in NumPy and the log domain: the reference every other engine must agree with."""

from collections.abc import Callable
from functools import partial

import numpy as np

from egmm._checks import FloatArray
from egmm.em.parameters import Components
from egmm.em.statistics import Moments, Statistics


def e_step(X: FloatArray, sample_weight: FloatArray | None, model: Components, scatter: str = "none") -> Statistics:
    """Masses of one block of rows, reduced to sums that add [eq_EMemb, eq_EMP, eq_B].

    `scatter` says which second moments the M-step will want: "none", "diagonal" or "full".
    """
    rows = centred(X, model)
    joint = log_joint(rows, model)
    peak = joint.max(axis=1, keepdims=True)
    mass = np.exp(joint - peak)
    total = mass.sum(axis=1, keepdims=True)
    log_norm = np.log(total[:, 0]) + peak[:, 0]
    if sample_weight is None:
        mass /= total
        log_likelihood = float(log_norm.sum())
    else:
        mass *= sample_weight[:, None] / total
        log_likelihood = float((sample_weight * log_norm).sum())
    betp = mass @ model.shares
    return Statistics(mass.sum(axis=0), betp.T @ rows, cluster_scatters(rows, betp, scatter), log_likelihood)


def prepare(model: Components, scatter: str) -> Callable[[FloatArray, FloatArray | None], Statistics]:
    """Return the E-step of a block of rows for one pass with `model`."""
    return partial(e_step, model=model, scatter=scatter)


def centred(X: FloatArray, model: Components) -> FloatArray:
    """Rows minus the centre, in double precision and one memory order, so that sums round alike everywhere."""
    return np.subtract(X, model.centre, dtype=np.float64, order="C")


def log_joint(rows: FloatArray, model: Components) -> FloatArray:
    """Log of pi_j N_j(x), (n, M); relative to the reference density when the covariance is shared."""
    if model.is_shared:
        # The quadratic in x is the same for every set: it cancels in the masses and is added to the log-likelihood
        # once, from the moments.
        linear = model.factors @ (model.shares @ model.whitened).T
        return np.asarray(rows @ linear + (model.log_weights - 0.5 * model.shares @ (model.whitened**2).sum(axis=1)))
    n_clusters, dim = model.whitened.shape
    # All clusters in one product: rows times (D, C D).
    offsets = rows @ model.factors.transpose(1, 0, 2).reshape(dim, -1)
    offsets -= model.whitened.ravel()
    offsets = offsets.reshape(-1, n_clusters, dim)
    scores = model.log_norms - 0.5 * np.einsum("nkd,nkd->nk", offsets, offsets)
    return np.asarray(scores @ model.shares.T + model.log_weights)


def log_reference(rows: FloatArray, model: Components) -> FloatArray:
    """Log of the density N(x; centre, Sigma) that `log_joint` is relative to, (n,); zero when it is absolute."""
    if not model.is_shared:
        return np.zeros(len(rows))
    whitened = rows @ model.factors
    return np.asarray(model.log_norms[0] - 0.5 * np.einsum("nd,nd->n", whitened, whitened))


def masses(X: FloatArray, model: Components) -> tuple[FloatArray, FloatArray]:
    """Masses (n, M) and log-densities (n,) of one block of rows [eq_EMemb]."""
    rows = centred(X, model)
    joint = log_joint(rows, model)
    peak = joint.max(axis=1, keepdims=True)
    mass = np.exp(joint - peak)
    total = mass.sum(axis=1, keepdims=True)
    mass /= total
    return mass, np.log(total[:, 0]) + peak[:, 0] + log_reference(rows, model)


def cluster_scatters(rows: FloatArray, betp: FloatArray, scatter: str) -> FloatArray | None:
    """Second moments per cluster: sum_i r_ik x_i x_i', its diagonal, or nothing."""
    if scatter == "none":
        return None
    if scatter == "diagonal":
        return np.asarray(betp.T @ rows**2)
    return np.asarray((betp.T[:, None, :] * rows.T) @ rows)


def log_likelihood(statistics: Statistics, model: Components, moments: Moments) -> float:
    """Total log-likelihood: the statistics' own, plus the reference density's from the moments [eq_OL]."""
    if not model.is_shared:
        return statistics.log_likelihood
    factor = model.factors
    quadratic = float(np.sum((moments.scatter @ factor) * factor))
    return statistics.log_likelihood + moments.weight * float(model.log_norms[0]) - 0.5 * quadratic


def entropy(statistics: Statistics, model: Components) -> float:
    """Entropy of all masses, sum_ij -m_ij log m_ij: the log-likelihood minus its expected complete part Q.

    As `log_joint` is linear in the rows and their squares, Q needs no more than the sums.
    """
    counts, sums, scatters, log_likelihood = statistics
    cluster_counts = model.shares.T @ counts
    whitened_sums = (sums[:, None] @ model.factors)[:, 0]
    q = float(counts @ np.where(counts > 0, model.log_weights, 0.0))
    q += float(((whitened_sums - 0.5 * cluster_counts[:, None] * model.whitened) * model.whitened).sum())
    if not model.is_shared:
        assert scatters is not None
        own = scatters[:, :, None] * np.eye(scatters.shape[1]) if scatters.ndim == 2 else scatters
        quadratic = float(((own @ model.factors) * model.factors).sum())
        q += float(cluster_counts @ model.log_norms) - 0.5 * quadratic
    return max(log_likelihood - q, 0.0)
