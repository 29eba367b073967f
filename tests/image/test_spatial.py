"""Evidence of neighbours: weights and sums against loops, edges kept, errors fewer."""

import numpy as np
import pytest

from egmm import EGMM, FocalSets
from egmm.image import (
    Image,
    Neighbourhood,
    SegmentedImage,
    make_brain_phantom,
    pool_images,
    read_image,
    segment,
    spatial_evidence,
)
from egmm.image.features import noise_level
from egmm.image.spatial import bonds, combine_neighbours, voxel_sides
from image.oracles_image import dempster, neighbour_weights


@pytest.fixture
def faint() -> SegmentedImage:
    """Two areas so alike that no mass is near 0 or 1."""
    rng = np.random.default_rng(2)
    image = np.where(np.arange(9) < 5, 40.0, 46.0) + rng.normal(0, 6, (8, 9))
    mask = np.ones((8, 9), dtype=bool)
    mask[3, 4] = False
    return segment(
        image, mask, estimator=EGMM(2, init=np.array([[38.0], [48.0]]), accelerate=False, tol=1e9, reg_covar=20.0)
    )


def faint_weights(faint: SegmentedImage) -> dict:
    image = faint.images[0].data
    return neighbour_weights(image, faint.mask, noise_level(image, faint.mask), 6, 1.0, 0.5, 1)


@pytest.fixture
def noisy() -> tuple[np.ndarray, np.ndarray]:
    """Two areas with an edge, and a mask with a hole."""
    rng = np.random.default_rng(7)
    image = np.where(np.arange(9) < 5, 40.0, 100.0) + rng.normal(0, 6, (8, 9))
    mask = np.ones((8, 9), dtype=bool)
    mask[3, 4] = mask[0, :2] = False
    return image.astype(np.float32), mask


def weights_of(image: np.ndarray, mask: np.ndarray, how: Neighbourhood) -> dict:
    """All weights that `bonds` yields, by pairs of pixels."""
    found: dict = {tuple(at): {} for at in np.argwhere(mask).tolist()}
    numbers = np.arange(image.size).reshape(image.shape)
    for here, there, weight in bonds([read_image(image)], mask, how):
        for a, b, w in zip(numbers[here].ravel(), numbers[there].ravel(), weight.ravel(), strict=True):
            if w > 0:
                first, second = (tuple(int(i) for i in np.unravel_index(n, image.shape)) for n in (a, b))
                found[first][second] = found[second][first] = float(w)
    return found


@pytest.mark.parametrize("how", [Neighbourhood(), Neighbourhood(1, 2.0, 0.0, 0), Neighbourhood(2, 0.7, 1.0, 2)])
def test_weights_are_those_of_the_formula(noisy: tuple[np.ndarray, np.ndarray], how: Neighbourhood) -> None:
    image, mask = noisy
    reach = how.reach or 6
    wanted = neighbour_weights(image, mask, noise_level(image, mask), reach, how.contrast, how.decay, how.patch)
    found = weights_of(image, mask, how)
    assert found.keys() == wanted.keys()
    for voxel, others in wanted.items():
        for other, weight in others.items():
            assert found[voxel].get(other, 0.0) == pytest.approx(weight, rel=2e-3, abs=1e-7)


def test_neighbours_stay_on_a_grid_smaller_than_their_reach(noisy: tuple[np.ndarray, np.ndarray]) -> None:
    image, mask = noisy[0][:3, 2:7], noisy[1][:3, 2:7]
    wanted = neighbour_weights(image, mask, noise_level(image, mask), 6, 1.0, 0.5, 1)
    found = weights_of(image, mask, Neighbourhood())
    for voxel, others in wanted.items():
        assert sum(found[voxel].values()) == pytest.approx(sum(others.values()), rel=2e-3)


def test_pooling_is_the_weighted_mean(noisy: tuple[np.ndarray, np.ndarray]) -> None:
    image, mask = noisy
    pooled = pool_images([read_image(image)], mask)[0].data
    weights = neighbour_weights(image, mask, noise_level(image, mask), 6, 1.0, 0.5, 1)
    for voxel, others in weights.items():
        total = image[voxel] + sum(w * image[other] for other, w in others.items())
        assert pooled[voxel] == pytest.approx(total / (1 + sum(others.values())), rel=1e-4)
    assert not pooled[~mask].any()


@pytest.mark.parametrize("inside", [1, 255, 0.5])
def test_a_voxel_that_is_not_zero_in_the_mask_counts_whatever_its_number(
    noisy: tuple[np.ndarray, np.ndarray], inside: float
) -> None:
    image, mask = noisy
    expected = pool_images([read_image(image)], mask)[0].data
    np.testing.assert_array_equal(pool_images([read_image(image)], np.where(mask, inside, 0))[0].data, expected)


@pytest.mark.parametrize(
    ("mask", "message"),
    [(np.ones((3, 4), bool), "image and mask must be on one grid"), (np.zeros((8, 9), bool), "mask is empty")],
)
def test_images_are_not_pooled_in_a_mask_of_another_grid_or_without_voxels(mask: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pool_images([read_image(np.arange(72.0).reshape(8, 9))], mask)


def test_images_of_two_grids_are_not_pooled() -> None:
    images = [read_image(np.ones(shape), name) for name, shape in (("T1", (4, 5)), ("T2", (6, 7)))]
    with pytest.raises(ValueError, match="T1 and T2 must be on one grid"):
        pool_images(images, None)


def test_a_modality_twice_has_the_weights_of_once(noisy: tuple[np.ndarray, np.ndarray]) -> None:
    image, mask = read_image(noisy[0]), noisy[1]
    once = pool_images([image], mask)[0].data
    for pooled in pool_images([image, image], mask):
        np.testing.assert_allclose(pooled.data, once, rtol=1e-5)


def test_pooled_grey_levels_give_the_geometric_mean_of_the_masses(noisy: tuple[np.ndarray, np.ndarray]) -> None:
    """With one covariance, pooling evidence is pooling grey levels."""
    image, mask = noisy
    rows = image[mask][:, None].astype(float)
    model = EGMM(2, init=np.array([[40.0], [100.0]]), reg_covar=1.0).fit(rows)
    segmented = segment(image, mask, estimator=EGMM(2, init=np.array([[40.0], [100.0]]), reg_covar=1.0))
    combined = spatial_evidence(segmented, independence=0.0)
    pooled = pool_images([read_image(image)], mask)[0].data[mask]
    np.testing.assert_allclose(combined.partition.mass, model.predict_mass(pooled[:, None].astype(float)), atol=0.01)


@pytest.mark.parametrize("independence", [0.0, 0.5, 1.0])
def test_masses_are_pooled_on_the_log_scale(faint: SegmentedImage, independence: float) -> None:
    combined = spatial_evidence(faint, independence=independence).masses()
    masses = faint.masses().astype(float)
    for voxel, others in faint_weights(faint).items():
        total = 1 + sum(others.values())
        product = masses[voxel] * np.prod([masses[other] ** w for other, w in others.items()], axis=0)
        wanted = product ** (total ** (independence - 1))
        np.testing.assert_allclose(combined[voxel], wanted / wanted.sum(), atol=2e-3)


def test_dempsters_rule_with_discounted_neighbours(faint: SegmentedImage) -> None:
    combined = spatial_evidence(faint, rule="dempster", independence=0.6).masses()
    masses, sets = faint.masses().astype(float), list(faint.focal_sets)
    frame = frozenset({0, 1})
    for voxel, others in faint_weights(faint).items():
        result = dict(zip(sets, masses[voxel], strict=True))
        for other, weight in others.items():
            source = {members: 0.6 * weight * m for members, m in zip(sets, masses[other], strict=True)}
            source[frame] += 1 - 0.6 * weight
            result, _ = dempster([result, source])
        np.testing.assert_allclose(combined[voxel], [result[members] for members in sets], atol=2e-3)


@pytest.mark.parametrize(("shape", "noise"), [((109, 91), 9), ((60, 72, 60), 9), ((109, 91), 5)])
def test_noisy_images_have_fewer_errors(shape: tuple[int, ...], noise: float) -> None:
    brain = make_brain_phantom(shape, contrast="brainweb", noise=noise, n_lesions=0, supersampling=2)
    wrong = [
        (segment(brain.t1, brain.mask, 3, spatial=spatial).labels() != brain.labels).sum() for spatial in (None, True)
    ]
    assert wrong[1] < (0.8 if noise == 9 else 0.95) * wrong[0]


def test_little_noise_does_no_harm() -> None:
    brain = make_brain_phantom(contrast="brainweb", noise=1)
    plain, pooled = (
        (segment(brain.t1, brain.mask, 3, spatial=spatial).labels() != brain.labels).sum() for spatial in (None, True)
    )
    assert pooled < 1.02 * plain


def test_edges_stay_where_they_are() -> None:
    rng = np.random.default_rng(0)
    truth = np.zeros((80, 80))
    truth[:, 40:] = 60
    truth[10:70, 20] = 60  # a line one pixel wide
    image = truth + rng.normal(0, 6, truth.shape)
    pooled = pool_images([read_image(image)], np.ones(truth.shape, dtype=bool))[0].data
    flat = pooled[:, :15]
    assert flat.std() < 0.5 * image[:, :15].std()
    assert np.abs(pooled - truth)[:, 39:41].mean() < 5
    assert pooled[10:70, 20].mean() > 50


@pytest.mark.parametrize("rule", ["geometric", "dempster"])
def test_masses_of_any_segmentation_can_be_combined(rule: str) -> None:
    brain = make_brain_phantom(noise=9)
    alone = segment(brain.t1, brain.mask, 2)
    combined = spatial_evidence(alone, rule=rule, verbose=1)
    np.testing.assert_allclose(combined.partition.mass.sum(axis=1), 1)
    assert combined.n_ambiguous < alone.n_ambiguous
    truth = np.where(brain.areas == 2, 1, 2)
    errors = [(part.labels() != truth)[brain.mask].sum() for part in (alone, combined)]
    assert errors[1] <= errors[0]
    assert 0 < combined.conflict().max() <= 1


@pytest.mark.parametrize(("rule", "odd"), [("geometric", [24]), ("dempster", [24]), ("geometric", range(1, 49, 2))])
def test_masses_of_zero_exclude_nothing(rule: str, odd: range | list[int]) -> None:
    # All pixels see all others and are sure of one cluster or the other: the more numerous have it.
    is_odd = np.isin(np.arange(49), odd)
    masses = np.column_stack([~is_odd, is_odd]).astype(float), FocalSets.singletons(2)
    image, how = read_image(np.zeros((7, 7))), Neighbourhood(reach=6, decay=0.0)
    combined = combine_neighbours(
        masses, [image], np.ones((7, 7), dtype=bool), how, rule=rule, independence=1.0, verbose=0
    )
    np.testing.assert_allclose(combined.mass[:, combined.focal.index_of({0})], 1.0)


@pytest.mark.parametrize("shape", [(1, 30), (1, 1, 30)])
def test_a_line_of_voxels_has_neighbours_too(shape: tuple[int, ...]) -> None:
    line = np.where(np.arange(30) < 15, 40.0, 46.0) + np.random.default_rng(0).normal(0, 2, 30)
    pooled = pool_images([read_image(line.reshape(shape))], np.ones(shape, dtype=bool))[0].data
    assert pooled.shape == shape
    assert pooled.std() < line.std()


def test_sides_of_voxels_are_the_lengths_of_their_axes() -> None:
    # Columns of an affine map are steps along the grid's axes, wherever in the world they point.
    affine = np.array([[0.0, 0.0, 6.0, 9.0], [2.0, 0.0, 0.0, 9.0], [0.0, 4.0, 8.0, 9.0], [0.0, 0.0, 0.0, 1.0]])
    np.testing.assert_allclose(voxel_sides(affine, (5, 5, 5)), [1.0, 2.0, 5.0])
    # The thickness of a single slice is no distance to anything.
    np.testing.assert_allclose(voxel_sides(affine, (1, 5, 5)), [0.5, 1.0, 2.5])
    np.testing.assert_allclose(voxel_sides(affine, (2, 5, 5)), [1.0, 2.0, 5.0])
    np.testing.assert_allclose(voxel_sides(affine * [1, 0, 1, 1], (5, 5, 5)), 1.0)
    np.testing.assert_allclose(voxel_sides(None, (5, 5)), 1.0)


def test_thick_slices_count_less() -> None:
    affine = np.diag([1.0, 1.0, 4.0, 1.0])
    image = Image(np.random.default_rng(0).normal(0, 1, (6, 6, 6)).astype(np.float32), "T1", affine)
    mask = np.ones((6, 6, 6), dtype=bool)
    largest = {}
    for here, there, weight in bonds([image], mask, Neighbourhood(contrast=100.0)):
        step = tuple(b.start - a.start for a, b in zip(here, there, strict=True))
        largest[step] = float(weight.max())
    assert largest[0, 1, 0] == pytest.approx(np.exp(-0.5), rel=1e-3)
    assert largest[0, 0, 1] == pytest.approx(np.exp(-2.0), rel=1e-3)
    assert len(largest) == 13


@pytest.mark.parametrize("n_slices", [1, 5])
def test_a_slice_is_the_same_as_image_and_in_a_volume(n_slices: int) -> None:
    brain = make_brain_phantom((80, 70), noise=9)
    alone = segment(brain.t1, brain.mask, 2, spatial=True)
    stack = np.zeros((*brain.t1.shape, n_slices), dtype=np.float32)
    inside = np.zeros(stack.shape, dtype=bool)
    at = n_slices // 2
    stack[..., at], inside[..., at] = brain.t1, brain.mask
    # However thin the slice is, no neighbour lies across it.
    in_volume = segment(Image(stack, "T1", np.diag([1.0, 1.0, 0.1, 1.0])), inside, 2, spatial=True)
    np.testing.assert_allclose(in_volume.masses()[..., at, :], alone.masses(), atol=1e-5)
    np.testing.assert_array_equal(in_volume.labels()[..., at], alone.labels())


@pytest.mark.parametrize("n_slices", [1, 2])
def test_the_noise_of_few_slices_is_measured(rng, n_slices: int) -> None:
    shape = (200, 200, n_slices)
    mask = np.zeros((200, 200, 9), dtype=bool)
    mask[..., 4 : 4 + n_slices] = True
    assert noise_level(rng.normal(0, 5, shape), np.ones(shape, dtype=bool)) == pytest.approx(5, rel=0.05)
    assert noise_level(rng.normal(0, 5, mask.shape), mask) == pytest.approx(5, rel=0.05)
    assert noise_level(rng.normal(0, 5, (2, 2, 2)), np.ones((2, 2, 2), dtype=bool)) == 0


@pytest.mark.parametrize("noise", [1, 3, 9])
@pytest.mark.parametrize("shape", [(217, 181), (46, 54, 46), (60, 72, 60)])
def test_the_noise_is_measured(shape: tuple[int, ...], noise: float) -> None:
    brain = make_brain_phantom(shape, noise=noise, supersampling=2)
    assert noise_level(brain.t1, brain.mask) == pytest.approx(noise * 1.52, rel=0.2)


@pytest.mark.parametrize("shape", [(300, 300), (60, 60, 60)])
@pytest.mark.parametrize("level", [0.0, 1e4, -1e4])
def test_pure_noise_has_its_standard_deviation_at_any_level(rng, shape: tuple[int, ...], level: float) -> None:
    assert noise_level(level + rng.normal(0, 5, shape), np.ones(shape, dtype=bool)) == pytest.approx(5, rel=0.03)


def test_the_noise_does_not_mind_the_sign_of_huge_grey_levels(rng) -> None:
    noise, mask = rng.normal(size=(60, 60)), np.ones((60, 60), dtype=bool)
    expected = 1e30 * noise_level(noise, mask)
    for levels in (noise - noise.max(), noise - noise.min()):
        assert noise_level(1e30 * levels, mask) == pytest.approx(expected, rel=0.05)


def test_noise_of_clean_thin_and_cut_out_images() -> None:
    steps = np.repeat([0.0, 50.0], 20)[:, None] * np.ones((40, 40))
    everywhere = np.ones(steps.shape, dtype=bool)
    assert noise_level(steps, everywhere) == 0
    assert noise_level(steps, np.eye(40, dtype=bool)) == 0
    cut = np.zeros((80, 80))
    cut[:30, :30] = 90 + np.random.default_rng(0).normal(0, 3, (30, 30))
    assert noise_level(cut, np.ones(cut.shape, dtype=bool)) == pytest.approx(3, rel=0.2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: Neighbourhood(reach=0), ValueError, "reach must be an integer >= 1, got 0"),
        (lambda s: Neighbourhood(contrast=0), ValueError, r"contrast must be a finite number in \(0, inf\], got 0"),
        (lambda s: Neighbourhood(decay=-1), ValueError, "decay must be"),
        (lambda s: Neighbourhood(patch=0.5), TypeError, "patch must be an integer >= 0, got 0.5"),
        (lambda s: spatial_evidence(s, rule="vote"), ValueError, "rule must be one of 'geometric', 'dempster'"),
        (lambda s: spatial_evidence(s, independence=2), ValueError, r"independence must be .* \[0, 1\], got 2"),
        (lambda s: segment(1e38 * s.images[0].data, n_clusters=2, spatial=True), ValueError, "too large to be pooled"),
        (lambda s: segment(-1e38 * s.images[0].data, n_clusters=2, spatial=True), ValueError, "too large to be pooled"),
        (lambda s: spatial_evidence(s, rule="dempster"), ValueError, "127 sets at 7 clusters; use rule='geometric'"),
    ],
)
def test_wrong_options_are_named(call, error: type[Exception], message: str) -> None:
    levels = np.repeat(np.arange(7.0), 20).reshape(10, 14) + np.random.default_rng(0).normal(0, 0.05, (10, 14))
    segmented = segment(levels, n_clusters=7)
    with pytest.raises(error, match=message):
        call(segmented)
