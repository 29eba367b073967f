"""Rows of features from the voxels of a mask: checked, and with equal voxels merged."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.image.io import Image

LEVELS_PER_NOISE = 8
"""Grey levels that a standard deviation of noise is divided into where real numbers are rounded: the rounding then adds
a thousandth to the variance."""

MAX_LEVELS = 1 << 16
DENSE_CODES = 1 << 24
"""Codes of rows up to this are counted in a table, larger ones sorted."""


class Distinct(NamedTuple):
    """Distinct rows, how often each occurs, and which one each voxel has."""

    rows: FloatArray
    counts: FloatArray
    inverse: IntArray


def columns_of(images: Sequence[Image], mask: BoolArray) -> list[NDArray[Any]]:
    """Grey levels of the voxels in the mask, one vector per modality, or what is wrong with them."""
    columns = []
    for image in images:
        column = image.data[mask]
        if column.dtype.kind == "f":
            _check_finite(column, image, mask)
        elif column.dtype == bool:
            column = column.astype(np.uint8)
        if column.min() == column.max():
            raise ValueError(
                f"{image.name} is constant ({column[0]:g}) in the mask of {column.size} voxels: there is nothing to "
                "tell its voxels apart by."
            )
        columns.append(column)
    return columns


def _check_finite(column: NDArray[Any], image: Image, mask: BoolArray) -> None:
    bad = ~np.isfinite(column)
    if not bad.any():
        return
    first = int(np.argmax(bad))
    where = tuple(int(axis) for axis in np.unravel_index(np.flatnonzero(mask)[first], mask.shape))
    kind = "NaN" if np.isnan(column[first]) else "infinity"
    raise ValueError(
        f"{image.name} contains {kind} at voxel {where} ({int(bad.sum())} voxels of the mask are not finite); leave "
        "them out of the mask or impute them first."
    )


def noise_level(image: NDArray[Any], mask: BoolArray) -> float:
    r"""Standard deviation of the noise, from differences of neighbours along each axis.

    .. math:: \hat\sigma = \operatorname{median}_{i,\,\text{axis}} |x_i - x_{i+1}| \,/\, (0.6745 \sqrt 2)

    Parameters
    ----------
    image : ndarray
        Grey levels.
    mask : ndarray of bool
        Voxels that count.

    Returns
    -------
    sd : float
        Most neighbours are of one tissue, so that edges hardly move the median; 0 where half of them are equal.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> steps = np.repeat([0.0, 100.0], 50)[:, None] + rng.normal(0, 2, (100, 100))
    >>> round(noise_level(steps, np.ones(steps.shape, dtype=bool)), 1)
    2.0
    """
    gaps = []
    for axis in range(image.ndim):
        ahead = tuple(slice(1, None) if a == axis else slice(None) for a in range(image.ndim))
        behind = tuple(slice(None, -1) if a == axis else slice(None) for a in range(image.ndim))
        both = mask[ahead] & mask[behind]
        gaps.append(np.abs(image[ahead][both].astype(np.float32) - image[behind][both].astype(np.float32)))
    every = np.concatenate(gaps)
    return float(np.median(every)) / (0.6745 * 2**0.5) if every.size else 0.0


def distinct_rows(columns: Sequence[NDArray[Any]], noises: Sequence[float]) -> Distinct:
    """Merge equal voxels; real numbers are rounded to a fraction of the noise first."""
    rounded = [_levels(column, noise) for column, noise in zip(columns, noises, strict=True)]
    inverse, n_distinct = _merge(rounded[0].levels)
    for column in rounded[1:]:
        inverse, n_distinct = _merge(inverse * (int(column.levels.max()) + 1) + column.levels)
    some = np.empty(n_distinct, dtype=np.int64)
    some[inverse] = np.arange(len(inverse))
    rows = np.stack([column.low + column.step * column.levels[some] for column in rounded], axis=1)
    return Distinct(rows, np.bincount(inverse, minlength=n_distinct).astype(np.float64), inverse)


class _Levels(NamedTuple):
    """Grey levels as whole numbers from zero, and the start and step that turn them back."""

    levels: IntArray
    low: float
    step: float


def _levels(column: NDArray[Any], noise: float) -> _Levels:
    low, high = float(column.min()), float(column.max())
    is_whole = column.dtype.kind in "iu" and high - low < MAX_LEVELS
    step = 1.0 if is_whole else max(noise / LEVELS_PER_NOISE, (high - low) / (MAX_LEVELS - 1))
    levels = column.astype(np.int64) - int(low) if is_whole else np.rint((column - low) / step)
    return _Levels(np.asarray(levels, dtype=np.int64), low, step)


def _merge(code: IntArray) -> tuple[IntArray, int]:
    """Number the distinct codes in ascending order: which one each voxel has, and how many there are."""
    if int(code.max()) >= DENSE_CODES:
        found, inverse = np.unique(code, return_inverse=True)
        return np.asarray(inverse, dtype=np.int64), len(found)
    occurs = np.bincount(code) > 0
    numbers = np.cumsum(occurs) - 1
    return numbers[code], int(numbers[-1]) + 1
