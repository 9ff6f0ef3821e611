"""The times of the reminder that the server waits: after half a minute, then ever more rarely."""

from __future__ import annotations

FIRST_S = 30.0
RAREST_S = 3600.0


class Reminder:
    """A reminder of a wait. It has no clock."""

    def __init__(self) -> None:
        self._what: object = None
        self._after_s, self._at = FIRST_S, 0.0

    def is_due(self, what: object, now: float) -> bool:
        """Return whether this wait has lasted long enough for the next reminder.

        what  any value that changes when another wait begins
        """
        if what != self._what:
            self._what, self._after_s, self._at = what, FIRST_S, now + FIRST_S
            return False
        if now < self._at:
            return False
        self._after_s = min(2 * self._after_s, RAREST_S)
        self._at = now + self._after_s
        return True
