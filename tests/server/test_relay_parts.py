"""The frozen part of a model by envelopes: it goes to a node once, and a later run sends the other bytes alone."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.relayed_device import RelayClient
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.protocol.wire import envelope as envelopes
from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.messages import Message, ModelChunk, ModelParts, PartialModelRequest
from edgefl.server.relay import OutgoingEnvelope
from tests.server.test_relay import CLIENTS, EXPERIMENT, FIRST, Nodes, partitions

__all__ = ["partitions"]  # a fixture

FATES = ["answer"] * 5 + ["lost", "silent", "twice", "twice"]
BASE = 4 * (64 * 200 + 200)  # bytes of the first of two Linear layers
LIMIT = 1 << 20


class Counted(Nodes):
    """Nodes of a run that trains the head, whose envelopes are counted.

    takes_parts  whether the nodes keep frozen parameters for later runs
    chunks       bytes of models that the server has sent
    lists        number of envelopes with a list alone
    """

    takes_parts, chunks, lists = True, 0, 0

    def deliver(self, outgoing_envelope: OutgoingEnvelope) -> bytes:
        said = envelopes.decode("server", outgoing_envelope.data, LIMIT).messages
        self.chunks += sum(len(each.data) for each in said if isinstance(each, ModelChunk))
        self.lists += [type(each) for each in said] == [ModelParts]
        client = outgoing_envelope.node - FIRST
        world = DeviceEnvironment(self.said.append, lambda failures: None, lambda: 0.0)
        profile, data = DeviceProfile(client, None, 1.0, LIMIT), self._data[client]
        device = RelayClient(self.directories[client], profile, data, world, takes_parts=self.takes_parts)
        with closing(device):
            return device.answer(outgoing_envelope.data)


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(replace(EXPERIMENT, train="head"))


@pytest.fixture
def nodes(federation: Federation, partitions: Path, tmp_path: Path) -> Callable[[str], Counted]:
    """Return a function that makes the nodes of a run. All runs have one set of directories for the nodes."""

    def making(run: str) -> Counted:
        made = Counted(federation, partitions, tmp_path / run)
        made.path.mkdir()
        made.directories = [tmp_path / f"device-{client}" for client in range(CLIENTS)]
        return made

    return making


def test_a_later_run_sends_no_byte_of_the_base(nodes: Callable[[str], Counted]) -> None:
    first, second = nodes("one"), nodes("two")
    for world in (first, second):
        assert world.serve()
        world.check()
        assert world.lists == CLIENTS
    assert first.chunks - second.chunks == CLIENTS * BASE
    assert 0 < second.chunks < CLIENTS * (4 * 2010 + 1500)  # the head, the graph and a table
    assert any(f"{BASE} of {BASE} bytes of the model's frozen part lie in" in line for line in second.said)


def test_lost_and_repeated_envelopes_cost_no_bit(nodes: Callable[[str], Counted]) -> None:
    assert nodes("one").serve()
    for seed in (1, 2):
        world, draw = nodes(f"run {seed}"), random.Random(seed)
        assert world.serve(lambda outgoing_envelope, draw=draw: draw.choice(FATES))
        world.check()


def test_nodes_that_keep_nothing_get_the_whole_model(nodes: Callable[[str], Counted]) -> None:
    for run in ("one", "two"):
        world = nodes(run)
        world.takes_parts = False
        assert world.serve()
        world.check()
        assert (world.lists, world.chunks > CLIENTS * BASE) == (0, True)


def test_a_part_that_is_lost_after_it_was_listed_is_sent_again(nodes: Callable[[str], Counted]) -> None:
    first, second = nodes("one"), nodes("two")
    assert first.serve()

    def lose(outgoing_envelope: OutgoingEnvelope) -> str:
        said = envelopes.decode("server", outgoing_envelope.data, LIMIT).messages
        if outgoing_envelope.node == FIRST and len(said) > 1 and isinstance(said[0], ModelParts):
            shutil.rmtree(second.directories[0] / "base", ignore_errors=True)
        return "answer"

    assert second.serve(lose)
    second.check()
    assert any("has lost a part of the model since it was listed; asking again" in line for line in second.said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((PartialModelRequest(0, b"\xff\xff"),), "held of 2 bytes; expected a bitmap of the 2 listed parts"),
        ((), "it has not answered; calling it again"),
    ],
)
def test_a_wrong_answer_to_the_list_is_said(
    nodes: Callable[[str], Counted], answer: tuple[Message, ...], said: str
) -> None:
    world = nodes("one")
    for run in world.server():
        run.present([FIRST])
        (call,) = run.due()
        run.answered(FIRST, world.deliver(call))
        (listing,) = run.due()
        name = envelopes.decode("server", listing.data, LIMIT).run
        run.answered(FIRST, envelopes.encode("device", Envelope(name, answer)))
    assert any(said in line for line in world.said)
