"""Runs with deadlines and quorums depend on who takes part. Their replay from the log ends with equal parameters."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgefl.errors import RunError
from edgefl.experiment.settings import Settings
from edgefl.methods import FedAvg, FedSpa, FedSPU, FedUmf, FjORD, RandomDropout
from edgefl.methods.rounds.participation import RecordedParticipation
from edgefl.methods.rounds.state_file import flat
from edgefl.methods.task import State
from edgefl.server import run_history
from edgefl.server.events import DeviceRefused
from edgefl.server.run_progress import Progress
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference
from edgefl.study.simulation.round_loop import simulate
from tests.server.served import CLIENTS, FEDERATION, METHOD, RULES, Phone, World, simulated

FUSION = FedUmf(per_round=2, epochs=1, batch=4, lr=0.1, lr_decay=0.5)
SPARSE = FedSpa(per_round=2, epochs=1, batch=4, density=0.4)
RANDOM = RandomDropout(keep=(0.5, 1.0), per_round=3, epochs=1, batch=4, lr=0.1)
NESTED = FjORD(keep=(0.25, 0.5, 1.0), per_round=3, epochs=1, batch=4, lr=0.1)
TIMED = replace(RULES, deadline_s=10.0, evaluation_deadline_s=5.0, wait_for=1)


def replayed(world: World, path: Path, log: Progress | None = None) -> tuple[State, Journal]:
    """Return what simulate makes of the participation that the world's store has logged, or of another log."""
    progress = run_history.progress(world.path) if log is None else log
    outcomes = {key: ruling and ruling.outcome for key, ruling in progress.rulings.items()}
    journal = Journal(path)
    participation = RecordedParticipation(
        progress.capacities, outcomes, progress.candidates, progress.losses, closes=progress.closes
    )
    settings = Settings(
        world.rules.rounds, world.rules.rounds, stop_after=progress.round, asynchronous=world.rules.asynchronous
    )
    state = simulate(world.method, FEDERATION, settings, journal, participation=participation)
    journal.close()
    return state, journal


def check_replay(world: World, path: Path, log: Progress | None = None) -> None:
    state, journal = replayed(world, path, log)
    assert difference(run_history.final_state(world.path), state) is None
    for phone in world.phones:
        saved = journal.load_client_state(phone.client)
        if saved is not None:
            assert not saved.params or as_bytes(phone.model) == as_bytes(saved.params)
            assert phone.private == saved.private
            assert as_bytes(flat(phone.arrays)) == as_bytes(flat(saved.arrays))


def as_bytes(params: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in params.items()}


def outcomes(world: World) -> dict[tuple[int, int], str | None]:
    return {key: ruling and ruling.outcome for key, ruling in run_history.progress(world.path).rulings.items()}


def test_a_deadline_closes_a_round_without_the_dead_and_the_slow(tmp_path: Path) -> None:
    """Client 0 never connects. The first reply of client 1 comes after the deadline."""
    world = World(tmp_path / "run", replace(METHOD, per_round=4), TIMED)
    world.dead = {0}
    for client in (1, 2, 3):
        world.connect(client)
    while world.to_device[2] or world.to_device[3] or world.to_server[2] or world.to_server[3] or world.unsaved:
        world.save()
        for client in (2, 3):
            if world.to_device[client]:
                world.deliver_to_device(client)
            if world.to_server[client]:
                world.deliver_to_server(client)
    world.deliver_to_device(1)
    assert world.wake == 10.0
    world.wait()
    world.finish()
    assert world.done
    found = outcomes(world)
    assert [found[1, client] for client in range(CLIENTS)] == [None, "late", "accepted", "accepted"]
    assert [found[2, client] for client in range(CLIENTS)] == [None, "accepted", "accepted", "accepted"]
    statuses = [record["status"] for record in run_history.metrics(world.path)[0]["clients"]]
    assert statuses == ["absent", "absent", "on", "on"]
    check_replay(world, tmp_path / "replay")


def test_a_quorum_closes_a_round_and_later_replies_are_late(tmp_path: Path) -> None:
    world = World(tmp_path / "run", METHOD, replace(RULES, quorum=2))
    world.finish()
    assert world.done
    found = outcomes(world)
    for round in range(1, RULES.rounds + 1):
        assert sorted(str(outcome) for (r, _), outcome in found.items() if r == round) == [
            "accepted",
            "accepted",
            "late",
        ]
    check_replay(world, tmp_path / "replay")


def test_a_quorum_counts_the_authorised_alone(tmp_path: Path) -> None:
    """A round of one authorised client and three that are not ends with the reply of the one, whoever came before."""
    world = World(tmp_path / "run", replace(FUSION, per_round=1), replace(RULES, quorum=1))
    world.finish()
    assert world.done
    for log_record in run_history.metrics(world.path):
        assert sum(record["up"] > 0 and record["status"] == "on" for record in log_record["clients"]) == 1
    check_replay(world, tmp_path / "replay")


def test_a_client_that_was_away_has_nothing_to_fuse(tmp_path: Path) -> None:
    """Client 3 first connects in round 2 of three. The fusions of the others are as in the log's replay."""
    world = World(tmp_path / "run", FUSION, TIMED)
    world.dead = {3}
    while world.coordinator.round < 1:
        steps = world.steps()
        if steps:
            steps[0]()
        else:
            world.wait()
    world.dead = set()
    world.finish()
    found = outcomes(world)
    assert [found[round, 3] for round in (1, 2)] == [None, "accepted"]
    check_replay(world, tmp_path / "replay")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_run_with_any_faults_is_replayed_from_its_log(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Deliveries in any order, deadlines at any time, dead clients, capacities, lost connections, server crashes."""
    others = [FedAvg(per_round=2, epochs=1), FUSION, SPARSE, RANDOM, NESTED]
    method = data.draw(st.sampled_from([METHOD, replace(METHOD, es=True, lr=0.5), *others]))
    rules = replace(TIMED, quorum=data.draw(st.sampled_from([None, 1, 2])))
    if not method.asks_all:
        rules = replace(rules, seen_s=data.draw(st.sampled_from([None, 5.0, 15.0]), label="seen"))
    folder = tmp_path_factory.mktemp("world")
    world = World(folder / "run", method, rules)
    world.dead = data.draw(st.sets(st.integers(0, CLIENTS - 1), max_size=2), label="dead")
    alive = [client for client in range(CLIENTS) if client not in world.dead]
    for client in alive:
        world.connect(client, data.draw(st.sampled_from([0.25, 0.75, 1.0]), label="capacity"))
    for _ in range(data.draw(st.integers(0, 100), label="steps")):
        steps, choice = world.steps(), data.draw(st.integers(0, 9), label="choice")
        client = data.draw(st.sampled_from(alive), label="client")
        if choice < 6 and steps:
            steps[data.draw(st.integers(0, len(steps) - 1), label="step")]()
        elif choice == 6 and world.wake is not None:
            world.wait()
        elif choice == 7:
            world.disconnect(client)
        elif choice == 8:
            world.save()
        elif choice == 9 and data.draw(st.booleans(), label="restart"):
            world.restart_server()
    world.finish()
    assert world.done
    assert not any("holds" in reason or "copy" in reason for reason in world.closes)  # nobody has lost anything
    check_replay(world, folder / "replay")
    world.store.close()


def test_a_run_that_chose_among_those_who_were_there_is_replayed(tmp_path: Path) -> None:
    """Client 3 leaves in round 1 and is not chosen from round 3 on. The others are drawn as if there were three."""
    world = World(tmp_path / "run", replace(METHOD, per_round=2), replace(TIMED, wait_for=CLIENTS, seen_s=15.0))
    for client in range(CLIENTS):
        world.connect(client)
    world.save()
    world.disconnect(3)
    world.dead = {3}
    while world.coordinator.round < 1:
        world.steps()[0]() if world.steps() else world.wait()
    world.now += 20.0
    world.finish()
    assert world.done
    found = run_history.progress(world.path).candidates
    assert found[1] == {0, 1, 2, 3}
    assert found[RULES.rounds] == {0, 1, 2}
    check_replay(world, tmp_path / "replay")


def until_kept(world: World, client: int, round: int) -> None:
    while world.phones[client].kept < round:
        world.steps()[0]()


LOSSES = {"deleted": 0, "an older copy": 1}


@pytest.mark.parametrize("method", [replace(METHOD, per_round=4), replace(METHOD, es=True, per_round=4)])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_refused_until_it_is_accepted_and_then_replayed(loss: str, method: Any, tmp_path: Path) -> None:
    """Client 0 loses what it kept after round 2, and goes on from what it has: nothing, or that of round 1."""
    world, kept = World(tmp_path / "run", method), LOSSES[loss]
    until_kept(world, 0, kept)
    earlier = deepcopy(world.phones[0]) if kept else Phone(0, method)
    until_kept(world, 0, 2)
    world.disconnect(0)
    world.phones[0] = earlier
    world.connect(0)
    assert world.closes[-1].startswith(
        f"the device of client 0 holds {'what it kept after round 1' if kept else 'nothing'}; "
    )
    assert ("was deleted" if not kept else "is an older copy") in world.closes[-1]
    world.accepting = {0}
    world.restart_server()
    world.accepting = set()
    world.finish()
    assert world.done
    assert run_history.progress(world.path).losses == {(0, 2): kept}
    assert [line.endswith(": accepted") for line in world.said] == [True]
    check_replay(world, tmp_path / "replay")
    with pytest.raises(AssertionError):  # the loss made a difference, which the replay would not find without the log
        check_replay(world, tmp_path / "replay without it", replace(run_history.progress(world.path), losses={}))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_mask_is_sent_again_and_changes_nothing(loss: str, tmp_path: Path) -> None:
    """The server has the masks of all clients. A client that comes without a mask, or with an old one, gets its own,
    with ids.
    """
    method, kept = replace(SPARSE, per_round=4), LOSSES[loss]
    world = World(tmp_path / "run", method)
    until_kept(world, 0, kept)
    earlier = deepcopy(world.phones[0]) if kept else Phone(0, method)
    until_kept(world, 0, 2)
    world.disconnect(0)
    world.phones[0], world.accepting = earlier, {0}
    world.restart_server()
    world.accepting = set()
    world.finish()
    assert world.done
    assert run_history.progress(world.path).losses == {(0, 2): kept}
    check_replay(world, tmp_path / "replay")
    state, log_records = simulated(tmp_path / "undisturbed", method)
    assert difference(run_history.final_state(world.path), state) is None
    ids = [log_record["down"]["index"] for log_record in run_history.metrics(world.path)]
    assert (
        ids[2] > 0 and not any(ids[:2] + ids[3:]) and not any(log_record["down"]["index"] for log_record in log_records)
    )


def test_a_loss_of_what_a_method_does_not_need_is_told_and_let_in(tmp_path: Path) -> None:
    method = FedAvg(per_round=4, epochs=1)
    world = World(tmp_path / "run", method)
    until_kept(world, 0, 2)
    world.disconnect(0)
    world.phones[0] = Phone(0, method)
    world.finish()
    assert world.done
    assert world.said == [
        "client 0 has lost its state of round 2: accepted, as clients of fedavg keep no state between rounds"
    ]
    assert not run_history.progress(world.path).losses
    check_replay(world, tmp_path / "replay")


def test_a_copy_that_holds_the_same_is_noticed_by_its_life(tmp_path: Path) -> None:
    """The device goes on in another process. Then the copy comes, and after a server that accepts it, the device."""
    world = World(tmp_path / "run", METHOD)
    world.connect(0)
    world.save()
    copy, device = deepcopy(world.phones[0]), world.phones[0]
    for _ in range(2):
        world.connect(0)
        world.save()
    world.phones[0] = copy
    world.connect(0)
    assert "in use elsewhere, and a directory may be used in one place only" in world.closes[-1]
    world.accepting = {0}
    world.restart_server()
    world.connect(0)
    world.save()
    world.phones[0] = device
    world.connect(0)
    assert "it is an older copy, or a copy is in use elsewhere" in world.closes[-1]
    assert not run_history.progress(world.path).losses


def test_a_device_that_holds_more_than_the_log_says_is_refused(tmp_path: Path) -> None:
    """The run's directory is an older copy, and the device has what nobody can replay."""
    world = World(tmp_path / "run", METHOD)
    world.phones[0].kept, world.accepting = 7, {0}
    world.restart_server()
    world.connect(0)
    assert "of which this run's log does not know: the run's directory is an older copy" in world.closes[-1]


@pytest.mark.parametrize("name", ["fedspu", "random-dropout", "fjord"])
def test_declared_capacities_are_replayed(name: str, tmp_path: Path) -> None:
    world = World(tmp_path / "run", {"fedspu": METHOD, "random-dropout": RANDOM, "fjord": NESTED}[name])
    for client in range(CLIENTS):
        world.connect(client, 0.25)
    world.finish()
    keeps = {record["keep"] for log_record in run_history.metrics(world.path) for record in log_record["clients"]}
    assert keeps == {0.25}
    check_replay(world, tmp_path / "replay")


def test_a_log_of_other_clients_is_refused(tmp_path: Path) -> None:
    logged = RecordedParticipation({}, {(1, 0): "accepted"})
    journal = Journal(tmp_path)
    with pytest.raises(RunError, match=r"round 1 is planned with clients \[.*\]; expected \[0\], as in the run"):
        simulate(FedSPU(per_round=3), FEDERATION, Settings(2), journal, participation=logged)
    journal.close()


def altered(state: State, **changes: Any) -> State:
    arrays = {group: {n: a.copy() for n, a in params.items()} for group, params in state.arrays.items()}
    return State(arrays, {**state.values, **changes})


def test_the_first_difference_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, METHOD)
    world.finish()
    state = run_history.final_state(world.path)
    assert difference(state, altered(state)) is None
    assert difference(state, altered(state, running=[1])) == "running is [0, 1, 2, 3] in the run and [1] in the replay"
    other = altered(state)
    other.arrays["model"]["fc1.weight"][2, 1] = 9
    text = difference(state, other)
    assert text is not None
    assert text.startswith("model/fc1.weight[2, 1] is ")
    assert text.endswith(" and 9 in the replay")
    del other.arrays["model"]["fc1.bias"]
    assert difference(state, other) == "model/fc1.bias is only in one of the two states"


def test_rounds_that_choose_among_the_enrolled_replay_alike(tmp_path: Path) -> None:
    """Clients 2 and 3 enrol after round 1, which chooses among the two that are there. Client 1 refuses later."""
    world = World(tmp_path / "run", METHOD, replace(TIMED, wait_for=2, among_enrolled=True))
    world.dead = {2, 3}
    while world.coordinator.round < 1:
        world.steps()[0]()
    world.dead = set()
    while world.coordinator.round < 2:
        world.steps()[0]()
    world.happen(DeviceRefused(world.link_of[1], "data do not fit"))
    world.disconnect(1)
    world.dead = {1}
    world.finish()
    assert world.done
    found = outcomes(world)
    assert sorted(client for round, client in found if round == 1) == [0, 1]
    assert run_history.progress(world.path).candidates[1] == frozenset({0, 1})
    assert all(client != 1 for round, client in found if round == 4)
    state, _ = replayed(world, tmp_path / "replay")  # client 1 never heard the verdict on its last reply
    assert difference(run_history.final_state(world.path), state) is None
