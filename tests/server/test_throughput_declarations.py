"""Devices that say how fast they are: who waits for that, from which round it holds, and what a replay makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgefl.experiment.settings import Settings
from edgefl.methods import FedSPUCached
from edgefl.methods.rounds.participation import RecordedParticipation
from edgefl.methods.rounds.throughput_log import ThroughputHistory
from edgefl.methods.task import State
from edgefl.methods.throughput import FORETOLD, Throughput
from edgefl.models.graph.cuts import cuts
from edgefl.protocol.wire.messages import MeasuredThroughput, ThroughputReport, Train
from edgefl.server import run_history
from edgefl.server.events import Action, Admit, DeviceJoined, ReplyJudged, RoundOpened, ThroughputRecorded
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.server.served import CLIENTS, FEDERATION, GRAPH, RULES, World, open_store
from tests.server.test_served import bits

METHOD = FedSPUCached(keep=(0.5, 1.0), per_round=3, epochs=1, batch=4, lr=0.1, budget=(), round_seconds=1.0)
FAST, SLOW = MeasuredThroughput(0.0, 1e-9, 0.0, 0.1, None), MeasuredThroughput(1e-3, 1e-2, 0.0, 0.1, None)
(CUT,) = cuts(GRAPH)


class Timing(World):
    """Devices that say, in each connection and before anything else, how fast they are.

    speeds  what each says next; None: that it does not say
    """

    def __init__(self, path: Path, speeds: dict[int, MeasuredThroughput | None], method: FedSPUCached = METHOD) -> None:
        self.speeds = speeds
        super().__init__(path, method)

    def connect(self, client: int, capacity: float = 1.0) -> None:
        self.links += 1
        self.link_of[client] = self.links
        self.to_server[client].clear()
        self.to_device[client].clear()
        self.phones[client].restart()
        claim = self.phones[client].claim()
        join = DeviceJoined(self.links, client, capacity, claim.pending, claim=claim, examples=7, declares=True)
        self.happen(join)

    def _carry_out(self, actions: list[Action]) -> None:
        super()._carry_out(actions)
        for action in actions:
            if isinstance(action, Admit):
                self.declare(action.client)

    def declare(self, client: int) -> None:
        self.to_server[client].append(ThroughputReport(self.speeds[client]))  # type: ignore[arg-type]

    def settings_of(self, round: int) -> dict[int, dict[str, object]]:
        """Return what the method told each client of a round."""
        log_record = run_history.metrics(self.path)[round - 1]
        return {record["client"]: record for record in log_record["clients"]}


def same(path: Path, said: MeasuredThroughput | None) -> Timing:
    return Timing(path, dict.fromkeys(range(CLIENTS), said))


def replayed(world: World, path: Path) -> State:
    """The run again from its log, without devices."""
    progress = run_history.progress(world.path)
    outcomes = {key: ruling and ruling.outcome for key, ruling in progress.rulings.items()}
    logged = RecordedParticipation(
        progress.capacities, outcomes, progress.candidates, progress.losses, progress.throughputs
    )
    journal = Journal(path)
    state = simulate(METHOD, FEDERATION, Settings(RULES.rounds, RULES.eval_every), journal, participation=logged)
    journal.close()
    return state


def check_replay(world: World, path: Path) -> None:
    assert world.done
    assert not [record for record in world.saved if isinstance(record, ReplyJudged) and record.outcome != "accepted"]
    found = run_history.final_state(world.path)
    again = replayed(world, path)
    assert bits(again) == bits(found)
    assert again.values == found.values


def test_throughputs_by_round() -> None:
    one, two = Throughput(1, 1, 1, 1), Throughput(2, 2, 2, 2)
    throughputs = ThroughputHistory({(7, 2): one, (7, 5): two, (9, 1): two})
    assert [dict(throughputs.at(round)) for round in (0, 1, 2, 4, 5)] == [
        {},
        {9: two},
        {7: one, 9: two},
        {7: one, 9: two},
        {7: two, 9: two},
    ]
    view = throughputs.at(3)
    throughputs.add(1, 3, one)
    assert view[1] == one
    assert 2 not in view
    assert len(view) == 3
    assert throughputs.last(7) == (5, two)
    assert throughputs.last(8) is None


def test_nobody_is_asked_before_it_has_said_how_fast_it_is(tmp_path: Path) -> None:
    world = same(tmp_path / "run", SLOW)
    for client in range(CLIENTS):
        world.connect(client)
    world.save()
    assert world.coordinator.phase == "training"
    planned = next(record for record in world.unsaved if isinstance(record, RoundOpened)).clients
    assert not any(world.to_device[client] for client in planned)
    first = planned[0]
    world.deliver_to_server(first)
    assert not world.to_device[first]  # it is not durable yet
    world.save()
    (asked,) = world.to_device[first]
    assert isinstance(asked, Train)
    assert asked.settings["cut"] == CUT
    assert asked.settings["keep"] == 0.5  # nothing is in time: fc1 stands still, fc2 has gradients of half its weights
    assert asked.settings[FORETOLD] == pytest.approx(7 * (24 * 1e-3 + (24 + 12) * 1e-2) + 0.1)
    assert not any(world.to_device[client] for client in planned[1:])
    world.finish()
    check_replay(world, tmp_path / "again")


def test_two_throughputs_and_their_replay(tmp_path: Path) -> None:
    world = Timing(tmp_path / "run", {0: FAST, 1: SLOW, 2: FAST, 3: None})
    world.finish()
    check_replay(world, tmp_path / "again")
    told = [settings for round in range(1, 5) for settings in world.settings_of(round).items()]
    assert {client for client, _ in told} == {0, 1, 2, 3}
    for client, record in told:
        assert ("cut" in record) == (client == 1)
        assert record["keep"] == (0.5 if client == 1 else 1.0)
        assert (FORETOLD in record) == (client != 3)
    throughputs = run_history.progress(world.path).throughputs
    assert throughputs == {
        (0, 1): Throughput(*_values(FAST), 7),
        (1, 1): Throughput(*_values(SLOW), 7),
        (2, 1): Throughput(*_values(FAST), 7),
    }


def _values(said: MeasuredThroughput) -> tuple[float, float, float, float, int | None]:
    return said.still_s, said.mac_s, said.step_s, said.round_s, said.memory


def test_the_log_changes_what_a_replay_plans(tmp_path: Path) -> None:
    """The tests of replays could fail: without the log other parameters come out."""
    world = same(tmp_path / "run", SLOW)
    world.finish()
    progress = run_history.progress(world.path)
    outcomes = {key: ruling and ruling.outcome for key, ruling in progress.rulings.items()}
    journal = Journal(tmp_path / "again")
    without = RecordedParticipation(progress.capacities, outcomes)
    again = simulate(METHOD, FEDERATION, Settings(RULES.rounds), journal, participation=without)
    journal.close()
    assert bits(again) != bits(run_history.final_state(world.path))


def test_what_is_said_after_it_was_asked_holds_from_the_next_round(tmp_path: Path) -> None:
    world = same(tmp_path / "run", FAST)
    while not any(isinstance(message, Train) for message in world.to_device[0]):
        world.steps()[0]()
    world.speeds[0] = SLOW
    world.declare(0)
    world.declare(0)
    world.speeds[0] = FAST
    world.declare(0)  # too late for this round, and too early for another
    world.finish()
    throughputs = {
        key: throughput for key, throughput in run_history.progress(world.path).throughputs.items() if key[0] == 0
    }
    assert [(since, throughput.mac_s) for (_, since), throughput in throughputs.items()] == [
        (1, FAST.mac_s),
        (2, SLOW.mac_s),
    ]
    told = {round: world.settings_of(round).get(0) for round in range(1, 5)}
    assert [round for round, record in told.items() if record and "cut" in record] == [
        round for round, record in told.items() if record and round > 1
    ]
    assert told[1] is not None
    check_replay(world, tmp_path / "again")


def test_a_reply_that_waits_stays_a_reply_to_the_plan_that_it_was_made_by(tmp_path: Path) -> None:
    """A device dies between its training and the reply, and is slower when it comes back."""
    world = same(tmp_path / "run", FAST)
    while world.phones[0].pending is None:
        world.steps()[0]()
    world.disconnect(0)
    world.speeds[0] = SLOW
    world.finish()
    check_replay(world, tmp_path / "again")
    assert {since for client, since in run_history.progress(world.path).throughputs if client == 0} == {1, 2}


@pytest.mark.parametrize("is_durable", [True, False], ids=["after the record is durable", "before it is"])
def test_a_server_killed_at_every_record(is_durable: bool, tmp_path: Path) -> None:
    said: dict[int, MeasuredThroughput | None] = {0: FAST, 1: SLOW, 2: FAST, 3: None}
    whole = Timing(tmp_path / "whole", said)
    whole.finish()
    expected = bits(run_history.final_state(whole.path))
    assert sum(isinstance(record, ThroughputRecorded) for record in whole.saved) == 3
    for number in range(len(whole.saved)):
        world = Timing(tmp_path / str(number), said)
        while len(world.saved) + len(world.unsaved) <= number:
            world.steps()[0]()
        if is_durable:
            world.store.save(list(world.unsaved))
        world.restart_server()
        world.finish()
        assert bits(run_history.final_state(world.path)) == expected
        world.store.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_happens_the_replay_agrees(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Messages in any order, connections that break, servers that die, devices that become faster and slower."""
    folder = tmp_path_factory.mktemp("any")
    world = Timing(folder / "run", dict.fromkeys(range(CLIENTS), FAST))
    for _ in range(data.draw(st.integers(0, 60))):
        steps = world.steps()
        what = data.draw(st.integers(0, 19))
        client = data.draw(st.integers(0, CLIENTS - 1))
        if what == 0:
            world.restart_server()
        elif what == 1:
            world.disconnect(client)
        elif what in (2, 3):
            world.speeds[client] = data.draw(st.sampled_from([FAST, SLOW, None]))
            if client in world.link_of and world.phones[client].is_heard:
                world.declare(client)
        elif steps:
            data.draw(st.sampled_from(steps))()
    world.finish()
    check_replay(world, folder / "again")
    world.store.close()


def test_nobody_waits_for_a_device_that_has_no_way_to_say_it(tmp_path: Path) -> None:
    """A relay is such a way, and so is a run that does not plan by throughput."""
    world = World(tmp_path / "letters", METHOD)
    world.finish()
    check_replay(world, tmp_path / "again")
    plain = Timing(tmp_path / "plain", dict.fromkeys(range(CLIENTS), SLOW), replace(METHOD, round_seconds=0.0))
    for client in range(CLIENTS):
        plain.connect(client)
    plain.save()
    plain.save()
    assert sum(len(plain.to_device[client]) for client in range(CLIENTS)) == METHOD.per_round
    plain.finish()
    assert plain.done
    assert run_history.progress(plain.path).throughputs == {}


def test_a_run_from_before_has_no_throughputs(tmp_path: Path) -> None:
    """Its tables are as they were. It goes on, and nothing is asked of it that is not there."""
    store = open_store(tmp_path)
    assert store.load().throughputs == {}
    store._database.execute("DROP TABLE paces")
    assert store.load().throughputs == {}
    store.close()
