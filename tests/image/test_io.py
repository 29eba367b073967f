"""Files and arrays in, maps out, and what is said of input that will not do."""

import gzip
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image as Pillow

from egmm.image import Image, SegmentedImage, read_image, segment

AFFINE = np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 3, -72], [0, 0, 0, 1]])


@pytest.fixture
def two_areas() -> np.ndarray:
    """A dark and a bright area, 8-bit."""
    image = np.random.default_rng(3).normal(60, 4, (24, 20))
    image[:, 10:] += 100
    return np.rint(image).astype(np.uint8)


@pytest.fixture
def volume(two_areas: np.ndarray) -> np.ndarray:
    return np.repeat(two_areas[:, :, None], 6, axis=2)


def save_nifti(path: Path, data: np.ndarray, affine: np.ndarray = AFFINE) -> Path:
    image = nib.Nifti1Image(data, affine)
    image.header["descrip"] = b"made here"
    image.header.set_xyzt_units("mm")
    nib.save(image, path)
    return path


@pytest.mark.parametrize("n_slices", [3, 4])
def test_files_of_few_slices_are_volumes_not_colours(tmp_path: Path, volume: np.ndarray, n_slices: int) -> None:
    few = volume[:, :, :n_slices]
    path = save_nifti(tmp_path / "t1.nii", few)
    mask = np.ones(few.shape, dtype=np.uint8)
    mask[0] = 0
    for given in (mask, save_nifti(tmp_path / "mask.nii", mask)):
        assert segment(path, given, 2).n_voxels == mask.sum()
    pages = [Pillow.fromarray(page) for page in np.moveaxis(few, 2, 0)]
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    np.testing.assert_array_equal(read_image(tmp_path / "stack.tif").data, few)


def test_double_precision_of_a_file_is_kept(tmp_path: Path) -> None:
    levels = 1e9 + np.arange(8.0).reshape(2, 2, 2)  # single precision has steps of 64 there
    np.testing.assert_array_equal(read_image(save_nifti(tmp_path / "fine.nii", levels)).data, levels)


def test_slices_are_drawn_in_the_shape_of_their_voxels(tmp_path: Path, volume: np.ndarray) -> None:
    result = segment(save_nifti(tmp_path / "t1.nii", volume), n_clusters=2)  # voxels of 2 x 2 x 3 mm
    assert [result.plot(axis=axis)[0].get_aspect() for axis in range(3)] == pytest.approx([2 / 3, 2 / 3, 1.0])


def test_formulas_in_names_of_clusters_stay_text(two_areas: np.ndarray) -> None:
    title = segment(two_areas, n_clusters=2, names=("$dark$", "bright")).plot()[0].get_title()
    assert title.startswith(r"\$dark\$")


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp", ".gif", ".pgm"])
def test_pictures_are_read_as_they_were_written(tmp_path: Path, two_areas: np.ndarray, suffix: str) -> None:
    Pillow.fromarray(two_areas).save(tmp_path / f"t1{suffix}")
    image = read_image(tmp_path / f"t1{suffix}")
    np.testing.assert_array_equal(image.data, two_areas)
    assert (image.name, image.affine) == (f"t1{suffix}", None)


def test_sixteen_bit_and_real_tiff_keep_their_grey_levels(tmp_path: Path) -> None:
    deep = np.array([[0, 300], [4095, 65535]], dtype=np.uint16)
    Pillow.fromarray(deep).save(tmp_path / "deep.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "deep.tif").data, deep)
    real = np.array([[0.25, -3.5]], dtype=np.float32)
    Pillow.fromarray(real).save(tmp_path / "real.tif")
    np.testing.assert_array_equal(read_image(str(tmp_path / "real.tif")).data, real)


def test_pages_of_a_tiff_are_a_volume(tmp_path: Path, two_areas: np.ndarray) -> None:
    pages = [Pillow.fromarray(two_areas), Pillow.fromarray(two_areas[::-1])]
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    data = read_image(tmp_path / "stack.tif").data
    np.testing.assert_array_equal(data[:, :, 1], two_areas[::-1])


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_nifti_comes_back_with_affine_and_header(tmp_path: Path, volume: np.ndarray, suffix: str) -> None:
    source = save_nifti(tmp_path / f"t1{suffix}", volume)
    segmented = segment(source, n_clusters=2)
    segmented.to_nifti(tmp_path / f"labels{suffix}")
    written = nib.load(tmp_path / f"labels{suffix}")
    np.testing.assert_array_equal(written.affine, AFFINE)
    assert written.header.get_xyzt_units()[0] == "mm"
    assert bytes(written.header["descrip"]).startswith(b"made here")
    assert written.get_data_dtype() == np.uint8
    # Dark is 1, bright is 2: the areas were made that way.
    np.testing.assert_array_equal(np.asarray(written.dataobj), np.where(volume > 110, 2, 1))


def test_display_range_and_meaning_of_the_grey_levels_are_not_those_of_the_maps(tmp_path: Path, volume) -> None:
    source = nib.Nifti1Image(volume, AFFINE)
    source.header["cal_min"], source.header["cal_max"] = 40, 4000  # viewers would show labels 1 and 2 as black
    source.header.set_intent("z score")
    segmented = segment(source, n_clusters=2)
    for what in ("labels", "mass"):
        segmented.to_nifti(tmp_path / "map.nii", what)
        header = nib.load(tmp_path / "map.nii").header
        assert (header["cal_min"], header["cal_max"], header.get_intent()[0]) == (0, 0, "none")
    assert source.header["cal_max"] == 4000


def test_scaled_whole_numbers_of_32_bits_keep_their_digits(tmp_path: Path) -> None:
    levels = 2**30 + np.arange(8, dtype=np.int32).reshape(2, 2, 2)  # single precision has steps of 64 there
    image = nib.Nifti1Image(levels, np.eye(4))
    image.header.set_slope_inter(0.5, 0)
    nib.save(image, tmp_path / "scaled.nii")
    np.testing.assert_array_equal(read_image(tmp_path / "scaled.nii").data, levels / 2)


def test_scaled_nifti_is_read_in_its_units(tmp_path: Path) -> None:
    image = nib.Nifti1Image(np.arange(8, dtype=np.int16).reshape(2, 2, 2), np.eye(4))
    image.header.set_slope_inter(0.5, 10)
    nib.save(image, tmp_path / "scaled.nii")
    np.testing.assert_allclose(read_image(tmp_path / "scaled.nii").data.ravel(), 10 + 0.5 * np.arange(8))


def test_a_nibabel_image_and_a_pillow_image_are_sources(volume: np.ndarray, two_areas: np.ndarray) -> None:
    assert read_image(nib.Nifti1Image(volume, AFFINE)).affine is not None
    np.testing.assert_array_equal(read_image(Pillow.fromarray(two_areas)).data, two_areas)


@pytest.mark.parametrize(
    ("what", "extra"), [("lower", 2), ("upper", 2), ("mass", 3), ("ambiguity", None), ("conflict", None)]
)
def test_every_map_goes_to_nifti(tmp_path: Path, volume: np.ndarray, what: str, extra: int | None) -> None:
    segment(volume, n_clusters=2).to_nifti(tmp_path / "map.nii.gz", what)
    shape = nib.load(tmp_path / "map.nii.gz").shape
    assert shape == (*volume.shape, extra) if extra else shape == volume.shape


def test_maps_go_to_png(tmp_path: Path, two_areas: np.ndarray, volume: np.ndarray) -> None:
    flat = segment(two_areas, n_clusters=2)
    flat.to_png(tmp_path / "labels.png")
    assert set(np.unique(np.array(Pillow.open(tmp_path / "labels.png")))) == {127, 254}
    flat.to_png(tmp_path / "lower.png", "lower", cluster=1)
    colours = np.array(Pillow.open(tmp_path / "lower.png")).astype(int)
    is_red = colours[..., 0] > colours[..., 2] + 50
    np.testing.assert_array_equal(is_red, two_areas > 110)
    segment(volume, n_clusters=2).to_png(tmp_path / "cut.tif", "ambiguity", at=1, axis=0)
    assert np.array(Pillow.open(tmp_path / "cut.tif")).shape == (20, 6)


def test_the_slice_asked_for_is_drawn(tmp_path: Path, rng) -> None:
    result = segment(rng.choice([40, 140], (5, 6, 7)) + rng.integers(0, 9, (5, 6, 7)), n_clusters=2)
    labels = result.labels()
    for options, wanted in (
        ({}, labels[:, :, 3]),
        ({"at": 0}, labels[:, :, 0]),
        ({"at": 6}, labels[:, :, 6]),
        ({"axis": 1}, labels[:, 3]),
        ({"at": 2, "axis": 0}, labels[2]),
    ):
        result.to_png(tmp_path / "cut.png", **options)
        np.testing.assert_array_equal(np.array(Pillow.open(tmp_path / "cut.png")), 127 * wanted)
    with pytest.raises(ValueError, match=r"at must be an integer from 0 to 6, got 7\."):
        result.to_png(tmp_path / "cut.png", at=7)
    with pytest.raises(ValueError, match=r"axis must be an integer from 0 to 2, got 3\."):
        result.to_png(tmp_path / "cut.png", axis=3)


def test_doubt_is_seen_in_png(tmp_path: Path) -> None:
    # Dark, between, and bright.
    grey = np.random.default_rng(3).normal(40, 5, (24, 21)) + 40 * (np.arange(21) // 7)
    doubtful = segment(np.rint(grey).astype(np.uint8), n_clusters=2)
    pictures = {}
    for what in ("lower", "upper", "ambiguity"):
        doubtful.to_png(tmp_path / "map.png", what, **({} if what == "ambiguity" else {"cluster": 1}))
        pictures[what] = np.array(Pillow.open(tmp_path / "map.png")).astype(int)
    lower, upper = doubtful.lower()[..., 1], doubtful.upper()[..., 1]
    assert (upper & ~lower).any()
    is_blue = {what: pictures[what][..., 2] > pictures[what][..., 0] + 50 for what in ("lower", "upper")}
    np.testing.assert_array_equal(is_blue["upper"], upper & ~lower)
    assert not is_blue["lower"].any()
    np.testing.assert_array_equal(pictures["ambiguity"], np.rint(doubtful.ambiguity() * 255))


def flat_map() -> SegmentedImage:
    return segment(np.arange(12.0).reshape(3, 4), n_clusters=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, d: s.to_nifti(d / "x.png"), "path must end in .nii or .nii.gz, got 'x.png'"),
        (lambda s, d: s.to_nifti(d / "x.nii", "mask"), "what must be one of 'labels', 'ambiguity'.* got 'mask'"),
        (lambda s, d: s.to_png(d / "x.nii"), "path must end in one of .png, .tif"),
        (lambda s, d: s.to_png(d / "x.png", "mass"), "what must be one of 'labels', 'ambiguity'"),
        (lambda s, d: s.to_png(d / "x.png", "lower", cluster=2), "cluster must be an integer from 0 to 1, got 2"),
        (lambda s, d: s.named("CSF"), "names must have 2 entries, one per cluster, got 1"),
        (lambda s, d: s.mass({0, 5}), "cluster number .* from 0 to 1, got 5"),
    ],
)
def test_wrong_ways_out_are_named(tmp_path: Path, call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(flat_map(), tmp_path)


def test_shapes_and_affines_that_differ_are_named(tmp_path: Path, volume: np.ndarray) -> None:
    with pytest.raises(
        ValueError, match=r"image 1 and image 2 must be on one grid, .* \(24, 20, 6\) and \(24, 20, 5\)"
    ):
        segment([volume, volume[:, :, :5]], n_clusters=2)
    moved = AFFINE.copy()
    moved[0, 3] += 1.5
    paths = [save_nifti(tmp_path / "t1.nii", volume), save_nifti(tmp_path / "t2.nii", volume, moved)]
    with pytest.raises(ValueError, match=r"t1.nii and t2.nii have the same shape but different affines .* 1.5\)"):
        segment(paths, n_clusters=2)
    with pytest.raises(ValueError, match=r"t1.nii and t2.nii have the same shape but different affines"):
        segment(paths[0], mask=paths[1], n_clusters=2)


@pytest.mark.parametrize(
    ("images", "mask", "error", "message"),
    [
        (np.ones((4, 4)), None, ValueError, r"image is constant \(1\) in the mask of 16 voxels"),
        (np.ones((4, 4), dtype=bool), None, ValueError, r"image is constant \(1\) in the mask of 16 voxels"),
        ({"T1": np.eye(4)}, np.tri(4, k=-1), ValueError, r"T1 is constant \(0\) in the mask of 6 voxels"),
        (np.eye(4), np.zeros((4, 4)), ValueError, "mask is empty: it selects none of the 16 voxels"),
        (np.eye(4), np.full((4, 4), np.nan), ValueError, "mask holds NaN"),
        (np.eye(4), np.ones((4, 5)), ValueError, "image and mask must be on one grid"),
        (np.where(np.eye(4), np.nan, 1.0), None, ValueError, r"image contains NaN at voxel \(0, 0\) \(4 voxels"),
        (np.where(np.eye(4), np.inf, 1.0), None, ValueError, r"image contains infinity at voxel \(0, 0\)"),
        (np.ma.masked_equal(np.eye(4), 1), None, ValueError, "image has 4 entries of 16 masked, .* out of the mask"),
        ([np.eye(4), Image(np.ma.masked_equal(np.eye(4), 1), "T2")], None, ValueError, "T2 has 4 entries of 16 masked"),
        # What files write for "no data".
        (np.where(np.eye(4), np.finfo(float).max, 1.0), None, ValueError, r"1.79769e\+308, too .* at voxel \(0, 0\)"),
        (np.where(np.eye(4), -np.finfo(float).max, 1.0), None, ValueError, r"-1.79769e\+308, too large .* \(4 voxels"),
        (2**60 + np.arange(16).reshape(4, 4), None, ValueError, r"image is constant \(1.15292e\+18\)"),
        (np.zeros((2, 2, 2, 2)), None, ValueError, r"must have 2 or 3 dimensions, got shape \(2, 2, 2, 2\)"),
        (np.zeros(5), None, ValueError, r"got shape \(5,\)"),
        (np.zeros((0, 3)), None, ValueError, r"image is empty: its shape is \(0, 3\)"),
        (Image(np.zeros(5), "line"), None, ValueError, r"line must have 2 or 3 dimensions, got shape \(5,\)"),
        (np.array([["a"]]), None, TypeError, "image must hold numbers, got an array of dtype <U1"),
        ([], None, ValueError, "images must hold at least one modality"),
        (np.eye(4) > 0, None, ValueError, "n_clusters=3, but the mask has only 2 distinct values"),
    ],
)
def test_wrong_images_are_named(images, mask, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        segment(images, mask, 3)


def test_a_nan_outside_the_mask_does_no_harm() -> None:
    image = np.arange(16.0).reshape(4, 4)
    image[0, 0] = np.nan
    labels = segment(image, np.arange(16).reshape(4, 4) > 0, 2).labels()
    assert labels[0, 0] == 0
    assert (labels.ravel()[1:] > 0).all()


def test_colour_pictures_are_no_grey_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\(9, 9, 3\) .* like a colour image"):
        read_image(np.zeros((9, 9, 3), dtype=np.uint8))
    Pillow.new("RGB", (8, 8)).save(tmp_path / "colour.png")
    with pytest.raises(ValueError, match=r"colour.png is a colour picture \(mode RGB\), but grey levels are needed"):
        read_image(tmp_path / "colour.png")
    palette = Pillow.new("P", (8, 8))
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.save(tmp_path / "palette.png")
    with pytest.raises(ValueError, match=r"palette.png is a colour picture \(mode P\)"):
        read_image(tmp_path / "palette.png")


def test_damaged_and_unknown_files_are_named(tmp_path: Path, volume: np.ndarray) -> None:
    whole = save_nifti(tmp_path / "whole.nii.gz", volume).read_bytes()
    (tmp_path / "cut.nii.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut.nii.gz cannot be read as a volume and may be damaged"):
        segment(tmp_path / "cut.nii.gz", n_clusters=2)
    (tmp_path / "short.nii").write_bytes(gzip.decompress(whole)[:400])
    with pytest.raises(ValueError, match=r"short.nii cannot be read as a volume"):
        read_image(tmp_path / "short.nii")
    (tmp_path / "text.nii").write_text("not a volume")
    with pytest.raises(ValueError, match=r"text.nii cannot be read as a volume"):
        read_image(tmp_path / "text.nii")
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(ValueError, match=r"text.png cannot be read as a picture"):
        read_image(tmp_path / "text.png")
    (tmp_path / "scan.dcm").write_text("")
    with pytest.raises(ValueError, match=r"scan.dcm has an unknown suffix; expected one of .png"):
        read_image(tmp_path / "scan.dcm")
    with pytest.raises(IsADirectoryError, match=r"is a directory; expected a file"):
        read_image(tmp_path)
    pages = [Pillow.new("L", (8, 8)), Pillow.new("L", (9, 8))]
    pages[0].save(tmp_path / "uneven.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(ValueError, match=r"uneven.tif has 2 pages of different shapes \(\(8, 8\), \(8, 9\)\)"):
        read_image(tmp_path / "uneven.tif")
    with pytest.raises(FileNotFoundError, match=r"gone.png does not exist"):
        read_image(tmp_path / "gone.png")


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (70, b"\x04\x6f"),  # no such type of numbers
        (42, b"\xff\xff"),  # -1 voxels
        (40, b"\x09\x00"),  # nine dimensions
        (108, b"\x00\x00\xc0\xff"),  # the numbers begin nowhere
    ],
)
def test_headers_that_make_no_sense_are_damage(tmp_path: Path, volume: np.ndarray, offset: int, value: bytes) -> None:
    content = bytearray(save_nifti(tmp_path / "t1.nii", volume).read_bytes())
    content[offset : offset + len(value)] = value
    (tmp_path / "t1.nii").write_bytes(content)
    with pytest.raises(ValueError, match=r"t1.nii cannot be read as a volume and may be damaged"):
        read_image(tmp_path / "t1.nii")


def test_pictures_with_more_pixels_than_pillow_reads_are_named(
    tmp_path: Path, two_areas: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pillow.fromarray(two_areas).save(tmp_path / "scan.png")
    monkeypatch.setattr(Pillow, "MAX_IMAGE_PIXELS", two_areas.size // 2 + 1)  # Pillow itself would warn
    np.testing.assert_array_equal(read_image(tmp_path / "scan.png").data, two_areas)
    monkeypatch.setattr(Pillow, "MAX_IMAGE_PIXELS", two_areas.size // 2 - 1)
    with pytest.raises(ValueError, match=r"scan.png has more pixels than Pillow allows.*pass the array"):
        read_image(tmp_path / "scan.png")


def test_a_written_image_is_not_left_half(tmp_path: Path) -> None:
    flat_map().to_nifti(tmp_path / "a.nii.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.nii.gz"]


def test_an_image_keeps_its_place_under_another_name() -> None:
    first = Image(np.eye(3), "scan", AFFINE)
    again = read_image(first, "T1")
    assert again.name == "T1"
    assert again.affine is AFFINE
