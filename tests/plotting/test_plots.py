"""Every plot draws on the Axes it is given, returns it, and holds what it is about."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba

from egmm import EGMM, CredalPartition, FocalSets
from egmm.plotting import (
    plot_approximations,
    plot_calibration,
    plot_criterion,
    plot_critical_difference,
    plot_density,
    plot_history,
    plot_masses,
    plot_model_grid,
    plot_pairs,
    plot_partition,
)
from egmm.plotting.limits import CAPTION
from egmm.plotting.partition import hull
from egmm.plotting.style import PALETTE, cluster_colours, marker_area, set_colours, set_markers

X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 0.0], [6.0, 0.0], [5.0, 1.0], [3.0, 0.5]])
MASS = np.array([[1, 0, 0]] * 3 + [[0, 1, 0]] * 3 + [[0.1, 0.1, 0.8]], dtype=float)
PARTITION = CredalPartition(MASS, FocalSets.full(2))
MEANS = np.array([[0.3, 0.3], [5.3, 0.3]])
COVARIANCE = np.array([[2.0, 0.0], [0.0, 0.5]])

ON_ONE_AXES = {
    "partition": lambda ax: plot_partition(X, PARTITION, means=MEANS, covariances=COVARIANCE, hulls="upper", ax=ax),
    "masses": lambda ax: plot_masses(PARTITION, ax=ax),
    "density": lambda ax: plot_density([0.5, 0.5], MEANS, COVARIANCE, ax=ax),
    "history": lambda ax: plot_history([-5.0, -3.0], ax=ax),
    "ranks": lambda ax: plot_critical_difference(["a", "b"], [1.2, 1.8], 0.4, ax=ax),
    "criterion": lambda ax: plot_criterion([2, 3], {"EEE": [-1.0, -2.0]}, best=(2, "EEE"), ax=ax),
    "grid": lambda ax: plot_model_grid([2, 3], {"EEE": [-1.0, np.nan]}, best=(2, "EEE"), ax=ax),
    "calibration": lambda ax: plot_calibration(PARTITION, [0, 0, 0, 1, 1, 1, 1], ax=ax),
}


@pytest.mark.parametrize("draw", ON_ONE_AXES.values(), ids=ON_ONE_AXES)
def test_plots_draw_on_the_given_axes_and_open_no_figure(draw: Any) -> None:
    _, ax = plt.subplots()
    figures = plt.get_fignums()
    assert draw(ax) is ax
    assert ax.has_data()
    assert plt.get_fignums() == figures
    ax.figure.canvas.draw()


@pytest.mark.parametrize("draw", ON_ONE_AXES.values(), ids=ON_ONE_AXES)
def test_plots_make_a_figure_where_none_is_given(draw: Any) -> None:
    assert draw(None).has_data()
    assert len(plt.get_fignums()) == 1


def test_rows_are_drawn_by_the_sets_of_the_rule() -> None:
    # The second cluster is more than a quarter as probable as the first: open by utility, sure by the heaviest set.
    partition = CredalPartition([[1, 0]] * 3 + [[0, 1]] * 3 + [[0.7, 0.3]], FocalSets.singletons(2))
    ax = plot_partition(X, partition, rule="utility", hulls="lower")
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["{1}  3", "{2}  3", "{1,2}  1"]
    assert legend.get_title().get_text() == "set by utility, rows"
    assert not any(patch.contains_point(ax.transData.transform(X[6])) for patch in ax.patches)
    assert len(plot_partition(X, partition).get_legend().get_texts()) == 2
    lower, upper = plot_approximations(X, partition, by="utility")
    assert lower.get_title() == "lower approximations: surely (utility)"
    assert [dots.get_offsets().tolist() for dots in upper.collections][-1] == [X[6].tolist()]
    panels = plot_pairs(np.column_stack([X, X[:, 0]]), partition, rule="utility", reward=0.8)
    assert "set by utility" in panels[0, 0].figure.legends[0].get_title().get_text()


def offsets(ax: Any) -> dict[str, Any]:
    """Positions of the scattered rows by the set in their legend entry."""
    return {scatter.get_label().split()[0]: scatter.get_offsets() for scatter in ax.collections}


def test_partition_scatters_each_row_once_with_its_set() -> None:
    ax = plot_partition(X, PARTITION)
    drawn = offsets(ax)
    np.testing.assert_array_equal(drawn["{1}"], X[:3])
    np.testing.assert_array_equal(drawn["{2}"], X[3:6])
    np.testing.assert_array_equal(drawn["{1,2}"], X[6:])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["{1}  3", "{2}  3", "{1,2}  1"]


@pytest.mark.parametrize("ground", ["white", "black", "none"])
def test_a_row_fades_into_the_ground_as_its_largest_mass_falls(ground: str) -> None:
    partition = CredalPartition([[1, 0, 0], [0.5, 0.3, 0.2]], FocalSets.full(2))
    ax = plot_partition(X[:2], partition, ax=plt.subplots(subplot_kw={"facecolor": ground})[1])
    colours = ax.collections[0].get_facecolor()[:, :3]
    behind = np.array(to_rgb("white" if ground == "none" else ground))
    np.testing.assert_allclose(colours[0], to_rgb(PALETTE[0]))
    np.testing.assert_allclose(colours[1], 0.625 * np.array(to_rgb(PALETTE[0])) + 0.375 * behind)
    np.testing.assert_allclose(ax.get_legend().legend_handles[0].get_facecolor()[0, :3], to_rgb(PALETTE[0]))


def brightness(colour: Any) -> float:
    return float(np.dot(to_rgb(colour), [0.2126, 0.7152, 0.0722]))


def test_nothing_is_drawn_in_black_on_a_dark_ground(rng: np.random.Generator) -> None:
    labels = np.arange(90) % 9
    rows, partition = rng.normal(size=(90, 2)), CredalPartition.from_labels(labels)
    lines = {f"model {i}": [-2.0, -1.0] for i in range(9)}
    doubtful = {name: [False, True] for name in lines}
    with plt.style.context("dark_background"):
        parted = plot_partition(rows, partition, means=rows[:9], covariances=np.eye(2))
        bars = plot_masses(partition)
        curves = plot_criterion([2, 3], lines, best=(2, "model 0"), doubtful=doubtful)
        grid = plot_model_grid([2, 3], lines, doubtful=doubtful)
        ranks = plot_critical_difference(["A", "B"], [1.2, 1.8], 0.4)
        density = plot_density([1.0], [[0.0, 0.0]], np.eye(2))
    assert min(brightness(scatter.get_facecolor()[0]) for scatter in parted.collections) > 0.1
    assert min(brightness(line.get_color()) for line in parted.lines if line.get_marker() != "X") > 0.1
    numbers = [text for text in parted.texts if text.get_gid() != "caption"]
    assert {brightness(text.get_color()) for text in numbers} == {0.0}  # of centres, in white boxes
    assert min(brightness(text.get_color()) for text in parted.texts if text not in numbers) > 0.5
    assert min(brightness(bar[0].get_facecolor()) for bar in bars.containers) > 0.1
    assert min(brightness(line.get_markeredgecolor()) for line in curves.lines) > 0.1
    assert min(brightness(line.get_color()) for line in ranks.lines) > 0.1
    assert min(brightness(colour) for colour in density.collections[0].get_edgecolor()) > 0.1
    assert {text.get_color() for text in grid.texts if text.get_position()[0] == 1} == {"white"}  # hatched cells


def test_a_legend_fits_into_a_small_figure(rng: np.random.Generator) -> None:
    focal = FocalSets.full(4)
    partition = CredalPartition(np.eye(15), focal)
    for draw in (
        lambda ax: plot_partition(rng.normal(size=(15, 2)), partition, ax=ax),
        lambda ax: plot_masses(partition, ax=ax),
    ):
        figure, ax = plt.subplots(figsize=(3.0, 2.2), layout="constrained")
        draw(ax)
        figure.canvas.draw()
        assert ax.get_legend().get_window_extent().height <= figure.bbox.height


def test_ellipses_are_two_standard_deviations_wide() -> None:
    ax = plot_partition(X, PARTITION, means=MEANS, covariances=COVARIANCE, legend=False)
    curves = [line.get_xydata() for line in ax.lines if len(line.get_xydata()) > 50]
    assert len(curves) == 2
    for curve, mean in zip(curves, MEANS, strict=True):
        distance = np.sqrt(np.sum((curve - mean) @ np.linalg.inv(COVARIANCE) * (curve - mean), axis=1))
        np.testing.assert_allclose(distance, 2.0)


def test_each_cluster_may_have_its_own_covariance() -> None:
    ax = plot_partition(X, PARTITION, means=MEANS, covariances=np.stack([COVARIANCE, 4 * COVARIANCE]), legend=False)
    first, second = (line.get_xydata() for line in ax.lines if len(line.get_xydata()) > 50)
    np.testing.assert_allclose(np.ptp(second, axis=0), 2.0 * np.ptp(first, axis=0))


def test_one_feature_is_drawn_against_nonspecificity() -> None:
    ax = plot_partition(X[:, :1], PARTITION, feature_names=["dose"], means=MEANS[:, :1])
    assert ax.get_xlabel() == "dose"
    np.testing.assert_allclose(offsets(ax)["{1,2}"], [[3.0, 0.8]])


@pytest.mark.parametrize("variances", [[[4.0]], [[[4.0]], [[0.25]]]], ids=["shared", "own"])
def test_centres_of_one_feature_have_intervals_of_two_standard_deviations(variances: Any) -> None:
    ax = plot_partition(X[:, :1], PARTITION, means=MEANS[:, :1], covariances=variances)
    crosses = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "X"]
    assert crosses[::3] == [[0.3, 0.0], [5.3, 0.0]]  # each in three layers
    bars = [bar.get_segments()[0] for container in ax.containers for bar in container.lines[2]]
    half = 2.0 * np.sqrt(np.broadcast_to(np.ravel(variances), 2))
    wanted = [[[mean - reach, 0.0], [mean + reach, 0.0]] for mean, reach in zip(MEANS[:, 0], half, strict=True)]
    np.testing.assert_allclose(bars, wanted)


def test_a_hundred_thousand_rows_are_drawn_in_seconds_as_an_image(rng: np.random.Generator) -> None:
    labels = rng.integers(3, size=100_000)
    rows = rng.normal(size=(100_000, 2)) + 5.0 * labels[:, None]
    ax = plot_partition(rows, CredalPartition.from_labels(labels))
    assert all(scatter.get_rasterized() for scatter in ax.collections)
    assert sum(len(scatter.get_offsets()) for scatter in ax.collections) == 100_000
    assert ax.collections[0].get_sizes()[0] < 1.0
    ax.figure.canvas.draw()


def test_a_legend_of_many_sets_names_the_largest(rng: np.random.Generator) -> None:
    focal = FocalSets.full(6)
    partition = CredalPartition(np.eye(len(focal))[np.r_[np.arange(63), np.full(5, 17)]], focal)
    legend = plot_partition(rng.normal(size=(68, 2)), partition).get_legend()
    assert legend.get_title().get_text() == "14 of 63 sets, rows"
    assert f"{focal.labels[17]}  6" in [text.get_text() for text in legend.get_texts()]


def test_rows_of_the_empty_set_are_grey_crosses() -> None:
    ax = plot_partition(X[:2], CredalPartition.from_labels([0, -1], 1))
    assert set(offsets(ax)) == {"{1}", "∅"}


def test_partition_and_rows_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="X and partition must have the same number of rows, got 2 and 7"):
        plot_partition(X[:2], PARTITION)


def test_unknown_hulls_are_named() -> None:
    with pytest.raises(ValueError, match="hulls must be one of 'lower', 'upper'; got 'middle'"):
        plot_partition(X, PARTITION, hulls="middle")


def test_formulas_in_names_stay_text() -> None:
    ax = plot_partition(X, PARTITION, feature_names=["$\\alpha$ price", "b" * 90])
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "\\$\\alpha\\$ price"
    assert len(ax.get_ylabel()) == 40


def test_lower_panel_leaves_ambiguous_rows_out_and_upper_shows_them_in_both() -> None:
    lower, upper = plot_approximations(X, PARTITION, means=MEANS)
    corners = [{tuple(corner) for corner in patch.get_xy()} for ax in (lower, upper) for patch in ax.patches]
    ambiguous = tuple(X[6])
    assert [ambiguous in hull for hull in corners] == [False, False, True, True]


def test_approximations_by_dominance_differ_from_those_by_mass() -> None:
    partition = CredalPartition([[0.4, 0.35, 0.25], [1, 0, 0]], FocalSets.full(2))
    for by, expected in (("mass", 2), ("dominance", 1)):
        lower, _ = plot_approximations(X[:2], partition, by=by)
        assert sum(len(scatter.get_offsets()) for scatter in lower.collections[1:]) == expected


def test_two_axes_are_needed_for_two_panels() -> None:
    with pytest.raises(ValueError, match="axes must be 2 Axes, got 1"):
        plot_approximations(X, PARTITION, axes=[plt.subplots()[1]])


def test_hulls_of_points_on_a_line_and_of_none() -> None:
    line = np.array([[0.0, 0.0], [2.0, 2.0], [1.0, 1.0]])
    assert {tuple(corner) for corner in hull(line)} == {(0.0, 0.0), (2.0, 2.0)}
    assert len(hull(np.empty((0, 2)))) == 0
    assert len(hull(np.zeros((1, 2)))) == 2


def test_bars_of_an_object_are_its_masses() -> None:
    ax = plot_masses(PARTITION)
    bars = [[bar.get_height() for bar in container] for container in ax.containers]
    np.testing.assert_allclose(np.array(bars).T, MASS, atol=1e-15)
    top = [bar.get_y() + bar.get_height() for bar in ax.containers[-1]]
    np.testing.assert_allclose(top, 1.0)
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(i) for i in range(1, 8)]


def test_bars_of_chosen_rows_with_names() -> None:
    ax = plot_masses(PARTITION, [6, 0], names=["edge", "core"])
    assert [bar.get_height() for bar in ax.containers[2]] == [0.8, 0.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["edge", "core"]


def test_of_many_objects_the_most_ambiguous_are_drawn(rng: np.random.Generator) -> None:
    partition = CredalPartition(rng.dirichlet(np.ones(3), size=500), FocalSets.full(2))
    ax = plot_masses(partition)
    shown = [bar.get_height() for bar in ax.containers[2]]
    np.testing.assert_allclose(shown, np.sort(partition.mass[:, 2])[::-1][:60])
    assert ax.get_xlabel() == "60 rows of 500, least sure first"


def test_bars_of_a_large_table_show_all_degrees_of_doubt(rng: np.random.Generator) -> None:
    # Half of the rows are sure; the others have masses of 0.1 to 1 on the set of both clusters, thousands of them 1.
    open_mass = np.concatenate([np.zeros(5000), np.ones(3000), np.linspace(0.1, 1, 2000)])
    mass = np.column_stack([1 - open_mass, np.zeros(10_000), open_mass])
    ax = plot_masses(CredalPartition(mass[rng.permutation(10_000)], FocalSets.full(2)))
    shown = np.array([bar.get_height() for bar in ax.containers[2]])
    assert len(shown) == 60
    assert (np.diff(shown) <= 0).all()
    assert (shown[0], shown[-1]) == (1.0, pytest.approx(0.1))
    assert (shown == 1).sum() == pytest.approx(36, abs=1)  # three of five unsure rows
    assert ax.get_xlabel() == "60 rows of 5000 with nonspecificity above 0.05, least sure first"


def test_sets_with_the_most_rows_have_different_markers() -> None:
    focal = FocalSets.pairs(8)
    metas = np.flatnonzero(focal.cardinalities > 1)
    counts = np.zeros(len(focal))
    counts[metas[[0, 14, 28]]] = 5, 9, 7  # one shape each where they are dealt by number
    assert len({set_markers(focal)[j] for j in metas[[0, 14, 28]]}) == 1
    assert len({set_markers(focal, counts)[j] for j in metas[[0, 14, 28]]}) == 3


def test_a_legend_of_many_sets_of_masses_fits_beside_the_bars() -> None:
    focal = FocalSets.pairs(12)
    mass = np.full((20, len(focal)), 1 / len(focal))
    mass[:, focal.index_of({3})] += 1
    ax = plot_masses(CredalPartition(mass / mass.sum(axis=1, keepdims=True), focal))
    ax.figure.canvas.draw()
    box, page = ax.get_legend().get_window_extent(), ax.figure.bbox
    assert box.height <= page.height
    assert box.width < page.width / 2
    assert ax.get_window_extent().height > page.height / 2
    assert ax.get_legend().get_title().get_text() == f"28 of {len(focal)} sets"
    assert "{4}" in [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("rows", [[7], [-1], [], [0.5]])
def test_bars_need_rows_that_are_there(rows: list[float]) -> None:
    with pytest.raises(ValueError, match="rows must hold at least one number from 0 to 6"):
        plot_masses(PARTITION, rows)


def test_bars_need_as_many_names_as_objects() -> None:
    with pytest.raises(ValueError, match="names must have 7 entries, one per row; got 1"):
        plot_masses(PARTITION, names=["a"])


@pytest.mark.parametrize("n_rows", [1, 60])
def test_sets_of_several_clusters_are_hatched_by_their_size(n_rows: int) -> None:
    focal = FocalSets.full(3)
    ax = plot_masses(CredalPartition(np.full((n_rows, 7), 1 / 7), focal))
    drawn = {bars.get_label(): bars.patches[0].get_hatch() for bars in ax.containers}
    assert [drawn[label] for label in ("{1}", "{2}", "{3}")] == [None] * 3
    assert drawn["{1,2}"] == drawn["{2,3}"]
    assert len({drawn["{1}"], drawn["{1,2}"], drawn["{1,2,3}"]}) == 3


def test_contours_of_one_gaussian_hold_their_share_of_it() -> None:
    ax = plot_density([1.0], [[0.0, 0.0]], COVARIANCE)
    paths = [path.vertices for path in ax.collections[0].get_paths() if len(path.vertices)]
    distances = sorted(np.mean(np.sum(path**2 / np.diag(COVARIANCE), axis=1)) for path in paths)
    # P(chi2 with 2 degrees <= r2) = 1 - exp(-r2 / 2).
    np.testing.assert_allclose(1 - np.exp(-np.array(distances) / 2), [0.1, 0.3, 0.5, 0.7, 0.9, 0.99], atol=0.01)
    # Each is labelled with its share; the caption names the quantity.
    captions = [text.get_text() for text in ax.texts if text.get_gid() == CAPTION]
    assert captions == ["share of the mixture inside each contour"]
    labels = [text for text in ax.texts if text.get_gid() != CAPTION]
    written = {text.get_text(): np.sum(np.square(text.get_position()) / np.diag(COVARIANCE)) for text in labels}
    assert sorted(written) == ["10 %", "30 %", "50 %", "70 %", "90 %", "99 %"]
    held = [100 * (1 - np.exp(-written[text] / 2)) for text in written]
    np.testing.assert_allclose(held, [float(text.split()[0]) for text in written], atol=2)


def test_contours_hold_their_share_beside_a_cluster_narrower_than_a_cell_of_the_grid(rng: np.random.Generator) -> None:
    means, spreads = np.array([[0.0, 0.0], [6.0, 6.0]]), (1.0, 0.02)
    ax = plot_density([0.5, 0.5], means, np.array([sd**2 * np.eye(2) for sd in spreads]))
    which = rng.integers(2, size=20_000)
    rows = means[which] + np.take(spreads, which)[:, None] * rng.normal(size=(20_000, 2))
    density = sum(
        0.5 / (2 * np.pi * sd**2) * np.exp(-((rows - mean) ** 2).sum(axis=1) / (2 * sd**2))
        for mean, sd in zip(means, spreads, strict=True)
    )
    inside = [(density >= level).mean() for level in ax.collections[0].levels[::-1]]
    np.testing.assert_allclose(inside, [0.1, 0.3, 0.5, 0.7, 0.9, 0.99], atol=0.015)


def test_history_title_says_whether_it_converged() -> None:
    assert plot_history([-3.0, -2.0], converged=False).get_title() == "not converged in 1 step"
    np.testing.assert_array_equal(plot_history([-3.0, -2.0]).lines[0].get_ydata(), [-3.0, -2.0])


def test_critical_difference_band_is_around_the_control() -> None:
    ax = plot_critical_difference(["A", "B", "C", "D"], [2.5, 1.0, 3.0, 3.5], 1.2, control="A")
    band = ax.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose([band[:, 0].min(), band[:, 0].max()], [1.3, 3.7])
    with pytest.raises(ValueError, match="control must be one of 'A', 'B'; got 'Z'"):
        plot_critical_difference(["A", "B"], [1.0, 2.0], 1.0, control="Z")


def test_a_critical_difference_beyond_the_ranks_is_drawn_whole() -> None:
    ax = plot_critical_difference(["A", "B", "C"], [1.2, 1.9, 2.9], 5.0)
    assert ax.get_xlim()[1] > 6.0


def test_bars_join_algorithms_that_do_not_differ() -> None:
    ax = plot_critical_difference(["A", "B", "C", "D"], [1.0, 1.5, 2.3, 4.0], 1.0)
    joined = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 4]
    np.testing.assert_allclose(joined, [[0.95, 1.55], [1.45, 2.35]])


def test_degenerate_fits_are_hollow_and_named() -> None:
    values = {"EEE": [-10.0, -5.0, -1.0]}
    ax = plot_criterion([2, 3, 4], values, best=(3, "EEE"), doubtful={"EEE": [False, False, True]})
    hollow = [line for line in ax.lines if to_rgba(line.get_markerfacecolor()) == (1, 1, 1, 1)]
    np.testing.assert_array_equal(hollow[0].get_xydata(), [[4, -1.0]])
    assert ax.get_title() == "hollow: degenerate, chosen only if all are"


def overlapping(texts: Any) -> list[tuple[str, str]]:
    """Pairs of texts, drawn, of which one covers a part of the other."""
    shown = [text for text in texts if text.get_text()]
    shown[0].figure.canvas.draw()
    boxes = [text.get_window_extent() for text in shown]
    return [
        (shown[i].get_text(), shown[j].get_text())
        for i in range(len(boxes))
        for j in range(i)
        if boxes[i].overlaps(boxes[j])
    ]


def test_many_numbers_of_clusters_do_not_run_into_each_other() -> None:
    ax = plot_criterion(range(2, 31), {"EEE": np.linspace(-1000, -10, 29)})
    assert overlapping(ax.get_xticklabels()) == []


@pytest.mark.parametrize("given", [True, False], ids=["given axes", "new figure"])
def test_long_numbers_of_a_grid_stay_in_their_cells(given: bool) -> None:
    values = {model: np.linspace(-98765432.1, -12345678.9, 9) for model in ("EEE", "VVV")}
    ax = plot_model_grid(range(1, 10), values, ax=plt.subplots()[1] if given else None)
    assert overlapping(ax.texts) == []


def test_grid_frames_the_best_and_writes_every_value() -> None:
    values = {"EEE": [-10.0, -5.0], "EII": [-7.0, np.nan]}
    ax = plot_model_grid([2, 3], values, best=(3, "EEE"))
    assert sorted(text.get_text() for text in ax.texts) == ["-10.0", "-5.0", "-7.0", "failed"]
    frame = ax.lines[0].get_xydata()
    np.testing.assert_allclose(frame.mean(axis=0), [0.906, -0.094], atol=1e-9)


def test_grid_hatches_degenerate_fits_and_leaves_them_out_of_the_colours() -> None:
    values = {"EEE": [-10.0, -5.0], "VVV": [-7.0, 90.0]}
    ax = plot_model_grid([2, 3], values, best=(3, "EEE"), doubtful={"EEE": [False, False], "VVV": [False, True]})
    order = ax.images[0].get_array()
    assert order.mask.tolist() == [[False, False], [False, True]]
    assert order.max() == order[0, 1]
    (hatched,) = ax.patches
    assert hatched.get_hatch()
    np.testing.assert_allclose(hatched.get_xy()[0], [0.5, 0.5])
    assert ax.get_title() == "EBIC (higher is better)\nhatched: degenerate, chosen only if all are"
    assert "hatched" not in plot_model_grid([2, 3], values).get_title()


def test_pairs_have_a_panel_per_pair_of_features(rng: np.random.Generator) -> None:
    labels = np.arange(90) % 3
    rows = rng.normal(size=(90, 8)) + labels[:, None]
    axes = plot_pairs(rows, CredalPartition.from_labels(labels), feature_names=list("abcdefgh"))
    assert axes.shape == (6, 6)
    np.testing.assert_array_equal(axes[4, 1].collections[0].get_offsets(), rows[labels == 0][:, [1, 4]])
    assert [ax.get_ylabel() for ax in axes[:, 0]] == list("abcdef")
    (legend,) = axes[0, 0].figure.legends
    assert [text.get_text() for text in legend.texts] == ["{1}  30", "{2}  30", "{3}  30"]
    axes[0, 0].figure.canvas.draw()
    for row, scaled in zip(axes, [1, 0, 0, 0, 0, 0], strict=True):
        written = [any(tick.label1.get_visible() for tick in ax.yaxis.get_major_ticks()) for ax in row]
        assert written.index(True) == scaled
    assert plot_pairs(rows, CredalPartition.from_labels(labels), features=[7, 2]).shape == (2, 2)
    with pytest.raises(ValueError, match="features must be an integer from 0 to 7, got 8"):
        plot_pairs(rows, CredalPartition.from_labels(labels), features=[8])


def test_long_names_of_features_do_not_cover_each_other(rng: np.random.Generator) -> None:
    names = [f"{which} measurement with a name far wider than its $panel$" for which in ("first", "second", "third")]
    labels = np.arange(30) % 3
    axes = plot_pairs(rng.normal(size=(30, 3)), CredalPartition.from_labels(labels), feature_names=names)
    assert overlapping([ax.xaxis.label for ax in axes[-1]]) == []
    assert overlapping([ax.yaxis.label for ax in axes[:, 0]]) == []
    assert axes[-1, 0].get_xlabel().replace("\n", " ").startswith("first measurement with a name far")


def test_panels_of_many_clusters_and_long_names_stand_close_in_a_given_figure(rng: np.random.Generator) -> None:
    labels = np.arange(60) % 12
    names = [f"a name of a feature that is far too long, {k}" for k in range(6)]
    figure = plt.figure(figsize=(12, 11), layout="constrained")
    rows = rng.normal(size=(60, 6))
    axes = plot_pairs(rows, CredalPartition.from_labels(labels), feature_names=names, figure=figure)
    assert overlapping([ax.xaxis.label for ax in axes[-1]]) == []
    assert overlapping([ax.yaxis.label for ax in axes[:, 0]]) == []
    bottoms = [ax.get_position().y0 for ax in axes[:, 0]]
    np.testing.assert_allclose(np.diff(bottoms), np.diff(bottoms).mean(), rtol=0.02)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == [f"{{{k}}}  5" for k in range(1, 13)]
    assert legend.get_window_extent().x0 > max(ax.get_window_extent().x1 for ax in axes[:, -1])


def test_calibration_of_certain_and_right_clusters_is_perfect() -> None:
    ax = plot_calibration(CredalPartition.from_labels([0, 1, 1, 0]), ["b", "a", "a", "b"])
    dots = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"]
    assert dots == [[0.0, 0.0], [1.0, 1.0]]


def lightness_and_hue(colours: Any) -> Any:
    """CIELAB coordinates of sRGB colours, in which equal distances look about equal."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(linear @ to_xyz.T / [0.9505, 1.0, 1.089], 1e-4)).T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_colours_of_many_clusters_differ() -> None:
    colours = cluster_colours(20)
    assert len({tuple(colour) for colour in colours.round(3)}) == 20
    assert colours.min() >= 0
    assert colours.max() <= 1


def test_colours_of_sixteen_clusters_are_told_apart() -> None:
    at = lightness_and_hue(cluster_colours(16))
    distances = np.linalg.norm(at[:, None] - at, axis=2)[np.triu_indices(16, 1)]
    assert distances.min() > 20  # two colours of a legend below about 10 are taken for one another


def test_a_set_has_the_mean_colour_of_its_clusters_and_its_own_marker() -> None:
    focal = FocalSets.full(3)
    np.testing.assert_allclose(set_colours(focal)[focal.index_of({0, 2})], cluster_colours(3)[[0, 2]].mean(axis=0))
    metas = [marker for marker, size in zip(set_markers(focal), focal.cardinalities, strict=True) if size > 1]
    assert len(set(metas)) == len(metas)


def test_markers_shrink_with_the_number_of_rows() -> None:
    areas = [marker_area(n) for n in (1, 50, 400, 401, 1000, 10_000, 100_000)]
    assert areas == sorted(areas, reverse=True)


@pytest.mark.parametrize(
    "draw",
    [
        lambda model: plot_partition(X, model),
        lambda model: plot_approximations(X, model),
        lambda model: plot_pairs(X, model),
        plot_masses,
        lambda model: plot_calibration(model, [0, 1]),
    ],
)
def test_a_model_in_place_of_its_partition_is_named(draw: Any) -> None:
    with pytest.raises(TypeError, match=r"partition must be a CredalPartition, got EGMM; .* a fitted model's"):
        draw(EGMM())
    assert plt.get_fignums() == []


LINES = {"EEE": [-2.0, -1.0]}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_partition(X, PARTITION, means=MEANS[:1]), r"means must have shape \(2, 2\), got \(1, 2\)"),
        (lambda: plot_approximations(X, PARTITION, means=np.zeros((2, 3))), r"means must have shape \(2, 2\), got"),
        (
            lambda: plot_partition(X, PARTITION, means=MEANS, covariances=np.eye(3)),
            r"covariances must have shape \(2, 2\)",
        ),
        (lambda: plot_pairs(X, PARTITION, covariances=np.zeros((3, 2, 2))), r"covariances must have shape \(2, 2, 2\)"),
        (lambda: plot_pairs(X, PARTITION, features=[]), "features must hold at least one feature"),
        (lambda: plot_partition(X, PARTITION, view=(0,)), r"view must be two features by number, .* got \(0,\)"),
        (lambda: plot_partition(X, PARTITION, view=(1, 1)), "view must be two distinct features, got 1 twice"),
        (lambda: plot_density([0.5, 0.5], MEANS, np.zeros((2, 2))), "covariances must be positive definite"),
        (lambda: plot_density([1.5, -0.5], MEANS, COVARIANCE), "weights must not be negative, and not all zero"),
        (lambda: plot_criterion([2, 3], LINES, best=(4, "EEE")), r"best must be .* got \(4, 'EEE'\)"),
        (lambda: plot_criterion([2, 3], {}), "n_clusters and values must not be empty"),
        (lambda: plot_model_grid([2, 3, 4], LINES), "values of EEE must have 3 entries, .* got 2"),
        (
            lambda: plot_model_grid([2, 3], LINES, doubtful={"VVV": [True, True]}),
            "doubtful must have the models of values",
        ),
    ],
)
def test_what_cannot_be_drawn_is_named(draw: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


def test_pairs_of_a_constant_column_far_from_zero_are_drawn() -> None:
    rows = np.column_stack([X[:, 0], np.full(len(X), 1.7e18)])
    assert plot_pairs(rows, PARTITION).shape == (2, 2)
