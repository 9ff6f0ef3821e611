"""The state of the devices that only a running server knows: connected clients, the time of each client's last message,
and its activity.

The rest is in run.db, where every commit waits for the disk. This state changes every second and is worth nothing after
a crash, so it does not belong there. live_file.py keeps it in a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgefl.errors import RunError

VERSION = 2


class LiveDevice(NamedTuple):
    """One device. `heard` is the time of its last bytes, in seconds since 1970, or None before its first bytes."""

    is_connected: bool
    heard: float | None
    doing: str
    address: str


@dataclass(frozen=True)
class LiveState:
    """The state of a server at one time. Times are seconds since 1970.

    time     time of this state. A running server makes a new state every few seconds
    process  the server's process id, or 0 once the server has ended by itself
    phase    see round_sequence.py
    round    the open round, or else the last closed one
    opened   when the round, or the evaluation, was opened. None: neither is open
    closes   when it is closed in any case. None: it has no deadline
    waiting  for whom the server waits, in words. Empty: for nobody
    devices  devices by client, for clients that are connected, are planned, have refused or have left lately
    others   activity of the enrolled clients that `devices` leaves out
    """

    time: float
    process: int
    phase: str
    round: int
    opened: float | None = None
    closes: float | None = None
    waiting: str = ""
    devices: Mapping[int, LiveDevice] = field(default_factory=dict)
    others: str = "away"

    def to_json(self) -> bytes:
        """Return the state as one line of JSON."""
        found = {**vars(self), "devices": [[client, *device] for client, device in self.devices.items()]}
        return json.dumps({"version": VERSION, **found}, separators=(",", ":")).encode()

    @staticmethod
    def of_json(data: bytes) -> LiveState:
        """Read a state that `to_json` has written. Raises RunError for anything else."""
        try:
            found: dict[str, Any] = json.loads(data)
            if found.pop("version") != VERSION:
                raise RunError(
                    f"a live state of another version; expected version {VERSION}: use the edgefl version of the server"
                )
            devices = {int(client): LiveDevice(*rest) for client, *rest in found.pop("devices")}
            return LiveState(devices=devices, **found)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RunError(f"it is not a live state of a server ({error})") from None
