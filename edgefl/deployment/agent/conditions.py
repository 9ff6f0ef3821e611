"""The conditions under which a device trains, as pure values: a reading, the owner's limit, and whether it holds.

machine_status.py takes the readings. A condition whose reading is not known does not hold, because an owner who sets a
limit wants it kept.
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
    """The status of a condition: its name, the reading and the limit in words, and whether the condition holds."""

    name: str
    value: str
    limit: str
    holds: bool


class Hours(NamedTuple):
    """A part of the day in local time. It goes over midnight if it ends before it begins."""

    begin: time
    end: time

    @staticmethod
    def parse(text: str) -> Hours:
        """Parse a text such as 22:00-06:00. Raises ValueError for another text, or if begin and end are equal."""
        begin, _, end = text.partition("-")
        try:
            found = Hours(time.fromisoformat(begin.strip()), time.fromisoformat(end.strip()))
        except ValueError:
            raise ValueError(f"hours {text!r}; expected a range such as '22:00-06:00'") from None
        if found.begin == found.end:
            raise ValueError(f"hours {text!r}; expected two different times")
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
    """The owner's limits. A limit that is None or empty does not restrict the device.

    charge        least charge of the battery, 0 to 1, unless the machine is on mains. Infinite: on mains only
    max_celsius   highest temperature of the warmest part, in degrees Celsius
    max_others    largest share of the processors that other processes may use
    max_pressure  largest share of time in which something may wait for a processor
    hours         parts of the day
    interfaces    names of the interfaces through which the network may lead
    metered       "nmcli": not where NetworkManager says that the network is metered. Otherwise a command that ends with
                  0 where the network may be used
    """

    charge: float | None = None
    max_celsius: float | None = None
    max_others: float | None = None
    max_pressure: float | None = None
    hours: tuple[Hours, ...] = ()
    interfaces: tuple[str, ...] = ()
    metered: str | tuple[str, ...] | None = None


def check_power(found: Power, limit: float) -> ConditionStatus:
    """Check that the machine is on mains, or that the battery has at least a charge of `limit`."""
    mains = {True: "on mains", False: "on battery", None: UNKNOWN}[found.on_mains]
    value = mains if found.charge is None else f"{mains}, {found.charge:.0%}"
    holds = found.on_mains is True or (found.charge is not None and found.charge >= limit)
    return ConditionStatus("power", value, "mains" if math.isinf(limit) else f"mains, or at least {limit:.0%}", holds)


def check_most(name: str, found: float | None, limit: float, form: str) -> ConditionStatus:
    """Check that a reading is known and not above the limit."""
    value = UNKNOWN if found is None else format(found, form)
    return ConditionStatus(name, value, f"at most {limit:{form}}", found is not None and found <= limit)


def check_hours(now: time, hours: Sequence[Hours]) -> ConditionStatus:
    """Check that the time is within one of the parts of the day."""
    return ConditionStatus("hours", f"{now:%H:%M}", ", ".join(map(str, hours)), any(now in each for each in hours))


def check_interfaces(found: Sequence[str], allowed: Sequence[str]) -> ConditionStatus:
    """Check that the network leads through allowed interfaces alone."""
    holds = bool(found) and set(found) <= set(allowed)
    return ConditionStatus("network", ", ".join(found) or "no default route", f"through {', '.join(allowed)}", holds)


def check_manager(found: str | None) -> ConditionStatus:
    """Check that NetworkManager says that the network is not metered."""
    value = UNKNOWN if found is None else f"metered: {found}"
    return ConditionStatus(
        "metered", value, "not reported by NetworkManager", found is not None and found.startswith("no")
    )


def why_not(checks: Sequence[ConditionStatus]) -> str | None:
    """Return the first condition that does not hold, in words, or None if all conditions hold."""
    failed = next((check for check in checks if not check.holds), None)
    return None if failed is None else f"{failed.name} {failed.value}; expected {failed.limit}"
