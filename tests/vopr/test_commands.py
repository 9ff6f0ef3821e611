"""The promises about an operator's commands in a simulation. test_vopr_members.py has a schedule with commands."""

from __future__ import annotations

import pytest

from edgefl.protocol.wire.messages import Trained
from edgefl.server.events import ReplyJudged, RoundOpened
from edgefl.server.member_records import ClientRemoved, OperatorCommand
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress
from tests.vopr.command_watch import CommandWatch
from tests.vopr.ledger import BrokenPromiseError

REPLY = Trained(1, {}, b"", 5, 1, "on", {}, 0.1)


def watch(asks_all: bool = False) -> CommandWatch:
    return CommandWatch(Rules(rounds=3, eval_every=3), Progress(removed={7: "gone"}), asks_all)


def test_a_round_in_a_pause_is_found() -> None:
    under_test = watch()
    under_test.saves(OperatorCommand("a", 0.0, 0, ("pause",)))
    with pytest.raises(BrokenPromiseError, match="round 2 opens in a pause"):
        under_test.saves(RoundOpened(2, (1,)))
    under_test.saves(OperatorCommand("b", 0.0, 0, ("resume",)))
    under_test.saves(RoundOpened(2, (1,)))


def test_a_removed_client_that_counts_is_found() -> None:
    under_test = watch()
    under_test.saves(ClientRemoved(1, "gone"))
    with pytest.raises(BrokenPromiseError, match=r"round 2 has the removed clients \[1, 7\]"):
        under_test.saves(RoundOpened(2, (1, 2, 7)))
    with pytest.raises(BrokenPromiseError, match="a reply of the removed client 7 counts in round 1"):
        under_test.saves(ReplyJudged(1, 7, "accepted", "", REPLY))
    under_test.saves(ReplyJudged(1, 7, "late", "", REPLY))
    under_test.saves(ClientRemoved(1, ""))
    under_test.saves(RoundOpened(2, (1, 2)))
    watch(asks_all=True).saves(RoundOpened(2, (7,)))
