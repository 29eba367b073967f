"""Planes that rows are shown in."""

import numpy as np
import pytest

from egmm import CredalPartition
from egmm.plotting import View, view_of


def test_two_features_are_shown_as_they_are(rng: np.random.Generator) -> None:
    X = rng.normal(size=(5, 2))
    view = view_of(X, feature_names=["a", "b"])
    np.testing.assert_array_equal(view.points(X), X)
    assert view.labels == ("a", "b")


def test_chosen_features_come_in_the_order_asked_for(rng: np.random.Generator) -> None:
    X = rng.normal(size=(5, 4))
    np.testing.assert_array_equal(view_of(X, view=(3, 1)).points(X), X[:, [3, 1]])


def test_pca_finds_the_two_wide_directions(rng: np.random.Generator) -> None:
    X = rng.normal(size=(4000, 4)) * [0.1, 5.0, 0.1, 2.0]
    directions = view_of(X, view="pca").directions
    np.testing.assert_allclose(np.abs(directions[[1, 3], [0, 1]]), 1.0, atol=0.01)


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_discriminant_parts_clusters_that_variance_hides(rng: np.random.Generator, n_clusters: int) -> None:
    labels = rng.integers(n_clusters, size=2000)
    X = rng.normal(size=(2000, 5)) * [20.0, 1.0, 20.0, 1.0, 20.0]
    X[:, 1] += 8.0 * labels
    points = view_of(X, CredalPartition.from_labels(labels), "discriminant").points(X)
    centres = np.array([points[labels == k, 0].mean() for k in range(n_clusters)])
    assert np.abs(np.diff(centres)).min() > 6.0
    # Unit variance within clusters along the first direction.
    assert np.mean([points[labels == k, 0].var() for k in range(n_clusters)]) == pytest.approx(1.0, rel=0.01)


def test_discriminant_of_two_clusters_has_two_different_directions(rng: np.random.Generator) -> None:
    labels = np.arange(100) % 2
    X = rng.normal(size=(100, 3)) + 5.0 * labels[:, None]
    directions = view_of(X, CredalPartition.from_labels(labels)).directions
    assert np.linalg.matrix_rank(directions, tol=1e-6) == 2


def test_a_constant_column_does_not_break_the_discriminant(rng: np.random.Generator) -> None:
    X = np.column_stack([rng.normal(size=(60, 2)), np.full(60, 3.0)])
    assert np.isfinite(view_of(X, CredalPartition.from_labels(np.arange(60) % 3)).points(X)).all()


def test_covariance_in_the_plane_is_that_of_the_points(rng: np.random.Generator) -> None:
    X = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    view = view_of(X, view="pca")
    expected = np.cov(view.points(X), rowvar=False)
    np.testing.assert_allclose(view.covariances(np.cov(X, rowvar=False)), expected, rtol=1e-10, atol=1e-10)


def test_a_view_is_passed_through() -> None:
    view = View(np.eye(3)[:, :2], np.zeros(3), ("u", "v"))
    assert view_of(np.zeros((2, 3)), view=view) is view


@pytest.mark.parametrize(
    ("columns", "view", "message"),
    [
        (1, None, "X must have at least two features, got 1; plot_partition"),
        (3, (0, 3), "view must be an integer from 0 to 2, got 3"),
        (3, "tsne", "view must be one of 'pca', 'discriminant'; got 'tsne'"),
    ],
)
def test_wrong_views_are_named(columns: int, view: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        view_of(np.zeros((4, columns)), view=view)


def test_names_must_fit_the_columns() -> None:
    with pytest.raises(ValueError, match="feature_names must have 3 entries, got 1"):
        view_of(np.zeros((4, 3)), feature_names=["a"])
