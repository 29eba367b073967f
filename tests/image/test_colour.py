"""Colour pictures: published values of CIE L*a*b*, channels as images, names of colours."""

from pathlib import Path

import numpy as np
import pytest

from egmm.image import segment
from egmm.image.colour import colour_name, from_lab, split_colours, to_lab

pillow = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [  # sRGB primaries in CIE L*a*b*, D65, as colour science tables print them
        ([255, 0, 0], [53.24, 80.09, 67.20]),
        ([0, 255, 0], [87.73, -86.18, 83.18]),
        ([0, 0, 255], [32.30, 79.19, -107.86]),
        ([255, 255, 255], [100.0, 0.0, 0.0]),
        ([119, 119, 119], [50.03, 0.0, 0.0]),
    ],
)
def test_colours_have_their_published_coordinates(rgb: list[int], lab: list[float]) -> None:
    np.testing.assert_allclose(to_lab(rgb), lab, atol=0.06)


def test_colours_come_back(rng) -> None:
    pixels = rng.integers(0, 256, size=(20, 3))
    np.testing.assert_allclose(from_lab(to_lab(pixels)) * 255, pixels, atol=1e-6)


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        ([200, 30, 30], "red"),
        ([20, 60, 20], "dark green"),
        ([60, 120, 220], "blue"),
        ([250, 250, 250], "white"),
        ([10, 10, 10], "black"),
        ([128, 128, 128], "grey"),
        ([120, 70, 30], "brown"),
    ],
)
def test_names(rgb: list[int], name: str) -> None:
    assert colour_name(to_lab(rgb)) == name


def test_files_arrays_and_pillow_images_are_taken_apart_alike(tmp_path: Path, rng) -> None:
    pixels = rng.integers(0, 256, size=(8, 9, 3)).astype(np.uint8)
    pillow.fromarray(pixels).save(tmp_path / "c.png")
    sources = [
        pixels,
        tmp_path / "c.png",
        pillow.fromarray(pixels),
        np.dstack([pixels, np.full((8, 9), 255, np.uint8)]),
    ]
    for source in sources:
        lab = split_colours(source, "lab")
        assert [image.name for image in lab] == ["L", "a", "b"]
        np.testing.assert_allclose(np.stack([image.data for image in lab], axis=-1), to_lab(pixels), atol=1e-4)
        rgb = split_colours(source, "rgb")
        np.testing.assert_array_equal(np.stack([image.data for image in rgb], axis=-1), pixels)
    assert [image.name for image in split_colours({"day": pixels, "depth": np.eye(8, 9)}, "rgb")] == [
        "day red",
        "day green",
        "day blue",
        "depth",
    ]


def test_grey_pictures_are_left_as_they_are(tmp_path: Path, rng) -> None:
    grey = rng.integers(0, 256, size=(8, 9)).astype(np.uint8)
    pillow.fromarray(grey).save(tmp_path / "g.png")
    assert split_colours(tmp_path / "g.png", "lab") == tmp_path / "g.png"
    assert split_colours(grey, "lab") is grey
    coloured = np.repeat(grey[..., None], 3, axis=-1)  # saved in colour, but grey
    assert [image.name for image in split_colours(coloured, "lab")] == ["L"]
    with pytest.raises(ValueError, match="colour must be one of 'lab', 'rgb', 'grey'; got 'hsv'"):
        split_colours(grey, "hsv")


def test_colours_of_one_lightness_are_told_apart(rng) -> None:
    pixels = np.where(np.arange(40)[None, :, None] < 20, [200, 30, 30], [20, 130, 20]).repeat(30, axis=0)
    noisy = np.clip(pixels + rng.normal(0, 4, pixels.shape), 0, 255).astype(np.uint8)
    labels = segment(noisy, n_clusters=2).labels()
    assert len(np.unique(labels[:, :20])) == len(np.unique(labels[:, 20:])) == 1
    assert labels[0, 0] != labels[0, -1]


@pytest.mark.parametrize(("colours", "names"), [([0, 0, 0, 90, 90, 90], None), ([0, 0, 0, 255, 0, 0], ["L", "a", "b"])])
def test_a_picture_with_a_palette_is_in_colour_unless_all_of_it_is_grey(colours: list[int], names: list[str]) -> None:
    picture = pillow.new("P", (9, 8))
    picture.putpalette(colours)
    picture.putdata([at % 2 for at in range(72)])
    found = split_colours(picture, "lab")
    assert found is picture if names is None else [image.name for image in found] == names
