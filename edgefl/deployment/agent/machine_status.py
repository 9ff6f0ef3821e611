"""The state of this machine according to Linux: power, temperature, load and network, from files under /sys and /proc.
conditions.py judges the state.

Each function takes the folder that stands for /, so that a test may write one. A result is None where Linux does not
say.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from edgefl.system.sysfs import folders, number, supplies, text

ON_BATTERY, ON_MAINS = "Discharging", ("Charging", "Full", "Not charging")  # values of a battery's status
WARMEST = 200.0  # degrees Celsius. A sensor that reads more, or less than zero Kelvin, is not connected
COMMAND_S = 10.0  # seconds for a command that says whether the network is metered


class Power(NamedTuple):
    """The power supply of the machine.

    on_mains  whether the machine is on mains. None: nobody knows
    charge    charge of the emptiest battery, from 0 to 1. None: there is no battery
    """

    on_mains: bool | None
    charge: float | None


class Usage(NamedTuple):
    """The ticks of all processors since the machine started.

    total  all ticks
    busy   ticks in which something ran
    own    ticks of one process
    """

    total: int
    busy: int
    own: int


def power(root: Path) -> Power:
    """Read the power supply from /sys/class/power_supply.

    A machine without a battery is on mains. Batteries of mice do not count.
    """
    kinds = supplies(root)
    charges = [full for battery in kinds["Battery"] if (full := number(battery / "capacity")) is not None]
    charge = min(charges) / 100 if charges else None
    if not kinds["Battery"]:
        return Power(True, charge)
    online = [number(supply / "online") for supply in kinds["Mains"]]
    if any(online):
        return Power(True, charge)
    states = [text(battery / "status") for battery in kinds["Battery"]]
    if ON_BATTERY in states or 0 in online:
        return Power(False, charge)
    return Power(True if all(state in ON_MAINS for state in states) else None, charge)


def celsius(root: Path) -> float | None:
    """Return the highest temperature of /sys/class/thermal, in degrees Celsius."""
    zones = [number(zone / "temp") for zone in folders(root / "sys/class/thermal") if "zone" in zone.name]
    found = [zone / 1000 for zone in zones if zone is not None and -273 < zone / 1000 < WARMEST]
    return max(found) if found else None


def usage(root: Path, process: int | str = "self") -> Usage | None:
    """Read the ticks from /proc/stat and /proc/PID/stat. If the process does not exist, its own ticks are 0."""
    words = text(root / "proc/stat").partition("\n")[0].split()
    if len(words) < 9 or words[0] != "cpu":
        return None
    user, nice, system, idle, waiting, *interrupts = map(int, words[1:9])
    busy = user + nice + system + sum(interrupts)
    own = text(root / "proc" / str(process) / "stat").rpartition(")")[2].split()
    return Usage(busy + idle + waiting, busy, int(own[11]) + int(own[12]) if len(own) > 12 else 0)


def others(before: Usage, now: Usage) -> float | None:
    """Return the share of all processors that other processes have used between two readings.

    The result is None if no time has passed.
    """
    if now.total <= before.total:
        return None
    used = (now.busy - before.busy) - (now.own - before.own)
    return min(1.0, max(0.0, used / (now.total - before.total)))


def pressure(root: Path) -> float | None:
    """Return the share of the last 10 s in which something waited for a processor, from /proc/pressure/cpu."""
    for word in text(root / "proc/pressure/cpu").split():
        if word.startswith("avg10="):
            return float(word.removeprefix("avg10=")) / 100
    return None


def interfaces(root: Path) -> tuple[str, ...]:
    """Return the network interfaces of the default routes by IPv4 and by IPv6, in this order and without repetition."""
    v4 = sorted((int(metric), name) for name, metric in _v4_defaults(text(root / "proc/net/route")))
    v6 = sorted((int(metric, 16), name) for name, metric in _v6_defaults(text(root / "proc/net/ipv6_route")))
    return tuple(dict.fromkeys(name for routes in (v4, v6) for _, name in routes[:1]))


def _v4_defaults(table: str) -> Iterator[tuple[str, str]]:
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000" and int(words[3], 16) & 1:  # the route is up
            yield words[0], words[6]


def _v6_defaults(table: str) -> Iterator[tuple[str, str]]:
    for line in table.splitlines():
        words = line.split()
        if len(words) > 9 and words[0] == "0" * 32 and words[1] == "00" and words[9] != "lo":
            yield words[9], words[5]


def network_manager_says(names: Sequence[str]) -> str | None:
    """Return what NetworkManager says about whether these interfaces are metered, such as "yes" or "no (guessed)".

    An answer that does not begin with "no" takes precedence. The result is None if NetworkManager does not know or is
    missing.
    """
    said = []
    for name in names:
        words = ["nmcli", "--terse", "--fields", "GENERAL.METERED", "device", "show", name]
        _, out = _run(words)
        said.append(out.strip().removeprefix("GENERAL.METERED:"))
    return next((word for word in said if not word.startswith("no")), said[0] if said else "") or None


def succeeds(command: Sequence[str]) -> tuple[bool, str]:
    """Return whether a command of the owner ends with 0 in time, and what it did in words."""
    code, _ = _run(command)
    return code == 0, "did not run" if code is None else f"ended with {code}"


def _run(words: Sequence[str]) -> tuple[int | None, str]:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None, ""
    return done.returncode, done.stdout if done.returncode == 0 else ""
