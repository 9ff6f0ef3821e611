"""The file RUN/live.json: what the running server knows of its devices, for observers. live_state.py has its content.

The server replaces the file at most once a second, and at least every BEAT_S seconds, from a thread of its own and
without waiting for the disk. A full or slow disk makes the state old, and does not delay a round. A reader sees a whole
state. Observers read the file and ask no other process, so they cannot disturb the server.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from edgefl.errors import RunError
from edgefl.server.live_state import LiveState
from edgefl.system.durable_files import temporary

LIVE = "live.json"
EVERY_S = 1.0  # seconds between two states while something happens
BEAT_S = 5.0  # seconds between two states while nothing happens
STALE_S = 20.0  # seconds. An older state comes from a server that was killed, stopped or is stuck


def write_live(run: Path, state: LiveState) -> None:
    """Replace the file. If the disk refuses, the state is lost."""
    file = run / LIVE
    with suppress(OSError):
        beside = temporary(file)
        beside.write_bytes(state.to_json())
        os.replace(beside, file)


def read_live(run: Path) -> LiveState | None:
    """Return the last state, or None if there is no valid state. It may be old."""
    try:
        return LiveState.of_json((run / LIVE).read_bytes())
    except (OSError, RunError):
        return None


def is_alive(state: LiveState | None, now: float) -> bool:
    """Return whether the state comes from a server that runs. `now` is in seconds since 1970."""
    return state is not None and state.process > 0 and now - state.time < STALE_S


def as_gone(state: LiveState) -> LiveState:
    """Return the state of a server that is no longer there: nobody is connected, and nobody does anything."""
    devices = {
        client: device._replace(is_connected=False, doing="refused" if device.doing == "refused" else "away")
        for client, device in state.devices.items()
    }
    return replace(
        state, process=0, phase="ended", opened=None, closes=None, waiting="", devices=devices, others="away"
    )
