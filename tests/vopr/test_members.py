"""The promises about members in a simulation: devices that leave, sleep, tell tags and ask for any id."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.methods.task import State
from edgefl.protocol.wire.messages import DeviceNotice
from edgefl.server.client_choice import ClientChoice
from edgefl.server.events import DeviceRefusal, ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress
from tests.server.played import trained
from tests.sources import ROOT
from tests.vopr import federation
from tests.vopr.absences import PATIENCE_S, Absences
from tests.vopr.broken_promise import BrokenPromiseError
from tests.vopr.buffer_watch import BufferWatch
from tests.vopr.case import Case
from tests.vopr.command_watch import CommandWatch
from tests.vopr.disk import Disk
from tests.vopr.habits import CONDITIONS, Habits
from tests.vopr.ids import Ids
from tests.vopr.member_watch import MemberWatch, condition
from tests.vopr.process import Process
from tests.vopr.reply_log import ReplyLog
from tests.vopr.round_watch import RoundWatch
from tests.vopr.schedule import Schedule
from tests.vopr.simulation import simulated

RULES = Rules(9, 3)
RECORD = ROOT / "tests/vopr/members.jsonl"


def process(folder: Path) -> Process:
    disk = Disk(Path(tempfile.mkdtemp(dir=folder)), random.Random(0))
    return Process("server", Schedule(0), disk, lambda process, power: None)


class Watched:
    """A watch over members, with the watch over rounds that it asks."""

    def __init__(
        self, tmp_path, rules: Rules = RULES, progress: Progress | None = None, asks_all: bool = False
    ) -> None:
        self.absences, self.process, begins = Absences(), process(tmp_path), progress or Progress()
        commands = CommandWatch(rules, begins, asks_all)
        self.rounds = RoundWatch(commands, frozenset(), begins, self.process)
        self.members = MemberWatch(self.absences, commands, self.rounds, begins)

    def opens(self, round: int, *clients: int) -> None:
        for watch in (self.rounds, self.members):
            watch.saves(RoundOpened(round, clients))


def notice(sleeps: bool = False, leaves: bool = False, **tags: str) -> DeviceNotice:
    return DeviceNotice(tags, sleeps, leaves)


def test_a_client_that_has_left_is_in_no_round_until_it_is_back(tmp_path: Path) -> None:
    found = Watched(tmp_path)
    found.members.finishes(1, 5.0)
    with pytest.raises(BrokenPromiseError, match=r"round 1 has the clients \[1\], which have left"):
        found.opens(1, 0, 1)
    found.members.admits(1)
    found.opens(1, 0, 1)
    everybody = Watched(tmp_path, asks_all=True)
    everybody.members.finishes(1, 5.0)
    everybody.opens(1, 0, 1)


def test_a_departure_is_in_the_log_after_a_crash(tmp_path: Path) -> None:
    absences, commands = Absences(left={2}), CommandWatch(RULES, Progress(), asks_all=False)
    MemberWatch(absences, commands, Watched(tmp_path).rounds, Progress(refusals={2: "left"}))
    with pytest.raises(BrokenPromiseError, match=r"clients \[2\] have left; the server's log has no departure"):
        MemberWatch(absences, commands, Watched(tmp_path).rounds, Progress())


def test_a_round_that_waits_for_a_client_that_has_left_is_found(tmp_path: Path) -> None:
    found = Watched(tmp_path)
    found.opens(1, 0, 1)
    found.rounds.saves(ReplyJudged(1, 0, "accepted", "", trained(1)))
    found.rounds.saves(DeviceRefusal(1, "left"))
    found.members.finishes(1, 0.0)
    found.process.schedule.now = 50.0
    with pytest.raises(BrokenPromiseError, match=r"round 1 stays open for 50.000 s with all replies"):
        found.rounds.saves(RoundClosed(1, State({}, {}), {"seconds": 50.0}, False))


def test_only_a_device_that_sleeps_and_owes_nothing_is_sent_away(tmp_path: Path) -> None:
    found = Watched(tmp_path)
    found.opens(1, 0)
    with pytest.raises(BrokenPromiseError, match="client 1 is sent away for 30 s; it does not sleep"):
        found.members.sends_away(1, 30.0, 0.0)
    for client in (0, 1):
        found.members.hears(client, notice(sleeps=True))
    found.members.sends_away(1, 30.0, 0.0)
    with pytest.raises(BrokenPromiseError, match="client 0 is sent away for 30 s; the open round waits for it"):
        found.members.sends_away(0, 30.0, 0.0)
    found.members.admits(1)  # it has to say again that it sleeps
    with pytest.raises(BrokenPromiseError, match="it does not sleep"):
        found.members.sends_away(1, 30.0, 0.0)


def test_a_task_of_an_asynchronous_run_is_awaited_until_it_is_answered(tmp_path: Path) -> None:
    commands = CommandWatch(replace(RULES, asynchronous=AsynchronousRounds(1, 2, 2)), Progress(), asks_all=False)
    found = BufferWatch(commands, AsynchronousRounds(1, 2, 2), frozenset(), Progress(), process(tmp_path))
    found.saves(RoundOpened(1, (0, 1)))
    assert [found.awaits(client) for client in (0, 1, 2)] == [True, True, False]
    found.saves(ReplyJudged(1, 0, "accepted", "", trained(1), closes=1))
    assert not found.awaits(0)


def test_a_device_that_sleeps_does_not_count_as_gone_and_comes_again(tmp_path: Path) -> None:
    found = Watched(tmp_path)
    found.members.hears(1, notice(sleeps=True))
    found.members.sends_away(1, 30.0, 10.0)
    with pytest.raises(BrokenPromiseError, match="client 1 sleeps, and counts as gone: it is lost"):
        found.members.saves(DeviceRefusal(1, "it is lost"))
    late = 41.0 + PATIENCE_S
    with pytest.raises(BrokenPromiseError, match="client 1 was to come again at 40 s; it is away at 3641"):
        found.absences.look(late, frozenset())
    found.absences.look(late, {1})
    found.members.admits(1)
    found.absences.look(late, frozenset())
    found.members.saves(DeviceRefusal(1, "its device has left the run"))
    assert (found.absences.sleeps, found.absences.departures) == (1, 0)


def test_a_round_has_only_clients_that_fulfil_the_condition(tmp_path: Path) -> None:
    found = Watched(tmp_path, replace(RULES, choice=ClientChoice.parse("site == 1")), Progress(tags={0: {"site": "1"}}))
    found.members.hears(1, notice(site="1", power="mains"))
    found.opens(1, 0, 1)
    found.members.hears(1, notice(site="2"))
    with pytest.raises(BrokenPromiseError, match=r"round 2 has {1: {'site': '2'}}; expected clients with site == 1"):
        found.opens(2, 0, 1)


@pytest.mark.parametrize("text", [*CONDITIONS, "client != 2"])
def test_the_watch_and_the_server_read_a_condition_alike(text: str) -> None:
    tags = [{}, *({"site": site, "power": power} for site in "12" for power in ("mains", "battery"))]
    cases = [(client, told) for client in (1, 2) for told in tags]
    holds = [ClientChoice.parse(text).holds({**told, "client": client}) for client, told in cases]
    assert holds == [condition(text)(client, told) for client, told in cases]
    assert len(set(holds)) == 2


def test_a_reply_is_part_of_one_round() -> None:
    def closed(round: int, **staleness: int) -> RoundClosed:
        clients = [{"client": int(name[1:]), "status": "on", "staleness": by} for name, by in staleness.items()]
        absent = {"client": 9, "status": "absent"}
        return RoundClosed(round, State({}, {}), {"clients": [*clients, absent]}, False)

    found = ReplyLog()
    found.closes(closed(1, c0=0))
    found.resumed(0)  # round 1 was not durable, and is closed again
    found.closes(closed(1, c0=0, c1=0))
    found.resumed(1)
    found.closes(closed(2, c2=1))
    found.check([(1, 0), (1, 1), (1, 2)])
    with pytest.raises(BrokenPromiseError, match="client 9 heard accepted on round 1; no closed round has its reply"):
        found.check([(1, 9)])
    found.closes(closed(3, c2=2))
    with pytest.raises(BrokenPromiseError, match="the reply of client 2 for round 1 is part of the rounds 2 and 3"):
        found.check([])


@pytest.mark.parametrize("asks_all, is_full", [(True, False), (False, True)])
def test_a_reply_without_values_counts_towards_no_quorum_of_a_method_that_asks_all(
    tmp_path: Path, asks_all: bool, is_full: bool
) -> None:
    found = Watched(tmp_path, replace(RULES, quorum=1, deadline_s=100.0), asks_all=asks_all).rounds
    found.saves(RoundOpened(1, (0, 1), 100.0))
    found.saves(ReplyJudged(1, 0, "accepted", "", msgspec.structs.replace(trained(1), payload={})))
    close = RoundClosed(1, State({}, {}), {"seconds": 0.0}, False)
    if is_full:
        found.saves(close)
        return
    with pytest.raises(BrokenPromiseError, match="round 1 closes after 0"):
        found.saves(close)


def test_an_id_belongs_to_one_device_whose_samples_are_replayed() -> None:
    found, members = Ids(3, is_open=True), federation.made(0, "fedavg", 3, 3, 3)
    assert found.of(1) is None
    for device, client in ((1, 0), (2, 2), (0, 1), (1, 0)):
        found.admits(f"10.0.0.{device}:1", client)
    assert [found.of(device) for device in range(3)] == [1, 0, 2]
    assert [found.asked(device) for device in range(3)] == [None] * 3
    found.ask(1)
    assert found.asked(1) == 0
    own = [members.assembled.federation.clients[device] for device in (1, 0, 2)]
    placed = found.placed(members).assembled.federation.clients
    assert all(np.array_equal(one.train, other.train) for one, other in zip(own, placed, strict=True))
    with pytest.raises(BrokenPromiseError, match="device 0 is let in as client 0"):
        found.admits("10.0.0.0:1", 0)
    with pytest.raises(BrokenPromiseError, match="device 3 is let in as client 2"):
        found.admits("10.0.0.3:1", 2)


def test_a_schedule_with_members_and_commands_keeps_every_promise() -> None:
    outcome = simulated(Case(200044, 0.15, 4, "fedspu", often=3.0))
    assert outcome.failure is None
    assert min(outcome.members[name] for name in ("commands", "departures", "sleeps", "late", "conditions")) > 0


def test_the_page_has_the_sums_of_the_night_with_members() -> None:
    head, *rows = (json.loads(line) for line in RECORD.read_text().splitlines())
    count = Counter[str]()
    for row in rows:
        count.update({name: value for name, value in row.items() if isinstance(value, int)})
    count["asynchronous"] = sum(row["schedules"] for row in rows if row["buffer"])
    assert count["schedules"] == head["schedules"]
    assert not count["failures"]
    methods, said = len({row["method"] for row in rows}), {name: f"{value:,}" for name, value in count.items()}
    words = (
        f"{said['schedules']} schedules of {head['devices']} devices with {methods} methods"
        f" ([record](../tests/vopr/members.jsonl), commit {head['commit'][:8]}). {said['with_members']} of them had"
        f" devices that left, slept, told tags or began late, and {said['asynchronous']} had asynchronous rounds. In"
        f" {said['rounds']} rounds with {said['crashes']} crashes, {said['commands']} commands, {said['departures']}"
        f" departures and {said['sleeps']} times that a device was sent away, every promise held."
    )
    assert words in " ".join((ROOT / "docs/members.md").read_text().split())


def test_habits_are_rules_of_the_server() -> None:
    drawn = [Habits.drawn(Schedule(seed).stream("members"), 4, 1.0, asks_all=False) for seed in range(60)]
    assert Habits() in drawn
    assert any(each.sleepers for each in drawn)
    late = next(each for each in drawn if each.late_s and not each.choice)
    assert late.ruled(RULES).is_open
    assert late.ruled(RULES).among_enrolled
    choosing = next(each for each in drawn if each.choice)
    assert choosing.ruled(RULES).choice == ClientChoice.parse(choosing.choice)
    assert not any(Habits.drawn(Schedule(seed).stream("members"), 4, 1.0, asks_all=True).choice for seed in range(60))
