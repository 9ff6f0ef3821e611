"""The records about the members of a run, and the commands of its operator as events, records and answers.

events.py has the other events, records and actions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientRemoved:
    """The operator's removal of a client, whose device is refused from then on. An empty reason: it may come again."""

    client: int
    reason: str


@dataclass(frozen=True)
class TagsRecorded:
    """The tags that a client's device has told last, sorted by name."""

    client: int
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OperatorCommand:
    """A command of the operator that the server carries out (operator_command.py).

    name   name of the command's file, which no other command of the run has
    given  time at which the operator gave it, in seconds since 1970
    round  last closed round at that time
    words  words of the command
    """

    name: str
    given: float
    round: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class CommandGiven:
    """The event that the operator has given a command, as OperatorCommand has it."""

    name: str
    given: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class AnswerOperator:
    """Tell the operator what became of the command with this name."""

    name: str
    line: str
    is_done: bool
