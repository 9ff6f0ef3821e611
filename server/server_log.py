"""Lines for people, few enough to be read whatever peers do: of a kind the first ones, then one a minute with a count.

What a peer has written is in some of them: every line is made printable here. Not the printing.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.protocol.wire.printable import printable
from edgefl.system.log_lines import Alert, LineLimiter, LogLine, with_hidden

PLAIN = ("server",)  # kinds whose lines nobody has to look at, unless a line itself has a level


class Log:
    """Takes lines with the kind that each is of. `kind` is ours, never a peer's: there are as many as we name."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._limiter = write, LineLimiter()
        self._last: dict[str, LogLine] = {}  # of a kind, of lines with a level

    def say(self, line: str, kind: str, now: float) -> None:
        """Shows the line, or counts it. `now`: seconds of a monotonic clock."""
        if isinstance(line, LogLine):
            self._last[kind] = line
        hidden = self._limiter.admit(kind, now)
        if hidden is not None:
            self._write(with_hidden(_levelled(line, kind), hidden))

    def end(self) -> None:
        """Says what was not shown."""
        for kind, hidden in self._limiter.take_hidden():
            text = f"{kind}: {hidden} more that were not shown"
            self._write(self._last[kind].with_text(text) if kind in self._last else text)


def _levelled(line: str, kind: str) -> str:
    """The line made printable, with the level that it has or that its kind gives it."""
    text = printable(line)
    if isinstance(line, LogLine):
        return line.with_text(text)
    return text if kind in PLAIN else Alert(text)
