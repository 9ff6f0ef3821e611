"""The settings that the owner of a device has written for its agent: a TOML file, or a JSON file with the same names.

    state, data, keep_runs                   state directory, data file, number of finished runs that are kept
    tags, sleep                              what the servers are told, and whether they may send the device away
    check_s, settle_s, poll_s, turn_s        seconds: see PollingIntervals
    [limits]       capacity, max_model, max_memory, max_seconds, throughput
    [conditions]   power, max_celsius, max_others, max_pressure, hours, interfaces, metered
    [[servers]]    address, id, key, former_key, tls, tls_ca, tls_cert, tls_key, insecure, data, runs, methods,
                   identity, operator, federation, secure_least, secure_colluders, tags, sleep

Paths are relative to the file's folder. The options mean what they mean to `edgefl client`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from edgefl.deployment.agent.conditions import Conditions, Hours
from edgefl.deployment.device.device_profile import DeviceProfile, SecureProfile
from edgefl.deployment.device.device_socket import ServerAddress
from edgefl.deployment.device.secure_settings import secure_profile
from edgefl.errors import RequestError, expected_name
from edgefl.experiment.user_methods import admit
from edgefl.protocol.trust.keys import read_key
from edgefl.protocol.wire.group_defaults import LEAST
from edgefl.protocol.wire.tag_text import checked_tags
from edgefl.system import toml
from edgefl.system.settings_text import json_table, read_settings_text

MAX_MODEL_BYTES = 256 << 20
KEEP_RUNS = 2

Value = TypeVar("Value")
Default = TypeVar("Default")


class PollingIntervals(NamedTuple):
    """The time intervals of an agent, in seconds.

    check_s   largest age of what the agent knows of the machine
    settle_s  time for which the conditions must hold again before the device begins
    poll_s    longest time between two questions to a server that has no run, or refuses
    turn_s    time without a request of a server after which another server has its turn
    """

    check_s: float = 5.0
    settle_s: float = 30.0
    poll_s: float = 60.0
    turn_s: float = 60.0


@dataclass(frozen=True)
class ServerSettings:
    """A server that the device serves.

    data         file of the device's samples for this server
    runs         ids of the runs that the device takes part in. Empty: any run
    tls_files    authority, certificate and key for TLS
    is_insecure  whether the owner allows a connection to another machine without TLS or key, and secure runs without an
                 operator
    """

    server: ServerAddress
    profile: DeviceProfile
    data: Path
    runs: tuple[str, ...]
    uses_tls: bool
    tls_files: tuple[Path | None, Path | None, Path | None]
    is_insecure: bool


@dataclass(frozen=True)
class AgentSettings:
    """All settings of an agent. `state` is its state directory, and `keep_runs` its number of finished runs to keep."""

    state: Path
    server_entries: tuple[ServerSettings, ...]
    conditions: Conditions = field(default_factory=Conditions)
    intervals: PollingIntervals = field(default_factory=PollingIntervals)
    keep_runs: int = KEEP_RUNS


def read_settings(file: Path, size: Callable[[str], int]) -> AgentSettings:
    """Read the settings and the keys that they name. `size` returns the number of bytes of a text such as "64MB".

    Raises  RequestError naming the file, the entry, its value and what was expected.
    """
    top = Section(file, "", _read(file), size)
    limits, intervals = (
        top.section("limits"),
        PollingIntervals(*(top.take(name, _seconds, default) for name, default in INTERVALS)),
    )
    state, data = top.take("state", top.path, None), top.take("data", top.path, None)
    keep_runs = top.take("keep_runs", _count, KEEP_RUNS)
    profile = _attending(top, _profile(limits))
    conditions = _conditions(top.section("conditions"))
    server_entries = tuple(_server_entry(entry, profile, data) for entry in top.sections("servers"))
    top.finish()
    if state is None or not server_entries:
        raise RequestError(
            f"{file} has no {'state' if state is None else 'servers'}; expected state, a folder, and [[servers]]"
        )
    return AgentSettings(state, server_entries, conditions, intervals, keep_runs)


INTERVALS = list(PollingIntervals._field_defaults.items())


class Section:
    """A table of the file, which is read entry by entry. `finish` refuses entries that were not taken."""

    def __init__(self, file: Path, name: str, values: object, size: Callable[[str], int]) -> None:
        self.file, self.name, self.size = file, name, size
        if not isinstance(values, dict):
            raise RequestError(f"{file}: {name} is {values!r}; expected a table")
        self._values, self._known = dict(values), list[str]()

    def take(self, name: str, read: Callable[[Any], Value], default: Default) -> Value | Default:
        """Take an entry, or return the default. `read` raises ValueError or TypeError with what was expected.

        Raises  RequestError naming the file, the entry and its value.
        """
        self._known.append(name)
        if name not in self._values:
            return default
        value = self._values.pop(name)
        try:
            return read(value)
        except (ValueError, TypeError, argparse.ArgumentTypeError, RequestError) as error:
            raise RequestError(f"{self.file}: {self.name}{name} = {value!r}; {error}") from None

    def path(self, value: object) -> Path:
        """Return the path, relative to the folder of the file."""
        return self.file.parent / _text(value)

    def read_size(self, value: object) -> int:
        """Return a number of bytes: a whole number, or a text such as "64MB"."""
        return self.size(str(_count(value, 1 << 63)) if isinstance(value, int) else _text(value))

    def section(self, name: str) -> Section:
        """Take a table within this table. The result is empty if there is no such table."""
        self._known.append(name)
        return Section(self.file, f"{name}.", self._values.pop(name, {}), self.size)

    def sections(self, name: str) -> list[Section]:
        """Take the tables of a list."""
        self._known.append(name)
        found = self._values.pop(name, [])
        if not isinstance(found, list):
            raise RequestError(f"{self.file}: {name} is {found!r}; expected tables [[{name}]]")
        return [Section(self.file, f"{name}[{number}].", each, self.size) for number, each in enumerate(found)]

    def finish(self) -> None:
        """Raise RequestError for an entry that has no meaning."""
        for name, value in self._values.items():
            words = expected_name(name, sorted(self._known))
            raise RequestError(f"{self.file}: {self.name}{name} = {value!r} is not an entry; {words}")


def _read(file: Path) -> Mapping[str, Any]:
    try:
        text = read_settings_text(file)
        return json_table(text) if file.suffix == ".json" else toml.parse(text)
    except OSError as error:
        raise RequestError(f"{file} cannot be read ({error.strerror}); expected a file of settings") from None
    except ValueError as error:
        raise RequestError(f"{file} cannot be read ({error}); expected TOML, or JSON in a .json file") from None


def _profile(limits: Section) -> DeviceProfile:
    capacity = limits.take("capacity", _share, 1.0)
    model = limits.take("max_model", limits.read_size, MAX_MODEL_BYTES)
    memory: int | None = limits.take("max_memory", limits.read_size, None)
    seconds: float | None = limits.take("max_seconds", _seconds, None)
    reports_throughput: bool = limits.take(
        "throughput", _flag, limits.take("pace", _flag, True)
    )  # `pace` is the former name of the entry
    limits.finish()
    return DeviceProfile(None, None, capacity, model, memory, seconds, reports_throughput=reports_throughput)


def _conditions(entries: Section) -> Conditions:
    found = Conditions(
        charge=entries.take("power", _charge, None),
        max_celsius=entries.take("max_celsius", _number, None),
        max_others=entries.take("max_others", _share, None),
        max_pressure=entries.take("max_pressure", _share, None),
        hours=entries.take("hours", _hours, ()),
        interfaces=entries.take("interfaces", _texts, ()),
        metered=entries.take("metered", _metered, None),
    )
    entries.finish()
    return found


def _server_entry(entries: Section, profile: DeviceProfile, data: Path | None) -> ServerSettings:
    address = entries.take("address", lambda value: ServerAddress.parse(_text(value)), None)
    client = entries.take("id", _count, None)
    key_file, former_file = (entries.take(name, entries.path, None) for name in ("key", "former_key"))
    ca, cert, tls_key = (entries.take(name, entries.path, None) for name in ("tls_ca", "tls_cert", "tls_key"))
    files = ca, cert, tls_key
    uses_tls = entries.take("tls", _flag, False) or any(file is not None for file in files)
    is_insecure, data = entries.take("insecure", _flag, False), entries.take("data", entries.path, data)
    runs, methods = entries.take("runs", _texts, ()), entries.take("methods", _methods, ())
    secure, profile = _secure(entries, is_insecure), _attending(entries, profile)
    entries.finish()
    where = f"{entries.file}: {entries.name}"
    if address is None or data is None:
        raise RequestError(f"{where}{'address' if address is None else 'data'} is missing; expected one")
    if key_file is not None and client is None:
        raise RequestError(f"{where}key is set without id; expected the client id to which the key belongs")
    if former_file is not None and key_file is None:
        raise RequestError(f"{where}former_key is set without key; expected both, the old and the new key")
    if not address.is_loopback and not is_insecure and (key_file is None or not uses_tls):
        raise RequestError(
            f"{where}address {address} is on another machine; expected tls = true and a key, or insecure = true"
        )
    key, former = (None if file is None else read_key(file) for file in (key_file, former_file))
    profile = profile._replace(client=client, key=key, former_key=former, methods=methods, secure=secure)
    return ServerSettings(address, profile, data, runs, uses_tls, files, is_insecure)


def _attending(entries: Section, profile: DeviceProfile) -> DeviceProfile:
    """Return the profile with the tags and with `sleep` of these entries, where they have them."""
    tags, sleeps = entries.take("tags", _tags, profile.tags), entries.take("sleep", _flag, profile.sleeps)
    return profile._replace(tags=tags, sleeps=sleeps)


def _secure(entries: Section, is_insecure: bool) -> SecureProfile | None:
    """Return what the device asks of secure aggregation at this server, or None for runs without it."""
    identity, operator = entries.take("identity", entries.path, None), entries.take("operator", entries.path, None)
    federation: str = entries.take("federation", _text, "")
    least: int = entries.take("secure_least", _count, LEAST)
    colluders: int = entries.take("secure_colluders", _count, 0)
    public = None if operator is None else str(operator)
    try:
        return secure_profile(identity, public, federation, least, colluders, is_insecure)
    except RequestError as error:
        raise RequestError(f"{entries.file}: {entries.name}{error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("expected text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list of texts")
    return tuple(map(_text, value))


def _methods(value: object) -> tuple[str, ...]:
    found = _texts(value)
    for name in found:
        admit(name)
    return found


def _tags(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError('expected a table of texts, such as { site = "north" }')
    return checked_tags(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _count(value: object, limit: int = 1 << 31) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < limit:
        raise ValueError("expected a whole number, 0 or more")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise ValueError("expected a number")
    return float(value)


def _seconds(value: object) -> float:
    found = _number(value)
    if not 0 < found <= 1e8:
        raise ValueError("expected 0 < seconds <= 1e8")
    return found


def _share(value: object) -> float:
    found = _number(value)
    if not 0 < found <= 1:
        raise ValueError("expected 0 < share <= 1")
    return found


def _charge(value: object) -> float:
    """Return the least charge of the battery, as a share. "mains" stands for infinity, which no battery reaches."""
    return math.inf if value == "mains" else _share(value)


def _hours(value: object) -> tuple[Hours, ...]:
    return tuple(map(Hours.parse, _texts(value)))


def _metered(value: object) -> str | tuple[str, ...]:
    return "nmcli" if value == "nmcli" else _texts(value)
