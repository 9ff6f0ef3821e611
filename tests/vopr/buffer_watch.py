"""The promises about the asynchronous rounds of one life of the server: when a round may close, and which replies it
takes in.

A round closes when the buffer is full, when nobody has a task without an answer, or at its deadline. It takes in every
accepted reply since the last round was closed, and no other reply. A client whose key was withdrawn before this life is
accepted in no round.
"""

from __future__ import annotations

from collections.abc import Set

from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.protocol.wire.messages import Train
from edgefl.server.events import DeviceRefusal, Record, ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.member_records import OperatorCommand
from edgefl.server.run_progress import Progress
from tests.vopr.command_watch import CommandWatch
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.process import Process
from tests.vopr.reply_log import TAKEN_IN
from tests.vopr.round_watch import SLACK_S, limits


class BufferWatch:
    """The watch over one life of the server, which begins with `progress`. Raises BrokenPromiseError."""

    def __init__(
        self,
        commands: CommandWatch,
        settings: AsynchronousRounds,
        revoked: Set[int],
        progress: Progress,
        process: Process,
    ) -> None:
        self._commands, self._settings, self._revoked, self._process = commands, settings, revoked, process
        self._has_changed = False  # whether the operator has changed the deadline of the open round
        self._refusing = set(progress.refusals)
        self._number = progress.round + 1
        self._tasks = {client: earlier.round for earlier in progress.earlier for client in earlier.clients}
        self._tasks |= dict.fromkeys(progress.opened or (), self._number)
        self._tasks = {} if progress.done else self._tasks
        self._judged = {each.client: each.outcome for each in progress.answers}
        self._at: float | None = None
        self._recorded_s: float | None = None

    def begin(self) -> None:
        """Note that the coordinator goes on with an open round, whose time begins anew. Only the first call counts."""
        self._at = self._process.schedule.now if self._at is None else self._at

    def loses(self, now: float) -> None:
        """Take note of nothing, as the next round closes by the replies that come."""

    def awaits(self, client: int) -> bool:
        """Return whether this client has a task without an answer."""
        return client in self._tasks and client not in self._judged

    def asks(self, message: Train) -> None:
        """Check that a task has no deadline, as it outlives its round."""
        if message.deadline_s is not None:
            raise BrokenPromiseError(f"a task of round {message.round} has a deadline of {message.deadline_s} s")

    def saves(self, record: Record) -> None:
        """Check a record that the coordinator wants to be durable."""
        if isinstance(record, DeviceRefusal):
            (self._refusing.add if record.reason else self._refusing.discard)(record.client)
        elif isinstance(record, OperatorCommand):
            self._has_changed |= record.words[-1].startswith("deadline=")
        elif isinstance(record, RoundOpened):
            self._opens(record)
        elif isinstance(record, ReplyJudged):
            self._judges(record)
        elif isinstance(record, RoundClosed):
            self._closes(record)

    def _opens(self, record: RoundOpened) -> None:
        self._at, self._recorded_s, self._has_changed = self._process.schedule.now, record.deadline_s, False
        if again := self._tasks.keys() & set(record.clients):
            raise BrokenPromiseError(f"round {record.round} gives client {min(again)} a second task")
        self._tasks |= dict.fromkeys(record.clients, record.round)
        if len(self._tasks) > self._settings.tasks:
            raise BrokenPromiseError(f"{len(self._tasks)} clients have a task; expected at most {self._settings.tasks}")

    def _judges(self, record: ReplyJudged) -> None:
        if record.outcome == "late":
            if self._tasks.get(record.client) == record.round and record.client not in self._judged:
                raise BrokenPromiseError(f"the reply of client {record.client} for round {record.round} is late")
            return
        if record.outcome == "accepted" and record.client in self._revoked:
            raise BrokenPromiseError(f"client {record.client} counts in round {record.round} without a key")
        if self._tasks.get(record.client) != record.round or record.closes != self._number:
            raise BrokenPromiseError(
                f"the reply of client {record.client} for round {record.round} goes into round {record.closes};"
                f" expected a reply to a task of {self._tasks}, in round {self._number}"
            )
        self._judged[record.client] = record.outcome

    def _closes(self, record: RoundClosed) -> None:
        accepted = {client for client, outcome in self._judged.items() if outcome == "accepted"}
        clients = [each for each in record.log_record["clients"] if each["status"] in TAKEN_IN]
        found = {each["client"]: record.round - each.get("staleness", 0) for each in clients}
        if found != {client: self._tasks[client] for client in accepted}:
            raise BrokenPromiseError(f"round {record.round} takes in {found}; expected the accepted of {self._judged}")
        took = self._process.schedule.now - (self._at or 0.0)
        shortest, _ = limits(self._commands.control.rules.deadline_s, self._recorded_s)
        shortest = 0.0 if self._has_changed else shortest
        answered = self._judged.keys() | self._refusing | self._commands.removed
        is_full = len(accepted) >= self._settings.buffer or answered >= self._tasks.keys()
        if not is_full and (shortest is None or took < shortest - SLACK_S / 10):
            raise BrokenPromiseError(
                f"round {record.round} closes after {took:.3f} s with {self._judged} of the tasks {self._tasks};"
                f" expected {self._settings.buffer} accepted replies, or {shortest} s"
            )
        self._number = record.round + 1
        ended = {client for client, round in self._tasks.items() if self._settings.is_too_old(round, self._number)}
        going_on = self._tasks.keys() - self._judged.keys() - ended
        self._tasks = {} if record.done else {client: self._tasks[client] for client in going_on}
        self._judged = {}
