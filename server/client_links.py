"""The enrolled clients, and the connection that speaks for each client: the newest connection replaces an older one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are spread evenly
MOST_PROVENANCES = 16  # provenances of a client that are kept


@dataclass
class ClientConnection:
    """The connection of a client.

    number        number of the connection
    pending       round of a reply that the client has still to send, 0 if it owes no reply
    life          life of the device's directory (device/identity.py)
    admitted      whether the enrolment and the life are durable, so that messages may be sent
    declares      whether its device tells how fast it is before it trains
    has_declared  whether its device has done so
    asked         last round in which it was asked to train, 0 before the first
    sleeps        whether its device may be sent away for a while
    key           key that its device has proven, or None in a run without keys
    """

    number: int
    client: int
    pending: int
    life: bytes = b""
    admitted: bool = False
    declares: bool = False
    has_declared: bool = False
    asked: int = 0
    sleeps: bool = False
    key: bytes | None = field(default=None, repr=False)


class Clients:
    """The `count` clients of a run, and their open connections by number and by client.

    capacities   capacities of the clients whose enrolment is durable
    secrets      secrets that the clients' devices prove, in a run without keys
    declared     numbers of training samples that enrolled clients have declared
    provenances  (client, provenance) of every device that has said with what it trains
    """

    def __init__(
        self,
        count: int,
        capacities: Mapping[int, float],
        secrets: Mapping[int, bytes] | None = None,
        provenances: Iterable[tuple[int, str]] = (),
        declared: Mapping[int, int] | None = None,
        is_open: bool = False,
    ) -> None:
        """Make the clients. With `is_open` a free id comes from anywhere in the range, so that whoever has come is
        spread evenly over it, and over the capacity tiers with it. Otherwise it is the lowest.
        """
        self.capacities = dict(capacities)
        self.declared = dict(declared or {})
        self.secrets = dict(secrets or {})
        self._owners = {secret: client for client, secret in self.secrets.items()}
        self._provenances: dict[int, tuple[str, ...]] = {}  # a set takes 216 bytes, and a tuple of one text 48
        for client, provenance in provenances:
            self.add_provenance(client, provenance)
        self.count = count
        self._lowest = 0  # lowest id that may be free
        self._is_open = is_open
        self._enrolling: set[int] = set()
        self._by_number: dict[int, ClientConnection] = {}
        self._by_client: dict[int, ClientConnection] = {}

    def find(self, wanted: int | None, secret: bytes = b"") -> int | None:
        """Return the id for a device that asks for this id, for its own id by secret, or for a free id, or None."""
        if wanted is not None:
            return wanted if 0 <= wanted < self.count else None
        if secret in self._owners:
            return self._owners[secret]
        if self._is_open:
            return self._spread_id()
        while self._is_taken(self._lowest):
            self._lowest += 1
        return self._lowest if self._lowest < self.count else None

    def _is_taken(self, client: int) -> bool:
        return client in self.capacities or client in self._enrolling  # an enrolled client keeps its id

    def _spread_id(self) -> int | None:
        """Return a free id near the place of the next member in the sequence of the golden ratio, or None."""
        taken = len(self.capacities) + len(self._enrolling)
        start = int(taken * GOLDEN % 1 * self.count)
        places = (client % self.count for client in range(start, start + self.count))
        return next((client for client in places if not self._is_taken(client)), None)

    def begin_enrolment(self, client: int, secret: bytes = b"") -> bool:
        """Begin the enrolment of a client with this secret. Return False if it has enrolled or is enrolling already."""
        if self._is_taken(client):
            return False
        self.bind(client, secret)
        self._enrolling.add(client)
        return True

    def bind(self, client: int, secret: bytes) -> None:
        """Bind a secret, unless it is empty, to the client. The client's device proves it from now on."""
        if secret:
            self._owners.pop(self.secrets.get(client, b""), None)
            self.secrets[client], self._owners[secret] = secret, client

    def end_enrolment(self, client: int, capacity: float, examples: int | None = None) -> None:
        """Note that the client's enrolment is durable. Its first declaration stays."""
        self._enrolling.discard(client)
        self.capacities.setdefault(client, capacity)
        if examples is not None:
            self.declared.setdefault(client, examples)

    def add_provenance(self, client: int, provenance: str) -> bool:
        """Add a provenance of the client's device. Return True if it is new, and the client has few of them so far."""
        known = self._provenances.get(client, ())
        if provenance in known or len(known) >= MOST_PROVENANCES:
            return False
        self._provenances[client] = (*known, provenance)
        return True

    def connect(self, link: ClientConnection) -> ClientConnection | None:
        """Take a new connection. Return the older connection of the client that it replaces, or None."""
        older = self._by_client.get(link.client)
        if older is not None:
            self.disconnect(older.number)
        self._by_number[link.number] = self._by_client[link.client] = link
        return older

    def disconnect(self, number: int) -> None:
        """Forget a connection. An unknown connection changes nothing."""
        link = self._by_number.pop(number, None)
        if link is not None:
            del self._by_client[link.client]

    def link(self, number: int) -> ClientConnection | None:
        return self._by_number.get(number)

    def link_of(self, client: int) -> ClientConnection | None:
        return self._by_client.get(client)

    def connected(self) -> set[int]:
        """Return the clients to whose connections messages may be sent."""
        return {link.client for link in self.admitted()}

    def admitted(self) -> list[ClientConnection]:
        """Return the connections to which messages may be sent, in the order of clients."""
        return [self._by_client[client] for client in sorted(self._by_client) if self._by_client[client].admitted]
