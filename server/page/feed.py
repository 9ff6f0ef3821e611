"""The feed of the page's visitors, kept up to date by one thread: the state as JSON, and changes as events.

Events are server-sent events, each with a number. A visitor that comes back names the last event it has. If later
events are no longer kept, it is told to load the state again.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from typing import Any

from edgefl.errors import RunError
from edgefl.server.page.metrics_text import metrics_text
from edgefl.server.run_view import RunView

LOOK_S = 0.5  # seconds between two looks at the run while somebody watches
MOST_BUSY = 0.04  # largest share of a processor for looks, so that looks at large runs are rarer
IDLE_S = 10.0  # seconds between two looks while nobody watches
FRESH_S = 1.0  # largest age in seconds of the answer to a single request
KEPT = 64  # number of events that are kept


class RunFeed:
    """The newest look at one run. Any thread may use it."""

    def __init__(self, view: RunView) -> None:
        """Look at the run for the first time. Raises RunError if the run cannot be read."""
        self._view = view
        self._changed = threading.Condition()
        self._looked_at = float("-inf")
        self._number = 0
        self._frames: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._rows: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._rounds: list[dict[str, Any]] = []
        self._evaluated = 0
        self.problem = ""
        self._listeners, self._has_ended = 0, False
        self.look(0.0)

    def run(self, stop: threading.Event) -> None:
        """Look again and again, until `stop` is set."""
        took_s = 0.0
        while not stop.wait(max(LOOK_S, took_s / MOST_BUSY)):
            begun_s = time.thread_time()
            self.look(LOOK_S / 2 if self._listeners else IDLE_S)
            took_s = time.thread_time() - begun_s
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def join(self, most: int) -> bool:
        """Count another listener that waits for events. Return False if there are `most` listeners already."""
        with self._changed:
            if self._listeners >= most:
                return False
            self._listeners += 1
            return True

    def leave(self) -> None:
        """Count one listener fewer."""
        with self._changed:
            self._listeners -= 1

    def look(self, age_s: float) -> None:
        """Look at the run, unless the last look is younger than `age_s` seconds."""
        with self._changed:
            if time.monotonic() - self._looked_at < age_s:
                return
            try:
                self._view.look(time.time())
                self.problem = ""
            except RunError as error:  # a passing error, as while the server opens its database. The last look stays
                self.problem = str(error)
            self._looked_at = time.monotonic()
            self._take()

    def _take(self) -> None:
        """Take over what the view sees, and keep the changes as events."""
        facts, history = {**self._view.facts(), "problem": self.problem}, self._view.history
        rows = [_of_time(row.to_json()) for row in self._view.rows]
        rounds, before = history.rounds, len(self._rounds)
        evaluated = sum(1 for each in rounds if each["evaluation"])
        if self._facts:
            self._tell(facts, rows, rounds, before, evaluated)
        self._facts, self._rows, self._rounds, self._evaluated = facts, rows, list(rounds), evaluated
        self._changed.notify_all()

    def _tell(
        self,
        facts: dict[str, Any],
        rows: list[dict[str, Any]],
        rounds: list[dict[str, Any]],
        before: int,
        evaluated: int,
    ) -> None:
        """Keep the differences from the last look as events."""
        if len(rounds) > before or evaluated > self._evaluated:
            self._add("rounds", rounds[max(0, before - 2) :])  # replies of the last rounds may have come
        changed = [row for row, known in zip(rows, self._rows) if row != known] + rows[len(self._rows) :]
        if changed:
            self._add("devices", changed)
        if facts != self._facts:
            self._add("run", facts)

    def _add(self, event: str, values: object) -> None:
        self._number += 1
        text = json.dumps(values, separators=(",", ":"))
        self._frames.append((self._number, f"id: {self._number}\nevent: {event}\ndata: {text}\n\n".encode()))

    @property
    def number(self) -> int:
        """The number of the last event."""
        return self._number

    def state(self) -> bytes:
        """Return all that there is to show, as JSON. Its `event` is the number of the last event that it includes."""
        self.look(FRESH_S)
        with self._changed:
            found = {"event": self._number, "now": time.time(), "facts": self._facts, "devices": self._rows}
            return json.dumps({**found, "rounds": self._rounds}, separators=(",", ":")).encode()

    def metrics(self) -> bytes:
        """Return the metrics of the run for Prometheus."""
        self.look(FRESH_S)
        with self._changed:
            return metrics_text(self._facts, self._rounds, self._view.rows).encode()

    def health(self) -> tuple[bool, str]:
        """Return whether the run's server runs or has ended as it should, and its state in words."""
        self.look(FRESH_S)
        is_well = not self.problem and (self._facts["running"] or self._facts["done"])
        return is_well, self.problem or self._facts["phase"]

    def frames(self, after: int, timeout_s: float) -> tuple[int, bytes]:
        """Return the number of the last event, and the frames of the events after `after`.

        The call waits up to `timeout_s` seconds for an event. The frames are b"" if no event has come.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._number > after or self._has_ended, timeout_s)
            if after > self._number or (self._frames and after < self._frames[0][0] - 1):
                return self._number, f"id: {self._number}\nevent: again\ndata: {{}}\n\n".encode()
            found = [frame for number, frame in self._frames if number > after]
            return self._number, b"".join(found)


def _of_time(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without the value that changes by itself every moment."""
    del row["last_seen_s"]
    return row
