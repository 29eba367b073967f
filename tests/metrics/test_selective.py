import itertools

import numpy as np
import pytest

from egmm import CredalPartition, FocalSets
from egmm.metrics import aurc, expected_calibration_error, matched_accuracy, reliability_curve, risk_coverage_curve

TRUTH = ["a", "a", "b", "b"]
PROBABILITY = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])


def test_risk_is_the_error_rate_of_the_surest_rows():
    # Surest first: rows 1 (right), 2 (right), 3 (right), 4 (wrong).
    curve = risk_coverage_curve(TRUTH, PROBABILITY)
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.risk, [0, 0, 0, 1 / 4])
    assert aurc(TRUTH, PROBABILITY) == pytest.approx(1 / 16)


def test_the_names_of_the_clusters_do_not_matter():
    assert aurc(TRUTH, PROBABILITY[:, ::-1]) == pytest.approx(1 / 16)


def test_ties_count_as_the_mean_over_their_orders():
    truth = np.array([0, 0, 0, 0, 1])
    probability = np.array([[0.9, 0.1], [0.7, 0.3], [0.7, 0.3], [0.3, 0.7], [0.4, 0.6]])
    # Clusters 0 and 1 are classes 0 and 1; row 3 alone is wrong, with the confidence of rows 1 and 2.
    risks = []
    for order in itertools.permutations([1, 2, 3]):
        wrong = np.array([0, *[row == 3 for row in order], 0])
        risks.append(np.cumsum(wrong) / np.arange(1, 6))
    np.testing.assert_allclose(risk_coverage_curve(truth, probability).risk, np.mean(risks, axis=0))


def test_the_curve_ends_with_the_error_of_all_rows():
    rng = np.random.default_rng(0)
    truth, probability = rng.integers(0, 3, 60), rng.dirichlet([1, 1, 1], 60)
    curve = risk_coverage_curve(truth, probability)
    assert curve.risk[-1] == pytest.approx(1 - matched_accuracy(truth, probability.argmax(axis=1)))


def test_a_partition_counts_by_its_pignistic_probabilities():
    mass = [[0.8, 0, 0.2], [0.7, 0.1, 0.2], [0.2, 0.6, 0.2], [0.5, 0.3, 0.2]]
    assert aurc(TRUTH, CredalPartition(mass, FocalSets.full(2))) == pytest.approx(aurc(TRUTH, PROBABILITY))


@pytest.mark.parametrize(("n_clusters", "error"), [(1, 0.5), (3, 0.25)])
def test_clusters_and_classes_left_over_are_wrong(n_clusters, error):
    labels = [0] * 4 if n_clusters == 1 else [0, 2, 1, 1]
    curve = risk_coverage_curve(TRUTH, np.eye(n_clusters)[labels])
    np.testing.assert_allclose(curve.risk, error)


def test_reliability_by_hand():
    # Confidences .9 .8 .7 .6 in bins [.5, 1] of width a half: three of four right, mean .75.
    said, seen, share = reliability_curve(TRUTH, PROBABILITY, n_bins=2)
    np.testing.assert_allclose([said, seen, share], [[0.75], [0.75], [1]])
    assert expected_calibration_error(TRUTH, PROBABILITY, n_bins=2) == pytest.approx(0)
    # A bin each: |1 - .9|, |1 - .8|, |1 - .7|, |0 - .6|, a quarter each.
    assert expected_calibration_error(TRUTH, PROBABILITY, n_bins=20) == pytest.approx(1.2 / 4)


def test_certain_labels_are_in_the_last_bin():
    said, _, share = reliability_curve([0, 1], np.eye(2))
    np.testing.assert_allclose([said, share], [[1], [1]])


def test_bad_arguments():
    with pytest.raises(ValueError, match="y_true and partition must have the same number of rows, got 3 and 4"):
        aurc([0, 1, 1], PROBABILITY)
    with pytest.raises(ValueError, match="n_bins must be an integer >= 1, got 0"):
        expected_calibration_error(TRUTH, PROBABILITY, n_bins=0)
