"""Turns the docstrings of edgefl, which are plain text, into reStructuredText for Sphinx's autodoc.

A paragraph whose lines are `name  what it is`, with continuation lines under the second column, becomes a definition
list. Indented lines become a literal block. All other text is escaped, and `name` becomes code. The fields of a class
follow as they stand in its source, as in docs/api.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import api
from sphinx.application import Sphinx

ROW = re.compile(r"(?P<name>\S.*?) {2,}(?P<text>\S.*)")
CODE = re.compile(r"(`+[^`]+`+)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the two handlers of autodoc's events."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True}


def _docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    text = "\n".join(lines)
    lines[:] = converted(text)
    if what == "class" and (fields := _fields(thing)):
        lines += ["", ".. code-block:: python", "", *(f"   {line}" for line in fields.splitlines()), ""]


def _signature(app: Sphinx, what: str, name: str, *rest: Any) -> tuple[str, None] | None:
    """Leaves out how a class is made that no program makes itself."""
    return ("", None) if what == "class" and name.rpartition(".")[2] in api.GIVEN else None


def _fields(thing: type) -> str:
    """The annotated fields of a class as they stand in its source, with their comments."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return ""
    return api.fields_of(source)


def converted(text: str) -> list[str]:
    """A docstring as lines of reStructuredText."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        found += [*_paragraph(paragraph.splitlines()), ""]
    return found


def _paragraph(lines: list[str]) -> list[str]:
    if not any(line.strip() for line in lines):
        return []
    if all(line.startswith("  ") for line in lines):
        return ["::", "", *(f"   {line}" for line in lines)]
    plain: list[str] = []
    rest = list(lines)
    while rest and not _is_row(rest):
        plain.append(rest.pop(0))
    text = [escaped(" ".join(line.strip() for line in plain))] if plain else []
    return [*text, "", *_rows(rest)] if rest else text


def _is_row(lines: list[str]) -> bool:
    return bool(ROW.fullmatch(lines[0])) and not lines[0].startswith(" ")


def _rows(lines: list[str]) -> Iterator[str]:
    """A definition list of rows and their continuation lines."""
    for line in lines:
        row = ROW.fullmatch(line) if not line.startswith(" ") else None
        if row:
            yield f"``{row['name'].replace('`', '')}``"
            yield f"   {escaped(row['text'])}"
        else:
            yield f"   {escaped(line.strip())}"


def escaped(text: str) -> str:
    """Text whose marks mean nothing to reStructuredText; what stands between backquotes becomes code."""
    parts = CODE.split(text)
    return "".join(_code(part) if at % 2 else _plain(part) for at, part in enumerate(parts))


def _plain(text: str) -> str:
    return re.sub(r"([\\*_|`]|:(?=//[A-Z]))", r"\\\1", text)  # https://HOST is no link


def _code(text: str) -> str:
    return f"\\ ``{text.strip('`').strip()}``\\ "
