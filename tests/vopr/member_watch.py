"""The promises about members in one life of the server: devices that leave, that sleep, and that tell tags.

A device that has left is in no round that opens before it is back, and the log has its departure after every crash. A
device is sent away only if it may sleep and owes no reply, and does not count as gone meanwhile. A client that does not
fulfil the condition in force when a round opens is not in that round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgefl.protocol.wire.messages import DeviceNotice
from edgefl.server.events import DeviceRefusal, Record, RoundOpened
from edgefl.server.run_progress import Progress
from tests.vopr.absences import Absences
from tests.vopr.buffer_watch import BufferWatch
from tests.vopr.command_watch import CommandWatch
from tests.vopr.habits import CONDITIONS, Condition
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.round_watch import RoundWatch

NOT_ONE = re.compile(r"client != (\d+)")


class MemberWatch:
    """The watch over one life of the server, which begins with `progress`. Raises BrokenPromiseError."""

    def __init__(
        self, absences: Absences, commands: CommandWatch, rounds: RoundWatch | BufferWatch, progress: Progress
    ) -> None:
        self._absences, self._commands, self._rounds = absences, commands, rounds
        self._tags: dict[int, Mapping[str, str]] = {client: dict(tags) for client, tags in progress.tags.items()}
        self._sleeping = set[int]()  # clients whose connections may be ended by ComeAgain
        if lost := sorted(absences.left - progress.refusals.keys()):
            raise BrokenPromiseError(f"clients {lost} have left; the server's log has no departure after a crash")

    def admits(self, client: int) -> None:
        """Note that a device may be sent messages over a new connection."""
        self._sleeping.discard(client)
        self._absences.comes(client)

    def hears(self, client: int, notice: DeviceNotice) -> None:
        """Note what an admitted device says of itself."""
        if not notice.leaves:
            self._tags[client] = notice.tags
            (self._sleeping.add if notice.sleeps else self._sleeping.discard)(client)

    def finishes(self, client: int, now: float) -> None:
        """Note that a client hears during the run that it has left. No round waits for it any more."""
        self._absences.leaves(client)
        self._rounds.loses(now)

    def sends_away(self, client: int, seconds: float, now: float) -> None:
        """Check that a device may be sent away for so many seconds."""
        if client not in self._sleeping:
            raise BrokenPromiseError(f"client {client} is sent away for {seconds:.0f} s; it does not sleep")
        if self._rounds.awaits(client):
            raise BrokenPromiseError(f"client {client} is sent away for {seconds:.0f} s; the open round waits for it")
        self._absences.sent_away(client, now + seconds)

    def saves(self, record: Record) -> None:
        """Check a record that the coordinator wants to be durable."""
        if isinstance(record, DeviceRefusal) and record.reason and record.client in self._absences.asleep:
            raise BrokenPromiseError(f"client {record.client} sleeps, and counts as gone: {record.reason}")
        if isinstance(record, RoundOpened) and not self._commands.asks_all:
            self._opens(record)

    def _opens(self, record: RoundOpened) -> None:
        if chosen := self._absences.left & set(record.clients):
            raise BrokenPromiseError(f"round {record.round} has the clients {sorted(chosen)}, which have left")
        if (choice := self._commands.control.rules.choice) is None:
            return
        holds = condition(choice.text)
        if wrong := [client for client in record.clients if not holds(client, self._tags.get(client, {}))]:
            told = {client: dict(self._tags.get(client, {})) for client in wrong}
            raise BrokenPromiseError(f"round {record.round} has {told}; expected clients with {choice.text}")


def condition(text: str) -> Condition:
    """Return the condition with this text, which is one of CONDITIONS or excludes one client."""
    if (found := NOT_ONE.fullmatch(text)) is not None:
        out = int(found[1])
        return lambda client, tags: client != out
    return CONDITIONS[text]
