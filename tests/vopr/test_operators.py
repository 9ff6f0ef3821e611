"""Operators act in a simulation, and the promises about rounds and withdrawn keys are checked meanwhile."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from edgefl.methods.task import State
from edgefl.protocol.wire.messages import Train
from edgefl.server.events import DeviceRefusal, ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.member_records import OperatorCommand
from edgefl.server.round_deadline import AdaptiveDeadline
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress
from tests.server.played import trained
from tests.vopr import faults, seams
from tests.vopr.command_watch import CommandWatch
from tests.vopr.disk import Disk
from tests.vopr.faults import Fault
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.operator import Operator
from tests.vopr.process import Process
from tests.vopr.round_watch import RoundWatch
from tests.vopr.schedule import Schedule
from tests.vopr.settings import Settings
from tests.vopr.simulation import simulate


def settings() -> Settings:
    return Settings(Rules(9, 3, deadline_s=100.0), {client: bytes([client]) * 32 for client in range(4)})


def process(folder: Path) -> Process:
    return Process("server", Schedule(0), Disk(folder / "disk", random.Random(0)), lambda process, power: None)


def watch(
    at: Process, rules: Rules, revoked: frozenset[int] = frozenset(), progress: Progress | None = None
) -> RoundWatch:
    begins = progress or Progress()
    return RoundWatch(CommandWatch(rules, begins, asks_all=False), revoked, begins, at)


def closed(seconds: float) -> RoundClosed:
    return RoundClosed(1, State({}, {}), {"seconds": seconds}, False)


def judged(client: int) -> ReplyJudged:
    return ReplyJudged(1, client, "accepted", "", trained(1))


def test_a_round_that_closes_without_all_replies_has_to_wait_for_its_deadline(tmp_path: Path) -> None:
    at = process(tmp_path)
    found = watch(at, Rules(9, 3, deadline_s=100.0))
    found.saves(RoundOpened(1, (0, 1), 100.0))
    found.saves(judged(0))
    at.schedule.now = 50.0
    with pytest.raises(BrokenPromiseError, match=r"round 1 closes after 50.000 s with the outcomes \{0: 'accepted'\}"):
        found.saves(closed(50.0))
    at.schedule.now = 110.0
    with pytest.raises(BrokenPromiseError, match=r"closes after 110.000 s; expected at most 100.0 s"):
        found.saves(closed(110.0))
    at.schedule.now = 100.0
    with pytest.raises(BrokenPromiseError, match=r"states 7.000 s; it took 100.000 s"):
        found.saves(closed(7.0))
    found.saves(closed(100.0))


@pytest.mark.parametrize(
    ("rules", "record"),
    [
        (Rules(9, 3), judged(1)),
        (Rules(9, 3), DeviceRefusal(1, "a reason")),
        (Rules(9, 3, quorum=1), judged(0)),
    ],
)
def test_a_round_closes_early_when_everybody_is_judged_or_refuses_or_at_its_quorum(
    rules: Rules, record: ReplyJudged | DeviceRefusal, tmp_path: Path
) -> None:
    for is_given in (True, False):
        found = watch(process(tmp_path / str(is_given)), rules)
        found.saves(RoundOpened(1, (0, 1)))
        if rules.quorum is None:
            found.saves(judged(0))
        if is_given:
            found.saves(record)
            found.saves(closed(0.0))
        else:
            with pytest.raises(BrokenPromiseError, match="round 1 closes after"):
                found.saves(closed(0.0))


def test_the_time_of_an_open_round_begins_anew_when_the_coordinator_goes_on(tmp_path: Path) -> None:
    at = process(tmp_path)
    found = watch(at, Rules(9, 3, deadline_s=100.0), progress=Progress(opened=(0, 1)))
    at.schedule.now = 40.0
    found.begin()
    at.schedule.now = 140.0
    found.begin()
    found.saves(closed(100.0))


def test_an_adaptive_deadline_is_at_least_its_floor(tmp_path: Path) -> None:
    at = process(tmp_path)
    found = watch(at, Rules(9, 3, deadline_s=AdaptiveDeadline(300.0, 30.0)))
    found.saves(RoundOpened(1, (0,), 40.0))
    at.schedule.now = 29.0
    with pytest.raises(BrokenPromiseError, match=r"round 1 closes after 29.000 s"):
        found.saves(closed(29.0))


def test_a_client_is_told_what_is_left_of_the_deadline(tmp_path: Path) -> None:
    at = process(tmp_path)
    found = watch(at, Rules(9, 3, deadline_s=100.0))
    found.saves(RoundOpened(1, (0,), 100.0))
    at.schedule.now = 40.0
    found.asks(Train(1, b"", {}, {}, 60.0, {}))
    with pytest.raises(BrokenPromiseError, match=r"is told a deadline of 100.0 s in round 1; it has 60.0"):
        found.asks(Train(1, b"", {}, {}, 100.0, {}))


def test_a_client_without_its_key_counts_in_no_round(tmp_path: Path) -> None:
    with pytest.raises(BrokenPromiseError, match="client 1 counts in round 1 without a key"):
        watch(process(tmp_path), Rules(9, 3), frozenset((1,))).saves(judged(1))


def test_an_operator_withdraws_a_key_and_lets_no_round_wait_for_the_client() -> None:
    found = settings()
    operator = Operator(random.Random(0), found, 4, 2)
    assert operator.change("revoke", 3)
    assert found.keys is not None
    assert (set(found.keys), set(found.revoked)) == ({0, 1, 2}, {3})
    assert (found.rules.wait_for, found.rules.evaluation_deadline_s) == (1, 120.0)
    refusal = "the server refuses: client 3; expected the id of a client that has a key"
    assert operator.is_out(3, RuntimeError(refusal))
    assert not operator.is_out(2, RuntimeError(refusal))
    assert [operator.change("revoke", client) for client in (3, 2, 1)] == [False, True, False]  # half of the clients


def test_a_device_with_another_key_begins_with_an_accepted_loss() -> None:
    found = settings()
    assert Operator(random.Random(0), found, 4, 2).change("rotate", 1)
    assert found.keys is not None
    assert found.keys[1] != bytes([1]) * 32
    assert found.accepting == {1}


def test_a_wall_clock_leaps_alone(tmp_path: Path) -> None:
    at = process(tmp_path)
    at.schedule.now, at.disk.clock_s, at.schedule.running = 10.0, 3600.0, at
    with seams.placed(at.schedule):
        assert time.time() == seams.BEGIN + 3610.0
    assert Fault("clock device", 0, 2.0, 1).leap_s == 7200.0
    assert Fault("clock device", 0, 2.0, 2).leap_s == -7200.0


@pytest.mark.parametrize("method", ["fedavg", "fedspu"])
def test_a_run_that_operators_change_again_and_again_keeps_every_promise(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = {kind: 10 * rate for kind, rate in {**faults.OPERATIONS, **faults.CLOCKS}.items()}
    monkeypatch.setattr(faults, "RATES", {**faults.RATES, **often})
    found = simulate(3, hours=0.2, devices=4, method=method)
    assert found.failure is None
    assert found.rounds == 12


def test_a_deadline_that_the_operator_has_changed_is_not_held_against_the_open_round(tmp_path: Path) -> None:
    at = process(tmp_path)
    found = watch(at, Rules(9, 3, deadline_s=100.0))
    commands = found._commands
    found.saves(RoundOpened(1, (0, 1), 100.0))
    command = OperatorCommand("a", 0.0, 0, ("set", "deadline=5"))
    commands.saves(command)
    found.saves(command)
    at.schedule.now = 7.0
    found.asks(Train(1, b"", {}, {}, 0.0, True))
    found.saves(closed(7.0))
    found.saves(RoundOpened(2, (0, 1), 5.0))
    at.schedule.now = 9.0
    with pytest.raises(BrokenPromiseError, match="round 2 closes after 2"):
        found.saves(replace(closed(2.0), round=2))
