"""The log of server, page, client and agent on standard error: a line with a time, a level and a sentence, or a JSON
object.

    2026-11-25T21:51:41 INFO listening on 127.0.0.1:8765
    {"time": "2026-11-25T21:51:41.305+00:00", "level": "INFO", "event": "gone", "client": 3, "text": "client 3 is gone"}

The time is the machine's own: to the second, or in JSON to the millisecond with its offset from UTC. Text of a peer
cannot steer the terminal. A line that cannot be written is lost (system/standard_streams.py). system/log_lines.py
decides how many lines of a kind are shown.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from typing import Any

from edgefl.protocol.wire.printable import printable
from edgefl.system.log_lines import LogLine, level_of

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class LogFormat:
    """The format of this process's log. `least` is the lowest level that is shown."""

    least = "INFO"
    is_json = False


def flags() -> list[str]:
    """Return the options that make another process write its log as this process does."""
    level = {"DEBUG": ["--verbose"], "WARNING": ["--quiet"]}.get(LogFormat.least, [])
    return [*level, *(["--log-json"] if LogFormat.is_json else [])]


def is_plain() -> bool:
    """Return whether a progress bar may stand in for lines of the log: people read it, and no line is held back."""
    return not LogFormat.is_json and LogFormat.least != "WARNING"


def say(line: str) -> None:
    """Write one line of the log, if its level is shown."""
    _write(line, level_of(line))


def write(line: str, level: str) -> None:
    """Write one line of this level: DEBUG, INFO, WARNING or ERROR. Processes that share a stream do not mix lines."""
    _write(line, level)


def _write(line: str, level: str) -> None:
    if LEVELS.index(level) < LEVELS.index(LogFormat.least):
        return
    if LogFormat.is_json:
        text = json.dumps(_object(line, level))  # escapes every character that is not ASCII
    else:
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {level} {printable(line)}"
    sys.stderr.write(f"{text}\n")  # one call for the whole line, also where the stream is not buffered
    sys.stderr.flush()


def _object(line: str, level: str) -> dict[str, Any]:
    """Return a line as JSON values. `client` is the only client that the line is about, and `clients` has several
    clients.
    """
    event, clients = (line.event, line.clients) if isinstance(line, LogLine) else ("", ())
    found: dict[str, Any] = {
        "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "level": level,
        "event": event or "log",
        "client": clients[0] if len(clients) == 1 else None,
    }
    if len(clients) > 1:
        found["clients"] = list(clients)
    return {**found, "text": str(line)}
