"""The README and the guide run as printed, and their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
LINKED = sorted({*PAGES, *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")})
MADE_IN_THE_BUILD = "figures/guide/"


def code_of(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page)], ids=lambda page: page.name)
def test_python_runs_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EGMM_DATA", raising=False)  # as for a new user
    if "import torch" in code_of(page):
        pytest.importorskip("torch", reason="needs torch: pip install torch")
        monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # which the page sets too, for good
    exec(compile(code_of(page), str(page), "exec"), {"__name__": "page"})


def test_the_readme_has_twelve_lines_of_python() -> None:
    assert len([line for line in code_of(ROOT / "README.md").splitlines() if line.strip()]) == 12


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text()) + re.findall(r"```\{image\} (\S+)", page.read_text())
    local = [link for link in links if "://" not in link and MADE_IN_THE_BUILD not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


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


def shell_commands(page: Path) -> list[str]:
    """Commands of egmm that a page prints on lines of their own."""
    return re.findall(r"^(?:    |\$ )?(egmm [a-z]+ .*?)(?: +#.*)?$", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in LINKED if shell_commands(page)], ids=lambda page: page.name)
def test_printed_commands_are_understood(page: Path) -> None:
    typer = pytest.importorskip("typer")
    from egmm.cli.app import app  # noqa: PLC0415

    group = typer.main.get_command(app)
    for line in shell_commands(page):
        words = shlex.split(re.split(r" [|>] ?", line)[0])[1:]
        is_pattern = any(word.isupper() for word in words)  # egmm fit DATA
        if not is_pattern and words[0] in group.commands and "..." not in line:
            command = group.commands[words[0]]
            # Reads and checks every option; nothing is run.
            command.make_context(words[0], words[1:])


def test_commands_in_the_readme_are_targets() -> None:
    wanted = set(re.findall(r"^    make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert wanted
    assert wanted <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
