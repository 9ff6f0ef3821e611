"""Devices that are served end as in a simulation, bit for bit: models, private values, server and scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgefl import methods
from edgefl.deployment.device.device_protocol import Device
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import GraphLearner
from edgefl.learning.learner import MakeLearner
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import refuse
from edgefl.methods.rounds.adaptation import ADAPTATION
from edgefl.methods.rounds.exchange import evaluate_message, reply_of, train_message
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Model
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import AdaptationReport
from edgefl.protocol.wire.model_message import pack
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate
from tests.deployment.device.device_cases import (
    EXPERIMENT,
    METHODS,
    ROUNDS,
    bits,
    initial,
    scripted,
    welcome,
)
from tests.deployment.device.device_server import ScriptedServer, converse
from tests.far_learner import FarLearner
from tests.few_samples import with_few_samples
from tests.seams import SEAMS


@dataclass
class Served:
    """The rounds of a method over devices: what simulate does, with messages between the two sides."""

    federation: Federation
    method: Algorithm
    servers: list[ScriptedServer]
    devices: list[Device]

    def run(self) -> State:
        spec = ModelSpec.of(self.federation.graph)
        task = Task(spec, 3, EXPERIMENT.seed, rounds=ROUNDS)
        state = self.method.start(task, initial(self.federation))
        for round in range(1, ROUNDS + 1):
            accumulator = Accumulator(spec)
            for plan in self.method.plan(task, state, round):
                server = self.servers[plan.client]
                server.script = {round: train_message(plan, spec, "float32")}
                converse(self.devices[plan.client], server)
                reply = reply_of(server.replies[round], plan, spec)
                assert refuse(plan, reply) is None
                self.method.aggregate(accumulator, plan, reply)
            state = self.method.finish(task, state, accumulator, round)
            for server, device in zip(self.servers, self.devices, strict=True):
                device.finished = None
                server.script, server.evaluate = {}, evaluate_message(round, self.method, state, spec)
                converse(device, server)
                device.finished, server.evaluate = None, None
        return state


@pytest.fixture(scope="module")
def federation() -> Federation:
    return with_few_samples(assemble(EXPERIMENT), 5)


OTHERS = {name: kind(per_round=2, epochs=1) for name, kind in SEAMS.items()}
NEAR = [(name, GraphLearner) for name in (*METHODS, *OTHERS)]
FAR = [(name, FarLearner) for name in ("fedspu", "fedavg-ft", "fedumf", "fedspa", "fjord", "sparse", "smaller")]


@pytest.mark.parametrize(("name", "learner"), [*NEAR, *FAR])
def test_devices_end_bit_identical_to_a_simulation(
    name: str,
    learner: MakeLearner,
    federation: Federation,
    make: Callable[..., Device],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = {**METHODS, **OTHERS}[name]
    monkeypatch.setitem(methods.METHODS, name, lambda: method)
    journal = Journal(tmp_path / "simulated")
    expected = simulate(method, federation, Settings(ROUNDS, 1, ROUNDS), journal)
    model = pack(Model(federation.graph, initial(federation)))
    servers = [ScriptedServer(welcome(federation, method, client), model, {}) for client in range(3)]
    devices = [make(client, client, learner=learner) for client in range(3)]
    found = Served(federation, method, servers, devices).run()
    assert found.values == expected.values
    assert {g: bits(p) for g, p in found.arrays.items()} == {g: bits(p) for g, p in expected.arrays.items()}
    for client in range(3):
        theirs, mine = journal.load_client_state(client), devices[client]._state.personal()
        assert (theirs is not None) == (method.keeps_state and mine is not None)
        if theirs is not None and mine is not None:
            assert bits(mine.flat()) == bits(theirs.flat())
            assert mine.private == theirs.private
    assert [scores(server) for server in servers] == simulated_scores(tmp_path / "simulated")
    assert [adaptations(server) for server in servers] == simulated_adaptations(tmp_path / "simulated")
    journal.close()


def scores(server: ScriptedServer) -> list[tuple[int | None, int | None]]:
    """Hits of the personal and of the global model, round by round."""
    return [(s.personal and s.personal.correct, s.global_model and s.global_model.correct) for s in server.scores]


def adaptations(server: ScriptedServer) -> list[tuple[int, float]]:
    """Steps and operations of the device's adaptations, round by round."""
    said = [each.adaptation for each in server.scores if isinstance(each, AdaptationReport)]
    return [(each.steps, each.executed_flops) for each in said if each is not None]


def simulated_adaptations(path: Path) -> list[list[tuple[int, float]]]:
    found = [log_record[ADAPTATION]["clients"] for log_record in read_metrics(path) if ADAPTATION in log_record]
    return [[(each[k]["steps"], each[k]["executed_flops"]) for each in found] for k in range(3)]


def simulated_scores(path: Path) -> list[list[tuple[int | None, int | None]]]:
    log_records = [log_record["evaluation"] for log_record in read_metrics(path)]
    kinds = "adapted" if "adapted" in log_records[0] else "personal", "global_local"
    return [
        [
            tuple(log_record[kind]["correct"][client] if kind in log_record else None for kind in kinds)
            for log_record in log_records
        ]  # type: ignore[misc]
        for client in range(3)
    ]


def test_half_precision_payloads_are_answered_in_half_precision(federation: Federation, make: Any) -> None:
    server = scripted(federation, METHODS["fedspu"], [1])
    server.welcome = msgspec.structs.replace(server.welcome, values="float16")
    converse(make(), server)
    full = scripted(federation, METHODS["fedspu"], [1])
    converse(make(1), full)
    assert len(server.replies[1].payload[MODEL]) < 0.6 * len(full.replies[1].payload[MODEL])
