"""Options and commands under their former names: each still works, and says its present name on stderr."""

from __future__ import annotations

import argparse
import sys
from typing import Any

COMMANDS = {"deal": "partition"}  # a command's name of before -> its name now


class FormerOption(argparse.Action):
    """Takes an option under a name that it had. It is not in help and stores under the name of now.

    now  the option as it is called now, as "--aggregation"
    """

    def __init__(self, option_strings: list[str], dest: str, now: str, **more: Any) -> None:
        super().__init__(option_strings, now.removeprefix("--").replace("-", "_"), help=argparse.SUPPRESS, **more)
        self._now = now

    def __call__(self, parser: object, namespace: object, values: Any, option_string: str | None = None) -> None:
        say_former(str(option_string), self._now)
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def add_former(options: argparse._ActionsContainer, before: str, now: str, is_flag: bool = False) -> None:
    """Adds the option `now` under its name of before."""
    nargs = 0 if is_flag else None
    options.add_argument(before, action=FormerOption, now=now, default=argparse.SUPPRESS, nargs=nargs)


def command_of(word: str) -> str:
    """The command that a word stands for, which may be a command's name of before."""
    if word in COMMANDS:
        say_former(f"edgefl {word}", f"edgefl {COMMANDS[word]}")
    return COMMANDS.get(word, word)


def say_former(before: str, now: str) -> None:
    """Tells a person the name of now, in one line on stderr."""
    print(f"warning: {before} is called {now} now; the old name goes away in a later version", file=sys.stderr)
