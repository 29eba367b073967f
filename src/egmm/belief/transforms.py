"""Transforms of masses: belief, plausibility, commonality, probabilities, and their inverses."""

import numpy as np

from egmm._checks import BoolArray, FloatArray, check_finite_matrix
from egmm.belief.focal import FocalSets
from egmm.belief.masses import SUM_TOLERANCE, check_focal, check_mass
from egmm.belief.moebius import meeting_sums, subset_differences, subset_sums, superset_differences, superset_sums


def belief(mass: FloatArray, focal: FocalSets, at: FocalSets | None = None) -> FloatArray:
    r"""Sum the mass that implies each set [eq_BF].

    .. math:: \mathrm{Bel}_i(A) = \sum_{\emptyset \ne B \subseteq A} m_i(B)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    at : FocalSets, optional
        The sets :math:`A` to evaluate, by default `focal`. The power set uses the fast Moebius transform.

    Returns
    -------
    bel : ndarray of shape (n_samples, len(at))

    Examples
    --------
    >>> belief([[0.5, 0.1, 0.4]], FocalSets.full(2))
    array([[0.5, 0.1, 1. ]])
    """
    mass, at = _checked(mass, focal, at)
    if _pays_fast(focal, at):
        return subset_sums(_on_power_set(mass, focal, keep_empty=False))[:, at.masks]
    implies = (focal.intersection(at) == focal.masks[:, None]) & (focal.masks[:, None] != 0)
    return _sum_where(mass, implies)


def plausibility(mass: FloatArray, focal: FocalSets, at: FocalSets | None = None) -> FloatArray:
    r"""Sum the mass that does not contradict each set [eq_BF].

    .. math:: \mathrm{Pl}_i(A) = \sum_{B \cap A \ne \emptyset} m_i(B)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    at : FocalSets, optional
        The sets :math:`A` to evaluate, by default `focal`. The power set uses the fast Moebius transform.

    Returns
    -------
    pl : ndarray of shape (n_samples, len(at))

    Examples
    --------
    >>> plausibility([[0.5, 0.1, 0.4]], FocalSets.full(2))
    array([[0.9, 0.5, 1. ]])
    """
    mass, at = _checked(mass, focal, at)
    if _pays_fast(focal, at):
        # 1 - Bel(complement) would lose small plausibilities to rounding.
        return meeting_sums(_on_power_set(mass, focal))[:, at.masks]
    return _sum_where(mass, focal.intersection(at) != 0)


def commonality(mass: FloatArray, focal: FocalSets, at: FocalSets | None = None) -> FloatArray:
    r"""Sum the mass that is free to move to any cluster of each set.

    .. math:: Q_i(A) = \sum_{B \supseteq A} m_i(B)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    at : FocalSets, optional
        The sets :math:`A` to evaluate, by default `focal`. The power set uses the fast Moebius transform.

    Returns
    -------
    q : ndarray of shape (n_samples, len(at))

    Examples
    --------
    >>> commonality([[0.5, 0.1, 0.4]], FocalSets.full(2))
    array([[0.9, 0.5, 0.4]])
    """
    mass, at = _checked(mass, focal, at)
    if _pays_fast(focal, at):
        return superset_sums(_on_power_set(mass, focal))[:, at.masks]
    return _sum_where(mass, focal.intersection(at) == at.masks)


def contour(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Plausibility of each cluster, :math:`\mathrm{pl}_i(\omega_k) = \sum_{A \ni \omega_k} m_i(A)`.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    pl : ndarray of shape (n_samples, n_clusters)

    Examples
    --------
    >>> contour([[0.5, 0.1, 0.4]], FocalSets.full(2))
    array([[0.9, 0.5]])
    """
    return _sum_where(check_mass(mass, focal), focal.membership)


def pignistic(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Share each focal set's mass equally among its clusters [eq_BetP].

    .. math:: \mathrm{BetP}_i(\omega_k) = \frac{1}{1 - m_i(\emptyset)} \sum_{A \ni \omega_k} \frac{m_i(A)}{|A|}

    and :math:`1/C` in a row with all its mass on the empty set.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    betp : ndarray of shape (n_samples, n_clusters)
        Probabilities: rows sum to one.

    Examples
    --------
    >>> pignistic([[0.5, 0.1, 0.4]], FocalSets.full(2))
    array([[0.7, 0.3]])
    """
    shared = check_mass(mass, focal) @ focal.shares
    return normalised(shared) if focal.has_empty else shared


def plausibility_transform(mass: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Probabilities proportional to the plausibility of each cluster.

    .. math:: \mathrm{PlP}_i(\omega_k) = \frac{\mathrm{pl}_i(\omega_k)}{\sum_l \mathrm{pl}_i(\omega_l)}

    and :math:`1/C` in a row with all its mass on the empty set. Unlike :func:`pignistic` it commutes with Dempster's
    rule.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    probabilities : ndarray of shape (n_samples, n_clusters)

    Examples
    --------
    >>> plausibility_transform([[0.6, 0.1, 0.3]], FocalSets.full(2)).round(3)
    array([[0.692, 0.308]])
    """
    return normalised(contour(mass, focal))


def mass_from_belief(bel: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Undo :func:`belief` on the power set.

    .. math:: m_i(A) = \sum_{\emptyset \ne B \subseteq A} (-1)^{|A| - |B|}\, \mathrm{Bel}_i(B), \qquad
              m_i(\emptyset) = 1 - \mathrm{Bel}_i(\Omega)

    Parameters
    ----------
    bel : array-like of shape (n_samples, n_focal)
        Belief of each set, in the column order of `focal`.
    focal : FocalSets
        Every subset of the frame; with the empty set unless all beliefs of the frame are one.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
        Has negative entries if `bel` is not a belief function.

    Examples
    --------
    >>> mass_from_belief([[0.5, 0.25, 1]], FocalSets.full(2))
    array([[0.5 , 0.25, 0.25]])
    """
    sums = _power_set_values("bel", bel, focal)
    sums[:, 0] = 0.0
    return _mass_of(subset_differences(sums), 1 - sums[:, -1], focal, "Bel")


def mass_from_plausibility(pl: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Undo :func:`plausibility` on the power set.

    .. math:: \mathrm{Bel}_i(A) = \mathrm{Pl}_i(\Omega) - \mathrm{Pl}_i(\bar A), \quad
              \text{then as in } \texttt{mass\_from\_belief}

    Parameters
    ----------
    pl : array-like of shape (n_samples, n_focal)
        Plausibility of each set, in the column order of `focal`.
    focal : FocalSets
        Every subset of the frame; with the empty set unless all plausibilities of the frame are one.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
        Has negative entries if `pl` is not a plausibility function.

    Examples
    --------
    >>> mass_from_plausibility([[0.75, 0.5, 1]], FocalSets.full(2))
    array([[0.5 , 0.25, 0.25]])
    """
    sums = _power_set_values("pl", pl, focal)
    sums[:, 0] = 0.0
    bel = sums[:, -1:] - sums[:, ::-1]
    return _mass_of(subset_differences(bel), 1 - sums[:, -1], focal, "Pl")


def mass_from_commonality(q: FloatArray, focal: FocalSets) -> FloatArray:
    r"""Undo :func:`commonality` on the power set.

    .. math:: m_i(A) = \sum_{B \supseteq A} (-1)^{|B| - |A|}\, Q_i(B), \qquad Q_i(\emptyset) = 1

    Parameters
    ----------
    q : array-like of shape (n_samples, n_focal)
        Commonality of each set, in the column order of `focal`.
    focal : FocalSets
        Every subset of the frame; with the empty set unless it carries no mass.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
        Has negative entries if `q` is not a commonality function.

    Examples
    --------
    >>> mass_from_commonality([[0.75, 0.5, 0.25]], FocalSets.full(2))
    array([[0.5 , 0.25, 0.25]])
    """
    sums = _power_set_values("q", q, focal)
    sums[:, 0] = 1.0
    mass = superset_differences(sums)
    return _mass_of(mass, mass[:, 0].copy(), focal, "Q")


def _checked(mass: FloatArray, focal: FocalSets, at: FocalSets | None) -> tuple[FloatArray, FocalSets]:
    return check_mass(mass, focal), focal if at is None else check_focal(at)


def _pays_fast(focal: FocalSets, at: FocalSets) -> bool:
    """Whether C additions per set of the power set beat a matrix product with M multiplications per set."""
    focal.on_frame_of(at)
    return at.is_full and len(focal) > 4 * focal.n_clusters


def _sum_where(mass: FloatArray, related: BoolArray) -> FloatArray:
    """Sum over the rows of `related` (n_focal, n_out) that are true, as one matrix product."""
    sums: FloatArray = mass @ related.astype(np.float64)
    return sums


def _on_power_set(mass: FloatArray, focal: FocalSets, *, keep_empty: bool = True) -> FloatArray:
    """Masses with one column per bit mask, (n_samples, 2**n_clusters)."""
    dense = np.zeros((mass.shape[0], focal.frame_mask + 1))
    dense[:, focal.masks] = mass
    if not keep_empty:
        dense[:, 0] = 0.0
    return dense


def _power_set_values(name: str, values: FloatArray, focal: FocalSets) -> FloatArray:
    """Given values with one column per bit mask; the caller fills the column of the empty set."""
    if not check_focal(focal).is_full:
        raise ValueError(
            f"{name} must be given on every subset of the frame to recover masses, got {(focal.masks > 0).sum()} "
            f"of {focal.frame_mask} sets; use FocalSets.full({focal.n_clusters})."
        )
    array = check_finite_matrix(name, values, (None, len(focal)))
    return _on_power_set(array, focal)


def _mass_of(power_set_mass: FloatArray, empty_mass: FloatArray, focal: FocalSets, symbol: str) -> FloatArray:
    """Columns of `focal`, refusing to drop mass of the empty set."""
    power_set_mass[:, 0] = empty_mass
    dropped = np.abs(empty_mass) > SUM_TOLERANCE
    if not focal.has_empty and dropped.any():
        row = int(np.argmax(dropped))
        raise ValueError(
            f"{symbol} leaves mass {empty_mass[row]:.6g} on the empty set in row {row}, which is not in the family; "
            "pass focal.with_empty() and its column."
        )
    return power_set_mass[:, focal.masks]


def normalised(weights: FloatArray) -> FloatArray:
    """Rows divided by their sum; uniform where it is zero."""
    totals = weights.sum(axis=1, keepdims=True)
    uniform = np.full_like(weights, 1 / weights.shape[1])
    normalised: FloatArray = np.divide(weights, totals, out=uniform, where=totals > 0)
    return normalised
