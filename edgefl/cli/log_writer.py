"""The log of server, client and agent on standard error: a time, a level and a sentence a line.

    2026-11-25T21:51:41 INFO listening on 127.0.0.1:8765

The time is the machine's own, to the second. Nothing of a peer steers the terminal. A line that cannot be written is
lost (system/standard_streams.py). Which lines are shown is system/log_lines.py's business.
"""

from __future__ import annotations

import sys
import time

from edgefl.protocol.wire.printable import printable
from edgefl.system.log_lines import level_of


def say(line: str) -> None:
    """Writes one line of the log."""
    write(line, level_of(line))


def write(line: str, level: str) -> None:
    """Writes one line of this level: INFO, WARNING or ERROR. Processes that share a stream do not mix their lines."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {level} {printable(line)}\n")  # at once, also unbuffered
    sys.stderr.flush()
