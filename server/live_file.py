"""RUN/live.json: what the running server knows of its devices, for those who look on. Not its content (live_state.py).

The server replaces the file at most once a second, and at least every BEAT_S seconds, from a thread of its own and
without waiting for the disk: a full disk or a slow one costs a state that is old, and no round. Whoever reads the file
sees a whole state. No other process is asked, so that nothing that looks on can reach the server.
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
EVERY_S = 1.0  # between two states while something happens
BEAT_S = 5.0  # between two states while nothing happens
STALE_S = 20.0  # a state that is older is of a server that was killed, stopped or is stuck


def write_live(run: Path, state: LiveState) -> None:
    """Replaces the file; what the disk refuses is lost."""
    file = run / LIVE
    with suppress(OSError):
        beside = temporary(file)
        beside.write_bytes(state.to_json())
        os.replace(beside, file)


def read_live(run: Path) -> LiveState | None:
    """The last state; None if the run has none, or if what is there is none. It is read as it stands: it may be old."""
    try:
        return LiveState.of_json((run / LIVE).read_bytes())
    except (OSError, RunError):
        return None


def is_alive(state: LiveState | None, now: float) -> bool:
    """Whether the state is of a server that runs. `now`: seconds since 1970."""
    return state is not None and state.process > 0 and now - state.time < STALE_S


def as_gone(state: LiveState) -> LiveState:
    """The state of a server that is no longer there: nobody is connected, and nobody does anything."""
    devices = {
        client: device._replace(is_connected=False, doing="refused" if device.doing == "refused" else "away")
        for client, device in state.devices.items()
    }
    return replace(state, process=0, phase="ended", opened=None, closes=None, waiting="", devices=devices)
