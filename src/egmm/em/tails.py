r"""Heavy tails: multivariate t in place of Gaussians, for clusters that share one scale matrix.

A t is a Gaussian whose precision is multiplied by a random number of mean one for every row, drawn from a gamma
distribution with :math:`\nu / 2` as shape. Given a row at squared distance :math:`\delta_{ij}` from set j, that number
is expected to be

.. math:: u_{ij} = \frac{\nu + D}{\nu + \delta_{ij}},

so that rows far away pull less. With :math:`m_{ij} u_{ij}` in place of the masses, means and scale matrix follow as
with Gaussians (Peel and McLachlan 2000). As there, the distance to a meta-cluster is the mean of those to its members,
less a constant: it is read off the Gaussians' log-densities.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, entr
from scipy.stats import chi2, f

from egmm._checks import BoolArray, FloatArray, check_choice
from egmm.em.covariance import LOW_RANK, SHARED
from egmm.em.parameters import Components

TAILS = ("gaussian", "t")

FIRST_DEGREES = 10.0
"""Degrees of freedom that fits start with."""

LEAST_DEGREES, MOST_DEGREES = 0.1, 1e4
"""Range of the degrees of freedom; the upper end is as good as a Gaussian."""

N_HALVINGS = 60
"""Number of bisections of the interval for the logarithm of the degrees of freedom."""

SMALLEST_EXCESS = 1e-8


def check_tails(tails: str, covariance: str, *, noise: bool) -> bool:
    """Whether tails are heavy; raise if they are combined with unsupported options."""
    if check_choice("tails", tails, TAILS) == "gaussian":
        return False
    if noise:
        raise ValueError("tails='t' and noise=True explain the same rows, those far away; choose one of them.")
    if covariance not in (known := [name for name in SHARED if name != LOW_RANK]):
        raise ValueError(
            f"tails='t' is for clusters that share one covariance, {', '.join(known)}, got covariance={covariance!r}; "
            "choose one of them, or tails='gaussian'."
        )
    return True


class Tailed(NamedTuple):
    """Log-densities of rows under t, and how much the rows pull."""

    scores: FloatArray
    """(M, B, n) scores up to constants, which are in the weights."""
    pull: FloatArray
    """(M, B, n) u."""


def tailed(gaussian: FloatArray, model: Components) -> Tailed:
    """Read both off the log-densities (M, B, n) of Gaussians of the same means and scale matrix."""
    assert model.degrees is not None
    degrees, dim = model.degrees[:, None], model.whitened.shape[2]
    distances = np.maximum(2 * (model.log_norms[:, :1] - gaussian), 0.0)
    return Tailed(
        -0.5 * (degrees + dim) * np.log1p(distances / degrees),
        (degrees + dim) / (degrees + distances),
    )


def tail_sums(mass: FloatArray, pull: FloatArray, weight: FloatArray | None, model: Components) -> FloatArray:
    """Additional statistics of heavy tails, (B, M + 2), from masses (M, B, n) times the rows' weights.

    Sums of m u for every set, of m times what the factor's logarithm is expected to be above u, and of the masses'
    entropy.
    """
    assert model.degrees is not None
    half = 0.5 * (model.degrees + model.whitened.shape[2])
    own = entr(mass) if weight is None else weight * entr(np.divide(mass, weight, where=weight > 0, out=0 * mass))
    pulls = (mass * pull).sum(axis=-1).T
    logs = (mass * (np.log(pull) - pull + (digamma(half) - np.log(half))[:, None])).sum(axis=(0, 2))
    return np.concatenate([pulls, logs[:, None], own.sum(axis=(0, 2))[:, None]], axis=1)


def next_degrees(logs: FloatArray, weight: FloatArray) -> FloatArray:
    """Degrees of freedom (B,) of the M-step, from the sums of the expected log(factor) - factor."""
    target = -1 - logs / weight
    low, high = (np.full_like(target, np.log(end)) for end in (LEAST_DEGREES, MOST_DEGREES))
    for _ in range(N_HALVINGS):
        middle = 0.5 * (low + high)
        is_low: BoolArray = _slack(np.exp(middle)) > target
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.exp(0.5 * (low + high))


def implied_logs(degrees: FloatArray, weight: FloatArray) -> FloatArray:
    """Sums (B,) of the expected log(factor) - factor that give these degrees of freedom."""
    return np.asarray(weight * (-1 - _slack(degrees)))


def _slack(degrees: FloatArray) -> FloatArray:
    """log(t / 2) - psi(t / 2), which falls from infinity to zero."""
    return np.asarray(np.log(0.5 * degrees) - digamma(0.5 * degrees))


def tail_metric(tails: FloatArray, weight: FloatArray) -> FloatArray:
    """About the inverse variances (B, M + 1) of the sums."""
    excess = np.maximum(-1 - tails[:, -1] / weight, SMALLEST_EXCESS)
    return np.concatenate([1 / np.maximum(tails[:, :-1], 1.0), 1 / (2 * weight * excess**2)[:, None]], axis=1)


def farthest(quantile: float, dim: int, degrees: float | None) -> float:
    """Squared distance that this share of a component's rows keeps below: chi-square, or F times D for a t."""
    return float(chi2.ppf(quantile, dim) if degrees is None else dim * f.ppf(quantile, dim, degrees))
