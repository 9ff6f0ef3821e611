"""The limit of connections that have not yet shown who they are. It has no socket and no clock.

Such a connection is a stranger until its device is welcomed. When there are too many strangers, the address that has
most of them loses its oldest one. An honest handshake takes a few round trips, so the oldest stranger is least likely
to finish, and the newcomer may be a device. This rule alone would let the fastest address push everybody out. So new
connections are let in at a rate at which a stranger has LIFE_S seconds even when all others are hostile. Further
connections wait in the kernel's queue, where they cost nothing. A stranger that turns out to be a device gives its turn
back, so any number of devices may come at once.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

LIFE_S = 2.0  # seconds for a handshake in a crowd of strangers. Without a crowd it has Patience.handshake_s


@dataclass(frozen=True)
class Caps:
    """The largest number of strangers at a time, of all addresses and of one address. Enrolled devices do not count."""

    strangers: int = 512
    per_address: int = 256

    def __post_init__(self) -> None:
        for name in ("strangers", "per_address"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; expected {name} >= 1")

    def within(self, strangers: int) -> Caps:
        """Return these caps, or smaller ones in the same proportion with at most this number of strangers."""
        if strangers >= self.strangers:
            return self
        return Caps(strangers, max(1, min(self.per_address, self.per_address * strangers // self.strangers)))

    @property
    def rate(self) -> float:
        """The number of new connections per second that leaves every stranger LIFE_S seconds."""
        return min(self.strangers, self.per_address) / LIFE_S


class Admission:
    """The strangers of a server, oldest first, and the rate of new connections.

    room  largest number of connections, including devices, for which the process has descriptors
    """

    def __init__(self, caps: Caps, room: int, now: float) -> None:
        self._caps, self._room = caps, room
        self._strangers: dict[int, str] = {}  # link -> address, in the order of arrival
        self._by_address: dict[str, dict[int, None]] = {}
        self._known: set[int] = set()
        self._turns, self._at = self._most_turns, now

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next connection may be let in, or 0 if it may come now."""
        self._turns = min(self._most_turns, self._turns + (now - self._at) * self._caps.rate)
        self._at = now
        if not self._strangers and len(self._known) >= self._room:
            return LIFE_S
        return 0.0 if self._turns >= 1 else (1 - self._turns) / self._caps.rate

    def arrive(self, link: int, host: str) -> int | None:
        """Add a connection from this IP address. Return the link of the stranger that has to go for it, or None."""
        address = network(host)
        goes = self._crowded_out(address)
        self._turns -= 1
        self._strangers[link] = address
        self._by_address.setdefault(address, {})[link] = None
        return goes

    def know(self, link: int) -> None:
        """Note that the stranger is an enrolled device."""
        if self._forget(link):
            self._known.add(link)
            self._turns = min(self._most_turns, self._turns + 1)

    def leave(self, link: int) -> None:
        """Note that the connection is gone, of a device or of a stranger."""
        self._forget(link)
        self._known.discard(link)

    @property
    def _most_turns(self) -> float:
        return float(min(self._caps.strangers, self._caps.per_address))

    def _crowded_out(self, address: str) -> int | None:
        if len(self._by_address.get(address, ())) >= self._caps.per_address:
            return next(iter(self._by_address[address]))
        is_full = len(self._strangers) >= self._caps.strangers
        if self._strangers and (is_full or len(self._strangers) + len(self._known) >= self._room):
            most = max(self._by_address, key=lambda each: len(self._by_address[each]))
            return next(iter(self._by_address[most]))
        return None

    def _forget(self, link: int) -> bool:
        address = self._strangers.pop(link, None)
        if address is None:
            return False
        del self._by_address[address][link]
        if not self._by_address[address]:
            del self._by_address[address]
        return True


def network(host: str) -> str:
    """Return the part of an address that counts as one: an IPv4 address, or the upper 64 bits of an IPv6 address.

    The holder of an IPv6 address cannot choose its upper 64 bits.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
