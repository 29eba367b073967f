"""What counts as a number in a text file."""

import pytest

from egmm.rows.text import is_number


@pytest.mark.parametrize("text", ["1", "-1.5", "1e-3", " 2 ", "inf", "nan"])
def test_numbers(text: str) -> None:
    assert is_number(text)


@pytest.mark.parametrize("text", ["", "x", "1,5", "1_000", "\u0661", "\uff11", "0x10"])
def test_what_python_alone_takes_for_a_number_is_none(text: str) -> None:
    # Underscores between digits, and digits of other scripts: no other reader of tables takes them.
    assert not is_number(text)
