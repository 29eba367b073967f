"""The delta-Bel graph and the choice of peaks."""

import numpy as np
import pytest

from checks import three_groups
from cluster import oracles_cluster as oracle
from egmm.cluster import DecisionGraph, choose_peaks, delta_bel
from egmm.cluster.peaks import _delta_beyond


@pytest.mark.parametrize("n_neighbors", [1, 5, 30])
@pytest.mark.parametrize("quantile", [0.3, 0.9, 1.0])
def test_graph_equals_all_pairs(n_neighbors, quantile):
    X = three_groups(25)
    belief, delta = delta_bel(X, n_neighbors, quantile)
    expected_belief, expected_delta = oracle.delta_bel(X.tolist(), n_neighbors, quantile)
    np.testing.assert_allclose(belief, expected_belief, rtol=1e-10)
    np.testing.assert_allclose(delta, expected_delta, rtol=1e-10)


def test_search_beyond_the_neighbours_crosses_its_blocks(monkeypatch):
    monkeypatch.setattr("egmm.cluster.peaks.PEAKS_AT_ONCE", 3)
    monkeypatch.setattr("egmm.cluster.peaks.ROWS_AT_ONCE", 7)
    rows = np.random.default_rng(0).normal(size=(50, 2))
    ranks = np.array([1, 2, 7, 8, 14, 15, 30, 49])
    expected = [min(np.linalg.norm(rows[r] - rows[j]) for j in range(r)) for r in ranks]
    np.testing.assert_allclose(_delta_beyond(rows, ranks), expected, rtol=1e-12)


def test_duplicates_make_one_peak():
    X = np.repeat(three_groups(10), 3, axis=0)
    belief, delta = delta_bel(X, n_neighbors=8)
    assert np.isfinite(belief).all()
    assert np.count_nonzero(delta > 0) == len(np.unique(X, axis=0))


@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("n_neighbors", [8, 50])
def test_graph_does_not_depend_on_the_origin(n_features, n_neighbors):
    # Multiples of 2^-20 stay exact when they are moved by 2^30, and so do the distances.
    X = np.round(2.0**20 * np.random.default_rng(0).normal(size=(80, n_features))) / 2.0**20
    X[:40, 0] += 6
    moved = delta_bel(X + 2.0**30, n_neighbors)
    expected_belief, expected_delta = oracle.delta_bel(X.tolist(), n_neighbors, 0.9)
    np.testing.assert_allclose(moved[1], expected_delta, rtol=1e-10)
    np.testing.assert_allclose(moved[0], expected_belief, rtol=1e-10)


@pytest.mark.parametrize("n_neighbors", [8, 70])
def test_duplicates_of_many_features_make_one_peak(n_neighbors):
    X = np.repeat(np.random.default_rng(0).normal(1000, 1, size=(50, 20)), 2, axis=0)
    belief, delta = delta_bel(X, n_neighbors)
    assert np.count_nonzero(delta > 0) == 50
    with pytest.raises(ValueError, match="n_clusters=51 but X has only 50 distinct rows; use fewer clusters"):
        choose_peaks(belief, delta, 51)


def test_rows_among_many_duplicates_have_a_belief():
    # The scale of a row with more duplicates than neighbours is zero: its duplicates support it fully, no one else.
    X = np.vstack([np.zeros((10, 1)), [[5.0]]])
    belief, delta = delta_bel(X, n_neighbors=5)
    np.testing.assert_allclose(belief[:10], 1 - (1 - 1 / 5) ** 5, rtol=1e-12)
    assert belief[10] == pytest.approx(0.0, abs=1e-15)
    assert delta[10] == 5.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_neighbors": 123}, ValueError, "n_neighbors must be less than the number of rows, got n_neighbors=123"),
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be an integer >= 1, got 0"),
        ({"n_neighbors": 2.5}, TypeError, "n_neighbors must be an integer >= 1, got 2.5"),
        ({"quantile": 1.1}, ValueError, r"quantile must be a finite number in \[0, 1\], got 1.1"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        delta_bel(three_groups(), **arguments)


def test_widest_gap_is_relative():
    belief = np.full(16, 0.5)
    delta = np.array([100.0, 60.0, 20.0, 18.0, 1.0, 0.9, *np.full(10, 0.5)])
    # 60 / 20 = 3 is the widest gap in units, 18 / 1 the widest ratio.
    assert choose_peaks(belief, delta).tolist() == [0, 1, 2, 3]


def test_first_ratio_does_not_count():
    # The top row's delta is that of another row, so the first gap says nothing.
    assert choose_peaks(np.full(9, 0.5), np.array([100.0, 3.0, 1.0, 0.8, *np.full(5, 0.4)])).tolist() == [0, 1]


def test_no_more_rows_than_the_root_of_their_number_or_63_come_before_the_gap():
    some, many = np.array([100.0, 90.0, 80.0, 40.0, 39.0, *np.ones(11)]), np.linspace(101, 100, 4900)
    assert choose_peaks(np.full(16, 0.5), some).tolist() == [0, 1, 2]
    assert choose_peaks(np.full(25, 0.5), np.append(some, np.ones(9))).tolist() == [0, 1, 2, 3, 4]
    many[[0, 1]] = 200.0
    many[64:] = 1.0
    assert choose_peaks(np.full(4900, 0.5), many).tolist() == [0, 1]
    many[63] = 1.0
    assert len(choose_peaks(np.full(4900, 0.5), many)) == 63


def test_two_rows_are_enough():
    assert choose_peaks(np.array([0.5, 0.4]), np.array([2.0, 2.0])).tolist() == [0, 1]


def test_a_duplicate_is_no_peak_however_few_there_are():
    with pytest.raises(ValueError, match="n_clusters=3 but X has only 2 distinct rows"):
        choose_peaks(np.array([0.5, 0.4, 0.1]), np.array([5.0, 4.0, 0.0]), 3)


def test_rows_of_little_belief_come_last():
    belief = np.array([0.5, 0.4, 0.45, 0.1, 0.3])
    delta = np.array([5.0, 4.0, 0.1, 50.0, 0.1])
    assert choose_peaks(belief, delta).tolist() == [0, 1]
    assert choose_peaks(belief, delta, 4).tolist() == [0, 1, 2, 3]
    assert choose_peaks(np.array([0.5, 0.4, 0.1, 0.1]), np.array([5.0, 4.0, 3.0, 2.0])).tolist() == [0, 1]


def test_the_gap_is_between_the_last_value_chosen_and_the_first_left():
    belief, delta = np.array([0.5, 0.4, 0.3, 0.5, 0.45, 0.2]), np.array([9.0, 0.5, 0.5, 8.0, 0.4, 2.0])
    # Of the rows with at least the median belief, 0.425, row 4 alone is left.
    assert DecisionGraph(belief, delta, np.array([0, 3])).gap == pytest.approx(8.0 * 0.5 / (0.4 * 0.45))
    # Of several left the largest counts.
    assert DecisionGraph(np.full(4, 0.5), np.array([6.0, 3.0, 1.0, 2.0]), np.array([0, 1])).gap == pytest.approx(1.5)
    # Duplicates of peaks are none that was left.
    assert DecisionGraph(np.full(4, 0.5), np.array([2.0, 2.0, 0.0, 0.0]), np.array([0, 1])).gap == np.inf


def test_rows_nobody_believes_in_are_no_peaks():
    # Rows around many equal ones, nearer to them than to each other: only those that are neighbours have a belief.
    rng = np.random.default_rng(0)
    X = np.concatenate([np.zeros((90, 60)), rng.normal(size=(110, 60))])
    belief, delta = delta_bel(X, 20)
    assert np.median(belief) == 0
    np.testing.assert_allclose(delta_bel(1e-3 * X, 20)[0], belief, rtol=1e-9)
    peaks = choose_peaks(belief, delta)
    assert (belief[peaks] > 0).all()
    assert (
        DecisionGraph(belief, delta, choose_peaks(belief, delta, 1 + np.count_nonzero((belief * delta) > 0))).gap == 0
    )
    assert DecisionGraph(np.array([0.5, 0.5, 0.0, 0.0]), np.array([4.0, 3.0, 2.0, 1.0]), np.array([0, 1])).gap == np.inf


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.5, 0.4], [1.0]), ValueError, r"delta must have shape \(2,\), got \(1,\)"),
        (([0.5, np.nan], [1.0, 1.0]), ValueError, r"belief must be finite, but entry \(1,\) is nan"),
        (([0.5, 0.4], [1.0, 1.0], 0), ValueError, "n_clusters must be an integer from 1 to 63, got 0"),
        (([0.5, 0.4], [1.0, 1.0], -1), ValueError, "n_clusters must be an integer from 1 to 63, got -1"),
        (([0.5, 0.4], [1.0, 1.0], 1.0), TypeError, "n_clusters must be an integer from 1 to 63, got 1.0"),
    ],
)
def test_bad_graphs_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        choose_peaks(*arguments)


def test_thresholds_choose_by_themselves():
    belief, delta = delta_bel(three_groups(), 20)
    by_delta = choose_peaks(belief, delta, min_delta=2.0)
    assert set(by_delta) == set(np.flatnonzero(delta >= 2.0))
    both = choose_peaks(belief, delta, min_belief=0.3, min_delta=2.0)
    assert set(both) == set(np.flatnonzero((delta >= 2.0) & (belief >= 0.3)))
    values = (belief * delta)[both]
    assert (np.diff(values) <= 0).all()


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"min_delta": 1e6}, r"No row reaches min_belief=0 and min_delta=1e\+06; the largest are"),
        ({"min_belief": 1.5}, r"min_belief must be a finite number in \[0, 1\], got 1.5"),
        ({"min_delta": -1.0}, r"min_delta must be a finite number in \[0, inf\], got -1"),
    ],
)
def test_thresholds_out_of_reach_are_refused(thresholds, message):
    with pytest.raises(ValueError, match=message):
        choose_peaks(*delta_bel(three_groups(), 20), **thresholds)


def test_more_rows_above_the_thresholds_than_clusters_there_may_be():
    belief, delta = np.full(70, 0.5), np.arange(1.0, 71.0)
    assert len(choose_peaks(belief, delta, min_delta=8.0)) == 63
    with pytest.raises(ValueError, match=r"64 rows reach min_belief=0\.1 and min_delta=7, more than the 63 clusters"):
        choose_peaks(belief, delta, min_belief=0.1, min_delta=7.0)


def test_equal_rows_have_one_peak():
    graph = delta_bel(np.ones((20, 2)), 5)
    assert choose_peaks(*graph, 1).tolist() == [0]
    with pytest.raises(ValueError, match="n_clusters=2 but X has only 1 distinct row; use fewer clusters"):
        choose_peaks(*graph, 2)
    with pytest.raises(ValueError, match="n_clusters=None needs at least 2 clusters but X has only 1 distinct row"):
        choose_peaks(*graph)
