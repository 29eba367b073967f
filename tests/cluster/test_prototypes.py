"""Starts and the loop that FCM, ECM and BPEC share."""

from types import SimpleNamespace

import numpy as np
import pytest

from checks import nearly_equal_rows, three_groups
from egmm import ECM, FCM
from egmm.cluster.descent import descend
from egmm.cluster.prototypes import starting_means
from egmm.em.sample import Sample, draw_sample
from egmm.rows.array import ArrayRows


def distinct(X: np.ndarray, weights: np.ndarray) -> Sample:
    return draw_sample(ArrayRows(X, weights), seed=0, size=len(X))


def run(objectives, **options):
    """Descend along given objectives; the state counts updates."""
    parameters = {"tol": 0.1, "max_iter": 100} | options
    return descend(0, lambda n: SimpleNamespace(objective=objectives[n]), lambda _, n: n + 1, **parameters)


def test_descent_stops_at_the_first_small_change():
    objectives = [10.0, 5.0, 4.95, 4.92, 4.91]
    found = run(objectives)
    assert (found.state, found.history, found.converged) == (2, objectives[:3], True)


def test_descent_gives_up_after_the_allowed_updates():
    stopped = run([10.0, 8.0, 6.0, 4.0], max_iter=2)
    assert (stopped.state, stopped.history, stopped.converged) == (2, [10.0, 8.0, 6.0], False)


def test_changes_within_rounding_count_as_none():
    assert run([3e6, 1e6, 1e6 + 1e-9], tol=0.0).converged
    with pytest.raises(IndexError, match="list index out of range"):
        run([3e6, 1e6, 1e6 + 1e-7], tol=0.0)


@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_start_is_the_weighted_mean_of_the_groups(init):
    # Far apart: both starts find the two groups once each has a drawn row.
    sample = Sample(np.array([[0.0], [1.0], [100.0], [101.0]]), np.array([3.0, 1.0, 1.0, 1.0]))
    starts = [starting_means(sample, 2, init, np.random.RandomState(seed)) for seed in range(20)]
    assert any(np.allclose(np.sort(start, axis=0), [[0.25], [100.5]]) for start in starts)


def test_the_best_of_several_starts_is_kept(rng):
    X = np.concatenate([rng.normal(mean, 0.3, (20, 2)) for mean in ([0, 0], [0, 4], [4, 0], [9, 9], [9, 5])])
    sample = distinct(X, np.ones(100))
    for seed in range(10):
        random = np.random.RandomState(seed)
        starts = [starting_means(sample, 5, "random", random) for _ in range(4)]
        each = [FCM(5, init=start).fit(X).objective_ for start in starts]
        best = FCM(5, init="random", n_init=4, random_state=seed).fit(X).objective_
        assert best == pytest.approx(min(each), rel=1e-12)


@pytest.mark.parametrize("clusterer", [FCM, ECM])
def test_groups_that_kmeans_cannot_tell_apart_are_counted(clusterer):
    X = nearly_equal_rows()
    with pytest.raises(ValueError, match="n_clusters=4 but k-means finds only 3 in X: other rows are"):
        clusterer(4, random_state=0).fit(X)
    assert np.isfinite(clusterer(4, init="random", random_state=0).fit(X).means_).all()


def test_rows_with_ties_in_the_first_column_are_merged():
    X = np.array([[1.0, 2.0], [1.0, 1.0], [0.0, 5.0], [1.0, 2.0], [1.0, 1.0], [0.0, 4.0]])
    rows, weights = distinct(X, np.array([1.0, 2.0, 1.0, 5.0, 0.0, 1.0]))
    assert rows.tolist() == [[0.0, 4.0], [0.0, 5.0], [1.0, 1.0], [1.0, 2.0]]
    assert weights.tolist() == [1.0, 1.0, 2.0, 6.0]


def test_start_of_large_data_looks_at_a_sample(monkeypatch):
    seen = []

    def draw(rows, seed, **size):
        seen.append((rows.shape, size))
        return draw_sample(rows, seed, **size) if size else distinct(rows.X[::2], rows.sample_weight[::2])

    monkeypatch.setattr("egmm.cluster.base.SAMPLE_ROWS", 100)
    monkeypatch.setattr("egmm.cluster.base.draw_sample", draw)
    FCM(3, random_state=0).fit(three_groups())
    # All distinct rows for the descent, then a sample of them for the start.
    assert seen == [((123, 2), {"size": 123}), ((123, 2), {})]
