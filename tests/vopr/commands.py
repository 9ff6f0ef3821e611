"""The commands that an operator gives to the running server of a simulation, as `edgefl control` gives them.

A command is given again until the server has answered, as a command lies in the run's folder until then. The next
command follows the answer, as a server takes the commands of the folder in order. Once nothing fails any more, the
operator ends a pause, takes removed clients back, and lets every client be chosen.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from edgefl.server.member_records import CommandGiven
from tests.vopr.habits import Habits
from tests.vopr.ledger import Ledger
from tests.vopr.schedule import Schedule
from tests.vopr.server import ServerProcess

AGAIN_S = 30.0  # virtual seconds after which an unanswered command is given again
DEADLINES = ("60", "150", "auto")  # finite, because a client whose key was withdrawn never answers


class Commands:
    """The commands of one simulation. `server` returns the server's process, or None while it is down."""

    def __init__(
        self,
        schedule: Schedule,
        stream: random.Random,
        ledger: Ledger,
        server: Callable[[], ServerProcess | None],
        habits: Habits,
    ) -> None:
        self._conditions, self._is_choosing = habits.conditions, bool(habits.choice)
        self._schedule, self._stream, self._ledger, self._server = schedule, stream, ledger, server
        self._given = 0
        self._waiting = list[CommandGiven]()
        self._removed = set[int]()

    def give(self, client: int) -> None:
        """Give a command at random, which may concern this client."""
        removal = "readmit" if client in self._removed else "remove"
        words = self._stream.choice(
            (
                ("pause",),
                ("resume",),
                (removal, str(client)),
                ("set", f"deadline={self._stream.choice(DEADLINES)}"),
                ("set", f"select=client != {client}"),
                ("set", "select=seen:300"),
                *(("set", f"select={each}") for each in self._conditions),
            )
        )
        if words[0] == removal:
            self._removed ^= {client}
        self._tell(words)

    def calm(self) -> None:
        """Let the run go on with every client."""
        if self._given or self._is_choosing:
            self._tell(("resume",))
            self._tell(("set", "select=all"))
            for client in sorted(self._removed):
                self._tell(("readmit", str(client)))

    def _tell(self, words: tuple[str, ...]) -> None:
        self._given += 1
        command = CommandGiven(f"command {self._given:06d}", self._schedule.now, words)
        self._schedule.note(f"{command.name}: {' '.join(words)}")
        self._waiting.append(command)
        if len(self._waiting) == 1:
            self._attempt()

    def _attempt(self) -> None:
        """Give the first command that has no answer."""
        while self._waiting and self._waiting[0].name in self._ledger.answered:
            del self._waiting[0]
        if self._waiting:
            if (process := self._server()) is not None:
                process.hand(self._waiting[0])
            self._schedule.after(AGAIN_S, self._attempt)
