"""The delta-Bel plot shows the data of the graph."""

import numpy as np
import pytest
from matplotlib.text import Text

from checks import three_groups
from egmm import BPEC, BootGMM
from egmm.plotting import plot_delta_bel

plt = pytest.importorskip("matplotlib.pyplot", reason="needs the plot extra")


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_every_row_is_drawn_once_and_the_peaks_are_marked(ax):
    bpec = BPEC(n_neighbors=20).fit(three_groups())
    assert plot_delta_bel(bpec, ax) is ax
    rows, peaks = (collection.get_offsets() for collection in ax.collections)
    graph = bpec.decision_graph_
    points = np.column_stack([graph.belief, graph.delta])
    assert {tuple(p) for p in peaks} == {tuple(p) for p in points[graph.peaks]}
    assert sorted(map(tuple, np.vstack([rows, peaks]))) == sorted(map(tuple, points))
    assert [text.get_text() for text in ax.texts] == ["{1}", "{2}", "{3}"]
    assert "Bel" in ax.get_xlabel()
    assert "δ" in ax.get_ylabel()


def test_names_of_peaks_of_like_height_do_not_cover_each_other(ax):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(800, 2)) + 4 * rng.normal(size=(8, 2)).repeat(100, axis=0)
    plot_delta_bel(BPEC(8).fit(rows), ax)
    ax.figure.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # the name without its leader
    assert len(boxes) == 8
    assert not any(boxes[i].overlaps(boxes[j]) for i in range(8) for j in range(i))


def test_a_new_figure_without_axes():
    drawn = plot_delta_bel(BPEC(n_neighbors=20).fit(three_groups()))
    assert drawn.get_legend() is not None
    plt.close(drawn.figure)


def test_names_stop_where_they_would_cover_each_other(ax):
    plot_delta_bel(BPEC(20, n_neighbors=10, distance="euclidean", focal_sets="simple").fit(three_groups()), ax)
    assert len(ax.texts) == 12


@pytest.mark.parametrize("bpec", [BPEC(), BPEC(init=[[0.0, 0.0], [6.0, 0.0]]).fit(three_groups())])
def test_no_graph_no_plot(bpec, ax):
    with pytest.raises(ValueError, match="bpec has no delta-Bel graph; fit it with init='peaks'"):
        plot_delta_bel(bpec, ax)


def test_another_algorithm_has_no_graph(ax):
    with pytest.raises(TypeError, match="bpec must be a BPEC, got BootGMM"):
        plot_delta_bel(BootGMM(), ax)
