"""The events of a simulation in the order of a virtual clock. One seed gives one order, and one digest of it."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

SHOWN = 40  # lines of the trace that a failure prints


class Owner(Protocol):
    """The process to which an event belongs. Its events are dropped once it is dead, and wait while it is halted."""

    is_alive: bool
    halted_until: float


class Schedule:
    """The queue of events.

    now      the virtual time in seconds
    running  the process whose event is handled now, or None
    trace    the last lines that were noted
    events   the number of events that were handled
    folder   the folder of the simulation, whose name is left out of what is noted, because it is another each time
    """

    def __init__(self, seed: int, folder: str = "") -> None:
        self.now, self.events = 0.0, 0
        self.running: Owner | None = None
        self.trace: deque[str] = deque(maxlen=SHOWN)
        self._seed, self._folder, self._added = seed, folder, 0
        self._queue: list[tuple[float, int, Callable[[], None], Owner | None]] = []
        self._dropped = set[int]()
        self._digest = hashlib.sha256()

    def stream(self, purpose: str) -> random.Random:
        """Return a source of random numbers for one purpose, so that two purposes do not disturb each other."""
        return random.Random(f"{self._seed} {purpose}")

    def at(self, time: float, call: Callable[[], None], owner: Owner | None = None) -> int:
        """Call at this time, or at once if the time has passed. Return the number of the event."""
        self._added += 1
        heapq.heappush(self._queue, (max(time, self.now), self._added, call, owner))
        return self._added

    def after(self, seconds: float, call: Callable[[], None], owner: Owner | None = None) -> int:
        """Call after so many seconds. Return the number of the event."""
        return self.at(self.now + seconds, call, owner)

    def drop(self, number: int) -> None:
        """Take back the event with this number. At most half of the queue are such events."""
        self._dropped.add(number)
        if 2 * len(self._dropped) > len(self._queue):
            self._queue = [event for event in self._queue if event[1] not in self._dropped]
            heapq.heapify(self._queue)
            self._dropped.clear()

    def forget_dead(self) -> None:
        """Let go of the events of dead processes, which would be dropped at their time, and of what they refer to."""
        self._queue = [event for event in self._queue if event[3] is None or event[3].is_alive]
        heapq.heapify(self._queue)
        self._dropped &= {event[1] for event in self._queue}

    def note(self, line: str) -> None:
        """Add a line to the trace and to the digest."""
        line = f"{self.now:.6f} {self.placeless(line)}"
        self._digest.update(line.encode() + b"\n")
        self.trace.append(line)

    def placeless(self, line: str) -> str:
        """Return a line without the name of the folder of the simulation."""
        return line.replace(self._folder, "") if self._folder else line

    @property
    def digest(self) -> str:
        """The digest of all lines, 16 hexadecimal digits."""
        return self._digest.hexdigest()[:16]

    def settle(self) -> None:
        """Handle the events of the present time."""
        while self._queue and self._queue[0][0] <= self.now:
            self.step()

    def step(self) -> bool:
        """Handle the next event. Return False if there is none."""
        if not self._queue:
            return False
        time, number, call, owner = heapq.heappop(self._queue)
        if number in self._dropped:
            self._dropped.discard(number)
            return True
        self.now = time
        if owner is not None and not owner.is_alive:
            return True
        if owner is not None and owner.halted_until > time:
            self.at(owner.halted_until, call, owner)
            return True
        self.events += 1
        self.running = owner
        try:
            call()
        finally:
            self.running = None
        return True
