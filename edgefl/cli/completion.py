"""`edgefl completion SHELL` prints a script by which bash, zsh or fish complete edgefl's commands and options.

shtab makes the script once, so that a press of TAB starts no Python. With argcomplete every press would start
edgefl.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgefl.cli.commands import COMMANDS, parser_of
from edgefl.cli.option_parser import OptionParser
from edgefl.cli.working import working
from edgefl.errors import RequestError
from edgefl.experiment.data.catalog import NAMES as DATA_SETS
from edgefl.experiment.device_models.device_assignment import NAMES as FLEETS
from edgefl.learning.memory import METHODS as WAYS
from edgefl.methods import METHODS
from edgefl.models.graph.architectures import EXAMPLES
from edgefl.models.graph.architectures import NAMES as MODELS

Completion = dict[str, Any]
SHELLS = ("bash", "zsh", "fish")
METHOD_NAMES = (
    "simulate method",
    "serve method",
    "check method",
    "methods name",
    "export method",
    "client allow_method",
)
NAMES_OR_FILES: dict[str, Iterable[str]] = {  # command and value -> the names that may stand there beside files
    **{f"{command} data": DATA_SETS for command in ("simulate", "serve", "partition")},
    "check brought": DATA_SETS,
    **{f"{command} model": MODELS for command in ("simulate", "serve", "partition", "check")},
    "memory model": EXAMPLES,
    "simulate devices": FLEETS,
}
DIRECTORIES = ("DIR", "RUN", "RUN|STATE")
LONGEST = 70  # characters of the description beside a completion
MISSING = "completion needs the package shtab; expected: pip install 'edgefl[completion]', or pip install shtab"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name of the shell."""
    parser.add_argument("shell", choices=SHELLS, help="shell that the script is for. The script goes to stdout.")


def run(options: argparse.Namespace) -> int:
    """Print the script. Raises RequestError without shtab."""
    with working("reading the options of all commands"):
        text = script(options.shell)
    print(text)
    return 0


def script(shell: str) -> str:
    """Return the script of bash, zsh or fish, for all commands. Raises RequestError without shtab."""
    try:
        import shtab  # an extra, which a device does not need
    except ModuleNotFoundError:
        raise RequestError(MISSING) from None
    text = str(shtab.complete(_parser(shtab.FILE, shtab.DIRECTORY), shell))
    return text.replace('"(*):', '"*:') if shell == "zsh" else text  # shtab lets zsh complete only one RUN of RUN...


def _parser(file: Completion, directory: Completion) -> argparse.ArgumentParser:
    """Return one parser of all commands, with what shtab reads: short descriptions, names, and the kinds of paths."""
    whole = OptionParser(prog="edgefl")
    whole.add_argument("--version", action="store_true", help="print the version and the commit")
    commands = whole.add_subparsers(dest="command")
    for name, what in COMMANDS.items():
        for action in parser_of(name, commands.add_parser, name=name, help=what)._actions:
            if action.help != argparse.SUPPRESS:
                action.help = _brief(action.help or "")
                _complete(action, f"{name} {action.dest}", file, directory)
    return whole


def _complete(action: argparse.Action, place: str, file: Completion, directory: Completion) -> None:
    """Say how a value of the action is completed: by names, by files, by directories, or by names and files."""
    metavar = str(action.metavar)
    found: Completion | None = None
    if place in NAMES_OR_FILES:
        found = _names_or_files(place.replace(" ", "_"), NAMES_OR_FILES[place])
    elif place in METHOD_NAMES:
        action.choices = tuple(METHODS)
    elif place == "memory method":
        action.choices = tuple(dict.fromkeys((*WAYS, *METHODS)))
    elif metavar in DIRECTORIES:
        found = directory
    elif action.type is Path or "FILE" in metavar:
        found = file
    if found is not None:
        action.complete = found  # type: ignore[attr-defined]  # shtab reads it


def _names_or_files(name: str, names: Iterable[str]) -> Completion:
    """Return a completion by names and by files, as shtab takes it. `name` ends the names of the shells' functions."""
    listed = " ".join(names)
    function = f"_edgefl_{name}"
    return {
        "bash": function,
        "zsh": function,
        "fish": f"{listed} (__fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "{listed}" -- $1\n  compgen -f -- $1\n}}',
            "zsh": f"{function}() {{ _alternative 'names:name:({listed})' 'files:file:_files' }}",
        },
    }


def _brief(text: str) -> str:
    """Return the first phrase of a help text, for a line beside a completion."""
    phrase = re.split(r"\. (?=[A-Z`])| \((?:default|for example): ", text)[0].rstrip(".")
    return phrase if len(phrase) <= LONGEST else re.split(r"[:,] ", phrase)[0]
