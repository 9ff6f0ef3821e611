"""Plans and replies through their messages: what arrives is what was sent, and a bad reply is named, never raised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from edgefl import rng
from edgefl.methods import FedAvg, FedSPU, FedUmf, LocalOnly
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.exchange import (
    evaluate_message,
    plan_of,
    read_answer,
    reply_of,
    sizes,
    train_message,
    trained_message,
)
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update
from edgefl.protocol import codec
from edgefl.protocol.codec import Sizes
from edgefl.protocol.wire import messages

GRAPH = Graph(
    (3,),
    (Node("fc1", Linear(3, 40), ("input",)), Node("relu", ReLU(), ("fc1",)), Node("fc2", Linear(40, 2), ("relu",))),
)
SPEC = ModelSpec.of(GRAPH)
PARAMS = GRAPH.init(rng.stream(1, rng.INIT))
TASK = Task(SPEC, clients=4, seed=1)


def plans(algorithm: Algorithm, task: Task = TASK) -> list[Plan]:
    return algorithm.plan(task, algorithm.start(task, PARAMS), 1)


def over_the_wire(message: Any) -> Any:
    return messages.decode(messages.NUMBERS[type(message)], messages.encode(message))


@pytest.mark.parametrize(
    "algorithm",
    [
        FedSPU(per_round=4),
        FedSPU(per_round=4, first_state="current_global"),
        FedAvg(per_round=4),
        LocalOnly(per_round=4),
        FedUmf(per_round=2),
    ],
    ids=["ids in the payload", "ids beside a whole payload", "no neurons", "no payload", "not all authorised"],
)
def test_a_plan_arrives_as_it_was_made(algorithm: Algorithm) -> None:
    for plan in plans(algorithm):
        message = over_the_wire(train_message(plan, SPEC, "float32"))
        assert plan_of(message, plan.client, SPEC) == plan


def test_ids_are_sent_once() -> None:
    """The selection travels only where the payload does not say it: whole payloads, and full neuron sets."""
    sent = [train_message(plan, SPEC, "float32") for plan in plans(FedSPU(per_round=4, keep=(0.5, 1.0)))]
    assert [bool(message.selection) for message in sent] == [False, False, True, True]


def test_neurons_beside_a_payload_of_other_neurons_arrive() -> None:
    """No method sends such a plan yet, but a message can carry it."""
    mine, other = (plan.selection for plan in plans(FedSPU(per_round=4, keep=(0.5,)))[:2])
    plan = Plan("train", 1, 0, mine, {MODEL: take(PARAMS, SPEC, other)})
    assert mine != other
    assert plan_of(over_the_wire(train_message(plan, SPEC, "float32")), 0, SPEC) == plan


def reply_to(plan: Plan, **changes: Any) -> Reply:
    assert plan.selection is not None
    neurons = None if plan.selection.is_full else plan.selection
    given: dict[str, Any] = {"examples": 7, "steps": 2, "status": "stopped", "metrics": {"loss": 0.5}}
    payload = {MODEL: take(PARAMS, SPEC, neurons)}
    return replace(Reply(plan.round, plan.client, payload, plan.selection.hash(), **given), **changes)


def test_a_reply_arrives_as_it_was_made() -> None:
    for plan in plans(FedSPU(per_round=4)):
        reply = reply_to(plan)
        message = over_the_wire(trained_message(reply, plan, SPEC, "float32", 1.5))
        assert message.seconds == 1.5
        assert reply_of(message, plan, SPEC) == reply
        assert read_answer(message, plan, SPEC).reply == reply


def test_half_precision_rounds_both_ways() -> None:
    plan = plans(FedSPU())[0]
    reply = reply_to(plan)
    arrived = reply_of(trained_message(reply, plan, SPEC, "float16", 0), plan, SPEC).payload[MODEL]
    for name, block in reply.payload[MODEL].blocks.items():
        np.testing.assert_array_equal(arrived.blocks[name].values, block.values.astype(np.float16))


def changed(**changes: Any) -> Any:
    return lambda message: msgspec.structs.replace(message, **changes)


def cut_off(message: Any) -> Any:
    return msgspec.structs.replace(message, payload={MODEL: message.payload[MODEL][:-1]})


def with_nan(message: Any) -> Any:
    data = bytearray(message.payload[MODEL])
    data[-4:] = np.float32(np.nan).tobytes()
    return msgspec.structs.replace(message, payload={MODEL: bytes(data)})


def under_another_name(message: Any) -> Any:
    return msgspec.structs.replace(message, payload={"mask": message.payload[MODEL]})


def with_all_neurons(message: Any) -> Any:
    return msgspec.structs.replace(message, payload=encoded(take(PARAMS, SPEC, None)))


def without_a_block(message: Any) -> Any:
    blocks = take(PARAMS, SPEC, plans(FedSPU(per_round=4))[0].selection).blocks
    return msgspec.structs.replace(message, payload=encoded(Update({n: blocks[n] for n in list(blocks)[:-1]})))


def encoded(update: Update) -> dict[str, bytes]:
    return {MODEL: codec.encode(update, SPEC, known=plans(FedSPU(per_round=4))[0].selection)}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (changed(round=2), "reply of client 0 for round 2; expected round 1"),
        (changed(selection_hash=b"\1" * 8), "reply of client 0 has selection hash 0101010101010101"),
        (changed(metrics={"loss": float("nan")}), "reply of client 0 has loss=nan; expected a finite value"),
        (changed(seconds=float("inf")), "reply of client 0 took inf s; expected a finite time"),
        (changed(seconds=-1.0), "reply of client 0 took -1.0 s; expected a finite time"),
        (with_nan, "reply of client 0 has a non-finite value in model/fc2.bias; expected finite values"),
        (changed(examples=0), "reply of client 0 has 0 examples and 2 steps; expected at least 1"),
        (changed(steps=0), "reply of client 0 has 7 examples and 0 steps; expected at least 1"),
        (changed(payload={}, status="on"), "reply of client 0 has payloads []; expected ['model']"),
        (under_another_name, "reply of client 0 has payloads ['mask']; expected ['model']"),
        (with_all_neurons, "reply of client 0 has other coordinates in model/fc1.weight than were planned"),
        (without_a_block, "reply of client 0 has missing or unrequested blocks in model: fc2.bias"),
        (cut_off, "reply of client 0: index and values"),
        (changed(payload={MODEL: b""}), "reply of client 0: header: 0 bytes left"),
    ],
)
def test_what_is_wrong_with_an_answer_is_its_refusal(damage: Any, reason: str) -> None:
    plan = plans(FedSPU(per_round=4))[0]
    message = damage(trained_message(reply_to(plan), plan, SPEC, "float32", 0.1))
    reply, refusal, taken, _ = read_answer(message, plan, SPEC)
    assert reply is None
    assert refusal is not None
    assert refusal.startswith(reason)
    assert taken.total == sum(map(len, message.payload.values()))


def test_sizes_count_the_ids_beside_the_payload_as_index() -> None:
    plan = plans(FedSPU(per_round=4, keep=(0.5,), first_state="current_global"))[0]
    message = train_message(plan, SPEC, "float32")
    assert sizes(message.payload).index == 0
    assert sizes(message.payload, message.selection) == Sizes(
        values=4 * 242, index=len(message.selection), header=len(message.payload[MODEL]) - 4 * 242
    )


@pytest.mark.parametrize(("algorithm", "personal"), [(FedSPU(), True), (FedAvg(), False)])
def test_an_evaluation_brings_the_exact_global_model(algorithm: Algorithm, personal: bool) -> None:
    message = evaluate_message(3, algorithm, algorithm.start(TASK, PARAMS), SPEC)
    assert (message.round, message.personal) == (3, personal)
    arrived = plan_of(messages.Train(3, b"", message.payload, {}, None, True), 0, SPEC).payload[MODEL]
    assert arrived == take(PARAMS, SPEC, None)


def test_a_method_without_a_global_model_sends_none() -> None:
    assert evaluate_message(3, LocalOnly(), State({}), SPEC).payload == {}


def test_a_client_trains_no_more_than_the_capacity_it_declared() -> None:
    limited = replace(TASK, limits={0: 0.5, 2: 0.25})
    keep = FedSPU(per_round=4, keep=(0.4, 1.0))
    assert [plan.settings["keep"] for plan in plans(keep, limited)] == [0.4, 0.4, 0.25, 1.0]


def test_a_client_that_had_stopped_may_send_no_payload() -> None:
    plan = plans(FedSPU())[0]
    message = trained_message(reply_to(plan, payload={}, examples=0, steps=0), plan, SPEC, "float32", 0)
    assert read_answer(message, plan, SPEC).refusal is None
