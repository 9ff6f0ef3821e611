"""Lines for people, few enough to be read whatever peers do: the first lines of a kind, then one a minute with a count.

Some lines have text that a peer has written, so every line is made printable here.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.protocol.wire.printable import printable
from edgefl.system.log_lines import Alert, LineLimiter, LogLine, with_hidden

PLAIN = ("server",)  # kinds whose lines need no attention, unless a line itself has a level


class Log:
    """A log of lines by kind. A peer never names a kind, so there are only as many kinds as the server names."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._limiter = write, LineLimiter()
        self._last: dict[str, LogLine] = {}  # last line with a level, by kind

    def say(self, line: str, kind: str, now: float) -> None:
        """Show the line, or count it. `now` is in seconds of a monotonic clock."""
        if isinstance(line, LogLine):
            self._last[kind] = line
        hidden = self._limiter.admit(kind, now)
        if hidden is not None:
            self._write(with_hidden(_levelled(line, kind), hidden))

    def end(self) -> None:
        """Say how many lines of each kind were not shown."""
        for kind, hidden in self._limiter.take_hidden():
            text = f"{kind}: {hidden} more that were not shown"
            self._write(self._last[kind].with_text(text) if kind in self._last else text)


def _levelled(line: str, kind: str) -> str:
    """Return the line made printable, with the level that it has or that its kind gives it."""
    text = printable(line)
    if isinstance(line, LogLine):
        return line.with_text(text)
    return text if kind in PLAIN else Alert(text)
