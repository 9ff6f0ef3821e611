"""Lines of a log: their levels, and how many of a kind are shown. Not where they are written (cli/log_writer.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST = 20.0  # lines of a kind that are shown at once
AGAIN_S = 60.0  # after which one more is
COMMON = ("connect", "enrol", "version")  # events that every client of a run has


class LogLine(str):
    """A line with what a program reads of it. Its level is INFO, as that of a text without a class.

    event    what has happened, in one word; empty: nothing that has a name
    clients  the clients that the line is about
    """

    level = "INFO"
    event: str
    clients: tuple[int, ...]

    def __new__(cls, text: str, event: str = "", *clients: int) -> LogLine:
        line = super().__new__(cls, text)
        line.event, line.clients = event, clients
        return line

    def with_text(self, text: str) -> LogLine:
        """A line of the same level, event and clients with another text."""
        return type(self)(text, self.event, *self.clients)


class Alert(LogLine):
    """A line that somebody should look at."""

    level = "WARNING"


class Detail(LogLine):
    """A line for who looks for a fault; it is shown only if that is asked for."""

    level = "DEBUG"


def level_of(line: str) -> str:
    """The level of a line, as the log names it."""
    return line.level if isinstance(line, LogLine) else LogLine.level


def kind_of(line: str, other: str) -> str:
    """The kind that a line with an event is counted by: the event of its client, or of all clients where each of
    thousands has it when a run begins; `other` for a line without an event.
    """
    if not isinstance(line, LogLine) or not line.event:
        return other
    is_of_client = len(line.clients) == 1 and line.event not in COMMON
    return f"{line.event} client {line.clients[0]}" if is_of_client else line.event


@dataclass
class _Kind:
    """left: lines that may be shown now; at: when that was so; hidden: lines since the last one that was shown."""

    left: float
    at: float
    hidden: int = 0


class LineLimiter:
    """Decides which lines of a kind are shown: the first ones, then one a minute.

    A kind is named by us and never by a peer, so that there are as many kinds as we name.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def admit(self, kind: str, now: float) -> int | None:
        """The number of lines of the kind that were hidden since the last shown one; None: hide this line as well.

        now  seconds of a monotonic clock
        """
        of = self._kinds.setdefault(kind, _Kind(FIRST, now))
        of.left, of.at = min(FIRST, of.left + (now - of.at) / AGAIN_S), now
        if of.left < 1:
            of.hidden += 1
            return None
        of.left -= 1
        hidden, of.hidden = of.hidden, 0
        return hidden

    def take_hidden(self) -> list[tuple[str, int]]:
        """The kinds of which lines were hidden and not counted yet, with their number."""
        found = [(kind, of.hidden) for kind, of in self._kinds.items() if of.hidden]
        for of in self._kinds.values():
            of.hidden = 0
        return found


class LimitedLog:
    """Takes lines with their kinds, and shows few of each kind.

    say    shows one line to the user
    clock  a time in seconds, of which only differences count
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say, self._clock, self._limiter = say, clock, LineLimiter()

    def say(self, line: str, kind: str) -> None:
        """Shows the line, or counts it."""
        hidden = self._limiter.admit(kind, self._clock())
        if hidden is not None:
            self._say(with_hidden(line, hidden))

    def end(self) -> None:
        """Says how many lines were not shown."""
        for kind, hidden in self._limiter.take_hidden():
            self._say(f"{kind}: {hidden} more that were not shown")


def with_hidden(line: str, hidden: int) -> str:
    """The line and how many more there were, at the line's level."""
    if not hidden:
        return line
    text = f"{line} (and {hidden} more like it before)"
    return line.with_text(text) if isinstance(line, LogLine) else text
