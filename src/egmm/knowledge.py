"""Labels and links of rows as evidence for EM."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import FloatArray, IntArray, check_finite_matrix, check_real, check_unmasked
from egmm.belief.focal import FocalSets, mask_of
from egmm.belief.masses import transport
from egmm.belief.partition import CredalPartition
from egmm.em.evidence import LINKED, UNLABELLED, Evidence, Links, gather
from egmm.links import check_links, linked_groups
from egmm.rows.source import RowSource

FORMS = (
    "integers with -1 for unknown, sets of clusters, probabilities (n_samples, n_clusters), a pair (mass, focal_sets) "
    "or a CredalPartition"
)


class Labels(NamedTuple):
    """Mass functions on sets of clusters, shared by many rows."""

    codes: IntArray
    """(N,) mass function of each row; `UNLABELLED` is the first, the vacuous one."""
    mass: FloatArray
    """(L, F)."""
    focal_sets: FocalSets

    def plausibility(self, focal_sets: FocalSets) -> FloatArray:
        """(L, M) of focal sets. The plausibility of noise is that of a vacuous label."""
        meets = (self.focal_sets.masks[:, None] & focal_sets.masks) != 0
        meets[self.focal_sets.masks == self.focal_sets.frame_mask] = True
        return np.asarray(np.minimum(self.mass @ meets, 1.0))

    @property
    def crisp(self) -> IntArray:
        """(N,) cluster with more than half the probability of the label, else -1."""
        pignistic = self.mass @ self.focal_sets.shares
        label = np.where(pignistic.max(axis=1) > 0.5, pignistic.argmax(axis=1), -1)
        label[UNLABELLED] = -1
        return np.asarray(label[self.codes])


class Knowledge(NamedTuple):
    """Labels and links of rows."""

    labels: Labels | None
    must_link: IntArray
    """(P, 2) pairs of rows."""
    cannot_link: IntArray

    @property
    def is_linked(self) -> bool:
        """Whether any rows are linked."""
        return bool(len(self.must_link) + len(self.cannot_link))

    def evidence(self, focal_sets: FocalSets, rows: RowSource) -> Evidence:
        """Evidence for EM, for one family of focal sets."""
        n_rows = rows.shape[0]
        if self.labels is None:
            codes, log_plausibility = np.zeros(n_rows, dtype=np.int64), np.zeros((1, len(focal_sets)))
            crisp = np.full(n_rows, -1)
        else:
            codes, crisp = self.labels.codes, self.labels.crisp
            with np.errstate(divide="ignore"):
                log_plausibility = np.log(self.labels.plausibility(focal_sets))
        found = Evidence(codes, log_plausibility, crisp)
        return self._linked(found, focal_sets, rows) if self.is_linked else found

    def _linked(self, evidence: Evidence, focal_sets: FocalSets, rows: RowSource) -> Evidence:
        places = np.unique(np.concatenate([self.must_link, self.cannot_link]))
        group = linked_groups(np.searchsorted(places, self.must_link), len(places))
        apart = np.unique(np.sort(group[np.searchsorted(places, self.cannot_link)], axis=1), axis=0)
        codes = evidence.codes[places]
        self._check_labels(places, group, evidence.log_plausibility[codes])
        meets = ((focal_sets.masks[:, None] & focal_sets.masks) != 0).astype(np.float64)
        linked = Links(*gather(rows, places, rows.shape[0]), codes, group, apart, meets)
        others = evidence.codes.copy()
        others[places] = LINKED
        return evidence._replace(codes=others, links=linked)

    def _check_labels(self, places: IntArray, group: IntArray, log_plausibility: FloatArray) -> None:
        """Raise on linked groups whose labels exclude every focal set."""
        joint = np.zeros((int(group.max()) + 1, log_plausibility.shape[1]))
        np.add.at(joint, group, log_plausibility)
        for number in np.flatnonzero(np.isneginf(joint).all(axis=1)):
            members = [int(row) for row in places[group == number]]
            raise ValueError(
                f"must_link joins the rows {_some(members)}, but their labels leave no focal set to all of them; drop "
                "a link or a label, or lower their reliability."
            )

    def conflict(self, mass: FloatArray, focal_sets: FocalSets) -> FloatArray:
        """(N,) conflict of the model's masses (N, M) with the labels; zero without a label."""
        if self.labels is None:
            return np.zeros(len(mass))
        agreement = np.einsum("nj,nj->n", mass, self.labels.plausibility(focal_sets)[self.labels.codes])
        return np.where(self.labels.codes == UNLABELLED, 0.0, np.clip(1.0 - agreement, 0.0, 1.0))

    def combined(self, mass: FloatArray, focal_sets: FocalSets) -> tuple[FloatArray, FocalSets]:
        """Masses of labelled rows on the intersections of focal sets and labels (Dempster's rule)."""
        if self.labels is None:
            return mass, focal_sets
        labels = self.labels
        common = np.where(focal_sets.masks[:, None] == 0, 0, focal_sets.masks[:, None] & labels.focal_sets.masks)
        sets = FocalSets(np.unique(np.concatenate([focal_sets.masks, common[common > 0]])), focal_sets.n_clusters)
        found = np.zeros((len(mass), len(sets)))
        found[:, sets.columns_of(focal_sets.masks)] = np.where(labels.codes[:, None] == UNLABELLED, mass, 0.0)
        plausibility = labels.plausibility(focal_sets)
        for code in np.unique(labels.codes[labels.codes != UNLABELLED]):
            rows = np.flatnonzero(labels.codes == code)
            # The mass of a focal set goes to its intersections with the label's sets, by their masses.
            moves = np.zeros((len(focal_sets), len(sets)))
            for j, to in enumerate(common):
                is_met = (to > 0) | (focal_sets.masks[j] == 0)
                if plausibility[code, j] > 0:
                    np.add.at(moves[j], sets.columns_of(to[is_met]), labels.mass[code, is_met] / plausibility[code, j])
            found[rows] = mass[rows] @ moves
        return found / found.sum(axis=1, keepdims=True), sets


class Given(NamedTuple):
    """Labels and links as given by the user."""

    labels: Any = None
    reliability: Any = 1.0
    must_link: Any = None
    cannot_link: Any = None

    @property
    def is_any(self) -> bool:
        """Whether anything is given."""
        return not (self.labels is None and self.must_link is None and self.cannot_link is None)


NOTHING = Given()


def read_knowledge(given: Given, n_rows: int, n_clusters: int) -> Knowledge | None:
    """Validate labels and links; None if there are none."""
    if not given.is_any:
        return None
    links = check_links(given.must_link, given.cannot_link, n_rows)
    known = None if given.labels is None else read_labels(given.labels, given.reliability, n_rows, n_clusters)
    if known is not None and (known.codes == UNLABELLED).all():
        known = None
    if known is None and not links.n_links:
        return None
    return Knowledge(known, links.must, links.cannot)


def read_labels(labels: Any, reliability: Any, n_rows: int, n_clusters: int) -> Labels:
    """Labels in any form as mass functions, discounted by their reliability.

    >>> read_labels([0, -1, 1], 0.9, 3, 2).codes
    array([2, 0, 1])
    >>> read_labels([{0, 1}, {2}, None], 1.0, 3, 3).mass
    array([[0., 0., 1.], [0., 1., 0.], [1., 0., 0.]])
    """
    partition = _partition(labels, n_rows, n_clusters)
    if len(partition.mass) != n_rows:
        raise ValueError(f"labels must have one entry per row, got {len(partition.mass)} for {n_rows} rows.")
    focal_sets = partition.focal_sets
    if focal_sets.n_clusters != n_clusters:
        raise ValueError(f"labels are of {focal_sets.n_clusters} clusters, but n_clusters={n_clusters}.")
    if focal_sets.has_empty and (partition.mass[:, focal_sets.masks == 0] > 0).any():
        row = int(partition.mass[:, focal_sets.masks == 0][:, 0].argmax())
        raise ValueError(f"labels must not put mass on the empty set, as that of row {row} does.")
    shares = _reliability(reliability, n_rows)
    masks = np.append(focal_sets.masks, focal_sets.frame_mask)
    mass = np.column_stack([shares[:, None] * partition.mass, 1.0 - shares])
    mass, focal_sets = transport(mass, masks, n_clusters)
    is_vacuous = mass[:, focal_sets.masks == focal_sets.frame_mask][:, 0] >= 1.0 - 1e-12
    kinds, codes = np.unique(mass[~is_vacuous], axis=0, return_inverse=True)
    vacuous = (focal_sets.masks == focal_sets.frame_mask).astype(np.float64)
    all_codes = np.zeros(n_rows, dtype=np.int64)
    all_codes[~is_vacuous] = codes.reshape(-1) + 1
    return Labels(all_codes, np.vstack([vacuous, kinds]), focal_sets)


def _partition(labels: Any, n_rows: int, n_clusters: int) -> CredalPartition:
    """Labels in any form as a credal partition."""
    if isinstance(labels, CredalPartition):
        return labels
    if isinstance(labels, tuple) and len(labels) == 2 and isinstance(labels[1], FocalSets):
        return CredalPartition(*labels)
    check_unmasked("labels", labels)
    if isinstance(labels, Sequence) and not isinstance(labels, str) and any(_is_set(label) for label in labels):
        return _of_sets(labels, n_clusters)
    numbers = np.asarray(labels)
    if numbers.ndim == 2 and numbers.dtype.kind in "iuf":
        return _of_probabilities(numbers, n_rows, n_clusters)
    if numbers.ndim == 1 and numbers.dtype.kind == "f" and (numbers == np.round(numbers)).all():
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise TypeError(f"labels must be {FORMS}, got {numbers.dtype} of shape {numbers.shape}.")
    wrong = (numbers < -1) | (numbers >= n_clusters)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"labels must be from 0 to {n_clusters - 1}, or -1 for unknown, but that of row {row} is {numbers[row]}."
        )
    return _of_masks(np.where(numbers < 0, (1 << n_clusters) - 1, 1 << np.maximum(numbers, 0)), n_clusters)


def _is_set(label: Any) -> bool:
    return label is None or isinstance(label, set | frozenset)


def _of_sets(labels: Sequence[Any], n_clusters: int) -> CredalPartition:
    frame = (1 << n_clusters) - 1
    masks = []
    for row, label in enumerate(labels):
        members = [label] if isinstance(label, int | np.integer) else label
        if members is None or (isinstance(label, int | np.integer) and label == -1):
            masks.append(frame)
            continue
        if not isinstance(members, Iterable) or not list(members):
            raise ValueError(f"labels must be {FORMS}, but that of row {row} is {label!r}.")
        masks.append(mask_of(members, n_clusters))
    return _of_masks(np.array(masks, dtype=np.int64), n_clusters)


def _of_masks(masks: IntArray, n_clusters: int) -> CredalPartition:
    """All mass of each row on one set."""
    kinds, column = np.unique(masks, return_inverse=True)
    mass = np.zeros((len(masks), len(kinds)))
    mass[np.arange(len(masks)), column.reshape(-1)] = 1.0
    return CredalPartition(mass, FocalSets(kinds, n_clusters))


def _of_probabilities(values: Any, n_rows: int, n_clusters: int) -> CredalPartition:
    """Probabilities of the clusters; a row of NaN is unknown."""
    if values.shape != (n_rows, n_clusters):
        raise ValueError(
            f"labels as probabilities must have the shape ({n_rows}, {n_clusters}), got {values.shape}; give other "
            "mass functions as a pair (mass, focal_sets)."
        )
    unknown = np.isnan(values).all(axis=1) if values.dtype.kind == "f" else np.zeros(n_rows, dtype=bool)
    probability = check_finite_matrix("labels", np.where(unknown[:, None], 0.0, values), (n_rows, n_clusters))
    masks = np.append(1 << np.arange(n_clusters), (1 << n_clusters) - 1)
    mass, focal_sets = transport(np.column_stack([probability, unknown]), masks, n_clusters)
    return CredalPartition(mass, focal_sets)


def _reliability(value: Any, n_rows: int) -> FloatArray:
    if np.ndim(value) == 0:
        return np.full(n_rows, check_real("reliability", value, 0.0, 1.0))
    shares = check_finite_matrix("reliability", value, (n_rows,))
    if ((shares < 0) | (shares > 1)).any():
        row = int(((shares < 0) | (shares > 1)).argmax())
        raise ValueError(f"reliability must be from 0 to 1, but that of row {row} is {shares[row]:g}.")
    return shares


def _some(rows: list[int]) -> str:
    shown = ", ".join(map(str, rows[:5]))
    return f"{shown} and {len(rows) - 5} more" if len(rows) > 5 else shown
