"""A credal partition of voxels on its grid: maps of labels, approximations and uncertainty."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egmm._checks import BoolArray, FloatArray, IntArray, check_choice, check_integer
from egmm.belief import CredalPartition, FocalSets
from egmm.image.io import Image, write_picture, write_volume
from egmm.image.spatial import Neighbourhood, combine_neighbours, voxel_sides
from egmm.plotting.image import plot_approximations, rough_colours

TIE = 1e-9
MAPS = ("labels", "ambiguity", "conflict", "lower", "upper", "mass")


@dataclass(frozen=True, repr=False, eq=False)
class SegmentedImage:
    """Result of `segment` and `fuse`: one mass function per voxel of the mask, and maps on the original grid.

    Voxels with equal grey levels have equal masses and are stored once, so that time and memory depend on the number of
    distinct grey levels.

    Attributes
    ----------
    kinds : CredalPartition
        Masses of the distinct voxels.
    index : ndarray of int of shape (n_voxels,)
        Row of `kinds` for each voxel of the mask, in C order of the grid.
    mask : ndarray of bool
        The voxels that were clustered.
    images : tuple of Image
        The segmented images, with affine and header.
    names : tuple of str
        Names of the clusters, dark to bright in the first modality.
    conflict_degree : ndarray of shape (n_kinds,) or None
        Conflict between the combined sources, per row of `kinds`; None if nothing was combined.
    model : estimator or None
        The fitted mixture.
    selection : Selection or None
        All fits, if the number of clusters was chosen.
    """

    kinds: CredalPartition
    index: NDArray[Any]
    mask: BoolArray
    images: tuple[Image, ...]
    names: tuple[str, ...]
    conflict_degree: FloatArray | None = None
    model: Any = None
    selection: Any = None

    @property
    def partition(self) -> CredalPartition:
        """Masses of the voxels in the mask, in C order of the grid; computed at every call."""
        return self.kinds[self.index]

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.kinds.n_clusters

    @property
    def n_voxels(self) -> int:
        """Number of voxels in the mask."""
        return len(self.index)

    @property
    def focal_sets(self) -> FocalSets:
        """The sets of clusters that carry mass."""
        return self.kinds.focal_sets

    @property
    def affine(self) -> FloatArray | None:
        """Voxel-to-world transform of the first modality, if any."""
        return self.images[0].affine

    @property
    def header(self) -> Any:
        """Header of the first modality, if any."""
        return self.images[0].header

    @property
    def n_ambiguous(self) -> int:
        """Number of open voxels, whose heaviest set holds two clusters or more."""
        return int(self.focal_sets.is_meta[self.kinds.sets()][self.index].sum())

    # Maps -------------------------------------------------------------------------------------------------

    def labels(self, rule: str = "pignistic") -> NDArray[np.uint8]:
        """Cluster of each voxel, counted from one; 0 outside the mask.

        Parameters
        ----------
        rule : str, default='pignistic'
            The rule, see :func:`egmm.belief.best_cluster`. If pignistic probabilities are equal within 1e-9, as on
            borders between tissues with low noise, the larger belief decides.

        Returns
        -------
        labels : ndarray of uint8 on the grid
        """
        chosen = _pignistic_labels(self.kinds) if rule == "pignistic" else self.kinds.labels(rule)
        return self._spread((chosen + 1).astype(np.uint8))

    def mass(self, members: Iterable[int]) -> NDArray[np.float32]:
        """Mass on one set of clusters, counted from zero; 0 outside the mask.

        Parameters
        ----------
        members : iterable of int
            The set.

        Returns
        -------
        mass : ndarray of float32 on the grid
        """
        column = self.kinds.mass[:, self.focal_sets.index_of(members)]
        return self._spread(column.astype(np.float32))

    def masses(self) -> NDArray[np.float32]:
        """All masses, with the focal sets on the last axis; 0 outside the mask."""
        return self._spread(self.kinds.mass.astype(np.float32))

    def lower(self, by: str = "mass") -> BoolArray:
        """Voxels surely in each cluster (last axis); see :meth:`egmm.CredalPartition.lower`."""
        return self._spread(self.kinds.lower(by))

    def upper(self, by: str = "mass") -> BoolArray:
        """Voxels possibly in each cluster (last axis); see :meth:`egmm.CredalPartition.upper`."""
        return self._spread(self.kinds.upper(by))

    def ambiguity(self) -> NDArray[np.float32]:
        """Nonspecificity of each voxel divided by its maximum, log2 of the number of clusters."""
        most = np.log2(self.n_clusters) if self.n_clusters > 1 else 1.0
        return self._spread((self.kinds.nonspecificity() / most).astype(np.float32))

    def conflict(self) -> NDArray[np.float32]:
        """Conflict between the combined sources, from 0 to 1; the mass of the empty set for a single source."""
        if self.conflict_degree is not None:
            return self._spread(self.conflict_degree.astype(np.float32))
        empty = self.kinds.mass[:, 0] if self.focal_sets.has_empty else np.zeros(len(self.kinds))
        return self._spread(empty.astype(np.float32))

    def on_grid(self, values: NDArray[Any]) -> Any:
        """Put one value (or row of values) per voxel of the mask on the grid, 0 elsewhere."""
        out = np.zeros((*self.mask.shape, *values.shape[1:]), dtype=values.dtype)
        out[self.mask] = values
        return out

    # Output -----------------------------------------------------------------------------------------------

    def to_nifti(self, path: str | PathLike[str], what: str = "labels") -> None:
        """Write a map as NIfTI with the affine and header of the first modality.

        Parameters
        ----------
        path : str or path-like
            A name that ends in .nii or .nii.gz.
        what : {'labels', 'ambiguity', 'conflict', 'lower', 'upper', 'mass'}, default='labels'
            The map; the last three have an additional axis of clusters or focal sets.
        """
        data = self._map(what)
        if self.mask.ndim == 2:
            data = data[:, :, None]
        write_volume(path, data, self.affine, self.header)

    def to_png(
        self, path: str | PathLike[str], what: str = "labels", *, cluster: int = 0, at: int | None = None, axis: int = 2
    ) -> None:
        """Write a map of an image, or of one slice of a volume, as a picture.

        Parameters
        ----------
        path : str or path-like
            A name that ends in .png, .tif or another picture format.
        what : {'labels', 'ambiguity', 'conflict', 'lower', 'upper'}, default='labels'
            The map. Labels are spread over the grey levels; 'lower' and 'upper' are drawn over the first modality, red
            for voxels surely in the cluster, blue for those possibly in it ('upper').
        cluster : int, default=0
            Cluster, counted from zero, of 'lower' and 'upper'.
        at : int, default=None
            Slice of a volume; None means the middle.
        axis : int, default=2
            Axis perpendicular to the slice.
        """
        check_choice("what", what, MAPS[:-1])
        cut = self._cut(at, axis)
        if what in {"lower", "upper"}:
            grey, lower, upper = (cut(part) for part in self._rough(cluster))
            picture = np.rint(rough_colours(grey, lower, lower if what == "lower" else upper) * 255)
        elif what == "labels":
            picture = cut(self.labels()).astype(np.float64) * (255 // self.n_clusters)
        else:
            picture = np.rint(np.clip(cut(self._map(what)), 0, 1) * 255)
        write_picture(path, picture.astype(np.uint8))

    def plot(self, cluster: int | None = None, *, at: int | None = None, axis: int = 2, axes: Any = None) -> Any:
        """Draw the lower (red) and the rest of the upper (blue) approximation over the first modality, as in the paper.

        Parameters
        ----------
        cluster : int, default=None
            Cluster, counted from zero; None draws all side by side.
        at : int, default=None
            Slice of a volume; None means the middle.
        axis : int, default=2
            Axis perpendicular to the slice.
        axes : matplotlib Axes or sequence of Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        axes : ndarray of matplotlib Axes
        """
        cut = self._cut(at, axis)
        clusters = range(self.n_clusters) if cluster is None else [cluster]
        parts = [tuple(cut(part) for part in self._rough(k)) for k in clusters]
        titles = [self.names[k] for k in clusters]
        across = voxel_sides(self.affine, self.mask.shape)
        rows, columns = across if self.mask.ndim == 2 else np.delete(across, axis)
        return plot_approximations(
            parts[0][0],
            [part[1] for part in parts],
            [part[2] for part in parts],
            titles=titles,
            aspect=rows / columns,
            axes=axes,
        )

    # New segmentations ------------------------------------------------------------------------------------

    def named(self, *names: str) -> "SegmentedImage":
        """Return the same segmentation with these names of clusters."""
        return replace(self, names=cluster_names(self.n_clusters, names))

    def __repr__(self) -> str:
        grid = " x ".join(str(side) for side in self.mask.shape)
        share = 100 * self.n_ambiguous / self.n_voxels
        return (
            f"SegmentedImage({grid}, {self.n_voxels} voxels in the mask, {self.n_clusters} clusters: "
            f"{', '.join(self.names)}; {share:.1f} % open)"
        )

    def _spread(self, values: NDArray[Any]) -> Any:
        """Copy the value (or row of values) of each kind to all its voxels."""
        return self.on_grid(values[self.index])

    def _map(self, what: str) -> NDArray[Any]:
        check_choice("what", what, MAPS)
        return np.asarray(self.masses() if what == "mass" else getattr(self, what)())

    def _rough(self, cluster: int) -> tuple[NDArray[Any], BoolArray, BoolArray]:
        check_integer("cluster", cluster, 0, self.n_clusters - 1)
        rough = self.kinds.rough()
        grey = np.where(np.isfinite(self.images[0].data), self.images[0].data, 0)
        return grey, self._spread(rough.lower[:, cluster]), self._spread(rough.upper[:, cluster])

    def _cut(self, at: int | None, axis: int) -> Any:
        if self.mask.ndim == 2:
            return lambda data: data
        check_integer("axis", axis, 0, 2)
        side = self.mask.shape[axis]
        index = side // 2 if at is None else check_integer("at", at, 0, side - 1)
        return lambda data: np.take(data, index, axis=axis)


def spatial_evidence(
    segmented: SegmentedImage,
    how: Neighbourhood | None = None,
    *,
    rule: str = "geometric",
    independence: float = 0.5,
    verbose: int = 0,
) -> SegmentedImage:
    r"""Combine every voxel's masses with its neighbours' discounted masses.

    The weights :math:`w_{in}` of the neighbours decrease with distance and contrast, see `Neighbourhood`. With the
    total :math:`W_i = 1 + \sum_n w_{in}` and independence :math:`\gamma`,

    =========== ======================================================================================================
    geometric   :math:`m'_i(A) \propto \bigl[m_i(A) \prod_n m_n(A)^{w_{in}}\bigr]^{W_i^{\gamma - 1}}`: the weights
                discount by powers, so that a set's masses are pooled on the log scale
    dempster    Dempster's rule of :math:`m_i` and every :math:`m_n` discounted at :math:`1 - \gamma w_{in}`, through
                the commonalities :math:`Q'_i(A) \propto Q_i(A) \prod_n [1 - \gamma w_{in} + \gamma w_{in} Q_n(A)]`
    =========== ======================================================================================================

    Parameters
    ----------
    segmented : SegmentedImage
        A segmentation or a fusion.
    how : Neighbourhood, default=None
        Weights of the neighbours; None means the defaults.
    rule : {'geometric', 'dempster'}, default='geometric'
        The rule. 'geometric' respects voxels with several tissues; with Dempster's rule the majority of the neighbours
        decides.
    independence : float, default=0.5
        How independent the neighbours are: 0 gives their average (with Dempster's rule, nothing), 1 counts every
        neighbour by its full weight.
    verbose : int, default=0
        1 shows progress on standard error.

    Returns
    -------
    segmented : SegmentedImage
        Its conflict map shows where a voxel disagrees with the result.

    See Also
    --------
    egmm.image.segment : its option `spatial` pools before fitting, which is better if the images are available.
    """
    combined = combine_neighbours(
        (segmented.kinds.mass[segmented.index], segmented.focal_sets),
        segmented.images,
        segmented.mask,
        how or Neighbourhood(),
        rule=rule,
        independence=independence,
        verbose=verbose,
    )
    combined.mass.setflags(write=False)
    partition = CredalPartition(combined.mass, combined.focal)
    every = np.arange(segmented.n_voxels)
    return replace(segmented, kinds=partition, index=every, conflict_degree=combined.conflict)


def _pignistic_labels(partition: CredalPartition) -> IntArray:
    """Cluster with the largest pignistic probability; ties of pairs with nearly all mass go to the larger belief.

    A border voxel may have mass 1 - 1e-12 on {1,2}: the rest, which shows the nearer grey level, is lost in the
    rounding of 0.5 + 1e-12.
    """
    probability = partition.pignistic()
    labels = probability.argmax(axis=1).astype(np.int64)
    tied = probability >= probability.max(axis=1, keepdims=True) - TIE
    unclear = np.flatnonzero(tied.sum(axis=1) > 1)
    if len(unclear):
        belief = np.where(tied[unclear], partition[unclear].belief(), -1.0)
        labels[unclear] = belief.argmax(axis=1)
    return labels


def cluster_names(n_clusters: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """Given names, or 'cluster 1' and so on."""
    if names is None:
        return tuple(f"cluster {number}" for number in range(1, n_clusters + 1))
    if len(names) != n_clusters:
        raise ValueError(f"names must have {n_clusters} entries, one per cluster, got {len(names)}: {list(names)}.")
    return tuple(str(name) for name in names)
