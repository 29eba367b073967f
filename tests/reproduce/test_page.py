"""Pages are well-formed, hold everything once, and take text for text."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from egmm.reproduce import Reproduction, Sheet, Text
from egmm.reproduce.page import Bullets, Heading, Image, Paragraph, to_html, to_markdown

HOSTILE = "<script>alert('x')</script> & a|b"
VOID = {"meta", "img", "br", "link", "hr"}


class Outline(HTMLParser):
    """Checks that tags close in order, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.text = ""
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def hostile_blocks(tmp_path: Path) -> list[object]:
    picture = tmp_path / "figures" / "p.png"
    picture.parent.mkdir()
    picture.write_bytes(b"\x89PNG")
    sheet = Sheet("t", HOSTILE, HOSTILE, ["", HOSTILE], [[Text(HOSTILE), Text(HOSTILE, HOSTILE, "▲")]], [HOSTILE])
    return [Heading(HOSTILE, 1), Paragraph(HOSTILE), Bullets([HOSTILE]), sheet, Image(picture, '"' + HOSTILE, HOSTILE)]


def test_text_stays_text_in_html(tmp_path: Path) -> None:
    found = outline(to_html(hostile_blocks(tmp_path)))  # type: ignore[arg-type]
    assert "script" not in found.seen
    # Heading, title, paragraph, bullet, sheet title, intro, note, column, two cells and what is below, caption.
    assert found.text.count(HOSTILE) == 12


def test_text_stays_text_in_markdown_and_tables_keep_their_columns(tmp_path: Path) -> None:
    text = to_markdown(hostile_blocks(tmp_path), tmp_path)  # type: ignore[arg-type]
    assert "<script" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert "](figures/p.png)" in text


def test_inline_marks() -> None:
    page = to_html([Paragraph("`a<b` and *chosen* but 2 * 3 * 4 and `x*y*z`")])
    assert "<code>a&lt;b</code> and <em>chosen</em> but 2 * 3 * 4" in page


def test_the_whole_page(made: Reproduction) -> None:
    page = (made.folder / "reproduction.html").read_text("utf-8")
    found = outline(page)
    assert found.seen["table"] == len(made.sheets)
    assert found.seen["img"] == 7
    assert len(found.ids) == len(set(found.ids))
    assert "http" not in re.sub(r"base64,[^\"]+", "", page)  # works offline
    assert "nan" not in re.sub(r"base64,[^\"]+", "", page).lower().replace("nanometre", "")


def test_the_markdown_page_links_what_is_there(made: Reproduction) -> None:
    text = (made.folder / "reproduction.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) == 7
    assert all((made.folder / link).is_file() for link in links)
    tables = re.split(r"\n\n", text)
    for table in (block for block in tables if block.lstrip().startswith("|")):
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines() if row.startswith("|")}
        assert len(widths) == 1, table[:200]
    assert "egmm reproduce --quick" in text


@pytest.mark.parametrize("name", ["purity", "clusters"])
def test_deviations_of_the_papers_mode_have_a_note(made: Reproduction, name: str) -> None:
    sheet = made.sheets[name]
    beyond = [n for n in sheet.numbers if n.column == "EGMM, paper mode" and n.verdict in {"better", "worse"}]
    for number in beyond:
        assert any(note.startswith("Paper mode") and f"{number.row} {number.value:.3f}" in note for note in sheet.notes)
