"""Sums over blocks: the same additions whoever holds the blocks."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egmm.rows.source import merge_nodes, number, tree_sum


class Term(NamedTuple):
    """An addition written out, so that two sums are equal only if made by the same additions."""

    text: str

    def plus(self, other: "Term") -> "Term":
        return Term(f"({self.text}+{other.text})")


def terms(n: int, first: int = 0) -> list[Term]:
    return [Term(str(at)) for at in range(first, first + n)]


@pytest.mark.parametrize(
    ("n", "text"),
    [(1, "0"), (2, "(0+1)"), (3, "((0+1)+2)"), (4, "((0+1)+(2+3))"), (7, "(((0+1)+(2+3))+((4+5)+6))")],
)
def test_neighbours_are_added_in_pairs(n: int, text: str) -> None:
    assert tree_sum(number(terms(n))).text == text


@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=5))
def test_holders_of_runs_of_blocks_make_the_same_additions(n: int, cuts: list[int]) -> None:
    whole = tree_sum(number(terms(n)))
    bounds = sorted({0, n, *(cut for cut in cuts if cut < n)})
    parts = [merge_nodes(number(terms(last - first, first), first)) for first, last in pairwise(bounds)]
    assert tree_sum(node for part in parts for node in part) == whole


def test_a_holder_of_many_blocks_sends_few_sums() -> None:
    assert len(merge_nodes(number(terms(1000, first=24), 24))) <= 2 * 10
