"""Segmentation of images: clustering the voxels of a mask by their grey levels."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils.validation import has_fit_parameter

from egmm._checks import FloatArray, check_integer, check_random
from egmm._progress import Progress
from egmm.belief import CredalPartition, FocalSets
from egmm.candidate import Candidate
from egmm.image.colour import split_colours
from egmm.image.features import Distinct, columns_of, distinct_rows, noise_level
from egmm.image.io import Image, read_images, read_mask
from egmm.image.segmented import SegmentedImage, cluster_names
from egmm.image.spatial import neighbourhood_of, pool_images
from egmm.mixture import EGMM
from egmm.rows.threads import one_blas_thread
from egmm.selection import Selection

START_POWERS = (1.0, 0.5, 0.0)
"""Starts weight grey levels by their counts to these powers; small powers favour small areas, such as lesions."""

HEAVIEST_PAIR = 2.0
"""A set more than this many times as heavy as its lightest cluster is suspected to be a cluster itself."""

COUNTS = range(2, 7)
"""Numbers of clusters tried by default."""


def segment(
    images: Any,
    mask: Any = None,
    n_clusters: int | Iterable[int] | None = None,
    *,
    focal_sets: Any = "auto",
    covariance: str = "EEE",
    spatial: Any = None,
    colour: str = "lab",
    estimator: Any = None,
    names: Sequence[str] | None = None,
    random_state: int | np.random.RandomState | None = 0,
    verbose: int = 0,
    **parameters: Any,
) -> SegmentedImage:
    r"""Segment an image or a volume of one or several modalities into evidential clusters.

    Voxels outside the mask are 0 in every map and are not clustered. Equal voxels are merged before the fit, and grey
    levels of more than 8 bits are rounded to an eighth of the noise, so that time does not grow with the number of
    voxels. Clusters are numbered from dark to bright in the first modality.

    Parameters
    ----------
    images : image, list of images, or mapping of names to images
        Each an array of 2 or 3 dimensions, a path (PNG, TIFF, NIfTI, MINC, ...), or an image of nibabel or Pillow.
        Several images are modalities on one grid, used as joint features. Colour pictures are split, see `colour`.
    mask : image, default=None
        Voxels to segment, those that are not zero. None selects all.
    n_clusters : int, iterable of int or None, default=None
        Number of clusters, or numbers to choose from by EBIC; None means 2 to 6.
    focal_sets : str, FocalSets or list of sets, default='auto'
        As for `EGMM`. 'auto' means 'pairs' for several modalities. For one modality it means singletons and pairs of
        clusters with adjacent grey levels at the start; other pairs would coincide with a cluster: in T1, grey matter
        lies halfway between CSF and white matter.
    covariance : str, default='EEE'
        Covariance model of `EGMM`.
    spatial : bool, Neighbourhood or None, default=None
        Whether to use evidence of neighbours: True pools with the default `Neighbourhood` before the fit; see
        :func:`egmm.image.pool_images`.
    colour : {'lab', 'rgb', 'grey'}, default='lab'
        Features of a colour picture: CIE L*a*b* (lightness and two colour axes, perceptually uniform), red, green and
        blue, or lightness only. Colour arrays have 8 bits and 3 or 4 channels on the last axis.
    estimator : estimator, default=None
        A clusterer with `fit` and `partition`, such as ``ECM(3)``, instead of `EGMM`. Excludes `n_clusters` and other
        parameters of `EGMM`.
    names : sequence of str, default=None
        Names of the clusters, dark to bright.
    random_state : int, RandomState instance or None, default=0
        Seed of the starts.
    verbose : int, default=0
        1 shows progress on standard error.
    **parameters : any
        Further parameters of `EGMM`.

    Returns
    -------
    segmented : SegmentedImage

    Examples
    --------
    >>> from egmm.image import make_brain_phantom, segment
    >>> phantom = make_brain_phantom((64, 54))
    >>> result = segment(phantom.t1, phantom.mask, 2, names=("CSF", "tissue"))
    >>> result.labels().shape, int(result.labels().max())
    ((64, 54), 2)
    """
    if estimator is not None:
        is_given = {
            "n_clusters": n_clusters is not None,
            "focal_sets": not _is_auto(focal_sets),
            "covariance": covariance != "EEE",
        }
        _check_estimator(estimator, [*(name for name in is_given if is_given[name]), *sorted(parameters)])
    read = tuple(read_images(split_colours(images, colour)))
    inside = read_mask(mask, read[0])
    columns = columns_of(read, inside)
    seen: Sequence[Image] = read
    if spatial is not None and spatial is not False:
        seen = pool_images(read, inside, neighbourhood_of(spatial), verbose=verbose)
        columns = columns_of(seen, inside)
    data = distinct_rows(columns, [noise_level(image.data, inside) for image in seen])
    del columns
    selection = None
    if estimator is None:
        base = EGMM(covariance=covariance, random_state=_seed(random_state), **parameters)
        selection = _select(data, _counts(n_clusters), base, focal_sets, verbose)
        model = selection.best
    else:
        model = _fit_estimator(clone(estimator), data)
    kinds = _by_brightness(model.partition(data.rows), model.means_)
    return SegmentedImage(
        kinds=kinds,
        index=data.inverse,
        mask=inside,
        images=read,
        names=cluster_names(kinds.n_clusters, names),
        model=model,
        selection=selection,
    )


def _check_estimator(estimator: Any, given: list[str]) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "partition"):
        raise TypeError(f"estimator must be a clusterer with fit and partition, such as ECM(3), got {estimator!r}.")
    if given:
        raise ValueError(f"estimator has its own parameters; do not pass {', '.join(given)} as well.")


def _seed(random_state: int | np.random.RandomState | None) -> int:
    return int(check_random(random_state).randint(2**31))


def _counts(n_clusters: int | Iterable[int] | None) -> list[int]:
    if n_clusters is None:
        return list(COUNTS)
    if isinstance(n_clusters, Iterable):
        counts = [check_integer("n_clusters", count, 1) for count in n_clusters]
        if not counts:
            raise ValueError("n_clusters must hold at least one number, got an empty list.")
        return counts
    return [check_integer("n_clusters", n_clusters, 1)]


def _select(data: Distinct, counts: list[int], base: EGMM, focal_sets: Any, verbose: int) -> Selection:
    """Fit every number of clusters and keep the one with the largest EBIC."""
    candidates = []
    with Progress("segment", len(counts), enabled=bool(verbose)) as progress:
        for count in counts:
            began = time.perf_counter()
            try:
                model = _fit_from_starts(data, clone(base).set_params(n_clusters=count), focal_sets)
            except ValueError as error:
                if len(counts) == 1:
                    raise
                candidates.append(Candidate(count, base.covariance, failure=str(error)))
                continue
            criteria, seconds = model.criteria(data.rows, data.counts), time.perf_counter() - began
            candidates.append(Candidate.of_model(count, base.covariance, model, criteria, seconds))
            progress.update(len(candidates), f"{count} cluster{'' if count == 1 else 's'}")
    return Selection(candidates, "ebic", higher_is_better=True)


def _fit_from_starts(data: Distinct, model: EGMM, focal_sets: Any) -> Any:
    """Fit from several starts; keep the best likelihood among sound fits."""
    if len(data.rows) < model.n_clusters:
        raise ValueError(
            f"n_clusters={model.n_clusters}, but the mask has only {len(data.rows)} distinct values; use fewer."
        )
    model.set_params(focal_sets=_family(focal_sets, model.n_clusters, data.rows.shape[1]))
    if not isinstance(model.init, str) or model.init != "kmeans":
        if _is_auto(focal_sets) and data.rows.shape[1] == 1:
            model.set_params(init=_dark_to_bright(data, model))
        return model.fit(data.rows, sample_weight=data.counts)
    starts: list[Any] = [*_starting_means(data, model.n_clusters, model.random_state)]
    if data.rows.shape[1] > 1:
        # With all pairs, some may replace a tissue early: fit the singletons first.
        starts.append("mixture")
    fits = [clone(model).set_params(init=start).fit(data.rows, sample_weight=data.counts) for start in starts]
    return max(fits, key=lambda fit: (not fit.degenerate_, not _has_disguised_cluster(fit), fit.log_likelihood_))


def _has_disguised_cluster(model: Any) -> bool:
    """Whether a set of clusters outweighs its lightest cluster more than is plausible for border voxels.

    Evenly spaced means lead to such fits: grey matter then counts as "white matter or something bright".
    """
    focal = model.focal_sets_
    alone = np.full(focal.n_clusters, np.inf)
    for column in np.flatnonzero(focal.cardinalities == 1):
        alone[focal.membership[column]] = model.weights_[column]
    lightest = np.where(focal.membership, alone, np.inf).min(axis=1)
    return bool((model.weights_[focal.is_meta] > HEAVIEST_PAIR * lightest[focal.is_meta]).any())


def _dark_to_bright(data: Distinct, model: EGMM) -> FloatArray:
    """Sort the given initial means, or those of a classical mixture; neighbours form the pairs."""
    if np.ndim(model.init) == 2:
        return np.sort(model.init, axis=0)
    plain = clone(model).set_params(focal_sets="singletons").fit(data.rows, sample_weight=data.counts)
    return np.sort(plain.means_, axis=0)


def _is_auto(focal_sets: Any) -> bool:
    return isinstance(focal_sets, str) and focal_sets == "auto"


def _family(focal_sets: Any, n_clusters: int, n_modalities: int) -> Any:
    if not _is_auto(focal_sets):
        return focal_sets
    if n_modalities > 1:
        return "pairs"
    pairs = [{number, number + 1} for number in range(n_clusters - 1)]
    return FocalSets.from_sets([*({number} for number in range(n_clusters)), *pairs], n_clusters)


def _starting_means(data: Distinct, n_clusters: int, random_state: Any) -> list[FloatArray]:
    """Distinct k-means centres, dark to bright, one set per weighting of the grey levels."""
    found: list[FloatArray] = []
    scale = np.maximum(data.rows.std(axis=0), np.finfo(float).tiny)
    for power in START_POWERS:
        groups = KMeans(n_clusters, n_init=1, random_state=random_state)
        with one_blas_thread():  # too few rows for threads
            labels = groups.fit(data.rows / scale, sample_weight=data.counts**power).labels_
        weights = np.bincount(labels, weights=data.counts, minlength=n_clusters)
        sums = [np.bincount(labels, weights=data.counts * column, minlength=n_clusters) for column in data.rows.T]
        means = np.stack(sums, axis=1) / weights[:, None]
        means = means[np.argsort(means[:, 0], kind="stable")]
        if not any(np.allclose(means, other) for other in found):
            found.append(means)
    return found


def _fit_estimator(model: Any, data: Distinct) -> Any:
    if has_fit_parameter(model, "sample_weight"):
        return model.fit(data.rows, sample_weight=data.counts)
    return model.fit(data.rows[data.inverse])


def _by_brightness(partition: CredalPartition, means: FloatArray) -> CredalPartition:
    """Number the clusters from dark to bright in the first modality."""
    order = np.argsort(means[:, 0], kind="stable")
    if np.array_equal(order, np.arange(len(order))):
        return partition
    new_number = np.empty_like(order)
    new_number[order] = np.arange(len(order))
    return partition.relabel(new_number.tolist())
