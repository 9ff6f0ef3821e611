"""Options and commands under their former names. Each former name still works, and its present name is printed on
stderr.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from edgefl.errors import former_name

COMMANDS = {"deal": "partition"}  # former name of a command -> present name


class FormerOption(argparse.Action):
    """An option under a former name. It is not in the help, and its value is stored under the present name.

    now  the present name of the option, as "--aggregation"
    """

    def __init__(self, option_strings: list[str], dest: str, now: str, **more: Any) -> None:
        super().__init__(option_strings, now.removeprefix("--").replace("-", "_"), help=argparse.SUPPRESS, **more)
        self._now = now

    def __call__(self, parser: object, namespace: object, values: Any, option_string: str | None = None) -> None:
        say_former(str(option_string), self._now)
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def add_former(options: argparse._ActionsContainer, before: str, now: str, is_flag: bool = False) -> None:
    """Add the option `now` under its former name `before`."""
    nargs = 0 if is_flag else None
    options.add_argument(before, action=FormerOption, now=now, default=argparse.SUPPRESS, nargs=nargs)


def command_of(word: str) -> str:
    """Return the command that a word stands for. The word may be a former name of the command."""
    if word in COMMANDS:
        say_former(f"edgefl {word}", f"edgefl {COMMANDS[word]}")
    return COMMANDS.get(word, word)


def say_former(before: str, now: str) -> None:
    """Say the present name in one line on stderr."""
    print(f"warning: {former_name(before, now)}", file=sys.stderr)
