"""Fusion of modalities against a dictionary of frozensets, and what it is for."""

import numpy as np
import pytest

from egmm.belief import combine
from egmm.cluster import BPEC, ECM
from egmm.image import BrainPhantom, SegmentedImage, fuse, fusion, make_brain_phantom, refine, segment
from egmm.metrics import ari, nmi, purity
from image.oracles_image import dempster

AREAS = ("pathology", "CSF", "normal")
PAPER = [
    {"CSF": ["CSF"], "tissue": ["pathology", "normal"]},
    {"other": ["CSF", "normal"], "pathology": ["pathology"]},
]
NUMBERS = [[{1}, {0, 2}], [{1, 2}, {0}]]


@pytest.fixture(scope="module")
def brain() -> BrainPhantom:
    return make_brain_phantom((109, 91))


@pytest.fixture(scope="module")
def parts(brain: BrainPhantom) -> tuple[SegmentedImage, SegmentedImage]:
    t1 = segment({"T1": brain.t1}, brain.mask, 2, names=("CSF", "tissue"))
    return t1, segment({"T2": brain.t2}, brain.mask, 2, names=("other", "pathology"))


def test_voxels_are_combined_by_dempsters_rule(parts: tuple[SegmentedImage, SegmentedImage]) -> None:
    fused = fuse(*parts, NUMBERS)
    masses, sets = fused.partition.mass, list(fused.focal_sets)
    conflict = fused.conflict()[fused.mask]
    for voxel in range(0, fused.n_voxels, 211):
        sources = []
        for part, groups in zip(parts, NUMBERS, strict=True):
            row = part.partition.mass[voxel]
            refined: dict[frozenset[int], float] = {}
            for members, mass in zip(part.focal_sets, row, strict=True):
                image = frozenset().union(*(groups[k] for k in members))
                refined[image] = refined.get(image, 0.0) + mass
            sources.append(refined)
        wanted, degree = dempster(sources)
        assert conflict[voxel] == pytest.approx(degree, abs=1e-6)
        for members, mass in zip(sets, masses[voxel], strict=True):
            assert mass == pytest.approx(wanted.get(members, 0.0), abs=1e-12)


def test_names_and_numbers_say_the_same(parts: tuple[SegmentedImage, SegmentedImage]) -> None:
    by_name, by_number = fuse(*parts, PAPER, names=AREAS), fuse(*parts, refining=NUMBERS, names=AREAS)
    assert by_name.partition == by_number.partition
    assert by_name.names == AREAS
    # Without an order given, names come as they are first met.
    assert fuse(*parts, PAPER).names == ("CSF", "pathology", "normal")
    # Over one frame the names are the first source's, unless given.
    assert fuse(*parts).names == ("CSF", "tissue")
    assert fuse(*parts, names=("dark", "bright")).names == ("dark", "bright")
    # Keys that are the clusters' own names may come in any order.
    turned = [dict(reversed(entry.items())) for entry in PAPER]
    assert fuse(*parts, turned, names=AREAS).partition == by_name.partition


def test_the_papers_areas_are_found(brain: BrainPhantom, parts: tuple[SegmentedImage, SegmentedImage]) -> None:
    fused = fuse(*parts, PAPER, names=AREAS)
    truth, labels = brain.areas[brain.mask], fused.labels()[brain.mask]
    assert purity(truth, labels) > 0.98
    assert ari(truth, labels) > 0.95
    assert [image.name for image in fused.images] == ["T1", "T2"]


def scores_of(brain: BrainPhantom, spatial: bool | None = None, estimator: object = None) -> list[float]:
    """Purity, NMI and ARI of the paper's fusion."""
    count = 2 if estimator is None else None
    parts = [segment(image, brain.mask, count, spatial=spatial, estimator=estimator) for image in (brain.t1, brain.t2)]
    labels = fuse(*parts, PAPER, names=AREAS).labels()
    return [score(brain.areas[brain.mask], labels[brain.mask]) for score in (purity, nmi, ari)]


@pytest.mark.paper
@pytest.mark.slow
@pytest.mark.parametrize(("noise", "inu", "seeds"), [(3, 0, 10), (3, 20, 2), (9, 0, 2), (9, 20, 2)])
def test_egmm_with_neighbours_comes_before_ecm_and_bpec(noise: float, inu: float, seeds: int) -> None:
    brains = [make_brain_phantom(noise=noise, inu=inu, random_state=seed) for seed in range(seeds)]
    ours = np.mean([scores_of(brain, spatial=True) for brain in brains], axis=0)
    peers = [ECM(2, delta=delta, random_state=0) for delta in (10, 1000)]
    for peer in peers:
        assert all(ours > np.mean([scores_of(brain, estimator=peer) for brain in brains], axis=0))
    assert all(ours > np.mean([scores_of(brain, estimator=BPEC(2)) for brain in brains[:2]], axis=0))
    if noise == 3:
        for row in ours, np.mean([scores_of(brain) for brain in brains[:2]], axis=0):
            assert all(row >= [0.9844, 0.8323, 0.9721])


def ambiguous(part: SegmentedImage) -> np.ndarray:
    return part.upper().sum(axis=-1) > 1


@pytest.mark.parametrize("spatial", [None, True])
@pytest.mark.parametrize(("noise", "inu"), [(3, 0), (3, 20), (9, 0), (9, 20)])
def test_fusion_leaves_fewer_pixels_ambiguous(noise: float, inu: float, spatial: bool | None) -> None:
    brain = make_brain_phantom(noise=noise, inu=inu)
    parts = [segment(image, brain.mask, 2, spatial=spatial) for image in (brain.t1, brain.t2)]
    fused = fuse(*parts, PAPER, names=AREAS)
    left, before = ambiguous(fused), ambiguous(parts[0]) | ambiguous(parts[1])
    assert left.sum() == fused.n_ambiguous < before.sum()
    # Singletons that are heaviest in both modalities meet in a set that no set of several clusters outweighs.
    assert not (left & ~before).any()
    for part, entry in zip(parts, PAPER, strict=True):
        assert refine(part, entry, AREAS).n_ambiguous > 10 * fused.n_ambiguous
    if noise == 3:
        area = np.stack([brain.fractions[..., 3], brain.fractions[..., 0], brain.fractions[..., 1:3].sum(-1)], axis=-1)
        assert (area.max(axis=-1)[left] < 1 - 1e-6).mean() > 0.99


def test_one_modality_on_the_common_frame(parts: tuple[SegmentedImage, SegmentedImage]) -> None:
    refined = refine(parts[0], NUMBERS[0], AREAS)
    assert refined.names == AREAS
    for coarse, fine in (({0}, {1}), ({1}, {0, 2}), ({0, 1}, {0, 1, 2})):
        np.testing.assert_array_equal(refined.mass(fine), parts[0].mass(coarse))
    assert refine(parts[0], PAPER[0], AREAS).partition == refined.partition
    # What is refined first needs no refining in the fusion.
    both = fuse(refined, refine(parts[1], NUMBERS[1], AREAS))
    assert both.partition == fuse(*parts, NUMBERS).partition
    assert both.names == AREAS
    with pytest.raises(ValueError, match="one entry for each of its 2 clusters"):
        refine(parts[0], [{0}, {1}, {2}])
    with pytest.raises(ValueError, match="'grey', which is not in the common frame"):
        refine(parts[0], {"CSF": ["CSF"], "tissue": ["grey"]}, AREAS)


def test_bright_csf_needs_another_refining() -> None:
    brain = make_brain_phantom(contrast="brainweb")
    truth = brain.areas[brain.mask]
    papers = fuse(*(segment(image, brain.mask, 2) for image in (brain.t1, brain.t2)), PAPER, names=AREAS)
    refining = [[{1}, {0, 2}, {0, 2}], [{2}, {2}, {0, 1}]]
    better = fuse(*(segment(image, brain.mask, 3) for image in (brain.t1, brain.t2)), refining, names=AREAS)
    assert ari(truth, better.labels()[brain.mask]) > 0.9 > ari(truth, papers.labels()[brain.mask]) + 0.1
    assert better.conflict().mean() < papers.conflict().mean()


def test_a_modality_that_is_ignored_changes_nothing(parts: tuple[SegmentedImage, SegmentedImage]) -> None:
    alone = fuse(*parts, NUMBERS, discounts=[0.0, 1.0])
    assert not alone.conflict().any()
    csf = alone.mass({1})
    np.testing.assert_allclose(csf, parts[0].mass({0}), atol=1e-6)
    assert fuse(*parts, NUMBERS, discounts=np.array([0.0, 1.0])).partition == alone.partition
    half = fuse(*parts, NUMBERS, discounts=0.5)
    assert half.conflict().max() == pytest.approx(0.25 * fuse(*parts, NUMBERS).conflict().max(), abs=1e-6)


@pytest.mark.parametrize("rule", ["conjunctive", "yager", "dubois-prade", "pcr6", "disjunctive", "mean"])
def test_every_rule_is_that_of_partitions(parts: tuple[SegmentedImage, SegmentedImage], rule: str) -> None:
    fused = fuse(*parts, NUMBERS, rule=rule)
    np.testing.assert_allclose(fused.kinds.mass.sum(axis=1), 1)
    refined = [refine(part, numbers, AREAS).partition for part, numbers in zip(parts, NUMBERS, strict=True)]
    wanted = combine(*refined, rule=rule)
    assert fused.focal_sets == wanted.focal_sets
    np.testing.assert_allclose(fused.partition.mass, wanted.mass, atol=1e-12)
    np.testing.assert_allclose(fused.conflict(), fuse(*parts, NUMBERS).conflict(), atol=1e-6)


def test_the_cautious_rule_needs_some_doubt(parts: tuple[SegmentedImage, SegmentedImage]) -> None:
    fused = fuse(parts[0], parts[0], rule="cautious", discounts=0.05)
    # It is idempotent: a source that is heard twice says no more than once, up to normalisation.
    np.testing.assert_array_equal(fused.labels(), parts[0].labels())


def test_the_cautious_rule_hears_a_source_once(brain: BrainPhantom) -> None:
    part = segment(brain.t1, brain.mask, 3)
    assert len(part.focal_sets) == 5  # no pair of the darkest and the brightest, no frame
    fused = fuse(part, part, rule="cautious", discounts=0.05)
    for members in part.focal_sets:
        np.testing.assert_allclose(fused.mass(members), 0.95 * part.mass(members), atol=1e-6)
    np.testing.assert_allclose(fused.mass({0, 1, 2})[brain.mask], 0.05, atol=1e-6)


@pytest.mark.parametrize("rule", ["dempster", "conjunctive", "mean"])
def test_blocks_of_voxels_change_nothing(parts: tuple[SegmentedImage, SegmentedImage], rule: str, monkeypatch) -> None:
    whole = fuse(*parts, NUMBERS, rule=rule)
    monkeypatch.setattr(fusion, "BLOCK_ROWS", 100)
    blocks = fuse(*parts, NUMBERS, rule=rule)
    assert len(blocks.kinds) > 300
    assert blocks.partition == whole.partition
    np.testing.assert_array_equal(blocks.conflict(), whole.conflict())


def certain(first: list[int], second: list[int]) -> tuple[SegmentedImage, SegmentedImage]:
    """Two segmentations with all mass on singletons."""
    return tuple(
        segment(np.array([values], dtype=float), n_clusters=2, focal_sets="singletons", reg_covar=1e-6)
        for values in (first, second)
    )


def test_total_conflict_is_settled_as_asked(monkeypatch) -> None:
    parts = certain([0, 0, 9, 9], [0, 9, 9, 9])
    with pytest.raises(ValueError, match=r"1 of .* rows are in total conflict"):
        fuse(*parts, on_conflict="raise")
    vacuous = fuse(*parts)
    np.testing.assert_allclose(vacuous.mass({0, 1}), [[0, 1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(vacuous.conflict(), [[0, 1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(fuse(*parts, on_conflict="empty").mass(()), [[0, 1, 0, 0]], atol=1e-6)
    # The frame, or the empty set, is there for the one block that needs it.
    monkeypatch.setattr(fusion, "BLOCK_ROWS", 1)
    assert fuse(*parts).partition == vacuous.partition


def test_sets_that_always_meet_are_in_no_conflict() -> None:
    whole = segment(np.arange(6.0).reshape(2, 3), n_clusters=1)
    assert not fuse(whole, whole).conflict().any()


def test_three_modalities_and_no_refining() -> None:
    first, second = certain([0, 0, 9, 9], [0, 0, 9, 9])
    np.testing.assert_array_equal(fuse(first, second, first).labels(), [[1, 1, 2, 2]])


def test_wrong_arguments_are_named(brain: BrainPhantom, parts: tuple[SegmentedImage, SegmentedImage]) -> None:
    t1, t2 = parts
    narrow, words = {"other": ["CSF"], "pathology": ["pathology"]}, {"other": "CSF", "pathology": ["pathology"]}
    smaller = segment({"T2": brain.t2}, brain.mask & (brain.t1 > 60), 2)
    cases = [
        ((t1,), {}, ValueError, "fuse needs at least two segmentations, got 1"),
        ((t1, "t2", NUMBERS), {}, TypeError, "fuse expects SegmentedImage objects and a refining last, got str"),
        ((t1, t2, NUMBERS), {"refining": NUMBERS}, TypeError, "fuse expects SegmentedImage objects, got list"),
        ((t1, smaller, NUMBERS), {}, ValueError, rf"different masks \({t1.n_voxels} and {smaller.n_voxels} v"),
        ((t1, t2, NUMBERS[:1]), {}, ValueError, "refining must have 2 entries, one per source, got 1"),
        ((t1, t2, [[{0}, {1}, {2}], [{0}, {1}]]), {}, ValueError, r"each of its 2 clusters \(CSF, tissue\), got 3"),
        ((t1, t2, [[{0}, {1}], [{1, 2}, {0}]]), {}, ValueError, r"source 0 must cover .* cluster 3 \(number 2 counted"),
        ((t1, t2, [PAPER[0], narrow]), {}, ValueError, "source 1 must cover the common frame, but normal is in none"),
        ((t1, t2, [PAPER[0], words]), {}, TypeError, r"source 1 must list .*, got 'CSF'; write \['CSF'\]"),
        ((t1, t2, [["1", "02"], ["12", "0"]]), {}, TypeError, r"source 0 must list .*, got '1'; write \['1'\]"),
        ((t1, t2, [[1, 0], [0, 1]]), {}, TypeError, r"source 0 must list the clusters .*, got 1; write \[1\]"),
        ((t1, t2, [[["a"], [0]], [[0], [1]]]), {}, TypeError, r"a cluster number of refining .* from 0 to 62, got 'a'"),
        ((t1, t2, [5, 5]), {}, TypeError, "refining of source 0 must be a mapping or a list, got 5"),
        ((t1, t2, "ab"), {}, TypeError, "refining must be a list with one entry per source, got 'ab'"),
        ((t1, t2, [PAPER[0], NUMBERS[1]]), {}, TypeError, r"by name for all .* or by number for all .*not both"),
        ((t1, t2, [[set(), {0}], [{0}, {0}]]), {}, ValueError, "source 0 has an empty entry"),
        (
            (t1.named("CSF", "tissue"), t2, [{"tissue": ["a", "b"], "CFS": ["c"]}, {"x": ["a"], "y": ["b", "c"]}]),
            {},
            ValueError,
            r"refining of source 0 has the key 'CFS', which is none of its clusters \(CSF, tissue\)",
        ),
        ((t1, t2, PAPER), {"names": ("CSF", "normal")}, ValueError, "refining names 'pathology', which is not in"),
        ((t1, t2, NUMBERS), {"discounts": [0.1]}, ValueError, "discounts must be one number or 2, one per source"),
        ((t1, t2, NUMBERS), {"discounts": np.array([0.1, 2])}, ValueError, r"discounts must be .* \[0, 1\], got 2"),
        ((t1, t2, NUMBERS), {"discounts": "ab"}, TypeError, r"discounts must be .* \[0, 1\], got 'ab'"),
        ((t1, t2, NUMBERS), {"discounts": 2}, ValueError, r"discounts must be a finite number in \[0, 1\], got 2"),
        ((t1, t2, NUMBERS), {"rule": "best"}, ValueError, "rule must be one of 'conjunctive', 'dempster'"),
        ((t1, t2, NUMBERS), {"on_conflict": "x"}, ValueError, "on_conflict must be one of 'raise', 'vacuous'"),
    ]
    for arguments, options, error, message in cases:
        with pytest.raises(error, match=message):
            fuse(*arguments, **options)
    other = segment(brain.t2[:, :80], brain.mask[:, :80], 2)
    with pytest.raises(ValueError, match=r"T1 and image must be on one grid"):
        fuse(t1, other)
