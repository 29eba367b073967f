import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from egmm import CredalPartition
from egmm.plotting import plot_risk_coverage

TRUTH = ["a", "a", "b", "b"]
PROBABILITY = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]


def test_a_line_per_partition_shows_risk_against_coverage():
    ax = Figure().subplots()
    partitions = {"given": CredalPartition.from_probabilities(PROBABILITY), "sure of all": np.eye(2)[[0, 0, 1, 0]]}
    assert plot_risk_coverage(TRUTH, partitions, ax=ax) is ax
    given, sure = ax.lines
    np.testing.assert_allclose(given.get_xdata(), [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(given.get_ydata(), [0, 0, 0, 0.25])
    np.testing.assert_allclose(sure.get_ydata(), 0.25)  # all equally sure: no order to gain from
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "given (AURC 0.062)",
        "sure of all (AURC 0.250)",
    ]


def test_partitions_come_with_names():
    with pytest.raises(TypeError, match="partitions must map names to partitions, got list"):
        plot_risk_coverage(TRUTH, [PROBABILITY])
