"""Parts of a page that every section is made of. All text is escaped here, so a section passes plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from edgefl.study.report.looks import LineLook
from edgefl.study.result_table import ResultTable
from edgefl.study.table_formats import html_table

NUMBER = 'class="number"'


def section(id: str, title: str, parts: Iterable[str]) -> str:
    """Return a section with its heading, or "" without parts."""
    found = [part for part in parts if part]
    body = "\n".join(found)
    head = f'<section id="{id}" aria-labelledby="{id}-title">\n<h2 id="{id}-title">{escape(title)}</h2>'
    return f"{head}\n{body}\n</section>" if found else ""


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def paragraph(text: str, mark: str = "") -> str:
    """Return a paragraph. `mark` is its CSS class."""
    return f'<p class="{mark}">{escape(text)}</p>' if mark else f"<p>{escape(text)}</p>"


def listed(items: Iterable[str], mark: str = "") -> str:
    """Return a list, or "" without items."""
    found = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<ul class="{mark}">{found}</ul>' if found else ""


def table(found: ResultTable, is_sortable: bool = True) -> str:
    """Return a table that scrolls by itself if it is wider than the page, or "" without rows."""
    if not found.rows:
        return ""
    label = escape(found.title)
    kind = "scroll sortable" if is_sortable and len(found.rows) > 1 else "scroll"
    return f'<div class="{kind}" role="region" tabindex="0" aria-label="{label}">{html_table(found, NUMBER)}</div>'


def hidden(title: str, parts: Iterable[str]) -> str:
    """Return parts that the reader sees after a click, or "" without parts."""
    found = "\n".join(part for part in parts if part)
    return f"<details><summary>{escape(title)}</summary>\n{found}\n</details>" if found else ""


def figure(caption: str, svg: str, entries: Sequence[tuple[str, LineLook]] = (), below: str = "") -> str:
    """Return a chart with its caption and the names of its lines. `below` is HTML that follows the names."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>\n{svg}\n{_legend(entries)}{below}</figure>"


def figures(found: Iterable[str]) -> str:
    """Return figures side by side, as many as the width of the page allows."""
    joined = "\n".join(each for each in found if each)
    return f'<div class="figures">\n{joined}\n</div>' if joined else ""


def _legend(entries: Sequence[tuple[str, LineLook]]) -> str:
    if not entries:
        return ""
    items = "".join(f"<li>{_sample(look)}{escape(name)}</li>" for name, look in entries)
    return f'<ul class="legend">{items}</ul>\n'


def _sample(look: LineLook) -> str:
    line, mark = f'<path class="line {look.classes}" d="M1 7H25"/>', look.marker(13, 7)
    return (
        f'<svg class="sample" viewBox="0 0 26 14" aria-hidden="true">{line}'
        f'<path class="mark {look.classes}" d="{mark}"/></svg>'
    )
