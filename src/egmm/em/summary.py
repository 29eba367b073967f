"""Results of the passes before fits start: moments, units, a sample, and labels of the sample."""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egmm._checks import IntArray, check_weight
from egmm.em.completion import Completion, DataMoments, data_moments
from egmm.em.labels import component_labels, kmeans_labels, random_labels
from egmm.em.noise import Box, bounding_box
from egmm.em.sample import Sample, draw_sample
from egmm.em.statistics import Moments, Units
from egmm.rows.source import RowSource


@dataclass(frozen=True)
class DataSummary:
    """Results of the passes before fits start, shared by all fits."""

    shape: tuple[int, int]
    moments: DataMoments
    units: Units
    sample: Sample | None
    """Rows that named starts look at."""
    box: Box | None
    """Box of the rows, for models with noise."""
    random_state: Any
    """State of the random numbers that named starts draw."""
    _labellings: dict[Any, Any] = field(default_factory=dict)
    _labelling: threading.Lock = field(default_factory=threading.Lock)

    @property
    def total(self) -> Moments:
        """Moments of all rows; missing cells are estimated."""
        return self.moments.whole

    @property
    def has_missing(self) -> bool:
        """Whether any cell is missing."""
        return self.moments.has_missing

    @property
    def completion(self) -> Completion | None:
        """What completes rows for starts, where cells are missing."""
        return Completion.of(self.total) if self.has_missing else None

    def completed(self, sample: Sample) -> Sample:
        """A sample without missing cells, for starts."""
        completion = self.completion
        return sample if completion is None else Sample(completion(sample.rows), sample.weights)

    def labellings(self, n_clusters: int, init: str, n_init: int, part: Sample) -> list[list[IntArray]]:
        """Labels of a part of the sample for every start; models of as many clusters have the same."""
        with self._labelling:
            asked = (n_clusters, init, n_init, hash(part.rows.tobytes()))
            if asked not in self._labellings:
                self._labellings[asked] = self._label(*asked[:3], part)
            found = self._labellings[asked]
        if isinstance(found, ValueError):
            raise found
        return found

    def _label(self, n_clusters: int, init: str, n_init: int, part: Sample) -> list[list[IntArray]] | ValueError:
        random = np.random.RandomState(0)
        random.set_state(self.random_state)
        part = self.completed(part)
        try:
            if init == "mixture":
                return [component_labels(part, n_clusters, int(random.randint(2**31))) for _ in range(n_init)]
            label = {"kmeans": kmeans_labels, "random": random_labels}[init]
            return [[label(part, n_clusters, random)] for _ in range(n_init)]
        except ValueError as error:
            return error


def summarise(
    rows: RowSource,
    random: np.random.RandomState,
    *,
    diagonal: bool = False,
    with_sample: bool = True,
    with_box: bool = False,
) -> DataSummary:
    """Look at the rows: their moments, without products of features where models are `diagonal`, sample and box."""
    total = data_moments(rows, diagonal=diagonal)
    check_weight(total.whole.weight)
    seed = int(random.randint(2**31))
    sample = draw_sample(rows, seed) if with_sample else None
    box = rows.reduce(bounding_box) if with_box else None
    return DataSummary(rows.shape, total, Units.of(total.whole), sample, box, random.get_state())


def check_distinct(sample: Sample, n_clusters: int) -> None:
    """Refuse more clusters than there are distinct rows."""
    if len(sample.rows) < n_clusters:
        raise ValueError(
            f"n_clusters={n_clusters} but X has only {len(sample.rows)} distinct rows; use fewer clusters."
        )
