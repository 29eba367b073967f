"""Uncertainty of mass functions: nonspecificity, conflict, and entropies."""

import numpy as np

from egmm._checks import BoolArray, FloatArray
from egmm.belief.focal import FocalSets
from egmm.belief.masses import SUM_TOLERANCE, check_mass
from egmm.belief.transforms import plausibility, plausibility_transform


def nonspecificity(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Nonspecificity of each row, in bits.

    .. math:: N(m_i) = \sum_{A \ne \emptyset} m_i(A) \log_2 |A| + m_i(\emptyset) \log_2 C

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    bits : ndarray of shape (n_samples,)
        From 0 (all mass on singletons) to :math:`\log_2 C` (vacuous).

    Examples
    --------
    >>> nonspecificity([[0.5, 0.1, 0.4], [0, 0, 1]], FocalSets.full(2))
    array([0.4, 1. ])
    """
    mass = check_mass(mass, focal)
    sizes = np.where(focal.cardinalities == 0, focal.n_clusters, focal.cardinalities)
    bits: FloatArray = mass @ np.log2(sizes)
    return bits


def average_nonspecificity(mass: FloatArray, focal: FocalSets) -> float:
    r"""Average normalised nonspecificity (ANS) of a partition, from 0 (precise) to 1 (vacuous).

    .. math:: \mathrm{ANS} = \frac{1}{N \log_2 C} \sum_i N(m_i)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`. With one cluster, ANS is 0.

    Returns
    -------
    ans : float

    Examples
    --------
    >>> average_nonspecificity([[0.5, 0.1, 0.4], [0, 0, 1]], FocalSets.full(2))
    0.7
    """
    bits = nonspecificity(mass, focal)
    if bits.size == 0:
        raise ValueError("The average nonspecificity is not defined for zero rows.")
    # Row by row, so that rounding does not lift the mean of vacuous rows above one.
    return float((bits / np.log2(focal.n_clusters)).mean()) if focal.n_clusters > 1 else 0.0


def dissonance(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Conflict within each row, in bits: how much its sets exclude each other.

    .. math:: E(m_i) = -\sum_{A \ne \emptyset} m_i(A) \log_2 \mathrm{Pl}_i(A)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    bits : ndarray of shape (n_samples,)
        Zero when all sets with mass share a cluster; Shannon's entropy when all are singletons.

    Examples
    --------
    >>> dissonance([[0.5, 0.5, 0], [0.5, 0, 0.5]], FocalSets.full(2))
    array([1., 0.])
    """
    mass = check_mass(mass, focal)
    return _expected_bits(mass, focal, plausibility(mass, focal))


def deng_entropy(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Deng entropy of each row, in bits.

    .. math:: E_d(m_i) = -\sum_{A \ne \emptyset} m_i(A) \log_2 \frac{m_i(A)}{2^{|A|} - 1}

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    bits : ndarray of shape (n_samples,)
        Shannon's entropy when all mass is on singletons.

    Examples
    --------
    >>> deng_entropy([[0.5, 0.5, 0], [0, 0, 1]], FocalSets.full(2)).round(3)
    array([1.   , 1.585])
    """
    mass = check_mass(mass, focal)
    # Separate logarithms: the quotient of tiny masses underflows to zero.
    choices = np.log2(np.maximum(2.0**focal.cardinalities - 1, 1))
    return _expected_bits(mass, focal, mass) + mass @ choices


def jirousek_shenoy_entropy(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Jirousek-Shenoy entropy of each row, in bits: entropy of the plausibility transform plus nonspecificity.

    .. math:: H(m_i) = -\sum_k \mathrm{PlP}_i(\omega_k) \log_2 \mathrm{PlP}_i(\omega_k) + N(m_i)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    bits : ndarray of shape (n_samples,)
        From 0 (certain) to :math:`2 \log_2 C` (vacuous).

    Examples
    --------
    >>> jirousek_shenoy_entropy([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]], FocalSets.full(2))
    array([0., 1., 2.])
    """
    betting = plausibility_transform(mass, focal)
    entropy = _expected_bits(betting, FocalSets.singletons(focal.n_clusters), betting)
    return entropy + nonspecificity(mass, focal)


def is_bayesian(mass: FloatArray, focal: FocalSets) -> BoolArray:
    r"""Rows that are probabilities, :math:`m_i(A) > 0 \Rightarrow |A| = 1`, up to 1e-8.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    bayesian : ndarray of bool of shape (n_samples,)

    Examples
    --------
    >>> is_bayesian([[0.5, 0.5, 0], [0.5, 0.4, 0.1]], FocalSets.full(2))
    array([ True, False])
    """
    mass = check_mass(mass, focal)
    return np.asarray(mass @ (focal.cardinalities == 1) >= 1 - SUM_TOLERANCE)


def is_certain(mass: FloatArray, focal: FocalSets) -> BoolArray:
    r"""Rows with all mass on one cluster, :math:`m_i(\{\omega_k\}) = 1` for some :math:`k`, up to 1e-8.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    certain : ndarray of bool of shape (n_samples,)

    Examples
    --------
    >>> is_certain([[0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]], FocalSets.full(2))
    array([ True, False, False])
    """
    mass = check_mass(mass, focal)
    return np.asarray((mass[:, focal.cardinalities == 1] >= 1 - SUM_TOLERANCE).any(axis=1))


def is_vacuous(mass: FloatArray, focal: FocalSets) -> BoolArray:
    r"""Rows with all mass on the frame, :math:`m_i(\Omega) = 1`, up to 1e-8.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    vacuous : ndarray of bool of shape (n_samples,)

    Examples
    --------
    >>> is_vacuous([[0, 1, 0], [0, 0, 1]], FocalSets.full(2))
    array([False,  True])
    """
    mass = check_mass(mass, focal)
    return np.asarray((mass[:, focal.masks == focal.frame_mask] >= 1 - SUM_TOLERANCE).any(axis=1))


def _expected_bits(mass: FloatArray, focal: FocalSets, values: FloatArray) -> FloatArray:
    """Sum over non-empty sets with mass of m log2(1 / value)."""
    counted = (mass > 0) & (focal.cardinalities > 0)
    logs = np.log2(values, out=np.zeros_like(values), where=counted)
    # A value may exceed one by rounding; adding zero turns the -0.0 of certain rows into 0.0.
    return np.maximum(0.0 - (mass * logs).sum(axis=1), 0.0) + 0.0
