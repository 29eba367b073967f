"""Segmentation: what is clustered, how clusters are numbered, and how well tissues are found."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.cluster import KMeans

from egmm import ECM, EGMM
from egmm.belief import FocalSets
from egmm.image import BrainPhantom, Neighbourhood, make_brain_phantom, segment
from egmm.image.features import DENSE_CODES, distinct_rows, merge_equal
from egmm.image.segment import _has_disguised_cluster
from egmm.metrics import ari


@pytest.fixture(scope="module")
def brain() -> BrainPhantom:
    return make_brain_phantom((109, 91), contrast="brainweb", n_lesions=0)


def dice(labels: np.ndarray, truth: np.ndarray, number: int) -> float:
    ours, theirs = labels == number, truth == number
    return 2 * (ours & theirs).sum() / (ours.sum() + theirs.sum())


def test_outside_the_mask_everything_is_zero(brain: BrainPhantom) -> None:
    half = brain.mask.copy()
    half[:, 45:] = False
    result = segment(brain.t1, half, 3)
    assert result.n_voxels == half.sum()
    for values in (result.labels(), result.ambiguity(), result.masses().sum(axis=-1), result.upper().any(axis=-1)):
        assert not values[~half].any()
    np.testing.assert_allclose(result.masses().sum(axis=-1)[half], 1, atol=1e-6)
    # What lies outside cannot change anything inside.
    changed = np.where(half, brain.t1, 1e6)
    np.testing.assert_array_equal(segment(changed, half, 3).labels(), result.labels())


def test_clusters_are_numbered_from_dark_to_bright(brain: BrainPhantom) -> None:
    result = segment(brain.t1, brain.mask, 3, names=("CSF", "grey", "white"))
    means = [brain.t1[result.labels() == number].mean() for number in (1, 2, 3)]
    assert means == sorted(means)
    assert result.names == ("CSF", "grey", "white")
    assert "3 clusters: CSF, grey, white" in repr(result)
    assert ari(brain.labels[brain.mask], result.labels()[brain.mask]) > 0.9
    upside_down = segment(-brain.t1, brain.mask, 3)
    # Grey levels are rounded from the darkest one on, so a few on the borders may change sides.
    assert np.mean(upside_down.labels()[brain.mask] == 4 - result.labels()[brain.mask]) > 0.995


def test_merging_equal_voxels_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    image = np.rint(np.where(rng.random((30, 40)) < 0.3, rng.normal(50, 8, (30, 40)), rng.normal(90, 8, (30, 40))))
    ours = segment(image.astype(np.int16), n_clusters=2)
    assert len(ours.kinds) == len(np.unique(image))
    rows = image.reshape(-1, 1)
    theirs = EGMM(2, init=np.sort(ours.model.init, axis=0)).fit(rows)
    np.testing.assert_allclose(ours.partition.mass, theirs.predict_mass(rows), atol=1e-5)
    np.testing.assert_allclose(ours.model.log_likelihood_, theirs.log_likelihood_, rtol=1e-9)


def test_real_grey_levels_are_rounded_far_below_the_noise(brain: BrainPhantom) -> None:
    result = segment(brain.t1, brain.mask, 3)
    assert len(result.kinds) < 1000 < result.n_voxels
    fine = EGMM(3, focal_sets=result.focal_sets, init=result.model.init).fit(brain.t1[brain.mask][:, None])
    np.testing.assert_allclose(result.model.means_, fine.means_, atol=0.1)


def test_voxels_are_merged_where_all_modalities_agree(rng) -> None:
    columns = [rng.integers(7, 7 + n_levels, 500).astype(np.uint8) for n_levels in (4, 9, 3)]
    data, voxels = distinct_rows(columns, [1.0] * 3), np.stack(columns, axis=1)
    rows, counts = np.unique(voxels, axis=0, return_counts=True)
    np.testing.assert_array_equal(data.rows, rows)
    np.testing.assert_array_equal(data.counts, counts)
    np.testing.assert_array_equal(data.rows[data.inverse], voxels)


def test_grey_levels_of_8_bits_are_not_rounded_however_much_noise_there_is() -> None:
    levels = np.arange(257)
    assert len(distinct_rows([levels[:256].astype(np.uint8)], [40.0]).rows) == 256
    # One level more, and they are counted in whole steps of an eighth of the noise: 0, 5, ..., 255.
    assert distinct_rows([levels.astype(np.uint16)], [44.0]).rows.ravel().tolist() == list(range(0, 256, 5))
    assert distinct_rows([levels.astype(np.uint16)], [0.0]).rows.ravel().tolist() == levels.tolist()


def test_scans_of_16_bits_are_rounded_far_below_the_noise_too() -> None:
    brain = make_brain_phantom((60, 54, 40))
    scans = {name: np.rint(16 * image).astype(np.int16) for name, image in (("T1", brain.t1), ("T2", brain.t2))}
    result = segment(scans, brain.mask, 3)
    # The same images in real numbers have about as many kinds of voxels; unrounded, nearly every voxel is its own.
    real = segment({"T1": brain.t1, "T2": brain.t2}, brain.mask, 3)
    assert len(result.kinds) < 2 * len(real.kinds) < result.n_voxels / 2
    rows = np.stack([scan[brain.mask] for scan in scans.values()], axis=1).astype(np.float64)
    fine = EGMM(3, init=result.model.init).fit(rows)
    np.testing.assert_allclose(result.model.means_, fine.means_, atol=0.1 * 16)


@pytest.mark.parametrize(("unit", "spatial"), [(1e30, None), (1e30, True), (1e140, None), (1e-40, None)])
def test_units_of_grey_levels_do_not_matter(unit: float, spatial: bool | None) -> None:
    brain = make_brain_phantom((64, 54))
    wanted = segment(brain.t1, brain.mask, 2, spatial=spatial)
    got = segment(unit * brain.t1.astype(np.float64), brain.mask, 2, spatial=spatial)
    np.testing.assert_array_equal(got.labels(), wanted.labels())


def test_one_modality_has_pairs_of_neighbours_only(brain: BrainPhantom) -> None:
    assert segment(brain.t1, brain.mask, 3).focal_sets.labels == ("{1}", "{2}", "{1,2}", "{3}", "{2,3}")
    assert segment([brain.t1, brain.t2], brain.mask, 3).focal_sets == FocalSets.pairs(3)
    assert segment(brain.t1, brain.mask, 3, focal_sets="simple").focal_sets == FocalSets.simple(3)


def test_of_two_modalities_no_tissue_comes_out_as_a_pair() -> None:
    brain = make_brain_phantom((64, 54), noise=9, random_state=2)
    model = segment([brain.t1, brain.t2], brain.mask, 5).model
    alone = dict(zip(range(5), model.weights_[model.focal_sets_.cardinalities == 1], strict=True))
    pairs = zip(model.focal_sets_, model.weights_, strict=True)
    assert max(weight / min(alone[k] for k in members) for members, weight in pairs if len(members) == 2) < 2


@pytest.mark.parametrize("init", [[[152.0], [46.0], [90.0], [111.0]], "random", "mixture"])
def test_pairs_are_of_neighbours_from_any_start(init: object) -> None:
    brain = make_brain_phantom(contrast="brainweb")
    result = segment(brain.t1, brain.mask, 4, init=init)
    assert result.focal_sets.labels == ("{1}", "{2}", "{1,2}", "{3}", "{2,3}", "{4}", "{3,4}")
    means = np.sort(result.model.means_.ravel())
    np.testing.assert_allclose(means[[0, 2, 3]], [46, 111, 152], atol=3)  # CSF, grey, white; one is on their borders


def test_given_means_are_the_start(brain: BrainPhantom) -> None:
    # Pairs of neighbours need them from dark to bright; nothing else does, and modalities need not agree on an order.
    one, two = [[100.0], [40.0]], [[100.0, 40.0], [40.0, 100.0]]
    for images, init, options, start in (
        (brain.t1, one, {}, one[::-1]),
        (brain.t1, one, {"focal_sets": "full"}, one),
        ([brain.t1, brain.t2], two, {}, two),
    ):
        model = segment(images, brain.mask, 2, init=init, **options).model
        np.testing.assert_array_equal(model.init, start)


def test_a_given_family_and_covariance_are_passed_on(brain: BrainPhantom) -> None:
    result = segment([brain.t1, brain.t2], brain.mask, 3, focal_sets="singletons", covariance="EEI", tol=1e-9)
    assert result.model.covariance == "EEI"
    assert result.model.tol == 1e-9
    assert result.n_ambiguous == 0


def test_the_number_of_clusters_is_chosen_by_ebic() -> None:
    rng = np.random.default_rng(1)
    image = rng.normal(rng.choice([20.0, 50.0, 90.0], (60, 60)), 4)
    result = segment(image)
    assert result.n_clusters == 3
    table = {row["n_clusters"]: row["ebic"] for row in result.selection.table()}
    assert set(table) == {2, 3, 4, 5, 6}
    assert max(table, key=table.__getitem__) == 3
    assert all(row["seconds"] > 0 for row in result.selection.table())
    assert segment(image, n_clusters=[2]).n_clusters == 2


def test_a_number_of_clusters_that_the_voxels_do_not_allow_is_left_out() -> None:
    image = np.random.default_rng(1).choice([10, 12, 50, 52], (20, 20)).astype(np.uint8)
    result = segment(image, n_clusters=[2, 5])
    assert result.n_clusters == 2
    failures = [candidate.failure for candidate in result.selection.candidates]
    assert failures == ["", "n_clusters=5, but the mask has only 4 distinct values; use fewer."]
    with pytest.raises(ValueError, match=r"^n_clusters=5, but the mask has only 4 distinct values"):
        segment(image, n_clusters=[5])


def test_small_bright_areas_are_found() -> None:
    """K-means splits the large area; a start that sees rare grey levels does not."""
    brain = make_brain_phantom(noise=9, n_lesions=3)
    result = segment(brain.t2, brain.mask, 2)
    lesions = brain.areas == 1
    assert lesions.sum() / brain.mask.sum() < 0.01
    assert dice(result.labels() == 2, lesions, 1) > 0.7


def test_a_tissue_is_not_taken_for_a_border() -> None:
    """Five evenly spaced levels are likeliest as 1, 3 and 5 with 2 and 4 for borders; but there are many of 2."""
    rng = np.random.default_rng(0)
    levels = rng.choice([0.0, 30.0, 60.0, 90.0, 120.0], (80, 80), p=[0.5, 0.32, 0.06, 0.06, 0.06])
    image = levels + rng.normal(0, 7, levels.shape)
    result = segment(image, n_clusters=3)
    np.testing.assert_allclose(result.model.means_[:2, 0], [0, 30], atol=5)
    likeliest = EGMM(3, focal_sets=result.focal_sets, init=np.array([[0.0], [60.0], [120.0]])).fit(image.reshape(-1, 1))
    assert likeliest.log_likelihood_ > result.model.log_likelihood_
    assert _has_disguised_cluster(likeliest)
    assert not _has_disguised_cluster(result.model)


@pytest.mark.parametrize("largest", [7, DENSE_CODES - 1, DENSE_CODES, 2**62])
def test_equal_codes_are_counted_or_sorted(largest: int) -> None:
    codes = np.array([largest, 0, 5, largest, 5])
    index, some = merge_equal([codes])
    np.testing.assert_array_equal(index, [2, 0, 1, 2, 1])
    np.testing.assert_array_equal(codes[some], [0, 5, largest])


@pytest.mark.parametrize(
    "levels",
    [
        np.finfo(np.float32).max * np.array([-1, -0.9, 0.9, 1], dtype=np.float32),
        2**63 + np.array([0, 2**11, 2**15, 2**15 + 2**11], dtype=np.uint64),
        np.array([2**62 + 3 * 2**8 - 1, 2**62 + 3 * 2**8, 2**62 + 2**15 - 1, 2**62 + 2**15]),
        np.array([-128, -127, 126, 127], dtype=np.int8),
    ],
    ids=["float32", "uint64", "int64", "int8"],
)
def test_grey_levels_may_fill_the_range_of_their_type(levels: np.ndarray) -> None:
    image = np.repeat(levels, 5).reshape(4, 5)
    labels = segment(image, n_clusters=2).labels()
    np.testing.assert_array_equal(labels, np.repeat([1, 1, 2, 2], 5).reshape(4, 5))


def test_any_estimator_with_a_partition_will_do(brain: BrainPhantom) -> None:
    class Weightless(EGMM):
        """Takes no weights, as BPEC."""

        def fit(self, X, y=None):
            return super().fit(X)

    for estimator in (EGMM(3, random_state=0), Weightless(3, random_state=0)):
        result = segment(brain.t1, brain.mask, estimator=estimator)
        means = [brain.t1[result.labels() == number].mean() for number in (1, 2, 3)]
        assert means == sorted(means)
    assert not hasattr(estimator, "means_")


def test_border_pixels_of_little_noise_go_to_the_nearer_side() -> None:
    """Their mass on {1,2} is 1 to the last digit: the pignistic probability alone would always say 1."""
    brain = make_brain_phantom(noise=1)
    result = segment(brain.t1, brain.mask, 2)
    shares = result.mass({0, 1})[brain.mask]
    assert (shares > 1 - 1e-6).sum() > 100
    middle = result.model.means_.mean()
    border = brain.mask.copy()
    border[brain.mask] = shares > 1 - 1e-6
    np.testing.assert_array_equal(result.labels()[border] == 2, brain.t1[border] > middle)


def test_maps_agree_with_the_partition(brain: BrainPhantom) -> None:
    result = segment(brain.t1, brain.mask, 3)
    whole = result.partition
    assert len(whole) == result.n_voxels
    np.testing.assert_array_equal(result.lower()[brain.mask], whole.lower())
    np.testing.assert_array_equal(result.upper()[brain.mask], whole.upper())
    np.testing.assert_allclose(result.ambiguity()[brain.mask], whole.nonspecificity() / np.log2(3), atol=1e-6)
    np.testing.assert_allclose(result.mass({1})[brain.mask], whole.mass[:, 1], atol=1e-6)
    assert result.n_ambiguous == (result.upper().sum(axis=-1) > 1).sum()
    assert f"; {100 * result.n_ambiguous / result.n_voxels:.1f} % open)" in repr(result)
    assert not result.conflict().any()
    assert not segment(brain.t1, brain.mask, 1).ambiguity().any()
    loose = segment(brain.t1, brain.mask, estimator=ECM(3, delta=20, random_state=0))
    assert loose.conflict().max() > 0.1
    np.testing.assert_allclose(loose.conflict()[brain.mask], loose.partition.mass[:, 0], atol=1e-6)
    for rule in ("plausibility", "belief"):
        np.testing.assert_array_equal(loose.labels(rule)[brain.mask], loose.partition.labels(rule) + 1)
    assert (loose.labels("belief") != loose.labels("plausibility")).any()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters must be an integer >= 1, got 0"),
        ({"n_clusters": []}, ValueError, "n_clusters must hold at least one number"),
        ({"n_clusters": 2, "spatial": "yes"}, TypeError, "spatial must be True, False, None or a Neighbourhood"),
        ({"n_clusters": 2, "names": ["CSF"]}, ValueError, "names must have 2 entries, one per cluster, got 1"),
        ({"n_clusters": 2, "estimator": EGMM()}, ValueError, "estimator has its own parameters.* n_clusters"),
        ({"estimator": ECM(2), "focal_sets": "full", "covariance": "VVV", "tol": 1}, ValueError, "focal_sets, c.*tol"),
        ({"estimator": KMeans(2)}, TypeError, r"estimator must be a clusterer .* such as ECM\(3\), got KMeans"),
        ({"estimator": ECM}, TypeError, r"estimator must be a clusterer .*, got <class"),
        ({"n_clusters": 2, "covariance": "round"}, ValueError, "covariance must be one of"),
        ({"n_clusters": 2, "speed": 1}, TypeError, "speed"),
    ],
)
def test_wrong_options_are_named(brain: BrainPhantom, options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        segment(brain.t1, brain.mask, **options)


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    segment(rng.normal(rng.choice([0.0, 9.0], (20, 20))), n_clusters=[2, 3], spatial=Neighbourhood(reach=1), verbose=1)
    shown = capsys.readouterr().err
    assert "neighbours" in shown
    assert "2/2 3 clusters" in shown


@pytest.mark.slow
def test_tissues_of_a_real_brain_are_found_better_than_atropos_does(data_directory: Path) -> None:
    """Atropos with its MRF prior gave .922 / .899 / .906 on this volume; `benchmarks/image.py` has the times."""
    path = data_directory / "brainweb" / "normal_2mm_t1_fuzzy.npz"
    if not path.is_file():
        pytest.skip(f"{data_directory} has no brainweb/normal_2mm_t1_fuzzy.npz")
    data = np.load(path)
    mask = data["mask"] > 0
    truth = np.stack([data["csf"], data["gm"], data["wm"]], axis=-1).argmax(axis=-1)[mask] + 1
    labels = segment(data["t1"], mask, 3, spatial=True).labels()[mask]
    found = [dice(labels, truth, tissue) for tissue in (1, 2, 3)]
    assert all(np.array(found) > [0.922, 0.899, 0.906])


class _Weighted(NamedTuple):
    """A fit of which only the weights count."""

    focal_sets_: FocalSets
    weights_: np.ndarray


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        # {1}, {2}, {1,2}, {3}, {1,3}, {2,3}: a pair is compared with the lightest of its own clusters.
        ([0.30, 0.30, 0.01, 0.36, 0.01, 0.02], False),
        ([0.05, 0.20, 0.60, 0.10, 0.02, 0.03], True),
        ([0.40, 0.40, 0.02, 0.02, 0.02, 0.14], True),
    ],
)
def test_a_pair_heavier_than_its_clusters_is_a_cluster_in_disguise(weights, expected) -> None:
    sets = [{0}, {1}, {0, 1}, {2}, {0, 2}, {1, 2}]
    model = _Weighted(FocalSets.from_sets(sets, 3), np.array(weights))
    assert _has_disguised_cluster(model) is expected
