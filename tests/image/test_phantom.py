"""The phantom: contrasts, noise, non-uniformity and truth are what was asked for."""

import numpy as np
import pytest

from egmm.image import make_brain_phantom
from egmm.image.phantom import BRAINWEB_LEVELS, REFERENCE


@pytest.mark.parametrize("shape", [(96, 80), (40, 48, 36)])
def test_grids_and_truth_fit_together(shape: tuple[int, ...]) -> None:
    brain = make_brain_phantom(shape, supersampling=2)
    assert brain.t1.shape == brain.t2.shape == brain.labels.shape == brain.areas.shape == shape
    np.testing.assert_array_equal(brain.mask, brain.labels > 0)
    np.testing.assert_allclose(brain.fractions.sum(axis=-1), brain.mask, atol=1e-5)
    assert (brain.t1[~brain.mask] == 0).all()
    assert (brain.t2[~brain.mask] == 0).all()
    assert set(np.unique(brain.areas)) == {0, 1, 2, 3}
    pure = brain.fractions.max(axis=-1) > 0.999
    np.testing.assert_array_equal(brain.areas[pure], np.array([0, 2, 3, 3, 1])[brain.labels[pure]])


def test_without_noise_pure_pixels_have_brainwebs_levels() -> None:
    brain = make_brain_phantom(noise=0, contrast="brainweb")
    for modality, image in (("t1", brain.t1), ("t2", brain.t2)):
        for tissue, level in enumerate(BRAINWEB_LEVELS[modality], start=1):
            pure = brain.fractions[..., tissue - 1] > 0.9999
            assert pure.sum() > 100
            np.testing.assert_allclose(image[pure], level, rtol=1e-5)


def test_the_papers_contrast_is_what_the_paper_describes() -> None:
    brain = make_brain_phantom(noise=0)
    t1, t2 = ([image[brain.areas == area].mean() for area in (1, 2, 3)] for image in (brain.t1, brain.t2))
    # T1 separates CSF from tissue and shows no pathology; T2 shows pathology, tissue close to CSF.
    assert abs(t1[0] - t1[2]) < 10
    assert t1[2] - t1[1] > 60
    assert abs(t2[1] - t2[2]) < 20
    assert t2[0] - max(t2[1], t2[2]) > 50


@pytest.mark.parametrize("noise", [3.0, 9.0])
def test_noise_has_the_asked_level(noise: float) -> None:
    clean, noisy = (make_brain_phantom(noise=level, contrast="brainweb") for level in (0, noise))
    for modality, image, truth in (("t1", noisy.t1, clean.t1), ("t2", noisy.t2, clean.t2)):
        bright = clean.labels == 3
        wanted = noise / 100 * REFERENCE[modality]
        # Far above the noise a Rician variable is nearly Gaussian.
        assert np.std(image[bright] - truth[bright]) == pytest.approx(wanted, rel=0.03)


def test_non_uniformity_has_the_asked_range() -> None:
    even, uneven = (make_brain_phantom(noise=0, inu=inu) for inu in (0, 20))
    field = uneven.t1[even.mask] / even.t1[even.mask]
    assert 0.9 <= field.min() < 0.95
    assert 1.05 < field.max() <= 1.1
    # The bound is where sqrt(signal**2) is the field itself: nothing else may change.
    np.testing.assert_array_equal(uneven.labels, even.labels)


def test_seeds_repeat_and_differ() -> None:
    first, again, other = (make_brain_phantom((64, 54), random_state=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.t1, again.t1)
    assert (first.labels != other.labels).any()


def test_without_supersampling_every_voxel_is_pure() -> None:
    assert set(np.unique(make_brain_phantom((64, 54), supersampling=1).fractions)) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"shape": (10, 40)}, ValueError, "shape must be an integer >= 16, got 10"),
        ({"shape": (40,)}, ValueError, "shape must have 2 or 3 sides, got 1"),
        ({"contrast": "flair"}, ValueError, "contrast must be one of 'paper', 'brainweb'; got 'flair'"),
        ({"noise": -1}, ValueError, r"noise must be a finite number in \[0, inf\], got -1"),
        ({"inu": 120}, ValueError, r"inu must be a finite number in \[0, 100\], got 120"),
        ({"n_lesions": 1.5}, TypeError, "n_lesions must be an integer >= 0, got 1.5"),
        ({"supersampling": 9}, ValueError, "supersampling must be an integer from 1 to 8, got 9"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_brain_phantom(**options)
