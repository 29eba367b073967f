"""A brain phantom: T1 and T2 images with known tissues, partial volume, noise and non-uniformity."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egmm._checks import BoolArray, FloatArray, IntArray, check_choice, check_integer, check_real

TISSUES = ("CSF", "grey matter", "white matter", "pathology")
"""Tissues, in the order of the columns of `fractions` and of the numbers (from one) in `labels`."""

AREAS = ("pathology", "CSF", "normal")
"""The paper's three areas, in the order of the numbers (from one) in `areas`."""

BRAINWEB_LEVELS = {"t1": (46.0, 111.0, 152.0, 124.0), "t2": (245.0, 154.0, 118.0, 232.0)}
"""Mean grey levels per tissue of BrainWeb's noise-free 1 mm images with moderate MS lesions, over pixels whose eight
neighbours have the same label (no partial volume)."""

GREY_SHARE = 0.572
"""Share of grey matter in the normal tissue of BrainWeb's crisp phantom: 902912 of 1577689 voxels."""

REFERENCE = {"t1": 152.0, "t2": 245.0}
"""Reference grey levels for the noise percentage, as in BrainWeb: white matter in T1, CSF in T2."""

CONTRASTS = ("paper", "brainweb")


@dataclass(frozen=True, eq=False)
class BrainPhantom:
    """T1 and T2 images of a brain, with the true tissues.

    Attributes
    ----------
    t1, t2 : ndarray of float32
        The images; zero outside the brain.
    mask : ndarray of bool
        Mask of the brain.
    labels : ndarray of uint8
        Tissue with the largest share of each voxel, 1 to 4 as in `TISSUES`; 0 outside the brain.
    areas : ndarray of uint8
        Area with the largest share, of the paper's three: 1 pathology, 2 CSF, 3 normal tissue; 0 outside the brain.
    fractions : ndarray of float32, shape of the image and 4
        Share of each tissue in each voxel.
    """

    t1: NDArray[np.float32]
    t2: NDArray[np.float32]
    mask: BoolArray
    labels: NDArray[np.uint8]
    areas: NDArray[np.uint8]
    fractions: NDArray[np.float32]


def make_brain_phantom(
    shape: Sequence[int] = (217, 181),
    *,
    contrast: str = "paper",
    noise: float = 3.0,
    inu: float = 0.0,
    n_lesions: int = 12,
    supersampling: int = 3,
    random_state: int = 0,
) -> BrainPhantom:
    r"""Simulate a T1 and a T2 image of a brain with lesions, in two or three dimensions.

    The geometry is synthetic: a folded cortex of grey matter around white matter, CSF in the sulci and two ventricles,
    deep grey nuclei, and round lesions in the white matter. Every voxel is sampled `supersampling` times along each
    axis, so that border voxels contain several tissues. With shares :math:`f_{ik}` and grey levels :math:`v_k`,

    .. math:: x_i = \sqrt{(b_i \textstyle\sum_k f_{ik} v_k + \epsilon_i)^2 + \eta_i^2}, \qquad
              \epsilon_i, \eta_i \sim \mathcal N(0, \sigma^2)

    with a smooth field :math:`b` from :math:`1 - u/2` to :math:`1 + u/2`, where u is the non-uniformity.

    Parameters
    ----------
    shape : sequence of int, default=(217, 181)
        Rows and columns, or three sides; the brain fills most of the grid.
    contrast : {'paper', 'brainweb'}, default='paper'
        'paper': as described in the paper. In T1, CSF is dark and all tissue is alike; in T2, pathology is bright and
        CSF is close to the tissue. Normal tissue has the mean level of BrainWeb's grey and white matter, and CSF in T2
        that of grey matter. 'brainweb': BrainWeb's means, where grey and white matter differ and **CSF is bright in T2,
        brighter than pathology**.
    noise : float, default=3.0
        Standard deviation of Rician noise in percent of the reference tissue (white matter in T1, CSF in T2).
    inu : float, default=0.0
        Intensity non-uniformity in percent; with 20 the field ranges from 0.9 to 1.1.
    n_lesions : int, default=12
        Number of lesions; parts outside white matter are not drawn.
    supersampling : int, default=3
        Samples along each axis of a voxel; 1 gives pure voxels only.
    random_state : int, default=0
        Seed for folds, lesions, field and noise.

    Returns
    -------
    phantom : BrainPhantom

    Examples
    --------
    >>> phantom = make_brain_phantom((64, 54), noise=0)
    >>> sorted(set(phantom.areas.ravel().tolist()))
    [0, 1, 2, 3]
    >>> bool(phantom.t1[phantom.areas == 2].mean() < 100 < phantom.t1[phantom.areas == 3].mean())
    True
    """
    sides = tuple(check_integer("shape", side, 16) for side in shape)
    if len(sides) not in {2, 3}:
        raise ValueError(f"shape must have 2 or 3 sides, got {len(sides)}.")
    check_choice("contrast", contrast, CONTRASTS)
    check_real("noise", noise, 0.0)
    check_real("inu", inu, 0.0, 100.0)
    check_integer("n_lesions", n_lesions, 0)
    check_integer("supersampling", supersampling, 1, 8)
    seeds = np.random.SeedSequence(check_integer("random_state", random_state, 0)).spawn(3)
    anatomy = _Anatomy(np.random.default_rng(seeds[0]), n_lesions, len(sides))
    fractions = _fractions(anatomy, sides, supersampling)
    # Voxels on the brain's border count as outside: background is not a tissue.
    mask = fractions.sum(axis=-1) > 1 - 1e-4
    fractions[~mask] = 0
    labels = np.where(mask, fractions.argmax(axis=-1) + 1, 0).astype(np.uint8)
    shares = np.stack([fractions[..., 3], fractions[..., 0], fractions[..., 1] + fractions[..., 2]], axis=-1)
    areas = np.where(mask, shares.argmax(axis=-1) + 1, 0).astype(np.uint8)
    images = []
    for modality, seed in zip(("t1", "t2"), seeds[1:], strict=True):
        rng = np.random.default_rng(seed)
        image = _field(sides, inu / 100, rng) * (fractions @ np.array(_levels(modality, contrast), dtype=np.float32))
        images.append(_rician(image, noise / 100 * REFERENCE[modality], rng) * mask)
    return BrainPhantom(images[0], images[1], mask, labels, areas, fractions)


def _levels(modality: str, contrast: str) -> tuple[float, ...]:
    csf, grey, white, lesion = BRAINWEB_LEVELS[modality]
    if contrast == "brainweb":
        return csf, grey, white, lesion
    normal = GREY_SHARE * grey + (1 - GREY_SHARE) * white
    return (csf if modality == "t1" else grey), normal, normal, lesion


def _rician(image: NDArray[np.float32], sd: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Magnitude of a signal with Gaussian noise on both channels."""
    real = image + np.float32(sd) * rng.standard_normal(image.shape, dtype=np.float32)
    return np.hypot(real, np.float32(sd) * rng.standard_normal(image.shape, dtype=np.float32))


def _field(sides: tuple[int, ...], level: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Smooth multiplicative field with the given range around 1."""
    axes = [np.linspace(-1, 1, side, dtype=np.float32) for side in sides]
    phases = rng.uniform(0, 2 * np.pi, len(sides))
    waves = [np.sin(np.pi / 2 * axis + phase) for axis, phase in zip(axes, phases, strict=True)]
    total: Any = sum(np.ix_(*waves))
    total = (total - total.min()) / max(float(np.ptp(total)), 1e-6)
    return np.asarray(1 + level * (total - 0.5), dtype=np.float32)


class _Anatomy:
    """Tissue at a point; the brain is the unit ball of its coordinates, about 7 cm per unit."""

    CSF_DEPTH = 0.035
    CORTEX = 0.055
    SULCUS = 0.01
    SULCUS_DEPTH = 0.27
    WAVES = 14

    def __init__(self, rng: np.random.Generator, n_lesions: int, n_axes: int) -> None:
        directions = rng.standard_normal((self.WAVES, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        if n_axes == 2:  # waves across the slice would only widen the sulci
            directions[:, 2] = 0
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        self._waves = (directions * rng.uniform(11, 19, (self.WAVES, 1))).astype(np.float32)
        self._phases = rng.uniform(0, 2 * np.pi, self.WAVES).astype(np.float32)
        self._lesions = self._draw_lesions(rng, n_lesions, n_axes)

    @staticmethod
    def _draw_lesions(rng: np.random.Generator, n_lesions: int, n_axes: int) -> FloatArray:
        """Centres near the ventricles, and radii, (n_lesions, 4)."""
        angle = rng.uniform(0, 2 * np.pi, n_lesions)
        distance = rng.uniform(0.32, 0.52, n_lesions)
        depth = rng.uniform(-0.25, 0.35, n_lesions) if n_axes == 3 else np.zeros(n_lesions)
        radius = rng.uniform(0.035, 0.075, n_lesions)
        return np.stack([distance * np.cos(angle), distance * np.sin(angle), depth, radius], axis=1)

    def tissue(self, y: Any, x: Any, z: Any) -> IntArray:
        """Tissue number from one at points given by broadcasting coordinates; 0 outside."""
        radius = np.sqrt(y * y + x * x + z * z)
        depth = self._depth(y, x, z, radius)
        tissue = np.where(depth > self.CORTEX, 3, np.where(depth > 0, 2, 1))
        deep = _ball(y + 0.02, abs(x) - 0.27, z, (0.17, 0.09, 0.2))
        tissue[deep & (depth > self.CORTEX)] = 2
        for cy, cx, cz, r in self._lesions:
            tissue[_ball(y - cy, x - cx, z - cz, (r, r, r)) & (tissue == 3)] = 4
        front = _ball(y - 0.2, abs(x) - 0.1 - 0.25 * (y - 0.05), z, (0.22, 0.06, 0.25))
        back = _ball(y + 0.26, abs(x) - 0.16 + 0.3 * (y + 0.2), z, (0.2, 0.055, 0.22))
        tissue[front | back] = 1
        tissue[np.broadcast_to(radius >= 1, tissue.shape)] = 0
        return tissue

    def _depth(self, y: Any, x: Any, z: Any, radius: Any) -> Any:
        """Approximate distance to the nearest CSF of surface, sulcus or fissure, negative inside it."""
        swell: Any = np.float32(0)
        slope = np.zeros(3, dtype=np.float32)
        for wave, phase in zip(self._waves, self._phases, strict=True):
            swell = swell + np.sin(wave[0] * y + wave[1] * x + wave[2] * z + phase)
            slope += wave**2 / 2
        # Sulci are the zero set of the swell; dividing by its slope gives a distance.
        crease = abs(swell) / np.sqrt(slope.sum()) - self.SULCUS
        floor = 1 - self.CSF_DEPTH - self.SULCUS_DEPTH
        sulcus = _beyond(crease, floor - radius)
        fissure = _beyond(abs(x) - 0.012, 0.5 - radius)
        return np.minimum(np.minimum(1 - self.CSF_DEPTH - radius, sulcus), fissure)


def _beyond(across: Any, along: Any) -> Any:
    """Distance to a sheet from the distances across and along it to its edge, negative inside."""
    inside = np.maximum(across, along)
    return np.where(inside < 0, inside, np.hypot(np.maximum(across, 0), np.maximum(along, 0)))


def _ball(y: Any, x: Any, z: Any, axes: tuple[float, float, float]) -> BoolArray:
    return np.asarray((y / axes[0]) ** 2 + (x / axes[1]) ** 2 + (z / axes[2]) ** 2 < 1)


def _fractions(anatomy: _Anatomy, sides: tuple[int, ...], samples: int) -> NDArray[np.float32]:
    """Share of each tissue, slab by slab along the first axis, so that the fine grid is never in memory."""
    offsets = (np.arange(samples) + 0.5) / samples - 0.5
    fine = [((np.arange(side)[:, None] + offsets).ravel() - (side - 1) / 2) / (0.47 * side) for side in sides]
    rows = fine[0].reshape(sides[0], samples)
    rest = [axis.astype(np.float32) for axis in fine[1:]] + [np.zeros(1, dtype=np.float32)] * (3 - len(sides))
    out = np.empty((*sides, len(TISSUES)), dtype=np.float32)
    for index, row in enumerate(rows.astype(np.float32)):
        fine_tissue = anatomy.tissue(row[:, None, None], rest[0][None, :, None], rest[1][None, None, :])
        for number in range(len(TISSUES)):
            share = (fine_tissue == number + 1).mean(axis=0, dtype=np.float32)
            out[index, ..., number] = _pooled(share, samples, sides[1:])
    return out


def _pooled(share: NDArray[np.float32], samples: int, sides: tuple[int, ...]) -> Any:
    if len(sides) == 1:
        return share[:, 0].reshape(sides[0], samples).mean(axis=1)
    return share.reshape(sides[0], samples, sides[1], samples).mean(axis=(1, 3))
