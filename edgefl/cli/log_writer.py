"""The log of server, page, client and agent on standard error: a line with a time, a level and a sentence, or a JSON
object.

    2026-11-25T21:51:41 INFO listening on 127.0.0.1:8765
    {"time": "2026-11-25T21:51:41.305+00:00", "level": "INFO", "event": "gone", "client": 3, "text": "client 3 is gone"}

The time is the machine's own: to the second, or in JSON to the millisecond with its offset from UTC. Nothing of a peer
steers the terminal. A line that cannot be written is lost (system/standard_streams.py). How many lines of a kind are
shown is system/log_lines.py's business.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import datetime
from typing import Any

from edgefl.protocol.wire.printable import printable
from edgefl.system.log_lines import LogLine, level_of

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class LogFormat:
    """The format of this process's log. `least`: the lowest level that is shown."""

    least = "INFO"
    is_json = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds how much of the log is shown, and in which form."""
    group = parser.add_argument_group("the log")
    how_much = group.add_mutually_exclusive_group()
    how_much.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="write every line of the log, also the lines that help to find a fault",
    )
    how_much.add_argument("-q", "--quiet", action="store_true", help="write only warnings and errors")
    group.add_argument(
        "--log-json",
        action="store_true",
        help="write each line of the log as a JSON object with time, level, event, client and text",
    )


def use(options: argparse.Namespace) -> None:
    """From now on the log is as these options say."""
    LogFormat.least = "DEBUG" if options.verbose else "WARNING" if options.quiet else "INFO"
    LogFormat.is_json = options.log_json


def flags() -> list[str]:
    """The options that make another process write its log as this process does."""
    level = {"DEBUG": ["--verbose"], "WARNING": ["--quiet"]}.get(LogFormat.least, [])
    return [*level, *(["--log-json"] if LogFormat.is_json else [])]


def is_plain() -> bool:
    """Whether a progress bar may stand in for lines of the log: they are for people, and none is held back."""
    return not LogFormat.is_json and LogFormat.least != "WARNING"


def say(line: str) -> None:
    """Writes one line of the log, if its level is shown."""
    _write(line, level_of(line))


def write(line: str, level: str) -> None:
    """Writes one line of this level: DEBUG, INFO, WARNING or ERROR. Processes that share a stream do not mix lines."""
    _write(line, level)


def _write(line: str, level: str) -> None:
    if LEVELS.index(level) < LEVELS.index(LogFormat.least):
        return
    if LogFormat.is_json:
        text = json.dumps(_object(line, level))  # escapes whatever is not ASCII
    else:
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {level} {printable(line)}"
    sys.stderr.write(f"{text}\n")  # at once, also unbuffered
    sys.stderr.flush()


def _object(line: str, level: str) -> dict[str, Any]:
    """A line for a program. `client`: the one that it is about, if it is one; `clients`: all of several."""
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
