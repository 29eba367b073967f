"""The credal partition: one mass function per row, and everything that can be read from it."""

from typing import Any

from egmm._checks import BoolArray, FloatArray, IntArray, check_choice
from egmm.belief.decisions import best_cluster, cluster_scores, heaviest_set, undominated
from egmm.belief.focal import FocalSets
from egmm.belief.masses import check_focal, check_mass
from egmm.belief.uncertainty import nonspecificity


class CredalPartition:
    r"""Mass functions :math:`m_1, \ldots, m_N` over sets of clusters: who belongs where, and how surely [eq_Em].

    Immutable. A read-only array of doubles that owns its memory is taken as it is; anything else is copied.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j) \ge 0`; rows sum to one within 1e-8.
    focal_sets : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.

    Examples
    --------
    >>> partition = CredalPartition([[0.5, 0.1, 0.4], [0, 1, 0]], FocalSets.full(2))
    >>> partition.pignistic()
    array([[0.7, 0.3],
           [0. , 1. ]])
    >>> partition.labels()
    array([0, 1])
    """

    __slots__ = ("_focal_sets", "_mass")

    def __init__(self, mass: Any, focal_sets: FocalSets) -> None:
        self._focal_sets = check_focal(focal_sets)
        self._mass = _read_only(check_mass(mass, focal_sets))

    @property
    def mass(self) -> FloatArray:
        """Masses :math:`m_i(A_j)`, (n_samples, n_focal), read-only."""
        return self._mass

    @property
    def focal_sets(self) -> FocalSets:
        """The sets :math:`A_j`, in the column order of `mass`."""
        return self._focal_sets

    @property
    def n_clusters(self) -> int:
        """Size C of the frame."""
        return self._focal_sets.n_clusters

    def __len__(self) -> int:
        return int(self._mass.shape[0])

    def belief(self) -> FloatArray:
        """Belief of each cluster, (n_samples, n_clusters); see :func:`egmm.belief.belief` for sets.

        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).belief()
        array([[0.5, 0.1]])
        """
        return cluster_scores(self._mass, self._focal_sets, "belief")

    def plausibility(self) -> FloatArray:
        """Plausibility of each cluster, (n_samples, n_clusters); see :func:`egmm.belief.plausibility` for sets.

        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).plausibility()
        array([[0.9, 0.5]])
        """
        return cluster_scores(self._mass, self._focal_sets, "plausibility")

    def pignistic(self) -> FloatArray:
        """Pignistic probability of each cluster, (n_samples, n_clusters); see :func:`egmm.belief.pignistic`.

        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).pignistic()
        array([[0.7, 0.3]])
        """
        return cluster_scores(self._mass, self._focal_sets, "pignistic")

    def labels(self, rule: str = "pignistic") -> IntArray:
        """Choose one cluster per row, counted from zero; see :func:`egmm.belief.best_cluster`.

        >>> CredalPartition([[0.5, 0.1, 0.4], [0, 1, 0]], FocalSets.full(2)).labels(rule="plausibility")
        array([0, 1])
        """
        return best_cluster(self._mass, self._focal_sets, rule)

    def sets(self) -> IntArray:
        """Index into `focal_sets` of the heaviest set of each row; see :func:`egmm.belief.heaviest_set`.

        >>> CredalPartition([[0.2, 0.3, 0.5]], FocalSets.full(2)).sets()
        array([2])
        """
        return heaviest_set(self._mass, self._focal_sets)

    def lower(self, by: str = "mass") -> BoolArray:
        """Rows surely in each cluster: the chosen set of the row is that cluster alone.

        Parameters
        ----------
        by : {'mass', 'dominance'}, default='mass'
            The chosen set: the heaviest one, or the clusters not dominated by their intervals [Bel, Pl].

        Returns
        -------
        lower : ndarray of bool of shape (n_samples, n_clusters)

        Examples
        --------
        >>> CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]], FocalSets.full(2)).lower()
        array([[ True, False],
               [False, False]])
        """
        upper = self.upper(by)
        return upper & (upper.sum(axis=1, keepdims=True) == 1)

    def upper(self, by: str = "mass") -> BoolArray:
        """Rows possibly in each cluster: the chosen set of the row holds that cluster.

        Parameters
        ----------
        by : {'mass', 'dominance'}, default='mass'
            The chosen set: the heaviest one, or the clusters not dominated by their intervals [Bel, Pl].

        Returns
        -------
        upper : ndarray of bool of shape (n_samples, n_clusters)

        Examples
        --------
        >>> CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]], FocalSets.full(2)).upper()
        array([[ True, False],
               [ True,  True]])
        """
        check_choice("by", by, ("mass", "dominance"))
        if by == "dominance":
            return undominated(self._mass, self._focal_sets)
        upper: BoolArray = self._focal_sets.membership[self.sets()]
        return upper

    def nonspecificity(self) -> FloatArray:
        """Imprecision of each row in bits; see :func:`egmm.belief.nonspecificity`.

        >>> CredalPartition([[0.5, 0.1, 0.4]], FocalSets.full(2)).nonspecificity()
        array([0.4])
        """
        return nonspecificity(self._mass, self._focal_sets)

    def summary(self) -> str:
        """Say in a few lines how many rows are precise, imprecise or outliers, and where the mass is.

        >>> print(CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]], FocalSets.full(2)).summary())
        Credal partition: 2 rows, 2 clusters, 3 focal sets
        """
        return f"Credal partition: {len(self)} rows, {self.n_clusters} clusters, {len(self._focal_sets)} focal sets"

    def __repr__(self) -> str:
        return f"<{self.summary()}>"


def _read_only(mass: FloatArray) -> FloatArray:
    """Copy unless nobody else can write to the array."""
    owned = mass.base is None and not mass.flags.writeable
    array = mass if owned else mass.copy(order="C")
    array.setflags(write=False)
    return array
