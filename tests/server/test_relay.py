"""Rounds by envelopes, without a framework: whatever is lost, and whoever dies, the bits are a simulation's."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.relayed_device import RelayClient
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.protocol.wire import envelope as envelopes
from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.messages import ModelChunk
from edgefl.server import run_history
from edgefl.server.relay import OutgoingEnvelope, RelayServer
from edgefl.server.round_rules import Rules
from edgefl.server.server_setup import staff
from edgefl.server.store import Store
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate

CLIENTS = 3
EXPERIMENT = Experiment(
    ("fedspu",), model="pflego_mlp", clients=CLIENTS, per_round=2, rounds=3, eval_every=2, epochs=1, keep=(0.4, 1.0)
)
FIRST = 100  # node 100 is client 0
MOST_TURNS = 2000


class Clock:
    """Goes on by a second at every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(EXPERIMENT)


@pytest.fixture(scope="module")
def partitions(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dealt")
    for client in range(CLIENTS):
        write_partition(partition_file(directory, client), federation, client)
    return directory


class Nodes:
    """The nodes of a framework, each of which begins anew with every envelope."""

    def __init__(self, federation: Federation, partitions: Path, path: Path, **rules: Any) -> None:
        self.federation, self.path, self.clock = federation, path, Clock()
        self.said: list[str] = []
        self.rules = Rules(EXPERIMENT.rounds, EXPERIMENT.eval_every, wait_for=CLIENTS, **rules)
        self._data = [Data(*read_partition(partition_file(partitions, client))) for client in range(CLIENTS)]
        self.directories = [path / f"device-{client}" for client in range(CLIENTS)]

    def server(self, accepting: Collection[int] = ()) -> Iterator[RelayServer]:
        """A server's process."""
        with closing(Store(self.path / "run")) as store:
            coordinator, offer = staff(
                AssembledExperiment.of(EXPERIMENT, self.federation), store, self.rules, None, accepting
            )
            run = RelayServer(coordinator, store, offer, self.said.append, lambda record: None, self.clock)
            run.start()
            yield run

    def deliver(self, outgoing_envelope: OutgoingEnvelope) -> bytes:
        """The answer of a node."""
        client = outgoing_envelope.node - FIRST
        profile = DeviceProfile(client, None, 1.0, 1 << 20)
        world = DeviceEnvironment(self.said.append, lambda failures: None, lambda: 0.0)
        with closing(RelayClient(self.directories[client], profile, self._data[client], world)) as device:
            return device.answer(outgoing_envelope.data)

    def serve(
        self, fate: Callable[[OutgoingEnvelope], str] = lambda outgoing_envelope: "answer", most: int = 1000
    ) -> bool:
        """Serve until the run is over. Return False if the server dies before, after so many envelopes."""
        for run in self.server():
            turns = 0
            while not run.is_over:
                turns += 1
                assert turns < MOST_TURNS, run.waits_for()
                run.present(range(FIRST, FIRST + CLIENTS))
                for outgoing_envelope in run.due():
                    most -= 1
                    if most < 0:
                        return False
                    self.carry(run, outgoing_envelope, fate(outgoing_envelope))
        return True

    def carry(self, run: RelayServer, outgoing_envelope: OutgoingEnvelope, fate: str) -> None:
        if fate == "lost":
            run.failed(outgoing_envelope.node, "lost on the way")
            return
        answer = self.deliver(outgoing_envelope)
        if fate == "twice":
            again = self.deliver(outgoing_envelope)
            assert again == answer or outgoing_envelope.purpose == "query"  # which has a nonce of the device
        if fate == "silent":
            run.failed(outgoing_envelope.node, "it went away")
        else:
            run.answered(outgoing_envelope.node, answer)

    def check(self) -> None:
        """The run is the simulation's."""
        ((_, method),) = EXPERIMENT.algorithms().items()
        journal = Journal(self.path / "simulated")
        state = simulate(method, self.federation, EXPERIMENT.settings(1), journal)
        journal.close()
        found = run_history.progress(self.path / "run").state
        assert found is not None
        for name, value in state.arrays["model"].items():
            np.testing.assert_array_equal(found.arrays["model"][name], value)
        scores = [log_record.get("evaluation") for log_record in read_metrics(self.path / "simulated")]
        assert [log_record.get("evaluation") for log_record in run_history.metrics(self.path / "run")] == scores


@pytest.fixture
def nodes(federation: Federation, partitions: Path, tmp_path: Path) -> Callable[..., Nodes]:
    return lambda **rules: Nodes(federation, partitions, tmp_path, **rules)


def test_envelopes_lost_or_delivered_twice_cost_no_bit(nodes: Callable[..., Nodes]) -> None:
    random_stream, world = random.Random(2), nodes()
    assert world.serve(lambda outgoing_envelope: random_stream.choice(["answer", "twice", "lost", "silent"]))
    world.check()


def test_a_server_that_dies_after_every_few_envelopes_goes_on(nodes: Callable[..., Nodes]) -> None:
    world, lives = nodes(), 1
    while not world.serve(most=7 + lives % 4):
        lives += 1
        assert lives < 40
    assert lives > 2
    world.check()


def test_the_model_goes_once_and_only_what_is_to_be_done_is_asked(nodes: Callable[..., Nodes]) -> None:
    world = nodes()
    asked: list[tuple[int, str, Envelope]] = []

    def note(outgoing_envelope: OutgoingEnvelope) -> str:
        asked.append(
            (
                outgoing_envelope.node,
                outgoing_envelope.purpose,
                envelopes.decode("server", outgoing_envelope.data, 1 << 20),
            )
        )
        return "answer"

    world.serve(note)
    world.serve(note)
    with_model = [
        node for node, _, envelope in asked if any(isinstance(each, ModelChunk) for each in envelope.messages)
    ]
    purposes = [purpose for _, purpose, _ in asked]
    assert sorted(with_model) == [100, 101, 102]
    assert (purposes.count("train"), purposes.count("evaluate")) == (6, 6)
    assert purposes.count("query") == 2 * (CLIENTS + CLIENTS)  # a call, and the end, by each of two servers


def test_a_reply_after_its_deadline_is_late_and_the_device_keeps_it(nodes: Callable[..., Nodes]) -> None:
    world = nodes(deadline_s=40.0)
    held: list[OutgoingEnvelope] = []
    for run in world.server():
        while not run.is_over:
            run.present(range(FIRST, FIRST + CLIENTS))
            for outgoing_envelope in run.due():
                if outgoing_envelope.purpose == "train" and not held:
                    held.append(outgoing_envelope)  # its answer comes when the round is over
                else:
                    run.answered(outgoing_envelope.node, world.deliver(outgoing_envelope))
            if held and run.stage[1] >= 1 and held[0].data:
                run.answered(held[0].node, world.deliver(held[0]))
                held[0] = held[0]._replace(data=b"")
    outcomes = run_history.progress(world.path / "run").rulings
    assert outcomes[1, held[0].node - FIRST].outcome == "late"  # type: ignore[union-attr]
    assert [ruling.outcome for ruling in outcomes.values() if ruling is not None].count("accepted") == 5


def test_a_node_that_is_gone_is_called_again_when_it_is_back(nodes: Callable[..., Nodes]) -> None:
    world, looks = nodes(), 0
    for run in world.server():
        while not run.is_over:
            looks += 1
            run.present([FIRST, FIRST + 1] if looks % 5 < 2 else range(FIRST, FIRST + CLIENTS))
            for outgoing_envelope in run.due():
                run.answered(outgoing_envelope.node, world.deliver(outgoing_envelope))
    world.check()


def test_a_device_that_has_lost_its_directory_is_refused_by_name(nodes: Callable[..., Nodes]) -> None:
    world = nodes(deadline_s=30.0, evaluation_deadline_s=30.0)
    assert not world.serve(most=8)
    world.directories = [world.path / f"new-{client}" for client in range(CLIENTS)]
    assert world.serve()
    assert any("client 0 has enrolled before, with another secret" in line for line in world.said)
    assert {each["status"] for each in run_history.metrics(world.path / "run")[-1]["clients"]} == {"absent"}


def test_what_is_no_envelope_is_said_and_asked_again(nodes: Callable[..., Nodes]) -> None:
    world = nodes()
    for run in world.server():
        run.present([FIRST])
        (outgoing_envelope,) = run.due()
        run.answered(FIRST, b"noise")
        world.clock.now -= 1  # it is the time of the answer
        assert run.due() == []
        (again,) = run.due()
        assert again.purpose == outgoing_envelope.purpose == "query"
    assert world.said == ["node 100: envelope of 5 bytes; expected at least 18; calling it again"]
