"""Simulated data have the moments, sizes and overlaps that were asked for."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import norm

from egmm.datasets import (
    draw_links,
    make_bananas,
    make_blobs_with_overlap,
    make_diamond,
    make_four_class,
    make_two_class,
)

GAUSSIAN = [make_two_class, make_four_class, make_blobs_with_overlap]


def test_the_diamond_is_the_published_one(data_directory) -> None:
    published = np.loadtxt(data_directory / "belief" / "diamond.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(make_diamond()[0], published)


def test_the_diamond_is_symmetric_about_its_middle_point() -> None:
    X, y = make_diamond()
    assert X.shape == (11, 2)
    assert set(map(tuple, X)) == set(map(tuple, -X))
    np.testing.assert_array_equal(y, np.where(X[:, 0] < 0, 0, np.where(X[:, 0] > 0, 1, -1)))


@pytest.mark.parametrize(
    ("make", "means", "covariance"),
    [
        (make_two_class, [[2, 4], [2, 0]], [[3, 2], [2, 3]]),
        (make_four_class, [[0, 0], [0, 4], [4, 4], [4, 0]], [[2, 0], [0, 2]]),
    ],
)
def test_the_paper_examples_have_their_moments(make, means, covariance) -> None:
    X, y = make(200_000, random_state=0)
    for k, mean in enumerate(means):
        group = X[y == k]
        # Five standard errors of 50,000 rows.
        np.testing.assert_allclose(group.mean(axis=0), mean, atol=5 * np.sqrt(3 / 50_000))
        np.testing.assert_allclose(np.cov(group.T), covariance, atol=5 * np.sqrt(2 * 9 / 50_000))


@pytest.mark.parametrize(("make", "sizes"), [(make_two_class, [400, 400]), (make_four_class, [200] * 4)])
def test_the_paper_examples_have_their_sizes(make, sizes) -> None:
    X, y = make()
    assert X.shape == (800, 2)
    assert np.bincount(y).tolist() == sizes


@pytest.mark.parametrize("make", GAUSSIAN)
def test_a_seed_fixes_the_draw(make) -> None:
    X, y = make(random_state=3)
    again, y_again = make(random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, y_again)
    assert not np.array_equal(X, make(random_state=4)[0])


@pytest.mark.parametrize("make", GAUSSIAN)
def test_classes_are_mixed_so_that_any_block_of_rows_has_all(make) -> None:
    _, y = make(1000, random_state=0)
    assert set(y[:100]) == set(y)


@pytest.mark.parametrize(("n_samples", "sizes"), [(10, [3, 3, 2, 2]), (3, [1, 1, 1])])
def test_rows_that_do_not_divide_go_to_the_first_classes(n_samples, sizes) -> None:
    assert np.bincount(make_four_class(n_samples, random_state=0)[1]).tolist() == sizes


@pytest.mark.parametrize(
    ("n_clusters", "n_features", "overlap"), [(2, 1, 0.5), (5, 1, 0.2), (3, 2, 0.1), (7, 2, 0.01), (9, 3, 0.3)]
)
def test_each_cluster_overlaps_its_neighbour_as_asked(n_clusters, n_features, overlap) -> None:
    X, y = make_blobs_with_overlap(40_000 * n_clusters, n_clusters, n_features, overlap=overlap, random_state=0)
    means = np.array([X[y == k].mean(axis=0) for k in range(n_clusters)])
    apart = squareform(pdist(means)) + np.diag(np.full(n_clusters, np.inf))
    # Means of 40,000 rows are within 0.02 of the centres; min(p1, p2) integrates to 2 Phi(-distance / 2).
    np.testing.assert_allclose(2 * norm.cdf(-apart.min(axis=1) / 2), overlap, rtol=0.06)
    np.testing.assert_allclose(np.cov((X - means[y]).T), np.eye(n_features), atol=0.03)


def test_many_features_are_no_trouble() -> None:
    X, y = make_blobs_with_overlap(40, 8, 200, overlap=0.5, random_state=0)
    assert X.shape == (40, 200)
    assert np.bincount(y).tolist() == [5] * 8


def test_total_overlap_is_one_cluster() -> None:
    X, y = make_blobs_with_overlap(60_000, 3, 2, overlap=1, random_state=0)
    for k in range(3):
        np.testing.assert_allclose(X[y == k].mean(axis=0), 0, atol=0.04)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"n_samples must be an integer >= 1, got 0\."):
        make_two_class(0)
    with pytest.raises(TypeError, match=r"n_samples must be an integer >= 1, got 10\.5\."):
        make_four_class(10.5)
    with pytest.raises(ValueError, match=r"n_clusters must be an integer >= 1, got 0\."):
        make_blobs_with_overlap(10, 0)
    with pytest.raises(ValueError, match=r"n_features must be an integer >= 1, got -1\."):
        make_blobs_with_overlap(10, 2, -1)
    with pytest.raises(ValueError, match=r"overlap must be a finite number in \(0, 1\], got 0\."):
        make_blobs_with_overlap(overlap=0)
    with pytest.raises(ValueError, match=r"overlap must be a finite number in \(0, 1\], got 1\.5\."):
        make_blobs_with_overlap(overlap=1.5)


def test_bananas_lie_on_their_arcs() -> None:
    X, y = make_bananas(2000, radius=3.0, noise=0.0, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(X[y == 0], axis=1), 3.0)
    np.testing.assert_allclose(np.linalg.norm(X[y == 1] + 2.25, axis=1), 3.0)
    # Angles from the second axis: between 0.125 and 1.375 pi of the first class, between -0.875 and 0.375 of the other.
    for group, least, most in ((X[y == 0], 0.125, 1.375), (X[y == 1] + 2.25, -0.875, 0.375)):
        turn = np.arctan2(group[:, 0], group[:, 1]) / np.pi
        turn = np.where(turn < least - 1e-9, turn + 2, turn)
        assert least <= turn.min() + 1e-9
        assert turn.max() <= most + 1e-9
        assert np.ptp(turn) > 1.2
    noisy = make_bananas(2000, radius=0.0, noise=2.0, random_state=0)[0]
    assert noisy.std() == pytest.approx(2.0, rel=0.1)


def test_links_say_what_the_labels_say() -> None:
    y = np.array(["a", "b", "a", "b", "b", "c"])
    for n_links in (0, 5, 14, 15):
        must, cannot = draw_links(y, n_links, random_state=0)
        pairs = [tuple(pair) for pair in np.concatenate([must, cannot]).tolist()]
        assert len(set(pairs)) == n_links
        assert all(0 <= first < second < 6 for first, second in pairs)
        assert (y[must[:, 0]] == y[must[:, 1]]).all()
        assert (y[cannot[:, 0]] != y[cannot[:, 1]]).all()
    with pytest.raises(ValueError, match="n_links must be an integer from 0 to 15, got 16"):
        draw_links(y, 16)
