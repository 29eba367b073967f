"""Metrics that adapt to the shapes of clusters, for BPEC and CECM."""

import numpy as np

from egmm._checks import FloatArray
from egmm.cluster.masses import ROUNDING, Pricing


def cluster_scatters(X: FloatArray, powers: FloatArray, means: FloatArray, pricing: Pricing) -> FloatArray:
    r"""Scatter matrices of the rows about the sets' prototypes, summed by cluster, (C, D, D).

    .. math:: T_k = \sum_i \sum_{j \ni k} c_j^{\alpha-1} m_{ij}^\beta (x_i - \nu_j)(x_i - \nu_j)^\top

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The rows.
    powers : ndarray of shape (n_sets, n)
        :math:`m_{ij}^\beta` of the non-empty sets.
    means : ndarray of shape (C, D)
        The clusters' prototypes.
    pricing : Pricing
        The family and its parameters.
    """
    prototypes = pricing.shares @ means
    set_scatters = np.empty((len(prototypes), X.shape[1], X.shape[1]))
    for scatter, prototype, power in zip(set_scatters, prototypes, powers, strict=True):
        rows = X - prototype
        np.matmul(rows.T * power, rows, out=scatter)
    return np.tensordot(pricing.priced_shares.T, set_scatters, axes=1)


def adapted_metrics(scatters: FloatArray) -> FloatArray:
    r"""Metrics :math:`\det(T_k)^{1/D} T_k^{-1}` of determinant one, (C, D, D)."""
    metrics = np.empty_like(scatters)
    for k, scatter in enumerate(scatters):
        # Scaled by the features, so that units do not decide what counts as singular.
        units = np.sqrt(np.diag(scatter))
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = scatter / units / units[:, None]
        roots, axes = np.linalg.eigh(np.nan_to_num(correlation))
        if roots[0] <= ROUNDING * len(roots):
            raise ValueError(
                f"The scatter of cluster {k + 1} is singular: features are constant or collinear, or too few rows are "
                "within delta of its prototype; drop such features, raise delta, set reg_covar (such as 1e-6) or use "
                "distance='euclidean'."
            )
        log_root = (np.log(roots).sum() + 2 * np.log(units).sum()) / len(roots)
        half = axes / np.sqrt(roots) / units[:, None]
        metrics[k] = np.exp(log_root) * (half @ half.T)
    return metrics
