"""`edgefl completion SHELL`: prints a script by which bash, zsh or fish complete edgefl's commands and options.

shtab makes the script once, so that a press of TAB starts no Python; argcomplete starts edgefl for every press.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from edgefl.cli.commands import COMMANDS, parser_of
from edgefl.cli.option_parser import OptionParser
from edgefl.errors import RequestError

SHELLS = ("bash", "zsh", "fish")
MISSING = "completion needs the package shtab; expected: pip install 'edgefl[completion]', or pip install shtab"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the name of the shell."""
    parser.add_argument("shell", choices=SHELLS, help="shell that the script is for; the script goes to stdout")


def run(options: argparse.Namespace) -> int:
    """Prints the script. Raises RequestError without shtab."""
    print(script(options.shell))
    return 0


def script(shell: str) -> str:
    """The script of bash, zsh or fish, for all commands. Raises RequestError without shtab."""
    try:
        import shtab  # an extra, which a device does without
    except ModuleNotFoundError:
        raise RequestError(MISSING) from None
    return str(shtab.complete(_parser(shtab.FILE), shell))


def _parser(file: object) -> argparse.ArgumentParser:
    """One parser of every command. An option of a path is completed as `file` says."""
    whole = OptionParser(prog="edgefl")
    whole.add_argument("--version", action="store_true", help="print the version and the commit")
    commands = whole.add_subparsers(dest="command")
    for name, what in COMMANDS.items():
        for action in parser_of(name, commands.add_parser, name=name, help=what)._actions:
            if action.type is Path:
                action.complete = file  # type: ignore[attr-defined]  # shtab reads it
    return whole
