"""The settings of a run that the operator's commands have changed: pauses, the end, deadlines, the number of rounds.

The commands are durable, so a server that is started again takes them into account. A setting of a command holds until
another command changes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edgefl.server.member_records import OperatorCommand
from edgefl.server.operator_command import DEADLINE, EVALUATION_DEADLINE, ROUNDS, deadline, rounds, selection
from edgefl.server.round_rules import Rules


def commanded_rounds(commands: Iterable[OperatorCommand], rounds: int) -> int:
    """Return the number of rounds of a run that began with `rounds`, as the commands have changed it."""
    settings = [words[1].partition("=") for words in (command.words for command in commands) if words[0] == "set"]
    return [rounds, *(int(value) for name, _, value in settings if name == ROUNDS)][-1]


class RunControl:
    """The rules of a run, as the commands have changed them.

    rules        rules that hold now
    is_paused    whether no round may open
    is_stopping  whether the run ends with the open round
    is_draining  whether the server's process ends with the open round
    """

    def __init__(self, rules: Rules, commands: Iterable[OperatorCommand] = ()) -> None:
        """Begin with the rules of the server's options, and with the commands that earlier processes carried out."""
        self.rules = rules
        self.is_paused = self.is_stopping = self.is_draining = False
        for command in commands:
            self.apply(command.words)
        self.is_draining = False  # that was the end of an earlier process

    @property
    def is_selecting(self) -> bool:
        """True if a round's clients are chosen among some of the enrolled clients."""
        return self.rules.seen_s is not None or self.rules.choice is not None

    def apply(self, words: tuple[str, ...]) -> None:
        """Take a checked command into account. The commands about single clients change nothing here."""
        name = words[0]
        if name in ("pause", "resume"):
            self.is_paused = name == "pause"
        elif name == "stop":
            self.is_stopping = True
        elif name == "drain":
            self.is_draining = True
        elif name == "set":
            self._set(*words[1].split("=", 1))

    def _set(self, setting: str, value: str) -> None:
        if setting == DEADLINE:
            self.rules = replace(self.rules, deadline_s=deadline(value))
        elif setting == EVALUATION_DEADLINE:
            self.rules = replace(self.rules, evaluation_deadline_s=deadline(value))
        elif setting == ROUNDS:
            self.rules = replace(self.rules, rounds=rounds(value))
        else:
            self.rules = replace(self.rules, **selection(value)._asdict())
