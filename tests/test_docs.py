"""The README and the guide run as printed, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
MADE_IN_THE_BUILD = "figures/guide/"


def code_of(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page)], ids=lambda page: page.name)
def test_python_runs_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EGMM_DATA", raising=False)  # as for a new user
    exec(compile(code_of(page), str(page), "exec"), {"__name__": "page"})


def test_the_readme_has_twelve_lines_of_python() -> None:
    assert len([line for line in code_of(ROOT / "README.md").splitlines() if line.strip()]) == 12


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text()) + re.findall(r"```\{image\} (\S+)", page.read_text())
    local = [link for link in links if "://" not in link and MADE_IN_THE_BUILD not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_commands_in_the_readme_are_targets() -> None:
    wanted = set(re.findall(r"^    make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert wanted
    assert wanted <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
