"""One row for each device of a served run, with facts from run.db and facts that the running server knows.

The command line, the page and /metrics show the same rows, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgefl.server.device_activity import AWAY, MISSING, REFUSED, WAITED_FOR
from edgefl.server.device_history import DeviceHistory, ServedDevice
from edgefl.server.live_file import as_gone, is_alive
from edgefl.server.live_state import LiveDevice, LiveState

NOBODY = LiveDevice(False, None, AWAY, "")


@dataclass(frozen=True)
class DeviceRow:
    """One device. An unknown value is None.

    capacity        largest share of the neurons that it trains: its tier
    version         version and kernels with which it trains, as it says. The last one in order if there are several
    connected       whether it is connected now. None: the run's server says nothing about it
    doing           activity, see device_activity.py
    waited_for      whether the open round, or evaluation, lacks its answer
    last_seen       time of its last bytes, in seconds since 1970
    last_seen_s     seconds since then
    median_seconds  median of the seconds of training in a round, as it says
    accepted, late, absent, refused  number of its replies in closed rounds, by outcome
    why             reason of the last trouble, or the reason why it takes no part
    examples        number of training samples
    memory_bytes    bytes that its training may take, where it was asked
    joules          joules that it measured, by the kind of source
    accuracy        accuracy of its own model, or of the global one, on its own test samples in the last evaluation
    """

    client: int
    enrolled: bool
    capacity: float | None
    version: str
    connected: bool | None
    address: str
    doing: str
    waited_for: bool
    last_seen: float | None
    last_seen_s: float | None
    median_seconds: float | None
    accepted: int
    late: int
    absent: int
    refused: int
    why: str
    examples: int | None
    memory_bytes: int | None
    joules: Mapping[str, float]
    accuracy: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {**vars(self), "joules": dict(self.joules)}


def device_rows(history: DeviceHistory, live: LiveState | None, clients: int, now: float) -> list[DeviceRow]:
    """Return the rows of all clients of the run, in their order. `now` is in seconds since 1970."""
    if live is not None and not is_alive(live, now):
        live = as_gone(live)
    everybody = range(max([clients - 1, *history.devices, *(live.devices if live else ())]) + 1)
    return [_row(client, history, live, now) for client in everybody]


def waited_for(rows: list[DeviceRow]) -> list[int]:
    """Return the clients whose answers the open round or evaluation lacks."""
    return [row.client for row in rows if row.waited_for]


def _row(client: int, history: DeviceHistory, live: LiveState | None, now: float) -> DeviceRow:
    record = history.devices.get(client) or ServedDevice()
    is_enrolled = record.capacity is not None
    known = NOBODY if live is None else live.devices.get(client) or _left_out(live, is_enrolled)
    doing = known.doing if is_enrolled or known.doing != AWAY else MISSING
    return DeviceRow(
        client=client,
        enrolled=is_enrolled,
        capacity=record.capacity,
        version=record.versions[-1] if record.versions else "",
        connected=None if live is None else known.is_connected,
        address=known.address,
        doing=REFUSED if record.refusal else doing,
        waited_for=doing in WAITED_FOR and not record.refusal,
        last_seen=known.heard,
        last_seen_s=None if known.heard is None else max(0.0, round(now - known.heard, 1)),
        median_seconds=record.median_s,
        accepted=record.count("accepted"),
        late=record.count("late"),
        absent=record.count("absent"),
        refused=record.count("refused"),
        why=record.refusal or str(record.trouble),
        examples=record.examples,
        memory_bytes=record.memory,
        joules=record.joules,
        accuracy=record.accuracy,
    )


def _left_out(live: LiveState, is_enrolled: bool) -> LiveDevice:
    """Return the state of a client that the server's report leaves out."""
    return NOBODY._replace(doing=live.others) if is_enrolled else NOBODY
