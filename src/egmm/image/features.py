"""Rows of features from the voxels of a mask, validated and with equal voxels merged."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d, uniform_filter

from egmm._checks import LARGEST, BoolArray, FloatArray, IntArray, are_usable, what_is_unusable
from egmm.image.io import Image

LEVELS_PER_NOISE = 8
"""Rounding steps per standard deviation of the noise; rounding then adds a thousandth to the variance."""

FEW_LEVELS = 1 << 8
"""Integers with a smaller range are not rounded."""

NOISE_BINS = 100
MAX_LEVELS = 1 << 16
MAX_WHOLE = float(1 << 53)
"""Integers below this are exact as floating-point numbers."""

DENSE_CODES = 1 << 24
"""Row codes up to this are counted in a table, larger ones sorted."""


class Distinct(NamedTuple):
    """Distinct rows, their counts, and the row of each voxel."""

    rows: FloatArray
    counts: FloatArray
    inverse: IntArray


def columns_of(images: Sequence[Image], mask: BoolArray) -> list[NDArray[Any]]:
    """Validated grey levels of the voxels in the mask, one vector per modality."""
    columns = []
    for image in images:
        column = image.data[mask]
        if column.dtype.kind == "f":
            _check_usable(column, image, mask)
        elif column.dtype == bool:
            column = column.astype(np.uint8)
        if float(column.min()) == float(column.max()):
            raise ValueError(
                f"{image.name} is constant ({column[0]:g}) in the mask of {column.size} voxels and cannot be segmented."
            )
        columns.append(column)
    return columns


def _check_usable(column: NDArray[Any], image: Image, mask: BoolArray) -> None:
    if are_usable(column):
        return
    bad = ~(np.abs(column) < LARGEST)
    first = int(np.argmax(bad))
    where = tuple(int(axis) for axis in np.unravel_index(np.flatnonzero(mask)[first], mask.shape))
    raise ValueError(
        f"{image.name} contains {what_is_unusable(float(column[first]))} at voxel {where} ({int(bad.sum())} voxels of "
        "the mask are not finite or too large); exclude them from the mask, impute or rescale them first."
    )


def largest_level(image: NDArray[Any], mask: BoolArray) -> float:
    """Largest absolute grey level in the mask."""
    inside = image[mask]
    return max(abs(float(inside.min())), abs(float(inside.max())))


def bounding_box(mask: BoolArray) -> tuple[slice, ...]:
    """Bounding box of a non-empty mask."""
    box = []
    for axis in range(mask.ndim):
        hit = np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))
        box.append(slice(int(hit[0]), int(hit[-1]) + 1))
    return tuple(box)


def noise_level(image: NDArray[Any], mask: BoolArray) -> float:
    r"""Standard deviation of the noise: the mode of the standard deviations of small patches.

    Patches within one tissue show only noise, patches on edges more, so the noise is estimated by the mode of
    :math:`s_i = \bigl(\tfrac{1}{n-1} \sum_o (x_{i+o} - \bar x_i)^2\bigr)^{1/2}` over patches of :math:`n = 3^d` voxels,
    corrected for its bias: the mode of such an estimate is :math:`\sigma \sqrt{(n-2)/(n-1)}`. Patches are one voxel
    thick along axes where the mask has fewer than three, as in a single slice.

    Parameters
    ----------
    image : ndarray
        Grey levels.
    mask : ndarray of bool
        Voxels to use. Patches that leave the mask, or are constant at its darkest value (a removed background), are
        ignored.

    Returns
    -------
    sd : float
        0 if most patches are constant, or none is left.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> steps = np.repeat([0.0, 100.0], 50)[:, None] + rng.normal(0, 2, (100, 100))
    >>> round(noise_level(steps, np.ones(steps.shape, dtype=bool)))
    2
    """
    if not mask.any():
        return 0.0
    box = bounding_box(mask)
    image, mask = image[box], mask[box]
    widths = [3 if side >= 3 else 1 for side in mask.shape]
    size = math.prod(widths)
    whole = uniform_filter(mask.astype(np.float32), widths, mode="constant") > 1 - 0.5 / size
    if size == 1 or not whole.any():
        return 0.0
    # Scaled by a power of two, which is exact: squares of huge or tiny numbers leave the range of single precision.
    exponent = max(math.frexp(largest_level(image, mask))[1], -1000)  # Its power must be finite too.
    values = np.multiply(np.where(mask, image, 0), 2.0**-exponent, dtype=np.float64).astype(np.float32)
    # Centred: squares of large numbers would swamp the variance.
    values -= np.float32(np.mean(values[mask], dtype=np.float64))
    mean = uniform_filter(values, widths, mode="constant")[whole]
    variance = uniform_filter(values * values, widths, mode="constant")[whole] - mean * mean
    spread = np.sqrt(np.maximum(variance, 0) * (size / (size - 1)))
    darkest, span = float(values[mask].min()), float(np.ptp(values[mask]))
    is_constant = spread <= 1e-4 * span
    kept = ~(is_constant & (mean <= darkest + 1e-4 * span))
    if 2 * (is_constant & kept).sum() >= kept.sum():
        return 0.0
    spread = spread[kept]
    counts, edges = np.histogram(spread, bins=NOISE_BINS, range=(0.0, float(np.quantile(spread, 0.95))))
    smooth = gaussian_filter1d(counts.astype(np.float64), 3.0)
    # With fine structures most patches lie on edges; the first high peak belongs to those that do not.
    is_peak = np.concatenate([[True], smooth[1:] >= smooth[:-1]]) & np.concatenate([smooth[:-1] > smooth[1:], [True]])
    mode = int(np.argmax(is_peak & (smooth > smooth.max() / 3)))
    return 2.0**exponent * float(edges[mode] + edges[mode + 1]) / 2 / ((size - 2) / (size - 1)) ** 0.5


def distinct_rows(columns: Sequence[NDArray[Any]], noises: Sequence[float]) -> Distinct:
    """Merge equal voxels; floats and integers with many levels are first rounded to a fraction of the noise."""
    rounded = [_levels(column, noise) for column, noise in zip(columns, noises, strict=True)]
    inverse, some = merge_equal([column.levels for column in rounded])
    rows = np.stack([column.low + column.step * column.levels[some] for column in rounded], axis=1)
    return Distinct(rows, np.bincount(inverse).astype(np.float64), inverse)


class _Levels(NamedTuple):
    """Grey levels as integers from zero, and the start and step that restore them."""

    levels: IntArray
    low: float
    step: float


def _levels(column: NDArray[Any], noise: float) -> _Levels:
    low, high = float(column.min()), float(column.max())
    is_whole = column.dtype.kind in "iu" and high - low < MAX_LEVELS and max(-low, high) < MAX_WHOLE
    step = max(noise / LEVELS_PER_NOISE, (high - low) / (MAX_LEVELS - 1))
    if is_whole:
        step = 1.0 if high - low < FEW_LEVELS else max(math.floor(step), 1.0)
    levels = np.rint((column.astype(np.float64) - low) / step)
    return _Levels(np.asarray(levels, dtype=np.int64), low, step)


def merge_equal(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Number the distinct rows of columns >= 0 in ascending order: the number of each voxel, and one voxel per row."""
    inverse, n_distinct = _numbered(columns[0])
    for column in columns[1:]:
        inverse, n_distinct = _numbered(inverse * (int(column.max()) + 1) + column)
    some = np.empty(n_distinct, dtype=np.int64)
    some[inverse] = np.arange(len(inverse))
    return inverse, some


def _numbered(code: IntArray) -> tuple[IntArray, int]:
    """Number the distinct codes in ascending order: the number of each voxel, and their count."""
    if int(code.max()) >= DENSE_CODES:
        found, inverse = np.unique(code, return_inverse=True)
        return np.asarray(inverse, dtype=np.int64), len(found)
    occurs = np.bincount(code) > 0
    numbers = np.cumsum(occurs) - 1
    return numbers[code], int(numbers[-1]) + 1
