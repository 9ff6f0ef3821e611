"""Says which replies were refused, left out or shortened, a line each, as it happens. Not why (rounds/).

A round says no more than MOST lines; how many more there were follows when it closes. In a served run a refusal is said
when the reply is judged, whereas what is decided about replies beside each other is said when the round closes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST = 3


class Refusals:
    """`say` takes the lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._judged: dict[int, int] = {}  # refusals of open rounds that were said or counted already, by round

    def judged(self, round: int, outcome: str, reason: str) -> None:
        """A reply of an open round has been judged."""
        if outcome == "refused":
            self._judged[round] = self._judged.get(round, 0) + 1
            if self._judged[round] <= MOST:
                self._say(f"round {round}: refused: {reason}")

    def closed(self, log_record: dict[str, Any]) -> None:
        """A round has closed with these metrics."""
        said = self._judged.pop(log_record["round"], None)
        found = [text for each in log_record.get("clients", ()) for text in _words(each, said is None)]
        before = said or 0
        for text in found[: max(MOST - before, 0)]:
            self._say(f"round {log_record['round']}: {text}")
        if (more := len(found) + before - MOST) > 0:
            self._say(f"round {log_record['round']}: and {more} more like these")


def _words(client: dict[str, Any], with_refused: bool) -> list[str]:
    if client["status"] == "excluded" or (with_refused and client["status"] == "refused"):
        return [f"{client['status']}: {client['reason']}"]
    return [f"clipped: {client['clipped']}"] if "clipped" in client else []
