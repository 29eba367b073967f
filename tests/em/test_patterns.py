"""Rows by their missing cells."""

from dataclasses import replace

import numpy as np
import pytest

from egmm.em.patterns import PatternRows, groups_of, pattern_order
from egmm.rows.array import ArrayRows
from egmm.rows.source import BLOCK_ROWS
from em.problems import problem_of, start_of


def test_rows_are_grouped_by_what_they_lack() -> None:
    X = np.array([[1.0, np.nan], [1, 2], [np.nan, 1], [3, np.nan], [5, 6]])
    found = {tuple(group.is_missing): group.rows.tolist() for group in groups_of(np.isnan(X))}
    assert found == {(False, False): [1, 4], (False, True): [0, 3], (True, False): [2]}
    assert groups_of(np.empty((0, 2), dtype=bool)) == []
    ordered = np.isnan(X[pattern_order(X)])
    assert len(np.unique(ordered, axis=0)) == 1 + (ordered[1:] != ordered[:-1]).any(axis=1).sum()


def test_patterns_of_many_features_are_told_apart(rng) -> None:
    is_missing = rng.random((200, 70)) < 0.03
    found = groups_of(is_missing)
    assert sorted(row for group in found for row in group.rows) == list(range(200))
    assert len(found) == len({row.tobytes() for row in is_missing})
    for group in found:
        assert (is_missing[group.rows] == group.is_missing).all()


@pytest.mark.parametrize("covariance", ["EEE", "VVV", "VEV"])
@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_say_what_blocks_say(rng, backend, covariance, weighted) -> None:
    labels = np.arange(300) % 3
    whole = rng.normal(size=(300, 3)) + 3 * labels[:, None] + 50
    patterns = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
    X = np.where(patterns[rng.integers(0, 4, 300)], np.nan, whole)
    weight = rng.random(300) if weighted else None
    problem = problem_of(X, "pairs", 3, covariance, engine=backend, weight=weight)
    pieces = PatternRows.of(ArrayRows(X, weight), problem.units)
    assert [piece.X.shape[1] for piece in pieces.pieces] == [3, 2, 1]
    start = start_of(problem_of(whole, "pairs", 3, covariance), labels)
    by_pieces, by_blocks = (replace(problem, rows=rows).evaluate(start) for rows in (pieces, ArrayRows(X, weight)))
    np.testing.assert_allclose(by_pieces.vector, by_blocks.vector, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(by_pieces.objective, by_blocks.objective, rtol=1e-12)


def test_pieces_are_at_most_a_block_and_complete_rows_are_not_copied() -> None:
    X = np.zeros((BLOCK_ROWS + 10, 2))
    X[-5:, 1] = np.nan
    rows = ArrayRows(X)
    pieces = PatternRows.of(rows, problem_of(X[:9], "pairs", 2, "EEE").units).pieces
    assert [len(piece.X) for piece in pieces] == [BLOCK_ROWS, 5, 5]
    assert [np.shares_memory(piece.X, X) for piece in pieces] == [True, True, False]


def test_rows_of_many_patterns_stay_as_they_are(rng) -> None:
    X = np.where(rng.random((40, 6)) < 0.5, np.nan, rng.normal(size=(40, 6)))
    rows = ArrayRows(X)
    assert PatternRows.of(rows, problem_of(rng.normal(size=(40, 6)), "pairs", 2, "EEE").units) is rows
