"""The credal partition: one mass function per row."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from egmm._checks import (
    FloatArray,
    check_finite_matrix,
    check_integer,
    check_unmasked,
)
from egmm._frames import RowNames, given_names, joined, make_frame
from egmm.belief import alignment, display, revision, storage
from egmm.belief.decisions import REWARD
from egmm.belief.focal import MAX_CLUSTERS, FocalSets, mask_of
from egmm.belief.masses import check_focal, check_mass, check_non_negative, embed, joint_family, transport
from egmm.belief.tables import mass_columns, row_columns
from egmm.belief.views import PartitionViews


class CredalPartition(PartitionViews):
    r"""Mass functions :math:`m_1, \ldots, m_N` over sets of clusters, one per row [eq_Em].

    Simpler partitions are available as views: hard (:meth:`hard`), fuzzy (:meth:`fuzzy`), possibilistic
    (:meth:`possibilistic`) and rough (:meth:`rough`). Instances are immutable: a read-only float64 array that owns its
    memory is used as is, anything else is copied.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j) \ge 0`; rows sum to one within 1e-8.
    focal_sets : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    index : array-like of shape (n_samples,), default=None
        Names of the rows, kept by :meth:`table` and :meth:`to_dataframe`. ``model.partition(X)`` takes them from a data
        frame.

    See Also
    --------
    egmm.belief.combine : combine partitions of the same rows.

    Examples
    --------
    >>> partition = CredalPartition([[0.5, 0.1, 0.4], [0, 1, 0]], FocalSets.full(2))
    >>> partition.pignistic()
    array([[0.7, 0.3],
           [0. , 1. ]])
    >>> partition.labels()
    array([0, 1])
    """

    __slots__ = ("_focal_sets", "_mass", "_rows")
    _rows: RowNames | None

    def __init__(self, mass: Any, focal_sets: FocalSets, *, index: Any = None) -> None:
        self._focal_sets = check_focal(focal_sets)
        valid = check_mass(mass, focal_sets)
        is_private = valid.base is None and not valid.flags.writeable
        self._mass = valid if is_private else _read_only(valid.copy(order="C"))
        self._rows = given_names(index, len(valid))

    @classmethod
    def _trusted(cls, mass: FloatArray, focal_sets: FocalSets, rows: RowNames | None = None) -> Self:
        """Wrap masses that are valid by construction and not shared."""
        partition = cls.__new__(cls)
        partition._focal_sets, partition._mass, partition._rows = focal_sets, _read_only(mass), rows
        return partition

    def _alike(self, mass: FloatArray, focal_sets: FocalSets) -> "CredalPartition":
        """Wrap other masses of the same rows."""
        return self._trusted(mass, focal_sets, self._rows)

    # Constructors ------------------------------------------------------------------------------------------

    @classmethod
    def from_masses(cls, mass: Any, sets: Iterable[Iterable[int]], n_clusters: int) -> Self:
        """Build from columns in any order of sets, given as cluster numbers counted from zero; equal sets are added.

        >>> CredalPartition.from_masses([[0.3, 0.7]], [{0, 1}, {0}], n_clusters=2).mass
        array([[0.7, 0.3]])
        """
        check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
        masks = [mask_of(members, n_clusters) for members in sets]
        columns = check_finite_matrix("mass", mass, (None, len(masks)))
        check_non_negative(columns)
        return cls(*transport(columns, np.array(masks, dtype=np.int64), n_clusters))

    @classmethod
    def from_labels(cls, labels: Any, n_clusters: int | None = None) -> Self:
        """Put all mass of each row on its label, an integer counted from zero; -1 is noise, on the empty set.

        >>> CredalPartition.from_labels([1, 0, -1]).mass
        array([[0., 0., 1.],
               [0., 1., 0.],
               [1., 0., 0.]])
        """
        check_unmasked("labels", labels)
        numbers = np.asarray(labels)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise TypeError(f"labels must be integers, one per row, got shape {numbers.shape} of {numbers.dtype}.")
        n_seen = int(numbers.max(initial=0)) + 1
        n_clusters = n_seen if n_clusters is None else check_integer("n_clusters", n_clusters, 1, MAX_CLUSTERS)
        if np.any((numbers < -1) | (numbers >= n_clusters)):
            wrong = numbers[(numbers < -1) | (numbers >= n_clusters)][0]
            raise ValueError(f"labels must be from -1 (noise) to {n_clusters - 1}, got {wrong}.")
        focal = FocalSets.singletons(n_clusters, empty=bool(np.any(numbers == -1)))
        masks = np.where(numbers == -1, 0, np.int64(1) << np.maximum(numbers, 0).astype(np.int64))
        mass = np.zeros((len(numbers), len(focal)))
        mass[np.arange(len(numbers)), focal.columns_of(masks)] = 1.0
        return cls._trusted(mass, focal)

    @classmethod
    def from_probabilities(cls, probabilities: Any) -> Self:
        """Build from probabilities of the clusters, (n_samples, n_clusters), as masses of singletons.

        >>> CredalPartition.from_probabilities([[0.2, 0.8]]).focal_sets.labels
        ('{1}', '{2}')
        """
        array = check_finite_matrix("probabilities", probabilities, (None, None))
        return cls(array, FocalSets.singletons(array.shape[1]))

    @classmethod
    def concatenate(cls, partitions: Iterable["CredalPartition"]) -> Self:
        """Stack the rows of partitions over one frame; the family holds the sets of all.

        >>> parts = [CredalPartition.from_labels([0], 2), CredalPartition([[0, 0, 1]], FocalSets.full(2))]
        >>> CredalPartition.concatenate(parts).mass
        array([[1., 0., 0.],
               [0., 0., 1.]])
        """
        parts = list(partitions)
        if not parts:
            raise ValueError("concatenate needs at least one partition.")
        for part in parts:
            if not isinstance(part, CredalPartition):
                raise TypeError(f"concatenate expects CredalPartition objects, got {type(part).__name__}.")
        family = joint_family(*(part.focal_sets for part in parts))
        mass = np.concatenate([embed(part.mass, part.focal_sets, family) for part in parts])
        return cls._trusted(mass, family, joined([part._rows for part in parts]))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a partition written by :meth:`save`, or ``masses.csv`` as ``egmm fit`` writes it."""
        return cls._trusted(*storage.read_masses(path))

    # Contents ---------------------------------------------------------------------------------------------

    @property
    def mass(self) -> FloatArray:
        """Masses :math:`m_i(A_j)`, (n_samples, n_focal), read-only."""
        return self._mass

    @property
    def focal_sets(self) -> FocalSets:
        """The sets :math:`A_j`, in the column order of `mass`."""
        return self._focal_sets

    @property
    def index(self) -> Any:
        """Names of the rows, from the data frame's index or as given; None if rows have no names."""
        return None if self._rows is None else self._rows.names

    @property
    def n_clusters(self) -> int:
        """Size C of the frame."""
        return self._focal_sets.n_clusters

    def __len__(self) -> int:
        return int(self._mass.shape[0])

    def __getitem__(self, rows: Any) -> "CredalPartition":
        """Rows by number, slice, index array or boolean mask, as a partition."""
        if isinstance(rows, tuple):
            raise TypeError("A partition is indexed by rows only; use .mass for columns.")
        mass = np.atleast_2d(self._mass[rows])
        if mass.ndim != 2:
            raise TypeError(f"A partition is indexed by a number, a slice or a vector of rows, got {rows!r}.")
        return self._trusted(mass, self._focal_sets, None if self._rows is None else self._rows.take(rows))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CredalPartition):
            return NotImplemented
        return self._focal_sets == other._focal_sets and np.array_equal(self._mass, other._mass)

    def __hash__(self) -> int:
        return hash((self._focal_sets, self._mass.shape))

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays are writeable; rebuilding makes them read-only.
        return _rebuilt, (self._mass, self._focal_sets, self._rows)

    # New partitions ---------------------------------------------------------------------------------------

    def over(self, focal_sets: FocalSets) -> "CredalPartition":
        """Embed the masses in another family that holds every set with mass.

        >>> CredalPartition.from_labels([1], 2).over(FocalSets.full(2)).mass
        array([[0., 1., 0.]])
        """
        return self._alike(embed(self._mass, self._focal_sets, check_focal(focal_sets)), focal_sets)

    def normalise(self, *, on_conflict: str = "raise") -> "CredalPartition":
        """Remove the empty set; see :func:`egmm.belief.normalise`.

        >>> CredalPartition([[0.5, 0.25, 0.25]], FocalSets.singletons(2, empty=True)).normalise().mass
        array([[0.5, 0.5]])
        """
        return self._alike(*revision.normalise(self._mass, self._focal_sets, on_conflict=on_conflict))

    def discount(self, rate: Any) -> "CredalPartition":
        """Weaken the source at one rate, or one per row; see :func:`egmm.belief.discount`.

        >>> CredalPartition.from_labels([0, 1]).discount([0.25, 0]).mass
        array([[0.75, 0.  , 0.25],
               [0.  , 1.  , 0.  ]])
        """
        return self._alike(*revision.discount(self._mass, self._focal_sets, rate))

    def condition(self, members: Iterable[int], *, on_conflict: str = "raise") -> "CredalPartition":
        """Condition on the cluster being among `members`; see :func:`egmm.belief.condition`.

        >>> CredalPartition.from_probabilities([[0.25, 0.25, 0.5]]).condition({0, 1}).mass
        array([[0.5, 0.5]])
        """
        return self._alike(*revision.condition(self._mass, self._focal_sets, members, on_conflict=on_conflict))

    def refine(self, groups: Sequence[Iterable[int]]) -> "CredalPartition":
        """Write the masses over a finer frame; see :func:`egmm.belief.refine`.

        >>> CredalPartition.from_labels([0, 1]).refine([{0}, {1, 2}]).focal_sets.labels
        ('{1}', '{2,3}')
        """
        return self._alike(*revision.refine(self._mass, self._focal_sets, groups))

    def coarsen(self, groups: Sequence[Iterable[int]]) -> "CredalPartition":
        """Merge clusters; see :func:`egmm.belief.coarsen`.

        >>> CredalPartition.from_labels([0, 1, 2]).coarsen([{0, 1}, {2}]).labels()
        array([0, 0, 1])
        """
        return self._alike(*revision.coarsen(self._mass, self._focal_sets, groups))

    def relabel(self, permutation: Sequence[int]) -> "CredalPartition":
        """Rename cluster k to ``permutation[k]``; see :func:`egmm.belief.relabel`.

        >>> CredalPartition.from_labels([0, 1, 2]).relabel([2, 0, 1]).labels()
        array([2, 0, 1])
        """
        return self._alike(*alignment.relabel(self._mass, self._focal_sets, permutation))

    def align(self, reference: Any) -> "CredalPartition":
        """Rename the clusters to agree best with another partition or with true labels.

        Parameters
        ----------
        reference : CredalPartition or array-like of shape (n_samples,)
            The other partition, over as many clusters, or one label per row: integers from 0 to ``n_clusters - 1``, or
            any other values, which are numbered in sorted order.

        Returns
        -------
        partition : CredalPartition
            The matching maximises the common pignistic probability (Hungarian method).

        Examples
        --------
        >>> CredalPartition.from_labels([0, 0, 1, 2]).align([2, 2, 0, 1]).labels()
        array([2, 2, 0, 1])
        """
        if isinstance(reference, CredalPartition):
            self._focal_sets.on_frame_of(reference.focal_sets)
            targets = reference.pignistic()
        else:
            targets = alignment.indicator(reference, self.n_clusters)
        if len(targets) != len(self):
            raise ValueError(f"reference must have {len(self)} rows like the partition, got {len(targets)}.")
        return self.relabel(alignment.match_clusters(self.pignistic(), targets).tolist())

    # Conversion ---------------------------------------------------------------------------------------------

    def table(self, library: str | None = None, *, rule: str = "heaviest", reward: float = REWARD) -> Any:
        """Data frame with label, set, status, doubt and masses of each row.

        Parameters
        ----------
        library : {'pandas', 'polars'} or None, default=None
            Library of the data frame. None means that of the input rows, else pandas. polars has no row names: they
            become the first column.
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set of a row is chosen, see :meth:`sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        table : DataFrame
            ``label``, as :meth:`labels` counts from zero; ``set``, the name of the chosen set, where clusters count
            from one; ``status``: *sure* if that is one cluster, *open* if several, *outlier* if none; ``doubt``, one
            minus the largest pignistic probability; and the masses, one column per set.

        Examples
        --------
        >>> CredalPartition([[0.5, 0.1, 0.4], [0, 0, 1]], FocalSets.full(2), index=["Anna", "Bert"]).table()
              label    set status  doubt  {1}  {2}  {1,2}
        Anna      0    {1}   sure    0.3  0.5  0.1    0.4
        Bert      0  {1,2}   open    0.5  0.0  0.0    1.0
        """
        return make_frame(row_columns(self._mass, self._focal_sets, rule, reward), self._rows, library)

    def to_dataframe(self, library: str | None = None) -> Any:
        """Return the masses as a data frame with one column per set, indexed by row name; see :meth:`table`.

        >>> CredalPartition.from_labels([0, 1]).to_dataframe()
           {1}  {2}
        0  1.0  0.0
        1  0.0  1.0
        """
        return make_frame(mass_columns(self._mass, self._focal_sets), self._rows, library)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``.npz`` or ``.parquet``, by suffix. An existing file is replaced atomically.

        Parquet has one column per set and needs pyarrow. :meth:`load` reads both.

        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CredalPartition.from_labels([0, 1]).save(pathlib.Path(folder) / "partition.npz")
        ...     CredalPartition.load(pathlib.Path(folder) / "partition.npz")
        <Credal partition: 2 rows, 2 clusters, 2 focal sets>
        """
        storage.write_masses(path, self._mass, self._focal_sets)

    def summary(self, rule: str = "heaviest", reward: float = REWARD) -> str:
        """Text summary: numbers of sure rows, open rows and outliers (∅), and the mass of each set.

        Parameters
        ----------
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set of a row is chosen, see :meth:`sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        summary : str

        Examples
        --------
        >>> print(CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]], FocalSets.full(2)).summary())
        Credal partition: 2 rows, 2 clusters, 3 focal sets
        by heaviest set: sure 1 (50.0 %), open 1 (50.0 %)
        average nonspecificity: 0.450 (0 precise, 1 vacuous)
          set         mean mass  rows
          {1}             0.350     1
          {2}             0.200     0
          {1,2}           0.450     1
        """
        return display.as_text(self._mass, self._focal_sets, rule, reward)

    def __repr__(self) -> str:
        return f"<{display.title(self._mass, self._focal_sets)}>"

    def _repr_html_(self) -> str:
        return display.as_html(self._mass, self._focal_sets)


def check_partition(name: str, value: object) -> CredalPartition:
    """Return `value` if it is a credal partition, else raise."""
    if not isinstance(value, CredalPartition):
        raise TypeError(
            f"{name} must be a CredalPartition, got {type(value).__name__}; use CredalPartition.from_labels, "
            "CredalPartition.from_probabilities or a fitted model's partition method."
        )
    return value


def _rebuilt(mass: FloatArray, focal_sets: FocalSets, rows: RowNames | None) -> CredalPartition:
    """Rebuild a partition when unpickling."""
    return CredalPartition(mass, focal_sets, index=rows)


def _read_only(mass: FloatArray) -> FloatArray:
    mass.setflags(write=False)
    return mass
