"""The promises of a federation, and what was said that they rest on. A broken promise is a BrokenPromiseError.

Of every verdict that the server sends, the ledger keeps the words. They have to be in the server's database when they
are sent and after every crash, and the device has to keep what they acknowledge.
"""

from __future__ import annotations

import sqlite3

from edgefl.deployment.device.device_state import DeviceState
from edgefl.methods.rounds.participation import TRAINED
from edgefl.protocol.wire.messages import Verdict
from edgefl.server.member_records import AnswerOperator
from edgefl.server.run_progress import Progress
from edgefl.server.store import Store
from tests.vopr.broken_promise import BrokenPromiseError as BrokenPromiseError
from tests.vopr.federation import Members
from tests.vopr.process import Process
from tests.vopr.reply_log import ReplyLog
from tests.vopr.rows import digest


class Ledger:
    """This is a record of what the server has said, by client and round."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], str] = {}
        self._closed = 0  # last round of which a device has heard that it is closed or that a later one has begun
        self._lost: dict[int, int] = {}  # last round before a loss that somebody has accepted
        self.verdicts, self.replies = 0, ReplyLog()
        self.answered = dict[str, bool]()  # by the name of an operator's command, whether it was carried out
        self.rows: str | None = None  # digest of the server's rows before a bit of its files changed

    def tell(self, client: int, verdict: Verdict, store: Store) -> None:
        """Note a verdict that is being sent. The store has to have the same words."""
        self.verdicts += 1
        before = self._told.setdefault((verdict.round, client), verdict.outcome)
        if before != verdict.outcome:
            raise BrokenPromiseError(
                f"client {client} hears {verdict.outcome} on round {verdict.round}; it has heard {before} before"
            )
        self._check({(verdict.round, client): verdict.outcome}, _outcomes(store, verdict.round, client))

    def answer(self, answer: AnswerOperator, store: Store) -> None:
        """Note the answer to an operator's command. A command that was carried out has to be in the store."""
        self.answered[answer.name] = answer.is_done
        query = "SELECT count(*) FROM commands WHERE name = ?"
        ((count,),) = sqlite3.Connection.execute(store._database, query, (answer.name,))  # no call of the server
        if count != answer.is_done:
            raise BrokenPromiseError(f"{answer.name} is answered with {answer.line}; the log has it {count} times")

    def opened(self, round: int) -> None:
        """Note that a client is asked to train for a round, so that the round before is closed."""
        self._closed = max(self._closed, round - 1)

    def forget(self, client: int) -> None:
        """Note that a client goes on with a loss that somebody has accepted."""
        self._lost[client] = max((round for round, who in self._told if who == client), default=0)

    def resumed(self, progress: Progress, store: Store) -> None:
        """Check what a server has read when it starts again."""
        if self.rows not in (None, digest(store._database)):
            raise BrokenPromiseError("the server goes on with other rows in run.db than before a bit changed")
        self.rows = None
        self.replies.resumed(progress.round)
        if progress.round < self._closed:
            raise BrokenPromiseError(
                f"the server goes on after round {progress.round}; round {self._closed} had been closed before"
            )
        logged = {command.name for command in progress.commands}
        if lost := [name for name, is_done in self.answered.items() if is_done and name not in logged]:
            raise BrokenPromiseError(f"{lost[0]} was carried out; the server's log does not have it after a crash")
        found = {key: ruling.outcome for key, ruling in progress.rulings.items() if ruling is not None}
        self._check(self._told, found)

    def began(self, client: int, state: DeviceState) -> None:
        """Check what a device has read when it starts again."""
        lost, told = self._lost.get(client, 0), self._told.items()
        kept = [round for (round, who), outcome in told if who == client and round > lost and outcome in TRAINED]
        if kept and max(kept) not in (state.round, state.pending) and state.round < max(kept):
            raise BrokenPromiseError(
                f"client {client} starts with round {state.round} and the pending round {state.pending}; the server"
                f" has acknowledged its round {max(kept)}"
            )

    def check_replies(self) -> None:
        """Check at the end of the run that every accepted reply is part of a round."""
        self.replies.check(key for key, outcome in self._told.items() if outcome == "accepted")

    def _check(self, told: dict[tuple[int, int], str], found: dict[tuple[int, int], str]) -> None:
        for (round, client), outcome in told.items():
            if (has := found.get((round, client))) != outcome:
                raise BrokenPromiseError(
                    f"client {client} heard {outcome} on round {round}; the server's log has {has or 'nothing'}"
                )


def _outcomes(store: Store, round: int, client: int) -> dict[tuple[int, int], str]:
    query = "SELECT round, client, outcome FROM participation WHERE round = ? AND client = ?"
    rows = sqlite3.Connection.execute(store._database, query, (round, client))  # no call of the server
    return {(r, c): outcome for r, c, outcome in rows}


def check_synced(process: Process) -> None:
    """Check that a process that speaks to others has passed over no failed fsync in silence.

    Its last words to others follow at once, before people can read why it ends.
    """
    if process.failed_sync and process.schedule.now > process.failed_at:
        raise BrokenPromiseError(f"{process.name} goes on after the fsync of {process.failed_sync} has failed")


def check_end(rounds: int, wanted: int, members: Members) -> None:
    """Check that the run has as many rounds as it should have. Early stopping may end it before."""
    ((_, algorithm),) = members.assembled.algorithms.items()
    if rounds > wanted or (rounds < wanted and not getattr(algorithm, "es", False)):
        raise BrokenPromiseError(f"the run ended after round {rounds}; expected {wanted} rounds")
