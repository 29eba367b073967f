"""Colour pictures: their channels as images on one grid, in a perceptually uniform space."""

from collections import Counter
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egmm._checks import FloatArray, check_choice, import_optional
from egmm.image.io import COLOUR_CHANNELS, PICTURE_SUFFIXES, Image, check_file, here, read_image

SPACES = ("lab", "rgb", "grey")

TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
"""Linear sRGB to CIE XYZ (IEC 61966-2-1)."""

WHITE = TO_XYZ.sum(axis=1)
"""XYZ of white."""

HUES = (
    (45, "red"),
    (82, "orange"),
    (112, "yellow"),
    (185, "green"),
    (225, "cyan"),
    (300, "blue"),
    (340, "purple"),
    (360, "red"),
)
"""Names of hues up to an angle in the plane of a and b, in degrees."""

GREY_CHROMA = 9.0
"""Colours with less chroma are named grey."""


FLAT = 1e-3
"""Channels with a smaller range are constant up to rounding."""


def split_colours(images: Any, space: str) -> Any:
    """Replace every colour picture by its named channels; other images are unchanged."""
    check_choice("colour", space, SPACES)
    if isinstance(images, Mapping):
        named = {str(name): _channels(source, space, str(name)) or source for name, source in images.items()}
        return [part for name, source in named.items() for part in _parts(source, name)]
    if isinstance(images, list | tuple) and images and isinstance(images[0], str | PathLike | Image):
        found = [_channels(source, space) or [source] for source in images]
        return [part for parts in found for part in parts]
    return _channels(images, space) or images


def _parts(source: Any, name: str) -> list[Any]:
    return source if isinstance(source, list) and isinstance(source[0], Image) else [read_image(source, name)]


def _channels(source: Any, space: str, name: str | None = None) -> list[Image] | None:
    """Channels of a colour picture; None for other sources."""
    pixels = _pixels(source)
    if pixels is None:
        return None
    before = f"{name} " if name else ""
    if space == "grey":
        return [Image(np.rint(to_lab(pixels)[..., 0] * 2.55).astype(np.uint8), f"{before}lightness")]
    names, values = ("red", "green", "blue"), pixels
    if space == "lab":
        names, values = ("L", "a", "b"), to_lab(pixels).astype(np.float32)
    found = [Image(values[..., k], f"{before}{what}") for k, what in enumerate(names)]
    # A grey picture saved in colour has two constant channels.
    return [image for image in found if np.ptp(image.data) > FLAT] or found[:1]


def _pixels(source: Any) -> NDArray[np.uint8] | None:
    """8-bit red, green and blue of a colour picture, (rows, columns, 3); None for other sources."""
    source = here(source)
    if isinstance(source, np.ndarray):
        is_colour = source.ndim == 3 and source.shape[-1] in COLOUR_CHANNELS and source.dtype == np.uint8
        return source[..., :3] if is_colour else None
    if isinstance(source, str | PathLike):
        path = Path(source)
        if not path.name.lower().endswith(PICTURE_SUFFIXES):
            return None
        check_file(path)
        pillow = import_optional("PIL.Image", "Picture files", "image")
        try:
            with pillow.open(path) as picture:
                return None if getattr(picture, "n_frames", 1) > 1 else _from_pillow(picture)
        except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError):
            return None  # The reader of grey pictures reports the error.
    return _from_pillow(source) if hasattr(source, "getbands") else None


def _from_pillow(picture: Any) -> NDArray[np.uint8] | None:
    is_palette = picture.mode == "P"
    if not is_palette and len(picture.getbands()) < 3:
        return None
    pixels = np.asarray(picture.convert("RGB"))
    if is_palette and (np.ptp(pixels, axis=-1) == 0).all():
        return None
    return pixels


def to_lab(pixels: Any) -> FloatArray:
    """CIE L*a*b* (D65) of 8-bit sRGB, last axis 3.

    >>> to_lab([[255, 255, 255], [0, 0, 0]]).round(1) + 0.0
    array([[100.,   0.,   0.],
           [  0.,   0.,   0.]])
    """
    values = np.asarray(pixels, dtype=np.float64) / 255.0
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    ratio = linear @ TO_XYZ.T / WHITE
    root = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(root, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def from_lab(lab: Any) -> FloatArray:
    """Red, green and blue from 0 to 1 of CIE L*a*b*, last axis 3.

    >>> from_lab(to_lab([[200, 30, 90]])).round(3) * 255
    array([[199.92 ,  30.09 ,  90.015]])
    """
    lightness, a, b = np.moveaxis(np.asarray(lab, dtype=np.float64), -1, 0)
    y = (lightness + 16) / 116
    root = np.stack([y + a / 500, y, y - b / 200], axis=-1)
    ratio = np.where(root > 6 / 29, root**3, 3 * (6 / 29) ** 2 * (root - 4 / 29))
    linear = np.clip((ratio * WHITE) @ np.linalg.inv(TO_XYZ).T, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def colour_names(colours: Any) -> list[str]:
    """Name colours; those with the same name are told apart by their lightness, from 0 to 100.

    >>> colour_names([[60, 30, 55], [50, 30, 55], [96, 0, 0]])
    ['orange, lightness 60', 'orange, lightness 50', 'white']
    """
    names = [colour_name(lab) for lab in colours]
    shared = {name for name, count in Counter(names).items() if count > 1}
    return [
        f"{name}, lightness {lab[0]:.0f}" if name in shared else name for name, lab in zip(names, colours, strict=True)
    ]


def colour_name(lab: Any) -> str:
    """Name a colour by its lightness and hue.

    >>> colour_name([60, 30, 55]), colour_name([20, -20, 20]), colour_name([96, 0, 0])
    ('orange', 'dark green', 'white')
    """
    lightness, a, b = (float(part) for part in lab)
    if np.hypot(a, b) < GREY_CHROMA:
        greys = ((12, "black"), (38, "dark grey"), (68, "grey"), (90, "light grey"), (np.inf, "white"))
        return next(name for limit, name in greys if lightness < limit)
    angle = float(np.degrees(np.arctan2(b, a))) % 360
    hue = next(name for limit, name in HUES if angle < limit)
    if hue in ("orange", "yellow") and lightness < 45:
        return "brown" if hue == "orange" else "olive"
    return f"dark {hue}" if lightness < 35 else f"light {hue}" if lightness > 75 else hue
