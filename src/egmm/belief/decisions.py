"""Decisions from masses: one cluster, a set of clusters, a rejection, an outlier."""

import numpy as np

from egmm._arrays import NUMPY, namespace
from egmm._checks import BoolArray, FloatArray, IntArray, check_choice, check_real
from egmm.belief.focal import FocalSets
from egmm.belief.masses import check_focal, check_mass
from egmm.belief.transforms import belief, contour, pignistic

TIE = 1e-12
"""Scores this close are tied, so that rounding does not decide."""

RULES = ("pignistic", "plausibility", "belief")

SET_RULES = ("heaviest", "utility", "dominance")
"""Ways to choose a set of clusters for a row."""

REWARD = 0.8
"""Default utility of a pair that contains the right cluster: the measure u80."""


def first_best(scores: FloatArray) -> IntArray:
    """Column of the largest score in each row; ties within 1e-12 go to the lowest column.

    >>> first_best(np.array([[0.2, 0.4, 0.4], [0.1 + 0.2, 0.3, 0.1]]))
    array([1, 0])
    """
    xp = namespace(scores)
    is_best = scores >= xp.max(scores, axis=1, keepdims=True) - TIE
    best: IntArray = xp.argmax(is_best if xp is NUMPY else xp.astype(is_best, xp.int8), axis=1)
    return best


def cluster_scores(mass: FloatArray, focal: FocalSets, rule: str = "pignistic") -> FloatArray:
    r"""Score each cluster by pignistic probability, plausibility or belief.

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
        Index into `focal`. Ties go to the lowest column, the smallest bit mask.

    Examples
    --------
    >>> heaviest_set([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]], FocalSets.full(2))
    array([2, 0])
    """
    return first_best(check_mass(mass, focal))


def set_utility(size: IntArray | FloatArray, reward: float) -> FloatArray:
    r"""Utility of a set of this size that contains the right cluster; 0 if it does not.

    .. math:: g(a) = (2 - 4 r)\, a^2 + (4 r - 1)\, a, \quad a = 1/|A|

    One cluster is worth 1, a pair :math:`r`.

    >>> set_utility(np.array([1, 2, 3]), 0.8).round(3)
    array([1. , 0.8, 0.6])
    """
    share = 1.0 / np.asarray(size, dtype=np.float64)
    return np.asarray((2 - 4 * reward) * share**2 + (4 * reward - 1) * share)


def most_useful_set(mass: FloatArray, focal: FocalSets, reward: float = REWARD) -> BoolArray:
    r"""Choose the set of clusters with the largest expected utility.

    .. math:: \arg\max_A\; g(1/|A|) \sum_{k \in A} \mathrm{BetP}_i(\omega_k), \quad
        g(a) = (2 - 4 r)\, a^2 + (4 r - 1)\, a

    A set without the right cluster has utility 0, the right cluster alone 1, and a pair that contains it :math:`r`. The
    best set of a given size holds the most probable clusters, so only one set per size is compared. The chosen set need
    not be a focal set.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    reward : float, default=0.8
        :math:`r`, the utility of a right pair, from 0.5 to 1: 0.65 and 0.8 give the measures u65 and u80. At 0.5 every
        row gets one cluster.

    Returns
    -------
    chosen : ndarray of bool of shape (n_samples, n_clusters)
        At least one cluster per row. Ties go to the smaller set and to the lowest cluster number.

    See Also
    --------
    egmm.metrics.discounted_utility : the utility obtained when classes are known.

    References
    ----------
    M. Zaffalon, G. Corani, D. Mauá, Evaluating credal classifiers by utility-discounted predictive accuracy,
    International Journal of Approximate Reasoning 53 (2012) 1282-1301.

    Examples
    --------
    >>> most_useful_set([[0.9, 0.1, 0], [0.6, 0.2, 0.2]], FocalSets.full(2))
    array([[ True, False],
           [ True,  True]])
    """
    rate = check_real("reward", reward, 0.5, 1)
    betp = pignistic(mass, focal)
    # Rounding must not order clusters that are equally likely.
    order = np.argsort(-np.round(betp / TIE) * TIE, axis=1, kind="stable")
    covered = np.cumsum(np.take_along_axis(betp, order, axis=1), axis=1)
    sizes = np.arange(1, betp.shape[1] + 1)
    size = 1 + first_best(covered * set_utility(sizes, rate))
    chosen = np.zeros(betp.shape, dtype=bool)
    np.put_along_axis(chosen, order, sizes <= size[:, None], axis=1)
    return chosen


def choose_sets(mass: FloatArray, focal: FocalSets, rule: str = "heaviest", reward: float = REWARD) -> BoolArray:
    """Choose a set of clusters for each row by a named rule.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
        The set of largest mass (:func:`heaviest_set`); the set of largest expected utility (:func:`most_useful_set`);
        the clusters not dominated by their intervals [Bel, Pl] (:func:`undominated`).
    reward : float, default=0.8
        Utility of a pair that contains the right cluster, for ``rule="utility"``.

    Returns
    -------
    chosen : ndarray of bool of shape (n_samples, n_clusters)
        Members of each row's set; all False for the empty set.

    Examples
    --------
    >>> choose_sets([[0.5, 0.1, 0.4]], FocalSets.full(2)), choose_sets([[0.5, 0.1, 0.4]], FocalSets.full(2), "utility")
    (array([[ True, False]]), array([[ True,  True]]))
    """
    check_choice("rule", rule, SET_RULES)
    if rule == "utility":
        return most_useful_set(mass, focal, reward)
    if rule == "dominance":
        return undominated(mass, focal)
    members: BoolArray = focal.membership[heaviest_set(mass, focal)]
    return members


def chosen_columns(
    mass: FloatArray, focal: FocalSets, rule: str = "heaviest", reward: float = REWARD
) -> tuple[IntArray, FocalSets]:
    """Chosen set of each row as a column of a family: the focal sets and the other sets that the rule chooses.

    >>> columns, family = chosen_columns([[0.5, 0.5]], FocalSets.singletons(2), "utility")
    >>> columns, family.labels
    (array([2]), ('{1}', '{2}', '{1,2}'))
    """
    masks = choose_sets(mass, focal, rule, reward) @ (1 << np.arange(focal.n_clusters))
    family = FocalSets(np.union1d(focal.masks, masks), focal.n_clusters)
    return family.columns_of(masks), family


def undominated(mass: FloatArray, focal: FocalSets) -> BoolArray:
    r"""Keep the clusters not dominated by their intervals [Bel, Pl].

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

    With unit cost of an error, the cluster with the largest score :math:`s_i` is chosen where
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
