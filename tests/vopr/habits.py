"""The habits of a simulation's devices, in one seed of three: they sleep, tell tags by which clients are chosen, or
begin late.

Departures are faults, because a departure comes at a time (faults.py). departing_device.py has the device that leaves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from edgefl.server.client_choice import ClientChoice
from edgefl.server.round_rules import Rules

SITES = ("1", "2", "")  # values of the tag `site`. A device with "" has no tags
POWERS = ("mains", "battery")  # values of the tag `power`, which is another one in each life of a device
COME_AGAIN_S = (5.0, 30.0, 200.0)  # mean seconds for which the server sends a device away
LATE = 0.8  # latest start of a device, as a share of the hours with faults
Condition = Callable[[int, Mapping[str, str]], bool]
CONDITIONS: dict[str, Condition] = {  # on a client and its tags, counted without code of the server
    "site == 1": lambda client, tags: tags.get("site") == "1",
    "not site == 1": lambda client, tags: tags.get("site") != "1",
    'power == "mains"': lambda client, tags: tags.get("power") == "mains",
    'site in [1, 2] and power != "mains"': lambda client, tags: tags.get("power") == "battery",
}


@dataclass(frozen=True)
class Habits:
    """The habits.

    sleepers      devices that the server may send away
    sites         tags `site` of the devices that tell tags
    late_s        seconds after which a device begins, of the devices that begin late
    come_again_s  mean seconds for which the server sends devices away. None: it sends nobody away
    choice        condition by which clients are chosen from the beginning on, or ""
    is_nameless   whether devices ask for any id, where they have no keys
    """

    sleepers: frozenset[int] = frozenset()
    sites: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    late_s: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    come_again_s: float | None = None
    choice: str = ""
    is_nameless: bool = False

    @classmethod
    def drawn(cls, stream: random.Random, devices: int, hours: float, asks_all: bool) -> Habits:
        """Draw the habits. No client of a method that `asks_all` is chosen by a condition."""
        if stream.random() >= 1 / 3:
            return cls()
        share, has_tags, is_late = stream.choice((0.0, 0.5, 1.0)), stream.random() < 0.5, stream.random() < 0.5
        sleepers = frozenset(client for client in range(devices) if stream.random() < share)
        come_again_s = stream.choice(COME_AGAIN_S) if sleepers else None
        sites = {client: site for client in range(devices) if has_tags and (site := stream.choice(SITES))}
        choice = stream.choice(("", *CONDITIONS)) if has_tags and not asks_all else ""
        latest_s = LATE * hours * 3600
        late_s = {client: stream.random() * latest_s for client in range(1, devices) if is_late}
        return cls(sleepers, sites, late_s, come_again_s, choice, bool(late_s) and stream.random() < 0.7)

    def ruled(self, rules: Rules) -> Rules:
        """Return the rules of a server that follows these habits."""
        choice = ClientChoice.parse(self.choice) if self.choice else None
        is_open = bool(self.late_s)
        among = replace(rules, choice=choice, is_open=is_open, among_enrolled=is_open and choice is None)
        return replace(among, come_again_s=self.come_again_s)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions by which an operator may choose clients."""
        return tuple(CONDITIONS) if self.sites else ()

    def tags(self, client: int, stream: random.Random) -> dict[str, str]:
        """Draw the tags that a device tells in its next life."""
        site = self.sites.get(client)
        return {} if site is None else {"site": site, "power": stream.choice(POWERS)}
