"""The conditions under which a device trains, as values: what was read, the owner's limit, whether it holds. Pure; what
is read is machine_status.py's.

A condition whose value is not known does not hold: an owner who names a limit wants it kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from typing import NamedTuple

from edgefl.deployment.agent.machine_status import Power

UNKNOWN = "unknown"


class ConditionStatus(NamedTuple):
    """A condition: its name, the value and the limit in words, whether it holds."""

    name: str
    value: str
    limit: str
    holds: bool


class Hours(NamedTuple):
    """A part of the day, of local time; over midnight if it ends before it begins."""

    begin: time
    end: time

    @staticmethod
    def parse(text: str) -> Hours:
        """22:00-06:00. Raises ValueError."""
        begin, _, end = text.partition("-")
        try:
            found = Hours(time.fromisoformat(begin.strip()), time.fromisoformat(end.strip()))
        except ValueError:
            raise ValueError(f"hours {text!r}; expected such as '22:00-06:00'") from None
        if found.begin == found.end:
            raise ValueError(f"hours {text!r}; expected an end that is not the beginning")
        return found

    def __contains__(self, now: object) -> bool:
        assert isinstance(now, time)
        if self.begin < self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"


@dataclass(frozen=True)
class Conditions:
    """The owner's limits; None or empty: none.

    charge        on mains, or the battery at least so full, 0 to 1; infinite: on mains
    max_celsius   of the warmest part
    max_others    share of the processors that other processes use
    max_pressure  share of time in which something waits for a processor
    hours         parts of the day
    interfaces    names of those that the network may lead through
    metered       "nmcli": not where NetworkManager says that it is metered; or a command that ends with 0 where the
                  network may be used
    """

    charge: float | None = None
    max_celsius: float | None = None
    max_others: float | None = None
    max_pressure: float | None = None
    hours: tuple[Hours, ...] = ()
    interfaces: tuple[str, ...] = ()
    metered: str | tuple[str, ...] | None = None


def check_power(found: Power, limit: float) -> ConditionStatus:
    """Check that the machine is on mains, or above a charge."""
    mains = {True: "on mains", False: "on battery", None: UNKNOWN}[found.on_mains]
    value = mains if found.charge is None else f"{mains}, {found.charge:.0%}"
    holds = found.on_mains is True or (found.charge is not None and found.charge >= limit)
    return ConditionStatus("power", value, "mains" if math.isinf(limit) else f"mains, or at least {limit:.0%}", holds)


def check_most(name: str, found: float | None, limit: float, form: str) -> ConditionStatus:
    """Not above a limit."""
    value = UNKNOWN if found is None else format(found, form)
    return ConditionStatus(name, value, f"at most {limit:{form}}", found is not None and found <= limit)


def check_hours(now: time, hours: Sequence[Hours]) -> ConditionStatus:
    """Within one of them."""
    return ConditionStatus("hours", f"{now:%H:%M}", ", ".join(map(str, hours)), any(now in each for each in hours))


def check_interfaces(found: Sequence[str], allowed: Sequence[str]) -> ConditionStatus:
    """The network leads through these alone."""
    holds = bool(found) and set(found) <= set(allowed)
    return ConditionStatus("network", ", ".join(found) or "no default route", f"through {', '.join(allowed)}", holds)


def check_manager(found: str | None) -> ConditionStatus:
    """Check the network by NetworkManager's own word."""
    value = UNKNOWN if found is None else f"metered: {found}"
    return ConditionStatus("metered", value, "not by NetworkManager", found is not None and found.startswith("no"))


def why_not(checks: Sequence[ConditionStatus]) -> str | None:
    """The first condition that does not hold, in words; None if all hold."""
    failed = next((check for check in checks if not check.holds), None)
    return None if failed is None else f"{failed.name} {failed.value}; expected {failed.limit}"
