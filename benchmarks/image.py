"""Images: ECM, BPEC and EGMM on the phantom; fusion on BrainWeb's slices; tissues beside Atropos; a whole volume.

    EGMM_DATA=... python benchmarks/image.py [phantom] [slices] [tissues] [volume]

`EGMM_DATA` names a directory that has `brainweb/`; `antspyx` is used where it is installed. Times are the best of
several runs, called in turn. Lesion labels of the BrainWeb slices are derived from the images, not BrainWeb's own.
"""

import itertools
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from egmm import FocalSets
from egmm.belief import combine_masses
from egmm.image import BrainPhantom, fuse, make_brain_phantom, refine, segment
from egmm.image.phantom import REFERENCE
from egmm.metrics import ari, nmi, purity

try:
    import ants
except ImportError:
    ants = None
try:
    from egmm.cluster import BPEC, ECM
except ImportError:
    ECM = BPEC = None

AREAS = ("pathology", "CSF", "normal")
PAPER = [
    {"CSF": ["CSF"], "tissue": ["pathology", "normal"]},
    {"other": ["CSF", "normal"], "pathology": ["pathology"]},
]
BRIGHT_CSF = [
    {"CSF": ["CSF"], "grey": ["pathology", "normal"], "white": ["pathology", "normal"]},
    {"white": ["normal"], "grey": ["normal"], "bright": ["CSF", "pathology"]},
]
SEEDS = range(20)


def best_of(*functions: Callable[[], Any], repeats: int = 3) -> tuple[list[float], list[Any]]:
    """Shortest time and last result of each function, called in turn so that a busy machine slows all alike."""
    times, results = np.empty((repeats, len(functions))), [None] * len(functions)
    for repeat in range(repeats):
        for column, function in enumerate(functions):
            start = time.perf_counter()
            results[column] = function()
            times[repeat, column] = time.perf_counter() - start
    return times.min(axis=0).tolist(), results


def dice(labels: np.ndarray, truth: np.ndarray, number: int) -> float:
    ours, theirs = labels == number, truth == number
    return 2 * float((ours & theirs).sum()) / float(ours.sum() + theirs.sum())


def scores(labels: np.ndarray, truth: np.ndarray) -> str:
    return " ".join(f"{score(truth, labels):.4f}" for score in (purity, nmi, ari))


def noisy(image: np.ndarray, sd: float, rng: np.random.Generator) -> np.ndarray:
    """Rician noise, as BrainWeb's simulator adds."""
    return (
        image
        if sd == 0
        else np.hypot(image + sd * rng.standard_normal(image.shape), sd * rng.standard_normal(image.shape))
    )


def phantom() -> None:
    """The paper's table on our phantom, means over seeds of geometry and noise; ambiguous pixels before and after."""
    print("phantom 217 x 181, T1 and T2 in two clusters each, fused: means over phantoms of purity, NMI, ARI;")
    print("mean and median of the pixels wrong; in how many phantoms the ARI is above / below that of EGMM spatial")
    print("paper, BrainWeb 3 %: ECM .9777 .8148 .9598, BPEC .9542 .7965 .9321, EGMM .9844 .8323 .9721")
    for noise, inu in itertools.product((3, 9), (0, 20)):
        brains = [make_brain_phantom(noise=noise, inu=inu, random_state=seed) for seed in SEEDS]
        first = None
        for name, count, options in phantom_methods():
            rows = np.array([phantom_row(brain, **options) for brain in brains[:count]])
            first = rows if first is None else first
            above, below = ((sign * (rows[:, 2] - first[:count, 2]) > 0).sum() for sign in (1, -1))
            purities, nmis, aris, wrong = rows[:, :4].mean(axis=0)
            print(f"noise {noise} % INU {inu:2} %  {name:22} {count:2} phantoms  {purities:.4f} {nmis:.4f} {aris:.4f}"
                  f"  wrong {wrong:7.1f}, {np.median(rows[:, 3]):5.0f}  {above:2} / {below:2}", flush=True)  # fmt: skip
            if name.startswith("EGMM"):
                t1, t2, either, fused, open_t1, open_t2, mixed = rows[:, 4:].mean(axis=0)
                print(f"  ambiguous pixels: T1 {t1:.0f}, T2 {t2:.0f}, either {either:.0f}; on the common frame "
                      f"T1 {open_t1:.0f}, T2 {open_t2:.0f}; "
                      f"fused {fused:.0f}, of which {100 * mixed:.1f} % hold several areas")  # fmt: skip


def phantom_methods() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Name, number of phantoms and options of `segment`; BPEC with many neighbours is too slow for all phantoms."""
    yield "EGMM spatial", len(SEEDS), {"n_clusters": 2, "spatial": True}
    yield "EGMM", len(SEEDS), {"n_clusters": 2}
    if ECM is None:
        print("ECM and BPEC are not in this installation")
        return
    # ECM's distance to outliers is in grey levels: its default suits little noise, one without outliers suits more.
    for ending, spatial in (("", None), (", pooled", True)):
        for delta in (10, 100, 1000):
            peer = ECM(2, delta=delta, random_state=0)
            yield f"ECM delta {delta}{ending}", len(SEEDS), {"estimator": peer, "spatial": spatial}
        for neighbours, count in ((50, len(SEEDS)), (500, 3)):
            peer = BPEC(2, n_neighbors=neighbours)
            yield f"BPEC K {neighbours}{ending}", count, {"estimator": peer, "spatial": spatial}


def phantom_row(brain: BrainPhantom, **options: Any) -> list[float]:
    """Scores, pixels wrong, ambiguous pixels (see `phantom`), and the share of those left that hold several areas."""
    parts = [segment(image, brain.mask, **options) for image in (brain.t1, brain.t2)]
    fused = fuse(*parts, PAPER, names=AREAS)
    labels, truth = fused.labels()[brain.mask], brain.areas[brain.mask]
    unsure = [part.upper().sum(axis=-1) > 1 for part in (*parts, fused)]
    shares = brain.fractions[..., [3, 0, 1]]
    shares[..., 2] += brain.fractions[..., 2]
    return [
        *(score(truth, labels) for score in (purity, nmi, ari)),
        float((labels != truth).sum()),
        *(float(part.n_ambiguous) for part in parts),
        float((unsure[0] | unsure[1]).sum()),
        float(fused.n_ambiguous),
        *(float(refine(part, entry, AREAS).n_ambiguous) for part, entry in zip(parts, PAPER, strict=True)),
        float((shares.max(axis=-1)[unsure[2]] < 1 - 1e-6).mean()) if unsure[2].any() else 1.0,
    ]


def slices(directory: Path) -> None:
    """BrainWeb's slices with derived lesion labels: fused as in the paper, fused for bright CSF, and joint."""
    data = np.load(directory / "msles2_1mm_pn0_rf0_axial.npz")
    print("BrainWeb slices (lesion labels derived): purity NMI ARI, Dice of pathology / CSF / normal, ambiguous pixels")
    for number in (96, 101, 106):
        at = int(np.flatnonzero(data["slice_number"] == number)[0])
        label = data["label"][at]
        mask = np.isin(label, (1, 2, 3, 8, 10))
        truth = np.select([label == 10, label == 1], [1, 2], 3)[mask]
        for noise in (0, 3, 9):
            rng = np.random.default_rng(number)
            t1, t2 = (noisy(data[name][at], noise / 100 * REFERENCE[name], rng) for name in ("t1", "t2"))
            for name, labels, ambiguous in slice_variants(t1, t2, mask):
                parts = " ".join(f"{dice(labels, truth, area):.3f}" for area in (1, 2, 3))
                print(f"slice {number:3} noise {noise} %  {name:22} {scores(labels, truth)}  {parts}  {ambiguous:5}")


def slice_variants(t1: np.ndarray, t2: np.ndarray, mask: np.ndarray) -> Any:
    for spatial in (None, True):
        ending = ", spatial" if spatial else ""
        for name, count, refining in (("paper's fusion", 2, PAPER), ("bright-CSF fusion", 3, BRIGHT_CSF)):
            parts = [segment(image, mask, count, spatial=spatial) for image in (t1, t2)]
            fused = fuse(*parts, refining, names=AREAS)
            yield name + ending, fused.labels()[mask], fused.n_ambiguous
        joint = segment([t1, t2], mask, 5, spatial=spatial)
        means = joint.model.means_[np.argsort(joint.model.means_[:, 0], kind="stable")]
        area = np.select([means[:, 0] < 80, means[:, 1] > 195], [2, 1], 3)
        yield "joint, 5 clusters" + ending, area[joint.labels()[mask] - 1], joint.n_ambiguous
    if ECM is not None:
        for name, make in (("ECM", lambda c: ECM(c, random_state=0)), ("BPEC", BPEC)):
            parts = [segment(image, mask, estimator=make(3)) for image in (t1, t2)]
            fused = fuse(*parts, BRIGHT_CSF, names=AREAS)
            yield f"bright-CSF, {name}", fused.labels()[mask], fused.n_ambiguous


def tissues(directory: Path) -> None:
    """CSF, grey and white matter of a noisy 2 mm volume from T1, against the argmax of its fuzzy maps."""
    data = np.load(directory / "normal_2mm_t1_fuzzy.npz")
    t1, mask = data["t1"], data["mask"] > 0
    truth = np.stack([data["csf"], data["gm"], data["wm"]], axis=-1).argmax(axis=-1)[mask] + 1
    rows = t1[mask].astype(float)[:, None]
    methods: dict[str, Callable[[], np.ndarray]] = {
        "EGMM": lambda: segment(t1, mask, 3).labels()[mask],
        "EGMM spatial": lambda: segment(t1, mask, 3, spatial=True).labels()[mask],
        "scikit-learn GMM": lambda: by_mean(GaussianMixture(3, random_state=0).fit(rows), rows),
    }
    if ants is None:
        print("antspyx is not installed: no Atropos")
    else:
        methods["Atropos with MRF"] = lambda: atropos(t1, mask, "[0.1,1x1x1]")
        methods["Atropos without"] = lambda: atropos(t1, mask, "[0.0,1x1x1]")
    times, results = best_of(*methods.values())
    print(f"normal brain, {mask.sum()} voxels: Dice of CSF / grey / white matter, seconds")
    for name, seconds, labels in zip(methods, times, results, strict=True):
        print(f"{name:18}", *(f"{dice(labels, truth, tissue):.4f}" for tissue in (1, 2, 3)), f"{seconds:6.2f} s")


def by_mean(model: Any, rows: np.ndarray) -> np.ndarray:
    rank = np.empty(3, dtype=int)
    rank[np.argsort(model.means_[:, 0])] = [1, 2, 3]
    return rank[model.predict(rows)]


def atropos(t1: np.ndarray, mask: np.ndarray, mrf: str) -> np.ndarray:
    image, inside = ants.from_numpy(t1.astype(np.float32)), ants.from_numpy(mask.astype(np.float32))
    result = ants.atropos(a=image, x=inside, i="kmeans[3]", m=mrf, c="[5,0]")
    return result["segmentation"].numpy().astype(int)[mask]


def volume() -> None:
    """Two modalities of a 1 mm volume, every voxel: the whole pipeline, its memory, and the combination alone."""
    brain = make_brain_phantom((181, 217, 181), supersampling=1)
    t1, t2 = (np.rint(image).astype(np.uint8) for image in (brain.t1, brain.t2))
    del brain
    start = time.perf_counter()
    parts = [segment(image, None, 2, spatial=True, verbose=1) for image in (t1, t2)]
    print(f"{t1.size} voxels, two modalities segmented with neighbours: {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    fused = fuse(*parts, PAPER, names=AREAS, verbose=1)
    print(f"fused: {time.perf_counter() - start:.1f} s; maps: ", end="")
    start = time.perf_counter()
    for read in (fused.labels, fused.ambiguity, fused.conflict, fused.lower, fused.upper):
        read()
    print(f"{time.perf_counter() - start:.1f} s")
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")
    against_floor(fused.n_voxels)


def against_floor(n_voxels: int) -> None:
    """Dempster's rule of two sources of three sets, every voxel apart, beside the bare multiply-adds on columns."""
    focal = FocalSets.full(2)
    left, right = (np.random.default_rng(seed).dirichlet(np.ones(3), n_voxels) for seed in (0, 1))
    columns = [np.ascontiguousarray(mass.T) for mass in (left, right)]
    masks = focal.masks
    out = np.empty((4, n_voxels))

    def floor() -> None:
        for start in range(0, n_voxels, 8192):
            rows = slice(start, min(start + 8192, n_voxels))
            product = np.empty(rows.stop - start)
            out[:, rows] = 0
            for i, j in itertools.product(range(3), repeat=2):
                target = out[masks[i] & masks[j], rows]
                np.multiply(columns[0][i, rows], columns[1][j, rows], out=product)
                np.add(target, product, out=target)

    (ours, bare), _ = best_of(lambda: combine_masses((left, focal), (right, focal)), floor)
    print(
        f"{n_voxels} voxels x 3 sets, combined one by one: {ours:.2f} s = {ours / bare:.1f} x its products {bare:.2f} s"
    )


def main() -> None:
    wanted = sys.argv[1:] or ["phantom", "slices", "tissues", "volume"]
    directory = Path(os.environ.get("EGMM_DATA", "")) / "brainweb"
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in wanted:
        if name in {"slices", "tissues"} and not directory.is_dir():
            print(f"{name}: skipped, EGMM_DATA names no directory with brainweb/")
            continue
        {"phantom": phantom, "volume": volume}[name]() if name in {"phantom", "volume"} else {
            "slices": slices,
            "tissues": tissues,
        }[name](directory)


if __name__ == "__main__":
    main()
