"""Segment T1 and T2 images, fuse them, and draw what is sure and what is not.

    python examples/imaging.py [directory for the figures]

All data are simulated; nothing is downloaded. If EGMM_DATA names a directory with `brainweb/`, a figure of a BrainWeb
slice is added. Its lesion labels are derived from the images; they are not BrainWeb's.
"""

import os
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image

from egmm.image import fuse, make_brain_phantom, segment
from egmm.image.phantom import REFERENCE
from egmm.metrics import ari, nmi, purity

mpl.use("Agg")
import matplotlib.pyplot as plt

AREAS = ("pathology", "CSF", "normal")
AREA_COLOURS = np.array([[0, 0, 0], [213, 94, 0], [0, 114, 178], [200, 200, 200]], dtype=np.uint8)
PAPER = [
    {"CSF": ["CSF"], "tissue": ["pathology", "normal"]},
    {"other": ["CSF", "normal"], "pathology": ["pathology"]},
]
BRIGHT_CSF = [
    {"CSF": ["CSF"], "grey": ["pathology", "normal"], "white": ["pathology", "normal"]},
    {"white": ["normal"], "grey": ["normal"], "bright": ["CSF", "pathology"]},
]


def show(ax: Any, image: np.ndarray, title: str) -> None:
    ax.imshow(image, cmap=None if image.ndim == 3 else "gray", interpolation="nearest")
    ax.set_title(title, fontsize="small")
    ax.set_axis_off()


def grid(rows: int, columns: int) -> tuple[Any, Any]:
    return plt.subplots(rows, columns, figsize=(2.3 * columns, 3.0 * rows), squeeze=False, layout="constrained")


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=70)
    with Image.open(path) as picture:  # 128 colours are enough, and a quarter of the size
        picture.convert("RGB").quantize(128).save(path, optimize=True)
    plt.close(figure)
    print(f"{path}: {path.stat().st_size // 1024} KB")


def scores(labels: np.ndarray, truth: np.ndarray) -> str:
    inside = truth > 0
    return " / ".join(f"{score(truth[inside], labels[inside]):.3f}" for score in (purity, nmi, ari))


def draw_fusion(directory: Path) -> None:
    """The paper's figures on the phantom: each modality alone, then fused."""
    brain = make_brain_phantom(noise=3)
    t1 = segment({"T1": brain.t1}, brain.mask, 2, names=("CSF", "tissue"))
    t2 = segment({"T2": brain.t2}, brain.mask, 2, names=("other", "pathology"))
    fused = fuse(t1, t2, PAPER, names=AREAS)
    print(t1, t2, fused, sep="\n")
    print("purity / NMI / ARI", scores(fused.labels(), brain.areas))
    figure, axes = grid(2, 4)
    show(axes[0, 0], brain.t1, "T1")
    t1.plot(axes=axes[0, 1:3])
    show(axes[0, 3], brain.t2, "T2")
    t2.plot(1, axes=axes[1, 0])
    fused.plot(axes=axes[1, 1:])
    axes[1, 0].set_title("T2: " + axes[1, 0].get_title(), fontsize="small")
    for ax in axes[0, 1:3]:
        ax.set_title("T1: " + ax.get_title(), fontsize="small")
    for ax in axes[1, 1:]:
        ax.set_title("fused: " + ax.get_title(), fontsize="small")
    save(figure, directory / "imaging_fusion.png")


def draw_neighbours(directory: Path) -> None:
    """Effect of the evidence of neighbours at 9 % noise."""
    brain = make_brain_phantom(noise=9, contrast="brainweb", n_lesions=0)
    plain = segment(brain.t1, brain.mask, 3)
    pooled = segment(brain.t1, brain.mask, 3, spatial=True)
    figure, axes = grid(1, 4)
    show(axes[0, 0], brain.t1, "T1, noise 9 %")
    show(axes[0, 1], brain.labels, "truth")
    for ax, name, result in ((axes[0, 2], "alone", plain), (axes[0, 3], "with neighbours", pooled)):
        wrong = (result.labels() != brain.labels).sum() / brain.mask.sum()
        show(ax, result.labels(), f"{name}: {100 * wrong:.1f} % wrong")
    save(figure, directory / "imaging_neighbours.png")


def draw_slice(directory: Path, data: Path, number: int = 101, noise: float = 3.0) -> None:
    """Errors of six variants for a T2 image with bright CSF, where the paper's refining fails."""
    slices = np.load(data / "msles2_1mm_pn0_rf0_axial.npz")
    at = int(np.flatnonzero(slices["slice_number"] == number)[0])
    t1, t2, label = (slices[name][at][::-1] for name in ("t1", "t2", "label"))
    rng = np.random.default_rng(number)
    t1, t2 = (
        np.hypot(image + sd * rng.standard_normal(image.shape), sd * rng.standard_normal(image.shape))
        for image, sd in ((t1, noise / 100 * REFERENCE["t1"]), (t2, noise / 100 * REFERENCE["t2"]))
    )
    mask = np.isin(label, (1, 2, 3, 8, 10))
    truth = np.select([~mask, label == 10, label == 1], [0, 1, 2], 3)
    figure, axes = grid(3, 3)
    show(axes[0, 0], t1 * mask, f"T1, noise {noise:g} %")
    show(axes[0, 1], t2 * mask, "T2: CSF is bright")
    show(axes[0, 2], AREA_COLOURS[truth], "truth (lesions derived)")
    for row, spatial in enumerate((None, True), start=1):
        for ax, (name, labels) in zip(axes[row], variants(t1, t2, mask, spatial), strict=True):
            colours = AREA_COLOURS[labels] // 2
            colours[mask & (labels != truth)] = (255, 255, 0)
            ending = ", neighbours" if spatial else ""
            show(ax, colours, f"{name}{ending}\nARI {ari(truth[mask], labels[mask]):.2f}")
    save(figure, directory / "imaging_brainweb.png")


def variants(t1: np.ndarray, t2: np.ndarray, mask: np.ndarray, spatial: bool | None) -> Any:
    for name, count, refining in (("paper's refining", 2, PAPER), ("bright-CSF refining", 3, BRIGHT_CSF)):
        parts = [segment(image, mask, count, spatial=spatial) for image in (t1, t2)]
        yield name, fuse(*parts, refining, names=AREAS).labels()
    joint = segment([t1, t2], mask, 5, spatial=spatial)
    means = joint.model.means_[np.argsort(joint.model.means_[:, 0], kind="stable")]
    area = np.select([means[:, 0] < 80, means[:, 1] > 195], [2, 1], 3)
    yield "joint, 5 clusters", np.concatenate([[0], area])[joint.labels()]


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures")
    directory.mkdir(parents=True, exist_ok=True)
    draw_fusion(directory)
    draw_neighbours(directory)
    data = Path(os.environ.get("EGMM_DATA", "")) / "brainweb"
    if data.is_dir():
        draw_slice(directory, data)
    else:
        print("EGMM_DATA names no directory with brainweb/, so the figure of a BrainWeb slice is skipped.")


if __name__ == "__main__":
    main()
