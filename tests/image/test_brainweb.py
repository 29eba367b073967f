"""BrainWeb's files: raw, MINC, NIfTI, and through a package that downloads them."""

import gzip
import sys
from pathlib import Path
from types import ModuleType

import nibabel as nib
import numpy as np
import pytest

from egmm.image import fetch_brainweb, fuse, load_brainweb, segment
from egmm.metrics import ari

SIDES = (5, 7, 4)


@pytest.fixture
def levels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4096, SIDES).astype(np.uint16)


@pytest.mark.parametrize("order", ["<u2", ">u2"])
@pytest.mark.parametrize("name", ["t1.raws", "t1.raws.gz", "T1.RAWS.GZ"])
def test_raw_shorts_of_either_byte_order(tmp_path: Path, levels: np.ndarray, order: str, name: str) -> None:
    content = levels.T.astype(order).tobytes()  # x fastest, z slowest
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    image = load_brainweb(path, shape=SIDES, voxel_size=(1, 1, 3))
    np.testing.assert_array_equal(image.data, levels)
    np.testing.assert_array_equal(np.diag(image.affine), [1, 1, 3, 1])


def test_raw_bytes_and_their_default_shape(tmp_path: Path) -> None:
    content = bytearray(181 * 217 * 181)
    content[1] = 7  # the second voxel along x
    (tmp_path / "t2.rawb").write_bytes(bytes(content))
    image = load_brainweb(tmp_path / "t2.rawb")
    assert image.data.shape == (181, 217, 181)
    assert image.data[1, 0, 0] == 7
    np.testing.assert_array_equal(image.affine[:3, 3], [-90, -126, -72])


def test_nifti_and_minc(tmp_path: Path, levels: np.ndarray) -> None:
    nib.save(nib.Nifti1Image(levels, np.eye(4)), tmp_path / "t1.nii.gz")
    np.testing.assert_array_equal(load_brainweb(tmp_path / "t1.nii.gz").data, levels)
    minc = Path(nib.__file__).parent / "tests" / "data" / "tiny.mnc"
    if not minc.is_file():
        pytest.skip("nibabel came without its test data")
    assert load_brainweb(minc).data.ndim == 3


def test_files_that_will_not_do_are_named(tmp_path: Path) -> None:
    (tmp_path / "t1.rawb").write_bytes(b"12345")
    with pytest.raises(ValueError, match=r"t1.rawb holds 5 bytes, but 181 x 217 x 181 voxels take 7109137"):
        load_brainweb(tmp_path / "t1.rawb")
    with pytest.raises(ValueError, match=r"shape and voxel_size must have three entries, got \(5, 1\)"):
        load_brainweb(tmp_path / "t1.rawb", shape=(5, 1))
    (tmp_path / "t1.rawb.gz").write_bytes(b"12345")
    with pytest.raises(ValueError, match=r"t1.rawb.gz cannot be decompressed and may be damaged"):
        load_brainweb(tmp_path / "t1.rawb.gz")
    with pytest.raises(ValueError, match=r"t1.txt has an unknown suffix; expected .rawb"):
        load_brainweb(tmp_path / "t1.txt")
    with pytest.raises(FileNotFoundError, match=r"gone.rawb does not exist"):
        load_brainweb(tmp_path / "gone.rawb")


def test_the_downloading_package_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}
    package = ModuleType("brainweb_dl")

    def get_mri(sub_id, **options):
        asked.update(options, sub_id=sub_id)
        return np.ones((2, 3, 4)), np.eye(4)

    package.get_mri = get_mri
    monkeypatch.setitem(sys.modules, "brainweb_dl", package)
    image = fetch_brainweb(4, "T2", noise=3, inu=20)
    assert image.data.shape == (2, 3, 4)
    wanted = {"sub_id": 4, "contrast": "T2", "noise": 3, "field_value": 20, "download_res": 1, "with_affine": True}
    assert asked == wanted
    with pytest.raises(ValueError, match="contrast must be one of 'T1', 'T2', 'PD'; got 'FLAIR'"):
        fetch_brainweb(0, "FLAIR")


def test_without_the_package_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brainweb_dl", None)
    with pytest.raises(ImportError, match="Downloads from BrainWeb need brainweb_dl: pip install 'brainweb_dl'"):
        fetch_brainweb()


@pytest.mark.slow
@pytest.mark.parametrize("number", [96, 101, 106])
def test_lesions_of_real_slices_need_the_bright_csf_refining(data_directory: Path, number: int) -> None:
    """The lesion labels are derived from the images: they are no official BrainWeb labels."""
    path = data_directory / "brainweb" / "msles2_1mm_pn0_rf0_axial.npz"
    if not path.is_file():
        pytest.skip(f"{data_directory} has no brainweb/msles2_1mm_pn0_rf0_axial.npz")
    data = np.load(path)
    at = int(np.flatnonzero(data["slice_number"] == number)[0])
    label = data["label"][at]
    mask = np.isin(label, (1, 2, 3, 8, 10))
    truth = np.select([label == 10, label == 1], [1, 2], 3)[mask]
    images = [data[name][at] for name in ("t1", "t2")]
    papers = fuse(*(segment(image, mask, 2) for image in images), [[{1}, {0, 2}], [{1, 2}, {0}]])
    better = fuse(*(segment(image, mask, 3) for image in images), [[{1}, {0, 2}, {0, 2}], [{2}, {2}, {0, 1}]])
    assert 0.5 < ari(truth, papers.labels()[mask]) < 0.7
    assert ari(truth, better.labels()[mask]) > 0.83
