"""Images on the command line."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pillow = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A dark and a bright half with a little noise."""
    levels = np.where(np.arange(40) < 20, 60, 180) + np.random.default_rng(0).normal(0, 4, (30, 40))
    path = tmp_path / "halves.png"
    pillow.fromarray(levels.astype(np.uint8)).save(path)
    return path


def test_a_picture_is_segmented_into_its_halves(run: Any, picture: Path, tmp_path: Path) -> None:
    result = run("segment", picture, "--clusters", "2", "--json", "--out", "made")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found["voxels"].values()) == [600, 600]
    assert found["files"] == ["ambiguity.png", "approximations.png", "clusters.png", "labels.png"]
    labels = np.asarray(pillow.open(tmp_path / "made" / "labels.png"))
    assert len(np.unique(labels[:, :20])) == 1
    assert labels[0, 0] < labels[0, -1]


def test_a_colour_picture_is_segmented_by_its_colours(call: Any, tmp_path: Path) -> None:
    # Red and green of one lightness: grey levels could not tell them apart.
    pixels = np.where(np.arange(40)[None, :, None] < 20, [200, 30, 30], [20, 130, 20]).repeat(30, axis=0)
    noisy = np.clip(pixels + np.random.default_rng(0).normal(0, 4, pixels.shape), 0, 255).astype(np.uint8)
    pillow.fromarray(noisy).save(tmp_path / "colours.png")
    result = call("segment", "colours.png", "-c", "2")
    assert result.returncode == 0, result.stderr
    assert re.search(r"red +600", result.stdout)
    assert re.search(r"green +600", result.stdout)
    grey = call("segment", "colours.png", "-c", "2", "--colour", "grey", "--json", "--out", "grey")
    assert list(json.loads(grey.stdout)["voxels"].values()) != [600, 600]
    assert call("segment", "colours.png", "--colour", "hsv").returncode == 2


def test_a_volume_is_written_as_one(call: Any, tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    levels = np.where(np.arange(12) < 6, 50.0, 150.0) + np.random.default_rng(0).normal(0, 3, (10, 11, 12))
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(levels.astype(np.float32), affine), tmp_path / "brain.nii.gz")
    result = call("segment", "brain.nii.gz", "-c", "2", "--quiet")
    assert (result.returncode, result.stdout) == (0, "")
    labels = nibabel.load(tmp_path / "egmm-brain" / "labels.nii.gz")
    np.testing.assert_array_equal(labels.affine, affine)
    assert set(np.unique(labels.get_fdata())) == {1, 2}


def test_the_sets_of_a_volume_of_masses_are_told(call: Any, tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    levels = np.repeat([50.0, 100.0, 150.0], 4) + np.random.default_rng(0).normal(0, 3, (10, 11, 12))
    nibabel.save(nibabel.Nifti1Image(levels.astype(np.float32), np.eye(4)), tmp_path / "brain.nii.gz")
    shown = call("segment", "brain.nii.gz", "-c", "3", "--out", "made")
    assert "one volume per set, in the order {1}, {2}, {1,2}, {3}, {2,3}." in " ".join(shown.stdout.split())
    found = json.loads(call("segment", "brain.nii.gz", "-c", "3", "--json", "--out", "again").stdout)
    masses = nibabel.load(tmp_path / "again" / "mass.nii.gz").get_fdata()
    labels = nibabel.load(tmp_path / "again" / "labels.nii.gz").get_fdata()
    for cluster in (1, 2, 3):
        column = found["sets"].index(f"{{{cluster}}}")
        assert masses[labels == cluster][:, column].mean() > 0.9


def test_the_screen_tells_the_sizes(call: Any, picture: Path) -> None:
    result = call("segment", picture, "-c", "2", "--out", "made")
    assert "2 clusters in 1 200 pixels" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_missing_mask_is_named(call: Any, picture: Path) -> None:
    result = call("segment", picture, "--mask", "none.png")
    assert result.returncode == 1
    assert "none.png does not exist" in result.stderr


def test_a_directory_is_no_image(call: Any, tmp_path: Path) -> None:
    result = call("segment", tmp_path)
    assert result.returncode == 1
    assert "is a directory; expected a file" in " ".join(result.stderr.split())
