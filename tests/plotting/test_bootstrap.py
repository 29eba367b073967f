"""The calibration plot shows the intervals and what was fitted to them."""

import numpy as np
import pytest

from checks import three_groups
from egmm import BPEC, BootGMM
from egmm.plotting import plot_bootstrap_calibration

plt = pytest.importorskip("matplotlib.pyplot", reason="needs the plot extra")


@pytest.fixture(scope="module")
def bootgmm():
    return BootGMM(3, n_bootstrap=30, covariance="EEE", random_state=0).fit(three_groups()[::2])


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_every_pair_is_drawn_with_both_bounds(bootgmm, ax):
    assert plot_bootstrap_calibration(bootgmm, ax) is ax
    for side, collection in enumerate(ax.collections):
        points = np.column_stack([bootgmm.intervals_[:, side], bootgmm.fitted_intervals_[:, side]])
        assert sorted(map(tuple, np.asarray(collection.get_offsets()))) == sorted(map(tuple, points))
    belief, plausibility = (text.get_text() for text in ax.get_legend().get_texts())
    assert belief.startswith("belief")
    assert plausibility.startswith("plausibility")
    assert "90 % bootstrap interval" in ax.get_xlabel()


def test_many_pairs_are_thinned_evenly(bootgmm, ax, monkeypatch):
    monkeypatch.setattr("egmm.plotting.bootstrap.MAX_PAIRS", 100)
    plot_bootstrap_calibration(bootgmm, ax)
    drawn = np.asarray(ax.collections[0].get_offsets())
    assert 50 < len(drawn) <= 100
    assert np.ptp(drawn[:, 0]) == pytest.approx(np.ptp(bootgmm.intervals_[:, 0]), abs=0.05)


def test_a_new_figure_without_axes(bootgmm):
    drawn = plot_bootstrap_calibration(bootgmm)
    assert drawn.get_legend() is not None
    plt.close(drawn.figure)


def test_no_fit_no_plot(ax):
    with pytest.raises(ValueError, match="bootgmm has no intervals; fit it first"):
        plot_bootstrap_calibration(BootGMM(), ax)
    with pytest.raises(TypeError, match="bootgmm must be a BootGMM, got BPEC"):
        plot_bootstrap_calibration(BPEC(), ax)
