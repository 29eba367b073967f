"""``egmm segment`` and the brain of ``egmm demo``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from egmm._checks import FloatArray
from egmm.cli import figures
from egmm.cli.output import check_free, writing_directory
from egmm.cli.screen import as_json, say, show_table, spaced
from egmm.image import SegmentedImage, make_brain_phantom
from egmm.image import segment as segment_image
from egmm.image.colour import colour_names, from_lab
from egmm.image.io import check_file
from egmm.plotting.image import plot_labels
from egmm.reproduce.experiments import segment_brain


def segment(
    images: Sequence[Path],
    mask: Path | None,
    counts: Sequence[int],
    *,
    spatial: bool,
    colour: str,
    seed: int,
    out: Path | None,
    force: bool,
    as_machine: bool,
    quiet: bool,
) -> None:
    """Segment an image, or several modalities on one grid, and write the maps."""
    inputs = [*images, *([] if mask is None else [mask])]
    for path in inputs:
        check_file(path)
    target = out or Path(f"egmm-{images[0].name.split('.')[0]}")
    check_free(target, force=force, inputs=inputs)
    found = segment_image(
        [str(path) for path in images],
        None if mask is None else str(mask),
        list(counts),
        spatial=spatial,
        colour=colour,
        random_state=seed,
        verbose=int(not (quiet or as_machine)),
    )
    means = _means(found)
    found = found.named(*_descriptions(found, means))
    with writing_directory(target, force=force, inputs=inputs) as work:
        _write_maps(work, found, means)
        files = sorted(path.name for path in work.iterdir())
    sizes = np.bincount(found.labels().ravel(), minlength=found.n_clusters + 1)[1:]
    if as_machine:
        as_json(
            {
                "command": "segment",
                "output": str(target),
                "files": files,
                "n_voxels": int(sizes.sum()),
                "n_clusters": found.n_clusters,
                "n_ambiguous": found.n_ambiguous,
                "voxels": dict(zip(found.names, sizes.tolist(), strict=True)),
                "sets": list(found.focal_sets.labels),
            }
        )
    elif not quiet:
        voxels = int(sizes.sum())
        share = 100 * found.n_ambiguous / max(voxels, 1)
        clusters = f"{found.n_clusters} cluster{'' if found.n_clusters == 1 else 's'}"
        noun = "pixels" if found.mask.ndim == 2 else "voxels"
        say(f"{clusters} in {spaced(voxels)} {noun}; {share:.1f} % are open.\n")
        show_table(["cluster", noun], [[n, spaced(int(s))] for n, s in zip(found.names, sizes, strict=True)])
        say(f"\nWritten to {target}/: {', '.join(files)}")
        if "mass.nii.gz" in files:
            say(f"mass.nii.gz holds one volume per set, in the order {', '.join(found.focal_sets.labels)}.")


def _means(found: SegmentedImage) -> FloatArray:
    """Mean of each cluster's voxels in every image, (n_clusters, n_images); NaN for an empty cluster."""
    labels = found.labels()[found.mask] - 1
    counts = np.bincount(labels, minlength=found.n_clusters)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = [np.bincount(labels, image.data[found.mask], found.n_clusters) / counts for image in found.images]
    return np.stack(sums, axis=1)


def _is_lab(found: SegmentedImage) -> bool:
    return [image.name for image in found.images] == ["L", "a", "b"]


def _descriptions(found: SegmentedImage, means: FloatArray) -> list[str]:
    """Describe clusters by colour or mean grey levels."""
    is_empty = [bool(np.isnan(levels).any()) for levels in means]
    if _is_lab(found):
        words = colour_names(np.nan_to_num(means))
    else:
        words = [f"level {' / '.join(f'{level:.3g}' for level in levels)}" for levels in means]
    return [f"{k + 1}: {'no voxel' if is_empty[k] else word}" for k, word in enumerate(words)]


def _write_labels(path: Path, found: SegmentedImage, means: FloatArray) -> None:
    """Draw the label map: a picture in the clusters' mean colours, the middle slice of a volume in plot colours."""
    labels = found.labels()
    labels = labels if labels.ndim == 2 else labels[:, :, labels.shape[2] // 2]
    size = (5.6, 5.6 * labels.shape[0] / labels.shape[1] + 0.8)
    colours = from_lab(np.nan_to_num(means)) if _is_lab(found) else None
    figures.save(plot_labels(labels, found.names, colours=colours, ax=figures.new_axes(size=size)), path)


def _write_maps(work: Path, found: SegmentedImage, means: FloatArray) -> None:
    """Write volumes as NIfTI, pictures as PNG, and for both a figure of the approximations."""
    if found.mask.ndim == 3 or found.affine is not None:
        for what in ("labels", "ambiguity", "mass"):
            found.to_nifti(work / f"{what}.nii.gz", what)
    else:
        for what in ("labels", "ambiguity"):
            found.to_png(work / f"{what}.png", what)
    rows, columns = found.mask.shape[:2]
    axes = figures.new_axes(found.n_clusters, (4.2, 4.2 * rows / columns + 0.9))
    figures.save(found.plot(axes=np.atleast_1d(axes)), work / "approximations.png")
    _write_labels(work / "clusters.png", found, means)


def brain(work: Path) -> str:
    """Segment the T1 and T2 images of a brain phantom, fuse them, and describe the result."""
    phantom = make_brain_phantom()
    _, _, fused = segment_brain(phantom, "EGMM")
    axes = figures.new_axes(5, (3.6, 4.4))
    for ax, picture, title in zip(axes[:2], (phantom.t1, phantom.t2), ("T1", "T2"), strict=True):
        ax.imshow(picture, cmap="gray", origin="lower")
        ax.set_title(title)
        ax.set_axis_off()
    fused.plot(axes=axes[2:])
    figures.save(axes, work / "brain.png")
    right = (fused.labels() == phantom.areas)[phantom.mask].mean()
    return (
        f"T1 separates CSF from tissue, T2 pathology from the rest; fused, they separate pathology, CSF and normal "
        f"tissue: {100 * right:.1f} % of {spaced(int(phantom.mask.sum()))} voxels are correct, "
        f"{100 * fused.n_ambiguous / phantom.mask.sum():.1f} % are open."
    )
