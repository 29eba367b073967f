"""Grey images and volumes from arrays and files, and maps back to files."""

import gzip
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from egmm._arrays import place_of, to_host
from egmm._checks import BoolArray, FloatArray, check_unmasked, import_optional
from egmm._files import replacing

Source: TypeAlias = Any
"""An array, the path of a PNG, TIFF, NIfTI, MINC or MGH file, a nibabel image or a Pillow image."""

VOLUME_SUFFIXES = (".nii", ".nii.gz", ".img", ".img.gz", ".hdr", ".mgz", ".mgh", ".mnc", ".mnc.gz")
PICTURE_SUFFIXES = (".png", ".tif", ".tiff", ".bmp", ".jpg", ".jpeg", ".gif", ".pgm")
COLOUR_CHANNELS = (3, 4)
AFFINE_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Image:
    """A grey image on its grid.

    Attributes
    ----------
    data : ndarray
        Grey levels, two- or three-dimensional, as stored or scaled by the file header.
    name : str
        Name for messages and titles.
    affine : ndarray of shape (4, 4) or None
        Voxel-to-world transform, if the file has one.
    header : object or None
        nibabel header of the file, kept for writing maps.
    """

    data: NDArray[Any]
    name: str
    affine: FloatArray | None = None
    header: Any = None


def read_image(source: Source, name: str | None = None) -> Image:
    """Read one grey image or volume.

    Parameters
    ----------
    source : array-like, str, path-like, nibabel image or Pillow image
        Numbers on a two- or three-dimensional grid, or a file: PNG, TIFF (pages become a volume), JPEG or BMP through
        Pillow; NIfTI, Analyze, MGH or MINC through nibabel.
    name : str, default=None
        Name for messages and titles; None uses the file name.

    Returns
    -------
    image : Image

    Examples
    --------
    >>> read_image([[0, 1], [2, 3]], "T1").data.shape
    (2, 2)
    """
    image = _read(source, name)
    if not isinstance(source, str | PathLike | Image) and image.affine is None:
        _check_grey(image)
    return image


def read_images(images: Any) -> list[Image]:
    """Read one modality or several on one grid: a source, a list of sources, or a mapping of names to sources."""
    if isinstance(images, Mapping):
        read = [read_image(source, str(name)) for name, source in images.items()]
    elif isinstance(images, list | tuple) and not _is_nested_numbers(images):
        read = [read_image(source, _default_name(source, number)) for number, source in enumerate(images, start=1)]
    else:
        read = [read_image(images)]
    if not read:
        raise ValueError("images must hold at least one modality, got none.")
    for other in read[1:]:
        check_same_grid(read[0], other)
    return read


def read_mask(mask: Any, like: Image) -> BoolArray:
    """Read a mask on the grid of an image; None selects every voxel."""
    if mask is None:
        return np.ones(like.data.shape, dtype=bool)
    image = _read(mask, None if isinstance(mask, str | PathLike) else "mask")
    check_same_grid(like, image)
    if image.data.dtype.kind == "f" and np.isnan(image.data).any():
        raise ValueError(f"{image.name} contains NaN; a mask must be zero or non-zero at every voxel.")
    inside: BoolArray = image.data != 0
    if not inside.any():
        raise ValueError(f"{image.name} is empty: it selects none of the {inside.size} voxels.")
    return inside


def check_same_grid(first: Image, second: Image) -> None:
    """Raise if two images differ in shape or affine."""
    if first.data.shape != second.data.shape:
        raise ValueError(
            f"{first.name} and {second.name} must be on one grid, but their shapes are {first.data.shape} and "
            f"{second.data.shape}; resample one of them first."
        )
    if first.affine is None or second.affine is None:
        return
    gap = float(np.abs(first.affine - second.affine).max())
    if gap > AFFINE_TOLERANCE:
        raise ValueError(
            f"{first.name} and {second.name} have the same shape but different affines (entries differ by up to "
            f"{gap:.3g}); register and resample one of them first."
        )


def write_volume(path: str | PathLike[str], data: NDArray[Any], affine: FloatArray | None, header: Any = None) -> None:
    """Write a map as NIfTI with the affine and header of the image it was made from.

    Parameters
    ----------
    path : str or path-like
        A name that ends in .nii or .nii.gz.
    data : ndarray
        The map; boolean becomes 8-bit.
    affine : ndarray of shape (4, 4) or None
        Voxel-to-world transform; None writes the identity.
    header : nibabel header, default=None
        Header whose units, codes and description are kept.
    """
    target = Path(path)
    if not target.name.endswith((".nii", ".nii.gz")):
        raise ValueError(f"path must end in .nii or .nii.gz, got {target.name!r}.")
    nibabel = import_optional("nibabel", "NIfTI files", "image")
    stored = data.astype(np.uint8) if data.dtype == bool else data
    stored = stored.astype(np.float32) if stored.dtype == np.float64 else stored
    kept = header if isinstance(header, nibabel.Nifti1Header) else None
    volume = nibabel.Nifti1Image(stored, np.eye(4) if affine is None else affine, kept)
    # Data type, scaling, display range and intent of the source do not apply to this map.
    volume.set_data_dtype(stored.dtype)
    volume.header.set_slope_inter(1, 0)
    volume.header["cal_min"] = volume.header["cal_max"] = 0
    volume.header.set_intent("none")
    content = volume.to_bytes()
    with replacing(target) as stream:
        stream.write(gzip.compress(content, compresslevel=6) if target.name.endswith(".gz") else content)


def write_picture(path: str | PathLike[str], data: NDArray[np.uint8]) -> None:
    """Write an 8-bit grey (rows, columns) or RGB (rows, columns, 3) picture; the suffix sets the format."""
    target = Path(path)
    if not target.name.lower().endswith(PICTURE_SUFFIXES):
        raise ValueError(f"path must end in one of {', '.join(PICTURE_SUFFIXES)}, got {target.name!r}.")
    pillow = import_optional("PIL.Image", "Picture files", "image")
    formats = pillow.registered_extensions()
    with replacing(target) as stream:
        pillow.fromarray(np.ascontiguousarray(data)).save(stream, format=formats[target.suffix.lower()])


def _read(source: Source, name: str | None) -> Image:
    if isinstance(source, str | PathLike):
        path = Path(source)
        return _checked(_read_file(path), name or path.name)
    if isinstance(source, Image):
        return _checked(source, source.name if name is None else name)
    if hasattr(source, "dataobj") and hasattr(source, "affine"):
        return _checked(_from_nibabel(source, name or "image"), name or "image")
    if hasattr(source, "getbands"):
        return _checked(Image(_from_pillow(source, name or "image"), ""), name or "image")
    return _checked(Image(np.asanyarray(here(source)), ""), name or "image")


def here(source: Any) -> Any:
    """An array of another library as NumPy's: voxels are merged on the host, and few distinct ones are left to fit."""
    return source if place_of(source) is None else to_host(source)


def check_file(path: Path) -> None:
    """Raise if a path is not a file."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; expected a file.")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")


def _read_file(path: Path) -> Image:
    name = path.name.lower()
    check_file(path)
    if name.endswith(VOLUME_SUFFIXES):
        return _read_volume(path)
    if name.endswith(PICTURE_SUFFIXES):
        return Image(_read_picture(path), path.name)
    raise ValueError(
        f"{path.name} has an unknown suffix; expected one of {', '.join(PICTURE_SUFFIXES + VOLUME_SUFFIXES)}."
    )


def _read_volume(path: Path) -> Image:
    nibabel = import_optional("nibabel", "NIfTI, MGH and MINC files", "image")
    try:
        return _from_nibabel(nibabel.load(path), path.name)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # Invalid headers raise many kinds of errors.
        raise ValueError(f"{path.name} cannot be read as a volume and may be damaged: {error}") from error


def _from_nibabel(volume: Any, name: str) -> Image:
    data = np.asanyarray(volume.dataobj)
    if data.dtype == np.float64 and volume.get_data_dtype().itemsize <= 2:
        # Scaled 8- and 16-bit integers arrive as doubles; single precision suffices and halves the memory.
        data = data.astype(np.float32)
    while data.ndim > 3 and data.shape[-1] == 1:
        data = data[..., 0]
    affine = None if volume.affine is None else np.asarray(volume.affine, dtype=np.float64)
    return Image(data, name, affine, volume.header)


def _read_picture(path: Path) -> NDArray[Any]:
    pillow = import_optional("PIL.Image", "Picture files", "image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # Large scans are legitimate.
            with pillow.open(path) as picture:
                stack = []
                for page in range(getattr(picture, "n_frames", 1)):
                    picture.seek(page)
                    stack.append(_from_pillow(picture, path.name))
    except (_ColourError, MemoryError):
        raise
    except pillow.DecompressionBombError as error:
        raise ValueError(
            f"{path.name} has more pixels than Pillow allows, or is damaged; if it is valid, read it with "
            f"another library and pass the array: {error}"
        ) from error
    except Exception as error:  # Damaged files raise many kinds of errors.
        raise ValueError(f"{path.name} cannot be read as a picture and may be damaged: {error}") from error
    if len({page.shape for page in stack}) > 1:
        shapes = ", ".join(str(shape) for shape in sorted({page.shape for page in stack}))
        raise ValueError(f"{path.name} has {len(stack)} pages of different shapes ({shapes}), which form no volume.")
    return stack[0] if len(stack) == 1 else np.stack(stack, axis=-1)


class _ColourError(ValueError):
    """A valid picture that is not grey."""


def _from_pillow(picture: Any, name: str) -> NDArray[Any]:
    if picture.mode == "P" and np.ptp(np.reshape(picture.getpalette(), (-1, 3)), axis=1).max(initial=0) == 0:
        picture = picture.convert("L")  # GIF always has a palette, even for grey levels
    if len(picture.getbands()) > 1 or picture.mode == "P":
        raise _ColourError(
            f"{name} is a colour picture (mode {picture.mode}), but grey levels are needed; convert it first, for "
            f"example with PIL.Image.open(...).convert('L'), or pass its channels as a list of images."
        )
    return np.array(picture)


def _checked(image: Image, name: str) -> Image:
    check_unmasked(name, image.data, "fill them (numpy.ma.filled) and exclude them from the mask")
    data = np.asarray(image.data)
    if data.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers, got an array of dtype {data.dtype}.")
    if data.ndim not in {2, 3}:
        raise ValueError(
            f"{name} must have 2 or 3 dimensions, got shape {data.shape}; pass the volumes of a "
            "series as a list of images."
        )
    if data.size == 0:
        raise ValueError(f"{name} is empty: its shape is {data.shape}.")
    return Image(data, name, image.affine, image.header)


def _check_grey(image: Image) -> None:
    """Raise on an array that looks like a colour image; files distinguish slices from channels."""
    data = image.data
    if data.ndim == 3 and data.shape[-1] in COLOUR_CHANNELS and data.dtype == np.uint8:
        raise ValueError(
            f"{image.name} has shape {data.shape} and 8-bit values, like a colour image, but grey levels are "
            f"needed; average its channels or pass them as a list of images (a volume of {data.shape[-1]} slices: "
            "convert it to float first)."
        )


def _default_name(source: Any, number: int) -> str | None:
    return None if isinstance(source, str | PathLike | Image) else f"image {number}"


def _is_nested_numbers(images: Sequence[Any]) -> bool:
    """Whether a list is one image given as rows of numbers rather than a list of images."""
    return bool(images) and isinstance(images[0], list | tuple) and np.ndim(images[0][0] if images[0] else 0) == 0
