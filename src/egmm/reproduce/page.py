"""One page of tables and figures, as Markdown and as HTML; all data are escaped."""

import base64
import html
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from egmm.reproduce.sheets import Sheet, Text


class Heading(NamedTuple):
    """A heading; level 1 is the title of the page."""

    text: str
    level: int = 2


class Paragraph(NamedTuple):
    """A paragraph, which may hold `code` and *emphasis*."""

    text: str


class Bullets(NamedTuple):
    """A list."""

    items: Sequence[str]


class Image(NamedTuple):
    """A figure with its caption."""

    path: Path
    title: str
    caption: str


Block = Heading | Paragraph | Bullets | Image | Sheet


def to_markdown(blocks: Sequence[Block], folder: Path) -> str:
    """Write blocks as Markdown; images are linked relative to `folder`."""
    return "\n\n".join(_markdown(block, folder) for block in blocks) + "\n"


def _markdown(block: Block, folder: Path) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_plain(text)}"
        case Paragraph(text):
            return _plain(text)
        case Bullets(items):
            return "\n".join(f"- {_plain(item)}" for item in items)
        case Image(path, title, caption):
            return f"![{_plain(title)}]({path.relative_to(folder).as_posix()})\n\n{_plain(caption)}"
        case Sheet():
            return _markdown_sheet(block)


def _markdown_sheet(sheet: Sheet) -> str:
    lines = [f"### {_plain(sheet.title)}", ""] if sheet.title else []
    if sheet.intro:
        lines += [_plain(sheet.intro), ""]
    lines += ["| " + " | ".join(_cell(name) for name in sheet.head) + " |", "|" + "---|" * len(sheet.head)]
    lines += ["| " + " | ".join(_markdown_cell(cell) for cell in line) + " |" for line in sheet.lines]
    if sheet.notes:
        lines += ["", *(f"- {_plain(note)}" for note in sheet.notes)]
    return "\n".join(lines)


def _markdown_cell(cell: Text) -> str:
    ours = _cell(f"{cell.ours} {cell.mark}".strip())
    return f"{ours}<br><sub>{_cell(cell.paper)}</sub>" if cell.paper else ours


def _plain(text: str) -> str:
    """Escape tags in Markdown."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def to_html(blocks: Sequence[Block]) -> str:
    """Write blocks as one HTML page with embedded figures."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    style = (files("egmm.reproduce") / "page.css").read_text("utf-8")
    body = "\n".join(_html(block) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f'<h{level} id="{_anchor(text)}">{_inline(text)}</h{level}>'
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Bullets(items):
            return "<ul>\n" + "\n".join(f"<li>{_inline(item)}</li>" for item in items) + "\n</ul>"
        case Image(path, title, caption):
            data = base64.b64encode(path.read_bytes()).decode()
            return (
                f'<figure>\n<img alt="{html.escape(title)}" src="data:image/png;base64,{data}">\n'
                f"<figcaption>{_inline(caption)}</figcaption>\n</figure>"
            )
        case Sheet():
            return _html_sheet(block)


def _html_sheet(sheet: Sheet) -> str:
    head = "".join(f'<th scope="col">{_inline(name)}</th>' for name in sheet.head)
    rows = "\n".join("<tr>" + "".join(_html_cell(cell) for cell in line) + "</tr>" for line in sheet.lines)
    parts = [f'<h3 id="{_anchor(sheet.title)}">{_inline(sheet.title)}</h3>'] if sheet.title else []
    if sheet.intro:
        parts.append(f"<p>{_inline(sheet.intro)}</p>")
    kind = "words" if sheet.name == "glance" else "numbers"
    parts.append(
        f'<div class="wide" tabindex="0"><table class="{kind}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )
    if sheet.notes:
        parts.append("<ul>\n" + "\n".join(f"<li>{_inline(note)}</li>" for note in sheet.notes) + "\n</ul>")
    return "\n".join(parts)


def _html_cell(cell: Text) -> str:
    mark = f' <span class="mark">{html.escape(cell.mark)}</span>' if cell.mark else ""
    below = f"<small>{html.escape(cell.paper)}</small>" if cell.paper else ""
    return f"<td>{_inline(cell.ours)}{mark}{below}</td>"


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _inline(text: str) -> str:
    """Escape, then convert `code` and *emphasis*."""
    escaped = html.escape(text)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"(?<![\w*])\*(?!\s)([^*\n]+)(?<!\s)\*(?![\w*])", r"<em>\1</em>", escaped)
