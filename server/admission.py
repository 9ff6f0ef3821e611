"""Whom to let in: how many connections may be there that have not shown who they are. Pure: no socket, no clock.

Such a connection is a stranger until its device is welcomed. When there are too many, the address that has the most of
them loses its oldest: an honest handshake takes a few round trips, so who has been at it for longest is least likely to
finish, and the newcomer may be a device. That alone would let whoever connects fastest push everybody out; so new
connections are let in at a pace at which a stranger has LIFE_S even when all others are hostile, and those beyond it
wait in the kernel's queue, where they cost nothing. A stranger that turns out to be a device gives its turn back: any
number of devices may come at once.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

LIFE_S = 2.0  # for a handshake while strangers crowd in; without a crowd it has Patience.handshake_s


@dataclass(frozen=True)
class Caps:
    """Most strangers at a time, of all addresses and of one. Devices that are enrolled are not counted."""

    strangers: int = 512
    per_address: int = 256

    def __post_init__(self) -> None:
        for name in ("strangers", "per_address"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; expected {name} >= 1")

    def within(self, strangers: int) -> Caps:
        """These caps, or smaller ones in the same proportion for so few strangers at most."""
        if strangers >= self.strangers:
            return self
        return Caps(strangers, max(1, min(self.per_address, self.per_address * strangers // self.strangers)))

    @property
    def rate(self) -> float:
        """New connections per second that leave every stranger LIFE_S."""
        return min(self.strangers, self.per_address) / LIFE_S


class Admission:
    """The strangers of a server, oldest first, and its throughput.

    room  most connections in all, devices included: what the process has descriptors for
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
        """Seconds until the next connection may be let in; 0 if it may be now."""
        self._turns = min(self._most_turns, self._turns + (now - self._at) * self._caps.rate)
        self._at = now
        if not self._strangers and len(self._known) >= self._room:
            return LIFE_S
        return 0.0 if self._turns >= 1 else (1 - self._turns) / self._caps.rate

    def arrive(self, link: int, host: str) -> int | None:
        """A new connection from this IP address. The link of the stranger that has to go for it, or None."""
        address = network(host)
        goes = self._crowded_out(address)
        self._turns -= 1
        self._strangers[link] = address
        self._by_address.setdefault(address, {})[link] = None
        return goes

    def know(self, link: int) -> None:
        """The stranger is a device that is enrolled."""
        if self._forget(link):
            self._known.add(link)
            self._turns = min(self._most_turns, self._turns + 1)

    def leave(self, link: int) -> None:
        """The connection is gone, whoever it was."""
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
    """The part of an address that counts as one: an IPv4 address, or the 64 bits of an IPv6 address that its holder
    cannot choose.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
