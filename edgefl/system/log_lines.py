"""Lines of a log: their levels, and how many lines of one kind are shown. cli/log_writer.py writes the lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST = 20.0  # lines of a kind that are shown at once
AGAIN_S = 60.0  # seconds until one more line of the kind may be shown
COMMON = ("connect", "enrol", "version")  # events that every client of a run has


class LogLine(str):
    """A line of text with fields that a program reads. Its level is INFO, like the level of a plain text.

    event    the event in one word, empty if the event has no name
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
        """Return a line with another text and with the level, event and clients of this line."""
        return type(self)(text, self.event, *self.clients)


class Alert(LogLine):
    """A line that somebody should look at."""

    level = "WARNING"


class Detail(LogLine):
    """A line for somebody who looks for a fault. It is shown only on request."""

    level = "DEBUG"


def level_of(line: str) -> str:
    """Return the name of a line's level in the log."""
    return line.level if isinstance(line, LogLine) else LogLine.level


def kind_of(line: str, other: str) -> str:
    """Return the kind under which a line is counted. It is `other` for a line without an event.

    An event of one client is a kind of its own for each client. The events of COMMON are one kind for all clients,
    because each of thousands of clients may have such an event when a run begins.
    """
    if not isinstance(line, LogLine) or not line.event:
        return other
    is_of_client = len(line.clients) == 1 and line.event not in COMMON
    return f"{line.event} client {line.clients[0]}" if is_of_client else line.event


@dataclass
class _Kind:
    """The count of one kind of lines.

    left    lines that may be shown now, not always a whole number
    at      time in seconds at which `left` was computed
    hidden  lines since the last line that was shown
    """

    left: float
    at: float
    hidden: int = 0


class LineLimiter:
    """A limiter that decides which lines of a kind are shown: the first ones, and then one a minute.

    Our code names the kinds and a peer never does, so the number of kinds is bounded.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def admit(self, kind: str, now: float) -> int | None:
        """Return how many lines of the kind were hidden since the last shown line, or None to hide this line as well.

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
        """Return the kinds with hidden lines that were not reported yet, and the number of these lines."""
        found = [(kind, of.hidden) for kind, of in self._kinds.items() if of.hidden]
        for of in self._kinds.values():
            of.hidden = 0
        return found


class LimitedLog:
    """A log that takes lines with their kinds, and shows few lines of each kind.

    say    shows one line to the user
    clock  returns a time in seconds, counted from any moment
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say, self._clock, self._limiter = say, clock, LineLimiter()

    def say(self, line: str, kind: str) -> None:
        """Show the line, or count it as hidden."""
        hidden = self._limiter.admit(kind, self._clock())
        if hidden is not None:
            self._say(with_hidden(line, hidden))

    def end(self) -> None:
        """Say how many lines were not shown."""
        for kind, hidden in self._limiter.take_hidden():
            self._say(f"{kind}: {hidden} more that were not shown")


def with_hidden(line: str, hidden: int) -> str:
    """Return the line, at its level, with the number of hidden lines added to its text."""
    if not hidden:
        return line
    text = f"{line} (and {hidden} more like it before)"
    return line.with_text(text) if isinstance(line, LogLine) else text
