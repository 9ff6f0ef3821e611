"""The deadline of a round: a fixed number of seconds, or a time that follows the durations of earlier replies. Pure:
the time comes in.

The duration of a reply counts from the opening of its round, whether the reply is in time or late. It counts only if
this process has asked the client, because a device may have had the reply ready before a restart. A device that never
answers has no duration, so it does not make rounds longer. A device that is slow again and again does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

ROUNDS = 64  # number of rounds whose late replies are still counted


@dataclass(frozen=True)
class AdaptiveDeadline:
    """A deadline of `multiple` times the `quantile` of the durations of the last `window` replies.

    first_s  seconds before any reply was seen. Also the longest deadline, unless twice the quantile is more
    floor_s  shortest deadline, in seconds
    """

    first_s: float = 3600.0
    floor_s: float = 60.0
    multiple: float = 10.0
    quantile: float = 0.95
    window: int = 256

    def limit_s(self, times: deque[float]) -> float:
        """Return the deadline in seconds after replies with these durations in seconds."""
        if not times:
            return self.first_s
        ordered = sorted(times)
        high = ordered[min(len(ordered) - 1, int(self.quantile * len(ordered)))]
        return max(self.floor_s, min(self.multiple * high, max(self.first_s, 2 * high)))


Deadline = float | AdaptiveDeadline | None  # seconds, or a rule by earlier replies, or no deadline


@dataclass
class _StartedRound:
    at: float
    limit_s: float | None
    asked: set[int] = field(default_factory=set)


class RoundDeadline:
    """The deadline of the next round, from earlier rounds. `last_s` is the last deadline before a restart."""

    def __init__(self, rule: Deadline, last_s: float | None = None) -> None:
        self._rule, self._last_s = rule, last_s
        self._times: deque[float] = deque(maxlen=rule.window if isinstance(rule, AdaptiveDeadline) else 1)
        self._begun: dict[int, _StartedRound] = {}

    def follow(self, rule: Deadline, round: int) -> float | None:
        """Follow another rule from the open round on. Return the deadline of this round in seconds, or None."""
        times = self._times
        self._rule, self._last_s = rule, None
        self._times = deque(times, maxlen=rule.window if isinstance(rule, AdaptiveDeadline) else 1)
        if round in self._begun:
            self._begun[round].limit_s = self.limit_s
        return self.limit_s

    @property
    def limit_s(self) -> float | None:
        """The seconds after which a round that begins now is closed, or None for no deadline."""
        if not isinstance(self._rule, AdaptiveDeadline):
            return self._rule
        return self._last_s if self._last_s is not None and not self._times else self._rule.limit_s(self._times)

    def begin(self, round: int, now: float) -> float | None:
        """Note that the round has begun, and return its deadline in seconds, or None."""
        self._begun[round] = _StartedRound(now, self.limit_s)
        self._begun.pop(round - ROUNDS, None)
        return self._begun[round].limit_s

    def ask(self, round: int, client: int) -> None:
        """Note that the client has been asked."""
        self._begun[round].asked.add(client)

    def heard(self, round: int, client: int, now: float) -> None:
        """Note that the client's reply is there. Its duration counts as at most twice the deadline of its round."""
        begun = self._begun.get(round)
        if begun is None or client not in begun.asked:
            return
        begun.asked.remove(client)
        took = now - begun.at
        self._times.append(took if begun.limit_s is None else min(took, 2 * begun.limit_s))
