"""Every equation tag in the code has a row in docs/paper_map.md that names existing things."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper_map.md"
ROW = re.compile(r"^\| `(eq_\w+)` \|[^|]*\| ([^|]*) \| `([^`]*)` \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def tags_in_code() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    return {tag for text in texts for group in re.findall(r"\[(eq_[\w, ]+)\]", text) for tag in group.split(", ")}


def test_every_tag_has_a_row_and_every_row_a_tag() -> None:
    assert tags_in_code() == {tag for tag, _, _ in rows()}


@pytest.mark.parametrize(("tag", "code", "test"), rows(), ids=lambda value: value if value.startswith("eq_") else "")
def test_a_row_names_things_that_exist(tag: str, code: str, test: str) -> None:
    module = ""
    for name in re.findall(r"`([\w.]+)`", code):
        prefix, _, attribute = name.rpartition(".")
        module = prefix or module
        assert hasattr(import_module(module), attribute), name
    assert (ROOT / test).is_file(), f"{tag}: {test}"
