"""Log lines about refused, excluded and clipped replies, one line for each reply. methods/rounds decides the reasons.

A round has at most MOST lines, and a last line gives the number of further replies when the round closes. A served
run says a refusal when the reply is judged. Decisions that compare replies are said when the round closes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgefl.system.log_lines import LogLine

MOST = 3


class Refusals:
    """A writer of these log lines. `say` takes the lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._judged: dict[int, int] = {}  # round that is open -> number of refusals so far

    def judged(self, round: int, outcome: str, reason: str, client: int) -> None:
        """Take note of the verdict on a client's reply of an open round."""
        if outcome == "refused":
            self._judged[round] = self._judged.get(round, 0) + 1
            if self._judged[round] <= MOST:
                self._say(LogLine(f"round {round}: refused: {reason}", "refused", client))

    def closed(self, log_record: dict[str, Any]) -> None:
        """Take note of a round that has closed with these metrics."""
        said = self._judged.pop(log_record["round"], None)
        found = [line for each in log_record.get("clients", ()) for line in _words(each, said is None)]
        before = said or 0
        for line in found[: max(MOST - before, 0)]:
            self._say(line.with_text(f"round {log_record['round']}: {line}"))
        if (more := len(found) + before - MOST) > 0:
            self._say(f"round {log_record['round']}: and {more} more like these")


def _words(client: dict[str, Any], with_refused: bool) -> list[LogLine]:
    status, number = client["status"], client["client"]
    if status == "excluded" or (with_refused and status == "refused"):
        return [LogLine(f"{status}: {client['reason']}", status, number)]
    return [LogLine(f"clipped: {client['clipped']}", "clipped", number)] if "clipped" in client else []
