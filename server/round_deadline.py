"""The deadline of a round: a fixed number of seconds, or a time that follows the durations of earlier replies. Pure:
the time comes in.

A reply's time is counted from the opening of its round, be it in time or late, if its client was asked by this process:
what a device had ready before a restart says nothing. Devices that never answer say nothing, so a dead one does not
make rounds longer; one that is slow again and again does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

ROUNDS = 64  # whose late replies are still counted


@dataclass(frozen=True)
class AdaptiveDeadline:
    """`multiple` times the `quantile` of the last `window` replies' times.

    first_s  before any reply was seen; also the most, unless twice the quantile is more
    floor_s  the least
    """

    first_s: float = 3600.0
    floor_s: float = 60.0
    multiple: float = 10.0
    quantile: float = 0.95
    window: int = 256

    def limit_s(self, times: deque[float]) -> float:
        """The deadline after replies that took these times."""
        if not times:
            return self.first_s
        ordered = sorted(times)
        high = ordered[min(len(ordered) - 1, int(self.quantile * len(ordered)))]
        return max(self.floor_s, min(self.multiple * high, max(self.first_s, 2 * high)))


Deadline = float | AdaptiveDeadline | None  # seconds; following the times seen; never


@dataclass
class _StartedRound:
    at: float
    limit_s: float | None
    asked: set[int] = field(default_factory=set)


class RoundDeadline:
    """The deadline of the next round, from those before it. `last_s`: of the last round before a restart."""

    def __init__(self, rule: Deadline, last_s: float | None = None) -> None:
        self._rule, self._last_s = rule, last_s
        self._times: deque[float] = deque(maxlen=rule.window if isinstance(rule, AdaptiveDeadline) else 1)
        self._begun: dict[int, _StartedRound] = {}

    @property
    def limit_s(self) -> float | None:
        """Seconds after which a round that begins now is closed; None: never."""
        if not isinstance(self._rule, AdaptiveDeadline):
            return self._rule
        return self._last_s if self._last_s is not None and not self._times else self._rule.limit_s(self._times)

    def begin(self, round: int, now: float) -> float | None:
        """The round has begun; its deadline in seconds."""
        self._begun[round] = _StartedRound(now, self.limit_s)
        self._begun.pop(round - ROUNDS, None)
        return self._begun[round].limit_s

    def ask(self, round: int, client: int) -> None:
        """The client has been asked."""
        self._begun[round].asked.add(client)

    def heard(self, round: int, client: int, now: float) -> None:
        """The client's reply is there. One that was away for long counts as at most twice the round's deadline."""
        begun = self._begun.get(round)
        if begun is None or client not in begun.asked:
            return
        begun.asked.remove(client)
        took = now - begun.at
        self._times.append(took if begun.limit_s is None else min(took, 2 * begun.limit_s))
