"""The promises about an operator's commands to a running server, for one life of the server.

No round opens in a pause. A removed client is in no later round, and no reply of it is accepted. A command that was
answered is in the server's log, also after a crash (ledger.py).
"""

from __future__ import annotations

from edgefl.server.events import Record, ReplyJudged, RoundOpened
from edgefl.server.member_records import ClientRemoved, OperatorCommand
from edgefl.server.round_rules import Rules
from edgefl.server.run_control import RunControl
from edgefl.server.run_progress import Progress
from tests.vopr.ledger import BrokenPromiseError


class CommandWatch:
    """The watch over one life of the server, which begins with `progress`. Raises BrokenPromiseError.

    control  settings as the commands have changed them
    removed  clients that the operator has removed
    asks_all whether the method plans every client, whether it is there or not
    """

    def __init__(self, rules: Rules, progress: Progress, asks_all: bool) -> None:
        self.control = RunControl(rules, progress.commands)
        self.removed, self.asks_all = set(progress.removed), asks_all

    def saves(self, record: Record) -> None:
        """Check a record that the coordinator wants to be durable."""
        if isinstance(record, OperatorCommand):
            self.control.apply(record.words)
        elif isinstance(record, ClientRemoved):
            (self.removed.add if record.reason else self.removed.discard)(record.client)
        elif isinstance(record, RoundOpened):
            if self.control.is_paused:
                raise BrokenPromiseError(f"round {record.round} opens in a pause")
            if (chosen := self.removed & set(record.clients)) and not self.asks_all:
                raise BrokenPromiseError(f"round {record.round} has the removed clients {sorted(chosen)}")
        elif isinstance(record, ReplyJudged) and record.outcome == "accepted" and record.client in self.removed:
            raise BrokenPromiseError(f"a reply of the removed client {record.client} counts in round {record.round}")
