"""The promises about the rounds of one life of the server: when a round may close, and whose replies it takes.

A round closes when every client that takes part is judged, at the quorum, or at its deadline, and not before or long
after. A client whose key was withdrawn before this life is accepted in no round.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from edgefl.protocol.wire.messages import Train
from edgefl.server.events import DeviceRefusal, Record, ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.member_records import OperatorCommand
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline
from edgefl.server.run_progress import Progress
from tests.vopr.command_watch import CommandWatch
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.process import Process

SLACK_S = 1.0  # seconds after a deadline in which a server that is not halted has acted


@dataclass
class _OpenRound:
    """The open round: its planned clients, the outcomes so far, and the time at which this life has opened it.

    counted  clients whose accepted replies count towards the quorum
    full_at  time from which the round has what it needs, or None
    has_changed  whether the operator has changed the deadline
    limit_s  the recorded deadline in seconds. None: it has none, or it is not known as an earlier life recorded it
    """

    number: int
    clients: Set[int]
    outcomes: dict[int, str]
    counted: set[int]
    at: float
    limit_s: float | None
    full_at: float | None = None
    has_changed: bool = False


class RoundWatch:
    """The watch over one life of the server, which begins with `progress`. Raises BrokenPromiseError."""

    def __init__(self, commands: CommandWatch, revoked: Set[int], progress: Progress, process: Process) -> None:
        self._commands, self._revoked, self._process = commands, revoked, process
        self._refusing = set(progress.refusals)
        self._open: _OpenRound | None = None
        if progress.opened is not None:
            outcomes = {each.client: each.outcome for each in progress.answers}
            counted = {each.client for each in progress.answers if self._is_counted(each)}
            self._open = _OpenRound(progress.round + 1, frozenset(progress.opened), outcomes, counted, 0.0, None)
        self._has_begun = False

    def begin(self) -> None:
        """Note that the coordinator goes on with an open round, whose time begins anew. Only the first call counts."""
        if self._open is not None and not self._has_begun:
            self._open.at = self._process.schedule.now
        self._has_begun = True

    def asks(self, message: Train) -> None:
        """Check the deadline that a client is told."""
        rule, told = self._commands.control.rules.deadline_s, message.deadline_s
        if (
            self._open is None
            or self._open.has_changed
            or message.round != self._open.number
            or isinstance(rule, AdaptiveDeadline)
        ):
            return
        left = None if rule is None else rule - (self._process.schedule.now - self._open.at)
        if (told is None) != (left is None) or (told is not None and left is not None and abs(told - left) > SLACK_S):
            raise BrokenPromiseError(f"a client is told a deadline of {told} s in round {message.round}; it has {left}")

    def saves(self, record: Record) -> None:
        """Check a record that the coordinator wants to be durable."""
        now = self._process.schedule.now
        if isinstance(record, DeviceRefusal):
            (self._refusing.add if record.reason else self._refusing.discard)(record.client)
        elif isinstance(record, OperatorCommand) and self._open is not None:
            self._open.has_changed |= record.words[-1].startswith("deadline=")
        elif isinstance(record, RoundOpened):
            self._open = _OpenRound(record.round, frozenset(record.clients), {}, set(), now, record.deadline_s)
        elif isinstance(record, ReplyJudged):
            if record.outcome == "accepted" and record.client in self._revoked:
                raise BrokenPromiseError(f"client {record.client} counts in round {record.round} without a key")
            if self._open is not None and record.round == self._open.number:
                self._open.outcomes[record.client] = record.outcome
                self._open.counted |= {record.client} if self._is_counted(record) else set()
                self.loses(now)
        elif isinstance(record, RoundClosed) and self._open is not None:
            self._closes(self._open, record, now)
            self._open = None

    def loses(self, now: float) -> None:
        """Note that it is durable that a client has left. A round that waits for nobody else closes at once."""
        if self._open is not None and self._open.full_at is None and self._is_full(self._open):
            self._open.full_at = now

    def awaits(self, client: int) -> bool:
        """Return whether the open round waits for this client's reply."""
        return self._open is not None and client in self._open.clients and client not in self._open.outcomes

    def _closes(self, opened: _OpenRound, record: RoundClosed, now: float) -> None:
        rules = self._commands.control.rules
        took, quorum = now - opened.at, rules.quorum
        shortest, longest = limits(rules.deadline_s, opened.limit_s)
        shortest, longest = (0.0, None) if opened.has_changed else (shortest, longest)
        if not self._is_full(opened) and (shortest is None or took < shortest - SLACK_S / 10):
            raise BrokenPromiseError(
                f"round {opened.number} closes after {took:.3f} s with the outcomes {opened.outcomes} of clients"
                f" {sorted(opened.clients)}; expected quorum {quorum}, or {shortest} s"
            )
        was_awake = now > self._process.halted_until + SLACK_S
        if longest is not None and took > longest + SLACK_S and was_awake:
            raise BrokenPromiseError(f"round {opened.number} closes after {took:.3f} s; expected at most {longest} s")
        if opened.full_at is not None and now > opened.full_at + SLACK_S and was_awake:
            raise BrokenPromiseError(
                f"round {opened.number} stays open for {now - opened.full_at:.3f} s with all replies"
            )
        if abs(record.log_record["seconds"] - took) > SLACK_S:
            seconds = record.log_record["seconds"]
            raise BrokenPromiseError(f"round {opened.number} states {seconds:.3f} s; it took {took:.3f} s")

    def _is_full(self, opened: _OpenRound) -> bool:
        """Return whether each client that takes part is judged, or as many are accepted as the quorum wants."""
        quorum = self._commands.control.rules.quorum
        if opened.outcomes.keys() | self._refusing | self._commands.removed >= opened.clients:
            return True
        return quorum is not None and len(opened.counted) >= quorum

    def _is_counted(self, record: ReplyJudged) -> bool:
        """Return whether a reply counts towards the quorum. A method that asks all lets a few of them send values."""
        return record.outcome == "accepted" and (not self._commands.asks_all or bool(record.message.payload))


def limits(rule: Deadline, recorded_s: float | None) -> tuple[float | None, float | None]:
    """Return the shortest and the longest time in seconds after which a round without all replies may close."""
    if isinstance(rule, AdaptiveDeadline):
        return rule.floor_s, recorded_s
    return rule, rule
