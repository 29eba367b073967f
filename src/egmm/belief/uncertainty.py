"""How uncertain a mass function is."""

import numpy as np

from egmm._checks import FloatArray
from egmm.belief.focal import FocalSets
from egmm.belief.masses import check_mass


def nonspecificity(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Imprecision of each row, in bits.

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
    sizes = np.where(focal.cardinalities == 0, focal.n_clusters, focal.cardinalities)
    bits: FloatArray = check_mass(mass, focal) @ np.log2(sizes)
    return bits
