"""The clients that are absent by the server's own words: devices that have left, and devices that it has sent away."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from tests.vopr.ledger import BrokenPromiseError

PATIENCE_S = 3600.0  # seconds after which a device has come again, whatever has befallen it in between


@dataclass
class Absences:
    """The register of what the lives of a server have told devices about their absence.

    left        clients that have heard that they have left, and have not come back
    asleep      time at which a client has to come again, of the clients that were sent away
    departures  number of times that a client has heard that it has left
    sleeps      number of times that a client was sent away
    """

    left: set[int] = field(default_factory=set)
    asleep: dict[int, float] = field(default_factory=dict)
    departures: int = 0
    sleeps: int = 0

    def leaves(self, client: int) -> None:
        """Note that the client hears that it has left."""
        self.departures += 1
        self.left.add(client)

    def sent_away(self, client: int, until: float) -> None:
        """Note that the client hears that it has to come again at this time."""
        self.sleeps += 1
        self.asleep[client] = until

    def comes(self, client: int) -> None:
        """Note that the client's device is connected."""
        self.left.discard(client)
        self.asleep.pop(client, None)

    def look(self, now: float, excused: Set[int]) -> None:
        """Check that each device that was sent away has come again, but the devices that are `excused`."""
        for client, until in self.asleep.items():
            if now > until + PATIENCE_S and client not in excused | self.left:
                raise BrokenPromiseError(f"client {client} was to come again at {until:.0f} s; it is away at {now:.0f}")
