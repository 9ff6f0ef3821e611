"""Writes the pages of the reference that follow from the code: the API by parts, and the options of every command.

The parts are those of scripts/api.py; the options come from the parsers of the commands. The pages are written into the
folder that Sphinx reads, docs/reference/, which is a copy: the checkout has no such folder.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import api
from plain_docstrings import escaped
from sphinx.application import Sphinx

from edgefl.cli.commands import COMMANDS, parser_of
from edgefl.errors import EdgeflError


def setup(app: Sphinx) -> dict[str, bool]:
    """Has the pages written before Sphinx looks for pages."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "docs" / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.rst").write_text(text)


def pages() -> dict[str, str]:
    """The text of every page by its name."""
    parts = {_file_name(title): title for title in api.PARTS}
    found = {f"api-{name}": _api_page(title) for name, title in parts.items()}
    found |= {f"command-{name}": _command_page(name) for name in COMMANDS}
    about_parts = (
        "The public names of edgefl, one page for each part. The page ``docs/api.md`` has all of them as text."
    )
    about_commands = "The commands of ``edgefl``, one page for each command with all of its options."
    found["api"] = _listing("API by part", about_parts, [f"api-{name}" for name in parts])
    found["commands"] = _listing("Commands and options", about_commands, [f"command-{name}" for name in COMMANDS])
    return found


def _listing(title: str, about: str, names: list[str]) -> str:
    return "\n".join(
        [_heading(title), about, "", ".. toctree::", "   :maxdepth: 1", "", *(f"   {n}" for n in names), ""]
    )


def _heading(title: str, mark: str = "=") -> str:
    return f"{title}\n{mark * len(title)}\n"


def _file_name(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _api_page(title: str) -> str:
    return "\n".join([_heading(f"API: {title[0].lower()}{title[1:]}"), *map(_entry, api.PARTS[title])])


def _entry(what: str) -> str:
    """The heading and the directive of autodoc for one entry of scripts/api.py."""
    where, _, known = what.partition(" as ")
    module, _, name = where.partition(":")
    if not name:
        return f"{_heading(module, '-')}\n.. automodule:: {module}\n"
    try:
        thing = getattr(importlib.import_module(module), name)
    except (EdgeflError, ImportError):  # the module needs a package that is not here, as edgefl.integrations.flower
        return _text_entry(what)
    kind = "class" if isinstance(thing, type) else "function"
    home = known.rpartition(".")[0] or module
    members = "   :members:\n" if kind == "class" else ""
    return f"{_heading(known or f'{module}.{name}', '-')}\n.. auto{kind}:: {home}::{name}\n{members}"


def _text_entry(what: str) -> str:
    """An entry as docs/api.md has it, made without importing its module."""
    title, _, block = api.entry(what).removeprefix("### ").partition("\n")
    lines = block.strip().removeprefix("```text\n").removesuffix("```").splitlines()
    return "\n".join([_heading(title, "-"), ".. code-block:: text", "", *(f"   {line}" for line in lines), ""])


def _command_page(name: str) -> str:
    parser = parser_of(name, prog=f"edgefl {name}")
    words = [_value(each) for each in parser._actions if not each.option_strings and each.help != argparse.SUPPRESS]
    head = [_heading(f"edgefl {name}"), escaped(f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}."), ""]
    head += [".. code-block:: text", "", " ".join([f"   edgefl {name}", *words, "[options]"]), ""]
    head += [f".. program:: edgefl {name}", ""]
    lines = [line for group in parser._action_groups for line in _group(group)]
    return "\n".join([*head, *lines, *_examples(getattr(parser, "examples", ()))])


def _examples(lines: Iterable[str]) -> list[str]:
    """The command lines that end the help of a command, one block for all."""
    if not lines:
        return []
    return [_heading("Examples", "-"), ".. code-block:: sh", "", *(f"   {line}" for line in lines), ""]


def _group(group: Any) -> Iterator[str]:
    """A heading and every option of one group."""
    shown = [each for each in group._group_actions if each.help != argparse.SUPPRESS]
    if not shown:
        return
    yield _heading((group.title or "options").capitalize(), "-")
    if group.description:
        yield from (escaped(group.description), "")
    for action in shown:
        yield from _option(action)


def _option(action: argparse.Action) -> Iterator[str]:
    value, formatter = _value(action), argparse.HelpFormatter("edgefl")
    names = ", ".join(f"{each} {value}".strip() for each in action.option_strings) or value
    yield f".. option:: {names}"
    yield ""
    yield f"   {escaped(' '.join(formatter._expand_help(action).split()))}" if action.help else "   "
    yield ""


def _value(action: argparse.Action) -> str:
    """The value of an option, or a word of the command line, as its usage shows it."""
    name = action.dest.upper() if action.option_strings else action.dest
    return argparse.HelpFormatter("edgefl")._format_args(action, name)
