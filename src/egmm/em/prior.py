r"""Priors: of means and covariances Fraley and Raftery's, and of the weights one that favours single clusters.

The conjugate prior of Fraley and Raftery (2007) is a small fraction of one row's worth of information.

Given its covariance, a cluster's mean is normal about :math:`\mu_0` with covariance :math:`\Sigma_k / \kappa`. A full
covariance is inverse Wishart with :math:`\nu` degrees of freedom and scale :math:`\Lambda`; on diagonal models each
variance is inverse gamma, on spherical ones the one variance is. Models between these have the prior of their family,
restricted to their covariances; one covariance for all clusters has it once, separate covariances have one each. Up to
a constant the logarithm is then, for every model,

.. math:: \sum_k \tfrac{c}{2} \log|P_k| - \tfrac12 \operatorname{tr}(P_k L)
          - \tfrac{\kappa}{2} (\mu_k - \mu_0)^\top P_k (\mu_k - \mu_0)

so that it acts in the M-step as rows do: :math:`c` is added to counts, :math:`L` to scatters.

The weights' prior is :math:`\lambda N \log \sum_{|A_j| = 1} \pi_j`, as if for every row :math:`\lambda` more had been
seen of which is known that they belong to a single cluster, but not to which.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, check_choice, check_finite_matrix, check_real
from egmm.em.covariance import SHARED, is_diagonal
from egmm.em.estep import traces
from egmm.em.parameters import LOG_2PI, Components, Parameters, is_single, whiten
from egmm.em.statistics import Moments, Units

ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Smallest eigenvalue of a correlation matrix that is not rounding error."""


class Prior(NamedTuple):
    """Hyperparameters; the mean is relative to the rows' centre."""

    kappa: float
    """Number of rows that the prior mean is worth."""
    mean: FloatArray
    """(D,)."""
    degrees: float
    """Degrees of freedom."""
    scale: FloatArray
    """(D, D) for full covariances, (D,) for diagonal ones, () for spherical ones."""


class PriorTerms(NamedTuple):
    """A prior in the M-step's terms, the same for every cluster of a fit; zeros where there is none."""

    kappa: FloatArray
    """(B,) how many rows the prior mean is worth."""
    mean: FloatArray
    """(B, D) in the units of `Units`."""
    log_det_count: FloatArray
    """(B,) c: added to each cluster's count, the factor of log|P|."""
    scatter: FloatArray
    """(B, D, D) L, or (B, D) its diagonal for diagonal models."""

    @property
    def is_informative(self) -> bool:
        """Whether any fit has a prior."""
        return bool(self.kappa.any() or self.log_det_count.any() or self.scatter.any())


def make_prior(
    prior: str | Mapping[str, Any] | None, moments: Moments, n_clusters: int, covariance: str
) -> Prior | None:
    r"""Return the requested prior, with defaults.

    By default :math:`\kappa = 0.01`, :math:`\mu_0` is the mean of the rows, :math:`\nu = D + 2` and the scale is their
    variance divided by :math:`C^{2/D}`: the whole matrix, its diagonal for the diagonal models, the diagonal's mean for
    the spherical ones.

    Parameters
    ----------
    prior : None, 'default' or mapping
        A mapping may have the keys 'kappa' (at least 0), 'mean', 'degrees' (above 0) and 'scale' (symmetric positive
        definite, positive numbers for diagonal and spherical models), in the units of the rows; missing ones take
        their defaults.
    moments : Moments
        Of the rows.
    n_clusters : int
        :math:`C`.
    covariance : str
        One of the 14 codes.

    Returns
    -------
    prior : Prior or None

    Examples
    --------
    >>> rows = Moments(5.0, np.array([10.0, 0.0]), np.diag([16.0, 4.0]))
    >>> make_prior({"kappa": 1}, rows, 2, "VVI")
    Prior(kappa=1.0, mean=array([0., 0.]), degrees=4.0, scale=array([2. , 0.5]))
    """
    if prior is None:
        return None
    if isinstance(prior, str):
        check_choice("prior", prior, ["default"])
        prior = {}
    if not isinstance(prior, Mapping):
        raise TypeError(f"prior must be None, 'default' or a mapping of hyperparameters, got {prior!r}.")
    for name in prior:
        check_choice("a hyperparameter of prior", name, Prior._fields)
    dim = len(moments.centre)
    kappa = check_real("prior['kappa']", prior.get("kappa", 0.01), 0.0)
    mean = check_finite_matrix("prior['mean']", prior.get("mean", moments.centre), (dim,)) - moments.centre
    degrees = check_real("prior['degrees']", prior.get("degrees", dim + 2.0), 0.0, open_minimum=True)
    scale = _default_scale(moments, n_clusters, covariance)
    if "scale" in prior:
        scale = check_finite_matrix("prior['scale']", prior["scale"], scale.shape)
        _check_definite(scale)
    return Prior(kappa, mean, degrees, scale)


def _check_definite(scale: FloatArray) -> None:
    """Raise if a scale is not a covariance (D, D), or not variances (D,) or ()."""
    if scale.ndim < 2:
        wanted, is_definite = "positive", bool((scale > 0).all())
    else:
        wanted, is_definite = "symmetric positive definite", is_covariance(scale)
    if not is_definite:
        came = np.array2string(scale, threshold=16).replace("\n", "")
        raise ValueError(f"prior['scale'] must be {wanted}, got {came}; omit it to use that of the rows.")


def is_covariance(matrix: FloatArray) -> bool:
    """Whether a matrix is symmetric and positive definite up to rounding, in any units of the features.

    Examples
    --------
    >>> is_covariance(np.array([[1.0, 2e-9], [2e-9, 9e-18]])), is_covariance(np.array([[1.0, 2.0], [2.0, 4.0]]))
    (True, False)
    """
    variances = np.diag(matrix)
    if not (variances > 0).all():
        return False
    deviations = np.sqrt(variances)
    correlation = matrix / deviations / deviations[:, None]
    is_symmetric = np.abs(correlation - correlation.T).max() < 1e-8
    return bool(is_symmetric and np.linalg.eigvalsh(correlation)[0] > ROUNDING)


def _default_scale(moments: Moments, n_clusters: int, covariance: str) -> FloatArray:
    divisor = max(moments.weight - 1, 1.0) * n_clusters ** (2 / len(moments.centre))
    if not is_diagonal(covariance):
        return np.asarray(moments.scatter / divisor)
    diagonal = moments.variances * moments.weight / divisor
    return np.asarray(diagonal.mean()) if covariance.endswith("II") else diagonal


def prior_terms(prior: Prior | None, n_clusters: int, covariance: str, units: Units) -> PriorTerms:
    """Fold degrees of freedom and scale into a count and a scatter per cluster, of a batch of one."""
    dim = len(units.centre)
    if prior is None:
        shape = (1, dim) if is_diagonal(covariance) else (1, dim, dim)
        return PriorTerms(np.zeros(1), np.zeros((1, dim)), np.zeros(1), np.zeros(shape))
    if covariance.endswith("II"):
        count, scatter = (prior.degrees + 2) / dim, np.full(dim, prior.scale / dim)
    elif is_diagonal(covariance):
        count, scatter = prior.degrees + 2, prior.scale
    else:
        count, scatter = prior.degrees + dim + 1, prior.scale
    copies = n_clusters if covariance in SHARED else 1
    with np.errstate(over="ignore"):  # of one variance for features whose units differ too much; no fit goes on there
        scatter = units.covariances_in(scatter / copies, diagonal=is_diagonal(covariance))
    # The normal prior of the mean has its own log|P|; without shrinkage it is flat and has none.
    log_det_count = count / copies + (prior.kappa > 0)
    return PriorTerms(np.array([prior.kappa]), prior.mean[None] / units.scale, np.array([log_det_count]), scatter[None])


def log_prior(params: Parameters, model: Components, terms: PriorTerms) -> FloatArray:
    """Logarithms of the prior densities (B,) up to a constant: EM with it never lowers log-likelihood plus this."""
    if not terms.is_informative:
        return np.zeros(len(params.means))
    dim = params.means.shape[2]
    log_roots = model.log_norms + 0.5 * dim * LOG_2PI
    offsets = params.means - terms.mean[:, None]
    factors = model.factors
    offsets = whiten(offsets[..., None, :], factors)[..., 0, :]
    scatter = np.broadcast_to(terms.scatter[:, None], (*factors.shape[:2], *terms.scatter.shape[1:]))
    scatter = scatter.reshape(-1, *scatter.shape[2:])
    pulls = traces(scatter, factors.reshape(-1, *factors.shape[2:])).reshape(factors.shape[:2])
    pulls = np.broadcast_to(pulls, params.means.shape[:2])
    spread = 0.5 * terms.kappa * (offsets**2).sum(axis=(1, 2))
    return np.asarray((terms.log_det_count[:, None] * log_roots - 0.5 * pulls).sum(axis=1) - spread)


# Weights -----------------------------------------------------------------------------------------------------


def set_weights(counts: FloatArray, shares: FloatArray, certainty: float) -> FloatArray:
    r"""Weights (..., M) that maximise :math:`\sum_j n_j \log \pi_j` plus their log prior.

    Examples
    --------
    >>> set_weights(np.array([6.0, 2.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 1.0)
    array([0.675, 0.225, 0.1  ])
    """
    with np.errstate(all="ignore"):
        weights = counts / counts.sum(axis=-1, keepdims=True)
        if certainty == 0:
            return np.asarray(weights)
        single = is_single(shares)
        on_single = weights[..., single].sum(axis=-1, keepdims=True)
        known = weights * np.where(single, 1 + certainty / on_single, 1.0) / (1 + certainty)
        return np.where(on_single > 0, known, weights)


def n_weighted(weights: FloatArray, shares: FloatArray, certainty: float, n_rows: float) -> int:
    """Focal sets whose weights are parameters: all, unless a prior leaves meta-clusters without a row's weight.

    Examples
    --------
    >>> n_weighted(np.array([0.6, 0.399, 0.001]), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 0.3, 200)
    2
    """
    return len(weights) if certainty == 0 else int((is_single(shares) | (weights * n_rows >= 1)).sum())


def log_certainty(weights: FloatArray, shares: FloatArray) -> FloatArray:
    """Logarithm of the weight on single clusters, (...); zero where no focal set is one."""
    single = is_single(shares)
    with np.errstate(divide="ignore"):
        return np.log(weights[..., single].sum(axis=-1)) if single.any() else np.zeros(weights.shape[:-1])
