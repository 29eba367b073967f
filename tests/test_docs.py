"""README and documentation run as printed, show what they print, and their links lead somewhere."""

import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from snippets import is_as_shown, outputs, snippets

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = {"_build", "gallery", "packages"}
"""Directories of docs/ that the build writes."""
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if not BUILT & set(page.parts))]
LINKED = sorted({*PAGES, *ROOT.glob("*.md")})
MADE_IN_THE_BUILD = "figures/guide/"
SLOW_PAGES = {"command_line.md", "imaging.md", "picture.md", "scaling.md", "start.md", "table.md"}


def parameters(pages: list[Path]) -> list[Any]:
    marks = {True: [pytest.mark.slow], False: []}
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks[page.name in SLOW_PAGES])
        for page in pages
        if any(snippet.language != "r" for snippet in snippets(page))
    ]


@pytest.mark.parametrize("page", parameters(PAGES))
def test_snippets_run_and_print_what_is_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("matplotlib", "pandas", "typer"):
        pytest.importorskip(needed)
    if any(snippet.language == "shell" for snippet in snippets(page)) and shutil.which("bash") is None:
        pytest.skip("needs bash")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EGMM_DATA", raising=False)  # as for a new user
    if "import torch" in page.read_text():
        pytest.importorskip("torch", reason="needs torch: pip install 'egmm[torch]'")
        monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # which the page sets too, for good
    for snippet, printed in outputs(page, tmp_path, ("python", "shell")):
        if snippet.shown is not None:
            where = f"{page.name}, line {snippet.line}; python tests/snippets.py writes outputs anew"
            assert is_as_shown(snippet.shown, printed), f"{where}\nshown:\n{snippet.shown}\nprinted:\n{printed}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(snippet.language == "r" for snippet in snippets(page))],
    ids=lambda page: page.name,
)
def test_r_snippets_run(page: Path, tmp_path: Path) -> None:
    if shutil.which("Rscript") is None:
        pytest.skip("needs R")
    if subprocess.run(["Rscript", "-e", "library(mclust)"], capture_output=True, check=False).returncode:
        pytest.skip("needs R's mclust")
    for snippet, printed in outputs(page, tmp_path, ("r",)):
        assert snippet.shown is None or is_as_shown(snippet.shown, printed), printed


def test_the_quickstart_has_five_lines() -> None:
    first = next(snippet for snippet in snippets(ROOT / "README.md") if snippet.language == "python")
    assert len([line for line in first.code.splitlines() if line.strip()]) == 5


def test_no_command_hides_outside_a_block_that_runs() -> None:
    hidden = re.compile(r"^    (egmm [a-z]+|python) ", re.MULTILINE)
    pages = [page for page in LINKED if page.name not in {"CONTRIBUTING.md", "RELEASING.md"}]
    assert [
        page.name for page in pages if hidden.search(re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8")))
    ] == []


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r"```\{image\} (\S+)", text)
    local = [link for link in links if "://" not in link and MADE_IN_THE_BUILD not in link]
    assert [link for link in local if not (page.parent / link).exists() and not BUILT & set(Path(link).parts)] == []


def heading_anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        if "://" not in link and target.suffix == ".md":
            assert anchor in heading_anchors(target), f"{page.name} links to {link}#{anchor}"


@pytest.mark.parametrize("question", ["missing values", "outliers", "how many clusters"])
def test_a_heading_answers_what_people_search_for(question: str) -> None:
    """The site's search puts pages first whose title has the words."""
    titles = [title for page in PAGES for title in re.findall(r"^# +(.*)$", page.read_text("utf-8"), re.MULTILINE)]
    assert [title for title in titles if question in title.lower()]


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert [page for page in PAGES[1:] if page != DOCS / "index.md" and page.resolve() not in listed] == []


@pytest.mark.parametrize("name", ["meta_cluster", "readme_picture"])
def test_examples_draw_the_figures_of_pages(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_commands_in_the_readme_are_targets() -> None:
    wanted = set(re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    assert wanted
    assert wanted <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
