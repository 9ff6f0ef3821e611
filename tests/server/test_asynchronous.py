"""Asynchronous rounds of a served run: what closes them, what a killed server goes on with, and their replay."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgefl.methods import FedAvg, FedPer, FjORD, RandomDropout
from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.server import run_history
from edgefl.server.events import ReplyJudged, RoundClosed, RoundOpened
from edgefl.study.simulation.replay import difference
from tests.server.served import CLIENTS, METHOD, RULES, World, simulated
from tests.server.test_participation import check_replay

TWO = replace(METHOD, per_round=3)
RULED = replace(RULES, rounds=6, eval_every=6, evaluation_deadline_s=5.0)


def asynchronous(buffer: int, tasks: int = 3, max_staleness: int = 3, **more: Any) -> Any:
    return replace(RULED, asynchronous=AsynchronousRounds(buffer, tasks, max_staleness), **more)


def closed_in(world: World) -> dict[int, list[tuple[int, int]]]:
    """Return by closed round its (client, staleness), for replies that it took in."""
    return {
        line["round"]: [
            (each["client"], each.get("staleness", 0)) for each in line["clients"] if each["status"] == "on"
        ]
        for line in run_history.metrics(world.path)
    }


def test_a_full_buffer_of_all_tasks_is_a_synchronous_run(tmp_path: Path) -> None:
    world = World(tmp_path / "run", TWO, asynchronous(buffer=3))
    world.finish()
    assert world.done
    state, lines = simulated(tmp_path / "simulated", TWO, RULED)
    assert difference(run_history.final_state(world.path), state) is None
    assert [line["train_loss"] for line in run_history.metrics(world.path)] == [line["train_loss"] for line in lines]


def test_a_slow_client_keeps_its_task_over_rounds(tmp_path: Path) -> None:
    """Client 2 answers its task of round 1 when two rounds were closed since."""
    world = World(tmp_path / "run", replace(TWO, per_round=4), asynchronous(buffer=2, tasks=4))
    for client in range(CLIENTS):
        world.connect(client)
    world.save()
    slow = {2}
    while world.coordinator.round < 2:
        world.save()
        for client in set(range(CLIENTS)) - slow:
            while world.to_device[client]:
                world.deliver_to_device(client)
            while world.to_server[client]:
                world.deliver_to_server(client)
    assert [type(message).__name__ for message in world.to_device[2]] == ["Train"], "it is asked once"
    world.deliver_to_device(2)
    world.deliver_to_server(2)
    world.finish()
    assert world.done
    taken = closed_in(world)
    assert (2, 0) not in taken[1]
    round, staleness = next((round, each[1]) for round, found in taken.items() for each in found if each[0] == 2)
    assert (round, staleness) == (run_history.progress(world.path).closes[1, 2], round - 1)
    assert staleness >= 2
    check_replay(world, tmp_path / "replay")


def test_a_task_that_is_too_old_is_given_up_and_its_reply_is_late(tmp_path: Path) -> None:
    world = World(tmp_path / "run", replace(TWO, per_round=3), asynchronous(buffer=1, max_staleness=1))
    for client in range(CLIENTS):
        world.connect(client)
    world.save()  # the enrolments
    world.save()  # the beginning of round 1
    (slow, *_) = sorted(client for client in range(CLIENTS) if world.to_device[client])
    while world.coordinator.round < 4:
        world.save()
        for client in set(range(CLIENTS)) - {slow}:
            while world.to_device[client]:
                world.deliver_to_device(client)
            while world.to_server[client]:
                world.deliver_to_server(client)
    given_up = [line for line in world.said if "is closed without the reply" in line]
    assert given_up[0].endswith(f"client {slow}")
    world.finish()
    assert world.done
    assert run_history.progress(world.path).rulings[1, slow].outcome == "late"  # type: ignore[union-attr]
    check_replay(world, tmp_path / "replay")


def test_a_killed_server_makes_open_tasks_again(tmp_path: Path) -> None:
    """The server is killed after each record of a round. It asks for every task of an earlier round anew."""
    world = World(tmp_path / "run", TWO, asynchronous(buffer=1))
    kills = 0
    while not world.done:
        steps = world.steps()
        if not steps:
            world.wait()
            continue
        before = len(world.saved)
        steps[kills % len(steps)]()
        if any(isinstance(record, RoundOpened | ReplyJudged | RoundClosed) for record in world.saved[before:]):
            world.restart_server()
            kills += 1
    assert kills > 15
    assert run_history.progress(world.path).closes
    check_replay(world, tmp_path / "replay")


@pytest.mark.parametrize("method", [FedAvg(per_round=3, epochs=1), METHOD])
def test_over_selection_gives_up_what_is_late(method: Any, tmp_path: Path) -> None:
    """With no staleness allowed, a round takes the first two of three replies."""
    world = World(tmp_path / "run", method, asynchronous(buffer=2, max_staleness=0))
    world.finish()
    outcomes = Counter(ruling and ruling.outcome for ruling in run_history.progress(world.path).rulings.values())
    assert outcomes["accepted"] == 12
    assert outcomes["late"] >= 5
    assert not run_history.progress(world.path).closes
    check_replay(world, tmp_path / "replay")


METHODS = [
    METHOD,
    replace(METHOD, es=True, lr=0.5),
    FedAvg(per_round=3, epochs=1),
    FedPer(per_round=3, epochs=1, batch=4),
    RandomDropout(keep=(0.5, 1.0), per_round=3, epochs=1, batch=4, lr=0.1),
    FjORD(keep=(0.25, 0.5, 1.0), per_round=3, epochs=1, batch=4, lr=0.1),
]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_happens_the_replay_agrees(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Deliveries in any order, deadlines at any time, dead clients, lost connections, server crashes."""
    method = data.draw(st.sampled_from(METHODS))
    buffer, tasks = data.draw(st.sampled_from([(1, 2), (1, 3), (2, 3), (3, 3)]))
    rules = asynchronous(buffer, tasks, data.draw(st.integers(0, 3)), deadline_s=10.0, wait_for=1, max_empty_rounds=99)
    if not getattr(method, "es", False):  # a run whose clients have stopped waits for those that never came
        rules = replace(rules, seen_s=data.draw(st.sampled_from([None, 5.0, 15.0]), label="seen"))
    folder = tmp_path_factory.mktemp("world")
    world = World(folder / "run", replace(method, per_round=tasks), rules)
    world.dead = data.draw(st.sets(st.integers(0, CLIENTS - 1), max_size=2), label="dead")
    alive = [client for client in range(CLIENTS) if client not in world.dead]
    for _ in range(data.draw(st.integers(0, 60))):
        fault = data.draw(st.sampled_from(["none"] * 12 + ["restart", "disconnect", "wait"]))
        steps = world.steps()
        if fault == "restart":
            world.restart_server()
        elif fault == "disconnect":
            world.disconnect(data.draw(st.sampled_from(alive)))
        elif fault == "wait" or not steps:
            if world.wake is not None:
                world.wait()
        else:
            data.draw(st.sampled_from(steps))()
    world.finish()
    assert world.done
    progress = run_history.progress(world.path)
    accepted = [key for key, ruling in progress.rulings.items() if ruling and ruling.outcome == "accepted"]
    taken = Counter(
        (line["round"] - each.get("staleness", 0), each["client"])
        for line in run_history.metrics(world.path)
        for each in line["clients"]
        if each["status"] in ("on", "stopped")
    )
    last = [key for key in accepted if progress.closes.get(key, key[0]) <= progress.round]
    assert taken == Counter(last), "an accepted reply is taken in once"
    check_replay(world, folder / "replay")
