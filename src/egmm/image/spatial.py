"""Evidence of neighbouring voxels: weights and combination."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from egmm._checks import BoolArray, FloatArray, check_choice, check_integer, check_real
from egmm._progress import Progress
from egmm.belief import FocalSets, commonality, conflict, superset_differences
from egmm.belief.masses import Masses
from egmm.image.features import bounding_box, largest_level, noise_level
from egmm.image.io import Image, check_same_grid, read_mask

Grid: TypeAlias = NDArray[np.float32]

RULES = ("geometric", "dempster")
REACH = {2: 6, 3: 1}
"""Default reach by the number of axes longer than one voxel."""

MASS_FLOOR = 1e-30
"""Lower bound of masses in a product, so that one voxel cannot exclude a set for all its neighbours."""

LARGEST = 1e36
"""Largest grey level that can be summed over a neighbourhood in single precision."""

MAX_CLUSTERS = 6
"""Dempster's rule over neighbours needs a map for every subset of the frame, hence this limit."""


@dataclass(frozen=True)
class Neighbourhood:
    r"""Weights of the neighbours of a voxel.

    The weight of a neighbour n of voxel i decreases with its distance and with the contrast between the two,

    .. math:: w_{in} = \exp\Bigl(-\delta\, d_{in}
              - \frac{1}{h^2} \Bigl[\frac{1}{D} \sum_c \frac{1}{|P|} \sum_{o \in P}
              \frac{(x_{i+o,c} - x_{n+o,c})^2}{\sigma_c^2} - 2\Bigr]_+\Bigr)

    where P is a small patch, c runs over the D modalities and :math:`\sigma_c` is the noise, estimated from the image.
    Within one tissue the mean square is about 2, so that noise has no effect; across an edge it is large, which
    preserves edges. The defaults were tuned on `make_brain_phantom`.

    Parameters
    ----------
    reach : int or None, default=None
        Neighbours up to this many voxels away along each axis; None means 6 in images and volumes of one slice, and 1
        in other volumes. Border voxels have few similar neighbours, so images need a larger reach; in volumes the
        number of neighbours grows with its third power.
    contrast : float, default=1.0
        h: larger values include neighbours across weaker edges.
    decay : float, default=0.5
        :math:`\delta` per voxel (its shortest side, if sides differ).
    patch : int, default=1
        Radius of the patch in voxels; 0 compares single voxels.
    """

    reach: int | None = None
    contrast: float = 1.0
    decay: float = 0.5
    patch: int = 1

    def __post_init__(self) -> None:
        if self.reach is not None:
            check_integer("reach", self.reach, 1)
        check_real("contrast", self.contrast, 0.0, open_minimum=True)
        check_real("decay", self.decay, 0.0)
        check_integer("patch", self.patch, 0)


class Bond(NamedTuple):
    """One offset between voxels: the two views of the grid that it pairs, and the weight of each pair."""

    here: tuple[slice, ...]
    there: tuple[slice, ...]
    weight: Grid


def neighbourhood_of(spatial: Any) -> Neighbourhood:
    """Neighbourhood of the option `spatial`; True means the default."""
    if isinstance(spatial, Neighbourhood):
        return spatial
    if spatial is True:
        return Neighbourhood()
    raise TypeError(f"spatial must be True, False, None or a Neighbourhood, got {spatial!r}.")


def bonds(images: Sequence[Image], mask: BoolArray, how: Neighbourhood) -> Iterator[Bond]:
    """Yield every offset once, with the weights of its pairs of voxels (zero outside the mask)."""
    channels = [_scaled(image, mask) for image in images]
    sides = voxel_sides(images[0].affine, mask.shape)
    for offset in itertools.product(*(range(-reach, reach + 1) for reach in _reaches(how, mask.shape))):
        if offset <= (0,) * mask.ndim:
            continue
        here, there = _views(offset, mask.shape)
        both = (mask[here] & mask[there]).astype(np.float32)
        excess = _contrast(channels, here, there, both, 2 * how.patch + 1)
        distance = float(np.hypot.reduce(np.array(offset) * sides))
        excess /= np.float32(-(how.contrast**2))
        excess -= np.float32(how.decay * distance)
        weight = np.exp(excess, out=excess)
        weight *= both
        yield Bond(here, there, weight)


def n_bonds(shape: tuple[int, ...], how: Neighbourhood) -> int:
    """Number of offsets that `bonds` yields."""
    return (math.prod(2 * reach + 1 for reach in _reaches(how, shape)) - 1) // 2


def _reaches(how: Neighbourhood, shape: tuple[int, ...]) -> list[int]:
    """Reach of neighbours along each axis, within the grid."""
    farthest = how.reach or REACH[max(2, sum(side > 1 for side in shape))]
    return [min(farthest, side - 1) for side in shape]


def pool_images(
    images: Sequence[Image], mask: Any, how: Neighbourhood | None = None, *, verbose: int = 0
) -> list[Image]:
    r"""Replace every grey level by the weighted mean of its neighbourhood, preserving edges.

    .. math:: \bar x_i = \frac{x_i + \sum_n w_{in} x_n}{1 + \sum_n w_{in}}

    For Gaussian masses with one covariance, :math:`m_n(A_j) \propto \pi_j N(x_n; \nu_j, \Sigma)`, the normalised
    weighted geometric mean of the neighbours' masses **is** the mass function at :math:`\bar x_i`. Pooling the grey
    levels therefore combines the neighbours' evidence; a mixture fitted to them also learns how much noise is left.

    Parameters
    ----------
    images : sequence of Image
        Modalities on one grid.
    mask : image
        Voxels to use, those that are not zero; the others become 0. None means all.
    how : Neighbourhood, default=None
        Weights of the neighbours; None means the defaults.
    verbose : int, default=0
        1 shows progress on standard error.

    Returns
    -------
    pooled : list of Image

    Examples
    --------
    >>> from egmm.image.io import read_image
    >>> rng = np.random.default_rng(0)
    >>> steps = np.repeat([0.0, 100.0], 20)[:, None] + rng.normal(0, 5, (40, 40))
    >>> pooled = pool_images([read_image(steps)], np.ones(steps.shape, dtype=bool))[0].data
    >>> bool(pooled[:20].std() < 2.5), bool(pooled[20].mean() - pooled[19].mean() > 95)
    (True, True)
    """
    how = how or Neighbourhood()
    for other in images[1:]:
        check_same_grid(images[0], other)
    mask = read_mask(mask, images[0])
    box = bounding_box(mask)
    inside = mask[box]
    cropped = [Image(image.data[box], image.name, image.affine) for image in images]
    for image in cropped:
        largest = largest_level(image.data, inside)
        if largest > LARGEST:
            raise ValueError(f"{image.name} has grey levels up to {largest:g}, too large to be pooled; rescale it.")
    values = [np.where(inside, image.data, 0).astype(np.float32) for image in cropped]
    with Progress("neighbours", n_bonds(inside.shape, how), enabled=bool(verbose)) as progress:
        sums, total = _weighted_sums(values, cropped, inside, how, progress)
    pooled = []
    for image, summed in zip(images, sums, strict=True):
        out = np.zeros(mask.shape, dtype=np.float32)
        out[box] = np.where(inside, summed / total, 0)
        pooled.append(Image(out, image.name, image.affine, image.header))
    return pooled


def _weighted_sums(
    values: list[Grid], images: list[Image], mask: BoolArray, how: Neighbourhood, progress: Progress
) -> tuple[list[Grid], Grid]:
    """Values of each voxel plus the weighted values of its neighbours, and the sum of weights."""
    sums, total = [value.copy() for value in values], np.ones(mask.shape, dtype=np.float32)
    for done, (here, there, weight) in enumerate(bonds(images, mask, how), start=1):
        total[here] += weight
        total[there] += weight
        for value, summed in zip(values, sums, strict=True):
            summed[here] += weight * value[there]
            summed[there] += weight * value[here]
        progress.update(done)
    return sums, total


class Combined(NamedTuple):
    """Masses with the neighbours' evidence, and the conflict between a voxel and the result."""

    mass: FloatArray
    focal: FocalSets
    conflict: FloatArray


def combine_neighbours(
    masses: Masses,
    images: Sequence[Image],
    mask: BoolArray,
    how: Neighbourhood,
    *,
    rule: str,
    independence: float,
    verbose: int,
) -> Combined:
    """Combine every voxel's masses with its neighbours' discounted masses; see `spatial_evidence`."""
    check_choice("rule", rule, RULES)
    check_real("independence", independence, 0.0, 1.0)
    mass, focal = masses
    box = bounding_box(mask)
    inside = mask[box]
    cropped = [Image(image.data[box], image.name, image.affine) for image in images]
    with Progress("neighbours", n_bonds(inside.shape, how), enabled=bool(verbose)) as progress:
        if rule == "geometric":
            new, family = _geometric(mass, cropped, inside, how, independence, progress), focal
        else:
            new, family = _dempster(masses, cropped, inside, how, independence, progress)
    return Combined(new, family, conflict(masses, (new, family)))


def _geometric(
    mass: FloatArray, images: list[Image], mask: BoolArray, how: Neighbourhood, independence: float, progress: Progress
) -> FloatArray:
    """Weighted geometric means of masses, to the power (total weight) ** independence."""
    logs = [_spread(np.log(np.maximum(column, MASS_FLOOR)), mask) for column in mass.T]
    sums, total = _weighted_sums(logs, images, mask, how, progress)
    power = total[mask] ** (independence - 1)
    out = np.stack([summed[mask] * power for summed in sums], axis=1).astype(np.float64)
    out -= out.max(axis=1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)
    return out


def _dempster(
    masses: Masses, images: list[Image], mask: BoolArray, how: Neighbourhood, independence: float, progress: Progress
) -> Masses:
    """Dempster's rule with every neighbour's masses discounted at 1 - independence * weight, by commonalities."""
    focal = masses[1]
    if focal.n_clusters > MAX_CLUSTERS:
        raise ValueError(
            f"rule='dempster' over neighbours needs a map for each of {focal.frame_mask} sets at {focal.n_clusters} "
            f"clusters; use rule='geometric', or at most {MAX_CLUSTERS} clusters."
        )
    full = FocalSets.full(focal.n_clusters)
    shared = [_spread(column, mask) for column in commonality(*masses, full).T]
    products = [np.log(np.maximum(column, MASS_FLOOR)) for column in shared]
    for done, (here, there, weight) in enumerate(bonds(images, mask, how), start=1):
        trust = weight * np.float32(min(independence, 1 - 1e-6))
        for column, product in zip(shared, products, strict=True):
            product[here] += np.log1p(trust * (column[there] - 1))
            product[there] += np.log1p(trust * (column[here] - 1))
        progress.update(done)
    logs = np.stack([product[mask] for product in products], axis=1).astype(np.float64)
    return _from_commonality(np.exp(logs - logs.max(axis=1, keepdims=True)), full)


def _from_commonality(values: FloatArray, full: FocalSets) -> Masses:
    """Masses from commonalities known up to a factor per row; negative rounding errors are clipped."""
    sums = np.concatenate([np.zeros((len(values), 1)), values], axis=1)
    mass = np.maximum(superset_differences(sums)[:, 1:], 0.0)
    mass /= mass.sum(axis=1, keepdims=True)
    return mass, full


def _spread(column: Any, mask: BoolArray) -> Grid:
    grid = np.zeros(mask.shape, dtype=np.float32)
    grid[mask] = column
    return grid


def _scaled(image: Image, mask: BoolArray) -> Grid:
    """Grey levels in units of the noise."""
    values = image.data[mask]
    span = float(values.max()) - float(values.min())
    noise = max(noise_level(image.data, mask), 1e-6 * span, 1e-30)
    return np.where(mask, image.data / np.float32(noise), 0).astype(np.float32)


def _contrast(channels: list[Grid], here: Any, there: Any, both: Grid, width: int) -> Grid:
    """Mean squared difference of patches in excess of noise, averaged over modalities."""
    mean = np.zeros(both.shape, dtype=np.float32)
    for channel in channels:
        gap = channel[here] - channel[there]
        gap *= gap
        mean += gap
    mean *= both / np.float32(len(channels))
    if width > 1:
        mean = uniform_filter(mean, width, mode="constant")
        mean /= np.maximum(uniform_filter(both, width, mode="constant"), np.float32(1e-3))
    mean -= 2
    return np.maximum(mean, 0, out=mean)


def _views(offset: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    here = tuple(slice(max(-step, 0), side - max(step, 0)) for step, side in zip(offset, shape, strict=True))
    there = tuple(slice(max(step, 0), side - max(-step, 0)) for step, side in zip(offset, shape, strict=True))
    return here, there


def voxel_sides(affine: FloatArray | None, shape: tuple[int, ...]) -> FloatArray:
    """Side lengths of a voxel, relative to the shortest along axes of more than one voxel."""
    if affine is None:
        return np.ones(len(shape))
    sides = np.sqrt((affine[:3, : len(shape)] ** 2).sum(axis=0))
    shortest = sides.min(where=np.array(shape) > 1, initial=sides.max())
    return np.asarray(sides / shortest) if sides.min() > 0 else np.ones(len(shape))
