"""Lines for people, few enough to be read whatever peers do: of a kind the first ones, then one a minute with a count.

What a peer has written is in some of them: every line is made printable here, and nowhere else. Not the printing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgefl.protocol.wire.printable import printable

FIRST = 20.0  # lines of a kind that are shown at once
AGAIN_S = 60.0  # after which one more is


@dataclass
class _Kind:
    """left: lines that may be shown now; at: when that was so; hidden: lines since the last one that was shown."""

    left: float
    at: float
    hidden: int = 0


class Log:
    """Takes lines with the kind that each is of. `kind` is ours, never a peer's: there are as many as we name."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._kinds: dict[str, _Kind] = {}

    def say(self, line: str, kind: str, now: float) -> None:
        """Shows the line, or counts it. `now`: seconds of a monotonic clock."""
        of = self._kinds.setdefault(kind, _Kind(FIRST, now))
        of.left, of.at = min(FIRST, of.left + (now - of.at) / AGAIN_S), now
        if of.left < 1:
            of.hidden += 1
            return
        of.left -= 1
        more, of.hidden = f" (and {of.hidden} more like it before)" if of.hidden else "", 0
        self._write(printable(line) + more)

    def end(self) -> None:
        """Says what was not shown."""
        for kind, of in self._kinds.items():
            if of.hidden:
                self._write(f"{kind}: {of.hidden} more that were not shown")
                of.hidden = 0
