"""From masses to decisions: one cluster, a set of clusters, a rejection, an outlier."""

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray, check_choice, check_real
from egmm.belief.focal import FocalSets
from egmm.belief.masses import check_focal, check_mass
from egmm.belief.transforms import belief, contour, pignistic

TIE = 1e-12
"""Scores this close count as tied, so that rounding does not choose between them."""

RULES = ("pignistic", "plausibility", "belief")


def first_best(scores: FloatArray) -> IntArray:
    """Column of the largest score in each row; the lowest of those within 1e-12 of it.

    >>> first_best(np.array([[0.2, 0.4, 0.4], [0.1 + 0.2, 0.3, 0.1]]))
    array([1, 0])
    """
    best: IntArray = np.argmax(scores >= scores.max(axis=1, keepdims=True) - TIE, axis=1)
    return best


def cluster_scores(mass: FloatArray, focal: FocalSets, rule: str = "pignistic") -> FloatArray:
    r"""Score of each cluster by the name of a rule: BetP, plausibility or belief.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    rule : {'pignistic', 'plausibility', 'belief'}, default='pignistic'
        :math:`\mathrm{BetP}_i(\omega_k)`, :math:`\mathrm{Pl}_i(\{\omega_k\})` or
        :math:`\mathrm{Bel}_i(\{\omega_k\})`.

    Returns
    -------
    scores : ndarray of shape (n_samples, n_clusters)

    Examples
    --------
    >>> cluster_scores([[0.5, 0.1, 0.4]], FocalSets.full(2), "belief")
    array([[0.5, 0.1]])
    """
    check_choice("rule", rule, RULES)
    if rule == "pignistic":
        return pignistic(mass, focal)
    if rule == "plausibility":
        return contour(mass, focal)
    return belief(mass, focal, FocalSets.singletons(check_focal(focal).n_clusters))


def best_cluster(mass: FloatArray, focal: FocalSets, rule: str = "pignistic") -> IntArray:
    r"""Choose the cluster with the largest score, :math:`\arg\max_k s_i(\omega_k)`.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    rule : {'pignistic', 'plausibility', 'belief'}, default='pignistic'
        What to maximise. Ties go to the lowest cluster number.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Clusters counted from zero.

    Examples
    --------
    >>> best_cluster([[0.3, 0.1, 0, 0.2, 0, 0.4, 0]], FocalSets.full(3))
    array([2])
    """
    return first_best(cluster_scores(mass, focal, rule))


def heaviest_set(mass: FloatArray, focal: FocalSets) -> IntArray:
    r"""Choose the set with the largest mass, :math:`\arg\max_j m_i(A_j)`.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    columns : ndarray of shape (n_samples,)
        Index into `focal`. Ties go to the lowest column, so to the smallest bit mask.

    Examples
    --------
    >>> heaviest_set([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]], FocalSets.full(2))
    array([2, 0])
    """
    return first_best(check_mass(mass, focal))


def undominated(mass: FloatArray, focal: FocalSets) -> BoolArray:
    r"""Keep the clusters that no other dominates by its interval [Bel, Pl].

    Cluster :math:`k` is kept when :math:`\mathrm{Pl}_i(\{\omega_k\}) \ge \max_l \mathrm{Bel}_i(\{\omega_l\})`.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Returns
    -------
    kept : ndarray of bool of shape (n_samples, n_clusters)
        At least one cluster per row.

    Examples
    --------
    >>> undominated([[0.7, 0.1, 0.2], [0.4, 0.2, 0.4]], FocalSets.full(2))
    array([[ True, False],
           [ True,  True]])
    """
    pl = contour(mass, focal)
    bel = cluster_scores(mass, focal, "belief")
    return np.asarray(pl >= bel.max(axis=1, keepdims=True) - TIE)


def hurwicz(mass: FloatArray, focal: FocalSets, pessimism: float = 0.5) -> IntArray:
    r"""Choose the cluster that maximises a mixture of the worst and the best case.

    .. math:: \arg\max_k\; \alpha\, \mathrm{Bel}_i(\{\omega_k\}) + (1 - \alpha)\, \mathrm{Pl}_i(\{\omega_k\})

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    pessimism : float, default=0.5
        :math:`\alpha`, from 0 (maximal plausibility) to 1 (maximal belief).

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Clusters counted from zero; ties go to the lowest.

    Examples
    --------
    >>> mass = [[0.4, 0.3, 0, 0, 0, 0.3, 0]]
    >>> [int(hurwicz(mass, FocalSets.full(3), alpha)[0]) for alpha in (0, 1)]
    [1, 0]
    """
    alpha = check_real("pessimism", pessimism, 0, 1)
    bel = cluster_scores(mass, focal, "belief")
    return first_best(alpha * bel + (1 - alpha) * contour(mass, focal))


def with_rejection(mass: FloatArray, focal: FocalSets, cost: float, rule: str = "pignistic") -> IntArray:
    r"""Choose a cluster unless its risk exceeds the cost of rejecting.

    With a unit cost of error, the cluster of the largest score :math:`s_i` is chosen where
    :math:`1 - \max_k s_i(\omega_k) \le c`, and the row is rejected elsewhere.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    cost : float
        :math:`c`, from 0 (reject all but certainty) to 1 (reject nothing).
    rule : {'pignistic', 'plausibility', 'belief'}, default='pignistic'
        Expected risk by the pignistic probability; the least (plausibility) or the greatest (belief) possible risk.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Clusters counted from zero, -1 for rejected rows.

    Examples
    --------
    >>> with_rejection([[0.7, 0.1, 0.2], [0.4, 0.3, 0.3]], FocalSets.full(2), cost=0.3)
    array([ 0, -1])
    """
    limit = check_real("cost", cost, 0, 1)
    scores = cluster_scores(mass, focal, rule)
    risky = 1 - scores.max(axis=1, initial=0.0) > limit + TIE
    return np.where(risky, -1, first_best(scores))


def outliers(mass: FloatArray, focal: FocalSets) -> BoolArray:
    r"""Rows whose heaviest set is the empty set, :math:`\arg\max_A m_i(A) = \emptyset`.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`. Without the empty set no row is an outlier.

    Returns
    -------
    outlying : ndarray of bool of shape (n_samples,)

    Examples
    --------
    >>> outliers([[0.6, 0.4, 0, 0], [0.1, 0.2, 0.3, 0.4]], FocalSets.full(2, empty=True))
    array([ True, False])
    """
    heaviest = heaviest_set(mass, focal)
    return np.asarray(focal.cardinalities[heaviest] == 0)
