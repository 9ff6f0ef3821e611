"""Methods that use all that a plan can say, served: the same state, metrics and private values as in simulate."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from edgefl import methods
from edgefl.cli import local_processes as demo
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file
from edgefl.experiment.run_json import open_run
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.exchange import plan_of, sizes
from edgefl.methods.task import MODEL, State
from edgefl.models.neurons.gather import take
from edgefl.protocol.wire.messages import Trained
from edgefl.server import run_history
from edgefl.server.events import ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.open_round import OpenRound
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference, replay
from edgefl.study.simulation.round_loop import simulate
from tests.seams import MASK, SEAMS, random_mask
from tests.server.processes import lines, start, until
from tests.server.served import INITIAL, RULES, SPEC, TASK, World, open_store, simulated
from tests.server.test_served import Expected

PROGRAM = (str(Path(__file__).with_name("with_seams.py")),)
OPTIONS = {"per_round": 3, "epochs": 1, "batch": 4, "lr": 0.1}
METHODS = {name: kind(**OPTIONS) for name, kind in SEAMS.items()}


@pytest.mark.parametrize("name", METHODS)
def test_a_served_run_equals_simulate(name: str, tmp_path: Path) -> None:
    expected = Expected(tmp_path / "simulated", METHODS[name])
    world = World(tmp_path / "served", METHODS[name])
    world.finish()
    expected.check(world)
    assert all(client["status"] == "on" for log_record in expected.log_records for client in log_record["clients"])


@pytest.mark.parametrize("name", METHODS)
def test_a_server_that_is_killed_goes_on_with_masks_and_expectations(name: str, tmp_path: Path) -> None:
    expected = Expected(tmp_path / "simulated", METHODS[name])
    world = World(tmp_path / "served", METHODS[name])
    for restart in range(1, 12):
        while len(world.saved) + len(world.unsaved) < 3 * restart and world.steps():
            world.steps()[-1]()
        world.restart_server()
    world.finish()
    expected.check(world)


def test_a_schedule_over_the_run_knows_its_length(tmp_path: Path) -> None:
    """Sparse halves its share of ones over all rounds, whatever their number."""
    for rounds in (2, 4):
        _, log_records = simulated(tmp_path / str(rounds), METHODS["sparse"], replace(RULES, rounds=rounds))
        expected = [0.5 - 0.25 * round / rounds for round in range(1, rounds + 1)]
        assert [log_record["clients"][0]["share"] for log_record in log_records] == expected


def test_ids_go_where_they_are_not_known_and_nowhere_else(tmp_path: Path) -> None:
    """Sparse sends a mask down at a client's first visit alone, and up a mask and no ids. Largest sends ids up, Silent
    nothing.
    """
    _, sparse = simulated(tmp_path / "sparse", METHODS["sparse"])
    seen: set[int] = set()
    mask_bytes = 3 + 3  # bitmaps of 24 coordinates each
    for log_record in sparse:
        new = {client["client"] for client in log_record["clients"]} - seen
        seen |= new
        assert log_record["down"]["index"] == len(new) * (
            mask_bytes + mask_bytes + 2
        )  # beside the values too, and padding
        assert log_record["up"]["index"] == 3 * mask_bytes
    _, largest = simulated(tmp_path / "largest", METHODS["largest"])
    assert all(
        log_record["up"]["values"] == 3 * 4 * (2 + 2) and log_record["up"]["index"] == 3 * 8 for log_record in largest
    )
    _, silent = simulated(tmp_path / "silent", METHODS["silent"])
    assert all(sum(log_record["up"].values()) == 0 for log_record in silent)


@pytest.mark.parametrize("name", SEAMS)
def test_processes_on_loopback_equal_simulate(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(methods.METHODS, name, SEAMS[name])
    experiment = replace(demo.EXPERIMENT, methods=(name,), clients=2, per_round=2, rounds=3, eval_every=3, epochs=1)
    demo.write_partitions(tmp_path / "shares", experiment)
    open_run(tmp_path / "run", experiment.to_json())
    with ExitStack() as stack:
        server = start(stack, "serve", "--resume", str(tmp_path / "run"), "--port", "0", program=PROGRAM)
        address = until(lines(server), "listening on").split()[-1]
        devices = [start(stack, *device(tmp_path, address, client), program=PROGRAM) for client in range(2)]
        assert [process.wait(120) for process in (server, *devices)] == [0, 0, 0]
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()[name], assemble(experiment), experiment.settings(1), journal)
    assert difference(run_history.final_state(tmp_path / "run"), state) is None
    served, log_record = run_history.metrics(tmp_path / "run")[-1], list(journal.metrics())[-1]
    journal.close()
    assert served["evaluation"] == log_record["evaluation"]
    assert (served["down"], served["up"]) == (log_record["down"], log_record["up"])
    if name == "sparse":
        assert replay(tmp_path / "run", tmp_path / "replay", None, 1) == (3, None)


def test_clients_that_share_values_get_them_at_their_own_masks() -> None:
    """The shared part of plans is encoded once, and a mask that one client holds is not said of the other."""
    first, second = (random_mask(SPEC, 1, client, 0.5) for client in (0, 1))
    payload = {MODEL: take(INITIAL, SPEC, first)}
    plans = [
        Plan("train", 1, 0, payload=payload, masks={MASK: second}, held=first),
        Plan("train", 1, 1, payload=payload, masks={MASK: first}),
        Plan("train", 1, 2, payload=payload),
    ]
    under_test = OpenRound(TASK, METHODS["sparse"], State({}), plans, 1, "float32")
    for plan in plans:
        message = under_test.request(plan.client, None)
        assert plan_of(message, plan.client, SPEC, [first]) == plan
        assert sizes({MODEL: message.payload[MODEL]}).index == (0 if plan.held else 8)


def device(path: Path, address: str, client: int) -> list[str]:
    state, data = path / f"device{client}", partition_file(path / "shares", client)
    return ["client", "--server", address, "--id", str(client), "--state", str(state), "--data", str(data)]


def test_a_run_that_was_broken_off_is_replayed_with_its_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four rounds: methods are still told of four."""
    monkeypatch.setitem(methods.METHODS, "sparse", SEAMS["sparse"])
    experiment = replace(demo.EXPERIMENT, methods=("sparse",), clients=2, per_round=2, rounds=4, epochs=1)
    open_run(tmp_path / "run", experiment.to_json())
    settings = replace(experiment.settings(1), stop_after=2, eval_every=4)
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()["sparse"], assemble(experiment), settings, journal)
    metrics = list(journal.metrics())
    journal.close()
    store = open_store(tmp_path / "run")
    for log_record in metrics:
        store.save([RoundOpened(log_record["round"], (0, 1))])
        reply = Trained(log_record["round"], {}, b"", 1, 1, "on", {}, 0.0)
        store.save([ReplyJudged(log_record["round"], client, "accepted", "", reply) for client in (0, 1)])
        store.save([RoundClosed(log_record["round"], state, log_record, False)])
    store.close()
    assert [client["share"] for log_record in metrics for client in log_record["clients"]] == [
        0.4375,
        0.4375,
        0.375,
        0.375,
    ]
    assert replay(tmp_path / "run", tmp_path / "replay", None, 1) == (2, None)
