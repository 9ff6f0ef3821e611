"""`edgefl methods [NAME]` lists the methods, or describes one method and its settings."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from rich import box
from rich.table import Table

from edgefl.errors import RequestError
from edgefl.experiment import user_methods
from edgefl.methods import METHODS
from edgefl.methods.method_help import MethodHelp, method_help
from edgefl.study import tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name of a method, which may be left out."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="name of a method, or package.module:Class, whose settings are listed (default: all methods are listed)",
    )


def run(options: argparse.Namespace) -> int:
    """Print a line about each method, or the settings of one method."""
    try:
        if options.name is not None:
            user_methods.admit(options.name)
        found = [method_help(name) for name in ([options.name] if options.name is not None else METHODS)]
    except ValueError as error:
        raise RequestError(str(error)) from None
    if options.json:
        print(json.dumps({each.name: asdict(each) for each in found}))
    elif options.name is None:
        _print_all(found)
    else:
        _print_one(found[0])
    return 0


def _print_all(found: list[MethodHelp]) -> None:
    table = _table("method", "what it is")
    for each in found:
        table.add_row(each.name, each.line)
    console = tables.console()
    console.print(table)
    console.print("edgefl methods NAME lists the settings of a method.", highlight=False)


def _print_one(method: MethodHelp) -> None:
    table = _table("setting", "default", "what it is")
    for each in method.settings:
        table.add_row(each.name, _text(each.default), each.text)
    console = tables.console()
    console.print(f"{method.name}\n\n{method.text}\n", highlight=False, markup=False)
    console.print(table)
    example = (
        f"--method {method.name}:{method.settings[0].name}=VALUE" if method.settings else f"--method {method.name}"
    )
    console.print(f"One method's own: {example}; for all methods of a run: --set NAME=VALUE.", highlight=False)


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title in ("method", "setting"))
    return table


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
