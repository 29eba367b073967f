"""One vocabulary: words that must not appear in what people read."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

EVERYWHERE = [r"pypi\.org", r"costs no bit"]
"""In no file of the project."""

ON_SCREENS = [r"\bambiguous\b", r"\bimprecise\b", r"\bdoubtful\b", r"\bleft open\b"]
"""Not in what commands and reports say: rows are sure or open."""

SAID = re.compile(r'"(?:[^"\\\n]|\\.)*"')
SCREENS = [
    *sorted((ROOT / "src" / "egmm" / "cli").glob("*.py")),
    *sorted((ROOT / "src" / "egmm" / "report").glob("*.py")),
]
TEXTS = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / ".github").rglob("*.yml"),
        *(ROOT / "requirements").glob("*.txt"),
        ROOT / "pyproject.toml",
        ROOT / "conda" / "recipe.yaml",
    }
)


@pytest.mark.parametrize("word", EVERYWHERE)
def test_words_that_appear_nowhere(word: str) -> None:
    paths = [path for path in TEXTS if path.is_file() and "_build" not in path.parts]
    assert [str(path) for path in paths if re.search(word, path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("word", ON_SCREENS)
def test_words_that_no_screen_says(word: str) -> None:
    texts = {path: re.sub(r'"""[\s\S]*?"""', "", path.read_text(encoding="utf-8")) for path in SCREENS}
    said = [(path.name, text) for path, content in texts.items() for text in SAID.findall(content)]
    # Names of attributes are not read by people.
    is_name = re.compile(r'"\w+"')
    assert [(name, text) for name, text in said if re.search(word, text) and not is_name.fullmatch(text)] == []
