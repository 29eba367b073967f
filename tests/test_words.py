"""One vocabulary and plain English: words that must not appear in what people read.

The lists are kept here alone. A text may quote a name in backquotes: names of code are not read as words.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
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

IN_CODE = [
    r"^(?:Of|From) (?!the paper)",
    r"^The same\b",
    r"\bbut for\b",
    r"\bnothing but\b",
    r"\bhas but\b",
    r"\bfor ever\b",
    r"\bsuch as suit\b",
    r"\bstays? away\b",
    r"\basked of\b",
    r"\bare their own\b",
    r"\bof the(?:ir| clusters') own\b",
    r"\bwhat (?:there is|else is|they do not|is left|all models|comes of)\b",
    r"\bcovariances of their own\b",
    r"\ba cell at least\b",
    r"\bno rows? is of\b",
]
"""Phrases that docstrings and comments of constants had; the first words say what the thing is."""

MESSAGES = {
    "warn",
    "print",
    "echo",
    "say",
    "message",
    "info",
    "warning",
    "append",
    "tell",
    "CommandError",
    "BadParameter",
}
"""Functions whose text people read."""

MODULES = sorted((ROOT / "src" / "egmm").rglob("*.py"))
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


@cache
def parsed(module: Path) -> ast.Module:
    """Syntax tree of a module."""
    return ast.parse(module.read_text(encoding="utf-8"))


def in_words(node: ast.AST) -> Iterator[str]:
    """Text within an expression, without the values that are filled in."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield re.sub(r"^\w+ must ", "", part.value)  # begins with the name of a parameter


def is_said(node: ast.AST) -> bool:
    """Whether a statement or call shows its text to people."""
    if isinstance(node, ast.Raise):
        return True
    name = getattr(node, "func", None)
    return getattr(name, "attr", getattr(name, "id", None)) in MESSAGES


def messages(module: Path) -> set[str]:
    """Text of errors, warnings and screens; in the command line and the report all text but names of attributes."""
    tree = parsed(module)
    if {"cli", "report"} & set(module.parts):
        documented = set(docstrings(module))
        return {text for text in in_words(tree) if text not in documented and not text.isidentifier()}
    return {text for node in ast.walk(tree) if is_said(node) for text in in_words(node) if not text.isidentifier()}


def docstrings(module: Path) -> Iterator[str]:
    """Docstrings, also of private functions, of attributes and of constants."""
    for node in ast.walk(parsed(module)):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) else ():
            if (
                isinstance(part, ast.Expr)
                and isinstance(part.value, ast.Constant)
                and isinstance(part.value.value, str)
            ):
                yield part.value.value


def plain(text: str) -> str:
    """Text of a docstring without examples, names of parameters, names in backquotes and formulas."""
    text = re.sub(r"(?m)^\s*(?:>>>|\.\.\.|\w+ : ).*$", "", text)
    return re.sub(r"\s+", " ", re.sub(r":math:`[^`]*`|``[^`]*``|`[^`\n]*`", "", text)).strip()


def offences(patterns: list[str], texts: dict[Path, list[str]]) -> list[str]:
    """Texts in which a pattern occurs, with their files."""
    either = re.compile("|".join(patterns))
    return [
        f"{path.relative_to(ROOT)}: {text[:100]}"
        for path, found in texts.items()
        for text in found
        if either.search(text)
    ]


def test_messages_have_one_vocabulary_and_plain_english() -> None:
    texts = {module: sorted(messages(module)) for module in MODULES}
    assert sum(map(len, texts.values())) > 1000
    assert offences([*VOCABULARY, *TRANSLATED], texts) == []


def test_docstrings_have_one_vocabulary_and_plain_english() -> None:
    texts = {module: [plain(text) for text in docstrings(module)] for module in MODULES}
    assert sum(map(len, texts.values())) > 2000
    assert offences([*VOCABULARY, *TRANSLATED, *IN_CODE], texts) == []
