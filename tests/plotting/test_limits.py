"""Limits that a few far rows do not decide, and what captions say of the plane, the ellipses and the rows outside."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from egmm import EGMM, CredalPartition, FocalSets
from egmm.datasets import make_diamond, make_two_class
from egmm.plotting import (
    plot_approximations,
    plot_density,
    plot_masses,
    plot_pairs,
    plot_partition,
    plot_uncertainty,
    view_of,
)
from egmm.plotting.limits import robust_range
from egmm.plotting.style import bar_colours, cluster_colours


def two_groups(rng: np.random.Generator, n_rows: int, n_far: int = 0) -> tuple[np.ndarray, CredalPartition]:
    labels = np.arange(n_rows) % 2
    X = rng.normal(size=(n_rows, 2)) + 6.0 * labels[:, None]
    X[:n_far] = 1e4
    return X, CredalPartition.from_labels(labels)


def caption(ax) -> str:
    return "".join(text.get_text() for text in ax.texts if text.get_gid() == "caption")


def test_far_rows_are_left_outside_and_counted(rng) -> None:
    X, partition = two_groups(rng, 400, n_far=7)
    ax = plot_partition(X, partition)
    assert ax.get_xlim()[1] < 30
    assert "7 rows outside" in caption(ax)
    assert "7 rows outside" in caption(plot_approximations(X, partition)[0])
    legend = plot_pairs(X, partition)[0, 0].figure.legends[0]
    assert "7 rows outside" in legend.get_title().get_text()


def test_ordinary_rows_are_all_shown(rng) -> None:
    for values in (rng.normal(size=1000), rng.uniform(size=1000), rng.standard_normal(60)):
        low, high = robust_range(values)
        assert low < values.min()
        assert high > values.max()


def test_few_rows_and_centres_are_always_shown(rng) -> None:
    assert robust_range(np.r_[np.zeros(20), 1e6])[1] > 1e6
    assert robust_range(rng.normal(size=500), [1e3])[1] > 1e3
    assert robust_range(np.r_[np.zeros(999), 1.0]) == pytest.approx((-0.04, 1.04))


def test_ellipses_are_shown_whole_unless_they_are_huge(rng) -> None:
    X, _ = make_diamond()
    model = EGMM(2, reg_covar=0.01, random_state=0).fit(X)
    ax = plot_partition(X, model.partition(X), means=model.means_, covariances=model.covariances_)
    top = model.means_[:, 1].max() + 2 * np.sqrt(model.covariances_[1, 1])
    assert ax.get_ylim()[0] < -top < top < ax.get_ylim()[1]
    huge = plot_partition(X, model.partition(X), means=model.means_, covariances=1e6 * np.eye(2))
    assert np.ptp(huge.get_xlim()) < 30


def test_the_caption_names_plane_and_ellipses(rng) -> None:
    X = np.column_stack([two_groups(rng, 100)[0], rng.normal(size=100)])
    model = EGMM(2, random_state=0).fit(X)
    ax = plot_partition(X, model.partition(X), means=model.means_, covariances=model.covariances_)
    # Two standard deviations in the plane: 1 - exp(-2).
    assert caption(ax) == "plane that separates the clusters best · ellipses: 86 % of a cluster"
    assert caption(plot_partition(X, model.partition(X), view="pca")) == "plane of largest variance"
    assert caption(plot_partition(X, model.partition(X), view=(0, 2))) == ""


def test_many_rows_are_outlined_by_a_contour_that_holds_most(rng) -> None:
    X, partition = two_groups(rng, 8000)
    ax = plot_partition(X, partition, hulls="lower")
    contours = [item for item in ax.collections if type(item).__name__ == "QuadContourSet"]
    outlines = [path for item in contours if not item.filled for path in item.get_paths()]
    assert len(outlines) == 2
    for k, path in enumerate(outlines):
        assert path.contains_points(X[partition.labels() == k]).mean() == pytest.approx(0.95, abs=0.03)
    few = plot_partition(X[:200], partition[:200], hulls="lower")
    assert not [item for item in few.collections if type(item).__name__ == "QuadContourSet"]


def test_numbers_of_close_centres_do_not_cover_each_other() -> None:
    X = np.array([[0.0, 0.0], [1.0, 1.0]] * 30)
    means = [[0.5, 0.5], [0.505, 0.5], [0.5, 0.505], [0.495, 0.5]]
    ax = plot_partition(X, CredalPartition.from_labels([0, 1] * 30, 4), means=means)
    offsets = np.array([text.xyann for text in ax.texts])
    gaps = np.linalg.norm(offsets[:, None] - offsets[None], axis=-1)[np.triu_indices(4, 1)]
    assert gaps.min() > 8


def test_pairs_of_many_sets_have_two_colours_and_are_hollow_in_the_plane(rng) -> None:
    focal = FocalSets.full(3)
    faces, hatches = bar_colours(focal, mixed=False)
    colours = cluster_colours(3)
    pair = focal.index_of({0, 2})
    np.testing.assert_array_equal(faces[pair], colours[0])
    np.testing.assert_array_equal(hatches[pair], colours[2])
    partition = CredalPartition(np.eye(7)[np.arange(70) % 7], focal)
    ax = plot_partition(rng.normal(size=(70, 2)), partition)
    hollow = [item for item in ax.collections if np.allclose(item.get_facecolor()[:, :3], 1.0)]
    assert len(hollow) == 4


def test_bars_have_the_names_of_the_rows() -> None:
    X, _ = make_diamond()
    names = [f"point {k}" for k in range(11)]
    mass = EGMM(2, reg_covar=0.01, random_state=0).fit(X).predict_mass(X)
    ax = plot_masses(CredalPartition(mass, FocalSets.full(2), index=names), rows=[5, 0])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["point 5", "point 0"]


def test_the_map_is_darkest_between_the_clusters() -> None:
    X, _ = make_two_class(random_state=0)
    model = EGMM(2, random_state=0).fit(X)
    ax = plot_uncertainty(model, X)
    values = ax.collections[0].get_array().reshape(160, 160)
    y = np.linspace(*ax.get_ylim(), 160)
    middle = model.means_.mean(axis=0)
    x_at = int(np.abs(np.linspace(*ax.get_xlim(), 160) - middle[0]).argmin())
    assert y[values[:, x_at].argmax()] == pytest.approx(middle[1], abs=0.6)
    assert 0 <= values.min() <= values.max() <= 0.5


def test_the_map_swaps_features_and_goes_through_the_rows_of_a_plane(rng) -> None:
    X, _ = make_two_class(random_state=0)
    model = EGMM(2, random_state=0).fit(X)
    plain = plot_uncertainty(model, X).collections[0].get_array().reshape(160, 160)
    swapped = plot_uncertainty(model, X, view=(1, 0)).collections[0].get_array().reshape(160, 160)
    np.testing.assert_allclose(swapped, plain.T, atol=1e-12)
    wide = np.column_stack([X, X @ [1.0, -1.0]])  # all rows lie in a plane: the map must be that of two features
    third = EGMM(2, random_state=0, reg_covar=1e-6).fit(wide)
    ax = plot_uncertainty(third, wide, view=view_of(wide, view=(0, 1)), measure="nonspecificity")
    assert ax.get_xlabel() == "x1"
    with pytest.raises(ValueError, match="measure must be one of 'doubt', 'nonspecificity'; got 'fear'"):
        plot_uncertainty(model, X, measure="fear")


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_confidence_of_means_is_drawn_and_named(rng, dim) -> None:
    X = np.concatenate([rng.normal(0, 1, (80, dim)), rng.normal(6, 1, (80, dim))])
    model = EGMM(2, focal_sets="singletons", random_state=0).fit(X)
    partition, errors = model.partition(X), model.standard_errors(X)
    ax = plot_partition(X, partition, means=model.means_, mean_covariances=errors.mean_covariances)
    assert "95 % confidence of a mean" in caption(ax)
    if dim == 2:
        # In the plane 95 % of a normal lies within 2.448 deviations.
        assert np.ptp(ax.patches[0].get_xy()[:, 0]) == pytest.approx(2 * 2.4477 * errors.means[0, 0], rel=1e-3)
    with pytest.raises(ValueError, match=rf"mean_covariances must have shape \(2, {dim}, {dim}\)"):
        plot_partition(X, partition, means=model.means_, mean_covariances=model.covariances_)


def test_a_title_is_above_the_caption() -> None:
    _, ax = plt.subplots()
    ax.set_title("rows and their density")
    plot_density([1.0], [[0, 0]], np.eye(2), ax=ax)
    ax.figure.canvas.draw()
    (text,) = [text for text in ax.texts if text.get_gid() == "caption"]
    assert ax.title.get_window_extent().y0 >= text.get_window_extent().y1
