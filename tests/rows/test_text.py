"""What counts as a number in a text file, and what delimits columns."""

from pathlib import Path

import pytest

from egmm.rows.text import is_number, layout_of


@pytest.mark.parametrize("text", ["1", "-1.5", "1e-3", " 2 ", "inf", "nan"])
def test_numbers(text: str) -> None:
    assert is_number(text)


@pytest.mark.parametrize("text", ["", "x", "1,5", "1_000", "\u0661", "\uff11", "0x10"])
def test_what_python_alone_takes_for_a_number_is_none(text: str) -> None:
    # Underscores between digits, and digits of other scripts: no other reader of tables takes them.
    assert not is_number(text)


@pytest.mark.parametrize(("name", "delimiter"), [("rows.tsv", "\t"), ("rows.csv", ";")])
def test_where_two_delimiters_fit_the_suffix_decides(tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    path.write_text("a;b\tc\nx;y\t3\n")
    assert layout_of(path).delimiter == delimiter
