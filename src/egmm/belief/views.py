"""Views of a credal partition: beliefs, labels, chosen sets, simpler partitions, uncertainty."""

from typing import Literal, NamedTuple, overload

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray, check_choice
from egmm.belief.decisions import REWARD, best_cluster, choose_sets, cluster_scores, heaviest_set, outliers
from egmm.belief.focal import FocalSets
from egmm.belief.uncertainty import is_bayesian, is_certain, is_vacuous, nonspecificity


class Rough(NamedTuple):
    """Lower and upper approximation of each cluster, boolean (n_samples, n_clusters)."""

    lower: BoolArray
    upper: BoolArray


class PartitionViews:
    """Quantities derived from the masses of a credal partition."""

    __slots__ = ()
    _mass: FloatArray
    _focal_sets: FocalSets

    # Clusters ---------------------------------------------------------------------------------------------

    def belief(self) -> FloatArray:
        """Belief of each cluster, (n_samples, n_clusters); see :func:`egmm.belief.belief` for sets.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).belief()
        array([[0.5, 0.1]])
        """
        return cluster_scores(self._mass, self._focal_sets, "belief")

    def plausibility(self) -> FloatArray:
        """Plausibility of each cluster, (n_samples, n_clusters); see :func:`egmm.belief.plausibility` for sets.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).plausibility()
        array([[0.9, 0.5]])
        """
        return cluster_scores(self._mass, self._focal_sets, "plausibility")

    def pignistic(self) -> FloatArray:
        """Pignistic probability of each cluster, (n_samples, n_clusters); see :func:`egmm.belief.pignistic`.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).pignistic()
        array([[0.7, 0.3]])
        """
        return cluster_scores(self._mass, self._focal_sets, "pignistic")

    def labels(self, rule: str = "pignistic") -> IntArray:
        """Choose one cluster per row, counted from zero; see :func:`egmm.belief.best_cluster`.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.5, 0.1, 0.4], [0, 1, 0]], FocalSets.full(2)).labels(rule="plausibility")
        array([0, 1])
        """
        return best_cluster(self._mass, self._focal_sets, rule)

    @overload
    def sets(self, rule: Literal["heaviest"] = ..., reward: float = ...) -> IntArray: ...

    @overload
    def sets(self, rule: Literal["utility", "dominance"], reward: float = ...) -> BoolArray: ...

    @overload
    def sets(self, rule: str, reward: float = ...) -> IntArray | BoolArray: ...

    def sets(self, rule: str = "heaviest", reward: float = REWARD) -> IntArray | BoolArray:
        """Choose a set of clusters for each row.

        Parameters
        ----------
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            The set of largest mass (:func:`egmm.belief.heaviest_set`); the set of largest expected utility
            (:func:`egmm.belief.most_useful_set`); the clusters not dominated by their intervals [Bel, Pl]
            (:func:`egmm.belief.undominated`).
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, from 0.5 to 1, for ``rule="utility"``.

        Returns
        -------
        sets : ndarray of int of shape (n_samples,), or of bool of shape (n_samples, n_clusters)
            The heaviest set is a focal set, given as its index into `focal_sets`. Sets of the other rules need not be
            focal sets and are given by their members. :meth:`upper` gives members for every rule.

        Examples
        --------
        >>> from egmm.belief import CredalPartition, FocalSets
        >>> partition = CredalPartition([[0.9, 0.1, 0], [0.6, 0.3, 0.1]], FocalSets.full(2))
        >>> partition.sets()
        array([0, 0])
        >>> partition.sets("utility", reward=0.8)
        array([[ True, False],
               [ True,  True]])
        """
        if rule == "heaviest":
            return heaviest_set(self._mass, self._focal_sets)
        return choose_sets(self._mass, self._focal_sets, rule, reward)

    def is_open(self, rule: str = "heaviest", reward: float = REWARD) -> BoolArray:
        """Open rows: rows whose chosen set has several clusters. The other rows are sure.

        Parameters
        ----------
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set is chosen, see :meth:`sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        is_open : ndarray of bool of shape (n_samples,)

        Examples
        --------
        >>> from egmm.belief import CredalPartition, FocalSets
        >>> partition = CredalPartition([[0.9, 0.1, 0], [0.6, 0.3, 0.1]], FocalSets.full(2))
        >>> partition.is_open(), partition.is_open("utility")
        (array([False, False]), array([False,  True]))
        """
        members = choose_sets(self._mass, self._focal_sets, rule, reward)
        return np.asarray(members.sum(axis=1) > 1)

    def lower(self, by: str = "mass", reward: float = REWARD) -> BoolArray:
        """Rows surely in each cluster: the chosen set of the row is that cluster alone.

        Parameters
        ----------
        by : {'mass', 'utility', 'dominance'}, default='mass'
            The chosen set: the heaviest one, that of largest expected utility, or the clusters not dominated by their
            intervals [Bel, Pl]; see :meth:`sets`, where 'mass' is the rule 'heaviest'.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``by="utility"``.

        Returns
        -------
        lower : ndarray of bool of shape (n_samples, n_clusters)

        Examples
        --------
        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]], FocalSets.full(2)).lower()
        array([[ True, False],
               [False, False]])
        """
        return self.rough(by, reward).lower

    def upper(self, by: str = "mass", reward: float = REWARD) -> BoolArray:
        """Rows possibly in each cluster: the chosen set of the row holds that cluster.

        Parameters
        ----------
        by : {'mass', 'utility', 'dominance'}, default='mass'
            The chosen set: the heaviest one, that of largest expected utility, or the clusters not dominated by their
            intervals [Bel, Pl]; see :meth:`sets`, where 'mass' is the rule 'heaviest'.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``by="utility"``.

        Returns
        -------
        upper : ndarray of bool of shape (n_samples, n_clusters)

        Examples
        --------
        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]], FocalSets.full(2)).upper()
        array([[ True, False],
               [ True,  True]])
        """
        return self.rough(by, reward).upper

    def outliers(self) -> BoolArray:
        """Rows whose heaviest set is the empty set; see :func:`egmm.belief.outliers`.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition.from_labels([0, -1]).outliers()
        array([False,  True])
        """
        return outliers(self._mass, self._focal_sets)

    # Simpler partitions -----------------------------------------------------------------------------------

    def hard(self) -> IntArray:
        """View as a hard partition: the cluster of largest pignistic probability.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.2, 0.3, 0.5]], FocalSets.full(2)).hard()
        array([1])
        """
        return self.labels()

    def fuzzy(self) -> FloatArray:
        """View as a fuzzy partition: memberships that sum to one, the pignistic probabilities.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.2, 0.3, 0.5]], FocalSets.full(2)).fuzzy()
        array([[0.45, 0.55]])
        """
        return self.pignistic()

    def possibilistic(self) -> FloatArray:
        """View as a possibilistic partition: memberships that need not sum to one, the plausibilities.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.2, 0.3, 0.5]], FocalSets.full(2)).possibilistic()
        array([[0.7, 0.8]])
        """
        return self.plausibility()

    def rough(self, by: str = "mass", reward: float = REWARD) -> Rough:
        """View as a rough partition: both approximations, see :meth:`lower` and :meth:`upper`.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.2, 0.3, 0.5]], FocalSets.full(2)).rough()
        Rough(lower=array([[False, False]]), upper=array([[ True,  True]]))
        """
        rules = {"mass": "heaviest", "utility": "utility", "dominance": "dominance"}
        chosen = choose_sets(self._mass, self._focal_sets, rules[check_choice("by", by, rules)], reward)
        return Rough(chosen & (chosen.sum(axis=1, keepdims=True) == 1), chosen)

    # Uncertainty ------------------------------------------------------------------------------------------

    def nonspecificity(self) -> FloatArray:
        """Nonspecificity of each row in bits; see :func:`egmm.belief.nonspecificity`.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).nonspecificity()
        array([0.4])
        """
        return nonspecificity(self._mass, self._focal_sets)

    def kinds(self) -> list[str]:
        """Kind of each mass function: certain, Bayesian, vacuous or general.

        >>> from egmm.belief import CredalPartition, FocalSets
        >>> CredalPartition([[0, 1, 0], [0.5, 0.5, 0], [0, 0, 1], [0.5, 0, 0.5]], FocalSets.full(2)).kinds()
        ['certain', 'Bayesian', 'vacuous', 'general']
        """
        tests = {"certain": is_certain, "Bayesian": is_bayesian, "vacuous": is_vacuous}
        holds = [test(self._mass, self._focal_sets) for test in tests.values()]
        return [str(kind) for kind in np.select(holds, list(tests), default="general")]
