"""One vocabulary and plain English: words that must not appear in what people read.

The lists are kept here alone. A text may quote a name in backquotes: names of code are not read as words.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

EVERYWHERE = [r"pypi\.org", r"costs no bit"]
"""In no file of the project."""

VOCABULARY = {
    r"\bambiguous\b": "open",
    r"\bimprecise\b": "open",
    r"\bdoubtful\b": "open",
    r"\bleft open\b": "open",
    r"\bsure rows right\b": "accuracy of sure rows",
    r"\bclass in the (?:chosen )?set\b": "coverage",
}
"""A row is sure or open; what each word is replaced by."""

TRANSLATED = [
    r"\b(?:leaves?|leaving|keeps?) (?:\w+ ){0,4}open\b",
    r"\b(?:Of|From) many rows\b",
    r"\bown covariances\b",
    r"\b(?:is|are|was|were) asked (?:whether|for)\b",
    r"\bfor (?:its|their|scikit-learn's) sake\b",
    r"\ball but (?:those|these) of\b",
    r"\bcannot say\b",
    r"\bthe data cannot tell\b",
    r"\bis told (?:nothing|that|the)\b",
    r"\bruns? away\b|\bran away\b",
    r"\bno magic\b",
    r"\bto the last bit\b",
    r"\bits? word\b",
    r"\bThe one like the other\b",
    r"\blook(?:s|ed)? far\b",
    r"\bcosts? a label\b",
    r"\bgoes? on from\b",
    r"\bas it comes\b",
    r"\bwhat most (?:models|of them)\b",
    r"\bpeople who were not here\b",
    r"\bin words of our own\b",
    r"\bin all (?:without|with) it\b",
]
"""Phrases that read as translated; a scikit-learn maintainer would not write them."""

SAID = re.compile(r'"(?:[^"\\\n]|\\.)*"')
SCREENS = [
    *sorted((ROOT / "src" / "egmm" / "cli").glob("*.py")),
    *sorted((ROOT / "src" / "egmm" / "report").glob("*.py")),
]
WRITTEN_BY_COMMANDS = {"reproduction.md"}
"""Pages whose words are in src/."""
BUILT = {"_build", "gallery", "packages"}
PAGES = sorted(
    page
    for page in {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}
    if page.name not in WRITTEN_BY_COMMANDS and not BUILT & set(page.relative_to(ROOT).parts)
)
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
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


def prose(path: Path) -> str:
    """Text of a page without blocks of code, what is shown below them, and names in backquotes."""
    text = re.sub(r"(?ms)^```(?!\{).*?^```", "", path.read_text(encoding="utf-8"))
    return re.sub(r"\s+", " ", re.sub(r"`[^`\n]*`", "", text))


def found(pattern: str, paths: list[Path]) -> list[str]:
    """Places where a pattern occurs, each with the words around it."""
    texts = {path: prose(path) if path.suffix == ".md" else path.read_text(encoding="utf-8") for path in paths}
    return [
        f"{path.relative_to(ROOT)}: ...{text[max(0, hit.start() - 40) : hit.end() + 30]}..."
        for path, text in texts.items()
        for hit in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize("word", EVERYWHERE)
def test_words_that_appear_nowhere(word: str) -> None:
    paths = [path for path in TEXTS if path.is_file() and "_build" not in path.parts]
    assert [str(path) for path in paths if re.search(word, path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("word", VOCABULARY)
def test_pages_and_examples_have_one_vocabulary(word: str) -> None:
    assert found(word, [*PAGES, *EXAMPLES]) == [], f"better: {VOCABULARY[word]}"


@pytest.mark.parametrize("phrase", TRANSLATED)
def test_pages_and_examples_are_plain_english(phrase: str) -> None:
    assert found(phrase, [*PAGES, *EXAMPLES]) == []


@pytest.mark.parametrize("word", VOCABULARY)
def test_screens_have_one_vocabulary(word: str) -> None:
    texts = {path: re.sub(r'"""[\s\S]*?"""', "", path.read_text(encoding="utf-8")) for path in SCREENS}
    said = [(path.name, text) for path, content in texts.items() for text in SAID.findall(content)]
    # Names of attributes are not read by people.
    is_name = re.compile(r'"\w+"')
    assert [(name, text) for name, text in said if re.search(word, text) and not is_name.fullmatch(text)] == []
