"""A plan's expectation of a reply arrives as it was sent. A reply that does not meet it is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import CodecError
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.exchange import plan_of, read_answer, reply_of, sizes, train_message, trained_message
from edgefl.methods.task import MODEL
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.models.neurons.gather import take, take_flat
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update
from edgefl.protocol import codec
from edgefl.protocol.codec.masks import encode_mask
from edgefl.protocol.wire import messages
from edgefl.protocol.wire.messages import PayloadSpec, Train

GRAPH = Graph(
    (3,),
    (Node("fc1", Linear(3, 40), ("input",)), Node("relu", ReLU(), ("fc1",)), Node("fc2", Linear(40, 2), ("relu",))),
)
SPEC = ModelSpec.of(GRAPH)
PARAMS = GRAPH.init(rng.stream(1, rng.INIT))
NAMES = tuple(SPEC.params)
WEIGHTS = ("fc1.weight", "fc2.weight")
MASK = Mask.of(SPEC, {name: np.arange(PARAMS[name].size).reshape(PARAMS[name].shape) % 3 == 0 for name in WEIGHTS})
OTHER = Mask.of(SPEC, {name: ~bits for name, bits in MASK.bits.items()})
NEURONS = NeuronSet.draw(SPEC, 0.5, rng.stream(1, rng.NEURONS))
WHOLE = {MODEL: take(PARAMS, SPEC)}


def plan(expects: dict[str, ExpectedPayload] | None, **changes: Any) -> Plan:
    return replace(Plan("train", 1, 0, payload=WHOLE, expects=expects), **changes)


def answer(**payload: Any) -> Reply:
    values = {name: each for name, each in payload.items() if isinstance(each, Update)}
    masks = {name: each for name, each in payload.items() if isinstance(each, Mask)}
    return Reply(1, 0, values, examples=7, steps=2, metrics={"loss": 0.5}, masks=masks)


def over_the_wire(message: Any) -> Any:
    return messages.decode(messages.NUMBERS[type(message)], messages.encode(message))


def chosen(name: str, *coordinates: int) -> Update:
    return take_flat(PARAMS, {name: np.array(coordinates, np.uint32)})


AS_PLANNED = plan({"gradient": ExpectedPayload("planned", WEIGHTS)}, selection=NEURONS)
CHOSEN = plan({MODEL: ExpectedPayload("chosen", ("fc1.weight",))})
AT_MASK = plan({MODEL: ExpectedPayload("masked", None, MASK), "mask": ExpectedPayload("mask", WEIGHTS)})
SOME_AT_MASK = plan({MODEL: ExpectedPayload("masked", ("fc1.weight", "fc1.bias"), MASK)})
NOTHING = plan({})

GOOD: dict[str, tuple[Plan, Reply]] = {
    "another name, at the plan's neurons": (
        AS_PLANNED,
        replace(answer(gradient=take(PARAMS, SPEC, NEURONS, names=WEIGHTS)), selection_hash=NEURONS.hash()),
    ),
    "coordinates of the client's": (CHOSEN, answer(model=chosen("fc1.weight", 3, 7))),
    "coordinates of the client's, beside neurons of the plan's": (
        replace(CHOSEN, selection=NEURONS),
        replace(answer(model=chosen("fc1.weight", 3, 7)), selection_hash=NEURONS.hash()),
    ),
    "neurons of the client's": (CHOSEN, answer(model=take(PARAMS, SPEC, NEURONS, names=("fc1.weight",)))),
    "all coordinates": (CHOSEN, answer(model=take(PARAMS, SPEC, names=("fc1.weight",)))),
    "values at the mask, and another mask": (AT_MASK, answer(model=take(PARAMS, SPEC, MASK), mask=OTHER)),
    "some parameters at the mask": (
        SOME_AT_MASK,
        answer(model=take(PARAMS, SPEC, MASK, names=("fc1.weight", "fc1.bias"))),
    ),
    "a mask that leaves all whole": (AT_MASK, answer(model=take(PARAMS, SPEC, MASK), mask=Mask({}))),
    "nothing": (NOTHING, answer()),
}


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("values", ["float32", "float16"])
def test_what_was_expected_arrives(case: str, values: str) -> None:
    asked, reply = GOOD[case]
    received = plan_of(over_the_wire(train_message(asked, SPEC, "float32")), 0, SPEC)
    assert received == asked
    message = over_the_wire(trained_message(reply, received, SPEC, values, 0.5))
    found = read_answer(message, asked, SPEC)
    assert found.refusal is None
    assert values == "float16" or found.reply == reply
    assert found.sizes.total == sum(map(len, message.payload.values()))


def test_the_bytes_are_values_and_the_ids_that_the_server_does_not_know() -> None:
    reply = GOOD["values at the mask, and another mask"][1]
    up = trained_message(reply, AT_MASK, SPEC, "float32", 0).payload
    assert sizes(up).index == 120 // 8 + 80 // 8
    assert sizes({MODEL: up[MODEL]}).index == 0
    assert sizes(up).values == 4 * (40 + 40 + 27 + 2)
    picked = trained_message(GOOD["coordinates of the client's"][1], CHOSEN, SPEC, "float32", 0).payload
    assert (sizes(picked).values, sizes(picked).index) == (8, 4)


def with_nan() -> Update:
    wrong = {**PARAMS, "fc1.weight": PARAMS["fc1.weight"] * np.float32(np.nan)}
    return take(wrong, SPEC, MASK)


@pytest.mark.parametrize(
    ("asked", "reply", "reason"),
    [
        (NOTHING, answer(model=WHOLE[MODEL]), "has payloads ['model']; expected []"),
        (NOTHING, answer(mask=MASK), ": magic b'EFLM'; expected b'EFLU'"),
        (CHOSEN, answer(), "has payloads []; expected ['model']"),
        (
            CHOSEN,
            answer(model=WHOLE[MODEL]),
            "has missing or unrequested blocks in model: fc1.bias, fc2.bias, fc2.weight",
        ),
        (
            CHOSEN,
            answer(model=chosen("fc2.weight", 1)),
            "has missing or unrequested blocks in model: fc1.weight, fc2.weight",
        ),
        (CHOSEN, answer(model=MASK), ": magic b'EFLM'; expected b'EFLU'"),
        (AT_MASK, answer(model=take(PARAMS, SPEC, MASK)), "has payloads ['model']; expected ['mask', 'model']"),
        (
            AT_MASK,
            answer(model=take(PARAMS, SPEC, OTHER), mask=MASK),
            f": mask {OTHER.hash().hex()}; expected {MASK.hash().hex()}",
        ),
        (
            AT_MASK,
            answer(model=take(PARAMS, SPEC, MASK), mask=WHOLE[MODEL]),
            ": magic b'EFLU'; expected b'EFLM'",
        ),
        (AT_MASK, answer(model=with_nan(), mask=MASK), "has a non-finite value in model/fc1.weight"),
        (
            AT_MASK,
            answer(model=take(PARAMS, SPEC, MASK), mask=Mask.of(SPEC, {"fc1.bias": np.arange(40) > 3})),
            "has a mask mask of fc1.bias; expected a mask that leaves these parameters whole",
        ),
        (
            AS_PLANNED,
            replace(answer(gradient=take(PARAMS, SPEC, names=WEIGHTS)), selection_hash=NEURONS.hash()),
            "has other coordinates in gradient/fc1.weight than were planned",
        ),
        (AS_PLANNED, answer(gradient=take(PARAMS, SPEC, NEURONS, names=WEIGHTS)), "has selection hash none"),
        (AT_MASK, replace(answer(model=take(PARAMS, SPEC, MASK), mask=MASK), examples=0), "has 0 examples"),
    ],
)
def test_what_was_not_expected_is_refused(asked: Plan, reply: Reply, reason: str) -> None:
    message = trained_message(reply, asked, SPEC, "float32", 0.1)
    found = read_answer(message, asked, SPEC)
    assert found.reply is None
    assert found.refusal is not None
    assert found.refusal.startswith(f"reply of client 0{reason}" if reason[0] == ":" else f"reply of client 0 {reason}")


def test_ids_where_the_server_knows_the_mask_are_refused() -> None:
    listed = codec.encode(take(PARAMS, SPEC, MASK), SPEC)
    message = trained_message(answer(mask=MASK), AT_MASK, SPEC, "float32", 0.1)
    message = msgspec.structs.replace(message, payload={**message.payload, MODEL: listed})
    found = read_answer(message, AT_MASK, SPEC).refusal
    assert (
        found == f"reply of client 0: payload with its own ids; expected only the hash {MASK.hash().hex()} of the mask"
    )


@pytest.mark.parametrize("other", [chosen("fc1.weight", 1, 4), take(PARAMS, SPEC, names=("fc1.weight",))])
def test_other_coordinates_beside_the_mask_that_the_server_knows_are_refused(other: Update) -> None:
    at_mask = take(PARAMS, SPEC, MASK)
    beside = codec.encode(Update({**at_mask.blocks, **other.blocks}), SPEC, known=MASK)
    message = trained_message(answer(model=at_mask, mask=MASK), AT_MASK, SPEC, "float32", 0.1)
    message = msgspec.structs.replace(message, payload={**message.payload, MODEL: beside})
    found = read_answer(message, AT_MASK, SPEC).refusal
    assert found == "reply of client 0 has other coordinates in model/fc1.weight than were planned"


def test_a_client_that_may_not_send_owes_nothing_whatever_is_expected_of_others() -> None:
    silent = replace(CHOSEN, authorised=False)
    assert silent.due == {}
    message = over_the_wire(train_message(silent, SPEC, "float32"))
    assert message.expects is False
    assert read_answer(trained_message(answer(), silent, SPEC, "float32", 0), silent, SPEC).refusal is None


# ---- what goes down -------------------------------------------------------------------------------------------------


def test_plans_that_expect_what_they_sent_are_the_bytes_they_were() -> None:
    """The field was a boolean before it could say more."""
    for authorised, byte in ((True, "c3"), (False, "c2")):
        message = train_message(Plan("train", 1, 0, authorised=authorised), SPEC, "float32")
        assert messages.encode(message).hex(" ") == f"96 01 c4 00 80 80 c0 {byte}"


def test_golden_bytes_of_what_is_expected() -> None:
    message = Train(1, b"", {}, {}, None, {"m": PayloadSpec("chosen", b"\x05"), "n": PayloadSpec("mask", None)})
    expected = "96 01 c4 00 80 80 c0 82 a1 6d 92 a6 63 68 6f 73 65 6e c4 01 05 a1 6e 92 a4 6d 61 73 6b c0"
    assert messages.encode(message).hex(" ") == expected
    assert over_the_wire(message) == message


@pytest.mark.parametrize(
    "wrong",
    [["values", None], ["mask", "text"], ["mask"], ["mask", None, 1], ["mask", bytes(1 + (1 << 13))], None],
)
def test_expectations_of_no_kind_are_refused(wrong: Any) -> None:
    values = [1, b"", {}, {}, None, {"m": wrong}]
    with pytest.raises(msgspec.DecodeError):
        messages.decode(messages.NUMBERS[Train], msgspec.msgpack.encode(values))


@pytest.mark.parametrize("bitmap", [b"", b"\x05\0", b"\x15"], ids=["too short", "too long", "a fifth parameter"])
def test_parameters_that_the_model_has_not_are_refused(bitmap: bytes) -> None:
    message = Train(1, b"", {}, {}, None, {"m": PayloadSpec("chosen", bitmap)})
    with pytest.raises(CodecError, match=f"parameters {bitmap.hex()} of m; expected a bit for each of 4"):
        plan_of(message, 0, SPEC)


def test_a_plan_that_cannot_be_said_is_refused_where_it_is_made() -> None:
    with pytest.raises(CodecError, match=r"'fc9.bias' is expected and is not a parameter"):
        train_message(plan({MODEL: ExpectedPayload("chosen", ("fc9.bias",))}), SPEC, "float32")
    with pytest.raises(ValueError, match="plan of client 0 expects model at a mask and has no mask; expected the mask"):
        train_message(plan({MODEL: ExpectedPayload("masked")}), SPEC, "float32")
    with pytest.raises(CodecError, match="model is the name of values and of a mask; expected two different names"):
        train_message(plan(None, masks={MODEL: MASK}), SPEC, "float32")


def test_masks_go_down_beside_values() -> None:
    asked = plan(None, masks={"mask": MASK})
    message = over_the_wire(train_message(asked, SPEC, "float32"))
    assert message.payload["mask"] == encode_mask(MASK, SPEC)
    assert plan_of(message, 0, SPEC) == asked


def test_values_at_a_mask_that_the_client_keeps_go_down_without_ids() -> None:
    asked = plan(None, payload={MODEL: take(PARAMS, SPEC, MASK)}, held=MASK)
    message = over_the_wire(train_message(asked, SPEC, "float32"))
    assert sizes(message.payload).index == 0
    assert plan_of(message, 0, SPEC, [MASK]) == plan_of(message, 0, SPEC, [OTHER, MASK]) == asked
    with pytest.raises(CodecError, match=f"mask {MASK.hash().hex()}; expected {OTHER.hash().hex()}"):
        plan_of(message, 0, SPEC, [OTHER, OTHER])
    with pytest.raises(CodecError, match="payload without neuron ids; expected a payload that carries them"):
        plan_of(message, 0, SPEC)
    with_ids = over_the_wire(train_message(replace(asked, held=None), SPEC, "float32"))
    assert plan_of(with_ids, 0, SPEC, [OTHER]) == asked


def test_values_of_8_bits_are_rounded_alike_for_all_and_by_client_on_the_way_up() -> None:
    plans = [replace(plan(None), client=client, round=round) for client, round in ((0, 1), (1, 1), (0, 2))]
    down = [train_message(each, SPEC, "int8").payload[MODEL] for each in plans]
    assert down[0] == down[1] != down[2]
    replies = [replace(answer(model=WHOLE[MODEL]), client=each.client, round=each.round) for each in plans]
    up = [trained_message(reply, each, SPEC, "int8", 0).payload[MODEL] for reply, each in zip(replies, plans)]
    assert len({*up, *down}) == 5
    found = read_answer(trained_message(replies[0], plans[0], SPEC, "int8", 0), plans[0], SPEC)
    assert found.refusal is None
    assert found.sizes.values == 120 + 40 + 80 + 2 + 4 * 4


NEAR = Mask.of(SPEC, {name: bits ^ (np.arange(bits.size).reshape(bits.shape) == 4) for name, bits in MASK.bits.items()})
HELD = plan(
    {MODEL: ExpectedPayload("masked", None, MASK), "mask": ExpectedPayload("mask", WEIGHTS)},
    payload={MODEL: take(PARAMS, SPEC, MASK)},
    held=MASK,
)


def asked_and_answered(asked: Plan, mask: Mask, held: Mask | None) -> tuple[Train, Any]:
    """Both messages of a round with a client that keeps a mask and sends another one."""
    down = over_the_wire(train_message(asked, SPEC, "float32"))
    received = plan_of(down, 0, SPEC, [] if held is None else [held])
    reply = answer(model=take(PARAMS, SPEC, MASK), mask=mask)
    return down, over_the_wire(trained_message(reply, received, SPEC, "float32", 0))


def test_a_mask_that_both_sides_know_is_not_sent_again() -> None:
    """Up goes the difference from the client's mask, and so it does down. Without a difference only its hash goes."""
    for mask, index in ((NEAR, 2 * 2), (MASK, 0)):
        _, up = asked_and_answered(HELD, mask, MASK)
        assert sizes({"mask": up.payload["mask"]}).index == index
        found = read_answer(up, HELD, SPEC)
        assert found.reply is not None
        assert found.reply.masks == {"mask": mask}
    down, _ = asked_and_answered(replace(HELD, masks={"next": NEAR}), MASK, MASK)
    assert sizes({"next": down.payload["next"]}).index == 2 * 2
    assert plan_of(down, 0, SPEC, [MASK]).masks == {"next": NEAR}
    with pytest.raises(CodecError, match=f"difference from mask {MASK.hash().hex()}; expected the whole mask"):
        plan_of(msgspec.structs.replace(down, payload={"next": down.payload["next"]}), 0, SPEC)


def test_a_mask_that_came_with_the_plan_need_not_go_back() -> None:
    first = replace(HELD, masks={"mask": MASK}, held=None)
    for held in (None, OTHER):
        _, up = asked_and_answered(first, NEAR, held)
        assert sizes({"mask": up.payload["mask"]}).index == 2 * 2
        found = read_answer(up, first, SPEC)
        assert found.reply is not None
        assert found.reply.masks == {"mask": NEAR}


def test_a_client_whose_mask_the_server_has_not_shown_to_know_sends_the_whole_of_the_next() -> None:
    unknown = replace(HELD, held=None)
    for held in (None, MASK, OTHER):
        _, up = asked_and_answered(unknown, NEAR, held)
        assert up.payload["mask"] == encode_mask(NEAR, SPEC)
        assert read_answer(up, unknown, SPEC).refusal is None


def test_a_difference_to_another_mask_is_refused_and_the_next_reply_is_read() -> None:
    _, up = asked_and_answered(HELD, NEAR, MASK)
    lost = msgspec.structs.replace(up, payload={**up.payload, "mask": encode_mask(OTHER, SPEC, known=OTHER)})
    refusal = f"difference from mask {OTHER.hash().hex()}; expected mask {MASK.hash().hex()}, which the receiver holds"
    assert read_answer(lost, HELD, SPEC).refusal == f"reply of client 0: {refusal}"
    none = f"difference from mask {MASK.hash().hex()}; expected the whole mask, as the receiver holds no mask"
    assert read_answer(up, replace(HELD, held=None), SPEC).refusal == f"reply of client 0: {none}"
    assert read_answer(up, HELD, SPEC).refusal is None


def test_a_reply_s_payload_by_a_name_that_is_not_due_is_still_read() -> None:
    """The refusal can name it then."""
    message = trained_message(answer(other=WHOLE[MODEL]), CHOSEN, SPEC, "float32", 0)
    assert reply_of(message, CHOSEN, SPEC).payload.keys() == {"other"}
    assert read_answer(message, CHOSEN, SPEC).refusal == "reply of client 0 has payloads ['other']; expected ['model']"
