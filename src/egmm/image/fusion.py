"""Fusion of segmentations: each modality on its own frame, refined to a common frame, combined voxel by voxel."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray, check_choice, check_integer, check_real
from egmm._progress import Progress
from egmm.belief import CredalPartition, FocalSets, combine_masses, discount, normalise
from egmm.belief.focal import MAX_CLUSTERS, mask_of
from egmm.belief.masses import Masses, embed, joint_family, transport
from egmm.belief.rules import ON_CONFLICT, RULES
from egmm.image.features import merge_equal
from egmm.image.io import Image, check_same_grid
from egmm.image.segmented import SegmentedImage, cluster_names

BLOCK_ROWS = 1 << 19
"""Mass functions combined per block, which keeps temporaries small."""


class _Mapping(NamedTuple):
    """Clusters of one modality in the common frame, as bit masks."""

    images: IntArray
    n_clusters: int


def fuse(
    *sources: Any,
    refining: Any = None,
    discounts: float | Sequence[float] | FloatArray | None = None,
    rule: str = "dempster",
    on_conflict: str = "vacuous",
    names: Sequence[str] | None = None,
    verbose: int = 0,
) -> SegmentedImage:
    r"""Fuse segmentations of several modalities on one grid: refine, discount, combine.

    .. math:: m_i = \bigoplus_s \rho_s\bigl(m_{is}^{\alpha_s}\bigr)

    Parameters
    ----------
    *sources : SegmentedImage
        Two or more, on one grid with one mask. The last positional argument may be the refining:
        ``fuse(first, second, refining)``.
    refining : list, default=None
        For each source, the clusters of the common frame that each of its clusters represents. Either by name, a
        mapping per source whose keys are the source's clusters, dark to bright (or by their names), such as ``[{"CSF":
        ["CSF"], "tissue": ["pathology", "normal"]}, {"other": ["CSF", "normal"], "pathology": ["pathology"]}]``; or by
        number, counted from zero, such as ``[[{1}, {0, 2}], [{1, 2}, {0}]]``. Clusters of one source may overlap. None:
        all sources already share one frame.
    discounts : float or sequence of float, default=None
        Discount rate of each modality, from 0 (trusted) to 1 (ignored).
    rule : {'dempster', 'conjunctive', 'disjunctive', 'yager', 'dubois-prade', 'pcr6', 'cautious', 'mean'}
        The rule, see :func:`egmm.belief.combine`. The cautious rule needs mass on the frame: discount the sources.
    on_conflict : {'vacuous', 'raise', 'empty'}, default='vacuous'
        What Dempster's rule does with voxels in total conflict: put all mass on the frame, raise an error, or put it on
        the empty set.
    names : sequence of str, default=None
        Names of the common frame's clusters, in order; they set the order for a refining by name.
    verbose : int, default=0
        1 shows progress on standard error.

    Returns
    -------
    fused : SegmentedImage
        Its conflict map is :math:`m_\cap(\emptyset)` of the refined, discounted sources, for any rule.

    Examples
    --------
    >>> from egmm.image import fuse, make_brain_phantom, segment
    >>> phantom = make_brain_phantom((64, 54))
    >>> t1 = segment(phantom.t1, phantom.mask, 2, names=("CSF", "tissue"))
    >>> t2 = segment(phantom.t2, phantom.mask, 2, names=("other", "pathology"))
    >>> fused = fuse(t1, t2, [{"CSF": ["CSF"], "tissue": ["pathology", "normal"]},
    ...                       {"other": ["CSF", "normal"], "pathology": ["pathology"]}],
    ...              names=("pathology", "CSF", "normal"))
    >>> fused.names
    ('pathology', 'CSF', 'normal')
    """
    parts, refining = _split_arguments(sources, refining)
    _check_grids(parts)
    check_choice("rule", rule, RULES)
    check_choice("on_conflict", on_conflict, ON_CONFLICT)
    mappings, found = _mappings(parts, refining, names)
    rates = _rates(discounts, len(parts))
    index, some = merge_equal([part.index for part in parts])
    chosen = [part.index[some] for part in parts]
    blocks: list[Masses] = []
    conflicts = np.zeros(len(chosen[0]))
    with Progress("fuse", len(conflicts), enabled=bool(verbose)) as progress:
        for start in range(0, len(conflicts), BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, len(conflicts)))
            refined = [
                _refine(part.kinds[kinds[rows]], mapping, rate)
                for part, kinds, mapping, rate in zip(parts, chosen, mappings, rates, strict=True)
            ]
            mass, focal, conflicts[rows] = _combine(refined, rule, on_conflict)
            blocks.append((mass, focal))
            progress.update(rows.stop)
    fused = _stack(blocks, len(conflicts))
    return SegmentedImage(
        kinds=fused,
        index=index,
        mask=parts[0].mask,
        images=tuple(image for part in parts for image in part.images),
        names=cluster_names(fused.n_clusters, found),
        conflict_degree=conflicts,
    )


def refine(segmented: SegmentedImage, refining: Any, names: Sequence[str] | None = None) -> SegmentedImage:
    r"""Express a segmentation on a finer frame: each cluster becomes the set of clusters that it represents.

    .. math:: m_i^{\uparrow}\bigl(\textstyle\bigcup_{k \in A} \rho(\omega_k)\bigr) = m_i(A)

    This is the first step of `fuse`. By itself it shows what one modality tells about the common frame, so that its
    open voxels can be compared with those of a fusion: with {CSF, tissue}, all tissue is "pathology or normal".

    Parameters
    ----------
    segmented : SegmentedImage
        A segmentation or a fusion.
    refining : mapping or list
        One source's entry in the refining of `fuse`: a mapping from its clusters to names in the common frame, or a
        list of sets of cluster numbers counted from zero.
    names : sequence of str, default=None
        Names of the common frame's clusters, in order.

    Returns
    -------
    refined : SegmentedImage

    Examples
    --------
    >>> from egmm.image import make_brain_phantom, refine, segment
    >>> phantom = make_brain_phantom((64, 54))
    >>> t1 = segment(phantom.t1, phantom.mask, 2, names=("CSF", "tissue"))
    >>> finer = refine(t1, {"CSF": ["CSF"], "tissue": ["pathology", "normal"]})
    >>> finer.names, finer.focal_sets.labels
    (('CSF', 'pathology', 'normal'), ('{1}', '{2,3}', '{1,2,3}'))
    >>> t1.n_ambiguous < t1.n_voxels / 4 < t1.n_voxels / 2 < finer.n_ambiguous
    True
    """
    mappings, found = _mappings([segmented], [refining], names)
    mass, focal = _refine(segmented.kinds, mappings[0], 0.0)
    mass.setflags(write=False)
    return replace(segmented, kinds=CredalPartition(mass, focal), names=cluster_names(focal.n_clusters, found))


def _split_arguments(sources: Sequence[Any], refining: Any) -> tuple[list[SegmentedImage], Any]:
    given = list(sources)
    if given and not isinstance(given[-1], SegmentedImage):
        if refining is not None:
            raise TypeError(f"fuse expects SegmentedImage objects, got {type(given[-1]).__name__}.")
        refining = given.pop()
    for part in given:
        if not isinstance(part, SegmentedImage):
            raise TypeError(f"fuse expects SegmentedImage objects and a refining last, got {type(part).__name__}.")
    if len(given) < 2:
        raise ValueError(f"fuse needs at least two segmentations, got {len(given)}.")
    return given, refining


def _check_grids(parts: list[SegmentedImage]) -> None:
    for other in parts[1:]:
        check_same_grid(parts[0].images[0], other.images[0])
        if not np.array_equal(parts[0].mask, other.mask):
            first, second = int(parts[0].mask.sum()), int(other.mask.sum())
            raise ValueError(
                f"{_name(parts[0].images)} and {_name(other.images)} were segmented with different masks ({first} and "
                f"{second} voxels); segment both with their intersection."
            )


def _name(images: tuple[Image, ...]) -> str:
    return " + ".join(image.name for image in images)


def _mappings(
    parts: list[SegmentedImage], refining: Any, names: Sequence[str] | None
) -> tuple[list[_Mapping], Sequence[str] | None]:
    """Bit masks of every source's clusters in the common frame, and its names, if any."""
    if refining is None:
        identity = [[{k} for k in range(part.n_clusters)] for part in parts]
        return _by_number(parts, identity), names if names is not None else parts[0].names
    if not _is_by_name(refining, len(parts)):
        return _by_number(parts, refining), names
    frame = list(names) if names is not None else _frame_names(refining)
    numbers = {name: number for number, name in enumerate(frame)}
    listed = []
    for number, (part, entry) in enumerate(zip(parts, refining, strict=True)):
        _check_keys(number, list(entry), part.names)
        ordered = [entry[name] for name in part.names] if set(entry) == set(part.names) else list(entry.values())
        unknown = [name for group in ordered for name in group if name not in numbers]
        if unknown:
            raise ValueError(f"refining names {unknown[0]!r}, which is not in the common frame {frame}.")
        listed.append([{numbers[name] for name in group} for group in ordered])
    return _by_number(parts, listed, frame), frame


def _check_keys(number: int, keys: list[str], names: Sequence[str]) -> None:
    """Raise if only some keys are names of the source's clusters: the keys would then be matched by order."""
    known = [key for key in keys if key in names]
    if known and len(known) < len(keys):
        wrong = next(key for key in keys if key not in names)
        raise ValueError(
            f"refining of source {number} has the key {wrong!r}, which is none of its clusters ({', '.join(names)}); "
            "use cluster names for all keys or for none."
        )


def _is_by_name(refining: Any, n_sources: int) -> bool:
    """Whether a refining is by name rather than by number; raise on other forms."""
    if not isinstance(refining, Sequence | np.ndarray) or isinstance(refining, str):
        raise TypeError(f"refining must be a list with one entry per source, got {refining!r}.")
    if len(refining) != n_sources:
        raise ValueError(f"refining must have {n_sources} entries, one per source, got {len(refining)}.")
    is_named = [isinstance(entry, Mapping) for entry in refining]
    if any(is_named) != all(is_named):
        raise TypeError("refining must be by name for all sources (mappings) or by number for all (lists), not both.")
    for number, entry in enumerate(refining):
        if not isinstance(entry, Mapping | Sequence | np.ndarray) or isinstance(entry, str):
            raise TypeError(f"refining of source {number} must be a mapping or a list, got {entry!r}.")
        for group in entry.values() if isinstance(entry, Mapping) else entry:
            if not _is_listing(group):
                raise TypeError(
                    f"refining of source {number} must list the clusters for each key, got {group!r}; "
                    f"write [{group!r}]."
                )
    return all(is_named)


def _is_listing(value: object) -> bool:
    """Whether a value is a collection; a string is one name."""
    return isinstance(value, Iterable) and not isinstance(value, str)


def _frame_names(refining: Iterable[Mapping[str, Iterable[str]]]) -> list[str]:
    return list(dict.fromkeys(name for entry in refining for group in entry.values() for name in group))


def _by_number(
    parts: list[SegmentedImage], refining: Sequence[Iterable[Iterable[Any]]], names: Sequence[str] | None = None
) -> list[_Mapping]:
    groups = [[[_check_number(k) for k in group] for group in entry] for entry in refining]
    n_common = 1 + max((k for entry in groups for group in entry for k in group), default=-1)
    mappings = []
    for number, (part, entry) in enumerate(zip(parts, groups, strict=True)):
        if len(entry) != part.n_clusters:
            raise ValueError(
                f"refining of source {number} must have one entry for each of its {part.n_clusters} clusters "
                f"({', '.join(part.names)}), got {len(entry)}."
            )
        if not all(entry):
            raise ValueError(f"refining of source {number} has an empty entry; list at least one cluster.")
        missing = min(set(range(n_common)) - {k for group in entry for k in group}, default=None)
        if missing is not None:
            which = f"cluster {missing + 1} (number {missing} counted from zero)" if names is None else names[missing]
            raise ValueError(
                f"refining of source {number} must cover the common frame, but {which} is in none of its groups "
                "and would be excluded everywhere."
            )
        masks = [mask_of(group, n_common) for group in entry]
        mappings.append(_Mapping(np.array(masks, dtype=np.int64), n_common))
    return mappings


def _check_number(cluster: Any) -> int:
    return check_integer("a cluster number of refining (counted from zero)", cluster, 0, MAX_CLUSTERS - 1)


def _rates(discounts: Any, n_sources: int) -> list[float]:
    if discounts is None:
        return [0.0] * n_sources
    if isinstance(discounts, np.ndarray):
        discounts = discounts.tolist()
    if isinstance(discounts, Sequence) and not isinstance(discounts, str):
        if len(discounts) != n_sources:
            raise ValueError(f"discounts must be one number or {n_sources}, one per source, got {len(discounts)}.")
        return [check_real("discounts", rate, 0.0, 1.0) for rate in discounts]
    return [check_real("discounts", discounts, 0.0, 1.0)] * n_sources


def _refine(part: CredalPartition, mapping: _Mapping, rate: float) -> Masses:
    """Masses over the common frame: each set goes to the union of its clusters' images."""
    masks = np.bitwise_or.reduce(np.where(part.focal_sets.membership, mapping.images, 0), axis=1)
    mass, focal = transport(part.mass, masks, mapping.n_clusters)
    return discount(mass, focal, rate) if rate > 0 else (mass, focal)


def _combine(sources: list[Masses], rule: str, on_conflict: str) -> tuple[FloatArray, FocalSets, FloatArray]:
    """Combined masses of a block and the conflict among its sources."""
    joint, family = combine_masses(*sources, rule="conjunctive")
    degree = joint[:, 0].copy() if family.has_empty else np.zeros(len(joint))
    if rule == "conjunctive":
        return joint, family, degree
    if rule == "dempster":
        # From the conjunctive masses, which also give the conflict.
        mass, focal = normalise(joint, family, on_conflict=on_conflict)
        return mass, focal, degree
    if rule == "cautious":
        full = FocalSets.full(family.n_clusters)
        sources = [(embed(mass, focal, full), full) for mass, focal in sources]
    mass, focal = combine_masses(*sources, rule=rule, on_conflict=on_conflict)
    return mass, focal, degree


def _stack(blocks: list[Masses], n_rows: int) -> CredalPartition:
    family = joint_family(*(focal for _, focal in blocks))
    out = np.empty((n_rows, len(family)))
    start = 0
    while blocks:
        mass, focal = blocks.pop(0)
        out[start : start + len(mass)] = mass if focal == family else embed(mass, focal, family)
        start += len(mass)
    out.setflags(write=False)
    return CredalPartition(out, family)
