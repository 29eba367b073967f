"""BrainWeb's simulated brain images, from local files or through the package `brainweb-dl`."""

import gzip
import zlib
from collections.abc import Sequence
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egmm._checks import check_choice, check_integer, import_optional
from egmm.image.io import VOLUME_SUFFIXES, Image, check_file, read_image

SHAPE = (181, 217, 181)
"""Shape of BrainWeb's 1 mm volumes along x, y and z."""

RAW_SUFFIXES = (".rawb", ".raws", ".raw", ".rawb.gz", ".raws.gz", ".raw.gz")
ORIGIN = (-90.0, -126.0, -72.0)
"""World coordinates, in mm, of the centre of BrainWeb's first voxel (Talairach space)."""

CONTRASTS = ("T1", "T2", "PD")


def load_brainweb(
    path: str | PathLike[str], *, shape: Sequence[int] = SHAPE, voxel_size: Sequence[float] = (1.0, 1.0, 1.0)
) -> Image:
    """Read a BrainWeb volume: raw bytes or 16-bit numbers, MINC, or NIfTI; gzipped or not.

    Raw files have no header. BrainWeb writes them with x fastest and z slowest. The file length distinguishes bytes
    from 16-bit numbers; the byte order is detected from the values, which are at most 4095.

    Parameters
    ----------
    path : str or path-like
        The file.
    shape : sequence of int, default=(181, 217, 181)
        Shape x, y, z of a raw file; thicker slices have a smaller z.
    voxel_size : sequence of float, default=(1.0, 1.0, 1.0)
        Voxel size of a raw file in mm.

    Returns
    -------
    image : Image
        A volume with axes x, y, z and its affine.
    """
    file = Path(path)
    name = file.name.lower()
    if name.endswith(VOLUME_SUFFIXES):
        return read_image(file)
    if not name.endswith(RAW_SUFFIXES):
        raise ValueError(f"{file.name} has an unknown suffix; expected {', '.join(RAW_SUFFIXES + VOLUME_SUFFIXES)}.")
    sides = tuple(check_integer("shape", side, 1) for side in shape)
    if len(sides) != 3 or len(voxel_size) != 3:
        raise ValueError(f"shape and voxel_size must have three entries, got {tuple(shape)} and {tuple(voxel_size)}.")
    content = _read_bytes(file)
    affine = np.diag([*voxel_size, 1.0])
    affine[:3, 3] = ORIGIN
    numbers = _raw_numbers(content, prod(sides))
    if numbers is None:
        raise ValueError(
            f"{file.name} holds {len(content)} bytes, but {' x '.join(map(str, sides))} voxels take {prod(sides)} "
            f"(bytes) or {2 * prod(sides)} (16-bit); pass its shape."
        )
    return read_image(Image(numbers.reshape(sides[::-1]).T, file.name, affine))


def _read_bytes(file: Path) -> bytes:
    check_file(file)
    if not file.name.lower().endswith(".gz"):
        return file.read_bytes()
    try:
        with gzip.open(file) as stream:
            return stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{file.name} cannot be decompressed and may be damaged: {error}") from error


def _raw_numbers(content: bytes, n_voxels: int) -> NDArray[Any] | None:
    if len(content) == n_voxels:
        return np.frombuffer(content, dtype=np.uint8)
    if len(content) == 2 * n_voxels:
        little, big = (np.frombuffer(content, dtype=order) for order in ("<u2", ">u2"))
        return np.asarray(min(little, big, key=lambda numbers: float(numbers.mean())), dtype=np.uint16)
    return None


def fetch_brainweb(
    subject: int = 0, contrast: str = "T1", *, noise: int = 0, inu: int = 0, resolution: int = 1, **options: Any
) -> Image:
    """Fetch a BrainWeb volume through the package `brainweb-dl`, which downloads and caches it.

    Parameters
    ----------
    subject : int, default=0
        0 is BrainWeb's normal brain; the package lists twenty more.
    contrast : {'T1', 'T2', 'PD'}, default='T1'
        Modality.
    noise : int, default=0
        Noise level in percent: 0, 1, 3, 5, 7 or 9.
    inu : int, default=0
        Intensity non-uniformity in percent: 0, 20 or 40.
    resolution : int, default=1
        Thickness of the slices in mm.
    **options : any
        Further options of ``brainweb_dl.get_mri``.

    Returns
    -------
    image : Image
        A volume and its affine.
    """
    check_choice("contrast", contrast, CONTRASTS)
    package = import_optional("brainweb_dl", "Downloads from BrainWeb")
    data, affine = package.get_mri(
        sub_id=check_integer("subject", subject, 0),
        contrast=contrast,
        noise=noise,
        field_value=inu,
        download_res=resolution,
        with_affine=True,
        **options,
    )
    return read_image(Image(np.asarray(data, dtype=np.float32), f"BrainWeb {contrast}", np.asarray(affine)))
