"""Lines for people, few enough to be read whatever peers do: of a kind the first ones, then one a minute with a count.

What a peer has written is in some of them: every line is made printable here. Not the printing.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.protocol.wire.printable import printable
from edgefl.system.log_lines import Alert, LineLimiter, with_hidden

PLAIN = ("server",)  # kinds whose lines nobody has to look at


class Log:
    """Takes lines with the kind that each is of. `kind` is ours, never a peer's: there are as many as we name."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._limiter = write, LineLimiter()

    def say(self, line: str, kind: str, now: float) -> None:
        """Shows the line, or counts it. `now`: seconds of a monotonic clock."""
        hidden = self._limiter.admit(kind, now)
        if hidden is not None:
            text = printable(line)
            self._write(with_hidden(text if kind in PLAIN else Alert(text), hidden))

    def end(self) -> None:
        """Says what was not shown."""
        for kind, hidden in self._limiter.take_hidden():
            self._write(f"{kind}: {hidden} more that were not shown")
