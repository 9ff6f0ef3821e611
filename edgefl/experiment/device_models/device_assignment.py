"""The assignment of device models to the clients of a simulation: the name of a packaged fleet, or a TOML file of your
own.

    [sensor]                        one table for each device, under a name of your own
    like = "mcu"                    packaged device that gives the fields which the table leaves out
    up_bytes_per_second = 1e5       fields of Profile (device_profile.py)
    available = [[72000, 21600]]
    share = 3                       three clients for each client of a device with share = 1, the default
    [gateway]
    like = "pi4"
    clients = [0, 7]                ids of the clients with this device, which then has no share of the others

The devices are assigned to clients in the order of the ids and of the tables, as capacity tiers are. A weak tier can
thus have the weak device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from edgefl.experiment.device_models.board_models import BOARDS, MIXED
from edgefl.experiment.device_models.device_profile import NUMBERS, Profile
from edgefl.system import toml
from edgefl.system.settings_text import read_settings_text

NAMES = ("mixed", *BOARDS)
LIKE, SHARE, CLIENTS, SOURCE = "like", "share", "clients", "source"
DEFAULTS = {each.name for each in fields(Profile)} - {
    "macs_per_second", "down_bytes_per_second", "up_bytes_per_second", "joules_per_mac", "joules_per_down_byte",
    "joules_per_up_byte",
}  # fmt: skip
KNOWN = [*(each.name for each in fields(Profile)), LIKE, SHARE, CLIENTS, SOURCE]


@dataclass(frozen=True)
class SimulatedDevice:
    """A profile, and the clients that have it: the listed ones, or else a share of the clients that no table lists."""

    name: str
    profile: Profile
    share: float = 1.0
    clients: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """The devices of a simulation."""

    devices: tuple[SimulatedDevice, ...]

    def assigned(self, clients: int) -> tuple[SimulatedDevice, ...]:
        """Return every client's device, by id. Raises ValueError for an unknown id, or a client without one device."""
        named: dict[int, SimulatedDevice] = {}
        for device in self.devices:
            for client in device.clients:
                if client in named or not 0 <= client < clients:
                    expected = f"ids below {clients}, each in one table"
                    raise ValueError(f"[{device.name}] clients has {client}; expected {expected}")
                named[client] = device
        left = [client for client in range(clients) if client not in named]
        sharing = [device for device in self.devices if not device.clients]
        if left and not sharing:
            raise ValueError(
                f"client {left[0]} of {clients} is in no table's clients; expected a table for all other clients"
            )
        ends = list(accumulate(device.share for device in sharing))
        for position, client in enumerate(left):
            named[client] = next(
                d for d, end in zip(sharing, ends, strict=True) if position * ends[-1] < end * len(left)
            )
        return tuple(named[client] for client in range(clients))


@lru_cache(maxsize=16)
def fleet_of(devices: str, where: str = "devices") -> Fleet:
    """Return the fleet that a setting stands for: one of NAMES, or a text of TOML, which came from `where`.

    Raises ValueError naming the table, the key, its value and what was expected.
    """
    if devices in NAMES:
        names = MIXED if devices == "mixed" else (devices,)
        return Fleet(tuple(SimulatedDevice(name, BOARDS[name].profile) for name in names))
    try:
        tables = toml.parse(devices)
    except ValueError as error:
        raise ValueError(f"{where} cannot be read ({error}); expected {_expected()}") from None
    if not tables:
        raise ValueError(f"{where} has no table; expected a table for each kind of device, as [mine]")
    try:
        return Fleet(tuple(_device(name, table) for name, table in tables.items()))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def read(given: str) -> str:
    """Return the setting for a packaged name, a file, or the text of a file. Raises ValueError for anything else."""
    if not given or given in NAMES:
        return given
    if "\n" in given:
        fleet_of(given)
        return given
    try:
        text = read_settings_text(Path(given))
    except (OSError, ValueError):
        raise ValueError(f"devices={given}, which is not a file; expected {_expected()}") from None
    text = text if "\n" in text else f"{text}\n"  # the line break distinguishes the text from a name
    fleet_of(text, given)
    return text


def _expected() -> str:
    return f"one of {', '.join(NAMES)}, or a file of TOML with a table for each kind of device"


def _device(name: str, table: Any) -> SimulatedDevice:
    if not isinstance(table, Mapping):
        raise ValueError(f"{name} = {table!r}; expected only tables, as [{name}]")
    try:
        return _read(name, table)
    except ValueError as error:
        raise ValueError(f"[{name}] {error}") from None


def _read(name: str, table: Mapping[str, Any]) -> SimulatedDevice:
    if unknown := [key for key in table if key not in KNOWN]:
        raise ValueError(f"{unknown[0]} = {table[unknown[0]]!r}; expected one of {', '.join(KNOWN)}")
    values = {key: _field(key, value) for key, value in table.items() if key not in (LIKE, SHARE, CLIENTS, SOURCE)}
    if LIKE in table:
        if not isinstance(table[LIKE], str) or table[LIKE] not in BOARDS:
            raise ValueError(f"like = {table[LIKE]!r}; expected one of {', '.join(BOARDS)}")
        profile = replace(BOARDS[table[LIKE]].profile, **values)
    else:
        missing = [each.name for each in fields(Profile) if each.name not in DEFAULTS | values.keys()]
        if missing:
            raise ValueError(f"has no {missing[0]}; expected a number, or `like` with the name of a packaged device")
        profile = Profile(**values)
    share, clients = _number(SHARE, table.get(SHARE, 1)), table.get(CLIENTS, [])
    if not 0 < share < float("inf"):
        raise ValueError(f"share = {share}; expected a number above 0")
    if not isinstance(clients, list) or not all(type(each) is int for each in clients):
        raise ValueError(f"clients = {clients!r}; expected a list of ids, as [0, 7]")
    if clients and SHARE in table:
        raise ValueError(f"share = {share:g} together with clients; expected share or clients")
    return SimulatedDevice(name, profile, share, tuple(clients))


def _field(key: str, value: Any) -> Any:
    if key == "available":
        return _windows(value)
    if key in NUMBERS:
        found = _number(key, value)
        return int(found) if key == "memory_bytes" else found
    if not isinstance(value, str):
        raise ValueError(f"{key} = {value!r}; expected text")
    return value


def _number(key: str, value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < 1e300:
        raise ValueError(f"{key} = {value!r}; expected a number")
    return float(value)


def _windows(value: Any) -> tuple[tuple[float, float], ...]:
    pairs = isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value)
    if not pairs:
        raise ValueError(f"available = {value!r}; expected pairs of seconds of a day, as [[72000, 21600]]")
    return tuple((_number("available", begin), _number("available", end)) for begin, end in value)
