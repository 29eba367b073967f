"""Extent of a reproduction: the paper's ten runs of everything, or a quick version."""

from dataclasses import asdict, dataclass
from typing import Any

from egmm.reproduce.paper import datasets

SIMULATED = ("Diamond", "Two-class", "Four-class")
"""The paper's examples, in its order."""


@dataclass(frozen=True)
class Plan:
    """What a reproduction runs.

    Attributes
    ----------
    runs : int
        Number of runs of each algorithm on each real data set; run r has seed r.
    draws : int
        Number of simulated sets of each kind; draw r has seed r.
    datasets : tuple of str
        Real data sets, by the paper's names.
    counts : tuple of int
        Numbers of clusters to try if it is unknown.
    n_bootstrap : int
        Number of bootstrap replicates of bootGMM.
    slow_runs : int
        Number of runs of bootGMM on Magic with unknown number of clusters, each taking minutes.
    brains : int
        Number of brain phantoms, each with its own folds, lesions and noise.
    brain_shape : tuple of int
        Their size.
    seconds_to_repeat : float
        CPU times of one algorithm on one data set are averaged over at most `runs` fits and about this many seconds.
    data : str or None
        Directory of the data files; None uses the sources of `load_uci`.

    Examples
    --------
    >>> Plan().runs, Plan.quick().runs
    (10, 2)
    """

    runs: int = 10
    draws: int = 50
    datasets: tuple[str, ...] = tuple(datasets())
    counts: tuple[int, ...] = tuple(range(2, 9))
    n_bootstrap: int = 500
    slow_runs: int = 3
    brains: int = 5
    brain_shape: tuple[int, int] = (217, 181)
    seconds_to_repeat: float = 5.0
    data: str | None = None

    @classmethod
    def quick(cls, data: str | None = None) -> "Plan":
        """Plan for a quick version of everything in two minutes: two runs of three small sets.

        >>> Plan.quick().datasets
        ('Iris', 'Seeds', 'Wine')
        """
        return cls(
            runs=2,
            draws=2,
            datasets=("Iris", "Seeds", "Wine"),
            counts=(2, 3, 4),
            n_bootstrap=50,
            brains=1,
            brain_shape=(96, 80),
            seconds_to_repeat=0.2,
            data=data,
        )

    @property
    def is_full(self) -> bool:
        """Whether everything is run as in the paper.

        >>> Plan(data="somewhere").is_full, Plan.quick().is_full
        (True, False)
        """
        return self.settings() == Plan().settings()

    def settings(self) -> dict[str, Any]:
        """Settings, without the data directory.

        >>> sorted(Plan().settings())[:3]
        ['brain_shape', 'brains', 'counts']
        """
        return {key: value for key, value in asdict(self).items() if key != "data"}
