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
    """The present activity of an agent.

    process  process id of the agent
    since    beginning of the activity, in seconds since 1970
    doing    the activity in words
    """

    process: int
    since: float
    doing: str


def write_activity(directory: Path, activity: Activity) -> None:
    """Replace the file with this activity. If the disk is full, the old file stays."""
    beside = temporary(directory / ACTIVITY)
    try:
        beside.write_text(json.dumps(activity._asdict()))
        os.replace(beside, directory / ACTIVITY)
    except OSError:
        return


def read_activity(directory: Path) -> Activity | None:
    """Read the activity. The result is None if there is no file that can be read."""
    try:
        found = json.loads((directory / ACTIVITY).read_text())
        return Activity(int(found["process"]), float(found["since"]), str(found["doing"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
