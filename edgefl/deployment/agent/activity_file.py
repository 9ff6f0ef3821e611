"""The present activity of an agent as a small file in its state directory. The file is for people and not for recovery,
so it is not synced.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from edgefl.system.durable_files import temporary

ACTIVITY = "agent.json"


class Activity(NamedTuple):
    """The agent's process, since when in seconds of the epoch, and what it does."""

    process: int
    since: float
    doing: str


def write_activity(directory: Path, activity: Activity) -> None:
    """Replaces what was there. A disk that is full keeps what it has."""
    beside = temporary(directory / ACTIVITY)
    try:
        beside.write_text(json.dumps(activity._asdict()))
        os.replace(beside, directory / ACTIVITY)
    except OSError:
        return


def read_activity(directory: Path) -> Activity | None:
    """None if there is none that can be read."""
    try:
        found = json.loads((directory / ACTIVITY).read_text())
        return Activity(int(found["process"]), float(found["since"]), str(found["doing"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
