"""The enrolled clients, and the connection that speaks for each client: the newest connection supersedes an
older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MOST_PROVENANCES = 16  # of a client that are kept


@dataclass
class ClientConnection:
    """The connection of a client. `pending`: the round of a reply that it has still to send, 0 if there is none.

    declares  its device says how fast it is before it trains; has_declared: it has done so
    asked     the round that it was last asked to train in, 0 if there is none
    admitted  the client's enrolment, and the life of its device's directory, are durable: messages may be sent to it
    """

    number: int
    client: int
    pending: int
    life: bytes = b""
    admitted: bool = False
    declares: bool = False
    has_declared: bool = False
    asked: int = 0


class Clients:
    """The `count` clients of a run, and their open connections by number and by client.

    capacities  declared by those whose enrolment is durable
    secrets     that the clients' devices prove, in a run without keys
    declared    training samples that they have, likewise, of those that say it
    provenances      (client, provenance) of every device that has said with what it trains
    """

    def __init__(
        self,
        count: int,
        capacities: Mapping[int, float],
        secrets: Mapping[int, bytes] | None = None,
        provenances: Iterable[tuple[int, str]] = (),
        declared: Mapping[int, int] | None = None,
    ) -> None:
        self.capacities = dict(capacities)
        self.declared = dict(declared or {})
        self.secrets = dict(secrets or {})
        self._owners = {secret: client for client, secret in self.secrets.items()}
        self._provenances: dict[int, set[str]] = {}
        for client, provenance in provenances:
            self._provenances.setdefault(client, set()).add(provenance)
        self.count = count
        self._lowest = 0  # that may be free
        self._enrolling: set[int] = set()
        self._by_number: dict[int, ClientConnection] = {}
        self._by_client: dict[int, ClientConnection] = {}

    def find(self, wanted: int | None, secret: bytes = b"") -> int | None:
        """The id for a device that asks for this one, for its own by secret, or for any free one; None if none is."""
        if wanted is not None:
            return wanted if 0 <= wanted < self.count else None
        if secret in self._owners:
            return self._owners[secret]
        while self._lowest in self.capacities or self._lowest in self._enrolling:  # who has enrolled stays
            self._lowest += 1
        return self._lowest if self._lowest < self.count else None

    def begin_enrolment(self, client: int, secret: bytes = b"") -> bool:
        """True if the client must enrol: it has not, and is not doing so. From now on it is, and has this secret."""
        if client in self.capacities or client in self._enrolling:
            return False
        self.bind(client, secret)
        self._enrolling.add(client)
        return True

    def bind(self, client: int, secret: bytes) -> None:
        """The client's device proves this secret from now on, if it is one."""
        if secret:
            self._owners.pop(self.secrets.get(client, b""), None)
            self.secrets[client], self._owners[secret] = secret, client

    def end_enrolment(self, client: int, capacity: float, examples: int | None = None) -> None:
        """The client's enrolment is durable. What it declared first stays."""
        self._enrolling.discard(client)
        self.capacities.setdefault(client, capacity)
        if examples is not None:
            self.declared.setdefault(client, examples)

    def add_provenance(self, client: int, provenance: str) -> bool:
        """True the first time that the client's device is of this provenance. It may be changed, but not without
        end.
        """
        known = self._provenances.setdefault(client, set())
        if provenance in known or len(known) >= MOST_PROVENANCES:
            return False
        known.add(provenance)
        return True

    def connect(self, link: ClientConnection) -> ClientConnection | None:
        """Takes a new connection; the older one of the same client, which it replaces, if there is one."""
        older = self._by_client.get(link.client)
        if older is not None:
            self.disconnect(older.number)
        self._by_number[link.number] = self._by_client[link.client] = link
        return older

    def disconnect(self, number: int) -> None:
        """Forgets a connection; nothing happens if it is not known (any more)."""
        link = self._by_number.pop(number, None)
        if link is not None:
            del self._by_client[link.client]

    def link(self, number: int) -> ClientConnection | None:
        return self._by_number.get(number)

    def link_of(self, client: int) -> ClientConnection | None:
        return self._by_client.get(client)

    def connected(self) -> set[int]:
        """The clients whose connection messages may be sent to."""
        return {link.client for link in self.admitted()}

    def admitted(self) -> list[ClientConnection]:
        """The connections that messages may be sent to, in client order."""
        return [self._by_client[client] for client in sorted(self._by_client) if self._by_client[client].admitted]
