"""The cautious rule and the canonical decomposition it uses."""

from collections.abc import Sequence

import numpy as np

from egmm._checks import FloatArray
from egmm.belief.focal import FocalSets
from egmm.belief.masses import Masses, check_mass, embed
from egmm.belief.moebius import superset_differences, superset_sums


def canonical_weights(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Decompose each mass function into simple ones, whose conjunctive combination restores it.

    The simple mass function :math:`A^{w(A)}` has mass :math:`1 - w(A)` on :math:`A` and :math:`w(A)` on the frame, with

    .. math:: w_i(A) = \prod_{B \supseteq A} Q_i(B)^{(-1)^{|B| - |A| + 1}}, \qquad A \ne \Omega

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row, with mass on the frame.
    focal : FocalSets
        Every subset of the frame, with or without the empty set.

    Returns
    -------
    weights : ndarray of shape (n_samples, 2**n_clusters - 1)
        Columns are indexed by bit mask: the empty set first, without the frame.

    Examples
    --------
    >>> canonical_weights([[0.5, 0.25, 0.25]], FocalSets.full(2)).round(3)
    array([[1.5  , 0.333, 0.5  ]])
    """
    return np.exp(_log_weights("canonical_weights", "mass", check_mass(mass, focal), focal)[:, :-1])


def cautious(sources: Sequence[Masses]) -> Masses:
    r"""Combine sources that may not be independent: idempotent, and never more committed than the evidence.

    .. math:: m = \mathop{\bigcap}_{A \subset \Omega} A^{\min_s w_s(A)}

    Parameters
    ----------
    sources : sequence of (ndarray of shape (n_samples, n_focal), FocalSets)
        Mass functions over the full power set of one frame, each with mass on the frame in every row.

    Returns
    -------
    mass : ndarray of shape (n_samples, 2**n_clusters)
        Not normalised: the empty set carries the conflict.
    focal : FocalSets
        The power set with the empty set.

    Examples
    --------
    >>> source = (np.array([[0.5, 0.2, 0.3]]), FocalSets.full(2))
    >>> cautious([source, source])[0].round(3)
    array([[0. , 0.5, 0.2, 0.3]])
    """
    log_weights = _log_weights("rule='cautious'", "source 0", *sources[0])
    for number, (mass, focal) in enumerate(sources[1:], start=1):
        np.minimum(log_weights, _log_weights("rule='cautious'", f"source {number}", mass, focal), out=log_weights)
    # ln Q(B) sums ln w(A) over the sets A that do not contain B; the frame's entry cancels.
    implied = superset_sums(log_weights)
    combined = superset_differences(np.exp(implied[:, :1] - implied))
    # Only rounding makes differences of commonalities negative: w <= w_s makes this a specialisation of m_s.
    np.maximum(combined, 0.0, out=combined)
    combined /= combined.sum(axis=1, keepdims=True)
    return combined, FocalSets.full(sources[0][1].n_clusters, empty=True)


def _log_weights(caller: str, source: str, mass: FloatArray, focal: FocalSets) -> FloatArray:
    """Logarithms of the canonical weights, (n_samples, 2**n_clusters); the frame's column is a placeholder."""
    if not focal.is_full:
        raise ValueError(
            f"{caller} needs the full power set, but {source} has {(focal.masks > 0).sum()} of the {focal.frame_mask} "
            f"sets; embed it in FocalSets.full({focal.n_clusters}) first."
        )
    if (mass[:, -1] <= 0).any():
        raise ValueError(
            f"{caller} needs mass on the frame in every row, but {source} has none in row "
            f"{np.argmax(mass[:, -1] <= 0)}; discount it first."
        )
    dense = embed(mass, focal, FocalSets.full(focal.n_clusters, empty=True))
    return -superset_differences(np.log(superset_sums(dense)))
